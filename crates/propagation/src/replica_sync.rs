//! Replicas of a Deployment whose copies are scaled in the members: the template follows their sum.

use karmada_api::policy::v1alpha1::ReplicaSchedulingType;
use karmada_api::scope::Binding;
use serde_json::Value;

/// The decision about a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// The template matches its copies, or is not divided.
    Nothing,
    /// The status does not belong to the current spec yet.
    Unsettled,
    /// The template should have this many replicas.
    Replicas(i64),
}

/// The replicas that a divided Deployment should have according to its copies.
pub fn of_deployment(deployment: &Value, binding: &Binding) -> Sync {
    let number = |at: &str| deployment[at]["replicas"].as_i64();
    let (desired, actual) = (number("spec").unwrap_or(1), number("status").unwrap_or_default());
    if !is_divided(binding) || desired == actual {
        return Sync::Nothing;
    }
    if is_settled(desired, actual, binding) { Sync::Replicas(actual) } else { Sync::Unsettled }
}

fn is_divided(binding: &Binding) -> bool {
    let scheduling = binding.spec.placement.as_ref().and_then(|placement| placement.replica_scheduling.as_ref());
    let divided = |type_: Option<ReplicaSchedulingType>| type_.unwrap_or_default() == ReplicaSchedulingType::Divided;
    scheduling.is_some_and(|scheduling| divided(scheduling.replica_scheduling_type))
}

/// Whether the status is the sum over the clusters of the last scheduling result for the template's current replicas.
fn is_settled(desired: i64, actual: i64, binding: &Binding) -> bool {
    let (spec, status) = (&binding.spec, &binding.status);
    let scheduled =
        i64::from(spec.replicas) == desired && binding.metadata.generation == status.scheduler_observed_generation;
    if !scheduled || spec.clusters.len() != status.aggregated_status.len() {
        return false;
    }
    let reported = |cluster: &str| -> Option<i64> {
        let item = status.aggregated_status.iter().find(|item| item.cluster_name == cluster)?;
        item.status.as_ref()?.to_value().ok()?["replicas"].as_i64().filter(|replicas| *replicas > 0)
    };
    let sum = spec.clusters.iter().try_fold(0_i64, |sum, target| sum.checked_add(reported(&target.name)?));
    sum == Some(actual)
}

#[cfg(test)]
mod tests {
    use karmada_api::scope::Scope;
    use serde_json::json;

    use super::*;

    fn binding(change: impl FnOnce(&mut Value)) -> Binding {
        let mut tree = json!({
            "metadata": {"name": "web-deployment", "namespace": "default", "generation": 4},
            "spec": {"replicas": 3, "clusters": [{"name": "m1", "replicas": 1}, {"name": "m2", "replicas": 2}],
                "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided"}}},
            "status": {"schedulerObservedGeneration": 4, "aggregatedStatus": [
                {"clusterName": "m1", "status": {"replicas": 1}}, {"clusterName": "m2", "status": {"replicas": 4}}]},
        });
        change(&mut tree);
        let part = |name: &str| tree[name].clone();
        Binding {
            scope: Scope::Namespaced,
            metadata: serde_json::from_value(part("metadata")).expect("metadata"),
            spec: serde_json::from_value(part("spec")).expect("a spec"),
            status: serde_json::from_value(part("status")).expect("a status"),
        }
    }

    #[test]
    fn the_template_follows_a_settled_status() {
        type Change = fn(&mut Value);
        let cases: [(&str, i64, i64, Change, Sync); 10] = [
            ("scaled in a member", 3, 5, |_| (), Sync::Replicas(5)),
            ("nothing to do", 5, 5, |_| (), Sync::Nothing),
            (
                "duplicated",
                3,
                5,
                |it| it["spec"]["placement"]["replicaScheduling"]["replicaSchedulingType"] = json!("Duplicated"),
                Sync::Nothing,
            ),
            ("without a strategy", 3, 5, |it| it["spec"]["placement"] = json!({}), Sync::Nothing),
            ("of an older template", 4, 5, |_| (), Sync::Unsettled),
            ("not scheduled yet", 3, 5, |it| it["metadata"]["generation"] = json!(5), Sync::Unsettled),
            (
                "a cluster has not reported",
                3,
                5,
                |it| it["status"]["aggregatedStatus"][1]["status"] = Value::Null,
                Sync::Unsettled,
            ),
            (
                "a cluster without replicas",
                3,
                1,
                |it| it["status"]["aggregatedStatus"][1]["status"]["replicas"] = json!(0),
                Sync::Unsettled,
            ),
            (
                "another cluster has reported",
                3,
                5,
                |it| it["status"]["aggregatedStatus"][1]["clusterName"] = json!("m3"),
                Sync::Unsettled,
            ),
            ("the sum is not reported yet", 3, 4, |_| (), Sync::Unsettled),
        ];
        for (name, desired, actual, change, expected) in cases {
            let deployment = json!({"spec": {"replicas": desired}, "status": {"replicas": actual}});
            assert_eq!(of_deployment(&deployment, &binding(change)), expected, "{name}");
        }
    }
}
