//! The number of API requests, and concurrent writes.

use std::collections::BTreeMap;
use std::time::Duration;

use client::{Patch, PatchOptions};
use karmada_api::identity::BindingKey;
use karmada_api::scope::{Binding, Scope};
use serde_json::json;

use crate::harness::{Plane, key};

#[tokio::test(start_paused = true)]
async fn a_restart_writes_nothing() {
    let mut plane = Plane::start().await;
    plane.join("m1", json!({})).await;
    plane.join("m2", json!({})).await;
    let divided =
        json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}});
    let terms =
        json!({"clusterAffinities": [{"affinityName": "none", "clusterNames": ["m9"]}, {"affinityName": "all"}]});
    plane.bind(&key("copies"), json!({})).await;
    plane.bind(&key("shares"), json!({"placement": divided})).await;
    plane.bind(&key("terms"), json!({"placement": terms})).await;
    plane.bind(&key("nowhere"), json!({"placement": {"clusterAffinity": {"clusterNames": ["m9"]}}})).await;
    plane
        .bind(
            &BindingKey::cluster("config"),
            json!({"replicas": 0, "resource": {"apiVersion": "v1", "kind": "ConfigMap"}}),
        )
        .await;
    plane.settle().await;
    let before = plane.requests();
    plane.restart();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(plane.requests(), before);
    for (name, expected) in [("copies", "m1:2 m2:2"), ("shares", "m1:1 m2:1"), ("terms", "m1:2 m2:2")] {
        plane.expect(&key(name), &format!("{expected} | True Success")).await;
    }
    plane.shutdown();
}

#[tokio::test(start_paused = true)]
async fn irrelevant_changes_are_only_observed() {
    let plane = Plane::start().await;
    plane.join("m1", json!({})).await;
    let web = key("web");
    let divided =
        json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}});
    plane.bind(&web, json!({"placement": divided})).await;
    plane.expect(&web, "m1:2 | True Success").await;
    let (before, time) = (plane.writes(), plane.get(&web).await["status"]["lastScheduledTime"].clone());
    plane.change(&web, json!({"conflictResolution": "Overwrite"})).await;
    plane.settle().await;
    assert_eq!(plane.writes() - before, 1, "{:?}", plane.requests());
    let binding = plane.get(&web).await;
    assert_eq!(binding["status"]["schedulerObservedGeneration"], binding["metadata"]["generation"]);
    assert_eq!(binding["status"]["lastScheduledTime"], time);
    plane.shutdown();
}

#[tokio::test(start_paused = true)]
async fn other_writers_are_not_overwritten() {
    let plane = Plane::start().await;
    plane.join("m1", json!({})).await;
    plane.join("m2", json!({})).await;
    let web = key("web");
    plane.bind(&web, json!({})).await;
    plane.expect(&web, "m1:2 m2:2 | True Success").await;
    // The scheduler sees the change of replicas; before its first write a cluster is evicted, and before its next write
    // another client changes a condition.
    let (client, key, mut changes) = (plane.client.clone(), web.clone(), 0);
    plane.gate(move || {
        changes += 1;
        let (client, key, change) = (client.clone(), key.clone(), changes);
        Box::pin(async move {
            let resource = Binding::api_resource(Scope::Namespaced);
            if change == 1 {
                let task = json!({"fromCluster": "m1", "producer": "test", "reason": "TaintUntolerated"});
                let clusters = json!([{"name": "m2", "replicas": 2}]);
                let patch = Patch::Merge(json!({"spec": {"clusters": clusters, "gracefulEvictionTasks": [task]}}));
                client.patch(&resource, &key, &patch, &PatchOptions::default()).await.expect("the eviction");
            }
            if change == 2 {
                let binding = client.get(&resource, &key).await.expect("the binding").to_value().expect("a tree");
                let condition = json!({"type": "FullyApplied", "status": "True", "reason": "r", "message": "m",
                    "lastTransitionTime": "2026-11-21T00:00:00Z"});
                let conditions = json!([binding["status"]["conditions"][0], condition]);
                let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
                client.patch(&resource, &key, &patch, &PatchOptions::status()).await.expect("the status");
            }
            None
        })
    });
    plane.change(&web, json!({"replicas": 3})).await;
    plane.expect(&web, "m2:3 | True Success").await;
    let binding = plane.get(&web).await;
    assert_eq!(binding["status"]["conditions"][1]["type"], "FullyApplied", "{binding}");
    assert_eq!(binding["status"]["schedulerObservedGeneration"], binding["metadata"]["generation"]);
    plane.shutdown();
}

#[tokio::test(start_paused = true)]
async fn a_thousand_bindings_cost_one_write_each() {
    const BINDINGS: u64 = 1000;
    let mut plane = Plane::start().await;
    for name in ["m1", "m2", "m3"] {
        plane.join(name, json!({})).await;
    }
    plane.stop();
    for index in 0..BINDINGS {
        plane.bind(&key(&format!("web-{index}")), json!({})).await;
    }
    plane.restart();
    plane.settle().await;
    while plane.scheduler.depths() != Default::default() {
        plane.settle().await;
    }
    let row = |verb: &str| (format!("{verb} resourcebindings.work.karmada.io"), BINDINGS);
    assert_eq!(plane.requests(), BTreeMap::from([row("patch")]), "nothing is read, nothing twice");
    // A cluster changes without effect on decisions: every binding is evaluated, and none is written.
    plane.change_cluster("m1", json!({"metadata": {"labels": {"a": "b"}}})).await;
    plane.settle().await;
    assert_eq!(plane.writes(), BINDINGS);
    plane.expect(&key("web-999"), "m1:2 m2:2 m3:2 | True Success").await;
    plane.shutdown();
}
