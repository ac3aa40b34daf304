//! Several API servers on one etcd.

use std::collections::BTreeSet;
use std::sync::Arc;

use apimachinery::{ApiResource, ObjectKey};
use client::{ListOptions, Patch, PatchOptions};
use serde_json::{Value, json};
use storage::{KeyRange, RangeRequest, Store};

use super::Etcd;
use super::apiserver::{Server, key};

pub(crate) fn services() -> ApiResource {
    ApiResource::namespaced("", "v1", "Service", "services")
}

pub(crate) fn service(name: &str, mut spec: Value) -> Value {
    spec["ports"] = json!([{"port": 80}]);
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

pub(crate) fn things() -> ApiResource {
    ApiResource::namespaced("example.org", "v1", "Thing", "things")
}

/// Creates the definition of `things`.
pub(crate) async fn define(server: &Server) {
    let definitions =
        ApiResource::cluster("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions");
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced", "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    server.client.create(&definitions, &definition).await.unwrap();
}

/// State that follows a watch is updated with a delay.
pub(crate) async fn eventually(mut holds: impl AsyncFnMut() -> bool) {
    while !holds().await {
        tokio::task::yield_now().await;
    }
}

async fn two(etcd: &Etcd) -> [Arc<Server>; 2] {
    let server = async || Arc::new(Server::on(Arc::new(etcd.store().await)).await);
    [server().await, server().await]
}

pub(crate) fn allocations(service: &Value) -> Vec<String> {
    let spec = &service["spec"];
    let ports = spec["ports"].as_array().unwrap().iter().map(|port| port["nodePort"].to_string());
    ports.chain([spec["clusterIP"].to_string()]).collect()
}

/// Both servers begin their search at the same address and port.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn no_address_and_no_port_is_allocated_by_two_servers() {
    let etcd = Etcd::start(&[]);
    let servers = two(&etcd).await;
    let creates = (0..40).map(|n| {
        let server = Arc::clone(&servers[n % 2]);
        tokio::spawn(async move {
            let created =
                server.client.create(&services(), &service(&format!("s{n}"), json!({"type": "NodePort"}))).await;
            allocations(&created.unwrap().to_value().unwrap())
        })
    });
    let mut allocated = BTreeSet::new();
    for create in creates.collect::<Vec<_>>() {
        for allocation in create.await.unwrap() {
            assert!(allocated.insert(allocation.clone()), "{allocation} was given twice");
        }
    }
    assert_eq!(allocated.len(), 80);
    let list = servers[0].client.list(&services(), None, &ListOptions::default()).await.unwrap();
    let stored: BTreeSet<String> = list.items.iter().flat_map(|it| allocations(&it.to_value().unwrap())).collect();
    assert_eq!(stored, allocated);
    let claims = RangeRequest { range: KeyRange::prefix("/karmada-rs/claims/"), revision: None, limit: 0 };
    let left = etcd.store().await.range(claims).await.unwrap();
    assert_eq!(left.count, 0, "the write of a service deletes its claims");
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn a_requested_address_has_one_service() {
    let etcd = Etcd::start(&[]);
    let servers = two(&etcd).await;
    for round in 0..10 {
        let request =
            |name: &str| service(&format!("{name}{round}"), json!({"clusterIP": format!("10.96.200.{round}")}));
        let (one, other, services) = (request("a"), request("b"), services());
        let [first, second] = &servers;
        let (one, other) =
            futures::join!(first.client.create(&services, &one), second.client.create(&services, &other));
        assert_eq!(usize::from(one.is_ok()) + usize::from(other.is_ok()), 1, "{one:?} {other:?}");
        let refused = one.err().or(other.err()).unwrap().to_string();
        assert!(refused.contains("provided IP is already allocated"), "{refused}");
    }
    // A change of type allocates a port.
    let created = servers[0].client.create(&services(), &service("c", json!({}))).await.unwrap();
    let patch = Patch::Merge(json!({"spec": {"type": "NodePort"}}));
    let patched = servers[1].client.patch(&services(), &key("c"), &patch, &PatchOptions::default()).await.unwrap();
    let (created, patched) = (created.to_value().unwrap(), patched.to_value().unwrap());
    assert_eq!(created["spec"]["clusterIP"], patched["spec"]["clusterIP"]);
    assert!(patched["spec"]["ports"][0]["nodePort"].is_u64(), "{patched}");
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn definitions_are_served_by_every_server() {
    let etcd = Etcd::start(&[]);
    let [one, other] = two(&etcd).await;
    define(&one).await;
    let thing =
        json!({"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "default"}});
    eventually(async || other.client.create(&things(), &thing).await.is_ok()).await;
    eventually(async || one.client.get(&things(), &ObjectKey::namespaced("default", "t")).await.is_ok()).await;
}
