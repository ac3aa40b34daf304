//! Pages of clusters.

use serde_json::{Value, json};

use super::super::{cluster, template, works};
use super::{cluster_of, fixture, work};

#[test]
fn clusters_are_listed_with_waiting_works() {
    let facts = |patch: Value, works: Vec<Value>| {
        let mut cluster = cluster_of("m1");
        apimachinery::merge_patch::apply(&mut cluster, &patch);
        let works = works.into_iter().map(|it| works::Row::of(&serde_json::from_value(it).unwrap())).collect();
        cluster::Facts {
            cluster: serde_json::from_value(cluster).unwrap(),
            works,
            leaving: Vec::new(),
            unknown: Vec::new(),
        }
    };
    let taint = |key: &str, effect: &str| json!({"spec": {"taints": [{"key": key, "effect": effect}]}});
    let condition = |type_: &str, status: &str| {
        json!({"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": type_, "status": status, "reason": "R", "message": "why",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})
    };
    let away = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "ClusterNotReachable", "message": "no answer"}]}});
    for (facts, expected) in [
        (facts(json!({}), vec![]), ["ready, and takes workloads", "-", "nothing to do"]),
        (
            facts(away, vec![]),
            [
                "not ready: no answer (ClusterNotReachable)",
                "the cluster to answer its probes",
                "see whether https://m answers from the control plane",
            ],
        ),
        (
            facts(taint("cluster.karmada.io/unschedulable", "NoSchedule"), vec![]),
            ["ready and cordoned", "-", "let new workloads in: karmadactl uncordon m1"],
        ),
        (
            facts(taint("gpu", "NoExecute"), vec![]),
            ["ready; it takes the workloads that tolerate its taints", "-", "nothing to do"],
        ),
        (
            facts(condition("ResumePending", "True"), vec![]),
            ["ready and held", "why", "confirm what changes in it: karmadactl resume m1 --dry-run"],
        ),
        (
            facts(condition("EvictionsPaused", "True"), vec![]),
            [
                "ready, and takes workloads",
                "evictions from it are paused since 2026-01-01T00:00:00Z",
                "if it is lost, release its workloads",
            ],
        ),
        (
            facts(json!({}), vec![work("m1", Some(("False", "boom")))]),
            [
                "ready, and takes workloads",
                "1 of 1 Works are not applied",
                "see why a Work is not applied: karmadactl why work/web-1 -n karmada-es-m1",
            ],
        ),
    ] {
        let page = cluster::page(&facts);
        let first = |list: &[String]| list.first().cloned().unwrap_or_else(|| "-".to_owned());
        let found = [page.answer.clone(), first(&page.waiting), first(&page.next)];
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{expected:?} is not how {found:?} begins");
        }
    }
}

#[test]
fn warnings_about_clusters_that_are_fine_are_left_out() {
    let reports = json!({"status": {"aggregatedStatus": [{"clusterName": "m1", "applied": true, "health": "Healthy"},
        {"clusterName": "m2", "applied": false, "appliedMessage": "no"}]}});
    let works = vec![work("m1", Some(("True", ""))), work("m2", Some(("False", "no")))];
    let mut facts = fixture().binding(reports).works(works).facts();
    let about = |reason: &str, cluster: &str| format!("{reason}: failed for cluster({cluster}): no");
    facts.live.warnings = ["m1", "m2", "m3"].iter().map(|cluster| about("SyncFailed", cluster)).collect();
    facts.live.warnings.extend([about("ApplyOverridePolicyFailed", "m1"), about("GetReplicasFailed", "m1")]);
    let page = template::page(&facts);
    let expected = json!([about("SyncFailed", "m2"), about("SyncFailed", "m3"), about("GetReplicasFailed", "m1")]);
    assert_eq!(page.to_value()["warnings"], expected);
}
