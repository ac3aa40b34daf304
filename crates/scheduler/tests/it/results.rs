//! Scheduling results, and their changes.

use std::time::Duration;

use karmada_api::identity::BindingKey;
use karmada_api::scope::{Binding, Scope};
use scheduler::{Gates, Options};
use serde_json::json;

use crate::harness::{Plane, key};

#[tokio::test(start_paused = true)]
async fn both_kinds_of_binding_are_scheduled_alike() {
    let plane = Plane::start().await;
    plane.join("m1", json!({})).await;
    plane.join("m2", json!({})).await;
    for key in [key("web"), BindingKey::cluster("web")] {
        let before = plane.writes();
        plane.bind(&key, json!({})).await;
        plane.expect(&key, "m1:2 m2:2 | True Success").await;
        assert_eq!(plane.writes() - before, 1, "{:?}", plane.requests());
        let binding = plane.get(&key).await;
        assert_eq!(binding["status"]["schedulerObservedGeneration"], binding["metadata"]["generation"]);
        assert!(binding["status"]["lastScheduledTime"].is_string());
        assert_eq!(binding["metadata"]["annotations"]["policy.karmada.io/applied-placement"], "{}");
    }
    plane.settle().await;
    assert_eq!(
        plane.events(&key("web")).await,
        [
            "ClusterResourceBinding Normal ScheduleBindingSucceed: Binding has been scheduled successfully. Result {m1:2, m2:2}",
            "Deployment Normal ScheduleBindingSucceed: Binding has been scheduled successfully. Result {m1:2, m2:2}",
            "Deployment Normal ScheduleBindingSucceed: Binding has been scheduled successfully. Result: {m1:2, m2:2}",
            "ResourceBinding Normal ScheduleBindingSucceed: Binding has been scheduled successfully. Result: {m1:2, m2:2}",
        ]
    );
    plane.shutdown();
}

#[tokio::test(start_paused = true)]
async fn changed_placements_and_replicas_are_rescheduled() {
    let plane = Plane::start().await;
    for name in ["m1", "m2"] {
        plane.join(name, json!({})).await;
    }
    let web = key("web");
    plane.bind(&web, json!({"placement": {"clusterAffinity": {"clusterNames": ["m1"]}}})).await;
    plane.expect(&web, "m1:2 | True Success").await;
    plane.change(&web, json!({"replicas": 3})).await;
    plane.expect(&web, "m1:3 | True Success").await;
    plane.change(&web, json!({"placement": {"clusterAffinity": {"clusterNames": ["m2"]}}})).await;
    plane.expect(&web, "m2:3 | True Success").await;
    let recorded = async || {
        let (binding, record) = (plane.get(&web).await, plane.record(&web).await.expect("a record"));
        (record.generation, binding["metadata"]["generation"].as_i64().expect("a generation"))
    };
    // The record is of the generation that has the result.
    let (of_record, newest) = recorded().await;
    assert_eq!(of_record, newest);
    plane.change(&web, json!({"placement": {"clusterAffinity": {"clusterNames": ["m9"]}}})).await;
    plane.expect(&web, " | False NoClusterFit: 0/2 clusters are available: 2 cluster(s) did not match the placement cluster affinity constraint.").await;
    let (of_record, newest) = recorded().await;
    assert_eq!(of_record, newest, "the clusters were removed");
    plane
        .change(
            &web,
            json!({"placement": {"clusterAffinity": null, "replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}}}),
        )
        .await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    plane.expect(&web, "m1:2 m2:1 | True Success").await;
    assert_eq!(plane.writes(), 5, "{:?}", plane.requests());
    plane.shutdown();
}

#[tokio::test(start_paused = true)]
async fn cluster_labels_move_duplicated_but_not_divided_replicas() {
    let plane = Plane::start().await;
    plane.join("m1", json!({"metadata": {"labels": {"tier": "a"}}})).await;
    plane.join("m2", json!({})).await;
    let by_label = json!({"clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "a"}}}});
    let (copies, shares) = (key("copies"), key("shares"));
    plane.bind(&copies, json!({"placement": by_label})).await;
    let mut divided = by_label.clone();
    divided["replicaScheduling"] = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"});
    plane.bind(&shares, json!({"placement": divided})).await;
    plane.expect(&copies, "m1:2 | True Success").await;
    plane.expect(&shares, "m1:2 | True Success").await;
    let before = plane.writes();
    plane.change_cluster("m2", json!({"metadata": {"labels": {"tier": "a"}}})).await;
    plane.expect(&copies, "m1:2 m2:2 | True Success").await;
    plane.expect(&shares, "m1:2 | True Success").await;
    assert_eq!(plane.writes() - before, 1, "only the copies: {:?}", plane.requests());
    plane.change_cluster("m1", json!({"metadata": {"labels": {"tier": "b"}}})).await;
    plane.expect(&copies, "m2:2 | True Success").await;
    plane.expect(&shares, "m1:2 | True Success").await;
    plane.shutdown();
}

#[tokio::test(start_paused = true)]
async fn terms_are_tried_in_order_and_never_go_back() {
    let plane = Plane::start().await;
    for (name, tier) in [("m1", "a"), ("m2", "b")] {
        plane.join(name, json!({"metadata": {"labels": {"tier": tier}}})).await;
    }
    let term = |name: &str, tier: &str| json!({"affinityName": name, "labelSelector": {"matchLabels": {"tier": tier}}});
    let web = key("web");
    plane.bind(&web, json!({"placement": {"clusterAffinities": [term("first", "a"), term("second", "b")]}})).await;
    plane.expect(&web, "m1:2 | True Success").await;
    assert_eq!(plane.get(&web).await["status"]["schedulerObservingAffinityName"], "first");
    plane.change_cluster("m1", json!({"metadata": {"labels": {"tier": "c"}}})).await;
    plane.expect(&web, "m2:2 | True Success").await;
    assert_eq!(plane.get(&web).await["status"]["schedulerObservingAffinityName"], "second");
    let warning = "ResourceBinding Warning ScheduleBindingFailed: failed to schedule ResourceBinding(demo/web) with \
                   clusterAffiliates index(0): 0/2 clusters are available: 2 cluster(s) did not match the placement \
                   cluster affinity constraint.";
    plane.settle().await;
    let events = plane.events(&web).await;
    assert!(events.iter().any(|event| event == warning), "{events:?}");
    plane.change_cluster("m1", json!({"metadata": {"labels": {"tier": "a"}}})).await;
    plane.expect(&web, "m2:2 | True Success").await;
    // A rebalancer starts over from the first term.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let now = plane.world.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    plane.change(&web, json!({"rescheduleTriggeredAt": now})).await;
    plane.expect(&web, "m1:2 | True Success").await;
    let binding = plane.get(&web).await;
    assert_eq!(binding["status"]["schedulerObservingAffinityName"], "first");
    assert!(binding["status"]["lastScheduledTime"].as_str() >= Some(now.as_str()), "{binding}");
    plane.shutdown();
}

#[tokio::test(start_paused = true)]
async fn bindings_of_others_and_suspended_ones_are_not_scheduled() {
    let plane = Plane::start().await;
    plane.join("m1", json!({})).await;
    let (suspended, others, dependency) = (key("suspended"), key("others"), key("dependency"));
    plane.bind(&suspended, json!({"suspension": {"scheduling": true}})).await;
    plane.bind(&others, json!({"schedulerName": "other"})).await;
    plane.bind(&dependency, json!({"placement": null, "requiredBy": [{"name": "a"}]})).await;
    for key in [&suspended, &others, &dependency] {
        plane.expect(key, " | -").await;
    }
    assert_eq!(plane.writes(), 0);
    plane.change(&suspended, json!({"suspension": null})).await;
    plane.change(&others, json!({"schedulerName": null})).await;
    for key in [&suspended, &others] {
        plane.expect(key, "m1:2 | True Success").await;
    }
    plane.change(&suspended, json!({"suspension": {"scheduling": true}, "replicas": 5})).await;
    plane.change_cluster("m1", json!({"metadata": {"labels": {"a": "b"}}})).await;
    plane.expect(&suspended, "m1:2 | True Success").await;
    plane.change(&suspended, json!({"suspension": {"scheduling": false}})).await;
    plane.expect(&suspended, "m1:5 | True Success").await;
    plane.shutdown();
}

#[tokio::test(start_paused = true)]
async fn bindings_are_scheduled_by_priority() {
    let mut plane = Plane::start().await;
    plane.join("m1", json!({})).await;
    plane.stop();
    for (name, priority) in [("a", 0), ("b", 5), ("c", -1), ("d", 5), ("e", 100)] {
        plane.bind(&key(name), json!({"schedulePriority": {"priority": priority}})).await;
    }
    plane.restart_with(Options { workers: 1, ..Options::default() });
    plane.settle().await;
    let mut order = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        let version = plane.get(&key(name)).await["metadata"]["resourceVersion"].as_str().map(str::parse::<u64>);
        order.push((version.expect("a version").expect("a number"), name));
    }
    order.sort_unstable();
    assert_eq!(order.into_iter().map(|(_, name)| name).collect::<Vec<_>>(), ["e", "b", "d", "a", "c"]);
    plane.shutdown();
}

#[tokio::test(start_paused = true)]
async fn groups_keep_together_and_apart() {
    let mut plane = Plane::start().await;
    for name in ["m1", "m2"] {
        plane.join(name, json!({})).await;
    }
    let gates = Gates { workload_affinity: true, ..Gates::default() };
    plane.restart_with(Options { gates, ..Options::default() });
    let one = json!({"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]});
    let apart = json!({"placement": one, "workloadAffinityGroups": {"antiAffinityGroup": "app=db"}});
    let pinned = json!({"clusterAffinity": {"clusterNames": ["m2"]}});
    plane
        .bind(&key("leader"), json!({"placement": pinned, "workloadAffinityGroups": {"affinityGroup": "app=web"}}))
        .await;
    plane.expect(&key("leader"), "m2:2 | True Success").await;
    plane.bind(&key("friend"), json!({"workloadAffinityGroups": {"affinityGroup": "app=web"}})).await;
    plane.expect(&key("friend"), "m2:2 | True Success").await;
    // Three bindings that exclude each other are created at once, for two clusters.
    for name in ["db-1", "db-2", "db-3"] {
        plane.bind(&key(name), apart.clone()).await;
    }
    plane.expect(&key("db-1"), "m1:2 | True Success").await;
    plane.expect(&key("db-2"), "m2:2 | True Success").await;
    let crowded = " | False NoClusterFit: 0/2 clusters are available: 2 cluster already has workload with the same \
                   anti-affinity group.";
    plane.expect(&key("db-3"), crowded).await;
    let resource = Binding::api_resource(Scope::Namespaced);
    plane.client.delete(&resource, &key("db-1"), &Default::default()).await.expect("the deletion");
    tokio::time::sleep(Duration::from_secs(10)).await;
    plane.expect(&key("db-3"), "m1:2 | True Success").await;
    plane.shutdown();
}

#[tokio::test(start_paused = true)]
async fn the_name_of_a_term_is_removed_with_the_terms() {
    let plane = Plane::start().await;
    for name in ["m1", "m2"] {
        plane.join(name, json!({})).await;
    }
    let web = key("web");
    let terms = json!([{"affinityName": "first", "clusterNames": ["m1"]}]);
    plane.bind(&web, json!({"placement": {"clusterAffinities": terms}})).await;
    plane.expect(&web, "m1:2 | True Success").await;
    let named = async || plane.get(&web).await["status"]["schedulerObservingAffinityName"].clone();
    assert_eq!(named().await, "first");
    plane
        .change(&web, json!({"placement": {"clusterAffinities": null, "clusterAffinity": {"clusterNames": ["m2"]}}}))
        .await;
    plane.expect(&web, "m2:2 | True Success").await;
    assert!(named().await.is_null());
    plane.change(&web, json!({"placement": {"clusterAffinities": terms, "clusterAffinity": null}})).await;
    plane.expect(&web, "m1:2 | True Success").await;
    assert_eq!(named().await, "first");
    plane.shutdown();
}
