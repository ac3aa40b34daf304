//! Compares the fast algorithms with slow ones on random input.

use std::sync::Arc;

use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::policy::v1alpha1::ClusterAffinity;
use propagation::cluster::Affinity;
use propagation::division::{Ties, shares};
use proptest::prelude::*;

use crate::candidate::{Candidate, rank, total};
use crate::choice::{Group, choose};
use crate::error::SelectError;
use crate::matcher::Matcher;
use crate::problem::Bounds;
use crate::repair::repair;
use crate::select::select;
use crate::selection::Selection;
use crate::snapshot::Snapshot;

/// Enumerates all combinations in upstream's order; of the heaviest one it returns the shortest prefix that also
/// qualified.
fn choose_by_enumeration(groups: &[Group], min: usize, max: usize, target: usize) -> Option<Vec<usize>> {
    fn walk(
        groups: &[Group],
        order: &[usize],
        limits: (usize, usize, usize),
        path: &mut Vec<usize>,
        found: &mut Vec<Vec<usize>>,
    ) {
        let (min, max, target) = limits;
        let sum: usize = path.iter().map(|place| groups[order[*place]].value).sum();
        if !path.is_empty() && sum >= target && path.len() >= min && path.len() <= max {
            found.push(path.clone());
            return;
        }
        if path.len() == max {
            return;
        }
        for next in path.last().map_or(0, |last| last + 1)..order.len() {
            path.push(next);
            walk(groups, order, limits, path, found);
            path.pop();
        }
    }
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|index| (groups[*index].value, -groups[*index].weight, *index));
    let mut found = Vec::new();
    walk(groups, &order, (min, max, target), &mut Vec::new(), &mut found);
    let mut ranked: Vec<(i64, i64, usize, Vec<usize>)> = found
        .iter()
        .enumerate()
        .map(|(id, path)| {
            let mut members: Vec<usize> = path.iter().map(|place| order[*place]).collect();
            members.sort_by_key(|index| (-groups[*index].weight, *index));
            let weight: i64 = members.iter().map(|index| groups[*index].weight).sum();
            let value: usize = members.iter().map(|index| groups[*index].value).sum();
            (-weight, -(value as i64), id, members)
        })
        .collect();
    ranked.sort();
    let mut ranked = ranked.into_iter().map(|(.., members)| members);
    let mut best = ranked.next()?;
    for later in ranked {
        if later.len() < best.len() && best.starts_with(&later) {
            best = later;
        }
    }
    Some(best)
}

/// One seat at a time.
fn shares_one_by_one(seats: i64, votes: &[i64], ties: Ties) -> Vec<i64> {
    let mut assigned = vec![0_i64; votes.len()];
    if votes.iter().all(|votes| *votes <= 0) {
        return assigned;
    }
    for _ in 0..seats {
        let better = |left: &usize, right: &usize| {
            let quotient = |a: usize, b: usize| i128::from(votes[a].max(0)) * i128::from(2 * assigned[b] + 1);
            let by_name = if ties == Ties::Ascending { right.cmp(left) } else { left.cmp(right) };
            quotient(*left, *right)
                .cmp(&quotient(*right, *left))
                .then(assigned[*right].cmp(&assigned[*left]))
                .then(by_name)
        };
        let next = (0..votes.len()).max_by(better).unwrap();
        assigned[next] += 1;
    }
    assigned
}

/// Directly by the rule: from the last chosen cluster upwards, swap in the one with the most capacity of the rest.
fn swap_slowly(need: i64, count: usize, candidates: &[Candidate]) -> Option<Vec<Candidate>> {
    let (mut chosen, mut rest) = (candidates[..count].to_vec(), candidates[count..].to_vec());
    for index in (0..count).rev() {
        if total(&chosen) >= need {
            break;
        }
        let mut best: Option<usize> = None;
        for other in 0..rest.len() {
            let more = best.map_or(chosen[index].available(), |best| rest[best].available());
            if rest[other].available() > more {
                best = Some(other);
            }
        }
        if let Some(best) = best {
            std::mem::swap(&mut chosen[index], &mut rest[best]);
        }
    }
    (total(&chosen) >= need).then_some(chosen)
}

/// Regions and clusters of the smallest choices with enough capacity, by enumeration.
fn repair_by_enumeration(
    regions: &[Vec<Candidate>],
    limits: Bounds,
    clusters: Bounds,
    need: i64,
) -> Option<(usize, usize)> {
    let all: Vec<(usize, i64)> = regions
        .iter()
        .enumerate()
        .flat_map(|(region, members)| members.iter().map(move |member| (region, member.available())))
        .collect();
    let sizes = (0_u32..1 << all.len()).filter_map(|set| {
        let members = all.iter().enumerate().filter(|(index, _)| set >> index & 1 == 1).map(|(_, member)| *member);
        let members: Vec<(usize, i64)> = members.collect();
        let used: std::collections::BTreeSet<usize> = members.iter().map(|(region, _)| *region).collect();
        let capacity: i64 = members.iter().map(|(_, capacity)| capacity).sum();
        let allowed = (limits.min..=limits.max).contains(&used.len())
            && members.len() >= clusters.min
            && members.len() <= clusters.max.max(used.len());
        (allowed && capacity >= need).then_some((used.len(), members.len()))
    });
    sizes.min()
}

fn candidates(rooms: &[(i64, bool)]) -> Vec<Candidate> {
    let candidate = |(place, (allocatable, hosting)): (u32, &(i64, bool))| Candidate {
        place,
        score: if *hosting { 100 } else { 0 },
        allocatable: *allocatable,
        ..Candidate::default()
    };
    (0..).zip(rooms).map(candidate).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn regions_match_enumeration(
        groups in prop::collection::vec((1_usize..6, 0_i64..5), 1..10),
        min in 1_usize..5,
        more in 0_usize..5,
        target in 0_usize..16,
    ) {
        let groups: Vec<Group> = groups.into_iter().map(|(value, weight)| Group { value, weight: weight * 10 }).collect();
        prop_assert_eq!(
            choose(&groups, min, min + more, target),
            choose_by_enumeration(&groups, min, min + more, target)
        );
    }

    #[test]
    fn shares_match_one_by_one(
        seats in 0_i64..60,
        votes in prop::collection::vec(-1_i64..40, 0..12),
        ascending in any::<bool>(),
    ) {
        let ties = if ascending { Ties::Ascending } else { Ties::Descending };
        prop_assert_eq!(shares(seats, &votes, ties), shares_one_by_one(seats, &votes, ties));
    }

    #[test]
    fn shares_add_up_at_any_size(
        seats in 0_i64..i64::from(i32::MAX),
        votes in prop::collection::vec(0_i64..=i64::MAX, 1..40),
    ) {
        let result = shares(seats, &votes, Ties::Descending);
        let expected = if votes.iter().any(|votes| *votes > 0) { seats } else { 0 };
        prop_assert_eq!(result.iter().sum::<i64>(), expected);
        prop_assert!(result.iter().zip(&votes).all(|(result, votes)| *votes > 0 || *result == 0));
    }

    #[test]
    fn clusters_match_the_slow_swap(
        rooms in prop::collection::vec((0_i64..12, any::<bool>()), 1..10),
        count in 1_usize..6,
        need in 0_i64..50,
    ) {
        let mut ranked = candidates(&rooms);
        rank(&mut ranked);
        let count = count.min(ranked.len());
        let selection = Selection {
            ordered: true,
            group: None,
            further: Vec::new(),
            cluster: Some(Bounds { min: 1, max: count }),
            constrained: true,
            duplicated: false,
            replicas: need,
            need,
            repair: true,
        };
        let expected = swap_slowly(need, count, &ranked).ok_or(SelectError::NoRoom(count));
        let chosen = select(&selection, ranked.clone());
        // It fails only when no choice of that many clusters has the capacity.
        let mut most: Vec<i64> = ranked.iter().map(Candidate::available).collect();
        most.sort_unstable_by_key(|capacity| std::cmp::Reverse(*capacity));
        prop_assert_eq!(chosen.is_ok(), most[..count].iter().sum::<i64>() >= need);
        prop_assert_eq!(chosen, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn labels_match_one_by_one(
        fleet in prop::collection::vec(prop::collection::vec((0_usize..6, 0_usize..4), 0..4), 1..20),
        requirements in prop::collection::vec((0_usize..7, 0_usize..5, prop::collection::vec(0_usize..4, 1..3)), 0..3),
        exclude in prop::collection::vec(0_usize..20, 0..3),
    ) {
        let key = |key: usize| format!("key{key}");
        let clusters: Vec<Arc<Cluster>> = fleet
            .iter()
            .enumerate()
            .map(|(index, labels)| {
                let mut cluster = Cluster::default();
                cluster.metadata.name = format!("m{index:02}");
                // The first key is on every cluster, the last ones are rare.
                cluster.metadata.labels.insert(key(0), format!("{}", index % 3));
                let labels = labels.iter().filter(|(key, _)| key * 2 < index + 3);
                cluster.metadata.labels.extend(labels.map(|(label, value)| (key(*label), value.to_string())));
                Arc::new(cluster)
            })
            .collect();
        let operators = ["In", "NotIn", "Exists", "DoesNotExist", "Near"];
        let expressions: Vec<serde_json::Value> = requirements
            .iter()
            .map(|(label, operator, values)| {
                let values: Vec<String> = values.iter().filter(|_| *operator < 2).map(ToString::to_string).collect();
                serde_json::json!({"key": key(*label), "operator": operators[*operator], "values": values})
            })
            .collect();
        let affinity: ClusterAffinity = serde_json::from_value(serde_json::json!({
            "labelSelector": {"matchExpressions": expressions},
            "exclude": exclude.iter().map(|index| format!("m{index:02}")).collect::<Vec<_>>(),
        }))
        .unwrap();
        let snapshot = Snapshot::of_clusters(clusters.iter().cloned());
        let matcher = Matcher::new(Affinity::from(&affinity), &snapshot);
        for (place, cluster) in (0..).zip(&clusters) {
            let member = &snapshot.members()[place as usize];
            prop_assert_eq!(matcher.matches(place, member), Affinity::from(&affinity).matches(cluster));
        }
    }

    #[test]
    fn repairs_match_enumeration(
        regions in prop::collection::vec(prop::collection::vec((0_i64..10, any::<bool>()), 1..4), 1..5),
        region_limits in (1_usize..4, 0_usize..3),
        cluster_limits in (0_usize..5, 0_usize..5),
        need in 1_i64..60,
    ) {
        let regions: Vec<Vec<Candidate>> = regions
            .iter()
            .zip(1_u32..)
            .map(|(rooms, region)| {
                let mut members = candidates(rooms);
                members.iter_mut().for_each(|it| (it.place, it.group) = (it.place + 100 * region, region));
                members
            })
            .collect();
        let bounds = |(min, more): (usize, usize)| Bounds { min, max: min + more };
        let (region_limits, cluster_limits) = (bounds(region_limits), bounds(cluster_limits));
        let chosen = repair(&regions, region_limits, cluster_limits, need);
        let size = chosen.as_ref().map(|chosen| {
            let used: std::collections::BTreeSet<u32> = chosen.iter().map(|it| it.group).collect();
            (used.len(), chosen.len())
        });
        prop_assert_eq!(size, repair_by_enumeration(&regions, region_limits, cluster_limits, need));
        prop_assert!(chosen.is_none_or(|chosen| total(&chosen) >= need));
    }
}
