//! The taints the system keeps on a cluster by its Ready condition.

use apimachinery::meta::Time;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::{conditions, taints};
use karmada_api::kubernetes::Taint;

/// The taints a cluster should have; `None` when it has them.
pub fn by_readiness(cluster: &Cluster, now: Time) -> Option<Vec<Taint>> {
    let ready = cluster.condition(conditions::READY).map_or("", |condition| condition.status.as_str());
    let (not_ready, unreachable) = match ready {
        "True" => (false, false),
        "Unknown" => (false, true),
        _ => (true, false),
    };
    let mut wanted = cluster.spec.taints.clone();
    set(&mut wanted, taints::NOT_READY, not_ready, now);
    set(&mut wanted, taints::UNREACHABLE, unreachable, now);
    (wanted != cluster.spec.taints).then_some(wanted)
}

fn set(list: &mut Vec<Taint>, key: &str, wanted: bool, now: Time) {
    let is_it = |taint: &Taint| taint.key == key && taint.effect == taints::NO_SCHEDULE;
    match (wanted, list.iter().any(is_it)) {
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

/// The message of the event about a cluster's taints.
pub fn message(taints: &[Taint]) -> String {
    if taints.is_empty() {
        return "Taint cluster succeed: cluster now does not have taints.".to_owned();
    }
    let listed: Vec<String> = taints
        .iter()
        .map(|taint| match taint.value.as_str() {
            "" => format!("{{Key:{},Effect:{}}}", taint.key, taint.effect),
            value => format!("{{Key:{},Value:{value},Effect:{}}}", taint.key, taint.effect),
        })
        .collect();
    format!("Taint cluster succeed: cluster now has taints([{}]).", listed.join(","))
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
}
