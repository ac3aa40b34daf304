//! The scheduler's decision for each cluster: score, filter, and the division of replicas.

use std::collections::BTreeMap;

use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::policy::v1alpha1::{Placement, ReplicaDivisionPreference, ReplicaSchedulingType, StaticClusterWeight};
use karmada_api::scope::Binding;
use propagation::cluster::matches;
use scheduling::report::Report;
use serde_json::{Value, json};

use crate::placement::explanation::record_of;
use crate::placement::places::{Obstacle, Row};

/// The numbers behind one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    pub score: Option<i64>,
    /// The plugin that filtered it out.
    pub filter: String,
}

/// By cluster. Filters are from a calculation over the current clusters, as are the states of the rows; scores are
/// those that the scheduler recorded with the last decision, if any: those of the first clusters where there are many.
/// Upstream's scheduler records none.
pub fn evidence(binding: &Binding, report: Option<&Report>) -> BTreeMap<String, Evidence> {
    let mut found: BTreeMap<String, Evidence> = BTreeMap::new();
    for verdict in report.iter().flat_map(|report| &report.clusters) {
        let filter = verdict.rejected_by.as_ref().map(|it| it.plugin.to_owned()).unwrap_or_default();
        let score = verdict.numbers.map(|it| it.score);
        found.insert(verdict.cluster.clone(), Evidence { score, filter });
    }
    let Some(record) = record_of(binding).filter(|it| it.generation == binding.metadata.generation) else {
        return found;
    };
    if record.cut {
        // A current score beside recorded ones would look like a difference between the clusters.
        found.values_mut().for_each(|evidence| evidence.score = None);
    }
    for placed in record.chosen.iter().chain(&record.passed) {
        let evidence = found.entry(placed.name.clone()).or_default();
        if evidence.filter.is_empty() {
            evidence.score = Some(placed.score);
        }
    }
    found
}

/// The plugin that rejects an unselected cluster; the affinity, if the row's state names that.
fn filter(row: &Row, evidence: &BTreeMap<String, Evidence>) -> Option<String> {
    const AFFINITY: &str = "ClusterAffinity";
    let known = evidence.get(&row.cluster).map(|it| it.filter.as_str());
    let known = known.filter(|it| !row.is_target && !it.is_empty())?;
    Some(match row.obstacle {
        Some(Obstacle::NotAdmitted) if known != AFFINITY => format!("{AFFINITY}, {known}"),
        _ => known.to_owned(),
    })
}

/// A line of the table of clusters. A filter counts for clusters that were not chosen.
pub fn cells(row: &Row, evidence: &BTreeMap<String, Evidence>) -> [String; 6] {
    let number = |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let known = evidence.get(&row.cluster);
    [
        row.cluster.clone(),
        number(row.replicas),
        number(known.and_then(|it| it.score)),
        number(row.capacity),
        filter(row, evidence).unwrap_or_else(|| "-".to_owned()),
        row.state.clone(),
    ]
}

pub fn value(row: &Row, evidence: &BTreeMap<String, Evidence>) -> Value {
    let known = evidence.get(&row.cluster);
    let mut value = row.to_value();
    value["score"] = json!(known.and_then(|it| it.score));
    value["filteredBy"] = json!(filter(row, evidence));
    value
}

/// How the placement divides replicas over the `assigned` clusters.
pub fn division(placement: &Placement, assigned: &[&Cluster]) -> String {
    let strategy = placement.replica_scheduling.clone().unwrap_or_default();
    let is_divided = strategy.replica_scheduling_type == Some(ReplicaSchedulingType::Divided);
    let Some(preference) = strategy.replica_division_preference.filter(|_| is_divided) else {
        return match is_divided {
            true => "divided (replicaSchedulingType: Divided)".to_owned(),
            false => "every cluster gets all replicas (replicaSchedulingType: Duplicated)".to_owned(),
        };
    };
    let weights = strategy.weight_preference.unwrap_or_default();
    match preference {
        ReplicaDivisionPreference::Aggregated => {
            "divided over as few clusters as have room (Divided, Aggregated)".to_owned()
        }
        ReplicaDivisionPreference::Weighted if weights.dynamic_weight.is_some() => {
            "divided by the room in each cluster (Divided, Weighted, AvailableReplicas)".to_owned()
        }
        ReplicaDivisionPreference::Weighted if weights.static_weight_list.is_empty() => {
            "divided evenly (Divided, Weighted)".to_owned()
        }
        ReplicaDivisionPreference::Weighted => {
            let one = |it: &StaticClusterWeight| {
                let names = &it.target_cluster.cluster_names;
                let names = if names.is_empty() { "those it selects".to_owned() } else { names.join("+") };
                format!("{names}={}", it.weight)
            };
            let list = weights.static_weight_list.iter().map(one).collect::<Vec<String>>().join(", ");
            let applies =
                |it: &StaticClusterWeight| assigned.iter().any(|cluster| matches(&it.target_cluster, cluster));
            if assigned.is_empty() || weights.static_weight_list.iter().any(applies) {
                return format!("divided by the weights {list} (Divided, Weighted)");
            }
            format!("divided evenly, for none of these clusters has a weight: {list} (Divided, Weighted)")
        }
    }
}

/// The affinity group that is in use, of several.
pub fn affinity(binding: &Binding, placement: &Placement) -> Option<String> {
    let name = &binding.status.scheduler_observing_affinity_name;
    let all: Vec<&str> = placement.cluster_affinities.iter().map(|it| it.affinity_name.as_str()).collect();
    if all.is_empty() {
        return None;
    }
    Some(match all.iter().position(|it| it == name) {
        Some(index) => format!("{name}, number {} of {}: {}", index + 1, all.len(), all.join(", ")),
        None => format!("none of {} yet: {}", all.len(), all.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use karmada_api::scope::Scope;
    use scheduling::Decision;
    use scheduling::{Numbers, Verdict};

    use super::*;

    #[test]
    fn scores_of_different_times_are_not_mixed() {
        let verdict = |cluster: &str| Verdict {
            cluster: cluster.into(),
            chosen: true,
            replicas: 1,
            selected: true,
            rejected_by: None,
            numbers: Some(Numbers { score: 100, allocatable: 1, available: 1, overflow_order: 0 }),
        };
        let report = Report {
            namespace: String::new(),
            name: "b".into(),
            resource: Default::default(),
            needed: None,
            decision: Decision { clusters: Ok(Vec::new()), affinity_term: None, failures: Vec::new() },
            clusters: vec![verdict("m1"), verdict("m2")],
            shortage: None,
        };
        for (record, expected) in [
            (None, [Some(100), Some(100)]),
            (Some(r#"{"generation": 2, "clusters": 2, "chosen": [{"name": "m1"}]}"#), [Some(100), Some(100)]),
            (
                Some(r#"{"generation": 3, "clusters": 2, "chosen": [{"name": "m1"}, {"name": "m2", "score": 7}]}"#),
                [Some(0), Some(7)],
            ),
            (Some(r#"{"generation": 3, "clusters": 2, "chosen": [{"name": "m1"}], "cut": true}"#), [Some(0), None]),
        ] {
            let annotations = record.map(|record| json!({"karmada-rs.io/last-decision": record}));
            let binding = json!({"metadata": {"name": "b", "generation": 3, "annotations": annotations}, "spec": {"resource": {}}});
            let binding = Binding::from_value(Scope::Namespaced, &binding).expect("a binding");
            let found = evidence(&binding, Some(&report));
            assert_eq!(["m1", "m2"].map(|name| found[name].score), expected, "{record:?}");
        }
    }

    #[test]
    fn weights_of_other_clusters_divide_nothing() {
        let weight = |cluster: &str| json!({"targetCluster": {"clusterNames": [cluster]}, "weight": 2});
        let division = |weights: Value, assigned: &[&str]| {
            let placement = json!({"replicaScheduling": {"replicaSchedulingType": "Divided",
                "replicaDivisionPreference": "Weighted", "weightPreference": {"staticWeightList": weights}}});
            let placement: Placement = serde_json::from_value(placement).expect("a placement");
            let of =
                |name: &&str| serde_json::from_value(json!({"metadata": {"name": name}, "spec": {}})).expect("one");
            let clusters: Vec<Cluster> = assigned.iter().map(of).collect();
            division(&placement, &clusters.iter().collect::<Vec<_>>())
        };
        for (weights, assigned, expected) in [
            (json!([weight("m3")]), &["m1", "m2"][..], "evenly, for none of these clusters has a weight: m3=2"),
            (json!([weight("m3"), weight("m1")]), &["m1"][..], "by the weights m3=2, m1=2"),
            (json!([weight("m3")]), &[][..], "by the weights m3=2"),
            (json!([]), &["m1"][..], "evenly"),
        ] {
            assert_eq!(division(weights, assigned), format!("divided {expected} (Divided, Weighted)"));
        }
    }
}
