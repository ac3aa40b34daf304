//! Meets constraints by several properties at once. No algorithm is both fast and complete; this one is fast, never
//! violates a constraint, and reports when it finds no choice. With one property it is complete.

use std::collections::BTreeSet;

use super::{by_one_property, chosen, grouped};
use crate::candidate::{Candidate, rank};
use crate::error::SelectError;
use crate::groups::Grouping;
use crate::problem::Bounds;
use crate::selection::Selection;

/// With more groups than this, combinations are not tried: at most 4,096 attempts of some microseconds.
const MOST_GROUPS: usize = 12;

/// Selects by the first property, and adjusts the selection to the others.
pub fn all(
    selection: &Selection,
    what: &'static str,
    bounds: Bounds,
    allowed: &[Candidate],
) -> Result<Vec<Candidate>, SelectError> {
    let mut selected = by_one_property(selection, what, bounds, allowed)?;
    for grouping in &selection.further {
        selected = widen(selection, bounds, grouping, selected, allowed)
            .ok_or(SelectError::Irreconcilable(what, grouping.what))?;
    }
    // An exchange for one property must not violate another.
    match selection.further.iter().find(|grouping| !keeps(grouping, &selected)) {
        Some(broken) => Err(SelectError::Irreconcilable(what, broken.what)),
        None => Ok(selected),
    }
}

/// The candidates of each combination of groups of the first property, fewest groups first.
pub fn other_groups(bounds: Bounds, candidates: &[Candidate]) -> impl Iterator<Item = (usize, Vec<Candidate>)> {
    let numbers: BTreeSet<u32> = candidates.iter().map(|it| it.group).filter(|group| *group != 0).collect();
    let numbers: Vec<u32> = numbers.into_iter().collect();
    let end: u32 = if numbers.len() > MOST_GROUPS { 0 } else { 1 << numbers.len() };
    let mut sets: Vec<u32> = (1..end).filter(|set| (bounds.min..=bounds.max).contains(&size(*set))).collect();
    sets.sort_by_key(|set| (size(*set), *set));
    sets.into_iter().map(move |set| {
        let has = |it: &&Candidate| {
            let place = numbers.binary_search(&it.group).ok();
            place.is_some_and(|place| set >> place & 1 == 1)
        };
        (size(set), candidates.iter().filter(has).copied().collect())
    })
}

fn size(set: u32) -> usize {
    set.count_ones() as usize
}

/// Keeps clusters of at most as many groups as a further constraint allows.
pub fn narrow(
    selection: &Selection,
    grouping: &Grouping,
    candidates: Vec<Candidate>,
) -> Result<Vec<Candidate>, SelectError> {
    let groups = grouped(&candidates, |it| grouping.at(it.place));
    if groups.len() < grouping.bounds.min {
        return Err(SelectError::TooFewGroups(grouping.what));
    }
    if groups.len() <= grouping.bounds.max {
        return Ok(candidates);
    }
    let used = chosen(selection, grouping.bounds, &groups).ok_or(SelectError::TooFewClustersInRegions)?;
    let mut left: Vec<Candidate> = used.into_iter().filter_map(|index| groups.get(index)).flatten().copied().collect();
    rank(&mut left);
    Ok(left)
}

/// Adds clusters of missing groups, or swaps them for redundant clusters. `None` when that is not enough.
fn widen(
    selection: &Selection,
    first: Bounds,
    grouping: &Grouping,
    mut selected: Vec<Candidate>,
    allowed: &[Candidate],
) -> Option<Vec<Candidate>> {
    let most = selection.cluster.map_or(0, |clusters| clusters.max).max(selected.len());
    while count(grouping, &selected) < grouping.bounds.min {
        let has: BTreeSet<u32> = selected.iter().map(|it| grouping.at(it.place)).collect();
        let firsts: BTreeSet<u32> = selected.iter().map(|it| it.group).collect();
        let is_selected = |it: &&Candidate| {
            let group = grouping.at(it.place);
            group != 0 && !has.contains(&group) && (firsts.contains(&it.group) || firsts.len() < first.max)
        };
        let added = *allowed.iter().find(is_selected)?;
        if selected.len() >= most {
            // The least preferred cluster whose groups have others, or whose first group the new cluster fills.
            let spare = (0..selected.len()).rev().find(|index| {
                let leaving = selected.get(*index);
                leaving.is_some_and(|leaving| {
                    let others = || selected.iter().filter(|it| it.place != leaving.place).chain([&added]);
                    others().any(|it| it.group == leaving.group)
                        && others().any(|it| grouping.at(it.place) == grouping.at(leaving.place))
                })
            })?;
            selected.remove(spare);
        }
        selected.push(added);
    }
    Some(selected)
}

fn keeps(grouping: &Grouping, selected: &[Candidate]) -> bool {
    (grouping.bounds.min..=grouping.bounds.max).contains(&count(grouping, selected))
}

fn count(grouping: &Grouping, selected: &[Candidate]) -> usize {
    selected.iter().map(|it| grouping.at(it.place)).filter(|group| *group != 0).collect::<BTreeSet<u32>>().len()
}
