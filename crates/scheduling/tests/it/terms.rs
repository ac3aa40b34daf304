//! Terms of `clusterAffinities`, their overflow tiers, and components.

use scheduling::outcome::term_failure_event;
use scheduling::{Gates, Problem, decide};
use serde_json::{Value, json};

use crate::fleet::{binding, cluster, printed, snapshot};

fn fleet(cpus: &[&str]) -> Vec<Value> {
    (1..).zip(cpus).map(|(index, cpu)| cluster(&format!("m{index}"), cpu, json!({}))).collect()
}

fn term(name: &str, clusters: &[&str]) -> Value {
    json!({"affinityName": name, "clusterNames": clusters})
}

const DYNAMIC: &str = r#"{"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
    "weightPreference": {"dynamicWeight": "AvailableReplicas"}}"#;

fn dynamic(terms: Value) -> Value {
    let scheduling: Value = serde_json::from_str(DYNAMIC).unwrap();
    json!({
        "placement": {"clusterAffinities": terms, "replicaScheduling": scheduling},
        "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
    })
}

#[test]
fn terms_are_tried_in_order() {
    let terms = json!([term("a", &["m1"]), term("b", &["m2"]), term("c", &["m3"])]);
    let refused = |clusters: usize| {
        format!(
            "0/{clusters} clusters are available: {clusters} cluster(s) did not match the placement cluster affinity constraint."
        )
    };
    let triggered = json!({"rescheduleTriggeredAt": "2026-01-01T00:00:01Z"});
    for (name, cpus, observed, more, expected) in [
        ("the first", &["9", "9", "9"][..], "", json!({}), "a: m1:4, 0 failed".to_owned()),
        ("the next with room", &["1", "9", "9"], "", json!({}), "b: m2:4, 1 failed".to_owned()),
        ("the one in force, not an earlier one", &["9", "9", "9"], "b", json!({}), "b: m2:4, 0 failed".to_owned()),
        ("from the one in force on", &["9", "1", "9"], "b", json!({}), "c: m3:4, 1 failed".to_owned()),
        ("an unknown one is the first", &["9", "9", "9"], "zz", json!({}), "a: m1:4, 0 failed".to_owned()),
        ("from the first after a reschedule request", &["9", "9", "9"], "c", triggered, "a: m1:4, 0 failed".to_owned()),
        (
            "the first error stays",
            &["1", "1", "1"],
            "",
            json!({}),
            "-: failed to assign replicas: failed to scale up: Clusters available replicas 1 are not enough to \
             schedule., 3 failed"
                .to_owned(),
        ),
        ("no wrapping around", &["9"], "b", json!({}), format!("-: {}, 2 failed", refused(1))),
    ] {
        let mut spec = dynamic(terms.clone());
        apimachinery::merge_patch::apply(&mut spec, &more);
        let status = json!({"schedulerObservingAffinityName": observed, "lastScheduledTime": "2026-01-01T00:00:00Z"});
        let binding = binding(&spec, &status);
        let decision = decide(&Problem::of(&binding).unwrap(), &snapshot(fleet(cpus)), &Gates::default());
        let term = decision.affinity_term.as_deref().unwrap_or("-");
        assert_eq!(format!("{term}: {}, {} failed", printed(&decision), decision.failures.len()), expected, "{name}");
        // After an error other than "no cluster fits", the result is unchanged.
        let fits = decision.error().is_none_or(|error| error.to_string().starts_with("0/"));
        assert_eq!(decision.result().is_some(), fits, "{name}");
        if let Some(failure) = decision.failures.first() {
            let event = term_failure_event(karmada_api::Scope::Namespaced, "ns", "b", failure);
            let start =
                format!("failed to schedule ResourceBinding(ns/b) with clusterAffiliates index({}): ", failure.index);
            assert_eq!(event, format!("{start}{}", failure.error));
        }
    }
}

#[test]
fn overflow() {
    let mut first = term("a", &["m1"]);
    first["overflowAffinities"] = json!([term("b", &["m1", "m2"]), term("c", &["m3"])]);
    for (replicas, before, expected) in [
        (2, json!([]), "m1:2"),
        (4, json!([{"name": "m1", "replicas": 2}]), "m1:2 m2:2"),
        (5, json!([{"name": "m1", "replicas": 2}]), "m1:2 m2:2 m3:1"),
        (6, json!([]), "failed to assign replicas: Clusters available replicas are not enough to schedule."),
        (2, json!([{"name": "m1", "replicas": 1}, {"name": "m2", "replicas": 2}]), "m1:2"),
    ] {
        let mut spec = dynamic(json!([first]));
        spec["replicas"] = json!(replicas);
        spec["clusters"] = before.clone();
        let used = |name: &str| {
            let targets = before.as_array().unwrap();
            targets.iter().find(|it| it["name"] == name).map_or(0, |it| it["replicas"].as_i64().unwrap())
        };
        let cpus = [2 - used("m1"), 2 - used("m2"), 1].map(|cpu| cpu.to_string());
        let binding = binding(&spec, &json!({}));
        let clusters = snapshot(fleet(&cpus.each_ref().map(String::as_str)));
        let decision = decide(&Problem::of(&binding).unwrap(), &clusters, &Gates::default());
        assert_eq!(printed(&decision), expected, "{replicas} after {before}");
    }
}

#[test]
fn components_go_together() {
    let component = |name: &str, replicas: i64, cpu: &str| json!({"name": name, "replicas": replicas, "replicaRequirements": {"resourceRequest": {"cpu": cpu}}});
    let scheduling: Value = serde_json::from_str(DYNAMIC).unwrap();
    for (cpus, on, expected) in [
        (&["3", "10"][..], true, "m2[jm:1 tm:2]"),
        (&["3", "4"], true, "failed to select clusters: no enough resource when selecting 1 clusters"),
        (&["3", "4"], false, "m1[]"),
    ] {
        let spec = json!({
            "replicas": null,
            "components": [component("jm", 1, "1"), component("tm", 2, "2")],
            "placement": {
                "replicaScheduling": scheduling,
                "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
            },
        });
        let binding = binding(&spec, &json!({}));
        let gates = Gates { multiple_pod_templates: on, ..Gates::default() };
        let decision = decide(&Problem::of(&binding).unwrap(), &snapshot(fleet(cpus)), &gates);
        let text = match &decision.clusters {
            Ok(clusters) => clusters
                .iter()
                .map(|it| {
                    let components: Vec<String> =
                        it.components.iter().map(|it| format!("{}:{}", it.name, it.replicas)).collect();
                    format!("{}[{}]", it.name, components.join(" "))
                })
                .collect(),
            Err(error) => error.to_string(),
        };
        assert_eq!(text, expected, "{cpus:?} {on}");
    }
}
