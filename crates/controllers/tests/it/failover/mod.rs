//! Workloads that are moved between clusters.

mod application;
pub mod brake;
mod clocks;
mod graceful;
mod leaving;
mod taints;

use apimachinery::{ApiResource, ObjectKey};
use client::{ListOptions, Patch, PatchOptions};
use controllers::{Eviction, Gates, Settings};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::scope::{Binding, Policy, Scope};
use serde_json::{Value, json};

use crate::harness::{MEMBERS, Plane, get, namespaces};

pub fn deployments() -> ApiResource {
    ApiResource::namespaced("apps", "v1", "Deployment", "deployments")
}

pub fn demo(name: &str) -> ObjectKey {
    ObjectKey::namespaced("demo", name)
}

/// All features enabled, with high rates.
fn evicting() -> Settings {
    Settings {
        gates: Gates { failover: true, stateful_failover: true, ..Gates::default() },
        eviction: Eviction { by_taints: true, ..Eviction::default() },
        ..Settings::default()
    }
}

async fn plane(settings: Settings) -> Plane {
    plane_of(&MEMBERS, settings).await
}

async fn plane_of(members: &[&str], settings: Settings) -> Plane {
    let plane = Plane::of(members, settings).await;
    // The namespace of events of cluster-scoped objects.
    let default = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    plane.create(namespaces(), default).await;
    for name in members {
        plane.join(name).await;
        plane.until_ready(name).await;
    }
    plane
}

/// A Deployment with three replicas in one cluster at a time; it tolerates the taint `down` for 30 s.
async fn create(plane: &Plane, name: &str, failover: Value) {
    let one_cluster = json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]);
    create_spread(plane, name, failover, one_cluster).await;
}

async fn create_spread(plane: &Plane, name: &str, failover: Value, spread: Value) {
    let template =
        json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "demo"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": name}}, "template": template}});
    plane.create(deployments(), deployment).await;
    let placement = json!({"spreadConstraints": spread,
        "clusterTolerations": [{"key": "down", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}]});
    let selector = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name});
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": "demo"}, "spec": {"placement": placement, "failover": failover,
        "propagateDeps": true, "resourceSelectors": [selector]}});
    plane.create(Policy::api_resource(Scope::Namespaced), policy).await;
}

async fn binding(plane: &Plane, name: &str) -> Value {
    let binding = plane.get(&Binding::api_resource(Scope::Namespaced), &demo(&format!("{name}-deployment"))).await;
    binding.unwrap_or_default()
}

fn clusters(binding: &Value) -> Vec<String> {
    let targets = binding["spec"]["clusters"].as_array().cloned().unwrap_or_default();
    targets.iter().filter_map(|target| target["name"].as_str().map(str::to_owned)).collect()
}

fn tasks(binding: &Value) -> Vec<Value> {
    binding["spec"]["gracefulEvictionTasks"].as_array().cloned().unwrap_or_default()
}

/// The status that a member's own controllers report for a copy with this many ready replicas.
async fn report(plane: &Plane, member: &str, name: &str, ready: i64) {
    let member = plane.member(member);
    let copy = plane.until("a copy", async || get(&member, &deployments(), &demo(name)).await).await;
    let status = json!({"status": {"observedGeneration": copy["metadata"]["generation"], "replicas": copy["spec"]["replicas"],
        "readyReplicas": ready, "updatedReplicas": copy["spec"]["replicas"], "availableReplicas": ready}});
    member
        .patch(&deployments(), &demo(name), &Patch::Merge(status), &PatchOptions::status())
        .await
        .expect("the member's status");
}

/// Waits until the binding reports this health of a member.
async fn until_health(plane: &Plane, member: &str, name: &str, health: &str) {
    plane
        .until(&format!("{name} in {member} is {health}"), async || {
            let binding = binding(plane, name).await;
            let items = binding["status"]["aggregatedStatus"].as_array()?.clone();
            items.iter().any(|item| item["clusterName"] == member && item["health"] == health).then_some(())
        })
        .await;
}

/// A workload that runs in one member; returns that member and the other one.
async fn running(plane: &Plane, name: &str, failover: Value) -> (String, String) {
    create(plane, name, failover).await;
    let from = until_scheduled(plane, name, &[]).await;
    report(plane, &from, name, 3).await;
    until_health(plane, &from, name, "Healthy").await;
    plane.settle().await;
    let to = MEMBERS.iter().find(|member| **member != from).expect("another member");
    (from, (*to).to_owned())
}

/// Waits for a cluster that is not in `former`.
async fn until_scheduled(plane: &Plane, name: &str, former: &[&str]) -> String {
    plane
        .until("a schedule", async || {
            let mut clusters = clusters(&binding(plane, name).await);
            clusters.retain(|cluster| !former.contains(&cluster.as_str()));
            (clusters.len() == 1).then(|| clusters.remove(0))
        })
        .await
}

async fn taint(plane: &Plane, cluster: &str, taints: Value) {
    let patch = json!({"spec": {"taints": taints}});
    plane.merge(&Cluster::api_resource(), &ObjectKey::cluster(cluster), patch, PatchOptions::default()).await;
}

async fn taint_down(plane: &Plane, cluster: &str) {
    taint(plane, cluster, json!([{"key": "down", "effect": "NoExecute"}])).await;
}

async fn until_gone(plane: &Plane, member: &str, name: &str) {
    let client = plane.member(member);
    plane
        .until(&format!("{name} left {member}"), async || {
            get(&client, &deployments(), &demo(name)).await.is_none().then_some(())
        })
        .await;
}

async fn copy(plane: &Plane, member: &str, name: &str) -> Option<Value> {
    get(&plane.member(member), &deployments(), &demo(name)).await
}

async fn events(plane: &Plane, reason: &str) -> Vec<Value> {
    let events = ApiResource::namespaced("", "v1", "Event", "events");
    plane.settle().await;
    let list = plane.client.list(&events, None, &ListOptions::default()).await.expect("events");
    let all = list.items.iter().map(|event| event.to_value().expect("an event"));
    all.filter(|event| event["reason"] == reason).collect()
}
