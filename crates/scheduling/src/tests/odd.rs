//! Odd but legal documents of cases, drawn at random and read by `solve`'s own reader: negative capacity, clusters
//! without a region, zero limits, limits above the number of clusters, results on removed clusters.

use serde_json::{Value, json};

use super::reference::{Answer, Spot, Way, World, solve};
use crate::cases;
use crate::problem::Gates;

/// Pseudo-random numbers; the generator of Steele, Lea and Flood.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end) as i64
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn bounds(&mut self) -> Option<(usize, usize)> {
        let least = self.below(4) as usize;
        let most = if self.one_in(5) { 0 } else { least + self.below(4) as usize };
        Some((least, most)).filter(|_| !self.one_in(3))
    }
}

fn name(index: usize) -> String {
    format!("m{index:02}")
}

fn world(random: &mut Random) -> World {
    let way = [Way::Duplicated, Way::Static, Way::Dynamic, Way::Aggregated][random.below(4) as usize];
    let overflow = matches!(way, Way::Dynamic | Way::Aggregated) && random.one_in(4);
    let spots = (0..1 + random.below(9)).map(|_| Spot {
        allocatable: [random.below(12), random.below(12), -random.below(4), 1 << 31][random.below(4) as usize],
        previous: Some(random.below(8)).filter(|_| random.one_in(3)),
        weight: if random.one_in(3) { 0 } else { random.below(6) },
        tier: if overflow { random.below(4) as u32 } else { 0 },
        region: random.below(4) as u32,
    });
    World {
        spots: spots.collect(),
        way,
        replicas: [random.below(4), random.below(40), random.below(1000)][random.below(3) as usize],
        requires: random.one_in(2),
        fresh: random.one_in(4),
        empty: random.one_in(5),
        overflow,
        ascending: random.one_in(2),
        region: random.bounds(),
        cluster: random.bounds(),
    }
}

fn document(world: &World) -> Value {
    let spots = || (0..).zip(&world.spots);
    let cluster = |(index, spot): (usize, &Spot)| {
        let region = if spot.region == 0 { String::new() } else { format!("R{}", spot.region) };
        json!({"name": name(index), "allocatable": spot.allocatable, "score": spot.score(), "tier": spot.tier, "region": region})
    };
    let weights: Vec<Value> = spots()
        .filter(|(_, spot)| spot.weight > 0)
        .map(|(index, spot)| json!({"clusters": [name(index), "gone"], "weight": spot.weight}))
        .collect();
    let mut previous: Vec<Value> =
        spots().filter_map(|(index, spot)| Some(json!([name(index), spot.previous?]))).collect();
    previous.insert(previous.len() / 2, json!(["gone", 7]));
    let constraint = |field: &str, bounds: Option<(usize, usize)>| {
        bounds.map(|(least, most)| json!({"field": field, "min": least, "max": most}))
    };
    let spread = [constraint("region", world.region), constraint("cluster", world.cluster)];
    let strategy = match world.way {
        Way::Duplicated => "Duplicated",
        Way::Static if weights.is_empty() => "StaticNil",
        Way::Static => "Static",
        Way::Dynamic => "Dynamic",
        Way::Aggregated => "Aggregated",
    };
    json!({"assign": [{
        "strategy": strategy,
        "replicas": world.replicas,
        "uid": if world.ascending { "uid-0" } else { "uid-1" },
        "fresh": world.fresh,
        "has_requirements": world.requires,
        "empty_propagation": world.empty,
        "overflow": world.overflow,
        "run_select": true,
        "weights": weights,
        "clusters": spots().map(cluster).collect::<Vec<_>>(),
        "previous": previous,
        "spread": spread.into_iter().flatten().collect::<Vec<_>>(),
    }]})
}

/// The reference's answer in the form of a document; errors by their distinguishing prefix.
fn rendered(answer: &Answer) -> Value {
    let beginning = |kind: &str| match kind {
        "too few clusters" => "failed to select clusters: the number of feasible clusters is less",
        "no room" => "failed to select clusters: no enough resource when selecting",
        "too few regions" => "failed to select clusters: the number of feasible region is less",
        "too few clusters in regions" => "failed to select clusters: the number of clusters is less",
        "nothing selected" => "failed to assign replicas: no clusters available",
        "no room in all tiers" => "failed to assign replicas: Clusters available replicas are not",
        "no room to scale up" => "failed to assign replicas: failed to scale up: ",
        "no room to scale down" => "failed to assign replicas: failed to scale down: ",
        "no room to start afresh" => "failed to assign replicas: failed to do fresh scale: ",
        other => panic!("{other}"),
    };
    match answer {
        Err(kind) => json!({"error": beginning(kind)}),
        Ok((selected, shares)) => json!({
            "selected": selected.iter().map(|index| name(*index)).collect::<Vec<_>>(),
            "result": shares.iter().map(|(index, replicas)| json!([name(*index), replicas])).collect::<Vec<_>>(),
        }),
    }
}

fn agree(expected: &Value, found: &Value) -> bool {
    match (expected["error"].as_str(), found["error"].as_str()) {
        (Some(beginning), Some(error)) => error.starts_with(beginning),
        (None, None) => expected == found,
        _ => false,
    }
}

#[test]
fn malformed_documents_equal_the_model() {
    let mut random = Random(1);
    for number in 0..8_000 {
        let world = world(&mut random);
        let mut document = document(&world);
        cases::solve(&mut document, &Gates::upstream()).unwrap();
        let expected = rendered(&solve(&world));
        let found = &document["assign"][0]["expect"];
        assert!(
            agree(&expected, found),
            "document {number}: expected {expected}\nfound {found}\n{}",
            document["assign"][0]
        );
    }
}
