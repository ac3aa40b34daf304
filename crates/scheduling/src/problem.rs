//! The input of one decision: the binding, and the feature gates that apply.

use apimachinery::meta::Time;
use karmada_api::Scope;
use karmada_api::policy::v1alpha1::{
    Placement, ReplicaDivisionPreference, ReplicaSchedulingType, SpreadConstraint, SpreadField,
};
use karmada_api::scope::Binding;
use karmada_api::work::v1alpha2::{Component, ResourceBindingSpec, TargetCluster};
use propagation::Since;

use crate::plugins::{Plugin, Plugins};

/// Feature gates and flags that change decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// `--enable-empty-workload-propagation`: selected clusters without replicas stay in the result.
    pub empty_workload: bool,
    /// `MultiplePodTemplatesScheduling`.
    pub multiple_pod_templates: bool,
    /// `WorkloadAffinity`.
    pub workload_affinity: bool,
    /// `CustomizedClusterResourceModeling`: estimates use resource models.
    pub resource_models: bool,
    /// When the chosen regions lack capacity, other regions are tried. Changes only decisions that would fail.
    pub repair_regions: bool,
    /// Spreads over providers, zones and label values too. Upstream accepts these constraints, but alone they fail
    /// there, and beside others they only reject clusters that lack the property.
    pub spread_by_all: bool,
    /// A constraint without `maxGroups` has no upper limit. Upstream selects no cluster then, and fails.
    pub unlimited_groups: bool,
    /// NoExecute taints evict once `tolerationSeconds` have passed, so a cluster whose taint is tolerated no longer is
    /// not feasible. Upstream assigns the binding to it again, and evicts it again at once.
    pub tolerations_expire: bool,
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
            tolerations_expire: false,
            plugins: Plugins::ALL,
        }
    }
}

impl Gates {
    /// The gates without our additions: fails where upstream fails.
    pub fn upstream() -> Self {
        Self { repair_regions: false, spread_by_all: false, unlimited_groups: false, ..Self::default() }
    }
}

/// The results of other bindings that limit this one. The caller looks them up: namespaced bindings of the same
/// namespace and group, except this one.
#[derive(Clone, Debug, Default)]
pub struct Peers<'a> {
    /// Results of the same affinity group; bindings without a result are ignored.
    pub together: Vec<&'a [TargetCluster]>,
    /// Results of the same anti-affinity group.
    pub apart: Vec<&'a [TargetCluster]>,
}

/// Estimates from sources other than the cluster's own report.
pub trait Estimates {
    /// The most replicas (or component sets) that fit; `None` if unknown.
    fn at_most(&self, cluster: &str) -> Option<i64>;

    /// Workloads assumed to be in a cluster; the general estimator subtracts them. Each is a list of components.
    fn assumed(&self, _cluster: &str) -> &[Vec<Component>] {
        &[]
    }

    /// Whether there is no estimate for any cluster, so that lookups can be skipped.
    fn is_empty(&self) -> bool {
        false
    }
}

/// No estimates: only the general estimator counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEstimates;

impl Estimates for NoEstimates {
    fn at_most(&self, _: &str) -> Option<i64> {
        None
    }

    fn is_empty(&self) -> bool {
        true
    }
}

/// The steps of a decision, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Which clusters are feasible.
    Filter,
    /// Scores of the feasible clusters.
    Score,
    /// Includes estimates.
    Select,
    /// Division of the replicas.
    AssignReplicas,
}

impl Step {
    /// The name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Filter => "Filter",
            Self::Score => "Score",
            Self::Select => "Select",
            Self::AssignReplicas => "AssignReplicas",
        }
    }
}

/// Observes the steps of a decision. The shell measures the time between calls.
pub trait Steps {
    /// A step ended.
    fn ended(&self, step: Step, succeeded: bool);

    /// Whether to observe every run of a plugin as well. Reading the clock costs more than most plugins.
    fn observes_plugins(&self) -> bool {
        false
    }

    /// The plugins start with the next cluster.
    fn next_cluster(&self) {}

    /// A plugin finished for the current cluster, in the step of filtering or of scoring.
    fn plugin_finished(&self, _plugin: Plugin, _step: Step, _passes: bool) {}
}

/// A binding to schedule.
#[derive(Clone, Copy)]
pub struct Problem<'a> {
    /// Whether the binding is namespaced.
    pub scope: Scope,
    /// The binding's spec.
    pub spec: &'a ResourceBindingSpec,
    /// Its placement.
    pub placement: &'a Placement,
    /// The applied term, from the status; empty without terms.
    pub affinity_name: &'a str,
    /// `status.lastScheduledTime`.
    pub last_scheduled: Option<Time>,
    /// The time since a stamp. Without it, no toleration has expired.
    pub since: Option<Since<'a>>,
    /// The bindings of the same affinity groups, with the gate `WorkloadAffinity`.
    pub peers: Option<&'a Peers<'a>>,
    /// Estimates from other sources.
    pub estimates: &'a dyn Estimates,
    /// The observer of the steps.
    pub steps: Option<&'a dyn Steps>,
}

impl std::fmt::Debug for Problem<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Problem").field("spec", self.spec).field("affinity_name", &self.affinity_name).finish()
    }
}

impl<'a> Problem<'a> {
    /// `None` for a binding without a placement, which cannot be scheduled.
    pub fn of(binding: &'a Binding) -> Option<Self> {
        Some(Self {
            scope: binding.scope,
            spec: &binding.spec,
            placement: binding.spec.placement.as_ref()?,
            affinity_name: &binding.status.scheduler_observing_affinity_name,
            last_scheduled: binding.status.last_scheduled_time,
            since: None,
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

    /// The observer, if it observes plugins.
    pub(crate) fn observer(&self) -> Option<&'a dyn Steps> {
        self.steps.filter(|steps| steps.observes_plugins())
    }

    /// Whether the template has replicas, or requirements of replicas.
    pub fn is_workload(&self) -> bool {
        is_workload(self.spec)
    }

    /// Whether a reschedule was requested after the last decision.
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

/// How replicas are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Each cluster receives all replicas.
    Duplicated,
    /// Divided by static weights.
    StaticWeight,
    /// Divided in proportion to the available replicas.
    DynamicWeight,
    /// Divided over as few clusters as possible.
    Aggregated,
    /// A combination that admission rejects.
    Unsupported(Option<ReplicaSchedulingType>, Option<ReplicaDivisionPreference>),
}

impl Strategy {
    /// The strategy of a placement.
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

    /// Whether replicas are divided over clusters.
    pub fn is_divided(self) -> bool {
        self != Self::Duplicated
    }
}

/// Static weights ignore spread constraints. A weight preference without weights divides evenly and respects them.
pub(crate) fn ignores_constraints(placement: &Placement) -> bool {
    let Some(scheduling) = &placement.replica_scheduling else { return false };
    scheduling.replica_scheduling_type == Some(ReplicaSchedulingType::Divided)
        && scheduling.replica_division_preference == Some(ReplicaDivisionPreference::Weighted)
        && scheduling
            .weight_preference
            .as_ref()
            .is_none_or(|weights| !weights.static_weight_list.is_empty() && weights.dynamic_weight.is_none())
}

/// The limits of a spread constraint; the last constraint for a field counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub min: usize,
    /// 0 means no limit.
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

    /// Interprets 0: no limit as the maximum, and 1 as the minimum, which is the API's default.
    pub fn or_unlimited(self, unlimited: bool) -> Self {
        if !unlimited {
            return self;
        }
        Self { min: self.min.max(1), max: if self.max == 0 { usize::MAX } else { self.max } }
    }
}

/// Whether components are placed as one set: the workload has components, and exactly one cluster is required.
pub(crate) fn places_sets(spec: &ResourceBindingSpec, placement: &Placement, gates: &Gates) -> bool {
    gates.multiple_pod_templates
        && !spec.components.is_empty()
        && placement
            .spread_constraints
            .iter()
            .any(|it| it.spread_by_field == Some(SpreadField::Cluster) && it.min_groups == 1 && it.max_groups == 1)
}
