//! Selects clusters by the spread constraints.

use karmada_api::policy::v1alpha1::{Placement, SpreadField};

use crate::candidate::{Candidate, rank, total};
use crate::error::SelectError;
use crate::groups::{self, GroupBy, Grouping};
use crate::problem::{Bounds, Gates, Strategy, ignores_constraints};
use crate::snapshot::Snapshot;
use crate::spread::by_group;

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
        let alone = group.is_none();
        Self {
            group,
            further,
            // Beside groups upstream reads "no limit" as "at most one of each", and succeeds; this is kept.
            cluster: clusters.map(|bounds| bounds.or_unlimited(alone && gates.unlimited_groups)),
            constrained,
            ordered: true,
            duplicated: !Strategy::of(placement).is_divided(),
            replicas,
            need: if sets { 1 } else { replicas },
            repair: gates.repair_regions,
        }
    }
}

/// The chosen clusters in the order of selection.
pub fn select(selection: &Selection, mut candidates: Vec<Candidate>) -> Result<Vec<Candidate>, SelectError> {
    if selection.constrained || selection.ordered {
        rank(&mut candidates);
    }
    match selection {
        Selection { constrained: false, .. } => Ok(candidates),
        Selection { group: Some(group), .. } => by_group(selection, *group, &candidates),
        Selection { cluster: Some(bounds), .. } => by_cluster(selection, *bounds, candidates),
        _ => Err(SelectError::UnsupportedField),
    }
}

/// Takes the first clusters; while they lack capacity, swaps the last of them for clusters with more.
fn by_cluster(
    selection: &Selection,
    bounds: Bounds,
    mut candidates: Vec<Candidate>,
) -> Result<Vec<Candidate>, SelectError> {
    if candidates.len() < bounds.min {
        return Err(SelectError::TooFewClusters);
    }
    let count = candidates.len().min(bounds.max);
    if !selection.duplicated {
        swap_in_room(&mut candidates, count, selection.need);
        // An empty selection lacks capacity even for no replicas.
        if count == 0 || total(&candidates[..count]) < selection.need {
            return Err(SelectError::NoRoom(count));
        }
    }
    candidates.truncate(count);
    Ok(candidates)
}

/// Swaps each cluster, from the last of the first `count` upwards, for the one with the most capacity of the rest,
/// until there is enough. The swapped cluster takes the other's place in the rest.
fn swap_in_room(candidates: &mut [Candidate], count: usize, need: i64) {
    let (chosen, rest) = candidates.split_at_mut(count);
    let mut room = total(chosen);
    // The rest with the most capacity on top, the first of equals first. A swapped-out cluster may still be an
    // improvement for the places above, so it goes back on the heap.
    let mut roomiest: std::collections::BinaryHeap<(i64, std::cmp::Reverse<usize>)> =
        rest.iter().enumerate().map(|(index, it)| (it.available(), std::cmp::Reverse(index))).collect();
    for place in chosen.iter_mut().rev() {
        if room >= need {
            break;
        }
        let Some(mut best) = roomiest.peek_mut() else { break };
        let (available, std::cmp::Reverse(index)) = *best;
        if available <= place.available() {
            continue;
        }
        room = room.saturating_sub(place.available()).saturating_add(available);
        std::mem::swap(place, &mut rest[index]);
        *best = (rest[index].available(), std::cmp::Reverse(index));
    }
}
