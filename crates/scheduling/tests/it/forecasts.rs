//! Predictions for templates that do not exist yet, and reports with reasons.

use interpreter::Interpreter;
use karmada_api::Scope;
use karmada_api::scope::Policy;
use scheduling::Gates;
use scheduling::forecast::{Forecast, Taken, after, forecast};
use scheduling::report::Report;
use serde_json::{Value, json};

use crate::fleet::{binding, cluster, snapshot};

fn policy(scope: Scope, namespace: &str, name: &str, placement: &Value) -> Policy {
    let value = json!({"metadata": {"name": name, "namespace": namespace},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], "placement": placement}});
    Policy::from_value(scope, &value).unwrap()
}

fn deployment(namespace: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": namespace},
        "spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}}})
}

#[test]
fn a_propagation_policy_precedes_a_cluster_propagation_policy() {
    let fleet = snapshot(vec![cluster("m1", "2", json!({})), cluster("m2", "4", json!({}))]);
    let policies = [
        policy(Scope::Cluster, "", "all", &json!({})),
        policy(Scope::Namespaced, "a", "one", &json!({"clusterAffinity": {"clusterNames": ["m2"]}})),
    ];
    let result = |namespace: &str, kind: &str| {
        let mut template = deployment(namespace);
        template["kind"] = json!(kind);
        match forecast(
            &template,
            &policies,
            None,
            &fleet,
            &Interpreter::default(),
            &Gates::default(),
            &mut Taken::default(),
        ) {
            Forecast::Unclaimed => "unclaimed".to_owned(),
            Forecast::Broken { policy, error } => format!("{policy}: {error}"),
            Forecast::Placed { policy, report, .. } => format!("{policy}: {}", report.result()),
        }
    };
    assert_eq!(result("a", "Deployment"), "PropagationPolicy a/one: m2:3");
    assert_eq!(result("b", "Deployment"), "ClusterPropagationPolicy all: m2:3 m1:3");
    assert_eq!(result("a", "StatefulSet"), "unclaimed");
}

#[test]
fn a_claimed_template_stays_with_its_policy() {
    let fleet =
        snapshot(vec![cluster("m1", "9", json!({})), cluster("m2", "9", json!({})), cluster("m3", "9", json!({}))]);
    let in_cluster = |name: &str, cluster: &str, changes: Value| {
        let mut policy = policy(Scope::Namespaced, "a", name, &json!({"clusterAffinity": {"clusterNames": [cluster]}}));
        policy.spec.resource_selectors[0].name = "web".to_owned();
        policy.spec.priority = changes["priority"].as_i64().map(|priority| i32::try_from(priority).unwrap());
        policy.spec.preemption = serde_json::from_value(changes["preemption"].clone()).unwrap();
        policy
    };
    let mut claimed = binding(&json!({"replicas": 3, "clusters": [{"name": "m2", "replicas": 3}]}), &json!({}));
    claimed.metadata.labels.insert("propagationpolicy.karmada.io/permanent-id".to_owned(), "1".to_owned());
    for (key, value) in [("namespace", "a"), ("name", "holder")] {
        claimed.metadata.annotations.insert(format!("propagationpolicy.karmada.io/{key}"), value.to_owned());
    }
    let holder = || in_cluster("holder", "m2", json!({}));
    let mut unselecting = holder();
    unselecting.spec.resource_selectors[0].name = "other".to_owned();
    let preempting = json!({"priority": 1, "preemption": "Always"});
    for (what, policies, expected) in [
        (
            "a policy that precedes the holder",
            vec![in_cluster("first", "m1", json!({"priority": 1})), holder()],
            "a/holder: m2:3",
        ),
        ("a preempting policy", vec![in_cluster("first", "m1", preempting), holder()], "a/first: m1:3"),
        (
            "a preempting policy without a higher priority",
            vec![in_cluster("first", "m1", json!({"preemption": "Always"})), holder()],
            "a/holder: m2:3",
        ),
        ("the holder no longer selects it", vec![in_cluster("first", "m1", json!({})), unselecting], "a/first: m1:3"),
        ("the holder is gone", vec![in_cluster("first", "m1", json!({}))], "a/first: m1:3"),
        ("the holder's placement changes", vec![in_cluster("holder", "m3", json!({}))], "a/holder: m3:3"),
    ] {
        let (interpreter, gates) = (Interpreter::default(), Gates::default());
        let foreseen =
            forecast(&deployment("a"), &policies, Some(&claimed), &fleet, &interpreter, &gates, &mut Taken::default());
        let Forecast::Placed { policy, report, .. } = foreseen else { panic!("{what}: {foreseen:?}") };
        assert_eq!(format!("{policy}: {}", report.result()), format!("PropagationPolicy {expected}"), "{what}");
    }
}

#[test]
fn reports_have_reasons() {
    let fleet = snapshot(vec![
        cluster("m1", "2", json!({})),
        cluster("m2", "4", json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})),
        cluster("m3", "9", json!({"status": {"apiEnablements": null}})),
    ]);
    let binding =
        binding(&json!({"replicas": 2, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}}), &json!({}));
    let report = Report::of(&binding, &fleet, &Gates::default()).unwrap();
    let value = report.to_value();
    assert_eq!(value["result"], json!([{"name": "m1", "replicas": 2}]));
    assert_eq!(value["condition"]["reason"], "Success");
    assert_eq!(
        value["clusters"],
        json!([
            {"name": "m1", "chosen": true, "selected": true, "replicas": 2, "why": "chosen", "score": 0,
                "capacity": {"allocatable": 2, "available": 2, "overflowOrder": 0}},
            {"name": "m2", "chosen": false, "selected": false, "replicas": 0,
                "why": "TaintToleration: cluster(s) had untolerated taint {k:NoSchedule} (cluster: spec.taints[0])",
                "rejectedBy": {"plugin": "TaintToleration", "reason": "cluster(s) had untolerated taint {k:NoSchedule}", "field": "cluster: spec.taints[0]"}},
            {"name": "m3", "chosen": false, "selected": false, "replicas": 0,
                "why": "APIEnablement: cluster(s) did not have the API resource (cluster: status.apiEnablements)",
                "rejectedBy": {"plugin": "APIEnablement", "reason": "cluster(s) did not have the API resource", "field": "cluster: status.apiEnablements"}},
        ])
    );
    let text = report.to_text();
    assert!(
        text.starts_with("Schedule:  the placement or the clusters may have changed\nResult:    m1:2\nCondition: Scheduled=True Success: "),
        "{text}"
    );
    let rows: Vec<&str> = text.lines().skip(5).collect();
    assert_eq!(rows[0], "CLUSTER   REPLICAS   SCORE   FREE   AVAILABLE   GROUP   WHY");
    assert_eq!(rows[1], "m1        2          0       2      2           0       chosen");
}

#[test]
fn earlier_decisions_use_capacity() {
    let fleet = snapshot(vec![cluster("m2", "5", json!({}))]);
    let spec = |clusters: Value| {
        json!({"replicas": 3, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}, "clusters": clusters, "placement": {
            "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}}})
    };
    let mut taken = Taken::default();
    let mut result = |clusters: Value| {
        after(&mut taken, &binding(&spec(clusters), &json!({})), &fleet, &Gates::default()).unwrap().result()
    };
    assert_eq!(result(json!([])), "m2:3");
    assert_eq!(result(json!([{"name": "m2", "replicas": 3}])), "m2:3", "replicas already there use nothing more");
    let short =
        "failed to assign replicas: failed to scale up: Clusters available replicas 2 are not enough to schedule.";
    assert_eq!(result(json!([])), short);
    assert_eq!(result(json!([{"name": "m2", "replicas": 1}])), "m2:3");
    let none =
        "failed to assign replicas: failed to scale up: Clusters available replicas 0 are not enough to schedule.";
    assert_eq!(result(json!([])), none);
}

#[test]
fn shortages_are_reported() {
    let fleet = snapshot(vec![
        cluster("m1", "2", json!({})),
        cluster("m2", "3", json!({})),
        cluster("m3", "9", json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})),
    ]);
    let divided = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"});
    let once = json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]);
    let result = |placement: Value| {
        let spec =
            json!({"replicas": 6, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}, "placement": placement});
        let report = Report::of(&binding(&spec, &json!({})), &fleet, &Gates::default()).unwrap();
        let text = report.to_text();
        let lines = text.lines().filter(|line| line.starts_with("Room:") || line.starts_with("Then:"));
        (lines.collect::<Vec<_>>().join("\n"), report.to_value()["shortage"].clone())
    };
    let short = "Room:      6 wanted; clusters that pass: 2, with room for 5 in all\n\
                 Then:      again when a cluster has more room, after 5 minutes in any case";
    let numbers = json!({"wanted": 6, "room": 5, "clusters": 2});
    for placement in
        [json!({"replicaScheduling": divided}), json!({"replicaScheduling": divided, "spreadConstraints": once})]
    {
        assert_eq!(result(placement), (short.to_owned(), numbers.clone()));
    }
    let settled = "Then:      nothing more, until something changes";
    assert_eq!(result(json!({})), (settled.to_owned(), Value::Null));
    let nowhere = "Then:      again when a cluster changes, after 5 minutes in any case";
    assert_eq!(result(json!({"clusterAffinity": {"clusterNames": ["m9"]}})), (nowhere.to_owned(), Value::Null));
}
