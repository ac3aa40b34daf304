//! The Remedies that match a cluster's conditions.

use std::collections::BTreeSet;

use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::remedy::v1alpha1::{ClusterConditionOperator, DecisionMatch, Remedy};

/// The matching actions for a cluster, each once and in order.
pub fn actions<'a>(cluster: &Cluster, remedies: impl IntoIterator<Item = &'a Remedy>) -> Vec<String> {
    let due = remedies.into_iter().filter(|remedy| concerns(remedy, cluster) && is_due(remedy, cluster));
    let actions: BTreeSet<&String> = due.flat_map(|remedy| &remedy.spec.actions).collect();
    actions.into_iter().cloned().collect()
}

/// Whether a Remedy is about a cluster: without an affinity, it is about all.
fn concerns(remedy: &Remedy, cluster: &Cluster) -> bool {
    let affinity = remedy.spec.cluster_affinity.as_ref();
    affinity.is_none_or(|affinity| affinity.cluster_names.contains(&cluster.metadata.name))
}

/// Without tests, always; with them, when any of them holds.
fn is_due(remedy: &Remedy, cluster: &Cluster) -> bool {
    let tests = remedy.spec.decision_matches.as_ref();
    tests.is_none_or(|tests| tests.iter().any(|test| holds(test, cluster)))
}

/// A condition that the cluster does not have is neither equal to anything nor unequal.
fn holds(test: &DecisionMatch, cluster: &Cluster) -> bool {
    let Some(test) = &test.cluster_condition_match else { return false };
    let Some(condition) = cluster.condition(&test.condition_type) else { return false };
    match test.operator {
        ClusterConditionOperator::Equal => condition.status == test.condition_status,
        ClusterConditionOperator::NotEqual => condition.status != test.condition_status,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn remedy(spec: Value) -> Remedy {
        serde_json::from_value(json!({"metadata": {"name": "r"}, "spec": spec})).expect("a remedy")
    }

    #[test]
    fn actions_follow_conditions() {
        let conditions =
            json!([{"type": "Dns", "status": "False", "lastTransitionTime": null, "reason": "", "message": ""}]);
        let cluster: Cluster =
            serde_json::from_value(json!({"metadata": {"name": "m1"}, "status": {"conditions": conditions}})).unwrap();
        let bare: Cluster = serde_json::from_value(json!({"metadata": {"name": "m1"}})).unwrap();
        let when = |operator: &str, status: &str| {
            json!({"actions": ["B", "A"], "decisionMatches": [{"clusterConditionMatch":
                {"conditionType": "Dns", "operator": operator, "conditionStatus": status}}]})
        };
        for (spec, with, without) in [
            (json!({"actions": ["B", "A", "B"]}), 2, 2),
            (json!({"actions": ["A", "B"], "clusterAffinity": {"clusterNames": ["m2", "m1"]}}), 2, 2),
            (json!({"actions": ["A"], "clusterAffinity": {"clusterNames": ["m2"]}}), 0, 0),
            (json!({"actions": ["A"], "clusterAffinity": {}}), 0, 0),
            (json!({"actions": ["A"], "decisionMatches": []}), 0, 0),
            (json!({"actions": ["A"], "decisionMatches": [{}]}), 0, 0),
            (when("Equal", "False"), 2, 0),
            (when("Equal", "True"), 0, 0),
            (when("NotEqual", "True"), 2, 0),
            (when("NotEqual", "False"), 0, 0),
        ] {
            let remedy = remedy(spec.clone());
            let expected = |n: usize| ["A", "B"].map(str::to_owned).into_iter().take(n).collect::<Vec<_>>();
            assert_eq!(actions(&cluster, [&remedy]), expected(with), "{spec}");
            assert_eq!(actions(&bare, [&remedy]), expected(without), "{spec}");
        }
    }

    #[test]
    fn actions_of_several_remedies_are_merged() {
        let (one, two) = (remedy(json!({"actions": ["b", "c"]})), remedy(json!({"actions": ["a", "b"]})));
        assert_eq!(actions(&Cluster::default(), [&one, &two]), ["a", "b", "c"]);
    }
}
