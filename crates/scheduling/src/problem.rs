//! What one decision is about, and the switches it is made under.

use apimachinery::meta::Time;
use karmada_api::Scope;
use karmada_api::policy::v1alpha1::{
    Placement, ReplicaDivisionPreference, ReplicaSchedulingType, SpreadConstraint, SpreadField,
};
use karmada_api::scope::Binding;
use karmada_api::work::v1alpha2::{Component, ResourceBindingSpec, TargetCluster};

use crate::plugins::{Plugin, Plugins};

/// Feature gates and flags that change decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// `--enable-empty-workload-propagation`: selected clusters that were given no replicas stay in the result.
    pub empty_workload: bool,
    /// `MultiplePodTemplatesScheduling`.
    pub multiple_pod_templates: bool,
    /// `WorkloadAffinity`.
    pub workload_affinity: bool,
    /// `CustomizedClusterResourceModeling`: estimates use the nodes by grade.
    pub resource_models: bool,
    /// Where the region constraint alone picks clusters without enough room, look for others that have it. Changes
    /// only decisions that would fail.
    pub repair_regions: bool,
    /// Spread over providers, zones and values of labels too. Upstream accepts these constraints; alone they are an
    /// error there, and beside others they only keep out clusters that lack the property.
    pub spread_by_all: bool,
    /// Constraints without `maxGroups` have no upper limit; upstream selects no cluster then, and fails.
    pub unlimited_groups: bool,
    /// `--plugins`.
    pub plugins: Plugins,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            empty_workload: false,
            multiple_pod_templates: false,
            workload_affinity: false,
            resource_models: true,
            repair_regions: true,
            spread_by_all: true,
            unlimited_groups: true,
            plugins: Plugins::ALL,
        }
    }
}

impl Gates {
    /// Without what we added: fails where upstream fails.
    pub fn upstream() -> Self {
        Self { repair_regions: false, spread_by_all: false, unlimited_groups: false, ..Self::default() }
    }
}

/// The results of other bindings this one must look at. The caller looks them up: namespaced bindings of the same
/// namespace and group, without this one.
#[derive(Clone, Debug, Default)]
pub struct Peers<'a> {
    /// Of the same affinity group; those without a result are ignored.
    pub together: Vec<&'a [TargetCluster]>,
    /// Of the same anti-affinity group.
    pub apart: Vec<&'a [TargetCluster]>,
}

/// What is known of room in clusters besides what they report themselves.
pub trait Estimates {
    /// At most this many more replicas (or component sets) fit; `None` when it is not known.
    fn at_most(&self, cluster: &str) -> Option<i64>;

    /// Workloads on their way to a cluster; the general estimator takes their share away. Each is a list of components.
    fn assumed(&self, _cluster: &str) -> &[Vec<Component>] {
        &[]
    }

    /// Whether nothing is known of any cluster, so that nobody needs to ask.
    fn is_silent(&self) -> bool {
        false
    }
}

/// Only the general estimator speaks.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEstimates;

impl Estimates for NoEstimates {
    fn at_most(&self, _: &str) -> Option<i64> {
        None
    }

    fn is_silent(&self) -> bool {
        true
    }
}

/// The steps of a decision, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Filter,
    Score,
    /// With estimates.
    Select,
    AssignReplicas,
}

impl Step {
    /// As metrics name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Filter => "Filter",
            Self::Score => "Score",
            Self::Select => "Select",
            Self::AssignReplicas => "AssignReplicas",
        }
    }
}

/// Told of each step when it ends, well or not, so that who has a clock can time them.
pub trait Steps {
    fn ended(&self, step: Step, succeeded: bool);

    /// Whether to tell of every look of a plugin at a cluster as well. Reading a clock costs more than most looks do.
    fn watches_plugins(&self) -> bool {
        false
    }

    /// Plugins begin to look at the next cluster.
    fn turned(&self) {}

    /// A plugin has looked at the cluster, in the step of filtering or of scoring.
    fn looked(&self, _plugin: Plugin, _step: Step, _passes: bool) {}
}

/// A binding to find clusters for.
#[derive(Clone, Copy)]
pub struct Problem<'a> {
    pub scope: Scope,
    pub spec: &'a ResourceBindingSpec,
    pub placement: &'a Placement,
    /// The term in force, from the status; empty when none is.
    pub affinity_name: &'a str,
    pub last_scheduled: Option<Time>,
    pub peers: Option<&'a Peers<'a>>,
    pub estimates: &'a dyn Estimates,
    pub steps: Option<&'a dyn Steps>,
}

impl std::fmt::Debug for Problem<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Problem").field("spec", self.spec).field("affinity_name", &self.affinity_name).finish()
    }
}

impl<'a> Problem<'a> {
    /// `None` for a binding without a placement: nothing can be decided about it.
    pub fn of(binding: &'a Binding) -> Option<Self> {
        Some(Self {
            scope: binding.scope,
            spec: &binding.spec,
            placement: binding.spec.placement.as_ref()?,
            affinity_name: &binding.status.scheduler_observing_affinity_name,
            last_scheduled: binding.status.last_scheduled_time,
            peers: None,
            estimates: &NoEstimates,
            steps: None,
        })
    }

    pub(crate) fn ended(&self, step: Step, succeeded: bool) {
        if let Some(steps) = self.steps {
            steps.ended(step, succeeded);
        }
    }

    /// Whom to tell of plugins, if anybody wants to know.
    pub(crate) fn watcher(&self) -> Option<&'a dyn Steps> {
        self.steps.filter(|steps| steps.watches_plugins())
    }

    pub fn is_workload(&self) -> bool {
        is_workload(self.spec)
    }

    /// Whether someone asked for a new decision after the last one.
    pub fn is_fresh(&self) -> bool {
        reschedule_required(self.spec, self.last_scheduled)
    }
}

pub(crate) fn is_workload(spec: &ResourceBindingSpec) -> bool {
    spec.replicas > 0 || spec.replica_requirements.is_some() || !spec.components.is_empty()
}

pub(crate) fn reschedule_required(spec: &ResourceBindingSpec, last_scheduled: Option<Time>) -> bool {
    matches!((spec.reschedule_triggered_at, last_scheduled), (Some(trigger), Some(last)) if trigger > last)
}

/// How replicas are handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    Duplicated,
    StaticWeight,
    DynamicWeight,
    Aggregated,
    /// Something admission does not let through.
    Unsupported(Option<ReplicaSchedulingType>, Option<ReplicaDivisionPreference>),
}

impl Strategy {
    pub fn of(placement: &Placement) -> Self {
        let Some(scheduling) = &placement.replica_scheduling else { return Self::Duplicated };
        match (scheduling.replica_scheduling_type, scheduling.replica_division_preference) {
            (Some(ReplicaSchedulingType::Duplicated), _) => Self::Duplicated,
            (Some(ReplicaSchedulingType::Divided), Some(ReplicaDivisionPreference::Aggregated)) => Self::Aggregated,
            (Some(ReplicaSchedulingType::Divided), Some(ReplicaDivisionPreference::Weighted)) => {
                let dynamic = scheduling.weight_preference.as_ref().is_some_and(|it| it.dynamic_weight.is_some());
                if dynamic { Self::DynamicWeight } else { Self::StaticWeight }
            }
            (type_, preference) => Self::Unsupported(type_, preference),
        }
    }

    pub fn is_divided(self) -> bool {
        self != Self::Duplicated
    }
}

/// Weights are fixed in advance, so that spread constraints are not looked at. A weight preference without any weights
/// divides evenly too, but heeds the constraints.
pub(crate) fn ignores_constraints(placement: &Placement) -> bool {
    let Some(scheduling) = &placement.replica_scheduling else { return false };
    scheduling.replica_scheduling_type == Some(ReplicaSchedulingType::Divided)
        && scheduling.replica_division_preference == Some(ReplicaDivisionPreference::Weighted)
        && scheduling
            .weight_preference
            .as_ref()
            .is_none_or(|weights| !weights.static_weight_list.is_empty() && weights.dynamic_weight.is_none())
}

/// Least and most groups of a constraint; the last one for a field counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub min: usize,
    /// 0 when not limited.
    pub max: usize,
}

impl Bounds {
    pub fn of(placement: &Placement, field: SpreadField) -> Option<Self> {
        let constraint = placement.spread_constraints.iter().rfind(|it| it.spread_by_field == Some(field))?;
        Some(Self::of_constraint(constraint))
    }

    pub fn of_constraint(constraint: &SpreadConstraint) -> Self {
        let count = |groups: i64| usize::try_from(groups).unwrap_or(0);
        Self { min: count(constraint.min_groups), max: count(constraint.max_groups) }
    }

    /// What 0 means: no limit at the upper end, and one at the lower, as admission fills it in.
    pub fn or_unlimited(self, unlimited: bool) -> Self {
        if !unlimited {
            return self;
        }
        Self { min: self.min.max(1), max: if self.max == 0 { usize::MAX } else { self.max } }
    }
}

/// Whether components are placed as one set: there are some, and exactly one cluster is wanted.
pub(crate) fn places_sets(spec: &ResourceBindingSpec, placement: &Placement, gates: &Gates) -> bool {
    gates.multiple_pod_templates
        && !spec.components.is_empty()
        && placement
            .spread_constraints
            .iter()
            .any(|it| it.spread_by_field == Some(SpreadField::Cluster) && it.min_groups == 1 && it.max_groups == 1)
}
