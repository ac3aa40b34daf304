//! Deleted definitions leave no state.

use std::collections::BTreeSet;

use apimachinery::{ApiResource, ObjectKey};
use apiserver::ApiServer;
use client::{Client, DeleteOptions, ListOptions, WatchOptions};
use futures::StreamExt;
use serde_json::json;
use transport::WatchEvent;

use crate::crds::{definitions, is, server, until};

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
    client.create(&definitions(), &definition).await.expect("a definition");
    until(client, &name, is("Established", "True")).await;
    let object = json!({"apiVersion": things.api_version(), "kind": "Thing",
        "metadata": {"name": "a", "namespace": "default"}, "spec": {"text": "x".repeat(1000)}});
    client.create(&things, &object).await.expect("an object");
    let list = client.list(&things, None, &ListOptions::default()).await.expect("a list");
    let from = WatchOptions { resource_version: Some(list.resource_version.to_string()), ..WatchOptions::default() };
    let mut objects = client.watch(&things, None, &from).await.expect("a watch");
    let options = DeleteOptions::default();
    client.delete(&definitions(), &ObjectKey::cluster(name.as_str()), &options).await.expect("a deletion");
    until(client, &name, |definition| definition.is_none()).await;
    // The watch of a deleted resource ends, after the deletion of its objects.
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
async fn deleted_definitions_leave_no_state() {
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
