//! Choosing, among the clusters that passed, those the spread constraints allow.

use karmada_api::policy::v1alpha1::{Placement, SpreadField};

use crate::candidate::{Candidate, rank, total};
use crate::error::SelectError;
use crate::groups::{self, GroupBy, Grouping};
use crate::problem::{Bounds, Gates, Strategy, ignores_constraints};
use crate::snapshot::Snapshot;
use crate::spread::by_group;

/// What the constraints ask for.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The property that decides first, and how many groups it may have.
    pub group: Option<(&'static str, Bounds)>,
    /// Others that have to be kept as well.
    pub further: Vec<Grouping>,
    pub cluster: Option<Bounds>,
    /// Something is constrained, and the constraint counts.
    pub constrained: bool,
    /// The order of those selected says something about the result. Sorting a thousand clusters is a fifth of a decision.
    pub ordered: bool,
    /// Every cluster gets all replicas, and nobody asks for room.
    pub duplicated: bool,
    pub replicas: i64,
    /// The room that clusters together must have: replicas, or one set of components.
    pub need: i64,
    /// See [`crate::Gates::repair_regions`].
    pub repair: bool,
}

impl Selection {
    /// Gives the candidates their groups by the property that decides first.
    pub fn of(
        placement: &Placement,
        replicas: i64,
        sets: bool,
        gates: &Gates,
        candidates: &mut [Candidate],
        snapshot: &Snapshot,
    ) -> Self {
        let constrained = !placement.spread_constraints.is_empty() && !ignores_constraints(placement);
        let asked = if constrained { groups::asked(placement, gates.spread_by_all) } else { Vec::new() };
        let mut groupings = asked.into_iter().map(|(by, bounds)| (by, bounds.or_unlimited(gates.unlimited_groups)));
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
            // Beside groups upstream reads no limit as "no more than one of each", and succeeds; that stays.
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

/// The chosen clusters, in the order they were chosen.
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

/// The first ones; when they lack room, the last of them give way to roomier ones, one by one.
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
        // No cluster has no room even for nothing.
        if count == 0 || total(&candidates[..count]) < selection.need {
            return Err(SelectError::NoRoom(count));
        }
    }
    candidates.truncate(count);
    Ok(candidates)
}

/// From the last of the first `count` upwards, each is exchanged for the roomiest of the rest if that has more, until
/// there is enough. An exchanged cluster takes the other's place in the rest.
fn swap_in_room(candidates: &mut [Candidate], count: usize, need: i64) {
    let (chosen, rest) = candidates.split_at_mut(count);
    let mut room = total(chosen);
    // The roomiest of the rest, the first of equals on top. What is swapped out has less room than what came in, and
    // the places above want more than they have: it may still be wanted there, so it goes back on the heap.
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
