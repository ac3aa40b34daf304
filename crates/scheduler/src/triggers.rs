//! Triggers of scheduling: the bindings that belong to this scheduler, and those that a change of a cluster affects.
//! Pure; the roster applies them.
//!
//! As upstream, a change of a cluster's labels or spec triggers bindings; in addition, newly served kinds and increased
//! capacity wake failed bindings. No trigger moves a placed binding.

use apimachinery::Object;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::{annotations, labels};
use karmada_api::policy::v1alpha1::{ClusterAffinity, Placement, ReplicaSchedulingType};
use karmada_api::scope::{Binding, Scope};

pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// Whether a scheduler has placed it before.
pub fn was_placed(binding: &Object) -> bool {
    binding.annotation(annotations::APPLIED_PLACEMENT).is_some_and(|applied| !applied.is_empty())
}

/// Whether a policy or another controller created the binding. Bindings of dependencies lack this label: they follow
/// the bindings that depend on them and are never scheduled.
pub fn is_claimed(binding: &Object) -> bool {
    claims().iter().any(|label| binding.label(label).is_some_and(|value| !value.is_empty()))
}

fn claims() -> [&'static str; 3] {
    [Scope::Namespaced.policy_id_label(), Scope::Cluster.policy_id_label(), labels::BINDING_MANAGED_BY]
}

/// Whether the scheduler of this name is responsible for a binding that is about to be created.
pub fn is_decided_first(binding: &Binding, scheduler: &str) -> bool {
    let (scheduling_state, own_labels) = (SchedulingState::from(binding), &binding.metadata.labels);
    let is_claimed = claims().iter().any(|label| own_labels.get(*label).is_some_and(|value| !value.is_empty()));
    scheduling_state.named() == scheduler && !scheduling_state.suspended && scheduling_state.placed && is_claimed
}

/// Why a scheduler ignores a binding.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IgnoreReason {
    #[error("no policy made it: it follows the bindings in its spec.requiredBy")]
    Unclaimed,
    #[error("its spec.schedulerName is {0:?}")]
    OtherScheduler(String),
    #[error("its scheduling is suspended: spec.suspension.scheduling is true")]
    Suspended,
    #[error("it has no spec.placement")]
    Unplaced,
    #[error("it is being deleted")]
    Deleting,
}

/// The scheduling state that the binding records.
#[derive(Clone, Copy, Debug)]
pub struct SchedulingState<'b> {
    /// Empty: the default one.
    pub scheduler: &'b str,
    pub suspended: bool,
    pub placed: bool,
}

impl<'b> From<&'b Binding> for SchedulingState<'b> {
    fn from(binding: &'b Binding) -> Self {
        let suspension = binding.spec.suspension.as_ref();
        Self {
            scheduler: &binding.spec.scheduler_name,
            suspended: suspension.and_then(|suspension| suspension.scheduling) == Some(true),
            placed: binding.spec.placement.is_some(),
        }
    }
}

impl<'b> SchedulingState<'b> {
    fn named(&self) -> &'b str {
        if self.scheduler.is_empty() { DEFAULT_SCHEDULER } else { self.scheduler }
    }
}

/// `None` if the scheduler of this name is responsible for the binding.
pub fn ignore_reason<'b>(
    object: &Object,
    binding: impl Into<SchedulingState<'b>>,
    scheduler: &str,
) -> Option<IgnoreReason> {
    let scheduling_state = binding.into();
    let named = scheduling_state.named();
    match () {
        () if named != scheduler => Some(IgnoreReason::OtherScheduler(named.to_owned())),
        () if scheduling_state.suspended => Some(IgnoreReason::Suspended),
        () if object.is_deleting() => Some(IgnoreReason::Deleting),
        () if !scheduling_state.placed => Some(IgnoreReason::Unplaced),
        () if !is_claimed(object) => Some(IgnoreReason::Unclaimed),
        () => None,
    }
}

/// The properties that determine which clusters can matter to a binding; equal for all bindings of a policy and a kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Requirements {
    api_version: String,
    kind: String,
    /// Every cluster that fits gets the whole of it.
    everywhere: bool,
    /// A cluster is relevant if it matches one of these; if there are none, every cluster is.
    affinities: Vec<ClusterAffinity>,
}

impl Requirements {
    /// `workload`: there are replicas to divide.
    pub fn new(api_version: &str, kind: &str, workload: bool, placement: &Placement) -> Self {
        let strategy = placement.replica_scheduling.as_ref().and_then(|it| it.replica_scheduling_type);
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            everywhere: !workload || strategy != Some(ReplicaSchedulingType::Divided),
            affinities: affinities(placement),
        }
    }

    pub fn concerns(&self, cluster: &Cluster) -> bool {
        self.affinities.is_empty()
            || self.affinities.iter().any(|affinity| propagation::cluster::matches(affinity, cluster))
    }

    fn is_served_by(&self, cluster: &Cluster) -> bool {
        let groups = cluster.status.api_enablements.iter().filter(|group| group.group_version == self.api_version);
        groups.flat_map(|group| &group.resources).any(|resource| resource.kind == self.kind)
    }
}

/// All that could become the affinity in force, overflow groups and later terms included.
fn affinities(placement: &Placement) -> Vec<ClusterAffinity> {
    if let Some(affinity) = &placement.cluster_affinity {
        return vec![affinity.clone()];
    }
    let terms = placement.cluster_affinities.iter().flat_map(|term| {
        let own = ClusterAffinity {
            cluster_names: term.cluster_names.clone(),
            exclude: term.exclude.clone(),
            field_selector: term.field_selector.clone(),
            label_selector: term.label_selector.clone(),
        };
        let overflow = term.overflow_affinities.iter().map(|group| ClusterAffinity {
            cluster_names: group.cluster_names.clone(),
            exclude: group.exclude.clone(),
            field_selector: group.field_selector.clone(),
            label_selector: group.label_selector.clone(),
        });
        std::iter::once(own).chain(overflow)
    });
    terms.collect()
}

/// The reaction of a binding to a change of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reaction {
    #[default]
    None,
    /// Retry if it failed for lack of capacity.
    WakeForRoom,
    /// If it failed, try again.
    Wake,
    /// Enqueue it in any case.
    Push,
}

/// How a cluster changed, as far as scheduling is concerned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change<'a> {
    old: Option<&'a Cluster>,
    new: Option<&'a Cluster>,
    definition: bool,
    apis: bool,
    capacity: bool,
}

impl<'a> Change<'a> {
    /// `None` without a relevant change. `old` is absent for a cluster that joined, `new` for a removed one.
    pub fn between(old: Option<&'a Cluster>, new: Option<&'a Cluster>) -> Option<Self> {
        let all = Self { old, new, definition: true, apis: true, capacity: true };
        let (Some(before), Some(after)) = (old, new) else { return Some(all) };
        let change = Self {
            definition: before.metadata.generation != after.metadata.generation
                || before.metadata.uid != after.metadata.uid
                || before.metadata.labels != after.metadata.labels
                || before.metadata.deletion_timestamp.is_some() != after.metadata.deletion_timestamp.is_some(),
            apis: before.status.api_enablements != after.status.api_enablements,
            capacity: before.status.resource_summary != after.status.resource_summary,
            ..all
        };
        (change.definition || change.apis || change.capacity).then_some(change)
    }

    /// The reaction of bindings with these requirements.
    pub fn reaction(&self, requirements: &Requirements) -> Reaction {
        let concerned = [self.old, self.new].into_iter().flatten().any(|cluster| requirements.concerns(cluster));
        let serves = |cluster: Option<&Cluster>| cluster.is_some_and(|cluster| requirements.is_served_by(cluster));
        // A copy for a further cluster does not affect the others.
        let gains = requirements.everywhere && serves(self.new) && !serves(self.old);
        match () {
            () if !concerned => Reaction::None,
            () if self.definition || gains => Reaction::Push,
            () if self.apis => Reaction::Wake,
            () => Reaction::WakeForRoom,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster(value: Value) -> Cluster {
        serde_json::from_value(value).expect("a cluster")
    }

    fn requirements(kind: &str, placement: Value) -> Requirements {
        Requirements::new("apps/v1", kind, true, &serde_json::from_value(placement).expect("a placement"))
    }

    fn base() -> Value {
        json!({"metadata": {"name": "m1", "generation": 1, "labels": {"tier": "a"}}, "spec": {"region": "r1"},
            "status": {"apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]}})
    }

    #[test]
    fn reactions() {
        let divided = json!({"replicaScheduling": {"replicaSchedulingType": "Divided"}});
        let duplicated = json!({});
        let by_label = json!({"clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "a"}}}});
        let terms = json!({"clusterAffinities": [{"affinityName": "x", "clusterNames": ["m9"]},
            {"affinityName": "y", "clusterNames": ["m8"], "overflowAffinities": [{"affinityName": "z", "clusterNames": ["m1"]}]}]});
        let apis = json!([{"groupVersion": "apps/v1", "resources": [{"kind": "Deployment"}, {"kind": "StatefulSet"}]}]);
        let elsewhere = json!({"clusterAffinity": {"clusterNames": ["m2"]}});
        for (what, pointer, value, kind, placement, expected) in [
            (
                "a label that matches no more",
                "/metadata/labels/tier",
                json!("b"),
                "Deployment",
                &by_label,
                Reaction::Push,
            ),
            (
                "the spec of a divided one's cluster",
                "/metadata/generation",
                json!(2),
                "Deployment",
                &divided,
                Reaction::Push,
            ),
            (
                "an overflow group of a later term",
                "/metadata/generation",
                json!(2),
                "Deployment",
                &terms,
                Reaction::Push,
            ),
            ("someone else's cluster", "/metadata/generation", json!(2), "Deployment", &elsewhere, Reaction::None),
            (
                "a new API for copies",
                "/status/apiEnablements",
                apis.clone(),
                "StatefulSet",
                &duplicated,
                Reaction::Push,
            ),
            ("a new API for shares", "/status/apiEnablements", apis.clone(), "StatefulSet", &divided, Reaction::Wake),
            ("an API of another kind", "/status/apiEnablements", apis, "Deployment", &duplicated, Reaction::Wake),
            (
                "room",
                "/status/resourceSummary",
                json!({"allocatable": {"cpu": "1"}}),
                "Deployment",
                &divided,
                Reaction::WakeForRoom,
            ),
        ] {
            let mut changed = base();
            changed["status"]["resourceSummary"] = json!({});
            let old = cluster(changed.clone());
            *changed.pointer_mut(pointer).expect("a field") = value;
            let new = cluster(changed);
            let change = Change::between(Some(&old), Some(&new)).expect("a change that matters");
            assert_eq!(change.reaction(&requirements(kind, placement.clone())), expected, "{what}");
        }
    }

    #[test]
    fn heartbeats_do_not_matter() {
        let mut changed = base();
        changed["status"]["conditions"] = json!([{"type": "Ready", "status": "True", "reason": "", "message": ""}]);
        assert_eq!(Change::between(Some(&cluster(base())), Some(&cluster(changed))), None);
    }

    #[test]
    fn joining_and_leaving_clusters_affect_matching_placements() {
        let joined = cluster(base());
        for change in [Change::between(None, Some(&joined)), Change::between(Some(&joined), None)] {
            let change = change.expect("matters");
            assert_eq!(change.reaction(&requirements("Deployment", json!({}))), Reaction::Push);
            let elsewhere = json!({"clusterAffinity": {"exclude": ["m1"]}});
            assert_eq!(change.reaction(&requirements("Deployment", elsewhere)), Reaction::None);
        }
    }
}
