//! Aggregated roles and finished Jobs.

use serde_json::{Value, json};

use crate::harness::{Plane, resource};

#[tokio::test(start_paused = true)]
async fn aggregated_roles_follow_the_roles_they_choose() {
    let mut plane = Plane::idle().await;
    for role in apiserver::bootstrap::policy::cluster_roles() {
        plane.create(role).await;
    }
    plane.run(&["clusterrole-aggregation"]).await;
    plane.settle().await;
    assert_eq!(plane.requests(), Default::default(), "the roles a server begins with are whole");

    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "widgets-view", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]}]});
    let rule = role["rules"][0].clone();
    plane.create(role).await;
    let roles = resource("rbac.authorization.k8s.io/v1", "ClusterRole");
    for name in ["view", "edit", "admin"] {
        let has_it = async || {
            let role = plane.get(&roles, name).await?;
            role["rules"].as_array()?.contains(&rule).then_some(role)
        };
        let role = plane.until(name, has_it).await;
        let managers = role["metadata"]["managedFields"].as_array().expect("managers");
        let own_entry = managers.iter().find(|entry| entry["manager"] == "clusterrole-aggregation-controller");
        assert_eq!(own_entry.expect("an entry")["operation"], "Apply");
    }
    plane.delete(&roles, "widgets-view", "").await;
    let lost_it = async || (!plane.get(&roles, "admin").await?["rules"].as_array()?.contains(&rule)).then_some(());
    plane.until("the rule is gone", lost_it).await;
    plane.shutdown().await;
}

fn job(name: &str, ttl: Value) -> Value {
    let template =
        json!({"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "demo"},
        "spec": {"ttlSecondsAfterFinished": ttl, "template": template}})
}

#[tokio::test(start_paused = true)]
async fn finished_jobs_are_deleted_after_their_ttl() {
    let plane = Plane::start(&["ttl-after-finished"]).await;
    let jobs = resource("batch/v1", "Job");
    for (name, ttl) in [("short", json!(100)), ("raised", json!(100)), ("kept", Value::Null), ("running", json!(0))] {
        plane.create(job(name, ttl)).await;
    }
    let at = plane.world.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let done = json!({"status": {"startTime": at, "completionTime": at, "conditions": [
        {"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": at},
        {"type": "Complete", "status": "True", "lastTransitionTime": at}]}});
    for name in ["short", "raised", "kept"] {
        plane.merge_status(&jobs, &format!("demo/{name}"), done.clone()).await;
    }
    plane.settle().await;
    assert!(plane.get(&jobs, "demo/short").await.is_some(), "its time is not up");
    // The clock is set; no time has passed.
    for step in [86_400, -172_800] {
        plane.world.step(step);
        plane.merge(&jobs, "demo/short", json!({"metadata": {"annotations": {"step": step.to_string()}}})).await;
        plane.settle().await;
        let job = plane.get(&jobs, "demo/short").await.expect("a Job");
        assert!(job["metadata"]["deletionTimestamp"].is_null(), "its time is not up, step {step}");
    }
    plane.merge(&jobs, "demo/raised", json!({"spec": {"ttlSecondsAfterFinished": 500}})).await;
    let expired = async || {
        // No garbage collector runs here, so the test removes the finalizer of the foreground deletion.
        let job = plane.get(&jobs, "demo/short").await?;
        job["metadata"]["deletionTimestamp"].is_string().then_some(job)
    };
    let job = plane.until("short goes", expired).await;
    assert_eq!(job["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    for name in ["raised", "kept", "running"] {
        let job = plane.get(&jobs, &format!("demo/{name}")).await.expect(name);
        assert!(job["metadata"]["deletionTimestamp"].is_null(), "{name}");
    }
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn flow_schemas_report_whether_their_level_exists() {
    let plane = Plane::start(&["flowschema"]).await;
    let schemas = resource("flowcontrol.apiserver.k8s.io/v1", "FlowSchema");
    let schema = json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": "s"},
        "spec": {"priorityLevelConfiguration": {"name": "missing"}, "rules": [{"subjects": [{"kind": "User", "user": {"name": "a"}}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}]}});
    plane.create(schema).await;
    let status_is = async |status: &str| {
        let schema = plane.get(&schemas, "s").await?;
        let condition = schema["status"]["conditions"].as_array()?.first()?.clone();
        (condition["type"] == "Dangling" && condition["status"] == status).then_some(())
    };
    plane.until("it names nothing", || status_is("True")).await;
    let level = json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration",
        "metadata": {"name": "missing"}, "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}});
    plane.create(level).await;
    plane.until("it names a level", || status_is("False")).await;
    plane.shutdown().await;
}
