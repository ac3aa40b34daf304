//! Workloads that are unhealthy in a healthy cluster.

use std::time::Duration;

use controllers::{Gates, Settings};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{binding, clusters, copy, evicting, plane, report, running, tasks, until_gone, until_health};

/// Tolerates a failure for 30 s.
fn failover(mut behavior: Value) -> Value {
    behavior["decisionConditions"] = json!({"tolerationSeconds": 30});
    json!({"application": behavior})
}

/// Application failover needs no feature gates.
fn settings() -> Settings {
    Settings::default()
}

#[tokio::test(start_paused = true)]
async fn an_unhealthy_workload_moves_after_its_toleration() {
    let plane = plane(settings()).await;
    let (from, to) = running(&plane, "web", failover(json!({"gracePeriodSeconds": 20}))).await;
    report(&plane, &from, "web", 1).await;
    until_health(&plane, &from, "web", "Unhealthy").await;
    let started = Instant::now();
    tokio::time::sleep(Duration::from_secs(28)).await;
    assert!(tasks(&binding(&plane, "web").await).is_empty());
    let moved = plane
        .until("it moves", async || {
            let binding = binding(&plane, "web").await;
            (clusters(&binding) == [to.clone()]).then_some(binding)
        })
        .await;
    let task = tasks(&moved).remove(0);
    for (field, expected) in [
        ("fromCluster", json!(from)),
        ("purgeMode", json!("Gracefully")),
        ("gracePeriodSeconds", json!(20)),
        ("reason", json!("ApplicationFailure")),
        ("producer", json!("resource-binding-application-failover-controller")),
    ] {
        assert_eq!(task[field], expected, "{task}");
    }
    // The new copy is unhealthy, too, when the grace period ends.
    report(&plane, &to, "web", 0).await;
    until_gone(&plane, &from, "web").await;
    let passed = started.elapsed().as_secs();
    assert!((48..=58).contains(&passed), "toleration and grace: {passed} s");
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_workload_that_recovers_in_time_stays() {
    let plane = plane(settings()).await;
    let (from, _) = running(&plane, "web", failover(json!({}))).await;
    for _ in 0..3 {
        report(&plane, &from, "web", 1).await;
        until_health(&plane, &from, "web", "Unhealthy").await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        report(&plane, &from, "web", 3).await;
        until_health(&plane, &from, "web", "Healthy").await;
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    tokio::time::sleep(Duration::from_secs(120)).await;
    let bound = binding(&plane, "web").await;
    assert_eq!((clusters(&bound), tasks(&bound).len()), (vec![from], 0));
    plane.shutdown().await;
}

/// The last report of an unreachable cluster triggers no move: the workload's state is unknown.
#[tokio::test(start_paused = true)]
async fn reports_of_unreachable_clusters_move_nothing() {
    let plane = plane(settings()).await;
    let mut behavior = failover(json!({}));
    behavior["application"]["decisionConditions"]["tolerationSeconds"] = json!(120);
    let (from, to) = running(&plane, "web", behavior).await;
    report(&plane, &from, "web", 1).await;
    until_health(&plane, &from, "web", "Unhealthy").await;
    plane.network.cut(&from);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(clusters(&binding(&plane, "web").await), std::slice::from_ref(&from));
    plane.network.heal(&from);
    plane.until_ready(&from).await;
    plane.until("it moves", async || (clusters(&binding(&plane, "web").await) == [to.clone()]).then_some(())).await;
    plane.shutdown().await;
}

/// The purge mode, the fate of the old copy, and that each mode preserves the state.
#[tokio::test(start_paused = true)]
async fn every_purge_mode_preserves_the_state() {
    for (mode, stays) in [("Directly", false), ("Gracefully", true), ("Never", true)] {
        let plane = plane(evicting()).await;
        let rules = json!([{"aliasLabelName": "ready-before", "jsonPath": "{.readyReplicas}"}]);
        let behavior = failover(json!({"purgeMode": mode, "statePreservation": {"rules": rules}}));
        let (from, to) = running(&plane, "web", behavior).await;
        report(&plane, &from, "web", 2).await;
        let taken_over = plane.until("a new copy", async || copy(&plane, &to, "web").await).await;
        assert_eq!(taken_over["metadata"]["labels"]["ready-before"], "2", "{mode}");
        assert_eq!(copy(&plane, &from, "web").await.is_some(), stays, "{mode}");
        report(&plane, &to, "web", 3).await;
        if mode == "Never" {
            for _ in 0..120 {
                tokio::time::sleep(Duration::from_secs(10)).await;
                // The member's controller observes each change, such as the removal of the label.
                report(&plane, &to, "web", 3).await;
            }
            assert!(copy(&plane, &from, "web").await.is_some());
            let left = tasks(&binding(&plane, "web").await);
            assert_eq!((left.len(), &left[0]["suppressDeletion"]), (1, &json!(true)));
        } else {
            until_gone(&plane, &from, "web").await;
        }
        plane
            .until("the label is removed", async || {
                copy(&plane, &to, "web").await?["metadata"]["labels"]["ready-before"].is_null().then_some(())
            })
            .await;
        plane.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_purge_mode_without_its_gate_is_reported() {
    let gates = Gates { graceful_eviction: false, ..Gates::default() };
    let plane = plane(Settings { gates, ..settings() }).await;
    let (from, _) = running(&plane, "web", failover(json!({}))).await;
    report(&plane, &from, "web", 1).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(clusters(&binding(&plane, "web").await), [from]);
    let failed = super::events(&plane, "EvictWorkloadFromClusterFailed").await;
    let names = |event: &Value| event["message"].as_str().is_some_and(|it| it.contains("GracefulEviction"));
    assert!(failed.iter().any(names), "{failed:?}");
    plane.shutdown().await;
}
