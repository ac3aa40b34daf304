//! Triggers of a new decision.

use karmada_api::constants::annotations;
use scheduling::{Gates, ScheduleType, needed};
use serde_json::{Value, json};

use crate::fleet::{binding, cluster, snapshot};

const RECONCILE: Option<ScheduleType> = Some(ScheduleType::Reconcile);
const SCALE: Option<ScheduleType> = Some(ScheduleType::Scale);

/// Divided, two replicas each in m1 and m2; the placement equals the applied one.
struct Situation {
    spec: Value,
    status: Value,
    applied: Option<Value>,
    gates: Gates,
    m2: Value,
}

fn settled() -> Situation {
    let placement = json!({
        "clusterAffinity": {"clusterNames": ["m1", "m2"]},
        "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"},
    });
    Situation {
        applied: Some(placement.clone()),
        spec: json!({
            "placement": placement,
            "clusters": [{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 2}],
        }),
        status: json!({"lastScheduledTime": "2026-01-01T00:00:10Z"}),
        gates: Gates::default(),
        m2: json!({}),
    }
}

impl Situation {
    fn check(self, name: &str, expected: Option<ScheduleType>) {
        let mut binding = binding(&self.spec, &self.status);
        let applied = self.applied.map(|applied| applied.as_str().map_or(applied.to_string(), str::to_owned));
        binding.metadata.annotations.extend(applied.map(|text| (annotations::APPLIED_PLACEMENT.to_owned(), text)));
        let clusters = snapshot(vec![cluster("m1", "9", json!({})), cluster("m2", "9", self.m2)]);
        assert_eq!(needed(&binding, &clusters, &self.gates), expected, "{name}");
    }
}

fn spec(name: &str, patch: Value, expected: Option<ScheduleType>) {
    let mut situation = settled();
    apimachinery::merge_patch::apply(&mut situation.spec, &patch);
    situation.check(name, expected);
}

#[test]
fn by_spec() {
    spec("nothing", json!({}), None);
    spec(
        "spread constraints",
        json!({"placement": {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1}]}}),
        RECONCILE,
    );
    spec("tolerations", json!({"placement": {"clusterTolerations": [{"key": "k"}]}}), RECONCILE);
    spec(
        "workload affinity",
        json!({"placement": {"workloadAffinity": {"affinity": {"groupByLabelKey": "app"}}}}),
        RECONCILE,
    );
    spec(
        "terms instead of one affinity",
        json!({"placement": {"clusterAffinity": null, "clusterAffinities": [{"affinityName": "a"}]}}),
        RECONCILE,
    );
    spec("more replicas", json!({"replicas": 5}), SCALE);
    spec("a cluster was evicted", json!({"clusters": [{"name": "m1", "replicas": 2}]}), SCALE);
    spec("a reschedule requested later", json!({"rescheduleTriggeredAt": "2026-01-01T00:00:11Z"}), RECONCILE);
    spec("a reschedule requested in the same second", json!({"rescheduleTriggeredAt": "2026-01-01T00:00:10Z"}), None);
    spec("not a workload", json!({"replicas": 0, "clusters": [{"name": "m1"}]}), RECONCILE);
    let mut unplaced = binding(&settled().spec, &json!({}));
    unplaced.spec.placement = None;
    assert_eq!(needed(&unplaced, &snapshot(vec![]), &Gates::default()), None);
}

#[test]
fn by_annotation_status_and_clusters() {
    Situation { applied: None, ..settled() }.check("never applied", RECONCILE);
    Situation { applied: Some(json!("{")), ..settled() }.check("unreadable", RECONCILE);
    Situation {
        status: json!({}),
        spec: {
            let mut spec = settled().spec;
            spec["rescheduleTriggeredAt"] = json!("2026-01-01T00:00:11Z");
            spec
        },
        ..settled()
    }
    .check("a reschedule requested before the first decision", None);
    Situation { m2: json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), ..settled() }
        .check("a target leaves", RECONCILE);
    Situation { m2: json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}), ..settled() }
        .check("a target is tainted", None);
    let mut components = settled();
    components.spec["components"] = json!([{"name": "c", "replicas": 1}]);
    components.spec["clusters"] = json!([]);
    components.spec["replicas"] = json!(0);
    components.gates.multiple_pod_templates = true;
    components.check("components without a place", SCALE);
}

#[test]
fn duplicated() {
    let placement = json!({"replicaScheduling": {"replicaSchedulingType": "Duplicated"}});
    for (replicas, expected) in [(2, RECONCILE), (5, SCALE)] {
        let mut situation = settled();
        situation.spec["placement"] = placement.clone();
        situation.spec["replicas"] = json!(replicas);
        situation.applied = Some(placement.clone());
        situation.check(&format!("{replicas}"), expected);
    }
}

#[test]
fn terms() {
    let term = |name: &str, cluster: &str| json!({"affinityName": name, "clusterNames": [cluster]});
    let both = json!([term("a", "m1"), term("b", "m2")]);
    for (name, observed, terms, expected) in [
        ("another term", "a", json!([term("a", "m1"), term("b", "m3")]), None),
        ("the term in force", "a", json!([term("a", "m3"), term("b", "m2")]), RECONCILE),
        ("the term in force is gone", "a", json!([term("b", "m2")]), RECONCILE),
        ("nothing is in force", "", json!([term("a", "m1"), term("b", "m3")]), RECONCILE),
        ("equal", "", both.clone(), None),
    ] {
        let mut situation = settled();
        situation.status["schedulerObservingAffinityName"] = json!(observed);
        let scheduling = situation.spec["placement"]["replicaScheduling"].clone();
        situation.spec["placement"] = json!({"clusterAffinities": terms, "replicaScheduling": scheduling});
        situation.applied = Some(json!({"clusterAffinities": both, "replicaScheduling": scheduling}));
        situation.check(name, expected);
    }
}
