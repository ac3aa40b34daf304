//! Removes replicas from clusters where their pods cannot start. The scheduler then places the missing replicas.

use karmada_api::constants::annotations;
use karmada_api::policy::v1alpha1::{Placement, ReplicaDivisionPreference, ReplicaSchedulingType};
use karmada_api::scope::{Binding, Scope};
use karmada_api::work::v1alpha2::TargetCluster;
use serde_json::Value;

/// Whether the descheduler may move replicas of a binding: a Deployment that is divided by available replicas.
pub fn is_eligible(binding: &Binding) -> bool {
    let resource = &binding.spec.resource;
    let applied = binding.metadata.annotations.get(annotations::APPLIED_PLACEMENT);
    let applied = applied.and_then(|text| serde_json::from_str::<Placement>(text).ok());
    binding.scope == Scope::Namespaced
        && binding.metadata.deletion_timestamp.is_none()
        && resource.api_version == "apps/v1"
        && resource.kind == "Deployment"
        && applied.is_some_and(|placement| divides_by_capacity(&placement))
}

fn divides_by_capacity(placement: &Placement) -> bool {
    let Some(scheduling) = &placement.replica_scheduling else { return false };
    let dynamic = scheduling.weight_preference.as_ref().is_some_and(|it| it.dynamic_weight.is_some());
    scheduling.replica_scheduling_type == Some(ReplicaSchedulingType::Divided)
        && match scheduling.replica_division_preference {
            Some(ReplicaDivisionPreference::Aggregated) => true,
            Some(ReplicaDivisionPreference::Weighted) => dynamic,
            None => false,
        }
}

/// Whether a binding is settled: its scheduler has observed the current spec, no eviction is in progress and scheduling
/// is not suspended. The name of the scheduler does not matter. Upstream checks none of this, and deschedules results
/// that are already changing.
pub fn is_settled(binding: &Binding) -> bool {
    let suspended = binding.spec.suspension.as_ref().and_then(|it| it.scheduling) == Some(true);
    !suspended
        && binding.spec.graceful_eviction_tasks.is_empty()
        && binding.status.scheduler_observed_generation == binding.metadata.generation
}

/// The number of ready replicas of each target; `None` if unknown. Kubernetes omits a zero, so 0 ready replicas count
/// as unknown.
fn ready(binding: &Binding, cluster: &str) -> Option<i64> {
    let item = binding.status.aggregated_status.iter().find(|item| item.cluster_name == cluster)?;
    let status: Value = serde_json::from_str(item.status.as_ref()?.get()).ok()?;
    status["readyReplicas"].as_i64()
}

/// The clusters with fewer ready replicas than desired.
pub fn with_unready_replicas(binding: &Binding) -> Vec<&str> {
    let is_unready = |target: &&TargetCluster| ready(binding, &target.name).unwrap_or(-1) < i64::from(target.replicas);
    binding.spec.clusters.iter().filter(is_unready).map(|target| target.name.as_str()).collect()
}

/// The replicas to remove.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    /// The new `spec.clusters`; a cluster that loses all replicas stays with zero.
    pub clusters: Vec<TargetCluster>,
    /// The number of replicas removed from each cluster, in the order of the result.
    pub taken: Vec<(String, i64)>,
}

/// Plans the removal of at most `budget` replicas. `unschedulable` returns the number of unschedulable pods of a
/// cluster, if known. `None` if there are no replicas to remove.
pub fn plan(binding: &Binding, unschedulable: impl Fn(&str) -> Option<i64>, budget: i64) -> Option<Moved> {
    let candidates = with_unready_replicas(binding);
    let mut left = budget;
    let mut moved = Moved { clusters: binding.spec.clusters.clone(), taken: Vec::new() };
    for target in &mut moved.clusters {
        if !candidates.contains(&target.name.as_str()) {
            continue;
        }
        let (desired, refused) = (i64::from(target.replicas), unschedulable(&target.name).unwrap_or(0));
        if refused <= 0 || refused > desired {
            continue;
        }
        let ready = ready(binding, &target.name).unwrap_or(-1);
        let keeps = (desired - refused).max(ready.min(desired)).max(desired - left);
        if keeps < desired {
            left -= desired - keeps;
            target.replicas = i32::try_from(keeps).unwrap_or(target.replicas);
            moved.taken.push((target.name.clone(), desired - keeps));
        }
    }
    (!moved.taken.is_empty()).then_some(moved)
}

/// The message of the event.
pub fn event(moved: &Moved) -> String {
    let each = moved.taken.iter().map(|(cluster, count)| format!("{count} replica(s) in cluster({cluster}), "));
    let total: i64 = moved.taken.iter().map(|(_, count)| count).sum();
    format!("Binding has been descheduled, {}{total} total descheduled replica(s)", each.collect::<String>())
}
