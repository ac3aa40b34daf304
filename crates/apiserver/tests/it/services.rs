//! Services get addresses and node ports, and give them back.

use std::sync::Arc;

use apimachinery::{ApiResource, ObjectKey};
use apiserver::admit::services::ServiceAddresses;
use client::{DeleteOptions, Patch, PatchOptions};
use serde_json::{Value, json};

use crate::engine::on_every_engine;
use crate::objects::server_with;

on_every_engine! {
    alone: [
        addresses_last_as_long_as_their_service,
        endpoints_are_deleted_with_their_service,
    ],
}

fn services() -> ApiResource {
    ApiResource::namespaced("", "v1", "Service", "services")
}

fn service(name: &str, mut spec: Value) -> Value {
    spec["ports"] = json!([{"port": 80}]);
    json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

async fn addresses_last_as_long_as_their_service() {
    let (_server, client) = server_with(vec![Arc::new(ServiceAddresses::default())]).await;
    let created = client.create(&services(), &service("a", json!({}))).await.expect("a service");
    let created = created.to_value().expect("json");
    let address = created["spec"]["clusterIP"].as_str().expect("an address").to_owned();
    assert!(address.starts_with("10.96."), "{address}");
    let taken =
        client.create(&services(), &service("b", json!({"clusterIP": address}))).await.expect_err("it is taken");
    assert!(taken.to_string().contains("provided IP is already allocated"), "{taken}");

    let key = ObjectKey::namespaced("default", "a");
    let to_node_port = Patch::Merge(json!({"spec": {"type": "NodePort"}}));
    let patched = client.patch(&services(), &key, &to_node_port, &PatchOptions::default()).await.expect("patch");
    let patched = patched.to_value().expect("json");
    assert_eq!(patched["spec"]["clusterIP"], address.as_str());
    assert!(patched["spec"]["ports"][0]["nodePort"].as_i64().is_some_and(|port| (30000..=32767).contains(&port)));
    let back = Patch::Merge(json!({"spec": {"type": "ClusterIP"}}));
    let back = client.patch(&services(), &key, &back, &PatchOptions::default()).await.expect("patch");
    assert_eq!(back.to_value().expect("json")["spec"], created["spec"]);
    let moved = Patch::Merge(json!({"spec": {"clusterIP": "10.96.0.9"}}));
    let refused = client.patch(&services(), &key, &moved, &PatchOptions::default()).await.expect_err("it stays");
    assert!(refused.to_string().contains("may not change once set"), "{refused}");

    client.delete(&services(), &key, &DeleteOptions::default()).await.expect("delete");
    let again = client.create(&services(), &service("b", json!({"clusterIP": address}))).await;
    assert!(again.is_ok(), "a deleted service's address is free at once: {again:?}");
}

async fn endpoints_are_deleted_with_their_service() {
    let (_server, client) = server_with(vec![Arc::new(ServiceAddresses::default())]).await;
    let endpoints = ApiResource::namespaced("", "v1", "Endpoints", "endpoints");
    let named = |name: &str| json!({"metadata": {"name": name, "namespace": "default"}});
    for name in ["a", "b", "other"] {
        client.create(&endpoints, &named(name)).await.expect("endpoints");
    }
    client.create(&services(), &service("a", json!({}))).await.expect("a service");
    client
        .delete(&services(), &ObjectKey::namespaced("default", "a"), &DeleteOptions::default())
        .await
        .expect("delete");
    // The last finalizer ends the service, not its deletion.
    let key = ObjectKey::namespaced("default", "b");
    let mut held = service("b", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    client.create(&services(), &held).await.expect("a service");
    client.delete(&services(), &key, &DeleteOptions::default()).await.expect("delete");
    let left = async || {
        let list = client.list(&endpoints, Some("default"), &client::ListOptions::default()).await.expect("a list");
        list.items.iter().map(|item| item.name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(left().await, ["b", "other"]);
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    client.patch(&services(), &key, &release, &PatchOptions::default()).await.expect("patch");
    assert_eq!(left().await, ["other"]);
}
