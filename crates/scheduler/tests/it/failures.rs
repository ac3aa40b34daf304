//! Unschedulable bindings: their conditions, and their triggers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use client::PatchOptions;
use karmada_api::scope::{Binding, Scope};
use scheduler::Options;
use scheduler::queue::KeyState;
use scheduler::triggers::IgnoreReason;
use serde_json::json;
use transport::Response;

use crate::harness::{Plane, capacity, enablement, key};

#[tokio::test(start_paused = true)]
async fn without_clusters_a_binding_waits_for_a_join() {
    let plane = Plane::start().await;
    let web = key("web");
    plane.bind(&web, json!({})).await;
    let nowhere = " | False NoClusterFit: 0/0 clusters are available: no cluster exists.";
    plane.expect(&web, nowhere).await;
    let before = plane.requests();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(plane.requests(), before, "no requests without changes");
    plane.join("m1", json!({})).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    plane.expect(&web, "m1:2 | True Success").await;
    let events = plane.events(&web).await;
    let warning = "Deployment Warning ScheduleBindingFailed: 0/0 clusters are available: no cluster exists.";
    assert!(events.iter().any(|event| event == warning), "{events:?}");
    plane.shutdown();
}

#[tokio::test(start_paused = true)]
async fn an_unschedulable_binding_is_retried_after_five_minutes() {
    let plane = Plane::start().await;
    let web = key("web");
    plane.bind(&web, json!({})).await;
    plane.settle().await;
    let left = || match plane.scheduler.explain(&web).expect("it exists").key_state {
        KeyState::Waiting { until } => until,
        other => panic!("{other:?}"),
    };
    let first = left();
    assert!(first <= Duration::from_secs(300), "{first:?}");
    let before = plane.requests();
    tokio::time::sleep(first - Duration::from_secs(1)).await;
    assert!(left() <= Duration::from_secs(1), "{:?}", left());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(left() > Duration::from_secs(290), "a pass ended in between: {:?}", left());
    assert_eq!(plane.requests(), before, "the same decision writes nothing");
    plane.shutdown();
}

#[tokio::test(start_paused = true)]
async fn new_api_enablements_wake_only_bindings_that_need_them() {
    let plane = Plane::start().await;
    plane.join("m1", json!({"status": {"apiEnablements": [enablement("v1", "ConfigMap")]}})).await;
    plane.join("m2", json!({"status": {"apiEnablements": [enablement("v1", "ConfigMap")]}})).await;
    let (web, divided, config) = (key("web"), key("divided"), key("config"));
    let strategy = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"});
    plane.bind(&web, json!({})).await;
    plane.bind(&divided, json!({"placement": {"replicaScheduling": strategy}})).await;
    plane.bind(&config, json!({"replicas": null, "resource": {"apiVersion": "v1", "kind": "ConfigMap"}})).await;
    let nowhere = " | False NoClusterFit: 0/2 clusters are available: 2 cluster(s) did not have the API resource.";
    plane.expect(&web, nowhere).await;
    plane.expect(&divided, nowhere).await;
    plane.expect(&config, "m1:0 m2:0 | True Success").await;
    let before = plane.writes();
    let both = json!({"apiEnablements": [enablement("apps/v1", "Deployment"), enablement("v1", "ConfigMap")]});
    plane.cluster_status("m1", both.clone()).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    plane.expect(&web, "m1:2 | True Success").await;
    plane.expect(&divided, "m1:2 | True Success").await;
    // Another cluster that serves the kind is one more for copies, and no reason to move shares.
    plane.cluster_status("m2", both).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    plane.expect(&web, "m1:2 m2:2 | True Success").await;
    plane.expect(&divided, "m1:2 | True Success").await;
    assert_eq!(plane.writes() - before, 3, "{:?}", plane.requests());
    plane.shutdown();
}

#[tokio::test(start_paused = true)]
async fn bindings_without_capacity_wait_for_capacity() {
    let plane = Plane::start().await;
    plane.join("m1", json!({"status": {"resourceSummary": capacity(3)}})).await;
    let dynamic = json!({"replicaScheduling": {"replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted", "weightPreference": {"dynamicWeight": "AvailableReplicas"}}});
    let web = key("web");
    plane.bind(&web, json!({"replicas": 2, "placement": dynamic})).await;
    plane.expect(&web, "m1:2 | True Success").await;
    plane.change(&web, json!({"replicas": 7})).await;
    let short = "m1:2 | False Unschedulable: failed to assign replicas: failed to scale up: Clusters available replicas \
                 3 are not enough to schedule.";
    plane.expect(&web, short).await;
    // The condition does not outlive its cause.
    plane.change(&web, json!({"replicas": 2})).await;
    plane.expect(&web, "m1:2 | True Success").await;
    plane.change(&web, json!({"replicas": 7})).await;
    plane.expect(&web, short).await;
    let before = plane.writes();
    plane.cluster_status("m1", json!({"resourceSummary": capacity(4)})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    plane.expect(&web, &short.replace(" 3 ", " 4 ")).await;
    assert_eq!(plane.writes() - before, 1, "the condition alone: but for numbers the reasons are known");
    let record = plane.record(&web).await.expect("reasons");
    assert!(record.error.contains("Clusters available replicas 3 are not enough"), "{record:?}");
    assert_eq!((record.passed[0].name.as_str(), record.passed[0].free, record.clusters), ("m1", 3, 1));
    plane.cluster_status("m1", json!({"resourceSummary": capacity(5)})).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    plane.expect(&web, "m1:7 | True Success").await;
    let record = plane.record(&web).await.expect("reasons");
    assert_eq!((record.error.as_str(), record.chosen[0].replicas), ("", 7));
    plane.shutdown();
}

#[tokio::test(start_paused = true)]
async fn a_leaving_cluster_affects_no_copies_elsewhere() {
    let plane = Plane::start().await;
    for name in ["m1", "m2"] {
        plane.join(name, json!({"metadata": {"finalizers": ["karmada.io/cluster-controller"]}})).await;
    }
    let web = key("web");
    plane.bind(&web, json!({})).await;
    plane.expect(&web, "m1:2 m2:2 | True Success").await;
    plane.leave("m1").await;
    plane.expect(&web, "m2:2 | True Success").await;
    plane.leave("m2").await;
    plane.expect(&web, " | False NoClusterFit: 0/2 clusters are available: no cluster exists.").await;
    plane.shutdown();
}

/// A refusal as the API server writes it.
pub fn refusal(code: u16, reason: &str, message: &str) -> Response {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
        "reason": reason, "message": message});
    let mut response = Response::new(transport::full(status.to_string()));
    *response.status_mut() = http::StatusCode::from_u16(code).expect("a code");
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    response
}

#[tokio::test(start_paused = true)]
async fn rejected_writes_are_retried_with_growing_pauses() {
    let plane = Plane::start().await;
    plane.join("m1", json!({})).await;
    let changes = Arc::new(AtomicU32::new(0));
    let counted = changes.clone();
    plane.gate(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Some(refusal(500, "InternalError", "no")) })
    });
    let web = key("web");
    plane.bind(&web, json!({})).await;
    // Passes at 0, 1, 3, 7, 15, 25 … s, of two refused writes each.
    tokio::time::sleep(Duration::from_millis(30_500)).await;
    assert_eq!(changes.load(Ordering::SeqCst), 12);
    plane.open();
    tokio::time::sleep(Duration::from_secs(10)).await;
    plane.expect(&web, "m1:2 | True Success").await;
    plane.shutdown();
}

#[tokio::test(start_paused = true)]
async fn a_quota_is_named_in_the_condition() {
    let plane = Plane::start().await;
    plane.join("m1", json!({})).await;
    let mut changes = 0;
    plane.gate(move || {
        changes += 1;
        let refuse = changes % 2 == 1;
        Box::pin(async move { refuse.then(|| refusal(403, "QuotaExceeded", "quota of the federation is used up")) })
    });
    let web = key("web");
    plane.bind(&web, json!({})).await;
    plane.expect(&web, " | False QuotaExceeded: quota of the federation is used up").await;
    plane.open();
    tokio::time::sleep(Duration::from_secs(10)).await;
    plane.expect(&web, "m1:2 | True Success").await;
    plane.shutdown();
}

#[tokio::test(start_paused = true)]
async fn explanations_name_the_required_change() {
    let plane = Plane::start().await;
    let taint = json!({"key": "k", "value": "v", "effect": "NoSchedule"});
    plane.join("m1", json!({"spec": {"taints": [taint]}})).await;
    plane.join("m2", json!({"status": {"apiEnablements": []}})).await;
    let web = key("web");
    assert_eq!(plane.scheduler.explain(&web), None);
    plane.bind(&web, json!({})).await;
    let why = " | False NoClusterFit: 0/2 clusters are available: 1 cluster(s) did not have the API resource, 1 \
               cluster(s) had untolerated taint {k=v:NoSchedule}.";
    plane.expect(&web, why).await;
    let explanation = plane.scheduler.explain(&web).expect("it exists");
    assert!(matches!(explanation.key_state, KeyState::Waiting { .. }), "{:?}", explanation.key_state);
    let findings = explanation.findings.expect("it is ours");
    let rejected =
        findings.clusters.iter().map(|it| it.rejected_by.as_ref().map(|by| (it.cluster.as_str(), by.plugin)));
    assert_eq!(rejected.collect::<Vec<_>>(), [Some(("m1", "TaintToleration")), Some(("m2", "APIEnablement"))]);
    plane.change_cluster("m1", json!({"spec": {"taints": null}})).await;
    plane.expect(&web, "m1:2 | True Success").await;
    let explanation = plane.scheduler.explain(&web).expect("it exists");
    assert_eq!(explanation.key_state, KeyState::Settled);
    let findings = explanation.findings.expect("it is ours");
    assert!(findings.clusters[0].chosen && !findings.clusters[1].chosen, "{findings:?}");
    plane.change(&web, json!({"suspension": {"scheduling": true}})).await;
    plane.settle().await;
    let explanation = plane.scheduler.explain(&web).expect("it exists");
    assert_eq!(explanation.findings, Err(IgnoreReason::Suspended));
    plane.shutdown();
}

#[tokio::test(start_paused = true)]
async fn overcommit_protection_assigns_capacity_once() {
    let dynamic = json!({"replicaScheduling": {"replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted", "weightPreference": {"dynamicWeight": "AvailableReplicas"}}});
    let names: Vec<_> = (0..8).map(|index| key(&format!("web-{index}"))).collect();
    for protected in [false, true] {
        let mut plane = Plane::start().await;
        plane.join("m1", json!({"status": {"resourceSummary": capacity(10)}})).await;
        plane.restart_with(Options { overcommit_protection: protected, ..Options::default() });
        for name in &names {
            plane.bind(name, json!({"replicas": 2, "placement": dynamic})).await;
        }
        plane.settle().await;
        let mut placed = 0;
        for name in &names {
            let state = plane.state(name).await;
            placed += usize::from(state == "m1:2 | True Success");
            assert!(state.contains("True") || state.contains("Unschedulable"), "{state}");
        }
        assert_eq!(placed, if protected { 5 } else { 8 });
        // Running replicas are counted by the cluster and no longer by the scheduler.
        let resource = Binding::api_resource(Scope::Namespaced);
        let healthy = json!({"status": {"aggregatedStatus": [{"clusterName": "m1", "health": "Healthy"}]}});
        plane.merge(&resource, &names[0], healthy, PatchOptions::status()).await;
        plane.cluster_status("m1", json!({"resourceSummary": {"allocated": {"pods": "1"}}})).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        let found = plane.state(&names[7]).await;
        assert_eq!(found.contains("Clusters available replicas 1 are"), protected, "{found}");
        plane.shutdown();
    }
}
