//! Quotas whose bindings are written through an API server without enforcement: a webhook charges growth, the
//! controllers release usage.

use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use client::{Patch, PatchOptions};
use controllers::{Gates, Settings};
use karmada_api::ApiType;
use karmada_api::policy::v1alpha1::FederatedResourceQuota;
use karmada_api::scope::{Binding, Scope};
use karmada_api::work::v1alpha1::Work;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::failures::messages_of;
use crate::harness::Plane;

fn bindings() -> ApiResource {
    Binding::api_resource(Scope::Namespaced)
}

fn quotas() -> ApiResource {
    FederatedResourceQuota::api_resource()
}

fn demo(name: &str) -> ObjectKey {
    ObjectKey::namespaced("demo", name)
}

async fn plane(is_enforced: bool) -> Plane {
    let gates = Gates { quota_enforcement: is_enforced, ..Gates::default() };
    let plane = Plane::of(&["m1"], Settings { gates, ..Settings::default() }).await;
    plane.join("m1").await;
    plane.until_ready("m1").await;
    plane
}

/// A binding that uses this many CPUs. No policy claims it, so its result is not changed.
async fn bind(plane: &Plane, name: &str, replicas: u32) {
    let binding = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": name, "namespace": "demo"},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "demo", "name": name},
            "replicaRequirements": {"resourceRequest": {"cpu": "1"}}, "replicas": replicas,
            "clusters": [{"name": "elsewhere", "replicas": replicas}]}});
    plane.create(bindings(), binding).await;
}

async fn create_quota(plane: &Plane, assignments: Value) {
    let quota = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota",
        "metadata": {"name": "q", "namespace": "demo"}, "spec": {"overall": {"cpu": "10"}, "staticAssignments": assignments}});
    plane.create(quotas(), quota).await;
}

async fn used(plane: &Plane) -> Option<String> {
    let quota = plane.get(&quotas(), &demo("q")).await?;
    let counted = quota["status"]["overall"].is_object();
    counted.then(|| quota["status"]["overallUsed"]["cpu"].as_str().unwrap_or("0").to_owned())
}

async fn until_used(plane: &Plane, expected: &str) -> Duration {
    let start = Instant::now();
    let what = format!("{expected} CPUs are used");
    plane.until(&what, async || used(plane).await.filter(|used| used == expected)).await;
    start.elapsed()
}

async fn delete(plane: &Plane, resource: &ApiResource, key: &ObjectKey) {
    plane.client.delete(resource, key, &client::DeleteOptions::default()).await.expect("deleted");
}

#[tokio::test(start_paused = true)]
async fn freed_usage_is_released() {
    let plane = plane(true).await;
    bind(&plane, "a", 3).await;
    bind(&plane, "b", 2).await;
    create_quota(&plane, json!([])).await;
    until_used(&plane, "5").await;
    let counted = async || messages_of(&plane, "CollectOverallStatusSucceed", "q").await.first().cloned();
    let counted = plane.until("the event", counted).await;
    assert_eq!(counted, "Collect status of FederatedResourceQuota(demo/q) succeed.");
    // No recent charges: usage is released immediately, long before the next count.
    delete(&plane, &bindings(), &demo("a")).await;
    let took = until_used(&plane, "2").await;
    assert!(took < Duration::from_secs(5), "{took:?}");
    let fewer = json!({"spec": {"clusters": [{"name": "elsewhere", "replicas": 1}]}});
    plane.merge(&bindings(), &demo("b"), fewer, PatchOptions::default()).await;
    let took = until_used(&plane, "1").await;
    assert!(took < Duration::from_secs(5), "{took:?}");
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_charge_in_flight_is_kept_and_an_unused_one_released() {
    let plane = plane(true).await;
    bind(&plane, "a", 3).await;
    create_quota(&plane, json!([])).await;
    until_used(&plane, "3").await;
    // A webhook charges for a binding that is not stored yet; meanwhile another binding is deleted.
    let charged = Patch::Merge(json!({"status": {"overallUsed": {"cpu": "9"}}}));
    let options = PatchOptions { field_manager: Some("karmada-webhook".into()), ..PatchOptions::status() };
    plane.client.patch(&quotas(), &demo("q"), &charged, &options).await.expect("charged");
    delete(&plane, &bindings(), &demo("a")).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(used(&plane).await.as_deref(), Some("9"), "the charged binding may be about to be stored");
    let took = until_used(&plane, "0").await;
    assert!(took < Duration::from_secs(15), "{took:?}");
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_wrong_sum_is_corrected_after_a_restart() {
    let mut plane = plane(true).await;
    bind(&plane, "a", 3).await;
    create_quota(&plane, json!([])).await;
    until_used(&plane, "3").await;
    plane.stop_controllers().await;
    let wrong = json!({"status": {"overallUsed": {"cpu": "1"}}});
    plane.merge(&quotas(), &demo("q"), wrong, PatchOptions::status()).await;
    plane.restart_controllers().await;
    until_used(&plane, "3").await;
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_work_of_a_quota_deleted_during_downtime_is_deleted() {
    let mut plane = plane(false).await;
    create_quota(&plane, json!([{"clusterName": "m1", "hard": {"cpu": "4"}}])).await;
    let work = ObjectKey::namespaced("karmada-es-m1", karmada_api::names::work_name("ResourceQuota", "q", "demo"));
    plane.until("the Work", async || plane.get(&Work::api_resource(), &work).await).await;
    plane.stop_controllers().await;
    delete(&plane, &quotas(), &demo("q")).await;
    plane.restart_controllers().await;
    plane
        .until("no Work", async || match plane.get(&Work::api_resource(), &work).await {
            None => Some(()),
            Some(_) => None,
        })
        .await;
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_gets_its_assignment_when_it_joins() {
    let plane = Plane::of(&["m1", "m2"], Settings::default()).await;
    plane.join("m1").await;
    plane.until_ready("m1").await;
    create_quota(
        &plane,
        json!([{"clusterName": "m1", "hard": {"cpu": "4"}}, {"clusterName": "m2", "hard": {"cpu": "6"}}]),
    )
    .await;
    let hard = async |cluster: &str| {
        let name = karmada_api::names::work_name("ResourceQuota", "q", "demo");
        let work =
            plane.get(&Work::api_resource(), &ObjectKey::namespaced(format!("karmada-es-{cluster}"), name)).await?;
        work["spec"]["workload"]["manifests"][0]["spec"]["hard"]["cpu"].as_str().map(str::to_owned)
    };
    assert_eq!(plane.until("the part of m1", async || hard("m1").await).await, "4");
    assert_eq!(hard("m2").await, None);
    plane.join("m2").await;
    assert_eq!(plane.until("the part of m2", async || hard("m2").await).await, "6");
    plane.shutdown().await;
}
