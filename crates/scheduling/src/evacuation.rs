//! Predicts which bindings would leave a cluster with certain taints, when, and to which clusters. It applies the
//! functions that evict and schedule to a state that was read before.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::kubernetes::Taint;
use karmada_api::scope::Binding;
use karmada_api::work::v1alpha2::TargetCluster;
use propagation::failover::by_taint::{self, Options, Verdict};

use crate::forecast::{Taken, after};
use crate::problem::Gates;
use crate::report::Report;
use crate::snapshot::Snapshot;

/// The cluster and its taints.
#[derive(Clone, Copy, Debug)]
pub struct Departure<'a> {
    /// The name of the cluster.
    pub cluster: &'a str,
    /// All taints the cluster would have.
    pub taints: &'a [Taint],
    /// The options of taint-based eviction.
    pub options: Options,
    /// The current time.
    pub now: Timestamp,
}

/// The prediction for one binding of the cluster.
#[derive(Debug)]
pub struct BindingForecast<'a> {
    /// The binding.
    pub binding: &'a Binding,
    /// Its scheduling priority.
    pub priority: i32,
    /// Whether and when it leaves the cluster.
    pub outcome: Outcome,
}

/// Whether and when a binding leaves a cluster.
#[derive(Debug)]
pub enum Outcome {
    /// The binding stays, for this reason.
    Stays(String),
    /// The binding is evicted.
    Leaves {
        /// When its toleration ends; zero means immediately.
        after: Duration,
        /// The reason: the message of its eviction task.
        message: String,
        /// The scheduler's decision; `None` for a dependency of another binding.
        report: Option<Box<Report>>,
    },
}

impl Outcome {
    /// The clusters the binding would run in; `None` when it stays or does not fit.
    pub fn targets(&self) -> Option<&[TargetCluster]> {
        match self {
            Self::Leaves { report: Some(report), .. } => report.decision.result().filter(|targets| !targets.is_empty()),
            _ => None,
        }
    }
}

/// Predicts the bindings of a cluster in the order of their evictions: by priority, each with the capacity that the
/// earlier ones leave.
pub fn evacuate<'a>(
    bindings: impl IntoIterator<Item = &'a Binding>,
    clusters: &[Arc<Cluster>],
    departure: Departure<'_>,
    gates: &Gates,
) -> Vec<BindingForecast<'a>> {
    let tainted = clusters.iter().map(|cluster| match cluster.metadata.name == departure.cluster {
        true => {
            let mut tainted = Cluster::clone(cluster);
            tainted.spec.taints = departure.taints.to_vec();
            Arc::new(tainted)
        }
        false => cluster.clone(),
    });
    let snapshot = Snapshot::of_clusters(tainted);
    let is_here = |it: &&Binding| it.spec.clusters.iter().any(|target| target.name == departure.cluster);
    let mut here: Vec<&Binding> = bindings.into_iter().filter(is_here).collect();
    let priority = |it: &Binding| it.spec.schedule_priority.as_ref().map_or(0, |it| it.priority);
    here.sort_by_key(|it| (Reverse(priority(it)), it.scope, &it.metadata.namespace, &it.metadata.name));
    let mut taken = Taken::default();
    let forecast = |binding| BindingForecast {
        binding,
        priority: priority(binding),
        outcome: outcome(binding, departure, &snapshot, gates, &mut taken),
    };
    here.into_iter().map(forecast).collect()
}

fn outcome(
    binding: &Binding,
    departure: Departure<'_>,
    snapshot: &Snapshot,
    gates: &Gates,
    taken: &mut Taken,
) -> Outcome {
    if binding.metadata.deletion_timestamp.is_some() {
        return Outcome::Stays("it is being deleted".to_owned());
    }
    let Some(placement) = by_taint::applied_placement(binding) else {
        return Outcome::Stays("its tolerations are unknown: the scheduler has not recorded a placement".to_owned());
    };
    let at = |now: Timestamp| move |stamp| now.duration_since(stamp);
    let (after_, taint) = match by_taint::verdict(departure.taints, &placement.cluster_tolerations, &at(departure.now))
    {
        Verdict::Stays => return Outcome::Stays("its policy tolerates the taints".to_owned()),
        Verdict::Leaves(taint) => (Duration::ZERO, taint),
        Verdict::StaysFor(time) => {
            let later = departure.now.checked_add(time).unwrap_or(Timestamp::MAX);
            match by_taint::verdict(departure.taints, &placement.cluster_tolerations, &at(later)) {
                Verdict::Leaves(taint) => (time, taint),
                Verdict::Stays | Verdict::StaysFor(_) => {
                    return Outcome::Stays("its policy tolerates the taints".to_owned());
                }
            }
        }
    };
    match by_taint::evicted(binding, departure.cluster, taint, departure.now, departure.options) {
        Ok(None) => Outcome::Stays("it is not in the cluster".to_owned()),
        Err(error) => Outcome::Stays(error.to_string()),
        Ok(Some(spec)) => {
            let message = spec.graceful_eviction_tasks.last().map(|task| task.message.clone()).unwrap_or_default();
            let left = Binding { spec, ..binding.clone() };
            let report = after(taken, &left, snapshot, gates).map(Box::new);
            Outcome::Leaves { after: after_, message, report }
        }
    }
}

#[cfg(test)]
mod tests {
    use karmada_api::scope::Scope;
    use serde_json::{Value, json};

    use super::*;

    fn cluster(name: &str, pods: u32) -> Arc<Cluster> {
        let summary = json!({"allocatable": {"pods": pods.to_string(), "cpu": "100"}});
        let cluster = json!({"metadata": {"name": name}, "spec": {"syncMode": "Push"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "resourceSummary": summary,
            "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]}});
        Arc::new(serde_json::from_value(cluster).expect("a cluster"))
    }

    /// Two replicas in m1, aggregated, with these tolerations.
    fn binding(name: &str, priority: i32, tolerations: &Value) -> Binding {
        let placement = json!({"clusterTolerations": tolerations, "replicaScheduling": {"replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Aggregated"}});
        let wire = json!({"metadata": {"name": name, "namespace": "demo", "generation": 2,
            "annotations": {"policy.karmada.io/applied-placement": placement.to_string()}},
            "spec": {"clusters": [{"name": "m1", "replicas": 2}], "replicas": 2, "placement": placement,
            "schedulePriority": {"priority": priority}, "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "demo", "name": name}},
            "status": {"schedulerObservedGeneration": 2}});
        Binding::from_value(Scope::Namespaced, &wire).expect("a binding")
    }

    #[test]
    fn evictions_by_priority_and_toleration() {
        let tolerates = |seconds: Value| json!([{"key": "away", "operator": "Exists", "tolerationSeconds": seconds}]);
        let mut unscheduled = binding("new", 0, &json!([]));
        unscheduled.metadata.annotations.clear();
        let bindings = [
            binding("first", 9, &json!([])),
            binding("later", 5, &tolerates(json!(60))),
            binding("second", 1, &json!([])),
            binding("stays", 0, &tolerates(Value::Null)),
            unscheduled,
        ];
        let taints: Vec<Taint> = serde_json::from_value(
            json!([{"key": "away", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}]),
        )
        .expect("taints");
        let options = Options { purge_mode: Default::default(), keeps_state: false };
        let now = "2026-01-01T00:00:10Z".parse().expect("a time");
        let departure = Departure { cluster: "m1", taints: &taints, options, now };
        // m2 fits three pods: the most important workload and half of the next.
        let clusters = [cluster("m1", 100), cluster("m2", 3)];
        let forecasts = evacuate(&bindings, &clusters, departure, &Gates::default());
        let shown: Vec<String> = forecasts
            .iter()
            .map(|forecast| {
                let name = &forecast.binding.metadata.name;
                match &forecast.outcome {
                    Outcome::Stays(why) => format!("{name} stays: {why}"),
                    Outcome::Leaves { after, report, .. } => {
                        let there = forecast
                            .outcome
                            .targets()
                            .map_or("no room".to_owned(), |it| format!("{}:{}", it[0].name, it[0].replicas));
                        assert!(report.is_some());
                        format!("{name} after {}s: {there}", after.as_secs())
                    }
                }
            })
            .collect();
        let expected = [
            "first after 0s: m2:2",
            "later after 50s: no room",
            "second after 0s: no room",
            "new stays: its tolerations are unknown: the scheduler has not recorded a placement",
            "stays stays: its policy tolerates the taints",
        ];
        assert_eq!(shown, expected);
    }
}
