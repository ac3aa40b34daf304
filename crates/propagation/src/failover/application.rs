//! Application failover: copies that stay unhealthy in a cluster that is well leave it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karmada_api::constants::evictions;
use karmada_api::identity::ClusterName;
use karmada_api::policy::v1alpha1::{ApplicationFailoverBehavior, PurgeMode};
use karmada_api::scope::{Binding, Scope};
use karmada_api::work::v1alpha2::{GracefulEvictionTask, ResourceBindingSpec, ResourceHealth};

use super::{clusters_of, leave, state};
use crate::Since;

/// The default of `decisionConditions.tolerationSeconds`.
const TOLERATION: i32 = 300;

/// The time since when the copy in a cluster is observed as unhealthy.
pub type Sightings = BTreeMap<ClusterName, Timestamp>;

/// The unhealthy copies of a binding, and which of them are to be evicted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// The unhealthy copies, and since when.
    pub seen: Sightings,
    /// The clusters whose copies have been unhealthy for too long.
    pub due: Vec<ClusterName>,
    /// The time until the next one, without changes.
    pub next: Option<Duration>,
}

/// The application failover of a binding's policy; `None` if it is not set or cannot work.
pub fn behavior(binding: &Binding) -> Option<&ApplicationFailoverBehavior> {
    let behavior = binding.spec.failover.as_ref()?.application.as_ref()?;
    (binding.scope == Scope::Cluster || binding.spec.propagate_deps).then_some(behavior)
}

/// A copy counts as unhealthy only where its cluster is ready and reports it. Unknown health is no failure, and no
/// recovery either: the toleration of a copy that was unhealthy goes on.
pub fn decide(
    binding: &Binding,
    behavior: &ApplicationFailoverBehavior,
    seen: &Sightings,
    now: Timestamp,
    since: Since<'_>,
    is_ready: &dyn Fn(&str) -> bool,
) -> Decision {
    let toleration = behavior.decision_conditions.toleration_seconds.unwrap_or(TOLERATION).max(0);
    let toleration = SignedDuration::from_secs(i64::from(toleration));
    let mut decision = Decision::default();
    let is_leaving = |cluster: &str| binding.spec.graceful_eviction_tasks.iter().any(|it| it.from_cluster == cluster);
    for item in &binding.status.aggregated_status {
        let cluster = &item.cluster_name;
        let is_target = binding.spec.clusters.iter().any(|target| target.name == *cluster);
        let is_well = item.health == Some(ResourceHealth::Healthy) || !is_ready(cluster);
        if is_well || !is_target || is_leaving(cluster) {
            continue;
        }
        let known = seen.get_key_value(cluster.as_str());
        if item.health != Some(ResourceHealth::Unhealthy) {
            decision.seen.extend(known.map(|(cluster, first)| (cluster.clone(), *first)));
            continue;
        }
        let (cluster, first) =
            known.map_or_else(|| (ClusterName::from(cluster), now), |(it, first)| (it.clone(), *first));
        decision.seen.insert(cluster.clone(), first);
        match Duration::try_from(toleration.saturating_sub(since(first))) {
            Ok(left) if !left.is_zero() => {
                decision.next = Some(decision.next.map_or(left, |next| next.min(left)));
            }
            _ => decision.due.push(cluster),
        }
    }
    decision
}

/// The feature gates of application failover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The gate GracefulEviction.
    pub gracefully: bool,
    /// The gate StatefulFailoverInjection.
    pub keeps_state: bool,
}

/// Why a copy that is due stays where it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The purge mode needs a feature gate that is off.
    #[error(
        "purgeMode Gracefully needs the feature gate GracefulEviction, which is off; \
         open it, or set failover.application.purgeMode to Directly or Never"
    )]
    NotGracefully,
    /// The state of the copy cannot be preserved.
    #[error(transparent)]
    State(#[from] state::Error),
}

/// The spec of a binding after its due copies are evicted.
///
/// # Errors
/// A copy cannot be evicted as its policy requires; then none is.
pub fn evicted(
    binding: &Binding,
    behavior: &ApplicationFailoverBehavior,
    decision: &Decision,
    now: Timestamp,
    options: Options,
) -> Result<ResourceBindingSpec, Refusal> {
    let mode = behavior.purge_mode.unwrap_or_default();
    if mode == PurgeMode::Gracefully && !options.gracefully {
        return Err(Refusal::NotGracefully);
    }
    let rules = behavior.state_preservation.as_ref().map(|state| &*state.rules);
    let rules = rules.filter(|rules| options.keeps_state && !rules.is_empty());
    let mut spec = binding.spec.clone();
    for cluster in &decision.due {
        let mut task = GracefulEvictionTask {
            from_cluster: cluster.to_string(),
            purge_mode: Some(mode),
            reason: evictions::APPLICATION_FAILURE.to_owned(),
            producer: producer(binding.scope).to_owned(),
            message: message(cluster, decision.seen.get(cluster).copied().unwrap_or(now)),
            creation_timestamp: Some(apimachinery::meta::Time::new(now)),
            ..GracefulEvictionTask::default()
        };
        match mode {
            PurgeMode::Gracefully => task.grace_period_seconds = behavior.grace_period_seconds,
            PurgeMode::Never => task.suppress_deletion = Some(true),
            PurgeMode::Directly => {}
        }
        if let Some(rules) = rules {
            task.preserved_label_state = state::preserved(binding, cluster, rules)?;
            task.clusters_before_failover = clusters_of(&binding.spec);
        }
        leave(&mut spec, task);
    }
    Ok(spec)
}

/// The name of the controller, by which its tasks and events are known.
pub fn producer(scope: Scope) -> &'static str {
    match scope {
        Scope::Namespaced => evictions::BY_BINDING_FAILOVER,
        Scope::Cluster => evictions::BY_CLUSTER_BINDING_FAILOVER,
    }
}

fn message(cluster: &str, since: Timestamp) -> String {
    format!("unhealthy in cluster {cluster} since {}", apimachinery::meta::Time::new(since))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::binding;
    use super::*;

    fn failing(failover: Value) -> Binding {
        let failover = json!({"application": failover});
        let clusters = json!([{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 1}]);
        let items = json!([{"clusterName": "m1", "health": "Unhealthy", "status": {"n": 3}}, {"clusterName": "m2", "health": "Healthy"}]);
        binding(
            json!({"clusters": clusters, "failover": failover, "propagateDeps": true}),
            json!({"aggregatedStatus": items}),
        )
    }

    #[test]
    fn applications_are_due_after_their_toleration() {
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let since = |at: Timestamp| now.duration_since(at);
        let tolerated = |seconds: i64| json!({"decisionConditions": {"tolerationSeconds": seconds}});
        for (name, health, ready, tasks, seconds, seen, expected) in [
            ("seen first", "Unhealthy", true, json!([]), json!(60), None, "since 00:10:00, next 60s"),
            ("at once", "Unhealthy", true, json!([]), json!(0), None, "since 00:10:00, due"),
            ("still tolerated", "Unhealthy", true, json!([]), json!(60), Some("00:09:10"), "since 00:09:10, next 10s"),
            ("over", "Unhealthy", true, json!([]), json!(60), Some("00:09:00"), "since 00:09:00, due"),
            ("by default", "Unhealthy", true, json!([]), Value::Null, Some("00:09:00"), "since 00:09:00, next 240s"),
            ("well again", "Healthy", true, json!([]), json!(60), Some("00:00:00"), ""),
            ("unknown is no failure", "Unknown", true, json!([]), json!(60), None, ""),
            ("and no recovery", "Unknown", true, json!([]), json!(60), Some("00:00:00"), "since 00:00:00"),
            ("in a cluster that is away", "Unknown", false, json!([]), json!(60), Some("00:00:00"), ""),
            ("an old report", "Unhealthy", false, json!([]), json!(60), Some("00:00:00"), ""),
            ("leaving", "Unhealthy", true, json!([{"fromCluster": "m1"}]), json!(60), Some("00:00:00"), ""),
        ] {
            let mut behavior = tolerated(0);
            behavior["decisionConditions"]["tolerationSeconds"] = seconds;
            let mut binding = failing(behavior);
            binding.spec.graceful_eviction_tasks = serde_json::from_value(tasks).unwrap();
            binding.status.aggregated_status[0].health = serde_json::from_value(json!(health)).unwrap();
            let time = |time: &str| format!("2026-01-01T{time}Z").parse::<Timestamp>().unwrap();
            let before: Sightings = seen.map(|at| (ClusterName::from("m1"), time(at))).into_iter().collect();
            let found = decide(&binding, self::behavior(&binding).unwrap(), &before, now, &since, &|_| ready);
            let mut texts: Vec<String> =
                found.seen.values().map(|since| format!("since {}", since.strftime("%H:%M:%S"))).collect();
            texts.extend(found.next.map(|next| format!("next {}s", next.as_secs())));
            texts.extend(found.due.iter().map(|_| "due".to_owned()));
            assert_eq!(texts.join(", "), expected, "{name}");
        }
        let mut elsewhere = failing(tolerated(0));
        elsewhere.spec.clusters.remove(0);
        let found = decide(&elsewhere, behavior(&elsewhere).unwrap(), &Sightings::new(), now, &since, &|_| true);
        assert_eq!(found, Decision::default(), "a copy that dependents need stays");
        let mut alone = failing(tolerated(0));
        alone.spec.propagate_deps = false;
        assert_eq!(behavior(&alone), None);
        alone.scope = Scope::Cluster;
        assert!(behavior(&alone).is_some());
    }

    #[test]
    fn eviction_tasks_follow_the_failover_behavior() {
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let rules = json!({"rules": [{"aliasLabelName": "kept", "jsonPath": "{.n}"}]});
        let state = json!({"preservedLabelState": {"kept": "3"}, "clustersBeforeFailover": ["m1", "m2"]});
        let all = Options { gracefully: true, keeps_state: true };
        for (failover, options, expected) in [
            (json!({"purgeMode": "Directly"}), all, Ok(json!({"purgeMode": "Directly"}))),
            (json!({"purgeMode": "Never"}), all, Ok(json!({"purgeMode": "Never", "suppressDeletion": true}))),
            (json!({"gracePeriodSeconds": 90}), all, Ok(json!({"purgeMode": "Gracefully", "gracePeriodSeconds": 90}))),
            (
                json!({"purgeMode": "Gracefully"}),
                Options { gracefully: false, keeps_state: true },
                Err(Refusal::NotGracefully),
            ),
            (
                json!({"purgeMode": "Directly", "statePreservation": rules}),
                Options { gracefully: false, keeps_state: true },
                Ok({
                    let mut task = state.clone();
                    task["purgeMode"] = json!("Directly");
                    task
                }),
            ),
            (
                json!({"purgeMode": "Directly", "statePreservation": rules}),
                Options { gracefully: true, keeps_state: false },
                Ok(json!({"purgeMode": "Directly"})),
            ),
            (
                json!({"purgeMode": "Directly", "statePreservation": {"rules": [{"aliasLabelName": "kept", "jsonPath": "{.x}"}]}}),
                all,
                Err(Refusal::State(state::Error::Missing {
                    rule: "kept".to_owned(),
                    path: "{.x}".to_owned(),
                    cluster: "m1".to_owned(),
                })),
            ),
        ] {
            let binding = failing(failover.clone());
            let seen = [(ClusterName::from("m1"), now)].into();
            let decision = Decision { seen, due: vec![ClusterName::from("m1")], next: None };
            let found = evicted(&binding, behavior(&binding).unwrap(), &decision, now, options);
            let found = found.map(|spec| {
                assert_eq!(clusters_of(&spec), ["m2"]);
                let mut task = serde_json::to_value(&spec.graceful_eviction_tasks).unwrap()[0].take();
                for (field, value) in [
                    ("fromCluster", json!("m1")),
                    ("replicas", json!(2)),
                    ("reason", json!("ApplicationFailure")),
                    ("producer", json!("resource-binding-application-failover-controller")),
                    ("creationTimestamp", json!("2026-01-01T00:10:00Z")),
                    ("message", json!("unhealthy in cluster m1 since 2026-01-01T00:10:00Z")),
                ] {
                    assert_eq!(task.as_object_mut().unwrap().remove(field), Some(value));
                }
                task
            });
            assert_eq!(found, expected, "{failover}");
        }
    }
}
