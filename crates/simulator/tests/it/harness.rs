//! A simulated member for tests, on virtual time.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use serde_json::{Value, json};
use simulator::{Access, Member, MemberOptions};
use storage::memory::MemoryStore;
use world::World;

pub async fn member(options: MemberOptions) -> Member {
    let world = World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 3);
    on(Arc::new(MemoryStore::new()), options, world).await
}

/// A member on a store that may contain earlier state.
pub async fn on(store: Arc<MemoryStore>, options: MemberOptions, world: World) -> Member {
    Member::start(options, store, world, Access::default()).await.expect("the member starts")
}

pub fn resource(kind: &str) -> ApiResource {
    let (group, plural) = match kind {
        "Deployment" => ("apps", "deployments"),
        "ReplicaSet" => ("apps", "replicasets"),
        "StatefulSet" => ("apps", "statefulsets"),
        "DaemonSet" => ("apps", "daemonsets"),
        "ControllerRevision" => ("apps", "controllerrevisions"),
        "Job" => ("batch", "jobs"),
        "Pod" => ("", "pods"),
        "PersistentVolumeClaim" => ("", "persistentvolumeclaims"),
        "Service" => ("", "services"),
        "ConfigMap" => ("", "configmaps"),
        "EndpointSlice" => ("discovery.k8s.io", "endpointslices"),
        "Node" => return ApiResource::cluster("", "v1", "Node", "nodes"),
        other => panic!("{other} is not among the kinds of these tests"),
    };
    ApiResource::namespaced(group, "v1", kind, plural)
}

pub async fn create(member: &Member, object: Value) -> Value {
    let resource = resource(object["kind"].as_str().expect("a kind"));
    member.client().create(&resource, &object).await.expect("the object is created").to_value().expect("JSON")
}

pub async fn get(member: &Member, kind: &str, name: &str) -> Value {
    let found = member.client().get(&resource(kind), &key(kind, name)).await.expect("the object exists");
    found.to_value().expect("JSON")
}

pub async fn patch(member: &Member, kind: &str, name: &str, patch: Value) {
    let patch = client::Patch::Merge(patch);
    member.client().patch(&resource(kind), &key(kind, name), &patch, &Default::default()).await.expect("a patch");
}

pub async fn delete(member: &Member, kind: &str, name: &str) {
    let options = client::DeleteOptions::background();
    member.client().delete(&resource(kind), &key(kind, name), &options).await.expect("a deletion");
}

pub fn key(kind: &str, name: &str) -> ObjectKey {
    if kind == "Node" { ObjectKey::cluster(name) } else { ObjectKey::namespaced("default", name) }
}

pub async fn list(member: &Member, kind: &str) -> Vec<Value> {
    let list = member.client().list(&resource(kind), None, &Default::default()).await.expect("a list");
    list.items.iter().map(|item| item.to_value().expect("JSON")).collect()
}

/// Waits until everything that takes less than a second has happened.
pub async fn settle() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

pub fn deployment(name: &str, replicas: i64, cpu: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "nginx:1", "resources": {"requests": {"cpu": cpu}}}]}}}})
}

/// A workload of another kind with the same pod.
pub fn workload(api_version: &str, kind: &str, name: &str, spec: Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "default"},
        "spec": spec});
    object["spec"]["template"] = json!({"metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "nginx:1"}]}});
    if kind == "Job" {
        object["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
    } else {
        object["spec"]["selector"] = json!({"matchLabels": {"app": name}});
    }
    object
}

/// A field of each object, sorted.
pub fn column(objects: &[Value], pointer: &str) -> String {
    let mut cells: Vec<String> = objects
        .iter()
        .map(|object| match object.pointer(pointer) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => "-".to_owned(),
        })
        .collect();
    cells.sort();
    cells.join(" ")
}
