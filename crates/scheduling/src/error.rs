//! Why a binding could not be scheduled. The messages are upstream's: tools match them.

use karmada_api::policy::v1alpha1::{ReplicaDivisionPreference, ReplicaSchedulingType};

/// How an error maps to the condition and the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// No cluster passed the filters: the binding waits for a change, and the old result is cleared.
    NoFit,
    /// Clusters passed, but lack capacity.
    Unschedulable,
    /// Any other error: an internal one, or an unsupported placement.
    Other,
}

/// Why a binding could not be scheduled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// No cluster passed the filters.
    #[error("0/{total} clusters are available: {reasons}.")]
    NoFit {
        /// The number of clusters.
        total: usize,
        /// The number of clusters per reason.
        reasons: String,
    },
    /// The spread constraints could not be met.
    #[error("failed to select clusters: {0}")]
    Select(#[from] SelectError),
    /// The replicas could not be divided.
    #[error("failed to assign replicas: {0}")]
    Assign(#[from] AssignError),
}

/// Why the spread constraints could not be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// Fewer clusters are feasible than the cluster constraint requires.
    #[error("the number of feasible clusters is less than spreadConstraint.MinGroups")]
    TooFewClusters,
    /// No choice of this many clusters has enough capacity.
    #[error("no enough resource when selecting {0} clusters")]
    NoRoom(usize),
    /// By this property.
    #[error("the number of feasible {0} is less than spreadConstraint.MinGroups")]
    TooFewGroups(&'static str),
    /// The chosen regions have fewer clusters than the cluster constraint requires.
    #[error("the number of clusters is less than the cluster spreadConstraint.MinGroups")]
    TooFewClustersInRegions,
    /// Each constraint can be met on its own, but no choice was found that meets all of them.
    #[error("the spread constraints by {0} and {1} cannot be kept together")]
    Irreconcilable(&'static str, &'static str),
    /// The constraint's field is not supported.
    #[error("just support cluster and region spread constraint")]
    UnsupportedField,
}

/// Why replicas could not be divided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssignError {
    /// No cluster was selected.
    #[error("no clusters available to schedule")]
    NoClusters,
    #[error(
        "unsupported replica scheduling strategy, replicaSchedulingType: {}, replicaDivisionPreference: {}, please try \
         another scheduling strategy",
        debug(.0),
        debug(.1)
    )]
    /// The combination of types is not supported.
    Unsupported(Option<ReplicaSchedulingType>, Option<ReplicaDivisionPreference>),
    /// The selected clusters lack capacity.
    #[error("failed to {step}: Clusters available replicas {available} are not enough to schedule.")]
    Shortage {
        /// The step that failed.
        step: Step,
        /// The replicas that fit.
        available: i64,
    },
    /// All tiers together lack capacity.
    #[error("Clusters available replicas are not enough to schedule.")]
    TierShortage,
}

/// Prints the variant's name, which is the wire value.
fn debug<T: std::fmt::Debug>(value: &Option<T>) -> String {
    value.as_ref().map(|value| format!("{value:?}")).unwrap_or_default()
}

/// The step that ran out of capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Replicas are added to the previous result.
    ScaleUp,
    /// Replicas are removed from the previous result.
    ScaleDown,
    /// Replicas are divided without a previous result.
    Fresh,
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::ScaleUp => "scale up",
            Self::ScaleDown => "scale down",
            Self::Fresh => "do fresh scale",
        })
    }
}

impl ScheduleError {
    /// The class of an error, which decides the condition and the queue.
    pub fn class(&self) -> Class {
        match self {
            Self::NoFit { .. } => Class::NoFit,
            Self::Assign(AssignError::Shortage { .. } | AssignError::TierShortage) => Class::Unschedulable,
            Self::Select(_) | Self::Assign(_) => Class::Other,
        }
    }

    /// Whether more capacity, rather than another placement, could help. This is wider than the class: a selection that
    /// lacks capacity keeps its wire class, and is still retried when capacity appears.
    pub fn waits_for_capacity(&self) -> bool {
        self.class() == Class::Unschedulable || matches!(self, Self::Select(SelectError::NoRoom(_)))
    }
}
