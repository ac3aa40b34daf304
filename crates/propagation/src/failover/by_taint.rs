//! NoExecute taints: which bindings leave a tainted cluster, and when.

use std::time::Duration;

use apimachinery::meta::Time;
use jiff::{SignedDuration, Timestamp};
use karmada_api::constants::{annotations, evictions, taints};
use karmada_api::kubernetes::{Taint, Toleration};
use karmada_api::policy::v1alpha1::{ClusterPurgeMode, Placement, PurgeMode};
use karmada_api::scope::Binding;
use karmada_api::work::v1alpha2::{GracefulEvictionTask, ResourceBindingSpec};

use super::{clusters_of, leave, state};
use crate::Since;

/// The effect of a cluster's taints on a binding in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// Every taint is tolerated.
    Stays,
    /// Every taint is tolerated, one of them only for so long.
    StaysFor(Duration),
    /// The taint is not tolerated, or not any longer.
    Leaves(&'a Taint),
}

/// The taints that evict.
pub fn evicting(taints: &[Taint]) -> impl Iterator<Item = &Taint> {
    taints.iter().filter(|taint| taint.effect == taints::NO_EXECUTE)
}

/// Of several tolerations of a taint the first one applies. `tolerationSeconds` counts from the taint's `timeAdded`; a
/// taint without it is tolerated until the API server has set it.
pub fn verdict<'a>(taints: &'a [Taint], tolerations: &[Toleration], since: Since<'_>) -> Verdict<'a> {
    let mut soonest: Option<(SignedDuration, &Taint)> = None;
    for taint in evicting(taints) {
        let Some(toleration) = tolerations.iter().find(|toleration| toleration.tolerates(taint)) else {
            return Verdict::Leaves(taint);
        };
        let (Some(seconds), Some(added)) = (toleration.toleration_seconds, taint.time_added) else { continue };
        let tolerated = SignedDuration::from_secs(seconds.max(0));
        // A time beyond the calendar is never reached.
        if added.timestamp().checked_add(tolerated).is_err() {
            continue;
        }
        let left = tolerated.saturating_sub(since(added.timestamp()));
        if soonest.is_none_or(|(earlier, _)| left < earlier) {
            soonest = Some((left, taint));
        }
    }
    match soonest {
        None => Verdict::Stays,
        Some((left, taint)) => match Duration::try_from(left) {
            Ok(left) if !left.is_zero() => Verdict::StaysFor(left),
            _ => Verdict::Leaves(taint),
        },
    }
}

/// The placement a binding was scheduled by; `None` while it was not scheduled, or when its record cannot be read.
pub fn applied_placement(binding: &Binding) -> Option<Placement> {
    let applied = binding.metadata.annotations.get(annotations::APPLIED_PLACEMENT)?;
    serde_json::from_str(applied).ok()
}

/// The options of eviction by taints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// `--no-execute-taint-eviction-purge-mode`, for bindings whose policy has no `failover.cluster`.
    pub purge_mode: ClusterPurgeMode,
    /// The gate StatefulFailoverInjection.
    pub keeps_state: bool,
}

/// The spec of a binding that leaves a cluster for a taint; `None` when it does not target the cluster.
///
/// # Errors
/// State is to be preserved and is not known.
pub fn evicted(
    binding: &Binding,
    cluster: &str,
    taint: &Taint,
    now: Timestamp,
    options: Options,
) -> Result<Option<ResourceBindingSpec>, state::Error> {
    let behavior = binding.spec.failover.as_ref().and_then(|failover| failover.cluster.as_ref());
    let mode = behavior.map_or(options.purge_mode, |behavior| behavior.purge_mode.unwrap_or_default());
    let mut task = GracefulEvictionTask {
        from_cluster: cluster.to_owned(),
        purge_mode: Some(match mode {
            ClusterPurgeMode::Directly => PurgeMode::Directly,
            ClusterPurgeMode::Gracefully => PurgeMode::Gracefully,
        }),
        reason: evictions::TAINT_UNTOLERATED.to_owned(),
        producer: evictions::BY_TAINT_MANAGER.to_owned(),
        creation_timestamp: Some(Time::new(now)),
        message: message(cluster, taint),
        ..GracefulEvictionTask::default()
    };
    let rules = behavior.and_then(|behavior| behavior.state_preservation.as_ref()).map(|state| &*state.rules);
    if let Some(rules) = rules.filter(|rules| options.keeps_state && !rules.is_empty()) {
        task.preserved_label_state = state::preserved(binding, cluster, rules)?;
        // A cluster that already ran a copy has its own, newer state.
        task.clusters_before_failover = clusters_of(&binding.spec);
    }
    let mut spec = binding.spec.clone();
    Ok(leave(&mut spec, task).then_some(spec))
}

fn message(cluster: &str, taint: &Taint) -> String {
    let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
    let since = taint.time_added.map(|added| format!(" since {added}")).unwrap_or_default();
    let mut text = format!("cluster {cluster} has the taint {}{value}:{}{since}", taint.key, taint.effect);
    // The API allows 1024.
    text.truncate(text.floor_char_boundary(1024));
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::binding;
    use super::*;

    #[test]
    fn bindings_are_evicted_after_their_toleration() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let taint = |key: &str, second: u32| json!({"key": key, "effect": "NoExecute", "timeAdded": format!("2026-01-01T00:00:{second:02}Z")});
        let tolerates =
            |key: &str, seconds: Value| json!({"key": key, "operator": "Exists", "tolerationSeconds": seconds});
        let unstamped = json!({"key": "a", "effect": "NoExecute"});
        for (taints, tolerations, expected) in [
            (json!([]), json!([]), "stays"),
            (json!([{"key": "a", "effect": "NoSchedule"}]), json!([]), "stays"),
            (json!([taint("a", 0)]), json!([]), "leaves for a"),
            (json!([taint("a", 0)]), json!([tolerates("b", Value::Null)]), "leaves for a"),
            (json!([taint("a", 0)]), json!([tolerates("a", Value::Null)]), "stays"),
            (json!([taint("a", 0)]), json!([tolerates("a", json!(90))]), "stays for 30s"),
            // Exactly now counts as over.
            (json!([taint("a", 0)]), json!([tolerates("a", json!(60))]), "leaves for a"),
            (json!([taint("a", 0)]), json!([tolerates("a", json!(0))]), "leaves for a"),
            (json!([taint("a", 59)]), json!([tolerates("a", json!(-5))]), "leaves for a"),
            (json!([taint("a", 0)]), json!([tolerates("a", json!(i64::MAX))]), "stays"),
            // The first toleration that fits counts, of several taints the one that is over first.
            (json!([taint("a", 0)]), json!([tolerates("a", json!(90)), tolerates("a", Value::Null)]), "stays for 30s"),
            (json!([taint("a", 0)]), json!([tolerates("", Value::Null), tolerates("a", json!(10))]), "stays"),
            (
                json!([taint("a", 0), taint("b", 20)]),
                json!([tolerates("a", json!(100)), tolerates("b", json!(50))]),
                "stays for 10s",
            ),
            (json!([taint("a", 0), taint("b", 0)]), json!([tolerates("a", json!(100))]), "leaves for b"),
            (json!([unstamped]), json!([tolerates("a", json!(5))]), "stays"),
            (json!([unstamped]), json!([]), "leaves for a"),
        ] {
            let listed: Vec<Taint> = serde_json::from_value(taints.clone()).unwrap();
            let parsed: Vec<Toleration> = serde_json::from_value(tolerations.clone()).unwrap();
            let found = match verdict(&listed, &parsed, &|at| now.duration_since(at)) {
                Verdict::Stays => "stays".to_owned(),
                Verdict::StaysFor(time) => format!("stays for {}s", time.as_secs()),
                Verdict::Leaves(taint) => format!("leaves for {}", taint.key),
            };
            assert_eq!(found, expected, "{taints} {tolerations}");
        }
    }

    #[test]
    fn taint_evictions_follow_the_failover_behavior() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let taint: Taint = serde_json::from_value(
            json!({"key": "down", "value": "v", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}),
        )
        .unwrap();
        let rules = json!({"rules": [{"aliasLabelName": "kept", "jsonPath": "{.n}"}]});
        let (flag, keeps) = (ClusterPurgeMode::Directly, [false, true]);
        for (failover, keeps_state, mode, state) in [
            (Value::Null, keeps[1], "Directly", json!(null)),
            (json!({"application": {"decisionConditions": {}}}), keeps[1], "Directly", json!(null)),
            (json!({"cluster": {}}), keeps[1], "Gracefully", json!(null)),
            (json!({"cluster": {"purgeMode": "Directly"}}), keeps[1], "Directly", json!(null)),
            (json!({"cluster": {"statePreservation": rules}}), keeps[1], "Gracefully", json!({"kept": "3"})),
            (json!({"cluster": {"statePreservation": rules}}), keeps[0], "Gracefully", json!(null)),
            (json!({"cluster": {"statePreservation": {"rules": []}}}), keeps[1], "Gracefully", json!(null)),
        ] {
            let spec = json!({"clusters": [{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 1}], "failover": failover});
            let status = json!({"aggregatedStatus": [{"clusterName": "m1", "status": {"n": 3}}]});
            let options = Options { purge_mode: flag, keeps_state };
            let evicted = evicted(&binding(spec, status), "m1", &taint, now, options).expect("a known state");
            let evicted = serde_json::to_value(evicted.expect("a change")).unwrap();
            assert_eq!(evicted["clusters"], json!([{"name": "m2", "replicas": 1}]));
            let mut task = json!({"fromCluster": "m1", "replicas": 2, "reason": "TaintUntolerated",
                "producer": "TaintManager", "purgeMode": mode, "creationTimestamp": "2026-01-01T00:01:00Z",
                "message": "cluster m1 has the taint down=v:NoExecute since 2026-01-01T00:00:00Z"});
            if !state.is_null() {
                task["preservedLabelState"] = state;
                task["clustersBeforeFailover"] = json!(["m1", "m2"]);
            }
            assert_eq!(evicted["gracefulEvictionTasks"], json!([task]), "{failover}");
        }
        let options = Options { purge_mode: flag, keeps_state: true };
        let elsewhere = binding(json!({"clusters": [{"name": "m2"}]}), json!({}));
        assert_eq!(evicted(&elsewhere, "m1", &taint, now, options), Ok(None));
        let spec = json!({"clusters": [{"name": "m1"}], "failover": {"cluster": {"statePreservation": rules}}});
        assert!(evicted(&binding(spec, json!({})), "m1", &taint, now, options).is_err(), "no state is lost silently");
    }
}
