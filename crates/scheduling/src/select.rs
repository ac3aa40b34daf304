//! Selects clusters by the spread constraints.

use crate::candidate::{Candidate, rank, total};
use crate::error::SelectError;
use crate::problem::Bounds;
use crate::selection::Selection;
use crate::spread::by_group;

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
        swap_in_capacity(&mut candidates, count, selection.need);
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
fn swap_in_capacity(candidates: &mut [Candidate], count: usize, need: i64) {
    let (chosen, rest) = candidates.split_at_mut(count);
    let mut capacity = total(chosen);
    // The other clusters, with the largest capacity on top, in their order among equals. A swapped-out cluster may
    // still be an improvement for the positions above, so it returns to the heap.
    let mut roomiest: std::collections::BinaryHeap<(i64, std::cmp::Reverse<usize>)> =
        rest.iter().enumerate().map(|(index, it)| (it.available(), std::cmp::Reverse(index))).collect();
    for place in chosen.iter_mut().rev() {
        if capacity >= need {
            break;
        }
        let Some(mut best) = roomiest.peek_mut() else { break };
        let (available, std::cmp::Reverse(index)) = *best;
        if available <= place.available() {
            continue;
        }
        capacity = capacity.saturating_sub(place.available()).saturating_add(available);
        std::mem::swap(place, &mut rest[index]);
        *best = (rest[index].available(), std::cmp::Reverse(index));
    }
}
