//! The state of a workload in each cluster, as text.

use std::collections::{BTreeMap, BTreeSet};

use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::{conditions, taints};
use karmada_api::names;
use karmada_api::policy::v1alpha1::Placement;
use karmada_api::scope::Binding;
use karmada_api::work::v1alpha1::Work;
use karmada_api::work::v1alpha2::{AggregatedStatusItem, ResourceHealth};
use propagation::cluster::Affinity;
use propagation::resume;
use scheduling::Verdict;
use scheduling::estimate::UNLIMITED;
use scheduling::report::Report;
use serde_json::{Value, json};

use super::explanation::{Scheduling, unknown_names};
use super::live::{List, Live};

/// The obstacle in a cluster, for the next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    NoSuchCluster,
    Suspended,
    /// The object that could not be applied, and why.
    NotApplied(String),
    NotReady,
    /// The cluster is newer than the store, and a person has to confirm.
    ResumePending,
    InFlight,
    Unhealthy,
    /// The cluster was not selected.
    NotAdmitted,
    Cordoned,
    NotServed,
    Tainted,
    NotSpread,
    NoRoom,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub cluster: String,
    /// The assigned replicas.
    pub replicas: Option<i64>,
    /// How many more replicas fit; `None` where that is not limited or not known.
    pub capacity: Option<i64>,
    pub state: String,
    pub obstacle: Option<Obstacle>,
    /// Whether the workload is to be there.
    pub is_target: bool,
}

impl Row {
    pub fn cells(&self) -> Vec<String> {
        let number = |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        vec![self.cluster.clone(), number(self.replicas), number(self.capacity), crate::table::printable(&self.state)]
    }

    pub fn to_value(&self) -> Value {
        json!({"name": self.cluster, "assigned": self.is_target, "replicas": self.replicas, "room": self.capacity, "state": self.state})
    }
}

/// A state and the obstacle for the next step.
type State = (String, Option<Obstacle>);

/// A row for each cluster, and for each name that is no cluster's.
pub fn rows(live: &Live, binding: &Binding, scheduling: &Scheduling, report: Option<&Report>) -> Vec<Row> {
    let clusters: BTreeMap<&str, &Cluster> =
        live.clusters.iter().map(|cluster| (cluster.metadata.name.as_str(), cluster.as_ref())).collect();
    let works =
        live.works.iter().filter_map(|work| Some((names::cluster_of_namespace(&work.metadata.namespace)?, work)));
    let works: BTreeMap<&str, &Work> = works.collect();
    let targets: BTreeMap<&str, i64> = targets(binding);
    let verdicts: BTreeMap<&str, &Verdict> =
        report.iter().flat_map(|report| &report.clusters).map(|it| (it.cluster.as_str(), it)).collect();
    let mut all: BTreeSet<&str> = clusters.keys().chain(targets.keys()).chain(works.keys()).copied().collect();
    all.extend(unknown_names(live));
    let place = |name: &str| Place {
        binding,
        cluster: clusters.get(name).copied(),
        work: works.get(name).copied(),
        works_known: !live.works.is_empty(),
        clusters_known: live.knows(List::Clusters),
        verdict: verdicts.get(name).copied(),
    };
    let is_workload = binding.is_workload();
    let row = |name: &str| {
        let place = place(name);
        let target = targets.get(name).copied();
        let (state, obstacle) = match target {
            Some(_) => place.as_target(name),
            None => place.as_other(name, scheduling, report),
        };
        let numbers = place.verdict.and_then(|verdict| verdict.numbers).filter(|_| is_workload);
        Row {
            cluster: name.to_owned(),
            replicas: target.filter(|_| is_workload),
            capacity: numbers.map(|it| it.allocatable).filter(|capacity| *capacity < UNLIMITED),
            state,
            obstacle,
            is_target: target.is_some(),
        }
    };
    all.into_iter().map(row).collect()
}

/// The clusters the workload is to be in with their replicas, those of bindings that need it included.
pub fn targets(binding: &Binding) -> BTreeMap<&str, i64> {
    let own = binding.spec.clusters.iter();
    let needed = binding.spec.required_by.iter().flat_map(|it| &it.clusters);
    needed.chain(own).map(|target| (target.name.as_str(), i64::from(target.replicas))).collect()
}

struct Place<'a> {
    binding: &'a Binding,
    cluster: Option<&'a Cluster>,
    work: Option<&'a Work>,
    /// Whether any Work could be read.
    works_known: bool,
    /// Whether the clusters could be read.
    clusters_known: bool,
    verdict: Option<&'a Verdict>,
}

impl Place<'_> {
    fn as_target(&self, name: &str) -> State {
        if self.cluster.is_none() && self.clusters_known {
            return ("there is no such cluster".to_owned(), Some(Obstacle::NoSuchCluster));
        }
        let item = self.item(name);
        let condition =
            self.work.and_then(|work| work.status.conditions.iter().find(|it| it.type_ == conditions::APPLIED));
        let is_applied = match (condition, item) {
            (Some(condition), _) => condition.status == "True",
            (None, item) => item.is_some_and(|item| item.applied),
        };
        let away = self.cluster.filter(|cluster| !cluster.is_ready());
        let away = away.map(|cluster| format!("the cluster is not ready: {}", trouble(cluster)));
        if let Some(condition) = condition.filter(|condition| resume::waits(condition)) {
            return (format!("held: {}", condition.message), Some(Obstacle::ResumePending));
        }
        if self.is_suspended(name) {
            let held = if is_applied { "the cluster keeps an earlier state" } else { "nothing was applied" };
            return (format!("dispatching is suspended, {held}"), Some(Obstacle::Suspended));
        }
        // The binding's report may be newer than the Work: a copy that cannot be rendered has no new Work.
        let refused = item.filter(|item| !item.applied).map(|item| item.applied_message.as_str());
        let refused = refused.filter(|message| !message.is_empty());
        let refused = refused.or(condition.filter(|_| !is_applied).map(|it| it.message.as_str()));
        match (refused, away) {
            (_, Some(away)) if !is_applied => (format!("not applied, {away}"), Some(Obstacle::NotReady)),
            (Some(message), _) => (format!("not applied: {message}"), Some(Obstacle::NotApplied(message.to_owned()))),
            (None, Some(away)) => (format!("applied, state unknown: {away}"), Some(Obstacle::NotReady)),
            (None, None) if !is_applied && self.work.is_none() && self.works_known => {
                ("nothing was sent to it yet".to_owned(), Some(Obstacle::InFlight))
            }
            (None, None) if !is_applied => ("being applied".to_owned(), Some(Obstacle::InFlight)),
            (None, None) => match item.and_then(|item| item.health) {
                Some(ResourceHealth::Healthy) => ("applied, healthy".to_owned(), None),
                Some(ResourceHealth::Unhealthy) => ("applied, not healthy".to_owned(), Some(Obstacle::Unhealthy)),
                _ => ("applied, health not known".to_owned(), None),
            },
        }
    }

    fn item(&self, name: &str) -> Option<&AggregatedStatusItem> {
        self.binding.status.aggregated_status.iter().find(|item| item.cluster_name == name)
    }

    fn is_suspended(&self, name: &str) -> bool {
        let suspension = self.binding.spec.suspension.as_ref();
        let by_work = self.work.is_some_and(|work| work.spec.suspend_dispatching == Some(true));
        by_work
            || suspension.is_some_and(|suspension| {
                let on = suspension.dispatching_on_clusters.as_ref();
                suspension.dispatching == Some(true)
                    || on.is_some_and(|on| on.cluster_names.iter().any(|it| it == name))
            })
    }

    fn as_other(&self, name: &str, scheduling: &Scheduling, report: Option<&Report>) -> State {
        if self.cluster.is_none() && self.clusters_known {
            return ("there is no such cluster".to_owned(), Some(Obstacle::NoSuchCluster));
        }
        let task = self.binding.spec.graceful_eviction_tasks.iter().find(|task| task.from_cluster == name);
        if let Some(task) = task {
            return (format!("being evicted: {}", task.reason), None);
        }
        if self.work.is_some() {
            return ("being removed".to_owned(), None);
        }
        let placement = self.binding.spec.placement.as_ref();
        match (placement, report, self.verdict.zip(self.cluster)) {
            (Some(placement), Some(report), Some((verdict, cluster))) if scheduling.is_decided() => {
                not_chosen(self.binding, placement, cluster, report, verdict)
            }
            _ => ("not assigned".to_owned(), None),
        }
    }
}

/// Whether any of the affinities of a placement admits a cluster.
fn is_admitted(placement: &Placement, cluster: &Cluster) -> bool {
    if let Some(affinity) = &placement.cluster_affinity {
        return Affinity::from(affinity).matches(cluster);
    }
    placement.cluster_affinities.is_empty()
        || placement.cluster_affinities.iter().any(|term| {
            Affinity::from(term).matches(cluster)
                || term.overflow_affinities.iter().any(|more| Affinity::from(more).matches(cluster))
        })
}

fn not_chosen(
    binding: &Binding,
    placement: &Placement,
    cluster: &Cluster,
    report: &Report,
    verdict: &Verdict,
) -> State {
    if cluster.metadata.deletion_timestamp.is_some() {
        return ("the cluster is leaving the control plane".to_owned(), None);
    }
    if !is_admitted(placement, cluster) {
        return ("not selected by the policy's clusterAffinity".to_owned(), Some(Obstacle::NotAdmitted));
    }
    let Some(rejected) = &verdict.rejected_by else {
        let failed = report.decision.error().is_some_and(scheduling::ScheduleError::waits_for_capacity);
        return match () {
            () if verdict.chosen => ("a calculation would choose it now".to_owned(), None),
            () if failed => ("not enough room".to_owned(), Some(Obstacle::NoRoom)),
            () => ("could take it, not needed".to_owned(), None),
        };
    };
    let resource = &binding.spec.resource;
    match rejected.plugin {
        "ClusterEviction" => ("the workload is being evicted from it".to_owned(), None),
        "APIEnablement" => {
            let what = format!("{} {}", resource.api_version, resource.kind);
            (format!("it does not serve {what}"), Some(Obstacle::NotServed))
        }
        "TaintToleration" => tainted(placement, cluster),
        "SpreadConstraint" => {
            let field = rejected.field.rsplit(": ").next().unwrap_or_default();
            (format!("it lacks what the policy spreads over: {field}"), Some(Obstacle::NotSpread))
        }
        "WorkloadAffinity" => ("the workloads of its affinity group are in other clusters".to_owned(), None),
        "WorkloadAntiAffinity" => ("a workload of its anti-affinity group is there".to_owned(), None),
        _ => ("not selected by the policy's clusterAffinity".to_owned(), None),
    }
}

fn tainted(placement: &Placement, cluster: &Cluster) -> State {
    let repels = |taint: &&karmada_api::kubernetes::Taint| {
        matches!(taint.effect.as_str(), taints::NO_SCHEDULE | taints::NO_EXECUTE)
            && !placement.cluster_tolerations.iter().any(|it| it.tolerates(taint))
    };
    let Some(taint) = cluster.spec.taints.iter().find(repels) else {
        return ("it has a taint that the policy does not tolerate".to_owned(), Some(Obstacle::Tainted));
    };
    match taint.key.as_str() {
        taints::UNSCHEDULABLE => ("cordoned".to_owned(), Some(Obstacle::Cordoned)),
        taints::NOT_READY | taints::UNREACHABLE => {
            (format!("the cluster is not ready: {}", trouble(cluster)), Some(Obstacle::NotReady))
        }
        key => {
            let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
            let words = format!("its taint {key}{value}:{} is not tolerated by the policy", taint.effect);
            (words, Some(Obstacle::Tainted))
        }
    }
}

/// Why a cluster is not ready.
pub fn trouble(cluster: &Cluster) -> String {
    match cluster.condition(conditions::READY) {
        Some(ready) if ready.status != "True" => format!("{} ({})", ready.message, ready.reason),
        Some(_) => "it has only just become ready".to_owned(),
        None => "it has not reported yet".to_owned(),
    }
}
