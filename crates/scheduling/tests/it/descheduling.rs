//! Which replicas the descheduler removes.

use karmada_api::Scope;
use karmada_api::scope::Binding;
use scheduling::descheduling::{event, is_eligible, is_settled, plan, with_unready_replicas};
use serde_json::{Value, json};

/// Targets as (desired, ready, unschedulable); `None` is unknown.
type Row = (i64, Option<i64>, Option<i64>);

fn binding(rows: &[Row]) -> Binding {
    let name = |index: usize| format!("m{}", index + 1);
    let targets: Vec<Value> =
        rows.iter().enumerate().map(|(index, row)| json!({"name": name(index), "replicas": row.0})).collect();
    let statuses: Vec<Value> = rows
        .iter()
        .enumerate()
        .filter_map(|(index, row)| Some(json!({"clusterName": name(index), "status": {"readyReplicas": row.1?}})))
        .collect();
    let value = json!({"metadata": {"name": "b", "namespace": "a"}, "spec": {"clusters": targets}, "status": {"aggregatedStatus": statuses}});
    Binding::from_value(Scope::Namespaced, &value).unwrap()
}

#[test]
fn descheduled_replicas() {
    let none: &[i64] = &[];
    for (id, rows, queried, expected) in [
        ("X01", vec![(5, Some(5), None)], vec![], none),
        ("X02", vec![(5, Some(4), Some(1))], vec!["m1"], &[4][..]),
        ("X03", vec![(5, Some(0), Some(5))], vec!["m1"], &[0]),
        ("X04", vec![(5, Some(4), Some(2))], vec!["m1"], &[4]),
        ("X05", vec![(5, Some(0), Some(2))], vec!["m1"], &[3]),
        ("X06", vec![(5, Some(6), Some(2))], vec![], none),
        ("X07", vec![(5, Some(5), None), (10, Some(9), Some(1))], vec!["m2"], &[5, 9]),
        ("X08", vec![(5, Some(2), Some(3)), (10, Some(3), Some(7))], vec!["m1", "m2"], &[2, 3]),
        ("X09", vec![(10, None, Some(7))], vec!["m1"], &[3]),
        ("X10", vec![(5, Some(4), Some(6))], vec!["m1"], none),
        ("X11", vec![(5, Some(4), None)], vec!["m1"], none),
        ("below zero is no answer", vec![(5, Some(4), Some(-1))], vec!["m1"], none),
    ] {
        let binding = binding(&rows);
        assert_eq!(with_unready_replicas(&binding), queried, "{id}");
        let unschedulable = |cluster: &str| rows[cluster[1..].parse::<usize>().unwrap() - 1].2;
        let moved = plan(&binding, unschedulable, i64::MAX);
        let replicas: Vec<i64> =
            moved.iter().flat_map(|moved| &moved.clusters).map(|target| i64::from(target.replicas)).collect();
        assert_eq!(replicas, expected, "{id}");
    }
}

#[test]
fn a_budget_bounds_simultaneous_moves() {
    let binding = binding(&[(5, Some(2), Some(3)), (10, Some(3), Some(7))]);
    let unschedulable = |cluster: &str| Some(if cluster == "m1" { 3 } else { 7 });
    let moved = plan(&binding, unschedulable, 4).unwrap();
    assert_eq!(moved.taken, [("m1".to_owned(), 3), ("m2".to_owned(), 1)]);
    assert_eq!(
        event(&moved),
        "Binding has been descheduled, 3 replica(s) in cluster(m1), 1 replica(s) in cluster(m2), 4 total descheduled \
         replica(s)"
    );
    assert_eq!(plan(&binding, unschedulable, 0), None);
}

#[test]
fn only_settled_dynamically_divided_deployments() {
    let dynamic = json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"}}});
    let aggregated =
        json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}});
    let fixed =
        json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}});
    let make = |kind: &str, applied: &str, more: Value| {
        let mut value = json!({
            "metadata": {"name": "b", "namespace": "a", "generation": 3, "annotations": {"policy.karmada.io/applied-placement": applied}},
            "spec": {"resource": {"apiVersion": "apps/v1", "kind": kind}}, "status": {"schedulerObservedGeneration": 3}});
        apimachinery::merge_patch::apply(&mut value, &more);
        Binding::from_value(Scope::Namespaced, &value).unwrap()
    };
    for (kind, applied, expected) in [
        ("Deployment", dynamic.to_string(), true),
        ("Deployment", aggregated.to_string(), true),
        ("Deployment", fixed.to_string(), false),
        ("Deployment", "{}".to_owned(), false),
        ("Deployment", "{".to_owned(), false),
        ("StatefulSet", dynamic.to_string(), false),
    ] {
        assert_eq!(is_eligible(&make(kind, &applied, json!({}))), expected, "{kind} {applied}");
    }
    for (more, expected) in [
        (json!({}), true),
        (json!({"spec": {"schedulerName": "default-scheduler"}}), true),
        (json!({"spec": {"schedulerName": "other"}}), true),
        (json!({"spec": {"suspension": {"scheduling": true}}}), false),
        (json!({"spec": {"gracefulEvictionTasks": [{"fromCluster": "m1"}]}}), false),
        (json!({"metadata": {"generation": 4}}), false),
    ] {
        assert_eq!(is_settled(&make("Deployment", "{}", more.clone())), expected, "{more}");
    }
}
