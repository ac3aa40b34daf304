//! Small worlds: up to four clusters, six replicas, all strategies, compared with the slow reference. The default is a
//! sample; `cargo test -p scheduling worlds -- --ignored` runs all.

use std::sync::Arc;

use karmada_api::Scope;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::scope::Binding;
use serde_json::{Value, json};

use super::reference::{Answer, Spot, Way, World, solve};
use crate::candidate::Candidate;
use crate::decide::targets;
use crate::error::{AssignError, ScheduleError, SelectError, Step};
use crate::filter::Previous;
use crate::problem::{Gates, Problem};
use crate::select::select;
use crate::selection::Selection;
use crate::snapshot::Snapshot;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const WAYS: [Way; 4] = [Way::Duplicated, Way::Static, Way::Dynamic, Way::Aggregated];
/// Region and cluster constraints.
type Limits = (Option<(usize, usize)>, Option<(usize, usize)>);
const LIMITS: [Limits; 8] = [
    (None, None),
    (None, Some((1, 1))),
    (None, Some((2, 3))),
    (None, Some((1, 2))),
    (Some((1, 1)), Some((1, 2))),
    (Some((2, 2)), Some((2, 3))),
    (Some((1, 2)), None),
    (Some((1, 2)), Some((2, 2))),
];
/// The values of a cluster; fewer for the largest worlds, which are the most.
const ROOM: [i64; 3] = [0, 5, 2];
const PREVIOUS: [Option<i64>; 3] = [None, Some(4), Some(1)];

fn choices(clusters: usize) -> usize {
    if clusters < 4 { 3 } else { 2 }
}

/// Splits a number into digits of the given bases.
struct Digits(u64);

impl Digits {
    fn next(&mut self, base: usize) -> usize {
        let digit = self.0 % base as u64;
        self.0 /= base as u64;
        digit as usize
    }
}

/// The number of worlds with this many clusters.
fn count(clusters: usize) -> u64 {
    let flags = 2 * 2 * 2;
    (WAYS.len() * LIMITS.len() * 7 * flags) as u64 * ((choices(clusters).pow(2) * 2) as u64).pow(clusters as u32)
}

/// The world of this number. The last digit of a cluster is its region and, with overflow, its tier.
fn world(clusters: usize, number: u64) -> World {
    let mut digits = Digits(number);
    let way = WAYS[digits.next(WAYS.len())];
    let (region, cluster) = LIMITS[digits.next(LIMITS.len())];
    let replicas = digits.next(7) as i64;
    let (fresh, ascending, odd) = (digits.next(2) == 1, digits.next(2) == 1, digits.next(2) == 1);
    let spots: Vec<Spot> = (0..clusters)
        .map(|index| {
            let (allocatable, previous) =
                (ROOM[digits.next(choices(clusters))], PREVIOUS[digits.next(choices(clusters))]);
            let side = digits.next(2) as u32;
            let weight = if odd { (index as i64 + i64::from(side)) % 3 } else { 0 };
            Spot { allocatable, previous, weight, tier: if odd { side } else { 0 }, region: side + 1 }
        })
        .collect();
    let by_capacity = matches!(way, Way::Dynamic | Way::Aggregated);
    World {
        way,
        replicas,
        requires: odd,
        fresh,
        empty: odd && ascending,
        overflow: odd && by_capacity,
        ascending,
        spots,
        region,
        cluster,
    }
}

/// Runs the crate on worlds; keeps the values that all worlds of one size share.
struct Decider {
    snapshots: Vec<Snapshot>,
    bindings: Vec<Binding>,
}

fn scheduling(way: Way, weights: &[Value]) -> Value {
    match way {
        Way::Duplicated => json!({"replicaSchedulingType": "Duplicated"}),
        Way::Aggregated => {
            json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"})
        }
        Way::Dynamic => json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": {"dynamicWeight": "AvailableReplicas"}}),
        // An empty list is not a static weight and respects constraints.
        Way::Static if weights.is_empty() => {
            json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"})
        }
        Way::Static => json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": {"staticWeightList": weights}}),
    }
}

impl Decider {
    fn new() -> Self {
        let snapshot = |regions: u32| {
            Snapshot::of_clusters(NAMES.iter().enumerate().map(|(index, name)| {
                let mut cluster = Cluster::default();
                (*name).clone_into(&mut cluster.metadata.name);
                cluster.spec.region = format!("r{}", regions >> index & 1);
                Arc::new(cluster)
            }))
        };
        let binding = |way: &Way, (region, cluster): &Limits| {
            let constraint = |field: &str, bounds: &Option<(usize, usize)>| {
                bounds.map(|(min, max)| json!({"spreadByField": field, "minGroups": min, "maxGroups": max}))
            };
            let constraints: Vec<Value> =
                [constraint("region", region), constraint("cluster", cluster)].into_iter().flatten().collect();
            let placement = json!({"replicaScheduling": scheduling(*way, &[]), "spreadConstraints": constraints});
            Binding::from_value(Scope::Namespaced, &json!({"spec": {"placement": placement}})).unwrap()
        };
        Self {
            snapshots: (0..16).map(snapshot).collect(),
            bindings: WAYS.iter().flat_map(|way| LIMITS.iter().map(move |limits| binding(way, limits))).collect(),
        }
    }

    fn binding(&self, world: &World) -> Binding {
        let way = WAYS.iter().position(|way| *way == world.way).unwrap();
        let limits = LIMITS.iter().position(|it| *it == (world.region, world.cluster)).unwrap();
        let mut binding = self.bindings[way * LIMITS.len() + limits].clone();
        let spec = &mut binding.spec;
        spec.replicas = world.replicas as i32;
        spec.replica_requirements = world.requires.then(Default::default);
        // FNV-1a of "a" is even, of "b" odd.
        (if world.ascending { "" } else { "uid-1" }).clone_into(&mut spec.resource.uid);
        for (name, spot) in NAMES.iter().zip(&world.spots) {
            let Some(replicas) = spot.previous else { continue };
            let target = json!({"name": name, "replicas": replicas});
            spec.clusters.push(serde_json::from_value(target).unwrap());
        }
        if world.way == Way::Static {
            let entry = |(name, spot): (&&str, &Spot)| json!({"targetCluster": {"clusterNames": [name]}, "weight": spot.weight});
            let list: Vec<Value> = NAMES.iter().zip(&world.spots).filter(|(_, it)| it.weight > 0).map(entry).collect();
            let placement = spec.placement.as_mut().unwrap();
            placement.replica_scheduling = serde_json::from_value(scheduling(world.way, &list)).unwrap();
        }
        if world.fresh {
            spec.reschedule_triggered_at = serde_json::from_value(json!("2026-01-01T00:00:01Z")).unwrap();
            binding.status.last_scheduled_time = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        }
        binding
    }

    fn decide(&self, world: &World) -> Answer {
        let binding = self.binding(world);
        let sides = world.spots.iter().enumerate().fold(0, |bits, (index, spot)| bits | (spot.region - 1) << index);
        let snapshot = &self.snapshots[sides as usize];
        let gates = Gates { empty_workload: world.empty, ..Gates::upstream() };
        let problem = Problem::of(&binding).unwrap();
        let previous = Previous::of(&binding.spec.clusters, snapshot);
        let candidate = |(place, spot): (u32, &Spot)| Candidate {
            place,
            group: spot.region,
            tier: spot.tier,
            score: spot.score(),
            allocatable: spot.allocatable,
            previous: previous.at(place).unwrap_or(0),
        };
        let mut selected: Vec<Candidate> = (0..).zip(&world.spots).map(candidate).collect();
        let selection = Selection::of(problem.placement, world.replicas, false, &gates, &mut selected, snapshot);
        let selected = select(&selection, selected).map_err(|error| kind(&error.into()))?;
        if selected.is_empty() {
            return Err("nothing selected");
        }
        let result = targets(&problem, snapshot, &gates, &selected, &previous, world.overflow);
        let result = result.map_err(|error| kind(&error.into()))?;
        let place = |name: &str| NAMES.iter().position(|other| *other == name).unwrap();
        let shares = result.iter().map(|it| (place(&it.name), i64::from(it.replicas))).collect();
        Ok((selected.iter().map(|it| it.place as usize).collect(), shares))
    }
}

pub(crate) fn kind(error: &ScheduleError) -> &'static str {
    match error {
        ScheduleError::Select(SelectError::TooFewClusters) => "too few clusters",
        ScheduleError::Select(SelectError::NoRoom(_)) => "no room",
        ScheduleError::Select(SelectError::TooFewGroups(_)) => "too few regions",
        ScheduleError::Select(SelectError::TooFewClustersInRegions) => "too few clusters in regions",
        ScheduleError::Assign(AssignError::TierShortage) => "no room in all tiers",
        ScheduleError::Assign(AssignError::Shortage { step: Step::ScaleUp, .. }) => "no room to scale up",
        ScheduleError::Assign(AssignError::Shortage { step: Step::ScaleDown, .. }) => "no room to scale down",
        ScheduleError::Assign(AssignError::Shortage { step: Step::Fresh, .. }) => "no room to start afresh",
        _ => "unexpected",
    }
}

/// The properties of every result.
fn promises(world: &World, answer: &Answer) -> Result<(), String> {
    let Ok((selected, shares)) = answer else { return Ok(()) };
    let sum: i64 = shares.iter().map(|(_, replicas)| replicas).sum();
    let workload = world.replicas > 0 || world.requires;
    let divided = world.way != Way::Duplicated;
    let check = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
    check(!workload || !divided || sum == world.replicas, "the replicas do not add up")?;
    check(shares.iter().all(|(index, _)| selected.contains(index)), "a share of a cluster that was not selected")?;
    if let (Some((least, most)), None, true) = (world.cluster, world.region, world.way != Way::Static) {
        check((least..=most).contains(&selected.len()), "the bounds of the cluster constraint")?;
    }
    if let (Some((least, most)), true) = (world.region, world.way != Way::Static) {
        let mut regions: Vec<u32> = selected.iter().map(|it| world.spots[*it].region).collect();
        regions.sort_unstable();
        regions.dedup();
        check((least..=most).contains(&regions.len()), "the bounds of the region constraint")?;
    }
    if matches!(world.way, Way::Dynamic | Way::Aggregated) && workload {
        let kept = |index: &usize| world.spots[*index].previous.unwrap_or(0);
        let fits = |(index, replicas): &(usize, i64)| *replicas <= world.spots[*index].available().max(kept(index));
        check(shares.iter().all(fits), "more than a cluster has room for")?;
        let existing: i64 = selected.iter().map(kept).sum();
        let grows = !world.fresh && existing <= world.replicas && !world.overflow;
        let keeps = |index: &usize| shares.iter().find(|(other, _)| other == index).map_or(0, |it| it.1) >= kept(index);
        check(!grows || selected.iter().all(keeps), "scaling up took something away")?;
    }
    Ok(())
}

/// The same world with the result as the previous one.
fn after(world: &World, shares: &[(usize, i64)]) -> World {
    let mut after = World { fresh: false, ..world.clone() };
    for (index, spot) in after.spots.iter_mut().enumerate() {
        let share = shares.iter().find(|(other, _)| *other == index).map(|(_, replicas)| *replicas);
        // Added replicas use capacity, removed ones free it.
        spot.allocatable += spot.previous.unwrap_or(0) - share.unwrap_or(0);
        spot.previous = share;
    }
    after
}

fn check(decider: &Decider, clusters: usize, number: u64) {
    let world = world(clusters, number);
    let answer = decider.decide(&world);
    assert_eq!(answer, solve(&world), "world {clusters}/{number}: {world:#?}");
    if let Err(broken) = promises(&world, &answer) {
        panic!("world {clusters}/{number}: {broken}: {answer:?}\n{world:#?}");
    }
    let Ok((_, shares)) = &answer else { return };
    let mut sorted = shares.clone();
    sorted.sort_unstable();
    let again = after(&world, shares);
    // Spread constraints rank by capacity and score, and both have changed.
    let reranked = (world.region.is_some() || world.cluster.is_some()) && world.way != Way::Static;
    if !reranked && again.spots.iter().all(|spot| spot.allocatable >= 0) && !world.overflow {
        let (_, mut repeated) = decider.decide(&again).unwrap();
        repeated.sort_unstable();
        repeated.retain(|(_, replicas)| *replicas > 0 || !world.requires);
        sorted.retain(|(_, replicas)| *replicas > 0 || !world.requires);
        assert_eq!(repeated, sorted, "world {clusters}/{number}: a second decision changes the result\n{world:#?}");
    }
}

#[test]
fn a_sample_of_small_worlds() {
    let decider = Decider::new();
    for clusters in 1..=4 {
        // Coprime to all bases, so that every digit takes every value.
        let step = count(clusters) / 2000 * 30 + 31;
        let mut number = 7;
        for _ in 0..2000 {
            check(&decider, clusters, number % count(clusters));
            number += step;
        }
    }
}

#[test]
#[ignore = "takes minutes; see the top of the file"]
fn all_small_worlds() {
    let decider = Decider::new();
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    std::thread::scope(|scope| {
        for first in 0..threads {
            let decider = &decider;
            scope.spawn(move || {
                for clusters in 1..=4 {
                    let numbers = (first..count(clusters)).step_by(threads as usize);
                    numbers.for_each(|number| check(decider, clusters, number));
                }
            });
        }
    });
    println!("{} worlds", (1..=4).map(count).sum::<u64>());
}
