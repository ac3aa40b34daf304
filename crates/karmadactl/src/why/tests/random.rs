//! Random states: the page must agree with the binding and its Works.

use serde_json::{Value, json};
use world::World;

use super::super::template;
use super::{Fixture, fixture, work};

/// A random, possibly inconsistent state.
fn random(world: &World) -> Fixture {
    let below = |n: u64| world.random_u64() % n;
    let mut fixture = fixture();
    let names = ["m1", "m2", "m3", "m4"];
    let some = |odds: u64| names.iter().copied().filter(|_| below(odds) == 0).collect::<Vec<_>>();
    let targets: Vec<Value> = some(2).iter().map(|name| json!({"name": name, "replicas": below(3)})).collect();
    fixture.binding["spec"]["clusters"] = json!(targets);
    fixture.binding["metadata"]["generation"] = json!(2 + below(2));
    let reasons = ["Success", "NoClusterFit", "Unschedulable", "QuotaExceeded"];
    let reason = reasons[usize::try_from(below(4)).unwrap()];
    let status = if reason == "Success" { "True" } else { "False" };
    fixture.binding["status"]["conditions"] = match below(5) {
        0 => Value::Null,
        _ => json!([{"type": "Scheduled", "status": status, "reason": reason, "message": format!("because {reason}")}]),
    };
    let items = some(2).into_iter().map(|name| {
        let health = ["Healthy", "Unhealthy", "Unknown"][usize::try_from(below(3)).unwrap()];
        json!({"clusterName": name, "applied": below(2) == 0, "appliedMessage": if below(2) == 0 { "boom" } else { "" }, "health": health})
    });
    fixture.binding["status"]["aggregatedStatus"] = json!(items.collect::<Vec<_>>());
    fixture.works = some(2)
        .into_iter()
        .map(|name| {
            let applied = [None, Some(("True", "")), Some(("False", "no luck"))][usize::try_from(below(3)).unwrap()];
            let mut work = work(name, applied);
            work["spec"]["suspendDispatching"] = json!(below(4) == 0);
            if below(4) == 0 {
                work["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            work
        })
        .collect();
    let tasks = some(4).into_iter().map(|name| json!({"fromCluster": name, "reason": "R", "producer": "P"}));
    fixture.binding["spec"]["gracefulEvictionTasks"] = json!(tasks.collect::<Vec<_>>());
    if below(6) == 0 {
        fixture.binding["spec"]["suspension"] = json!({"scheduling": below(2) == 0, "dispatching": below(2) == 0});
    }
    if below(6) == 0 {
        fixture.template = Value::Null;
    }
    if below(6) == 0 {
        fixture.policies.clear();
    }
    for index in 0..3 {
        if below(4) == 0 {
            fixture = fixture.cluster(index, json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "X", "message": "away"}]}}));
        }
    }
    fixture.clusters.truncate(usize::try_from(below(4)).unwrap());
    fixture
}

/// In every state, the page agrees with the binding and its Works.
#[test]
fn pages_never_contradict_the_binding() {
    let seed = std::env::var("SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let world = World::simulated("2026-01-01T00:00:00Z".parse().expect("a time"), seed);
    for round in 0..2000 {
        let fixture = random(&world);
        let facts = fixture.facts();
        let binding = facts.live.binding.as_ref().expect("a binding");
        let page = template::page(&facts);
        let text = page.to_text(None);
        let context = format!("seed {seed}, round {round}\n{}\n{text}", fixture.binding);
        let rows = page.facts["clusters"].as_array().expect("rows");
        let assigned: Vec<&str> =
            rows.iter().filter(|row| row["assigned"] == true).filter_map(|row| row["name"].as_str()).collect();
        let mut targets: Vec<&str> = binding.spec.clusters.iter().map(|it| it.name.as_str()).collect();
        targets.sort_unstable();
        assert_eq!(assigned, targets, "{context}");
        for target in &binding.spec.clusters {
            let row = rows.iter().find(|row| row["name"] == *target.name).expect("a row");
            assert_eq!(row["replicas"], json!(target.replicas), "{context}");
            assert!(row["filteredBy"].is_null(), "{context}");
        }
        let claims_well = page.answer.starts_with("applied");
        let all_applied = targets.iter().all(|name| {
            facts
                .live
                .works
                .iter()
                .any(|it| it.metadata.namespace.ends_with(name) && propagation::status::is_applied(it))
                || binding.status.aggregated_status.iter().any(|it| it.cluster_name == **name && it.applied)
        });
        assert!(!claims_well || all_applied, "{context}");
        let is_settled = binding.status.scheduler_observed_generation == binding.metadata.generation;
        assert!(!claims_well || is_settled, "{context}");
        let nothing = page.next.first().is_some_and(|step| step.starts_with("nothing to do"));
        let missing = rows.iter().any(|row| {
            row["assigned"] == true && row["state"].as_str().is_some_and(|it| it.starts_with("not applied"))
        });
        assert!(!nothing || !missing, "{context}");
        for condition in binding.status.conditions.iter().filter(|it| it.type_ == "Scheduled" && it.status == "False") {
            assert!(text.contains(&condition.message), "{context}");
        }
        for task in &binding.spec.graceful_eviction_tasks {
            assert!(
                page.waiting
                    .iter()
                    .any(|it| it.starts_with(&format!("{}: the copy is being evicted", task.from_cluster))),
                "{context}"
            );
        }
        let works = page.facts["works"].as_array().expect("Works");
        assert_eq!(works.len(), facts.live.works.len());
        for work in &facts.live.works {
            let applied = work.status.conditions.first().map_or("-", |it| it.status.as_str());
            let row =
                works.iter().find(|row| row["name"] == format!("{}/{}", work.metadata.namespace, work.metadata.name));
            assert_eq!(row.expect("a row")["applied"], applied, "{context}");
        }
    }
}
