//! Bindings that are created with their first decision.

use std::sync::Arc;

use apimachinery::{Object, ObjectKey};
use karmada_api::constants::labels;
use karmada_api::identity::BindingKey;
use karmada_api::scope::{Binding, Scope};
use metrics::Registry;
use scheduler::{FirstDecision, Options};
use serde_json::{Value, json};

use crate::harness::{Plane, key};

/// A claimed binding of a Deployment in both clusters, as the detector makes it.
fn built(key: &BindingKey) -> Value {
    json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": key.name(), "namespace": key.namespace(), "labels": {labels::POLICY_ID: "p"}},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "demo", "name": key.name(), "uid": "u"},
            "replicas": 2, "placement": {},
        },
    })
}

/// A plane with two clusters, and the metrics of its scheduler.
async fn plane() -> (Plane, Registry) {
    let mut plane = Plane::start().await;
    let metrics = Registry::default();
    plane.restart_with(Options { metrics: metrics.clone(), ..Options::default() });
    plane.join("m1", json!({})).await;
    plane.join("m2", json!({})).await;
    plane.settle().await;
    (plane, metrics)
}

fn decided(plane: &Plane, key: &BindingKey) -> FirstDecision {
    let binding = Binding::from_value(Scope::Namespaced, &built(key)).expect("a binding");
    plane.scheduler.decide_first(&binding).expect("a decision")
}

async fn created(plane: &Plane, key: &BindingKey, mut first: FirstDecision) -> Arc<Object> {
    let mut tree = built(key);
    apimachinery::merge_patch::apply(&mut tree, &first.take_patch());
    let object = plane.client.create_draft(&key.resource(), tree, true).await.expect("the binding");
    first.created(&object);
    object
}

/// Attempts to schedule, by the metric that counts them.
fn attempts(metrics: &Registry) -> f64 {
    let text = metrics.text();
    let rows = text.lines().filter(|line| line.starts_with("karmada_scheduler_schedule_attempts_total{"));
    rows.map(|row| row.rsplit(' ').next().and_then(|count| count.parse::<f64>().ok()).expect("a number")).sum()
}

#[tokio::test(start_paused = true)]
async fn the_first_decision_is_not_repeated() {
    let (plane, metrics) = plane().await;
    let web = key("web");
    created(&plane, &web, decided(&plane, &web)).await;
    plane.expect(&web, "m1:2 m2:2 | True Success").await;
    assert_eq!((attempts(&metrics), plane.writes()), (1.0, 0));
    // It is scheduled like others from then on.
    plane.change(&web, json!({"replicas": 3})).await;
    plane.expect(&web, "m1:3 m2:3 | True Success").await;
    plane.leave("m2").await;
    plane.expect(&web, "m1:3 | True Success").await;
    plane.shutdown();
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_changes_before_the_binding_exists_is_observed() {
    let (plane, metrics) = plane().await;
    let web = key("web");
    let first = decided(&plane, &web);
    plane.join("m3", json!({})).await;
    plane.settle().await;
    created(&plane, &web, first).await;
    plane.expect(&web, "m1:2 m2:2 m3:2 | True Success").await;
    assert_eq!(attempts(&metrics), 2.0);
    plane.shutdown();
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_another_client_replaced_is_decided_again() {
    let (plane, _) = plane().await;
    let web = key("web");
    let mut first = decided(&plane, &web);
    let mut tree = built(&web);
    apimachinery::merge_patch::apply(&mut tree, &first.take_patch());
    let resource = web.resource();
    let object = plane.client.create_draft(&resource, tree, true).await.expect("the binding");
    let at = ObjectKey::namespaced("demo", "web");
    plane.client.delete(&resource, &at, &Default::default()).await.expect("the deletion");
    plane.bind(&web, json!({"placement": {"clusterAffinity": {"clusterNames": ["m2"]}}})).await;
    first.created(&object);
    plane.expect(&web, "m2:2 | True Success").await;
    plane.shutdown();
}
