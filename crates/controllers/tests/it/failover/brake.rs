//! Clusters that fail, flap and recover while their taints evict: when evictions pause, and when they must not.

use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use client::PatchOptions;
use controllers::{Eviction, Settings};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::policy::v1alpha1::ClusterTaintPolicy;
use karmada_api::scope::Policy;
use karmada_api::scope::Scope;
use serde_json::{Value, json};

use super::{
    binding, clusters, copy, create, demo, deployments, events, evicting, plane_of, report, taint, tasks, until_gone,
    until_health, until_scheduled,
};
use crate::harness::{Plane, get};

const FLEET: [&str; 4] = ["m1", "m2", "m3", "m4"];

/// Clusters that are not ready get the taint `away:NoExecute`, which policies do not tolerate.
pub async fn taint_automatically(plane: &Plane) {
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterTaintPolicy", "metadata": {"name": "away"},
        "spec": {"addOnConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["False", "Unknown"]}],
        "removeOnConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["True"]}],
        "taints": [{"key": "away", "effect": "NoExecute"}]}});
    plane.create(ClusterTaintPolicy::api_resource(), policy).await;
}

async fn fleet(members: &[&str]) -> (Plane, Settings) {
    let settings = evicting();
    let plane = plane_of(members, settings.clone()).await;
    taint_automatically(&plane).await;
    (plane, settings)
}

/// A workload that is healthy in a cluster, its only one.
async fn run_in(plane: &Plane, name: &str, member: &str, members: &[&str]) {
    for other in members.iter().filter(|other| **other != member) {
        taint(plane, other, json!([{"key": "full", "effect": "NoSchedule"}])).await;
    }
    create(plane, name, json!(null)).await;
    plane.until("a schedule", async || (clusters(&binding(plane, name).await) == [member]).then_some(())).await;
    for other in members {
        taint(plane, other, json!([])).await;
    }
    report(plane, member, name, 3).await;
    until_health(plane, member, name, "Healthy").await;
}

pub async fn cluster(plane: &Plane, name: &str) -> Value {
    plane.get(&Cluster::api_resource(), &ObjectKey::cluster(name)).await.expect("the cluster")
}

pub fn condition(cluster: &Value, type_: &str) -> Value {
    let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|it| it["type"] == type_).unwrap_or_default()
}

async fn until_paused(plane: &Plane, name: &str, status: &str) -> Value {
    let what = format!("EvictionsPaused of {name} is {status}");
    let paused =
        async || Some(condition(&cluster(plane, name).await, "EvictionsPaused")).filter(|it| it["status"] == status);
    plane.until(&what, paused).await
}

async fn until_tainted(plane: &Plane, name: &str, tainted: bool) {
    let has = async || {
        let cluster = cluster(plane, name).await;
        let taints = cluster["spec"]["taints"].as_array().cloned().unwrap_or_default();
        taints.iter().any(|taint| taint["key"] == "away")
    };
    plane.until(&format!("{name} tainted: {tainted}"), async || (has().await == tainted).then_some(())).await;
}

#[tokio::test(start_paused = true)]
async fn a_large_simultaneous_failure_pauses_evictions() {
    let (mut plane, settings) = fleet(&FLEET).await;
    for member in FLEET {
        run_in(&plane, &format!("web-{member}"), member, &FLEET).await;
    }
    let lost = ["m1", "m2", "m3"];
    lost.iter().for_each(|member| plane.network.cut(member));
    for member in lost {
        let paused = until_paused(&plane, member, "True").await;
        assert_eq!(paused["reason"], "FleetUnhealthy");
        let message = paused["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("3 of 4 clusters turned unhealthy"), "{message}");
        until_tainted(&plane, member, true).await;
    }
    assert!(settings.metrics.text().contains("karmada_failover_evictions_paused 4\n"), "{}", settings.metrics.text());
    // For any duration, and across restarts of the controllers.
    tokio::time::sleep(Duration::from_secs(600)).await;
    plane.restart_controllers().await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    for member in FLEET {
        let bound = binding(&plane, &format!("web-{member}")).await;
        assert_eq!((clusters(&bound), tasks(&bound).len()), (vec![member.to_owned()], 0));
        assert!(copy(&plane, member, &format!("web-{member}")).await.is_some());
    }
    let warned = events(&plane, "EvictionsPaused").await;
    let of = |member: &str| warned.iter().filter(|it| it["involvedObject"]["name"] == member).count();
    assert_eq!(lost.map(of), [1, 1, 1], "{warned:?}");

    // A user releases one of them with the command of the message.
    let since = condition(&cluster(&plane, "m1").await, "EvictionsPaused")["lastTransitionTime"].clone();
    let release = json!({"metadata": {"annotations": {"failover.karmada.io/evictions-released": since}}});
    plane.merge(&Cluster::api_resource(), &ObjectKey::cluster("m1"), release, PatchOptions::default()).await;
    until_scheduled(&plane, "web-m1", &["m1"]).await;
    assert_eq!(until_paused(&plane, "m1", "False").await["reason"], "EvictionsReleased");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(clusters(&binding(&plane, "web-m2").await), ["m2"]);

    // The clusters recover: no other workload has moved, and the taints are removed.
    lost.iter().for_each(|member| plane.network.heal(member));
    for member in ["m2", "m3"] {
        assert_eq!(until_paused(&plane, member, "False").await["status"], "False");
        until_tainted(&plane, member, false).await;
    }
    report(&plane, "m4", "web-m1", 3).await;
    until_gone(&plane, "m1", "web-m1").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    for member in ["m2", "m3", "m4"] {
        let bound = binding(&plane, &format!("web-{member}")).await;
        assert_eq!((clusters(&bound), tasks(&bound).len()), (vec![member.to_owned()], 0));
        assert!(copy(&plane, member, &format!("web-{member}")).await.is_some());
    }
    assert_eq!(clusters(&binding(&plane, "web-m1").await), ["m4"]);
    assert!(settings.metrics.text().contains("karmada_failover_evictions_paused 0\n"));
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_partial_recovery_resumes_evictions_of_the_rest() {
    let members = ["m1", "m2", "m3"];
    let (plane, _) = fleet(&members).await;
    for member in members {
        run_in(&plane, &format!("web-{member}"), member, &members).await;
    }
    ["m1", "m2"].iter().for_each(|member| plane.network.cut(member));
    until_paused(&plane, "m1", "True").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(clusters(&binding(&plane, "web-m1").await), ["m1"]);
    plane.network.heal("m2");
    assert_eq!(until_paused(&plane, "m1", "False").await["reason"], "FleetRecovered");
    until_scheduled(&plane, "web-m1", &["m1"]).await;
    assert_eq!(clusters(&binding(&plane, "web-m2").await), ["m2"]);
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn in_a_small_fleet_a_single_failure_fails_over() {
    for members in [&["m1", "m2"][..], &["m1", "m2", "m3"]] {
        let (plane, _) = fleet(members).await;
        run_in(&plane, "web", "m1", members).await;
        plane.network.cut("m1");
        let to = until_scheduled(&plane, "web", &["m1"]).await;
        report(&plane, &to, "web", 3).await;
        plane.until("the eviction ends", async || tasks(&binding(&plane, "web").await).is_empty().then_some(())).await;
        // An unreachable member keeps its copy until it recovers; then everything converges.
        assert!(copy(&plane, "m1", "web").await.is_some());
        plane.network.heal("m1");
        until_gone(&plane, "m1", "web").await;
        until_tainted(&plane, "m1", false).await;
        assert_eq!(clusters(&binding(&plane, "web").await), std::slice::from_ref(&to));
        assert!(copy(&plane, &to, "web").await.is_some());
        plane.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_eviction_happens_without_another_ready_cluster() {
    let (plane, _) = fleet(&["m1"]).await;
    create(&plane, "web", json!(null)).await;
    until_scheduled(&plane, "web", &[]).await;
    report(&plane, "m1", "web", 3).await;
    until_health(&plane, "m1", "web", "Healthy").await;
    plane.network.cut("m1");
    until_tainted(&plane, "m1", true).await;
    tokio::time::sleep(Duration::from_secs(1200)).await;
    let bound = binding(&plane, "web").await;
    assert_eq!((clusters(&bound), tasks(&bound).len()), (vec!["m1".to_owned()], 0));
    assert_eq!(events(&plane, "EvictionsPaused").await.len(), 1);
    plane.network.heal("m1");
    until_tainted(&plane, "m1", false).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(copy(&plane, "m1", "web").await.map(|it| it["status"]["readyReplicas"].clone()), Some(json!(3)));
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn evictions_resume_when_a_cluster_is_ready() {
    let (plane, _) = fleet(&["m1", "m2"]).await;
    run_in(&plane, "web", "m1", &["m1", "m2"]).await;
    plane.network.cut("m2");
    until_tainted(&plane, "m2", true).await;
    taint(&plane, "m1", json!([{"key": "gone", "effect": "NoExecute"}])).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(clusters(&binding(&plane, "web").await), ["m1"]);
    plane.network.heal("m2");
    assert_eq!(until_scheduled(&plane, "web", &["m1"]).await, "m2");
    plane.shutdown().await;
}

/// Up for 40 s and down for 40 s, for half an hour.
#[tokio::test(start_paused = true)]
async fn a_flapping_cluster_keeps_its_taint_and_evicts_once() {
    let members = ["m1", "m2"];
    let (plane, _) = fleet(&members).await;
    run_in(&plane, "web", "m1", &members).await;
    let (mut turns, mut was) = (0, "True".to_owned());
    let mut seen = std::collections::BTreeSet::new();
    for second in 0..1800 {
        match second % 80 {
            0 => plane.network.cut("m1"),
            40 => plane.network.heal("m1"),
            _ => {}
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let ready = condition(&cluster(&plane, "m1").await, "Ready")["status"].as_str().unwrap_or_default().to_owned();
        turns += usize::from(ready != was);
        was = ready;
        seen.extend(clusters(&binding(&plane, "web").await));
    }
    assert!(turns <= 3, "{turns} turns");
    assert_eq!(clusters(&binding(&plane, "web").await), ["m2"]);
    assert_eq!(seen.len(), 2, "{seen:?}");
    // It is healed, and turns ready when that has lasted.
    plane.network.heal("m1");
    plane
        .until("it is ready", async || {
            (condition(&cluster(&plane, "m1").await, "Ready")["status"] == "True").then_some(())
        })
        .await;
    until_tainted(&plane, "m1", false).await;
    plane.shutdown().await;
}

/// The first report of a process that has just started is only one probe.
#[tokio::test(start_paused = true)]
async fn a_restart_during_a_short_outage_changes_nothing() {
    let members = ["m1", "m2"];
    let (mut plane, _) = fleet(&members).await;
    run_in(&plane, "web", "m1", &members).await;
    plane.network.cut("m1");
    plane.restart_controllers().await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    plane.network.heal("m1");
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(condition(&cluster(&plane, "m1").await, "Ready")["status"], "True");
    }
    assert_eq!(clusters(&binding(&plane, "web").await), ["m1"]);
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn workloads_are_evicted_by_priority() {
    let eviction = Eviction { by_taints: true, rate: Some(1.0), ..Eviction::default() };
    let plane = plane_of(&["m1", "m2"], Settings { eviction, ..evicting() }).await;
    taint(&plane, "m2", json!([{"key": "full", "effect": "NoSchedule"}])).await;
    let classes = ApiResource::cluster("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses");
    let values = [0, 30, 10, 20, 60, 40, 50, 5, 70];
    for value in values.iter().filter(|value| **value > 0) {
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": format!("p{value}")},
            "value": value});
        plane.create(classes.clone(), class).await;
    }
    for value in values {
        create(&plane, &format!("web-{value}"), json!(null)).await;
        if value > 0 {
            let policy = Policy::api_resource(Scope::Namespaced);
            let priority = json!({"spec": {"schedulePriority": {"priorityClassSource": "KubePriorityClass",
                "priorityClassName": format!("p{value}")}}});
            plane.merge(&policy, &demo(&format!("web-{value}")), priority, PatchOptions::default()).await;
        }
    }
    for value in values {
        let has_all = async || {
            let binding = binding(&plane, &format!("web-{value}")).await;
            let priority = binding["spec"]["schedulePriority"]["priority"].as_i64().unwrap_or_default();
            (clusters(&binding) == ["m1"] && priority == value).then_some(())
        };
        plane.until(&format!("a schedule with priority {value}"), has_all).await;
    }
    taint(&plane, "m2", json!([])).await;
    plane.settle().await;
    taint(&plane, "m1", json!([{"key": "gone", "effect": "NoExecute"}])).await;
    // Three workers, each with a pause of a second.
    for expected in [vec![50, 60, 70], vec![20, 30, 40, 50, 60, 70], vec![0, 5, 10, 20, 30, 40, 50, 60, 70]] {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let mut left = Vec::new();
        for value in values {
            let bound = binding(&plane, &format!("web-{value}")).await;
            left.extend((clusters(&bound) != ["m1"]).then_some(value));
        }
        left.sort_unstable();
        assert_eq!(left, expected);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    plane.shutdown().await;
}

/// A member that the control plane cannot reach while it keeps running: its reports are unknown, and nothing in it is
/// deleted.
#[tokio::test(start_paused = true)]
async fn a_member_that_runs_on_unreachable_keeps_its_copies() {
    let members = ["m1", "m2"];
    let (plane, _) = fleet(&members).await;
    run_in(&plane, "web", "m1", &members).await;
    plane.network.cut("m1");
    let to = until_scheduled(&plane, "web", &["m1"]).await;
    // No copy elsewhere becomes healthy: the member recovers before the grace period ends.
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(
        get(&plane.member("m1"), &deployments(), &demo("web")).await.map(|it| it["status"]["readyReplicas"].clone()),
        Some(json!(3))
    );
    plane.network.heal("m1");
    until_tainted(&plane, "m1", false).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(copy(&plane, "m1", "web").await.is_some(), "nothing has replaced it");
    report(&plane, &to, "web", 3).await;
    until_gone(&plane, "m1", "web").await;
    plane.shutdown().await;
}
