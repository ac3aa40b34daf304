//! The order of the controllers' work, and how often it is done: by counts, never by time.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use client::PatchOptions;
use http::Method;
use karmada_api::ApiType;
use karmada_api::work::v1alpha1::Work;
use metrics::Registry;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::by_hand::demo;
use crate::harness::{Plane, get};

fn config_maps() -> ApiResource {
    ApiResource::namespaced("", "v1", "ConfigMap", "configmaps")
}

fn policies() -> ApiResource {
    ApiResource::namespaced("policy.karmada.io", "v1alpha1", "PropagationPolicy", "propagationpolicies")
}

/// The sum of the series that begin like this.
fn count(registry: &Registry, series: &str) -> u64 {
    let text = registry.text();
    let values = text.lines().filter(|line| line.starts_with(series)).filter_map(|line| line.rsplit(' ').next());
    values.map(|value| value.parse::<u64>().expect("a count")).sum()
}

/// As many ConfigMaps, and a policy that propagates them to both members.
async fn config_maps_of_a_policy(plane: &Plane, number: usize) {
    for n in 0..number {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c{n}"), "namespace": "demo"},
            "data": {"a": "1"}});
        plane.create(config_maps(), map).await;
    }
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "p", "namespace": "demo"},
        "spec": {"resourceSelectors": selectors(&[]), "placement": {"clusterAffinity": {"clusterNames": ["m1", "m2"]}}}});
    plane.create(policies(), policy).await;
    plane.settle().await;
}

fn selectors(more: &[Value]) -> Value {
    [&[json!({"apiVersion": "v1", "kind": "ConfigMap"})], more].concat().into()
}

/// A pass over a policy compares all its bindings. A template that changes meanwhile is synced before it has ended.
#[tokio::test(start_paused = true)]
async fn a_change_is_synced_while_a_pass_over_its_policy_runs() {
    const TEMPLATES: usize = 400;
    let plane = Plane::start().await;
    plane.network.mute_events();
    config_maps_of_a_policy(&plane, TEMPLATES).await;
    // The pass queues every template that it has compared.
    let registry = plane.metrics().clone();
    let compared = move || count(&registry, "workqueue_adds_total{name=\"resource-detector\",");
    let (before, synced) = (compared(), Arc::new(Mutex::new(None)));
    let (writes, counted) = (synced.clone(), compared.clone());
    plane.network.set_guard(Arc::new(move |sent| {
        if sent.method == Method::PUT && sent.path.ends_with("/resourcebindings/c7-configmap") {
            writes.lock().get_or_insert(counted() - before);
        }
        Box::pin(std::future::ready(()))
    }));
    let changed = json!({"spec": {"resourceSelectors": selectors(&[json!({"apiVersion": "v1", "kind": "Secret"})])}});
    let (key, options) = (ObjectKey::namespaced("demo", "p"), PatchOptions::default());
    plane.merge(&policies(), &key, changed, options.clone()).await;
    while compared() == before {
        tokio::task::yield_now().await;
    }
    plane.merge(&config_maps(), &ObjectKey::namespaced("demo", "c7"), json!({"data": {"a": "2"}}), options).await;
    plane.settle().await;
    let synced = synced.lock().expect("the binding has the new version");
    assert!(compared() - before >= TEMPLATES as u64, "the pass has compared every template");
    assert!(synced < TEMPLATES as u64, "the change waited for the whole pass: {synced} of {TEMPLATES}");
    plane.shutdown().await;
}

/// After a restart each Work is queued when it becomes known, when the cache of its member is complete, and by the first list
/// of that cache; its cluster, which was ready before, does not queue it once more.
#[tokio::test(start_paused = true)]
async fn a_restart_queues_no_work_because_of_its_cluster() {
    const TEMPLATES: usize = 30;
    let mut plane = Plane::start().await;
    plane.network.mute_events();
    config_maps_of_a_policy(&plane, TEMPLATES).await;
    plane.restart_controllers().await;
    plane.settle().await;
    // Of the new queues.
    let adds = count(plane.metrics(), "workqueue_adds_total{name=\"execution-controller\",");
    let works = 2 * TEMPLATES as u64;
    assert!((works..=3 * works).contains(&adds), "{adds} additions of {works} Works");
    plane.shutdown().await;
}

/// Both controllers of Works share their passes. A busy machine may run one of them long before the other: no Work
/// may be passed over by the first and never queued for the second.
#[tokio::test(start_paused = true)]
async fn a_controller_that_runs_later_misses_no_work() {
    let mut plane = Plane::start().await;
    plane.stop_controllers().await;
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "thing", "namespace": "demo",
        "labels": {"karmada.io/managed": "true"},
        "annotations": {"work.karmada.io/namespace": "karmada-es-m1", "work.karmada.io/name": "thing"}}});
    let work = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": {"namespace": "karmada-es-m1", "name": "thing", "finalizers": ["karmada.io/execution-controller"]},
        "spec": {"workload": {"manifests": [manifest]}}});
    plane.create(Work::api_resource(), work).await;

    let context = plane.new_context();
    let called = |name: &str| {
        let row = controllers::CONTROLLERS.iter().find(|row| row.name == name).expect("a controller");
        (row.start)(context.clone())
    };
    let (dispatching, reporting) = (called("execution"), called("workStatus"));
    plane.run(reporting);
    tokio::time::sleep(Duration::from_secs(60)).await;
    plane.run(dispatching);
    let m1 = plane.member("m1");
    plane.until("the object", async || get(&m1, &config_maps(), &demo("thing")).await).await;
    plane.shutdown().await;
}
