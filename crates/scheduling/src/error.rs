//! Why a binding could not be scheduled. Tools match these texts, so they are upstream's.

use karmada_api::policy::v1alpha1::{ReplicaDivisionPreference, ReplicaSchedulingType};

/// What an error means for the condition and for the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// No cluster passed the filters: waits for a change, and the old result is cleared.
    NoFit,
    /// Clusters passed, but have no room.
    Unschedulable,
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// `reasons` has how many clusters were refused for what.
    #[error("0/{total} clusters are available: {reasons}.")]
    NoFit { total: usize, reasons: String },
    #[error("failed to select clusters: {0}")]
    Select(#[from] SelectError),
    #[error("failed to assign replicas: {0}")]
    Assign(#[from] AssignError),
}

/// Why the spread constraints could not be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    #[error("the number of feasible clusters is less than spreadConstraint.MinGroups")]
    TooFewClusters,
    /// No choice of this many clusters has room.
    #[error("no enough resource when selecting {0} clusters")]
    NoRoom(usize),
    /// Of this property.
    #[error("the number of feasible {0} is less than spreadConstraint.MinGroups")]
    TooFewGroups(&'static str),
    #[error("the number of clusters is less than the cluster spreadConstraint.MinGroups")]
    TooFewClustersInRegions,
    /// Choices of groups for each constraint exist, but none was found that keeps all of them.
    #[error("the spread constraints by {0} and {1} cannot be kept together")]
    Irreconcilable(&'static str, &'static str),
    #[error("just support cluster and region spread constraint")]
    UnsupportedField,
}

/// Why replicas could not be divided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssignError {
    #[error("no clusters available to schedule")]
    NoClusters,
    #[error(
        "unsupported replica scheduling strategy, replicaSchedulingType: {}, replicaDivisionPreference: {}, please try \
         another scheduling strategy",
        debug(.0),
        debug(.1)
    )]
    Unsupported(Option<ReplicaSchedulingType>, Option<ReplicaDivisionPreference>),
    #[error("failed to {step}: Clusters available replicas {available} are not enough to schedule.")]
    Shortage { step: Step, available: i64 },
    /// All tiers together have too little.
    #[error("Clusters available replicas are not enough to schedule.")]
    TierShortage,
}

/// The variant's name is the wire value.
fn debug<T: std::fmt::Debug>(value: &Option<T>) -> String {
    value.as_ref().map(|value| format!("{value:?}")).unwrap_or_default()
}

/// What was done when room ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    ScaleUp,
    ScaleDown,
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
    pub fn class(&self) -> Class {
        match self {
            Self::NoFit { .. } => Class::NoFit,
            Self::Assign(AssignError::Shortage { .. } | AssignError::TierShortage) => Class::Unschedulable,
            Self::Select(_) | Self::Assign(_) => Class::Other,
        }
    }

    /// Whether more room, rather than another placement, could help. Wider than the class: a selection that found no
    /// room keeps its wire class, and still is worth trying again when capacity appears.
    pub fn waits_for_capacity(&self) -> bool {
        self.class() == Class::Unschedulable || matches!(self, Self::Select(SelectError::NoRoom(_)))
    }
}
