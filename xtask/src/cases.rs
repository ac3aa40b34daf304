//! Random cases for `solve`: selection and division, without filters.

use serde_json::{Value, json};

use crate::problems::SplitMix;

/// A document with `count` cases to assign, half as many choices of regions, and half as many estimates. `odd` adds
/// legal but unusual values.
pub fn generate(seed: u64, count: u64, most_clusters: usize, odd: bool) -> Value {
    let each = |list: u64, count: u64, case: fn(&mut SplitMix, usize) -> Value| -> Vec<Value> {
        let one = |offset: u64| {
            // Far apart, so that neither neighbouring seeds nor the lists share numbers.
            let mut random = SplitMix(seed.wrapping_add(offset).wrapping_mul(0x1_0000_0001).wrapping_add(list << 56));
            let mut value = case(&mut random, most_clusters);
            if odd && list == 0 {
                make_odd(&mut value, &mut random);
            }
            value["id"] = json!(format!("{}-{}", seed.wrapping_add(offset), ["A", "G", "E"][list as usize % 3]));
            value
        };
        (0..count).map(one).collect()
    };
    json!({
        "note": format!("gen-problems --seed {seed} --count {count} --clusters {most_clusters}{}", if odd { " --odd" } else { "" }),
        "assign": each(0, count, assign),
        "regions": each(1, count / 2, regions),
        "general_estimator": each(2, count / 2, estimate),
    })
}

fn name(index: usize) -> String {
    format!("m{index}")
}

fn assign(random: &mut SplitMix, most_clusters: usize) -> Value {
    let count = 1 + random.below(most_clusters.max(1));
    let strategy =
        random.pick(&["none", "Duplicated", "Aggregated", "Dynamic", "Dynamic", "Static", "StaticNil", "StaticEmpty"]);
    let divides_by_capacity = strategy == "Aggregated" || strategy == "Dynamic";
    let mut previous = Vec::new();
    for index in 0..count {
        if random.one_in(3) {
            previous.push(json!([name(index), random.below(9)]));
        }
    }
    let hosts: Vec<bool> = (0..count).map(|index| previous.iter().any(|it| it[0] == name(index))).collect();
    let overflow = divides_by_capacity && random.one_in(4);
    let clusters: Vec<Value> = hosts
        .iter()
        .enumerate()
        .map(|(index, hosts)| {
            json!({
                "name": name(index),
                "allocatable": random.below(15),
                "score": if *hosts { 100 } else { 0 },
                "region": format!("R{}", random.below(4)),
                "zones": [format!("Z{}", random.below(3))],
                "provider": format!("P{}", random.below(2)),
                "tier": if overflow { random.below(3) } else { 0 },
            })
        })
        .collect();
    let weights: Vec<Value> = if strategy == "Static" {
        (0..count)
            .filter(|_| !random.one_in(4))
            .map(|index| json!({"clusters": [name(index)], "weight": 1 + index % 5}))
            .collect()
    } else {
        Vec::new()
    };
    let bounds = |random: &mut SplitMix, field: &str| {
        let least = 1 + random.below(3);
        json!({"field": field, "min": least, "max": least + random.below(3)})
    };
    let spread = match random.below(5) {
        0 | 1 => json!([]),
        2 => json!([bounds(random, "cluster")]),
        3 => json!([bounds(random, "region"), bounds(random, "cluster")]),
        _ => json!([bounds(random, "region")]),
    };
    json!({
        "strategy": strategy,
        "replicas": random.below(40),
        "uid": format!("uid-{}", random.below(6)),
        "fresh": random.one_in(4),
        "has_requirements": random.one_in(2),
        "empty_propagation": random.one_in(8),
        "overflow": overflow,
        // Selection determines the order.
        "run_select": true,
        "weights": weights,
        "clusters": clusters,
        "previous": previous,
        "spread": spread,
    })
}

/// Negative capacity and no limit, clusters without a region, limits of zero, results on removed clusters, zero
/// weights, constraints that only filter.
fn make_odd(case: &mut Value, random: &mut SplitMix) {
    for cluster in case["clusters"].as_array_mut().into_iter().flatten() {
        match random.below(8) {
            0 => cluster["allocatable"] = json!(-2),
            1 => cluster["allocatable"] = json!(i32::MAX),
            2 => cluster["region"] = json!(""),
            3 => cluster["zones"] = json!([]),
            _ => {}
        }
    }
    if let Some(previous) = case["previous"].as_array_mut()
        && random.one_in(2)
    {
        previous.insert(random.below(previous.len() + 1), json!(["gone", 1 + random.below(9)]));
    }
    if let Some(weights) = case["weights"].as_array_mut()
        && random.one_in(2)
    {
        weights.push(json!({"clusters": ["gone", name(0)], "weight": random.pick(&[0, 1, 1_000_000])}));
    }
    let mut limits = vec![];
    for field in ["cluster", "region", "zone", "provider"] {
        if !random.one_in(3) {
            continue;
        }
        let least = random.below(4);
        let most = if random.one_in(4) { 0 } else { least + random.below(3) };
        limits.push(json!({"field": field, "min": least, "max": most}));
    }
    if random.one_in(2) {
        case["spread"] = json!(limits);
    }
    if random.one_in(12) {
        case["strategy"] = json!("DividedUnset");
    }
    if random.one_in(6) {
        case["replicas"] = json!(random.pick(&[0, 1, 1_000, 1_000_000]));
    }
}

fn regions(random: &mut SplitMix, _: usize) -> Value {
    let group = |index: usize, random: &mut SplitMix| json!({"name": format!("R{index}"), "value": 1 + random.below(5), "weight": 10 * random.below(9)});
    let groups: Vec<Value> = (0..1 + random.below(9)).map(|index| group(index, random)).collect();
    let least = 1 + random.below(4);
    json!({"groups": groups, "min": least, "max": least + random.below(4), "target": random.below(14)})
}

fn estimate(random: &mut SplitMix, _: usize) -> Value {
    let mut case = json!({
        "kind": "replicas",
        "able": {"cpu": random.below(40).to_string(), "memory": format!("{}Gi", random.below(100)), "pods": "110"},
        "ated": {"cpu": format!("{}m", random.below(9000)), "pods": random.below(60).to_string()},
    });
    let amounts = |random: &mut SplitMix| json!({"cpu": random.pick(&["100m", "250m", "1", "1500m"]), "memory": random.pick(&["64Mi", "1Gi", "3Gi"])});
    if random.one_in(3) {
        let model = |grade: usize, random: &mut SplitMix| json!({"g": grade, "c": random.below(4), "min": {"cpu": ((1 << grade) - 1).to_string(), "memory": format!("{}Gi", 4 * ((1 << grade) - 1))}});
        let models: Vec<Value> = (0..4).map(|grade| model(grade, random)).collect();
        case["models"] = json!(models);
    }
    if random.one_in(3) {
        case["kind"] = json!("sets");
        let component = |random: &mut SplitMix| json!({"n": "c", "r": 1 + random.below(3), "q": amounts(random)});
        let sets: Vec<Value> = (0..1 + random.below(2)).map(|_| component(random)).collect();
        case["comps"] = json!(sets);
    } else if random.one_in(6) {
        case["nilreq"] = json!(true);
    } else {
        case["req"] = amounts(random);
    }
    case
}
