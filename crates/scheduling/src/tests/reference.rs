//! A slow reference implementation of selection and division: it enumerates regions and assigns seats one by one. It
//! shares no code with the crate.

use std::cmp::Reverse;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Duplicated,
    /// Weights by cluster; no weights mean one for each.
    Static,
    Dynamic,
    Aggregated,
}

/// A cluster, identified by its index in the order of names.
#[derive(Clone, Debug, Default)]
pub struct Spot {
    pub allocatable: i64,
    pub previous: Option<i64>,
    pub weight: i64,
    pub tier: u32,
    pub region: u32,
}

impl Spot {
    pub fn score(&self) -> i64 {
        if self.previous.is_some() { 100 } else { 0 }
    }

    pub fn available(&self) -> i64 {
        self.allocatable + self.previous.unwrap_or(0)
    }
}

/// A small world.
#[derive(Clone, Debug)]
pub struct World {
    pub way: Way,
    pub replicas: i64,
    /// Replicas have requirements, so that zero replicas are still a workload.
    pub requires: bool,
    pub fresh: bool,
    pub empty: bool,
    pub overflow: bool,
    /// Ties go to the first names.
    pub ascending: bool,
    pub spots: Vec<Spot>,
    pub region: Option<(usize, usize)>,
    pub cluster: Option<(usize, usize)>,
}

/// The selected clusters in order, and the shares in order; or the failed step.
pub type Answer = Result<(Vec<usize>, Vec<(usize, i64)>), &'static str>;

pub fn solve(world: &World) -> Answer {
    let selected = select(world)?;
    if selected.is_empty() {
        return Err("nothing selected");
    }
    let shares = assign(world, &selected)?;
    Ok((selected, shares))
}

fn preference(world: &World, index: usize) -> (u32, Reverse<i64>, Reverse<i64>, usize) {
    let spot = &world.spots[index];
    (spot.tier, Reverse(spot.score()), Reverse(spot.available()), index)
}

fn capacity(world: &World, chosen: &[usize]) -> i64 {
    chosen.iter().map(|index| world.spots[*index].available()).sum()
}

fn select(world: &World) -> Result<Vec<usize>, &'static str> {
    let mut all: Vec<usize> = (0..world.spots.len()).collect();
    all.sort_by_key(|index| preference(world, *index));
    if world.way == Way::Static || (world.region.is_none() && world.cluster.is_none()) {
        return Ok(all);
    }
    if let Some(region) = world.region {
        return select_regions(world, &all, region);
    }
    let (min, max) = world.cluster.unwrap_or((0, 0));
    if all.len() < min {
        return Err("too few clusters");
    }
    let n = all.len().min(max);
    let (mut chosen, mut rest) = (all[..n].to_vec(), all[n..].to_vec());
    if world.way == Way::Duplicated {
        return Ok(chosen);
    }
    for index in (0..n).rev() {
        if capacity(world, &chosen) >= world.replicas {
            break;
        }
        let mut best: Option<usize> = None;
        for other in 0..rest.len() {
            let bar = best.map_or(world.spots[chosen[index]].available(), |best| world.spots[rest[best]].available());
            if world.spots[rest[other]].available() > bar {
                best = Some(other);
            }
        }
        if let Some(best) = best {
            std::mem::swap(&mut chosen[index], &mut rest[best]);
        }
    }
    if chosen.is_empty() || capacity(world, &chosen) < world.replicas { Err("no room") } else { Ok(chosen) }
}

struct Region {
    name: u32,
    members: Vec<usize>,
    score: i64,
}

fn select_regions(world: &World, all: &[usize], (min, max): (usize, usize)) -> Result<Vec<usize>, &'static str> {
    let least = world.cluster.map_or(0, |(least, _)| least);
    let mut names: Vec<u32> = world.spots.iter().map(|spot| spot.region).collect();
    names.sort_unstable();
    names.dedup();
    // Clusters without a region cannot be chosen.
    names.retain(|name| *name != 0);
    let mut regions: Vec<Region> = Vec::new();
    for name in names {
        let members: Vec<usize> = all.iter().copied().filter(|index| world.spots[*index].region == name).collect();
        regions.push(Region { score: region_score(world, &members, min, least), name, members });
    }
    if regions.len() < min {
        return Err("too few regions");
    }
    regions.sort_by_key(|it| (it.members.len(), Reverse(it.score), it.name));
    let mut paths: Vec<Vec<usize>> = Vec::new();
    walk(&regions, &mut Vec::new(), (min, max, least), &mut paths);
    let sum = |path: &[usize]| -> i64 { path.iter().map(|it| regions[*it].score).sum() };
    let size = |path: &[usize]| -> usize { path.iter().map(|it| regions[*it].members.len()).sum() };
    let mut ranked: Vec<(i64, i64, usize, Vec<usize>)> = Vec::new();
    for (id, path) in paths.iter().enumerate() {
        let mut sorted = path.clone();
        sorted.sort_by_key(|it| (Reverse(regions[*it].score), regions[*it].name));
        ranked.push((-sum(path), -(size(path) as i64), id, sorted));
    }
    ranked.sort();
    let Some((.., first)) = ranked.first() else { return Err("too few clusters in regions") };
    let mut best = first.clone();
    for (.., later) in &ranked[1..] {
        if later.len() < best.len() && best.starts_with(later) {
            best = later.clone();
        }
    }
    if best.is_empty() {
        return Err("too few clusters in regions");
    }
    let mut selected: Vec<usize> = best.iter().map(|it| regions[*it].members[0]).collect();
    let mut others: Vec<usize> = best.iter().flat_map(|it| regions[*it].members[1..].to_vec()).collect();
    others.sort_by_key(|index| preference(world, *index));
    let most = world.cluster.map_or(0, |(_, most)| most);
    for other in others {
        if selected.len() < most {
            selected.push(other);
        }
    }
    Ok(selected)
}

fn walk(regions: &[Region], path: &mut Vec<usize>, limits: (usize, usize, usize), found: &mut Vec<Vec<usize>>) {
    let (min, max, target) = limits;
    let size: usize = path.iter().map(|it| regions[*it].members.len()).sum();
    if size >= target && (min..=max).contains(&path.len()) {
        found.push(path.clone());
        return;
    }
    if path.len() >= max {
        return;
    }
    for next in path.last().map_or(0, |last| last + 1)..regions.len() {
        path.push(next);
        walk(regions, path, limits, found);
        path.pop();
    }
}

fn region_score(world: &World, members: &[usize], min: usize, least: usize) -> i64 {
    if world.way == Way::Duplicated {
        let valid: Vec<i64> = members
            .iter()
            .map(|index| &world.spots[*index])
            .filter(|spot| spot.available() >= world.replicas)
            .map(Spot::score)
            .collect();
        let count = valid.len() as i64;
        return if count == 0 { 0 } else { 1000 * count + valid.iter().sum::<i64>() / count };
    }
    let groups = min.max(1) as i64;
    let share = (world.replicas + groups - 1) / groups;
    let enough = least.max(min.max(1)) as i64;
    let (mut sum, mut score, mut count) = (0, 0, 0);
    for index in members {
        sum += world.spots[*index].available();
        score += world.spots[*index].score();
        count += 1;
        if count >= enough && sum >= share {
            break;
        }
    }
    if sum < share { 1000 * sum + score / members.len() as i64 } else { 1000 * share + score / count }
}

fn assign(world: &World, selected: &[usize]) -> Result<Vec<(usize, i64)>, &'static str> {
    if world.replicas == 0 && !world.requires {
        return Ok(selected.iter().map(|index| (*index, 0)).collect());
    }
    let mut result = Vec::new();
    if world.overflow {
        let mut remaining = world.replicas;
        for tier in 0..4 {
            let members: Vec<usize> = selected.iter().copied().filter(|it| world.spots[*it].tier == tier).collect();
            if members.is_empty() || remaining == 0 {
                continue;
            }
            let share = remaining.min(capacity(world, &members)).max(0);
            result.extend(divide(world, &members, share)?);
            remaining -= share;
        }
        if remaining > 0 {
            return Err("no room in all tiers");
        }
    } else {
        result = divide(world, selected, world.replicas)?;
    }
    result.retain(|(_, replicas)| *replicas > 0);
    if world.empty {
        for index in selected {
            if !result.iter().any(|(other, _)| other == index) {
                result.push((*index, 0));
            }
        }
    }
    Ok(result)
}

fn divide(world: &World, members: &[usize], replicas: i64) -> Result<Vec<(usize, i64)>, &'static str> {
    match world.way {
        Way::Duplicated => return Ok(members.iter().map(|index| (*index, replicas)).collect()),
        Way::Static => {
            let mut votes: Vec<(usize, i64)> = members.iter().map(|it| (*it, world.spots[*it].weight)).collect();
            if votes.iter().all(|(_, weight)| *weight == 0) {
                votes.iter_mut().for_each(|(_, weight)| *weight = 1);
            }
            votes.retain(|(_, weight)| *weight > 0);
            return Ok(seats(world, replicas, &votes));
        }
        Way::Dynamic | Way::Aggregated => {}
    }
    // Results are sorted by name here, so that is the order of `spec.clusters`.
    let mut previous: Vec<(usize, i64)> =
        members.iter().filter_map(|index| Some((*index, world.spots[*index].previous?))).collect();
    previous.sort_unstable();
    let assigned: i64 = previous.iter().map(|(_, replicas)| replicas).sum();
    let free = |it: &usize| (*it, world.spots[*it].allocatable);
    let (target, mut capacity, kept, error) = if world.fresh {
        let capacity: Vec<_> = members.iter().map(|it| (*it, world.spots[*it].available())).collect();
        (replicas, capacity, Vec::new(), "no room to start afresh")
    } else if assigned > replicas {
        (replicas, previous, Vec::new(), "no room to scale down")
    } else if assigned < replicas {
        (replicas - assigned, members.iter().map(free).collect(), previous, "no room to scale up")
    } else {
        return Ok(previous);
    };
    if capacity.iter().map(|(_, free)| free).sum::<i64>() < target {
        return Err(error);
    }
    let has = |index: usize| kept.iter().find(|(other, _)| *other == index).map_or(0, |(_, replicas)| *replicas);
    capacity.sort_by_key(|(_, free)| Reverse(*free));
    if world.way == Way::Aggregated {
        capacity.sort_by_key(|(index, _)| has(*index) == 0);
        let mut sum = 0;
        let mut cut = Vec::new();
        for (index, free) in capacity {
            cut.push((index, free));
            sum += free;
            if sum >= target {
                break;
            }
        }
        capacity = cut;
    }
    let mut result = seats(world, target, &capacity);
    for (index, replicas) in &mut result {
        *replicas += has(*index);
    }
    for (index, replicas) in &kept {
        if !result.iter().any(|(other, _)| other == index) {
            result.push((*index, *replicas));
        }
    }
    Ok(result)
}

/// One by one to the largest votes / (2 seats + 1), then by name; clusters without votes get none.
fn seats(world: &World, count: i64, votes: &[(usize, i64)]) -> Vec<(usize, i64)> {
    let mut parties: Vec<(usize, i64, i64)> = votes.iter().map(|(index, votes)| (*index, *votes, 0)).collect();
    parties.sort_unstable();
    if !world.ascending {
        parties.reverse();
    }
    if parties.iter().all(|(_, votes, _)| *votes == 0) {
        return Vec::new();
    }
    for _ in 0..count {
        let mut winner = 0;
        for other in 1..parties.len() {
            let (_, won, has) = parties[winner];
            let (_, votes, seats) = parties[other];
            let (left, right) = (votes * (2 * has + 1), won * (2 * seats + 1));
            if left > right || (left == right && seats < has) {
                winner = other;
            }
        }
        parties[winner].2 += 1;
    }
    let mut result: Vec<(usize, i64)> = parties.into_iter().map(|(index, _, seats)| (index, seats)).collect();
    result.sort_unstable();
    result
}
