//! The taint manager.

use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use controllers::{Eviction, Gates, Settings};
use karmada_api::scope::{Binding, Policy, Scope};
use serde_json::json;

use super::{
    binding, clusters, copy, create, create_spread, demo, deployments, evicting, plane, plane_of, report, running,
    taint, taint_down, tasks, until_gone, until_health, until_scheduled,
};
use crate::harness::{Plane, get};

#[tokio::test(start_paused = true)]
async fn a_workload_is_evicted_after_its_toleration_and_not_moved_back() {
    let plane = plane(evicting()).await;
    let (from, to) = running(&plane, "web", json!(null)).await;
    taint_down(&plane, &from).await;
    tokio::time::sleep(Duration::from_secs(28)).await;
    assert!(tasks(&binding(&plane, "web").await).is_empty(), "it is tolerated");
    let moved = plane
        .until("it moves", async || {
            let binding = binding(&plane, "web").await;
            (clusters(&binding) == [to.clone()]).then_some(binding)
        })
        .await;
    let mut task = tasks(&moved).remove(0);
    let message = task["message"].take();
    assert!(message.as_str().is_some_and(|it| it.contains("the taint down:NoExecute since 2026-")), "{message}");
    for (field, expected) in [
        ("fromCluster", json!(from)),
        ("purgeMode", json!("Gracefully")),
        ("reason", json!("TaintUntolerated")),
        ("producer", json!("TaintManager")),
        ("replicas", json!(3)),
    ] {
        assert_eq!(task[field], expected, "{task}");
    }
    // The old copy is kept until the new one is healthy.
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(copy(&plane, &from, "web").await.is_some());
    report(&plane, &to, "web", 3).await;
    until_gone(&plane, &from, "web").await;
    taint(&plane, &from, json!([])).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(clusters(&binding(&plane, "web").await), std::slice::from_ref(&to));
    let ended = super::events(&plane, "EvictWorkloadFromClusterSucceed").await;
    let message = format!("Evict from cluster {from} succeed.");
    for kind in ["ResourceBinding", "Deployment"] {
        let about = |it: &&serde_json::Value| it["involvedObject"]["kind"] == kind && it["message"] == message.as_str();
        assert_eq!(ended.iter().filter(about).count(), 1, "{ended:?}");
    }
    plane.shutdown().await;
}

/// A toleration that has expired keeps the scheduler from assigning the binding to the cluster again, where it would be
/// evicted again.
#[tokio::test(start_paused = true)]
async fn a_workload_of_all_clusters_stays_away_until_the_taint_is_removed() {
    let plane = plane(evicting()).await;
    create_spread(&plane, "web", json!(null), json!([])).await;
    for member in ["m1", "m2"] {
        report(&plane, member, "web", 3).await;
        until_health(&plane, member, "web", "Healthy").await;
    }
    taint_down(&plane, "m1").await;
    until_gone(&plane, "m1", "web").await;
    plane.settle().await;
    let before = binding(&plane, "web").await;
    assert_eq!((clusters(&before), tasks(&before).len()), (vec!["m2".to_owned()], 0));
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(binding(&plane, "web").await["metadata"]["generation"], before["metadata"]["generation"]);
    assert_eq!(
        super::events(&plane, "EvictWorkloadFromClusterSucceed").await.len(),
        2,
        "of the binding and of the template"
    );

    taint(&plane, "m1", json!([])).await;
    plane.until("it returns", async || (clusters(&binding(&plane, "web").await).len() == 2).then_some(())).await;
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_taint_removed_in_time_moves_nothing() {
    let plane = plane(evicting()).await;
    let (from, _) = running(&plane, "web", json!(null)).await;
    taint_down(&plane, &from).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    taint(&plane, &from, json!([])).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let bound = binding(&plane, "web").await;
    assert_eq!((clusters(&bound), tasks(&bound).len()), (vec![from], 0));
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn evictions_need_the_gate_and_the_flag() {
    for (failover, by_taints) in [(true, false), (false, true)] {
        let settings = Settings {
            gates: Gates { failover, ..Gates::default() },
            eviction: Eviction { by_taints, ..Eviction::default() },
            ..Settings::default()
        };
        let plane = plane(settings).await;
        let (from, _) = running(&plane, "web", json!(null)).await;
        taint(&plane, &from, json!([{"key": "gone", "effect": "NoExecute"}])).await;
        tokio::time::sleep(Duration::from_secs(120)).await;
        let bound = binding(&plane, "web").await;
        assert_eq!((clusters(&bound), tasks(&bound).len()), (vec![from], 0), "{failover} {by_taints}");
        plane.shutdown().await;
    }
}

/// Three workers, each with a pause of 2 s: the times of evictions, and the metrics.
#[tokio::test(start_paused = true)]
async fn evictions_are_paced() {
    let eviction = Eviction { by_taints: true, rate: Some(0.5), ..Eviction::default() };
    let settings = Settings { eviction, ..evicting() };
    let plane = plane(settings.clone()).await;
    // All of them on one side.
    taint(&plane, "m2", json!([{"key": "full", "effect": "NoSchedule"}])).await;
    let names: Vec<String> = (0..8).map(|n| format!("web-{n}")).collect();
    for name in &names {
        create(&plane, name, json!(null)).await;
    }
    for name in &names {
        plane.until("a schedule", async || (clusters(&binding(&plane, name).await) == ["m1"]).then_some(())).await;
    }
    taint(&plane, "m2", json!([])).await;
    plane.settle().await;
    let left = async || {
        let mut left = 0;
        for name in &names {
            left += usize::from(clusters(&binding(&plane, name).await) != ["m1"]);
        }
        left
    };
    taint(&plane, "m1", json!([{"key": "gone", "effect": "NoExecute"}])).await;
    for expected in [3, 6, 8] {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(left().await, expected);
        if expected == 3 {
            let text = settings.metrics.text();
            for line in [
                "eviction_queue_depth{name=\"binding-eviction\"} 5\n",
                "eviction_kind_total{member_cluster=\"m1\",resource_kind=\"ResourceBinding\"} 5\n",
                "eviction_processing_total{name=\"binding-eviction\",result=\"success\"} 3\n",
                "eviction_processing_latency_seconds_count{name=\"binding-eviction\"} 3\n",
            ] {
                assert!(text.contains(line), "{line}{text}");
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_objects_are_evicted_too() {
    let plane = plane(evicting()).await;
    let roles = ApiResource::cluster("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles");
    let key = ObjectKey::cluster("reader");
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reader"}, "rules": []});
    plane.create(roles.clone(), role).await;
    let selector = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "reader"});
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy",
        "metadata": {"name": "reader"}, "spec": {"resourceSelectors": [selector],
        "placement": {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]}}});
    plane.create(Policy::api_resource(Scope::Cluster), policy).await;
    let has = async |member: &str| get(&plane.member(member), &roles, &key).await.is_some();
    let from = plane
        .until("a copy", async || if has("m1").await { Some("m1") } else { has("m2").await.then_some("m2") })
        .await;
    let to = if from == "m1" { "m2" } else { "m1" };
    plane.settle().await;
    taint(&plane, from, json!([{"key": "gone", "effect": "NoExecute"}])).await;
    // A kind without a health interpretation is healthy once it is applied.
    plane.until("it moved", async || (has(to).await && !has(from).await).then_some(())).await;
    let bound = plane.get(&Binding::api_resource(Scope::Cluster), &ObjectKey::cluster("reader-clusterrole")).await;
    assert!(tasks(&bound.expect("the binding")).is_empty());
    plane.shutdown().await;
}

/// A policy with direct purge, and a value of the status to preserve.
fn directly() -> serde_json::Value {
    let rules = json!([{"aliasLabelName": "ready-before", "jsonPath": "{.readyReplicas}"}]);
    json!({"cluster": {"purgeMode": "Directly", "statePreservation": {"rules": rules}}})
}

async fn label(plane: &Plane, member: &str) -> Option<String> {
    let copy = copy(plane, member, "web").await?;
    Some(copy["metadata"]["labels"]["ready-before"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_state_is_preserved_and_replaced_by_a_newer_one() {
    let plane = plane_of(&["m1", "m2", "m3"], evicting()).await;
    let (first, _) = running(&plane, "web", directly()).await;
    let gone = json!([{"key": "gone", "effect": "NoExecute"}]);
    taint(&plane, &first, gone.clone()).await;
    let second = until_scheduled(&plane, "web", &[&first]).await;
    let carried = plane.until("a new copy", async || label(&plane, &second).await).await;
    assert_eq!(carried, "3");
    assert!(copy(&plane, &first, "web").await.is_none(), "the old copy is removed first");

    // It moves on with its current state, although the first eviction has not ended.
    report(&plane, &second, "web", 2).await;
    super::until_health(&plane, &second, "web", "Unhealthy").await;
    taint(&plane, &second, gone).await;
    let third = until_scheduled(&plane, "web", &[&first, &second]).await;
    let carried = plane.until("the next copy", async || label(&plane, &third).await).await;
    assert_eq!(carried, "2");
    let state = |task: &serde_json::Value| task["preservedLabelState"]["ready-before"].clone();
    let states: Vec<serde_json::Value> = tasks(&binding(&plane, "web").await).iter().map(state).collect();
    assert_eq!(states, [json!(null), json!("2")], "the older state is dropped");

    // Once the copy is healthy, the label is removed.
    report(&plane, &third, "web", 3).await;
    plane.until("the label is gone", async || (label(&plane, &third).await.as_deref() == Some("")).then_some(())).await;
    assert!(tasks(&binding(&plane, "web").await).is_empty());
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_state_keeps_the_workload() {
    let plane = plane(evicting()).await;
    let rules = json!([{"aliasLabelName": "kept", "jsonPath": "{.absent}"}]);
    let (from, _) = running(&plane, "web", json!({"cluster": {"statePreservation": {"rules": rules}}})).await;
    taint(&plane, &from, json!([{"key": "gone", "effect": "NoExecute"}])).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(clusters(&binding(&plane, "web").await), std::slice::from_ref(&from));
    let failed = super::events(&plane, "EvictWorkloadFromClusterFailed").await;
    let expected = format!(
        "Evict from cluster {from} failed: statePreservation rule kept: \"{{.absent}}\" finds nothing in the status reported by cluster {from}"
    );
    assert!(failed.iter().any(|event| event["message"] == expected.as_str()), "{failed:?}");
    assert!(get(&plane.member(&from), &deployments(), &demo("web")).await.is_some());
    plane.shutdown().await;
}
