//! FederatedHPA and CronFederatedHPA on members without workloads: schedules, bounds, and what is reported when a
//! workload cannot be scaled.

use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use client::DeleteOptions;
use controllers::Settings;
use karmada_api::ApiType;
use karmada_api::autoscaling::v1alpha1::{CronFederatedHPA, FederatedHPA};
use serde_json::{Value, json};

use crate::failures::messages_of;
use crate::harness::Plane;

fn deployments() -> ApiResource {
    ApiResource::namespaced("apps", "v1", "Deployment", "deployments")
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("demo", name)
}

async fn deployment(plane: &Plane, name: &str, replicas: i64) {
    let template =
        json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "demo"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}});
    plane.create(deployments(), object).await;
}

async fn federated(plane: &Plane, name: &str, target: &str, min: i64) {
    let object = json!({"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA",
        "metadata": {"name": name, "namespace": "demo"}, "spec": {"minReplicas": min, "maxReplicas": 9,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}}});
    plane.create(FederatedHPA::api_resource(), object).await;
}

async fn cron(plane: &Plane, name: &str, target: Value, rules: Value) {
    let object = json!({"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "CronFederatedHPA",
        "metadata": {"name": name, "namespace": "demo"}, "spec": {"scaleTargetRef": target, "rules": rules}});
    plane.create(CronFederatedHPA::api_resource(), object).await;
}

async fn histories(plane: &Plane, name: &str) -> Value {
    let object = plane.get(&CronFederatedHPA::api_resource(), &key(name)).await.expect("a CronFederatedHPA");
    object["status"]["executionHistories"].clone()
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// The virtual time starts at midnight.
#[tokio::test(start_paused = true)]
async fn rules_scale_a_deployment_at_their_times() {
    let plane = Plane::of(&["m1"], Settings::default()).await;
    deployment(&plane, "web", 1).await;
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let rules = json!([{"name": "up", "schedule": "*/10 * * * *", "targetReplicas": 5, "successfulHistoryLimit": 2},
        {"name": "down", "schedule": "5-59/10 * * * *", "targetReplicas": 2},
        {"name": "off", "schedule": "* * * * *", "targetReplicas": 9, "suspend": true},
        {"name": "tokyo", "schedule": "0 9 * * *", "timeZone": "Asia/Tokyo", "targetReplicas": 3}]);
    cron(&plane, "c", target, rules).await;
    let replicas = async || plane.get(&deployments(), &key("web")).await.expect("web")["spec"]["replicas"].clone();
    pass(120).await;
    assert_eq!(replicas().await, 1, "no rule is due at its creation");
    let started = histories(&plane, "c").await;
    assert_eq!(started[0]["nextExecutionTime"], "2026-11-21T00:10:00Z");
    assert_eq!(started[2], json!({"ruleName": "off"}));
    assert_eq!(started[3]["nextExecutionTime"], "2026-11-22T00:00:00Z", "9 in Tokyo is midnight");
    pass(200).await;
    assert_eq!(replicas().await, 2);
    pass(300).await;
    assert_eq!(replicas().await, 5);
    pass(1200).await;
    let later = histories(&plane, "c").await;
    let runs = later[0]["successfulExecutions"].as_array().expect("runs").clone();
    assert_eq!(runs.len(), 2, "{later}");
    assert_eq!(runs[0]["scheduleTime"], "2026-11-21T00:30:00Z");
    assert_eq!(runs[0]["appliedReplicas"], 5);
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn rules_bound_a_federated_hpa_and_keep_their_failures() {
    let plane = Plane::of(&["m1"], Settings::default()).await;
    deployment(&plane, "web", 1).await;
    federated(&plane, "web", "web", 1).await;
    let target = json!({"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA", "name": "web"});
    let rules = json!([{"name": "min", "schedule": "1 * * * *", "targetMinReplicas": 5}]);
    cron(&plane, "good", target, rules).await;
    let gone = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "gone"});
    let rules = json!([{"name": "a", "schedule": "1 * * * *", "targetReplicas": 5},
        {"name": "none", "schedule": "1 * * * *", "targetReplicas": 5, "failedHistoryLimit": 0}]);
    cron(&plane, "bad", gone, rules).await;
    pass(90).await;
    let hpa = plane.get(&FederatedHPA::api_resource(), &key("web")).await.expect("a FederatedHPA");
    assert_eq!((&hpa["spec"]["minReplicas"], &hpa["spec"]["maxReplicas"]), (&json!(5), &json!(9)));
    let good = histories(&plane, "good").await;
    assert_eq!(good[0]["successfulExecutions"][0]["appliedMinReplicas"], 5, "{good}");
    let bad = histories(&plane, "bad").await;
    let message = bad[0]["failedExecutions"][0]["message"].as_str().expect("a message");
    assert!(message.contains("\"gone\" not found"), "{message}");
    assert!(bad[1].get("failedExecutions").is_none(), "a limit of 0 keeps none: {bad}");
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn failures_of_a_decision_are_reported() {
    let plane = Plane::of(&["m1"], Settings::default()).await;
    federated(&plane, "missing", "missing", 1).await;
    deployment(&plane, "unbound", 1).await;
    federated(&plane, "unbound", "unbound", 1).await;
    pass(20).await;
    let able = async |name: &str| {
        let hpa = plane.get(&FederatedHPA::api_resource(), &key(name)).await.expect("a FederatedHPA");
        let condition = &hpa["status"]["conditions"][0];
        format!("{}={} {}", condition["type"], condition["status"], condition["reason"]).replace('"', "")
    };
    assert_eq!(able("missing").await, "AbleToScale=False FailedGetScaleTargetRef");
    let event = messages_of(&plane, "FailedGetScaleTargetRef", "missing").await;
    assert_eq!(event, ["deployments.apps \"missing\" not found"]);
    assert_eq!(able("unbound").await, "AbleToScale=False FailedGetBinding");
    assert_eq!(messages_of(&plane, "FailedGetBindings", "unbound").await, ["target resource has no label"]);
    let revision = async || {
        let hpa = plane.get(&FederatedHPA::api_resource(), &key("unbound")).await.expect("a FederatedHPA");
        hpa["metadata"]["resourceVersion"].clone()
    };
    let before = revision().await;
    pass(300).await;
    assert_eq!(revision().await, before, "an unchanged status is not written again");
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_propagated_autoscaler_of_the_same_target_is_reported() {
    let plane = Plane::of(&["m1"], Settings::default()).await;
    deployment(&plane, "web", 1).await;
    federated(&plane, "web", "web", 1).await;
    let autoscalers =
        ApiResource::namespaced("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers");
    let object = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "in-members", "namespace": "demo"}, "spec": {"maxReplicas": 5,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}});
    plane.create(autoscalers.clone(), object).await;
    let reported = async || {
        pass(40).await;
        let hpa = plane.get(&FederatedHPA::api_resource(), &key("web")).await.expect("a FederatedHPA");
        let conditions = hpa["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.into_iter().find(|it| it["type"] == "karmada-rs.io/Contested");
        found.map(|it| it["message"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(reported().await, None, "it stays in the control plane");
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "pp", "namespace": "demo"}, "spec": {"placement": {}, "resourceSelectors":
            [{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "name": "in-members"}]}});
    let policies = ApiResource::namespaced("policy.karmada.io", "v1alpha1", "PropagationPolicy", "propagationpolicies");
    plane.create(policies, policy).await;
    let message = reported().await.expect("a condition");
    assert!(message.starts_with("Deployment demo/web is scaled by this FederatedHPA"), "{message}");
    assert!(message.contains("HorizontalPodAutoscaler demo/in-members"), "{message}");
    assert_eq!(messages_of(&plane, "PropagatedAutoscaler", "web").await, [message]);
    plane.client.delete(&autoscalers, &key("in-members"), &DeleteOptions::background()).await.expect("the deletion");
    assert_eq!(reported().await, None);
    plane.shutdown().await;
}
