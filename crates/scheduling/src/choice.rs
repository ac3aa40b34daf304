//! Chooses regions when there are more than needed.
//!
//! Upstream enumerates all combinations, which takes seconds from 22 regions on. Dynamic programming over (number of
//! regions, clusters in them) makes the same choice.

use smallvec::SmallVec;

/// A region that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The number of clusters in it.
    pub value: usize,
    pub weight: i64,
}

/// Beyond this many steps (regions × most regions × clusters wanted) the choice is greedy. Fleets of a hundred regions
/// stay below; a hostile placement over thousands of regions costs about a tenth of a second.
const STEPS: usize = 20_000_000;

/// Chooses `min` to `max` groups that together have at least `target` clusters and the greatest weight. `groups` is
/// sorted by name; the result holds their indices by weight, then name. `None` when there is no such choice.
pub fn choose(groups: &[Group], min: usize, max: usize, target: usize) -> Option<Vec<usize>> {
    // No group is required, so the empty choice wins: upstream's search finds it first.
    if min == 0 && target == 0 {
        return None;
    }
    let (min, max) = (min.max(1), max.min(groups.len()));
    if min > max {
        return None;
    }
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|index| {
        let group = groups[*index];
        (group.value, std::cmp::Reverse(group.weight), *index)
    });
    let sorted: Vec<Group> = order.iter().map(|index| groups[*index]).collect();
    let limits = Limits { min, max, target };
    // With enough clusters a path never grows beyond `min` groups; each non-empty group adds at least one cluster.
    let empty_groups = sorted.first().is_some_and(|group| group.value == 0);
    let longest = if empty_groups { max } else { max.min(min.max(target)) };
    let steps = sorted.len().saturating_mul(longest).saturating_mul(target.max(1));
    let winner = if steps <= STEPS { best(&sorted, limits, longest) } else { greedy(&sorted, limits) }?;
    let mut chosen: Vec<usize> = winner.iter().map(|place| order[*place]).collect();
    let by_weight = |index: &usize| (std::cmp::Reverse(groups[*index].weight), *index);
    chosen.sort_by_key(by_weight);
    let place_of = |index: usize| order.iter().position(|other| *other == index).unwrap_or(0);
    let prefix = (1..chosen.len()).find(|length| {
        let places: Vec<usize> = chosen[..*length].iter().map(|index| place_of(*index)).collect();
        limits.allow(&sorted, &places)
    });
    chosen.truncate(prefix.unwrap_or(chosen.len()));
    Some(chosen)
}

#[derive(Clone, Copy)]
struct Limits {
    min: usize,
    max: usize,
    target: usize,
}

impl Limits {
    /// Whether the search visits a set (places in sort order): it is large enough, and without its last member it has
    /// too few groups or too few clusters.
    fn allow(self, sorted: &[Group], places: &[usize]) -> bool {
        let values = places.iter().map(|place| sorted[*place].value);
        let sum: usize = values.sum();
        let last = places.iter().max().map_or(0, |place| sorted[*place].value);
        (self.min..=self.max).contains(&places.len())
            && sum >= self.target
            && (places.len() == self.min || sum - last < self.target)
    }
}

/// A set of groups; a better set compares greater.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Path {
    weight: i64,
    value: usize,
    /// From the highest bit of the first word on, so that a set with earlier members compares greater.
    members: SmallVec<[u64; 2]>,
}

impl Path {
    fn with(&self, place: usize, group: Group) -> Self {
        let mut path = self.clone();
        path.weight = path.weight.saturating_add(group.weight);
        path.value += group.value;
        path.members[place / 64] |= 1 << (63 - place % 64);
        path
    }

    fn places(&self) -> Vec<usize> {
        let has = |place: &usize| self.members[*place / 64] >> (63 - *place % 64) & 1 == 1;
        (0..self.members.len() * 64).filter(has).collect()
    }
}

impl Ord for Path {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.weight.cmp(&other.weight).then(self.value.cmp(&other.value)).then_with(|| self.members.cmp(&other.members))
    }
}

impl PartialOrd for Path {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The best set that [`Limits::allow`] accepts.
fn best(sorted: &[Group], limits: Limits, longest: usize) -> Option<Vec<usize>> {
    let Limits { min, target, .. } = limits;
    let empty = Path { weight: 0, value: 0, members: SmallVec::from_elem(0, sorted.len().div_ceil(64)) };
    // The best set for each number of members and of clusters; numbers of clusters from `target` on share an entry.
    let mut sets: Vec<Vec<Option<Path>>> = vec![vec![None; target + 1]; longest];
    if let Some(start) = sets.first_mut() {
        start[0] = Some(empty);
    }
    let mut best: Option<Path> = None;
    for (place, group) in sorted.iter().enumerate() {
        for members in (1..=longest.min(place + 1)).rev() {
            for clusters in 0..=target {
                let Some(path) = &sets[members - 1][clusters] else { continue };
                let total = (clusters + group.value).min(target);
                let complete = members >= min && total == target && (members == min || clusters < target);
                if !complete && members == longest {
                    continue;
                }
                let longer = path.with(place, *group);
                if complete && best.as_ref().is_none_or(|best| longer > *best) {
                    best = Some(longer.clone());
                }
                if members < longest && sets[members][total].as_ref().is_none_or(|known| longer > *known) {
                    sets[members][total] = Some(longer);
                }
            }
        }
    }
    best.map(|path| path.places())
}

/// Takes the heaviest groups; while clusters are missing, adds the largest other groups or swaps them for the lightest.
fn greedy(sorted: &[Group], limits: Limits) -> Option<Vec<usize>> {
    let mut by_weight: Vec<usize> = (0..sorted.len()).collect();
    by_weight.sort_by_key(|place| (std::cmp::Reverse(sorted[*place].weight), *place));
    let mut rest = by_weight.split_off(limits.min);
    let mut chosen = by_weight;
    rest.sort_by_key(|place| sorted[*place].value);
    let mut sum: usize = chosen.iter().map(|place| sorted[*place].value).sum();
    while sum < limits.target && chosen.len() < limits.max {
        let place = rest.pop()?;
        sum += sorted[place].value;
        chosen.push(place);
    }
    for index in (0..chosen.len()).rev() {
        if sum >= limits.target {
            break;
        }
        match rest.last() {
            Some(place) if sorted[*place].value > sorted[chosen[index]].value => {
                sum += sorted[*place].value - sorted[chosen[index]].value;
                chosen[index] = *place;
                rest.pop();
            }
            _ => {}
        }
    }
    (sum >= limits.target).then_some(chosen)
}
