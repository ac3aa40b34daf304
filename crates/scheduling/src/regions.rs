//! Choosing clusters when they have to be spread over regions.

use std::collections::BTreeMap;

use crate::candidate::{Candidate, rank, total};
use crate::choice::{Group, choose};
use crate::error::SelectError;
use crate::problem::Bounds;
use crate::repair::repair;
use crate::select::Selection;

/// Scores of groups count thousands of replicas first, scores of clusters second.
const PER_REPLICA: i64 = 1000;

/// The best cluster of each chosen region, then others of these regions in the order of preference, as far as the
/// cluster constraint allows. Every chosen region is used even if that makes more clusters than the constraint has.
pub(crate) fn by_region(
    selection: &Selection,
    bounds: Bounds,
    candidates: &[Candidate],
) -> Result<Vec<Candidate>, SelectError> {
    let clusters = selection.cluster.unwrap_or(Bounds { min: 0, max: 0 });
    let mut regions: BTreeMap<u32, Vec<Candidate>> = BTreeMap::new();
    // Those without a region are no group; the filter refuses them anyway unless it is off.
    for candidate in candidates.iter().filter(|it| it.region != 0) {
        regions.entry(candidate.region).or_default().push(*candidate);
    }
    if regions.len() < bounds.min {
        return Err(SelectError::TooFewRegions);
    }
    let regions: Vec<Vec<Candidate>> = regions.into_values().collect();
    let group = |members: &Vec<Candidate>| Group {
        value: members.len(),
        weight: if selection.duplicated {
            score_duplicated(selection, members)
        } else {
            score_divided(selection, bounds.min.max(1), clusters.min, members)
        },
    };
    let groups: Vec<Group> = regions.iter().map(group).collect();
    let most = if bounds.max == 0 { regions.len() } else { bounds.max };
    let chosen = choose(&groups, bounds.min, most, clusters.min).ok_or(SelectError::TooFewClustersInRegions)?;
    let selected = take(&regions, &chosen, clusters.max);
    if selection.repair && !selection.duplicated && total(&selected) < selection.need {
        let limits = Bounds { min: bounds.min.max(1), max: most };
        return Ok(repair(&regions, limits, clusters, selection.need).unwrap_or(selected));
    }
    Ok(selected)
}

fn take(regions: &[Vec<Candidate>], chosen: &[usize], most: usize) -> Vec<Candidate> {
    let mut selected = Vec::new();
    let mut others = Vec::new();
    for members in chosen.iter().filter_map(|index| regions.get(*index)) {
        selected.extend(members.first());
        others.extend(members.iter().skip(1).copied());
    }
    rank(&mut others);
    let missing = (selected.len() + others.len()).min(most).saturating_sub(selected.len());
    selected.extend(others.into_iter().take(missing));
    selected
}

/// Clusters that can have all replicas count.
fn score_duplicated(selection: &Selection, members: &[Candidate]) -> i64 {
    let valid = members.iter().filter(|it| it.available() >= selection.replicas);
    let (count, scores) = valid.fold((0_i64, 0_i64), |(count, scores), it| (count + 1, scores + it.score));
    if count == 0 { 0 } else { PER_REPLICA * count + scores / count }
}

/// How much of its share a region can take, with as few clusters as the constraints let it.
fn score_divided(selection: &Selection, region_min: usize, cluster_min: usize, members: &[Candidate]) -> i64 {
    let region_min_count = i64::try_from(region_min).unwrap_or(i64::MAX);
    let share = selection.replicas / region_min_count + i64::from(selection.replicas % region_min_count != 0);
    let least = cluster_min.max(region_min);
    let (mut available, mut scores, mut count) = (0_i64, 0_i64, 0_i64);
    for (index, member) in members.iter().enumerate() {
        available = available.saturating_add(member.available());
        scores = scores.saturating_add(member.score);
        count += 1;
        if index + 1 >= least && available >= share {
            break;
        }
    }
    if available < share {
        let all = i64::try_from(members.len()).unwrap_or(i64::MAX).max(1);
        available.saturating_mul(PER_REPLICA).saturating_add(scores / all)
    } else {
        share.saturating_mul(PER_REPLICA).saturating_add(scores / count.max(1))
    }
}
