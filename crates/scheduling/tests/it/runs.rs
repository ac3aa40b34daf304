//! Whole decisions, from clusters and a binding to the result.

use serde_json::{Value, json};

use crate::fleet::{cluster, printed, run};

#[test]
fn reasons_are_counted() {
    let no_api = json!({"status": {"apiEnablements": null}});
    let tainted = |taint: Value| json!({"spec": {"taints": [taint]}});
    let decision = run(
        vec![
            cluster("m1", "10", no_api),
            cluster("m2", "10", tainted(json!({"key": "k", "value": "v", "effect": "NoSchedule"}))),
            cluster("m3", "10", tainted(json!({"key": "k", "effect": "NoExecute"}))),
        ],
        json!({}),
    );
    assert_eq!(
        printed(&decision),
        "0/3 clusters are available: 1 cluster(s) did not have the API resource, 1 cluster(s) had untolerated taint \
         {k:NoExecute}, 1 cluster(s) had untolerated taint {k=v:NoSchedule}."
    );
    assert_eq!(decision.result(), Some(&[][..]));
}
#[test]
fn filters() {
    let taint = |key: &str, value: &str, effect: &str| json!({"spec": {"taints": [{"key": key, "value": value, "effect": effect}]}});
    let plain = |name: &str| cluster(name, "10", json!({}));
    let no_api = |name: &str| cluster(name, "10", json!({"status": {"apiEnablements": null}}));
    let tainted = |name: &str| cluster(name, "10", taint("k", "v", "NoSchedule"));
    let placed = |placement: Value| json!({"placement": placement});
    let target = |name: &str, replicas: i64| json!({"name": name, "replicas": replicas});
    let both_fail = cluster(
        "m1",
        "10",
        json!({"status": {"apiEnablements": null}, "spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}),
    );
    let leaving = cluster("m1", "10", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    let half_api = json!({"status": {"conditions": [{"type": "CompleteAPIEnablements", "status": "False"}], "apiEnablements": null}});
    let affinity = "cluster(s) did not match the placement cluster affinity constraint.";
    for (name, clusters, spec, expected) in [
        (
            "of several refusals the first in order counts",
            vec![both_fail],
            json!({}),
            "0/1 clusters are available: 1 cluster(s) did not have the API resource.".to_owned(),
        ),
        ("no clusters", vec![], json!({}), "0/0 clusters are available: no cluster exists.".to_owned()),
        ("only a leaving one", vec![leaving], json!({}), "0/1 clusters are available: no cluster exists.".to_owned()),
        (
            "targets stay in spite of taints and missing APIs",
            vec![no_api("m1"), tainted("m2")],
            json!({"clusters": [target("m1", 1), target("m2", 1)]}),
            "m1:4 m2:4".to_owned(),
        ),
        (
            "unknown APIs count as missing",
            vec![cluster("m1", "10", half_api)],
            json!({}),
            "0/1 clusters are available: 1 cluster(s) did not have the API resource.".to_owned(),
        ),
        (
            "being evicted, even as a target",
            vec![plain("m1"), plain("m2"), plain("m3")],
            json!({"gracefulEvictionTasks": [{"fromCluster": "m2"}], "clusters": [target("m2", 4)]}),
            "m1:4 m3:4".to_owned(),
        ),
        (
            "a preference only",
            vec![cluster("m1", "10", taint("k", "v", "PreferNoSchedule"))],
            json!({}),
            "m1:4".to_owned(),
        ),
        (
            "tolerated",
            vec![tainted("m1")],
            placed(json!({"clusterTolerations": [{"key": "k", "operator": "Exists"}]})),
            "m1:4".to_owned(),
        ),
        (
            "tolerated by order only",
            vec![tainted("m1")],
            placed(json!({"clusterTolerations": [{"key": "k", "operator": "Gt", "value": "v"}]})),
            "0/1 clusters are available: 1 cluster(s) had untolerated taint {k=v:NoSchedule}.".to_owned(),
        ),
        (
            "no cluster has the name",
            vec![plain("m1"), plain("m2")],
            placed(json!({"clusterAffinity": {"clusterNames": ["zz"]}})),
            format!("0/2 clusters are available: 2 {affinity}"),
        ),
        (
            "reasons are sorted as texts",
            vec![no_api("m1"), no_api("m2"), tainted("m3")],
            json!({}),
            "0/3 clusters are available: 1 cluster(s) had untolerated taint {k=v:NoSchedule}, 2 cluster(s) did not \
             have the API resource."
                .to_owned(),
        ),
        (
            "properties",
            vec![plain("m1")],
            placed(json!({"spreadConstraints": [{"spreadByField": "zone", "minGroups": 1, "maxGroups": 1}]})),
            "0/1 clusters are available: 1 cluster(s) did not have zones property.".to_owned(),
        ),
        (
            "regions",
            vec![plain("m1"), cluster("m2", "10", json!({"spec": {"region": "eu"}}))],
            placed(json!({"spreadConstraints": [
                {"spreadByField": "region", "minGroups": 1, "maxGroups": 2},
                {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 2},
            ]})),
            "m2:4".to_owned(),
        ),
    ] {
        assert_eq!(printed(&run(clusters, spec)), expected, "{name}");
    }
}

fn divided(preference: &str) -> Value {
    let weights = (preference == "Weighted").then(|| json!({"dynamicWeight": "AvailableReplicas"}));
    json!({
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": (!preference.is_empty()).then_some(preference),
        "weightPreference": weights,
    })
}

#[test]
fn capacity() {
    let by_cpu = |cpus: &[&str]| -> Vec<Value> {
        (1..).zip(cpus).map(|(index, cpu)| cluster(&format!("m{index}"), cpu, json!({}))).collect()
    };
    let one_cpu = json!({"resourceRequest": {"cpu": "1"}});
    let dynamic = json!({"replicaScheduling": divided("Weighted")});
    let mut one_cluster = dynamic.clone();
    one_cluster["spreadConstraints"] = json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]);
    let duplicated_once = json!({"spreadConstraints": one_cluster["spreadConstraints"]});
    for (name, clusters, spec, expected) in [
        (
            "by cpu",
            by_cpu(&["6", "2", "0"]),
            json!({"placement": dynamic, "replicaRequirements": one_cpu}),
            "m1:3 m2:1",
        ),
        (
            "too little",
            by_cpu(&["1", "2"]),
            json!({"placement": dynamic, "replicaRequirements": one_cpu}),
            "failed to assign replicas: failed to scale up: Clusters available replicas 3 are not enough to schedule.",
        ),
        (
            "too little in one",
            by_cpu(&["1", "2"]),
            json!({"placement": one_cluster, "replicaRequirements": one_cpu}),
            "failed to select clusters: no enough resource when selecting 1 clusters",
        ),
        ("not a workload", by_cpu(&["1", "2"]), json!({"placement": dynamic, "replicas": 0}), "m1:0 m2:0"),
        (
            "hosts are preferred",
            by_cpu(&["5", "9"]),
            json!({"placement": duplicated_once, "replicaRequirements": one_cpu, "clusters": [{"name": "m1", "replicas": 4}]}),
            "m1:4",
        ),
        ("pods alone", by_cpu(&["1", "1"]), json!({"placement": dynamic}), "m1:2 m2:2"),
        (
            "no preference",
            by_cpu(&["1"]),
            json!({"placement": {"replicaScheduling": divided("")}}),
            "failed to assign replicas: unsupported replica scheduling strategy, replicaSchedulingType: Divided, \
             replicaDivisionPreference: , please try another scheduling strategy",
        ),
        (
            "the known order is kept",
            by_cpu(&["5", "9"]),
            json!({"placement": {}, "clusters": [{"name": "m1", "replicas": 4}, {"name": "m2", "replicas": 4}]}),
            "m1:4 m2:4",
        ),
    ] {
        assert_eq!(printed(&run(clusters, spec)), expected, "{name}");
    }
}
