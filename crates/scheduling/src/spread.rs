//! Selects clusters that must be spread over groups: regions as upstream does, and providers, zones and label values by
//! the same rules.

use std::collections::BTreeMap;

use crate::candidate::{Candidate, rank, total};
use crate::choice::{Group, choose};
use crate::error::SelectError;
use crate::problem::Bounds;
use crate::repair::repair;
use crate::selection::Selection;

mod together;

/// In group scores, thousands of replicas outweigh cluster scores.
const PER_REPLICA: i64 = 1000;

/// Selects the best cluster of each chosen group, then others of these groups in the order of preference, as far as the
/// cluster constraint allows. Every chosen group is used, even if that exceeds the cluster constraint.
pub(crate) fn by_group(
    selection: &Selection,
    (what, bounds): (&'static str, Bounds),
    candidates: &[Candidate],
) -> Result<Vec<Candidate>, SelectError> {
    if selection.further.is_empty() {
        return by_one_property(selection, what, bounds, candidates);
    }
    let mut allowed = candidates.to_vec();
    for grouping in &selection.further {
        allowed = together::narrow(selection, grouping, allowed)?;
    }
    let first = together::all(selection, what, bounds, &allowed);
    let Err(SelectError::Irreconcilable(..)) = first else { return first };
    together::other_groups(bounds, candidates)
        .find_map(|(count, only)| {
            let exactly = Bounds { min: count, max: count };
            together::all(selection, what, exactly, &only).ok()
        })
        .map_or(first, Ok)
}

fn by_one_property(
    selection: &Selection,
    what: &'static str,
    bounds: Bounds,
    candidates: &[Candidate],
) -> Result<Vec<Candidate>, SelectError> {
    let clusters = selection.cluster.unwrap_or(Bounds { min: 0, max: 0 });
    let groups = grouped(candidates, |it| it.group);
    if groups.len() < bounds.min {
        return Err(SelectError::TooFewGroups(what));
    }
    let chosen = chosen(selection, bounds, &groups).ok_or(SelectError::TooFewClustersInRegions)?;
    let selected = take(&groups, &chosen, clusters.max);
    if selection.repair && selection.further.is_empty() && !selection.duplicated && total(&selected) < selection.need {
        let limits = Bounds { min: bounds.min.max(1), max: bounds.max.min(groups.len()) };
        return Ok(repair(&groups, limits, clusters, selection.need).unwrap_or(selected));
    }
    Ok(selected)
}

/// Candidates without a group are skipped; the filter rejects them anyway unless it is disabled.
fn grouped(candidates: &[Candidate], group: impl Fn(&Candidate) -> u32) -> Vec<Vec<Candidate>> {
    let mut groups: BTreeMap<u32, Vec<Candidate>> = BTreeMap::new();
    for candidate in candidates {
        match group(candidate) {
            0 => {}
            number => groups.entry(number).or_default().push(*candidate),
        }
    }
    groups.into_values().collect()
}

/// The groups to use.
fn chosen(selection: &Selection, bounds: Bounds, groups: &[Vec<Candidate>]) -> Option<Vec<usize>> {
    let least = selection.cluster.map_or(0, |clusters| clusters.min);
    let group = |members: &Vec<Candidate>| Group {
        value: members.len(),
        weight: if selection.duplicated {
            score_duplicated(selection, members)
        } else {
            score_divided(selection, bounds.min.max(1), least, members)
        },
    };
    let groups: Vec<Group> = groups.iter().map(group).collect();
    choose(&groups, bounds.min, bounds.max, least)
}

fn take(groups: &[Vec<Candidate>], chosen: &[usize], most: usize) -> Vec<Candidate> {
    let mut selected = Vec::new();
    let mut others = Vec::new();
    for members in chosen.iter().filter_map(|index| groups.get(*index)) {
        selected.extend(members.first());
        others.extend(members.iter().skip(1).copied());
    }
    rank(&mut others);
    let missing = (selected.len() + others.len()).min(most).saturating_sub(selected.len());
    selected.extend(others.into_iter().take(missing));
    selected
}

/// Counts the clusters that fit all replicas.
fn score_duplicated(selection: &Selection, members: &[Candidate]) -> i64 {
    let valid = members.iter().filter(|it| it.available() >= selection.replicas);
    let (count, scores) = valid.fold((0_i64, 0_i64), |(count, scores), it| (count + 1, scores + it.score));
    if count == 0 { 0 } else { PER_REPLICA * count + scores / count }
}

/// How much of its share a group fits, with as few clusters as the constraints allow.
fn score_divided(selection: &Selection, group_min: usize, cluster_min: usize, members: &[Candidate]) -> i64 {
    let group_min_count = i64::try_from(group_min).unwrap_or(i64::MAX);
    let share = selection.replicas / group_min_count + i64::from(selection.replicas % group_min_count != 0);
    let least = cluster_min.max(group_min);
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
