//! Garbage collection.

use std::sync::Arc;

use apimachinery::{ApiResource, Object};
use serde_json::{Value, json};

use crate::harness::{Plane, key_of, resource};

fn maps() -> ApiResource {
    resource("v1", "ConfigMap")
}

/// `name` or `namespace/name`; `demo` by default.
fn config_map(name: &str, owners: &[Value]) -> Value {
    let (namespace, name) = name.split_once('/').unwrap_or(("demo", name));
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": owners}})
}

fn owner(object: &Object, blocks: bool) -> Value {
    json!({"apiVersion": object.api_version(), "kind": object.kind(), "name": object.name(), "uid": object.uid(),
        "blockOwnerDeletion": blocks})
}

fn absent_owner(kind: &str) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "name": "absent", "uid": "0e0e0e0e-0000-4000-8000-000000000000"})
}

impl Plane {
    async fn map(&self, name: &str, owners: &[Value]) -> Arc<Object> {
        self.create(config_map(name, owners)).await
    }

    async fn is_there(&self, name: &str) -> bool {
        self.get(&maps(), &format!("demo/{name}")).await.is_some()
    }

    async fn until_all_gone(&self, names: &[&str]) {
        for name in names {
            self.until_gone(&maps(), &format!("demo/{name}")).await;
        }
    }

    async fn owners_of(&self, name: &str) -> Vec<String> {
        let object = self.client.get(&maps(), &key_of(&format!("demo/{name}"))).await.expect("it is there");
        object.owner_references().iter().map(|owner| owner.name.clone()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn dependents_go_with_their_last_owner() {
    let mut plane = Plane::idle().await;
    // These exist before the collector starts.
    let a = plane.map("a", &[]).await;
    let b = plane.map("b", &[owner(&a, true)]).await;
    plane.map("lost", &[absent_owner("Secret")]).await;
    plane.run(&["garbagecollector"]).await;
    plane.map("c", &[owner(&b, true)]).await;
    let other = plane.map("other", &[]).await;
    plane.map("shared", &[owner(&a, false), owner(&other, false)]).await;
    plane.until_all_gone(&["lost"]).await;
    plane.settle().await;
    assert_eq!(plane.requests().get("delete configmaps"), Some(&1), "{:?}", plane.requests());

    plane.delete(&maps(), "demo/a", "Background").await;
    plane.until_all_gone(&["b", "c"]).await;
    plane.settle().await;
    assert_eq!(plane.owners_of("shared").await, ["other"]);
    plane.delete(&maps(), "demo/other", "").await;
    plane.until_all_gone(&["shared"]).await;
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_foreground_deletion_waits_for_blocking_dependents() {
    let plane = Plane::start(&["garbagecollector"]).await;
    let a = plane.map("a", &[]).await;
    let mut blocked = config_map("held", &[owner(&a, true)]);
    blocked["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let blocked = plane.create(blocked).await;
    plane.map("leaf", &[owner(&blocked, true)]).await;
    let mut free = config_map("free", &[owner(&a, false)]);
    free["metadata"]["finalizers"] = json!(["example.com/hold"]);
    plane.create(free).await;

    plane.delete(&maps(), "demo/a", "Foreground").await;
    plane.until_all_gone(&["leaf"]).await;
    plane.settle().await;
    let deleting = |name: &'static str| {
        let plane = &plane;
        async move {
            plane.get(&maps(), &format!("demo/{name}")).await.expect(name)["metadata"]["deletionTimestamp"].is_string()
        }
    };
    assert!(deleting("a").await && deleting("held").await && deleting("free").await);
    plane.merge(&maps(), "demo/held", json!({"metadata": {"finalizers": null}})).await;
    plane.until_all_gone(&["held", "a"]).await;
    // It does not block its owner, and is removed with its own finalizer.
    assert!(plane.is_there("free").await);
    plane.merge(&maps(), "demo/free", json!({"metadata": {"finalizers": null}})).await;
    plane.until_all_gone(&["free"]).await;
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_circle_of_owners_can_be_deleted_in_the_foreground() {
    let plane = Plane::start(&["garbagecollector"]).await;
    let a = plane.map("a", &[]).await;
    let b = plane.map("b", &[owner(&a, true)]).await;
    plane.merge(&maps(), "demo/a", json!({"metadata": {"ownerReferences": [owner(&b, true)]}})).await;
    plane.settle().await;
    assert!(plane.is_there("a").await && plane.is_there("b").await);
    plane.delete(&maps(), "demo/a", "Foreground").await;
    plane.until_all_gone(&["a", "b"]).await;
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn orphans_lose_their_references_and_stay() {
    let plane = Plane::start(&["garbagecollector"]).await;
    let a = plane.map("a", &[]).await;
    let b = plane.map("b", &[owner(&a, true)]).await;
    plane.map("c", &[owner(&a, true), owner(&b, true)]).await;
    plane.delete(&maps(), "demo/a", "Orphan").await;
    plane.until_all_gone(&["a"]).await;
    plane.settle().await;
    assert_eq!(plane.owners_of("b").await, [""; 0]);
    assert_eq!(plane.owners_of("c").await, ["b"]);
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn objects_with_uncertain_owners_are_kept() {
    let plane = Plane::start(&["garbagecollector"]).await;
    let a = plane.map("a", &[]).await;
    let mut unknown_kind = absent_owner("Gadget");
    unknown_kind["apiVersion"] = "gadgets.example/v1".into();
    plane.map("unknown-kind", &[unknown_kind.clone()]).await;
    plane.map("unknown-and-absent", &[unknown_kind, absent_owner("Secret")]).await;
    // A cluster-scoped object cannot have an owner in a namespace.
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "role", "ownerReferences": [owner(&a, false), absent_owner("Secret")]}});
    plane.create(role).await;
    plane.settle().await;
    for name in ["unknown-kind", "unknown-and-absent"] {
        assert!(plane.is_there(name).await, "{name}");
    }
    let roles = resource("rbac.authorization.k8s.io/v1", "ClusterRole");
    assert!(plane.get(&roles, "role").await.is_some());
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_of_the_same_name_is_another_owner() {
    let plane = Plane::start(&["garbagecollector"]).await;
    plane.map("a", &[]).await;
    let mut previous = absent_owner("ConfigMap");
    previous["name"] = "a".into();
    plane.map("b", &[previous]).await;
    plane.until_all_gone(&["b"]).await;
    assert!(plane.is_there("a").await);
    plane.shutdown().await;
}

/// The collector has discovered the kind with its former scope.
#[tokio::test(start_paused = true)]
async fn dependents_go_with_an_owner_whose_kind_changed_its_scope() {
    let plane = Plane::start(&["garbagecollector"]).await;
    let definitions = resource("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let roles = resource("rbac.authorization.k8s.io/v1", "ClusterRole");
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "a"}});
    for (scope, dependents, mut dependent) in [("Namespaced", maps(), config_map("a", &[])), ("Cluster", roles, role)] {
        let schema = json!({"type": "object"});
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "gadgets.example.com"},
            "spec": {"group": "example.com", "scope": scope, "names": {"plural": "gadgets", "kind": "Gadget"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
        plane.create(definition).await;
        let gadgets = ApiResource::cluster("example.com", "v1", "Gadget", "gadgets");
        let gadgets = ApiResource { namespaced: scope == "Namespaced", ..gadgets };
        let mut gadget = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "owner"}});
        if gadgets.namespaced {
            gadget["metadata"]["namespace"] = "demo".into();
        }
        let created = plane.until("it is served", async || plane.client.create(&gadgets, &gadget).await.ok()).await;
        dependent["metadata"]["ownerReferences"] = json!([owner(&created, true)]);
        let key = plane.create(dependent).await.key().to_string();
        plane.delete(&definitions, "gadgets.example.com", "").await;
        plane.until_gone(&definitions, "gadgets.example.com").await;
        plane.until_gone(&dependents, &key).await;
    }
    plane.shutdown().await;
}

/// The same over a socket, where each resource has its own watch.
#[tokio::test]
async fn a_server_behind_a_socket_is_collected_too() {
    let mut plane = Plane::idle().await;
    plane.serve().await;
    plane.map("lost", &[absent_owner("Secret")]).await;
    plane.run(&["garbagecollector"]).await;
    plane.until_all_gone(&["lost"]).await;

    let a = plane.map("a", &[]).await;
    plane.map("b", &[owner(&a, true)]).await;
    plane.delete(&maps(), "demo/a", "Foreground").await;
    plane.until_all_gone(&["b", "a"]).await;

    let c = plane.map("c", &[]).await;
    plane.map("d", &[owner(&c, true)]).await;
    plane.delete(&maps(), "demo/c", "Orphan").await;
    plane.until_all_gone(&["c"]).await;
    assert_eq!(plane.owners_of("d").await, [""; 0]);
    plane.shutdown().await;
}
