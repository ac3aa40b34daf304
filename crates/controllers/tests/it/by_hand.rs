//! A ConfigMap with a manual binding: without a placement no component changes its clusters.

use apimachinery::{ApiResource, ObjectKey};
use karmada_api::names;
use karmada_api::scope::{Binding, Scope};
use serde_json::{Value, json};

use crate::harness::{Plane, get};

pub fn config_maps() -> ApiResource {
    ApiResource::namespaced("", "v1", "ConfigMap", "configmaps")
}

pub fn bindings() -> ApiResource {
    Binding::api_resource(Scope::Namespaced)
}

pub fn demo(name: &str) -> ObjectKey {
    ObjectKey::namespaced("demo", name)
}

/// The Work of `demo/thing` in a member.
pub fn work_in(member: &str) -> ObjectKey {
    ObjectKey::namespaced(names::execution_namespace(member), names::work_name("ConfigMap", "thing", "demo"))
}

/// The targets of a binding to these members.
pub fn targets(members: &[&str]) -> Value {
    json!({"spec": {"clusters": members.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()}})
}

/// Creates `demo/thing` and its binding, and waits for the copies.
pub async fn bind(plane: &Plane, members: &[&str]) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "thing", "namespace": "demo"}});
    let uid = plane.create(config_maps(), map).await.uid().to_owned();
    let mut binding = targets(members);
    binding["apiVersion"] = json!("work.karmada.io/v1alpha2");
    binding["kind"] = json!("ResourceBinding");
    binding["metadata"] = json!({"name": "thing-configmap", "namespace": "demo"});
    binding["spec"]["resource"] =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "demo", "name": "thing", "uid": uid});
    plane.create(bindings(), binding).await;
    for member in members {
        let client = plane.member(member);
        plane.until("a copy", async || get(&client, &config_maps(), &demo("thing")).await).await;
    }
    plane.settle().await;
}
