//! Whether a binding has to be scheduled.

use karmada_api::constants::annotations;
use karmada_api::policy::v1alpha1::{ClusterAffinityTerm, Placement, ReplicaSchedulingType};
use karmada_api::scope::Binding;

use crate::problem::{Gates, is_workload, reschedule_required};
use crate::snapshot::Snapshot;

/// The label `schedule_type` of the scheduler's metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScheduleType {
    /// The placement or the clusters changed.
    Reconcile,
    /// The number of replicas changed.
    Scale,
}

impl ScheduleType {
    /// The label value, which is upstream's.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reconcile => "ReconcileSchedule",
            Self::Scale => "ScaleSchedule",
        }
    }
}

/// `None` when the last result is still valid, and for a binding without a placement.
pub fn needed(binding: &Binding, snapshot: &Snapshot, gates: &Gates) -> Option<ScheduleType> {
    let (spec, status) = (&binding.spec, &binding.status);
    let placement = spec.placement.as_ref()?;
    let applied = binding.metadata.annotations.get(annotations::APPLIED_PLACEMENT).map_or("", String::as_str);
    if placement_changed(placement, applied, &status.scheduler_observing_affinity_name) {
        return Some(ScheduleType::Reconcile);
    }
    if replicas_changed(binding, placement, gates) {
        return Some(ScheduleType::Scale);
    }
    let leaves = |name: &str| snapshot.get(name).is_some_and(|member| member.is_deleting());
    let again = reschedule_required(spec, status.last_scheduled_time)
        || !is_workload(spec)
        || is_duplicated(placement)
        || spec.clusters.iter().any(|target| leaves(&target.name));
    again.then_some(ScheduleType::Reconcile)
}

fn is_duplicated(placement: &Placement) -> bool {
    let type_ = placement.replica_scheduling.as_ref().map(|scheduling| scheduling.replica_scheduling_type);
    matches!(type_, None | Some(Some(ReplicaSchedulingType::Duplicated)))
}

/// Whether the applied part of the placement differs from the recorded one. Terms other than the applied one may change
/// freely. An unreadable annotation counts as a change: otherwise no change would ever count again.
pub fn placement_changed(placement: &Placement, applied: &str, affinity_name: &str) -> bool {
    if applied.is_empty() {
        return true;
    }
    let Ok(applied) = serde_json::from_str::<Placement>(applied) else { return true };
    if placement.cluster_affinity != applied.cluster_affinity
        || placement.cluster_tolerations != applied.cluster_tolerations
        || placement.spread_constraints != applied.spread_constraints
        || placement.replica_scheduling != applied.replica_scheduling
        || placement.workload_affinity != applied.workload_affinity
    {
        return true;
    }
    if placement.cluster_affinities == applied.cluster_affinities {
        return false;
    }
    let in_force = |placement: &Placement| -> Option<ClusterAffinityTerm> {
        placement.cluster_affinities.iter().find(|term| term.affinity_name == affinity_name).cloned()
    };
    match (in_force(placement), in_force(&applied)) {
        (Some(now), Some(then)) if !affinity_name.is_empty() => now != then,
        _ => true,
    }
}

fn replicas_changed(binding: &Binding, placement: &Placement, gates: &Gates) -> bool {
    let spec = &binding.spec;
    let Some(scheduling) = &placement.replica_scheduling else { return false };
    if gates.multiple_pod_templates && !spec.components.is_empty() && spec.clusters.is_empty() {
        return true;
    }
    match scheduling.replica_scheduling_type {
        Some(ReplicaSchedulingType::Duplicated) => spec.clusters.iter().any(|target| target.replicas != spec.replicas),
        Some(ReplicaSchedulingType::Divided) => {
            let assigned: i64 = spec.clusters.iter().map(|target| i64::from(target.replicas)).sum();
            assigned != i64::from(spec.replicas)
        }
        None => false,
    }
}
