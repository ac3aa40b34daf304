//! Affinity and anti-affinity groups of workloads.

use karmada_api::work::v1alpha2::TargetCluster;
use scheduling::{Gates, Peers, Plugins, Problem, decide};
use serde_json::json;

use crate::fleet::{binding, cluster, printed, snapshot};

#[test]
fn groups() {
    let target = |name: &str| TargetCluster { name: name.to_owned(), ..TargetCluster::default() };
    let (on_m1, on_both, nowhere) = ([target("m1")], [target("m1"), target("m2")], []);
    let clusters = || snapshot(vec![cluster("m1", "9", json!({})), cluster("m2", "9", json!({}))]);
    let on = Gates { workload_affinity: true, ..Gates::default() };
    let off = Gates::default();
    let plugins = Gates { plugins: Plugins::parse(["*", "-WorkloadAffinity"]), ..on };
    let not_together = "ResourceBinding with the same affinity group does not target this cluster";
    let not_apart = "0/2 clusters are available: 2 cluster already has workload with the same anti-affinity group.";
    for (name, together, apart, gates, before, expected) in [
        ("the first of a group is free", vec![&nowhere[..]], vec![], on, json!([]), "m1:4 m2:4".to_owned()),
        ("where the group is", vec![&on_m1[..]], vec![], on, json!([]), "m1:4".to_owned()),
        ("where all of the group are", vec![&on_m1[..], &on_both[..]], vec![], on, json!([]), "m1:4".to_owned()),
        ("the gate is off", vec![&on_m1[..]], vec![], off, json!([]), "m1:4 m2:4".to_owned()),
        ("the plugin is off", vec![&on_m1[..]], vec![], plugins, json!([]), "m1:4 m2:4".to_owned()),
        ("away from the group", vec![], vec![&on_m1[..]], on, json!([]), "m2:4".to_owned()),
        ("every cluster has the group", vec![], vec![&on_both[..]], on, json!([]), not_apart.to_owned()),
        (
            "assigned replicas stay",
            vec![],
            vec![&on_both[..]],
            on,
            json!([{"name": "m2", "replicas": 4}]),
            "m2:4".to_owned(),
        ),
        (
            "together and apart",
            vec![&on_m1[..]],
            vec![&on_m1[..]],
            on,
            json!([]),
            format!(
                "0/2 clusters are available: 1 {not_together}, 1 cluster already has workload with the same anti-affinity group."
            ),
        ),
    ] {
        let binding = binding(&json!({"clusters": before}), &json!({}));
        let peers = Peers { together, apart };
        let problem = Problem { peers: Some(&peers), ..Problem::of(&binding).unwrap() };
        assert_eq!(printed(&decide(&problem, &clusters(), &gates)), expected, "{name}");
    }
}
