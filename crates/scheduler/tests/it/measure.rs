//! The cost of scheduling. Run with `cargo test --release -p scheduler -- --ignored --nocapture`.

use std::sync::Arc;
use std::time::Duration;

use karmada_api::identity::BindingKey;
use serde_json::{Value, json};
use storage::embedded::{EmbeddedStore, Options};

use crate::harness::{Plane, capacity, key};

const BINDINGS: u32 = 5_000;

fn placements() -> [(&'static str, Value); 3] {
    let dynamic = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"}});
    let spread = json!([{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 5}]);
    [
        ("copies for 2 named clusters", json!({"clusterAffinity": {"clusterNames": ["m1", "m2"]}})),
        ("copies for every cluster", json!({})),
        ("shares by room, over at most 5 clusters", json!({"replicaScheduling": dynamic, "spreadConstraints": spread})),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, for release builds"]
#[allow(clippy::disallowed_methods, reason = "it measures real time")]
async fn the_cost_of_a_binding() {
    for clusters in [10, 100] {
        for (what, placement) in placements() {
            let mut plane = Plane::start().await;
            for index in 1..=clusters {
                plane.join(&format!("m{index}"), json!({"status": {"resourceSummary": capacity(1_000_000)}})).await;
            }
            plane.stop();
            let names: Vec<BindingKey> = (0..BINDINGS).map(|index| key(&format!("web-{index}"))).collect();
            for name in &names {
                plane.bind(name, json!({"placement": placement, "replicas": 10})).await;
            }
            let started = std::time::Instant::now();
            plane.restart();
            let mut last = plane.writes();
            loop {
                tokio::time::sleep(Duration::from_millis(2)).await;
                let now = plane.writes();
                if now == last && now >= u64::from(BINDINGS) && plane.scheduler.depths() == Default::default() {
                    break;
                }
                last = now;
            }
            let scheduled = started.elapsed();
            let started = std::time::Instant::now();
            plane.change_cluster("m1", json!({"metadata": {"labels": {"a": "b"}}})).await;
            while plane.scheduler.depths() == Default::default() {
                tokio::task::yield_now().await;
            }
            while plane.scheduler.depths() != Default::default() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let again = started.elapsed();
            println!(
                "{clusters} clusters, {what}: {} µs and {} requests for each of {BINDINGS} bindings; {} µs to see that \
                 nothing changes",
                scheduled.as_micros() / u128::from(BINDINGS),
                plane.writes() as f64 / f64::from(BINDINGS),
                again.as_micros() / u128::from(BINDINGS),
            );
            plane.shutdown();
        }
    }
}

const QUEUE: usize = 10_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, for release builds"]
#[allow(clippy::disallowed_methods, reason = "it measures real time")]
async fn ten_thousand_bindings_through_the_store_on_disk() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = EmbeddedStore::open(directory.path(), Options::default()).await.expect("a store");
    let mut plane = Plane::start_over(Arc::new(store.clone())).await;
    for index in 1..=100 {
        plane.join(&format!("m{index}"), json!({"status": {"resourceSummary": capacity(1_000_000)}})).await;
    }
    plane.stop();
    let (_, placement) = placements().into_iter().nth(2).expect("shares by room");
    let names: Vec<BindingKey> = (0..QUEUE).map(|index| key(&format!("web-{index}"))).collect();
    for some in names.chunks(200) {
        let bind = |name| plane.bind(name, json!({"placement": placement, "replicas": 10}));
        futures::future::join_all(some.iter().map(bind)).await;
    }
    let (before, started) = (store.stats(), std::time::Instant::now());
    plane.restart();
    while plane.writes() < QUEUE as u64 || plane.scheduler.depths() != Default::default() {
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert!(
            started.elapsed() < Duration::from_secs(300),
            "{} writes, {:?}",
            plane.writes(),
            plane.scheduler.depths()
        );
    }
    let (took, after) = (started.elapsed(), store.stats());
    println!(
        "{QUEUE} bindings over 100 clusters through the store on disk: {:.2} s, {} requests, {} syncs",
        took.as_secs_f64(),
        plane.writes(),
        after.syncs - before.syncs,
    );
    plane.expect(&names[QUEUE - 1], &plane.state(&names[0]).await).await;
    plane.shutdown();
    store.close().await.expect("it closes");
}
