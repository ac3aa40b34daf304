//! How evictions end.

use std::time::Duration;

use client::PatchOptions;
use karmada_api::scope::{Binding, Scope};
use serde_json::json;
use tokio::time::Instant;

use super::{binding, clusters, copy, demo, evicting, plane, report, running, taint, tasks, until_gone, until_health};

#[tokio::test(start_paused = true)]
async fn without_a_healthy_replacement_the_old_copy_stays_for_its_grace() {
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

/// Nothing else fits: until the grace is over, a copy in a tainted cluster is better than none.
#[tokio::test(start_paused = true)]
async fn a_copy_that_nothing_replaces_stays_for_its_grace() {
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
    // Room appears in time.
    taint(&plane, &to, json!([])).await;
    report(&plane, &to, "web", 3).await;
    until_gone(&plane, &from, "web").await;
    assert_eq!(clusters(&binding(&plane, "web").await), [to]);
    plane.shutdown().await;
}

/// What a cluster reported before it went away says nothing of now.
#[tokio::test(start_paused = true)]
async fn a_replacement_in_a_lost_cluster_is_none() {
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
