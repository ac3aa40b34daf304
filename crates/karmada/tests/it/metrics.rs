//! The metrics of a control plane while it propagates an application.

use std::time::Duration;

use apimachinery::ApiResource;
use client::ListOptions;
use http_body_util::BodyExt;
use serde_json::json;
use tower::ServiceExt;
use transport::{Identity, empty};

use crate::plane::Plane;

async fn metrics(plane: &Plane, identity: Option<Identity>) -> (u16, String) {
    let mut request = http::Request::get("/metrics").body(empty()).expect("a request");
    if let Some(identity) = identity {
        request.extensions_mut().insert(identity);
    }
    let response = plane.plane.service().oneshot(request).await.expect("a service that never fails");
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a body in memory").to_bytes();
    (code, String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_has_metrics() {
    let plane = Plane::start().await;
    let secrets = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    let secret = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}});
    plane.client().create(&secrets, &secret).await.expect("a config map");
    let policies = ApiResource::namespaced("policy.karmada.io", "v1alpha1", "PropagationPolicy", "propagationpolicies");
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "p", "namespace": "default"},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}], "placement": {"clusterAffinity": {"clusterNames": ["member1"]}}}});
    plane.client().create(&policies, &policy).await.expect("a policy");
    let works = ApiResource::namespaced("work.karmada.io", "v1alpha1", "Work", "works");
    loop {
        let list =
            plane.client().list(&works, Some("karmada-es-member1"), &ListOptions::default()).await.expect("works");
        let applied = |tree: serde_json::Value| {
            tree["metadata"]["name"].as_str().is_some_and(|it| it.starts_with("a-"))
                && tree["status"]["conditions"].to_string().contains("AppliedSuccessful")
        };
        if list.items.iter().any(|work| applied(work.to_value().expect("an object"))) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (code, text) = metrics(&plane, Some(Identity::system("monitor"))).await;
    assert_eq!(code, 200);
    for line in [
        "cluster_ready_state{member_cluster=\"member1\"} 1\n",
        "policy_apply_attempts_total{result=\"success\"} ",
        "resource_apply_policy_duration_seconds_count{result=\"success\"} ",
        "binding_sync_work_duration_seconds_count{result=\"success\"} ",
        "work_sync_workload_duration_seconds_count{result=\"success\"} ",
        "create_resource_to_cluster{result=\"success\",apiversion=\"v1\",kind=\"ConfigMap\",member_cluster=\"member1\",recreate=\"false\"} 1\n",
        "karmada_scheduler_schedule_attempts_total{result=\"scheduled\",schedule_type=\"ReconcileSchedule\"} ",
        "karmada_scheduler_e2e_scheduling_duration_seconds_count{result=\"scheduled\",schedule_type=\"ReconcileSchedule\"} ",
        "karmada_scheduler_queue_incoming_bindings_total{event=\"BindingAdd\"} ",
        "karmada_build_info{git_version=\"v",
        "kubernetes_build_info{major=\"1\",minor=\"36\",git_version=\"v1.36.",
        "apiserver_resource_objects{group=\"\",resource=\"configmaps\"} ",
        "process_resident_memory_bytes ",
        "rest_client_requests_total{code=\"201\",method=\"POST\",host=\"in-process\"} ",
        "workqueue_queue_duration_seconds_count{name=\"binding-controller\",controller=\"binding-controller\"} ",
        "workqueue_unfinished_work_seconds{name=\"binding-controller\",controller=\"binding-controller\"} ",
        "scheduler_pending_bindings{queue=\"active\"} 0\n",
        "controller_runtime_reconcile_total{controller=\"binding-controller\",result=\"success\"} ",
        "controller_runtime_reconcile_total{controller=\"execution-controller\",result=\"",
        "workqueue_depth{name=\"binding-controller\",controller=\"binding-controller\",priority=\"\"} 0\n",
        "apiserver_request_total{verb=\"POST\",dry_run=\"\",group=\"policy.karmada.io\",version=\"v1alpha1\",resource=\"propagationpolicies\",subresource=\"\",scope=\"namespace\",component=\"apiserver\",code=\"201\"} 1\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let anonymous = metrics(&plane, None).await;
    assert_eq!(anonymous.0, 403, "{}", anonymous.1);
}
