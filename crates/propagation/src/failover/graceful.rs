//! The end of eviction tasks. With a task ends the old copy, unless the task began by deleting it.

use std::time::Duration;

use apimachinery::meta::Time;
use jiff::{SignedDuration, Timestamp};
use karmada_api::identity::ClusterName;
use karmada_api::scope::Binding;
use karmada_api::work::v1alpha2::{AggregatedStatusItem, GracefulEvictionTask, ResourceHealth, TargetCluster};

use crate::Since;

/// The inputs of an assessment besides the binding.
#[derive(Clone, Copy)]
pub struct Circumstances<'a> {
    /// The current time.
    pub now: Timestamp,
    /// The time since a stamp of a task.
    pub since: Since<'a>,
    /// `--graceful-eviction-timeout`, for tasks without a grace period.
    pub grace: Duration,
    /// Whether a cluster is ready: reports of other clusters may be long out of date.
    pub is_ready: &'a dyn Fn(&str) -> bool,
}

/// Why a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every target cluster has a healthy copy.
    Replaced,
    /// The grace period is over.
    Overdue,
    /// `suppressDeletion: false`
    Confirmed,
}

/// The result of an assessment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assessment {
    /// The remaining tasks; `None` if they are unchanged.
    pub tasks: Option<Vec<GracefulEvictionTask>>,
    /// The clusters whose tasks ended.
    pub ended: Vec<(ClusterName, Ending)>,
    /// When a task ends without further changes.
    pub next: Option<Duration>,
}

/// Determines which eviction tasks of a binding have ended: the workload is replaced, the grace period is over, or the
/// deletion is confirmed.
pub fn assess(binding: &Binding, circumstances: Circumstances<'_>) -> Assessment {
    let tasks = &binding.spec.graceful_eviction_tasks;
    let replaced = !tasks.is_empty() && is_replaced(binding, circumstances.is_ready);
    let mut assessment = Assessment::default();
    let mut left = Vec::with_capacity(tasks.len());
    let from = |task: &GracefulEvictionTask| ClusterName::from(&task.from_cluster);
    for task in tasks {
        let mut task = task.clone();
        // A stamp of the future is by a clock that was wrong: the period begins now.
        let Some(created) = task.creation_timestamp.filter(|at| !is_of_the_future(*at, circumstances.since)) else {
            task.creation_timestamp = Some(Time::new(circumstances.now));
            left.push(task);
            continue;
        };
        match (task.suppress_deletion, remaining(&task, created, circumstances)) {
            (Some(true), _) => {
                // The new copy has taken the state over. A later copy must not start with it.
                if replaced {
                    task.preserved_label_state.clear();
                }
                left.push(task);
            }
            (Some(false), _) => assessment.ended.push((from(&task), Ending::Confirmed)),
            (None, None) => assessment.ended.push((from(&task), Ending::Overdue)),
            (None, Some(_)) if replaced => assessment.ended.push((from(&task), Ending::Replaced)),
            (None, Some(remaining)) => {
                assessment.next = Some(assessment.next.map_or(remaining, |next| next.min(remaining)));
                left.push(task);
            }
        }
    }
    assessment.tasks = (left != *tasks).then_some(left);
    assessment
}

/// The clocks of controllers that take over from each other differ by less.
const SKEW: SignedDuration = SignedDuration::from_mins(1);

/// Whether a stamp is later than those of another process whose clock is nearly right.
fn is_of_the_future(at: Time, since: Since<'_>) -> bool {
    since(at.timestamp()) < -SKEW
}

/// The time until the grace period of a task is over; `None` when it is.
fn remaining(task: &GracefulEvictionTask, created: Time, circumstances: Circumstances<'_>) -> Option<Duration> {
    let own = task.grace_period_seconds.map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or_default()));
    // The time stamp has no fraction of a second, and no copy may be removed too early.
    let grace = own.unwrap_or(circumstances.grace) + Duration::from_secs(1);
    let passed = (circumstances.since)(created.timestamp());
    let passed = Duration::try_from(passed).unwrap_or_default();
    grace.checked_sub(passed).filter(|left| !left.is_zero())
}

/// Whether every cluster that the scheduler chose reports a healthy copy with the replicas it is to have.
pub fn is_replaced(binding: &Binding, is_ready: &dyn Fn(&str) -> bool) -> bool {
    if binding.status.scheduler_observed_generation != binding.metadata.generation {
        return false;
    }
    let targets = &binding.spec.clusters;
    if targets.is_empty() {
        // There is no replacement, unless the workload is scaled to zero.
        return binding.is_workload() && binding.spec.replicas == 0 && binding.spec.components.is_empty();
    }
    targets.iter().all(|target| {
        let item = binding.status.aggregated_status.iter().find(|item| item.cluster_name == target.name);
        is_ready(&target.name) && item.is_some_and(|item| runs(binding, target, item))
    })
}

/// Health alone may be that of the copy before it grew: where the status counts ready replicas, all must be.
fn runs(binding: &Binding, target: &TargetCluster, item: &AggregatedStatusItem) -> bool {
    if item.health != Some(ResourceHealth::Healthy) {
        return false;
    }
    let status = item.status.as_ref().and_then(|status| status.to_value().ok()).unwrap_or_default();
    let kind = binding.spec.resource.kind.as_str();
    let ready = match status["readyReplicas"].as_i64() {
        // The field is absent for zero.
        None if matches!(kind, "Deployment" | "StatefulSet" | "ReplicaSet") => Some(0),
        ready => ready,
    };
    ready.is_none_or(|ready| ready >= i64::from(target.replicas))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::binding;
    use super::*;

    const NOW: &str = "2026-01-01T01:00:00Z";

    fn assessed(spec: Value, status: Value, ready: &[&str]) -> Assessment {
        let is_ready = |name: &str| ready.contains(&name);
        let now: Timestamp = NOW.parse().unwrap();
        let since = |at: Timestamp| now.duration_since(at);
        let circumstances = Circumstances { now, since: &since, grace: Duration::from_secs(600), is_ready: &is_ready };
        assess(&binding(spec, status), circumstances)
    }

    #[test]
    fn tasks_end_when_replaced_or_overdue() {
        let at = |time: &str| format!("2026-01-01T{time}Z");
        // The replacement in m2 is not healthy, then it is.
        for (task, pending, replaced) in [
            (json!({}), "stamped", "stamped"),
            (json!({"creationTimestamp": at("00:59:00")}), "next 541s", "Replaced"),
            (json!({"creationTimestamp": at("00:50:00")}), "next 1s", "Replaced"),
            (json!({"creationTimestamp": at("00:49:59")}), "Overdue", "Overdue"),
            // By another clock, and by one that was wrong.
            (json!({"creationTimestamp": at("01:00:59")}), "next 601s", "Replaced"),
            (json!({"creationTimestamp": at("01:30:00")}), "stamped", "stamped"),
            (json!({"creationTimestamp": at("00:59:00"), "gracePeriodSeconds": 90}), "next 31s", "Replaced"),
            (json!({"creationTimestamp": at("00:59:00"), "gracePeriodSeconds": 30}), "Overdue", "Overdue"),
            (json!({"creationTimestamp": at("00:59:00"), "gracePeriodSeconds": 3600}), "next 3541s", "Replaced"),
            (json!({"creationTimestamp": at("00:00:00"), "suppressDeletion": true}), "stays", "stays"),
            (json!({"creationTimestamp": at("00:59:59"), "suppressDeletion": false}), "Confirmed", "Confirmed"),
            (json!({"suppressDeletion": false}), "stamped", "stamped"),
            // The mode decides about the Works, not about the task.
            (json!({"creationTimestamp": at("00:59:00"), "purgeMode": "Directly"}), "next 541s", "Replaced"),
        ] {
            for (health, expected) in [("Unhealthy", pending), ("Unknown", pending), ("Healthy", replaced)] {
                let mut task = task.clone();
                task["fromCluster"] = json!("m1");
                let spec = json!({"clusters": [{"name": "m2"}], "gracefulEvictionTasks": [task]});
                let items =
                    json!([{"clusterName": "m1", "health": "Healthy"}, {"clusterName": "m2", "health": health}]);
                let status = json!({"schedulerObservedGeneration": 4, "aggregatedStatus": items});
                let found = assessed(spec, status, &["m1", "m2"]);
                let text = match (&found.ended[..], &found.tasks, found.next) {
                    ([(cluster, ending)], Some(left), None) if cluster == "m1" && left.is_empty() => {
                        format!("{ending:?}")
                    }
                    ([], Some(left), None) => {
                        assert_eq!(left[0].creation_timestamp.unwrap().to_string(), NOW);
                        "stamped".to_owned()
                    }
                    ([], None, Some(next)) => format!("next {}s", next.as_secs()),
                    ([], None, None) => "stays".to_owned(),
                    other => panic!("{task}: {other:?}"),
                };
                assert_eq!(text, expected, "{task} {health}");
            }
        }
    }

    #[test]
    fn only_healthy_and_observed_copies_are_replacements() {
        let kind = |kind: &str, replicas: i32| (json!({"kind": kind}), replicas);
        let (deployment, map) = (kind("Deployment", 3), kind("ConfigMap", 0));
        let healthy =
            |cluster: &str, status: Value| json!({"clusterName": cluster, "health": "Healthy", "status": status});
        for ((resource, replicas), clusters, items, observed, ready, expected) in [
            (map.clone(), json!([{"name": "m2"}]), json!([healthy("m2", Value::Null)]), 4, "m2", true),
            // The scheduler has not processed the eviction from m1.
            (map.clone(), json!([{"name": "m2"}]), json!([healthy("m2", Value::Null)]), 3, "m2", false),
            (map.clone(), json!([{"name": "m2"}]), json!([]), 4, "m2", false),
            (
                map.clone(),
                json!([{"name": "m2"}, {"name": "m3"}]),
                json!([healthy("m2", Value::Null)]),
                4,
                "m2 m3",
                false,
            ),
            // A report of a cluster that is not ready may be old.
            (map.clone(), json!([{"name": "m2"}]), json!([healthy("m2", Value::Null)]), 4, "m1", false),
            // No cluster remains: there is no replacement.
            (map, json!([]), json!([]), 4, "", false),
            (kind("Deployment", 3), json!([]), json!([]), 4, "", false),
            // The report is of the time before m2 got the replicas of m1.
            (
                deployment.clone(),
                json!([{"name": "m2", "replicas": 3}]),
                json!([healthy("m2", json!({"readyReplicas": 1}))]),
                4,
                "m2",
                false,
            ),
            (
                deployment.clone(),
                json!([{"name": "m2", "replicas": 3}]),
                json!([healthy("m2", json!({"replicas": 3}))]),
                4,
                "m2",
                false,
            ),
            (
                deployment,
                json!([{"name": "m2", "replicas": 3}]),
                json!([healthy("m2", json!({"readyReplicas": 3}))]),
                4,
                "m2",
                true,
            ),
            (
                kind("Job", 3),
                json!([{"name": "m2", "replicas": 3}]),
                json!([healthy("m2", json!({"active": 1}))]),
                4,
                "m2",
                true,
            ),
        ] {
            let task = json!({"fromCluster": "m1", "creationTimestamp": NOW});
            let spec = json!({"clusters": clusters, "gracefulEvictionTasks": [task], "resource": resource, "replicas": replicas});
            let status = json!({"schedulerObservedGeneration": observed, "aggregatedStatus": items});
            let ready: Vec<&str> = ready.split(' ').collect();
            let found = assessed(spec.clone(), status.clone(), &ready);
            assert_eq!(found.ended.len(), usize::from(expected), "{spec} {status}");
        }
    }

    #[test]
    fn a_workload_scaled_to_zero_needs_no_replacement() {
        let task = json!({"fromCluster": "m1", "creationTimestamp": NOW});
        let spec = json!({"gracefulEvictionTasks": [task], "replicaRequirements": {}});
        assert_eq!(assessed(spec, json!({"schedulerObservedGeneration": 4}), &[]).ended.len(), 1);
    }

    #[test]
    fn tasks_end_independently_and_a_state_is_used_once() {
        let state = json!({"kept": "1"});
        let task = |cluster: &str, created: &str| json!({"fromCluster": cluster, "creationTimestamp": created, "preservedLabelState": state});
        let mut never = task("m3", "2026-01-01T00:00:00Z");
        never["suppressDeletion"] = json!(true);
        let tasks = json!([task("m1", "2026-01-01T00:00:00Z"), task("m4", "2026-01-01T00:59:00Z"), never]);
        let spec = json!({"clusters": [{"name": "m2"}], "gracefulEvictionTasks": tasks});
        let status = |health: &str| json!({"schedulerObservedGeneration": 4, "aggregatedStatus": [{"clusterName": "m2", "health": health}]});
        let left = |found: &Assessment| -> Vec<(String, bool)> {
            let tasks = found.tasks.iter().flatten();
            tasks.map(|task| (task.from_cluster.clone(), !task.preserved_label_state.is_empty())).collect()
        };
        let found = assessed(spec.clone(), status("Unhealthy"), &["m2"]);
        assert_eq!(found.ended, [(ClusterName::from("m1"), Ending::Overdue)]);
        assert_eq!(left(&found), [("m4".to_owned(), true), ("m3".to_owned(), true)]);
        assert_eq!(found.next, Some(Duration::from_secs(541)));
        let found = assessed(spec, status("Healthy"), &["m2"]);
        assert_eq!(
            found.ended,
            [(ClusterName::from("m1"), Ending::Overdue), (ClusterName::from("m4"), Ending::Replaced)]
        );
        assert_eq!(left(&found), [("m3".to_owned(), false)]);
    }
}
