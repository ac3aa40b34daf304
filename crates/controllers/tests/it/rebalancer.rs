//! WorkloadRebalancers and bindings that are created, deleted and scheduled in the meantime.

use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use client::PatchOptions;
use controllers::Settings;
use karmada_api::ApiType;
use karmada_api::apps::v1alpha1::WorkloadRebalancer;
use karmada_api::scope::{Binding, Scope};
use serde_json::{Value, json};

use crate::harness::Plane;

fn bindings() -> ApiResource {
    Binding::api_resource(Scope::Namespaced)
}

fn rebalancers() -> ApiResource {
    WorkloadRebalancer::api_resource()
}

fn workload(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "demo", "name": name})
}

async fn bind(plane: &Plane, name: &str) -> ObjectKey {
    let binding = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": format!("{name}-deployment"), "namespace": "demo"}, "spec": {"resource": workload(name)}});
    plane.create(bindings(), binding).await.key()
}

async fn rebalance(plane: &Plane, name: &str, workloads: &[&str]) {
    let workloads: Vec<Value> = workloads.iter().map(|name| workload(name)).collect();
    let rebalancer = json!({"apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer",
        "metadata": {"name": name}, "spec": {"workloads": workloads}});
    plane.create(rebalancers(), rebalancer).await;
}

/// Results by name, once every workload has one for the current generation.
async fn results(plane: &Plane, name: &str) -> Vec<String> {
    let finished = async || {
        let rebalancer = plane.get(&rebalancers(), &ObjectKey::cluster(name)).await?;
        let status = &rebalancer["status"];
        let is_newest = status["observedGeneration"] == rebalancer["metadata"]["generation"];
        if !is_newest || !status["finishTime"].is_string() {
            return None;
        }
        let items = status["observedWorkloads"].as_array()?.iter();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Some(items.map(|it| format!("{} {}", text(&it["workload"]["name"]), text(&it["result"]))).collect())
    };
    plane.until(&format!("{name} has finished"), finished).await
}

/// In the API's format, so that the texts sort like the times.
async fn triggered(plane: &Plane, key: &ObjectKey) -> Option<String> {
    let binding = plane.get(&bindings(), key).await?;
    binding["spec"]["rescheduleTriggeredAt"].as_str().map(str::to_owned)
}

async fn schedule_now(plane: &Plane, key: &ObjectKey) -> String {
    let now = apimachinery::meta::Time::new(plane.world.now());
    let status = json!({"status": {"lastScheduledTime": now}});
    plane.merge(&bindings(), key, status, PatchOptions::status()).await;
    now.to_string()
}

#[tokio::test(start_paused = true)]
async fn a_binding_scheduled_in_the_same_second_is_triggered_in_the_next() {
    let plane = Plane::of(&["m1"], Settings::default()).await;
    let key = bind(&plane, "a").await;
    let scheduled = schedule_now(&plane, &key).await;
    rebalance(&plane, "r", &["a"]).await;
    assert_eq!(results(&plane, "r").await, ["a Successful"]);
    let triggered = triggered(&plane, &key).await.expect("a trigger");
    assert!(triggered > scheduled, "{triggered} has no effect after {scheduled}");
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn workloads_that_are_created_and_deleted() {
    let plane = Plane::of(&["m1"], Settings::default()).await;
    let (a, late) = (bind(&plane, "a").await, ObjectKey::namespaced("demo", "late-deployment"));
    rebalance(&plane, "r", &["late", "a"]).await;
    assert_eq!(results(&plane, "r").await, ["a Successful", "late Failed"]);
    let first = triggered(&plane, &a).await.expect("a trigger");
    // A failure is final until the workload is removed from the list and added again.
    bind(&plane, "late").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(triggered(&plane, &late).await, None);
    let list = async |names: &[&str]| {
        let workloads: Vec<Value> = names.iter().map(|name| workload(name)).collect();
        let patch = json!({"spec": {"workloads": workloads}});
        plane.merge(&rebalancers(), &ObjectKey::cluster("r"), patch, PatchOptions::default()).await;
    };
    plane.client.delete(&bindings(), &a, &client::DeleteOptions::default()).await.expect("deleted");
    list(&["a"]).await;
    assert_eq!(results(&plane, "r").await, ["a Successful"]);
    schedule_now(&plane, &late).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    list(&["a", "late"]).await;
    assert_eq!(results(&plane, "r").await, ["a Successful", "late Successful"]);
    // It was scheduled after the rebalancer was created, and is triggered nevertheless.
    assert!(triggered(&plane, &late).await.expect("a trigger") > first);
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_repeats_no_trigger() {
    let mut plane = Plane::of(&["m1"], Settings::default()).await;
    let key = bind(&plane, "a").await;
    rebalance(&plane, "r", &["a"]).await;
    assert_eq!(results(&plane, "r").await, ["a Successful"]);
    let before = plane.get(&bindings(), &key).await.expect("the binding");
    plane.stop_controllers().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    plane.restart_controllers().await;
    plane.settle().await;
    let after = plane.get(&bindings(), &key).await.expect("the binding");
    assert_eq!(before["spec"]["rescheduleTriggeredAt"], after["spec"]["rescheduleTriggeredAt"]);
    plane.shutdown().await;
}
