//! The taints that the system sets on a cluster: for its Ready condition, and for ClusterTaintPolicies.

use apimachinery::meta::Time;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::{conditions, taints};
use karmada_api::kubernetes::Taint;
use karmada_api::policy::v1alpha1::{ClusterTaintPolicy, MatchCondition};

use crate::cluster::matches;

/// The taints a cluster should have; `None` when it has them.
pub fn by_readiness(cluster: &Cluster, now: Time) -> Option<Vec<Taint>> {
    let ready = cluster.condition(conditions::READY).map_or("", |condition| condition.status.as_str());
    let (not_ready, unreachable) = match ready {
        "True" => (false, false),
        "Unknown" => (false, true),
        _ => (true, false),
    };
    let mut desired = cluster.spec.taints.clone();
    set(&mut desired, taints::NOT_READY, not_ready, now);
    set(&mut desired, taints::UNREACHABLE, unreachable, now);
    (desired != cluster.spec.taints).then_some(desired)
}

fn set(list: &mut Vec<Taint>, key: &str, desired: bool, now: Time) {
    let is_it = |taint: &Taint| taint.key == key && taint.effect == taints::NO_SCHEDULE;
    match (desired, list.iter().any(is_it)) {
        (true, false) => list.push(Taint {
            key: key.to_owned(),
            effect: taints::NO_SCHEDULE.to_owned(),
            time_added: Some(now),
            ..Taint::default()
        }),
        (false, true) => list.retain(|taint| !is_it(taint)),
        _ => {}
    }
}

/// The taints that ClusterTaintPolicies require on a cluster, the oldest policies first; `None` if they are unchanged.
/// A taint added by a policy stays when the policy changes or is deleted: only the policy's own conditions remove it.
pub fn by_policies<'a>(
    cluster: &Cluster,
    policies: impl IntoIterator<Item = &'a ClusterTaintPolicy>,
    now: Time,
) -> Option<Vec<Taint>> {
    let mut policies: Vec<&ClusterTaintPolicy> = policies.into_iter().collect();
    policies.sort_by_key(|policy| (policy.metadata.creation_timestamp, &policy.metadata.name));
    let mut desired = cluster.spec.taints.clone();
    for policy in policies {
        let spec = &policy.spec;
        if spec.target_clusters.as_ref().is_some_and(|target| !matches(target, cluster)) {
            continue;
        }
        if all_hold(&spec.add_on_conditions, cluster) {
            for taint in &spec.taints {
                if !desired.iter().any(|it| (&it.key, &it.effect) == (&taint.key, &taint.effect)) {
                    desired.push(Taint {
                        key: taint.key.clone(),
                        effect: taint.effect.clone(),
                        value: taint.value.clone(),
                        time_added: Some(now),
                    });
                }
            }
        }
        if all_hold(&spec.remove_on_conditions, cluster) {
            desired.retain(|it| !spec.taints.iter().any(|taint| (&it.key, &it.effect) == (&taint.key, &taint.effect)));
        }
    }
    (desired != cluster.spec.taints).then_some(desired)
}

/// No tests never hold, nor does one of a condition that the cluster does not have.
fn all_hold(tests: &[MatchCondition], cluster: &Cluster) -> bool {
    let holds = |test: &MatchCondition| {
        let Some(condition) = cluster.condition(&test.condition_type) else { return false };
        match test.operator.as_str() {
            "In" => test.status_values.contains(&condition.status),
            "NotIn" => !test.status_values.contains(&condition.status),
            _ => false,
        }
    };
    !tests.is_empty() && tests.iter().all(holds)
}

/// The message of the event about a cluster's taints.
pub fn message(taints: &[Taint]) -> String {
    format!("Taint cluster succeed: {}.", shown(taints))
}

/// The message of the event about taints that policies changed.
pub fn message_of_policies(cluster: &str, taints: &[Taint]) -> String {
    format!("Update Cluster({cluster}) with taints({}) succeed", shown(taints))
}

fn shown(taints: &[Taint]) -> String {
    if taints.is_empty() {
        return "cluster now does not have taints".to_owned();
    }
    let listed: Vec<String> = taints
        .iter()
        .map(|taint| match taint.value.as_str() {
            "" => format!("{{Key:{},Effect:{}}}", taint.key, taint.effect),
            value => format!("{{Key:{},Value:{value},Effect:{}}}", taint.key, taint.effect),
        })
        .collect();
    format!("cluster now has taints([{}])", listed.join(","))
}

#[cfg(test)]
mod tests {
    use apimachinery::meta::Condition;

    use super::*;

    #[test]
    fn by_the_ready_condition() {
        let now = Time::new("2026-01-02T03:04:05Z".parse().unwrap());
        let taint = |key: &str| Taint {
            key: key.to_owned(),
            effect: "NoSchedule".to_owned(),
            time_added: Some(now),
            ..Taint::default()
        };
        let mine = taint("mine");
        for (ready, before, after) in [
            (None, vec![], Some(vec![taints::NOT_READY])),
            (Some("False"), vec![taints::UNREACHABLE], Some(vec![taints::NOT_READY])),
            (Some("Unknown"), vec![taints::NOT_READY], Some(vec![taints::UNREACHABLE])),
            (Some("True"), vec![taints::NOT_READY, taints::UNREACHABLE], Some(vec![])),
            (Some("True"), vec![], None),
        ] {
            let mut cluster = Cluster::default();
            cluster.spec.taints = std::iter::once(mine.clone()).chain(before.iter().map(|key| taint(key))).collect();
            cluster.status.conditions.extend(ready.map(|status| Condition {
                type_: "Ready".to_owned(),
                status: status.to_owned(),
                ..Condition::default()
            }));
            let expected = after.map(|keys: Vec<&str>| {
                std::iter::once(mine.clone()).chain(keys.into_iter().map(taint)).collect::<Vec<_>>()
            });
            assert_eq!(by_readiness(&cluster, now), expected, "{ready:?}");
        }
        assert_eq!(
            message(&[taint("a")]),
            "Taint cluster succeed: cluster now has taints([{Key:a,Effect:NoSchedule}])."
        );
    }

    #[test]
    fn by_policies_in_the_order_of_their_age() {
        let now = Time::new("2026-01-02T03:04:05Z".parse().unwrap());
        let policy = |age: &str, spec: serde_json::Value| -> ClusterTaintPolicy {
            let metadata = serde_json::json!({"name": age, "creationTimestamp": format!("2026-01-01T00:00:0{age}Z")});
            serde_json::from_value(serde_json::json!({"metadata": metadata, "spec": spec})).expect("a policy")
        };
        let test = |operator: &str, type_: &str, statuses: &[&str]| serde_json::json!({"conditionType": type_, "operator": operator, "statusValues": statuses});
        let (ill, well) = (test("In", "Ready", &["False", "Unknown"]), test("NotIn", "Ready", &["False"]));
        let nets = test("In", "Net", &["False"]);
        let (a, b) = (
            serde_json::json!({"key": "a", "effect": "NoSchedule"}),
            serde_json::json!({"key": "b", "effect": "NoExecute", "value": "v"}),
        );
        for (name, ready, net, specs, before, after) in [
            (
                "both taints",
                "False",
                None,
                vec![serde_json::json!({"addOnConditions": [ill], "taints": [a, b]})],
                vec![],
                Some(vec!["a", "b"]),
            ),
            (
                "has one",
                "False",
                None,
                vec![serde_json::json!({"addOnConditions": [ill], "taints": [a, b]})],
                vec!["a"],
                Some(vec!["a", "b"]),
            ),
            (
                "has all",
                "False",
                None,
                vec![serde_json::json!({"addOnConditions": [ill], "taints": [a]})],
                vec!["a"],
                None,
            ),
            (
                "one of two tests",
                "False",
                None,
                vec![serde_json::json!({"addOnConditions": [ill, nets], "taints": [a]})],
                vec![],
                None,
            ),
            (
                "two tests",
                "False",
                Some("False"),
                vec![serde_json::json!({"addOnConditions": [ill, nets], "taints": [a]})],
                vec![],
                Some(vec!["a"]),
            ),
            ("no tests", "False", None, vec![serde_json::json!({"taints": [a]})], vec![], None),
            (
                "removed",
                "True",
                None,
                vec![serde_json::json!({"addOnConditions": [ill], "removeOnConditions": [well], "taints": [a]})],
                vec!["a", "x"],
                Some(vec!["x"]),
            ),
            (
                "no condition",
                "True",
                None,
                vec![serde_json::json!({"removeOnConditions": [test("NotIn", "Net", &["False"])], "taints": [a]})],
                vec!["a"],
                None,
            ),
            (
                "unknown operator",
                "True",
                None,
                vec![serde_json::json!({"removeOnConditions": [test("Is", "Ready", &["True"])], "taints": [a]})],
                vec!["a"],
                None,
            ),
            (
                "another cluster",
                "False",
                None,
                vec![
                    serde_json::json!({"addOnConditions": [ill], "taints": [a], "targetClusters": {"clusterNames": ["m2"]}}),
                ],
                vec![],
                None,
            ),
            (
                "the younger has the last word",
                "False",
                None,
                vec![
                    serde_json::json!({"addOnConditions": [ill], "taints": [a]}),
                    serde_json::json!({"removeOnConditions": [ill], "taints": [a]}),
                ],
                vec![],
                None,
            ),
        ] {
            let mut cluster = Cluster::default();
            cluster.metadata.name = "m1".to_owned();
            let taint = |key: &str| {
                let effect = if key == "b" { "NoExecute" } else { "NoSchedule" };
                Taint { key: key.to_owned(), effect: effect.to_owned(), ..Taint::default() }
            };
            cluster.spec.taints = before.into_iter().map(taint).collect();
            for (type_, status) in [("Ready", Some(ready)), ("Net", net)] {
                cluster.status.conditions.extend(status.map(|status| Condition {
                    type_: type_.to_owned(),
                    status: status.to_owned(),
                    ..Condition::default()
                }));
            }
            // In the wrong order.
            let mut policies: Vec<_> = (1..).zip(specs).map(|(n, spec)| policy(&format!("{n}"), spec)).collect();
            policies.reverse();
            let got = by_policies(&cluster, &policies, now);
            let keys = got.map(|taints| taints.into_iter().map(|taint| taint.key).collect::<Vec<_>>());
            assert_eq!(keys, after.map(|keys| keys.into_iter().map(str::to_owned).collect()), "{name}");
        }
        assert_eq!(
            message_of_policies("m1", &[]),
            "Update Cluster(m1) with taints(cluster now does not have taints) succeed"
        );
    }
}
