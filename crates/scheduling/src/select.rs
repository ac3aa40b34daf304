//! Choosing, among the clusters that passed, those the spread constraints allow.

use karmada_api::policy::v1alpha1::{Placement, SpreadField};

use crate::candidate::{Candidate, rank, total};
use crate::error::SelectError;
use crate::problem::{Bounds, Strategy, ignores_constraints};
use crate::regions::by_region;

/// What the constraints ask for.
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    pub region: Option<Bounds>,
    pub cluster: Option<Bounds>,
    /// Something is constrained, and the constraint counts.
    pub constrained: bool,
    /// Every cluster gets all replicas, and nobody asks for room.
    pub duplicated: bool,
    pub replicas: i64,
    /// The room that clusters together must have: replicas, or one set of components.
    pub need: i64,
    /// See [`crate::Gates::repair_regions`].
    pub repair: bool,
}

impl Selection {
    pub fn of(placement: &Placement, replicas: i64, sets: bool, repair: bool) -> Self {
        Self {
            region: Bounds::of(placement, SpreadField::Region),
            cluster: Bounds::of(placement, SpreadField::Cluster),
            constrained: !placement.spread_constraints.is_empty() && !ignores_constraints(placement),
            duplicated: !Strategy::of(placement).is_divided(),
            replicas,
            need: if sets { 1 } else { replicas },
            repair,
        }
    }
}

/// The chosen clusters, in the order they were chosen.
pub fn select(selection: &Selection, mut candidates: Vec<Candidate>) -> Result<Vec<Candidate>, SelectError> {
    rank(&mut candidates);
    match selection {
        Selection { constrained: false, .. } => Ok(candidates),
        Selection { region: Some(bounds), .. } => by_region(selection, *bounds, &candidates),
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
    let count = if bounds.max == 0 { candidates.len() } else { candidates.len().min(bounds.max) };
    if !selection.duplicated {
        swap_in_room(&mut candidates, count, selection.need);
        if total(&candidates[..count]) < selection.need {
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
