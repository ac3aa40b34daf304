//! What is left of definitions that came and went: nothing.

use std::collections::BTreeSet;

use apimachinery::{ApiResource, ObjectKey};
use apiserver::ApiServer;
use client::{Client, DeleteOptions, ListOptions, WatchOptions};
use futures::StreamExt;
use serde_json::json;
use transport::WatchEvent;

use crate::crds::server;

fn definitions() -> ApiResource {
    ApiResource::cluster("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
}

fn things(n: usize) -> ApiResource {
    ApiResource::namespaced(&format!("g{n}.example"), "v1", "Thing", &format!("things{n}"))
}

/// Creates a definition and an object of it once it is served, lists and watches them, and deletes the definition.
async fn come_and_go(client: &Client, n: usize) {
    let things = things(n);
    let name = format!("{}.{}", things.plural, things.group);
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({"metadata": {"name": name}, "spec": {"group": things.group, "scope": "Namespaced",
        "names": {"plural": things.plural, "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}});
    let created = client.create(&definitions(), &definition).await.expect("a definition");
    let from = |version: &str| WatchOptions { resource_version: Some(version.to_owned()), ..WatchOptions::default() };
    let mut changes = client.watch(&definitions(), None, &from(created.resource_version())).await.expect("a watch");
    let object = json!({"metadata": {"name": "a", "namespace": "default"}, "spec": {"text": "x".repeat(1000)}});
    while client.create(&things, &object).await.is_err() {
        changes.next().await.expect("an event, as the definition is not established yet");
    }
    let list = client.list(&things, None, &ListOptions::default()).await.expect("a list");
    let mut objects = client.watch(&things, None, &from(&list.resource_version.to_string())).await.expect("a watch");
    client.delete(&definitions(), &ObjectKey::cluster(name), &DeleteOptions::default()).await.expect("a deletion");
    while !matches!(changes.next().await.expect("an event, as the definition is still there"), WatchEvent::Deleted(_)) {
    }
    // The watch of a resource that is gone ends, after the deletion of its objects.
    assert!(matches!(objects.next().await, Some(WatchEvent::Deleted(_))));
    assert!(objects.next().await.is_none());
}

/// Caches, served resources and lines of metrics.
fn kept(server: &ApiServer) -> (BTreeSet<String>, usize, BTreeSet<String>) {
    let shared = server.shared();
    let text = shared.metrics.text();
    let series = text.lines().filter_map(|line| line.split_once(' ')).map(|(series, _)| series.to_owned());
    let places = shared.cache.places().iter().map(ToString::to_string).collect();
    (places, shared.registry.snapshot().iter().count(), series.collect())
}

#[tokio::test(start_paused = true)]
async fn two_hundred_definitions_come_and_go_and_leave_nothing() {
    let (server, client) = server(Vec::new()).await;
    // Requests for definitions count from here on.
    come_and_go(&client, 0).await;
    let before = kept(&server);
    for n in 1..=200 {
        come_and_go(&client, n).await;
    }
    assert_eq!(kept(&server), before);
    server.shutdown();
}
