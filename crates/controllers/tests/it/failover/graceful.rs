//! The end of evictions.

use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use client::{ListOptions, Patch, PatchOptions};
use karmada_api::scope::{Binding, Policy, Scope};
use serde_json::json;
use tokio::time::Instant;

use super::{
    binding, clusters, copy, demo, deployments, evicting, plane, report, running, taint, tasks, until_gone,
    until_health, until_scheduled,
};
use crate::harness::Plane;

#[tokio::test(start_paused = true)]
async fn without_a_healthy_replacement_the_old_copy_is_kept_for_the_grace_period() {
    let plane = plane(evicting()).await;
    let (from, to) = running(&plane, "web", json!(null)).await;
    let started = Instant::now();
    taint(&plane, &from, json!([{"key": "gone", "effect": "NoExecute"}])).await;
    report(&plane, &to, "web", 1).await;
    until_health(&plane, &to, "web", "Unhealthy").await;
    tokio::time::sleep(Duration::from_secs(595) - started.elapsed()).await;
    assert!(copy(&plane, &from, "web").await.is_some());
    until_gone(&plane, &from, "web").await;
    assert!((600..=610).contains(&started.elapsed().as_secs()), "{:?}", started.elapsed());
    plane.shutdown().await;
}

/// No other cluster fits: until the grace period ends, a copy in a tainted cluster is better than none.
#[tokio::test(start_paused = true)]
async fn a_copy_without_a_replacement_is_kept_for_the_grace_period() {
    let plane = plane(evicting()).await;
    let (from, to) = running(&plane, "web", json!(null)).await;
    taint(&plane, &to, json!([{"key": "full", "effect": "NoSchedule"}])).await;
    plane.settle().await;
    taint(&plane, &from, json!([{"key": "gone", "effect": "NoExecute"}])).await;
    plane
        .until("no cluster is left", async || {
            let binding = binding(&plane, "web").await;
            (clusters(&binding).is_empty() && tasks(&binding).len() == 1).then_some(())
        })
        .await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(copy(&plane, &from, "web").await.is_some());
    // A cluster becomes available in time.
    taint(&plane, &to, json!([])).await;
    report(&plane, &to, "web", 3).await;
    until_gone(&plane, &from, "web").await;
    assert_eq!(clusters(&binding(&plane, "web").await), [to]);
    plane.shutdown().await;
}

/// The last report of a cluster that became unreachable does not count.
#[tokio::test(start_paused = true)]
async fn a_replacement_in_an_unreachable_cluster_does_not_count() {
    let plane = plane(evicting()).await;
    let (from, to) = running(&plane, "web", json!(null)).await;
    taint(&plane, &from, json!([{"key": "gone", "effect": "NoExecute"}])).await;
    plane.until("a new copy", async || copy(&plane, &to, "web").await).await;
    plane.network.cut(&to);
    tokio::time::sleep(Duration::from_secs(60)).await;
    report(&plane, &to, "web", 3).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(copy(&plane, &from, "web").await.is_some());
    plane.network.heal(&to);
    until_gone(&plane, &from, "web").await;
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_changes_nothing() {
    let mut plane = plane(evicting()).await;
    let (from, to) = running(&plane, "web", json!(null)).await;
    taint(&plane, &from, json!([{"key": "gone", "effect": "NoExecute"}])).await;
    plane.until("a new copy", async || copy(&plane, &to, "web").await).await;
    for _ in 0..3 {
        plane.restart_controllers().await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let bound = binding(&plane, "web").await;
        assert_eq!((clusters(&bound), tasks(&bound).len()), (vec![to.clone()], 1));
        assert!(copy(&plane, &from, "web").await.is_some());
    }
    report(&plane, &to, "web", 3).await;
    until_gone(&plane, &from, "web").await;
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_suppressed_deletion_waits_for_its_release() {
    let plane = plane(evicting()).await;
    let (from, to) = running(&plane, "web", json!(null)).await;
    taint(&plane, &from, json!([{"key": "gone", "effect": "NoExecute"}])).await;
    plane.until("a new copy", async || copy(&plane, &to, "web").await).await;
    let suppress = async |value: bool| {
        let mut list = tasks(&binding(&plane, "web").await);
        list[0]["suppressDeletion"] = json!(value);
        let patch = json!({"spec": {"gracefulEvictionTasks": list}});
        let resource = Binding::api_resource(Scope::Namespaced);
        plane.merge(&resource, &demo("web-deployment"), patch, PatchOptions::default()).await;
    };
    suppress(true).await;
    report(&plane, &to, "web", 3).await;
    tokio::time::sleep(Duration::from_secs(1200)).await;
    assert!(copy(&plane, &from, "web").await.is_some());
    suppress(false).await;
    until_gone(&plane, &from, "web").await;
    plane.shutdown().await;
}

/// Moves can be listed afterwards, also by another process.
#[tokio::test(start_paused = true)]
async fn the_history_of_evictions_survives_a_restart() {
    let mut plane = plane(evicting()).await;
    let config_maps = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    let history = async |plane: &Plane| {
        let segment = ObjectKey::namespaced("karmada-system", "karmada-failover-history-00");
        let data = plane.get(&config_maps, &segment).await.map(|it| it["data"].clone()).unwrap_or_default();
        let texts: Vec<String> =
            data.as_object().into_iter().flatten().filter_map(|(_, text)| text.as_str().map(str::to_owned)).collect();
        texts.iter().flat_map(|text| propagation::failover::history::read(text)).collect::<Vec<_>>()
    };
    let (mut from, mut to) = running(&plane, "web", json!(null)).await;
    for moves in 1..=2 {
        taint(&plane, &from, json!([{"key": "gone", "effect": "NoExecute"}])).await;
        until_scheduled(&plane, "web", &[&from]).await;
        report(&plane, &to, "web", 3).await;
        until_gone(&plane, &from, "web").await;
        taint(&plane, &from, json!([])).await;
        // The moves of the last second are written when the process stops.
        plane.restart_controllers().await;
        let recorded = history(&plane).await;
        assert_eq!(recorded.len(), moves, "{recorded:?}");
        let last = recorded.last().expect("a move");
        assert_eq!((last.kind.as_str(), last.namespace.as_str(), last.name.as_str()), ("Deployment", "demo", "web"));
        assert_eq!((last.from.as_str(), last.to.as_slice()), (from.as_str(), &[to.clone()][..]));
        assert_eq!((last.reason.as_str(), last.ending.as_str()), ("TaintUntolerated", "Replaced"));
        assert!(last.message.contains("the taint gone:NoExecute"), "{last:?}");
        assert!(last.started.is_some() && last.started <= last.ended, "{last:?}");
        until_health(&plane, &to, "web", "Healthy").await;
        plane.settle().await;
        std::mem::swap(&mut from, &mut to);
    }
    plane.shutdown().await;
}

/// The receiving cluster never reports enough ready replicas: for some workloads none, for others one.
#[tokio::test(start_paused = true)]
async fn unhealthy_targets_receive_only_the_first_workloads() {
    const FIRST: usize = 512;
    const ALL: usize = FIRST + 24;
    let plane = plane(evicting()).await;
    let names: Vec<String> = (0..ALL).map(|n| format!("web-{n:03}")).collect();
    taint(&plane, "m2", json!([{"key": "full", "effect": "NoSchedule"}])).await;
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "all", "namespace": "demo"}, "spec": {
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
        "placement": {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]}}});
    plane.create(Policy::api_resource(Scope::Namespaced), policy).await;
    for name in &names {
        let template =
            json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": "demo"},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": name}}, "template": template}});
        plane.create(deployments(), deployment).await;
    }
    let copies = async |member: &str| {
        let list = plane.member(member).list(&deployments(), Some("demo"), &ListOptions::default()).await;
        list.expect("the copies").items
    };
    plane.until("all are in m1", async || (copies("m1").await.len() == ALL).then_some(())).await;
    taint(&plane, "m2", json!([])).await;
    plane.settle().await;
    let started = Instant::now();
    taint(&plane, "m1", json!([{"key": "gone", "effect": "NoExecute"}])).await;
    plane.until("the first have left", async || (copies("m2").await.len() == FIRST).then_some(())).await;
    for (n, copy) in copies("m2").await.iter().enumerate() {
        let ready = if n % 2 == 0 { 0 } else { 1 };
        let status = Patch::Merge(json!({"status": {"observedGeneration": copy.generation(), "replicas": 3,
            "updatedReplicas": 3, "availableReplicas": ready, "readyReplicas": ready}}));
        let written = plane.member("m2").patch(&deployments(), &copy.key(), &status, &PatchOptions::status()).await;
        written.expect("the member's status");
    }
    tokio::time::sleep(Duration::from_secs(590).saturating_sub(started.elapsed())).await;
    assert_eq!((copies("m1").await.len(), copies("m2").await.len()), (ALL, FIRST));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!((copies("m1").await.len(), copies("m2").await.len()), (ALL - FIRST, ALL));
    plane.shutdown().await;
}
