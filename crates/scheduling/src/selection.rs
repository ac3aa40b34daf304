//! The constraints that clusters are selected by.

use karmada_api::policy::v1alpha1::{Placement, SpreadField};

use crate::candidate::Candidate;
use crate::groups::{self, GroupBy, Grouping};
use crate::problem::{Bounds, Gates, Strategy, ignores_constraints};
use crate::snapshot::Snapshot;

/// The constraints of a selection.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The primary group property and its limits.
    pub group: Option<(&'static str, Bounds)>,
    /// Further groupings whose limits must hold.
    pub further: Vec<Grouping>,
    pub cluster: Option<Bounds>,
    /// A constraint exists and applies.
    pub constrained: bool,
    /// The order of selection affects the result. Sorting a thousand clusters takes a fifth of a decision.
    pub ordered: bool,
    /// Every cluster receives all replicas, and capacity does not count.
    pub duplicated: bool,
    pub replicas: i64,
    /// The capacity that the clusters must have together: replicas, or one set of components.
    pub need: i64,
    /// See [`crate::Gates::repair_regions`].
    pub repair: bool,
}

impl Selection {
    /// Assigns the candidates their groups by the primary property.
    pub fn of(
        placement: &Placement,
        replicas: i64,
        sets: bool,
        gates: &Gates,
        candidates: &mut [Candidate],
        snapshot: &Snapshot,
    ) -> Self {
        let constrained = !placement.spread_constraints.is_empty() && !ignores_constraints(placement);
        let constraints = if constrained { groups::constraints(placement, gates.spread_by_all) } else { Vec::new() };
        let mut groupings =
            constraints.into_iter().map(|(by, bounds)| (by, bounds.or_unlimited(gates.unlimited_groups)));
        let group = groupings.next().map(|(by, bounds)| {
            if by != GroupBy::Region {
                let grouping = Grouping::new(by, bounds, candidates, snapshot);
                candidates.iter_mut().for_each(|it| it.group = grouping.at(it.place));
            }
            (by.name(), bounds)
        });
        let further = groupings.map(|(by, bounds)| Grouping::new(by, bounds, candidates, snapshot)).collect();
        let clusters = Bounds::of(placement, SpreadField::Cluster);
        let is_only_field = group.is_none();
        Self {
            group,
            further,
            // In combination with groups, upstream treats "no limit" as "at most one of each", and succeeds; this is
            // preserved.
            cluster: clusters.map(|bounds| bounds.or_unlimited(is_only_field && gates.unlimited_groups)),
            constrained,
            ordered: true,
            duplicated: !Strategy::of(placement).is_divided(),
            replicas,
            need: if sets { 1 } else { replicas },
            repair: gates.repair_regions,
        }
    }
}
