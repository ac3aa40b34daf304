//! Our own rows (`tests/tables/own.txt`), for which the slow reference and the crate must agree.

use super::reference::{Answer, Spot, Way, World, solve};
use super::tables::{Case, case, rows};

fn bounds(text: &str, field: &str) -> Option<(usize, usize)> {
    let found = text.split(", ").find_map(|item| item.strip_prefix(field)?.strip_prefix(' '))?;
    let (least, most) = found.split_once("..")?;
    Some((least.parse().unwrap(), most.parse().unwrap()))
}

/// The world of a row; its clusters are sorted by name.
fn world(case: &Case, how: &str, constraints: &str) -> World {
    let flags: Vec<&str> = how.split(' ').collect();
    let has = |name: &str| flags.contains(&name);
    let (name, weights) = flags[0].trim_end_matches(')').split_once('(').unwrap_or((flags[0], ""));
    let weight = |cluster: &str| {
        let found = weights.split(',').filter_map(|it| it.split_once('=')).find(|(name, _)| *name == cluster);
        found.map_or(0, |(_, weight)| weight.parse().unwrap())
    };
    let spots = case.clusters.iter().map(|row| Spot {
        allocatable: row.allocatable,
        previous: case.binding.spec.clusters.iter().find(|it| it.name == row.name).map(|it| it.replicas.into()),
        weight: weight(&row.name),
        tier: row.tier,
        region: row.region.trim_start_matches('R').parse().unwrap_or(0),
    });
    World {
        way: match name {
            "duplicated" => Way::Duplicated,
            "dynamic" => Way::Dynamic,
            "aggregated" => Way::Aggregated,
            _ => Way::Static,
        },
        replicas: flags[1].parse().unwrap(),
        requires: has("requests"),
        fresh: has("fresh"),
        empty: has("empty"),
        overflow: has("overflow"),
        ascending: !has("uid=uid-1"),
        spots: spots.collect(),
        region: bounds(constraints, "region"),
        cluster: bounds(constraints, "cluster"),
    }
}

fn printed(case: &Case, answer: &Answer) -> (String, String) {
    let name = |index: &usize| case.clusters[*index].name.as_str();
    match answer {
        Err(error) => (String::new(), (*error).to_owned()),
        Ok((selected, shares)) => {
            let selected: Vec<&str> = selected.iter().map(name).collect();
            let shares: Vec<String> = shares.iter().map(|(it, replicas)| format!("{}:{replicas}", name(it))).collect();
            (selected.join(" "), if shares.is_empty() { "none".to_owned() } else { shares.join(" ") })
        }
    }
}

#[test]
fn own_rows() {
    let mut count = 0;
    for columns in rows(include_str!("../../tests/tables/own.txt")) {
        let [id, how, clusters, previous, constraints, selected, result] = columns[..] else { panic!("{columns:?}") };
        let case = case(how, clusters, previous, constraints, true);
        let expected = (selected.to_owned(), result.to_owned());
        assert_eq!(printed(&case, &solve(&world(&case, how, constraints))), expected, "{id}: the reference");
        let (names, outcome) = case.run(&case.gates);
        match outcome {
            Ok(_) => assert_eq!((names, super::tables::printed(&outcome)), expected, "{id}"),
            Err(error) => assert_eq!(super::worlds::kind(&error), result, "{id}"),
        }
        count += 1;
    }
    assert!(count >= 300, "{count} rows");
}
