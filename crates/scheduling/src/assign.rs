//! Divides replicas over the selected clusters.

use propagation::division::{Ties, shares};

use crate::candidate::{Candidate, total};
use crate::error::{AssignError, Step};
use crate::problem::Strategy;

/// The replicas to divide, and the strategy.
#[derive(Clone, Copy, Debug)]
pub struct Assignment<'a> {
    pub strategy: Strategy,
    pub replicas: i64,
    /// Ignores the previous result.
    pub fresh: bool,
    /// Fills the tiers one after another.
    pub overflow: bool,
    pub ties: Ties,
    /// The previous result in its order: place and replicas.
    pub previous: &'a [(u32, i64)],
}

/// A place and its replicas.
pub type Share = (u32, i64);

/// Returns the shares of the selected clusters, in the order of selection. Clusters without a share are left out; a
/// negative number of replicas in a hostile spec gives no shares. `weight` returns the static weight of a place.
pub fn assign(
    assignment: &Assignment<'_>,
    selected: &[Candidate],
    weight: impl Fn(u32) -> i64 + Copy,
) -> Result<Vec<Share>, AssignError> {
    let mut shares = if assignment.overflow {
        by_tier(assignment, selected, weight)?
    } else {
        divide(assignment, selected, weight)?
    };
    shares.retain(|(_, replicas)| *replicas > 0);
    Ok(shares)
}

/// Each tier receives as many replicas as fit before the next tier receives any.
fn by_tier(
    assignment: &Assignment<'_>,
    selected: &[Candidate],
    weight: impl Fn(u32) -> i64 + Copy,
) -> Result<Vec<Share>, AssignError> {
    let mut sorted = selected.to_vec();
    sorted.sort_by_key(|it| it.tier);
    let mut remaining = assignment.replicas;
    let mut result = Vec::new();
    for tier in sorted.chunk_by(|left, right| left.tier == right.tier) {
        if remaining <= 0 {
            break;
        }
        let replicas = remaining.min(total(tier)).max(0);
        result.extend(divide(&Assignment { replicas, ..*assignment }, tier, weight)?);
        remaining -= replicas;
    }
    if remaining > 0 { Err(AssignError::TierShortage) } else { Ok(result) }
}

fn divide(
    assignment: &Assignment<'_>,
    selected: &[Candidate],
    weight: impl Fn(u32) -> i64,
) -> Result<Vec<Share>, AssignError> {
    match assignment.strategy {
        Strategy::Duplicated => Ok(selected.iter().map(|it| (it.place, assignment.replicas)).collect()),
        Strategy::StaticWeight => Ok(by_weight(assignment, selected, weight)),
        Strategy::DynamicWeight | Strategy::Aggregated => by_capacity(assignment, selected),
        Strategy::Unsupported(type_, preference) => Err(AssignError::Unsupported(type_, preference)),
    }
}

/// Divides by static weight: capacity and the previous result do not count.
fn by_weight(assignment: &Assignment<'_>, selected: &[Candidate], weight: impl Fn(u32) -> i64) -> Vec<Share> {
    let mut parties: Vec<Share> = selected.iter().map(|it| (it.place, weight(it.place))).collect();
    if parties.iter().all(|(_, weight)| *weight <= 0) {
        parties.iter_mut().for_each(|(_, weight)| *weight = 1);
    }
    parties.retain(|(_, weight)| *weight > 0);
    dispense(assignment, assignment.replicas, parties)
}

/// Divides in proportion to votes; the shares are in the order of names.
fn dispense(assignment: &Assignment<'_>, seats: i64, mut parties: Vec<Share>) -> Vec<Share> {
    parties.sort_unstable_by_key(|(place, _)| *place);
    let votes: Vec<i64> = parties.iter().map(|(_, votes)| *votes).collect();
    parties.iter().map(|(place, _)| *place).zip(shares(seats, &votes, assignment.ties)).collect()
}

/// Divides by available replicas, starting from the previous result.
fn by_capacity(assignment: &Assignment<'_>, selected: &[Candidate]) -> Result<Vec<Share>, AssignError> {
    let mut places: Vec<u32> = selected.iter().map(|it| it.place).collect();
    places.sort_unstable();
    let is_selected = |place: u32| places.binary_search(&place).is_ok();
    let existing: Vec<Share> = assignment.previous.iter().copied().filter(|(place, _)| is_selected(*place)).collect();
    let assigned = existing.iter().fold(0_i64, |sum, (_, replicas)| sum.saturating_add(*replicas));
    let required = assignment.replicas;
    let capacity = |amount: fn(&Candidate) -> i64| selected.iter().map(|it| (it.place, amount(it))).collect();
    if assignment.fresh {
        return spread(assignment, Step::Fresh, required, capacity(Candidate::available), Vec::new());
    }
    match assigned.cmp(&required) {
        std::cmp::Ordering::Equal => Ok(existing),
        std::cmp::Ordering::Greater => spread(assignment, Step::ScaleDown, required, existing, Vec::new()),
        std::cmp::Ordering::Less => spread(
            assignment,
            Step::ScaleUp,
            required.saturating_sub(assigned),
            capacity(|it| it.allocatable),
            existing,
        ),
    }
}

/// Divides `target` in proportion to `capacity` and adds `existing`.
fn spread(
    assignment: &Assignment<'_>,
    step: Step,
    target: i64,
    mut capacity: Vec<Share>,
    existing: Vec<Share>,
) -> Result<Vec<Share>, AssignError> {
    let sum = |capacity: &[Share]| capacity.iter().fold(0_i64, |sum, (_, amount)| sum.saturating_add(*amount));
    let available = sum(&capacity);
    if available < target {
        return Err(AssignError::Shortage { step, available });
    }
    let mut sorted_existing = existing.clone();
    sorted_existing.sort_unstable_by_key(|(place, _)| *place);
    let existing_at = |place: u32| -> i64 {
        let found = sorted_existing.binary_search_by_key(&place, |(place, _)| *place);
        found.ok().and_then(|index| sorted_existing.get(index)).map_or(0, |(_, replicas)| *replicas)
    };
    if assignment.strategy == Strategy::Aggregated {
        capacity.sort_by_key(|(_, amount)| std::cmp::Reverse(*amount));
        let (mut front, back): (Vec<Share>, Vec<Share>) = capacity.into_iter().partition(|it| existing_at(it.0) > 0);
        front.extend(back);
        capacity = front;
        let mut seen = 0_i64;
        let enough = capacity.iter().position(|(_, amount)| {
            seen = seen.saturating_add(*amount);
            seen >= target
        });
        capacity.truncate(enough.map_or(capacity.len(), |last| last + 1));
    }
    let mut result = dispense(assignment, target, capacity);
    let listed = result.len();
    for (place, replicas) in &mut result {
        *replicas = replicas.saturating_add(existing_at(*place));
    }
    for share in existing {
        if result[..listed].binary_search_by_key(&share.0, |(place, _)| *place).is_err() {
            result.push(share);
        }
    }
    Ok(result)
}
