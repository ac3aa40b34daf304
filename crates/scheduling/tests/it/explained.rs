//! Why each cluster was chosen or rejected.

use scheduling::{Gates, Problem, decide, explain};
use serde_json::json;

use crate::fleet::{binding, cluster, snapshot};

#[test]
fn each_cluster_has_a_verdict() {
    let clusters = snapshot(vec![
        cluster("free", "6", json!({})),
        cluster("host", "1", json!({})),
        cluster("leaving", "9", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})),
        cluster("spare", "1", json!({})),
        cluster("tainted", "9", json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}})),
    ]);
    let binding = binding(
        &json!({
            "clusters": [{"name": "host", "replicas": 1}],
            "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
            "placement": {
                "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
                "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 2}],
            },
        }),
        &json!({}),
    );
    let problem = Problem::of(&binding).unwrap();
    let (decision, verdicts) = explain(&problem, &clusters, &Gates::default());
    assert_eq!(decision, decide(&problem, &clusters, &Gates::default()));
    let printed: Vec<String> = verdicts
        .iter()
        .map(|it| {
            let numbers = it
                .numbers
                .map(|it| format!(" {} {}/{} t{}", it.score, it.allocatable, it.available, it.overflow_order));
            let rejected = it.rejected_by.as_ref().map(|it| format!(" {}: {} ({})", it.plugin, it.reason, it.field));
            format!(
                "{} {} {}{}{}",
                it.cluster,
                if it.chosen {
                    "chosen"
                } else if it.selected {
                    "selected"
                } else {
                    "-"
                },
                it.replicas,
                numbers.unwrap_or_default(),
                rejected.unwrap_or_default()
            )
        })
        .collect();
    assert_eq!(
        printed,
        [
            "free chosen 3 0 6/6 t0",
            "host chosen 1 100 1/2 t0",
            "leaving - 0",
            "spare - 0 0 1/1 t0",
            "tainted - 0 TaintToleration: cluster(s) had untolerated taint {k:NoExecute} (cluster: spec.taints[0])",
        ]
    );
}

#[test]
fn expired_tolerations_admit_no_cluster_where_taints_evict() {
    let taint = json!({"key": "k", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"});
    let clusters = snapshot(vec![cluster("tainted", "9", json!({"spec": {"taints": [taint]}}))]);
    let tolerates = |seconds: serde_json::Value| json!({"placement": {"clusterTolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": seconds}]}});
    let evicting = Gates { tolerations_expire: true, ..Gates::default() };
    for (seconds, now, gates, is_feasible) in [
        (json!(30), "2026-01-01T00:00:29Z", evicting, true),
        (json!(30), "2026-01-01T00:00:30Z", evicting, false),
        (json!(30), "2026-01-01T00:00:30Z", Gates::default(), true),
        (json!(null), "2026-01-02T00:00:00Z", evicting, true),
        (json!(0), "2026-01-01T00:00:00Z", evicting, false),
    ] {
        let binding = binding(&tolerates(seconds), &json!({}));
        let time: jiff::Timestamp = now.parse().expect("a time");
        let since = |at| time.duration_since(at);
        let problem = Problem { since: Some(&since), ..Problem::of(&binding).expect("a placement") };
        assert_eq!(decide(&problem, &clusters, &gates).clusters.is_ok(), is_feasible, "{now:?} {gates:?}");
    }
}
