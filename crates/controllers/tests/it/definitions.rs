//! Kinds whose definitions change or are deleted.

use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use client::{DeleteOptions, PatchOptions};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::labels;
use karmada_api::identity::{ClusterName, WorkKey};
use karmada_api::names;
use karmada_api::scope::{Binding, Scope};
use karmada_api::work::v1alpha1::Work;
use serde_json::{Value, json};

use crate::by_hand::config_maps;
use crate::dependencies::{demo, deployments};
use crate::harness::{Plane, get};

const NAME: &str = "widgets.example.io";

fn definitions() -> ApiResource {
    ApiResource::cluster("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
}

fn widgets() -> ApiResource {
    ApiResource::namespaced("example.io", "v1", "Widget", "widgets")
}

/// The first version is stored.
fn definition(versions: &[&str]) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version =
        |name: &&str| json!({"name": name, "served": true, "storage": *name == versions[0], "schema": schema});
    let versions: Vec<Value> = versions.iter().map(version).collect();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": NAME},
        "spec": {"group": "example.io", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": versions}})
}

async fn widget(plane: &Plane, name: &str) {
    let widget = json!({"apiVersion": "example.io/v1", "kind": "Widget",
        "metadata": {"name": name, "namespace": "demo"}, "spec": {"a": 1}});
    plane.until("the kind is served", async || plane.client.create(&widgets(), &widget).await.ok()).await;
}

async fn change(plane: &Plane, name: &str, value: i64) {
    plane.merge(&widgets(), &demo(name), json!({"spec": {"a": value}}), PatchOptions::default()).await;
}

/// Waits until the widget of m1 has the value.
async fn until_in_m1(plane: &Plane, name: &str, value: i64) {
    let member = plane.member("m1");
    let has_value = async || {
        let found = get(&member, &widgets(), &demo(name)).await?;
        (found["spec"]["a"] == value).then_some(())
    };
    plane.until(&format!("{name} of m1 has the value {value}"), has_value).await;
}

/// Serves widgets in the control plane and in m1.
async fn define(plane: &Plane) {
    plane.create(definitions(), definition(&["v1"])).await;
    plane.member("m1").create(&definitions(), &definition(&["v1"])).await.expect("the definition");
}

/// Policies select by version: the addition of a version that the server prefers ends no propagation.
#[tokio::test(start_paused = true)]
async fn another_preferred_version_ends_no_propagation() {
    let mut plane = Plane::start().await;
    define(&plane).await;
    widget(&plane, "w").await;
    let policies =
        ApiResource::cluster("policy.karmada.io", "v1alpha1", "ClusterPropagationPolicy", "clusterpropagationpolicies");
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy",
        "metadata": {"name": "widgets"}, "spec": {"resourceSelectors": [{"apiVersion": "example.io/v1", "kind": "Widget"}],
        "placement": {"clusterAffinity": {"clusterNames": ["m1"]}}}});
    plane.create(policies, policy).await;
    until_in_m1(&plane, "w", 1).await;

    let both = definition(&["v1", "v2"]);
    plane.merge(&definitions(), &ObjectKey::cluster(NAME), both, PatchOptions::default()).await;
    // The detector discovers every 30 s.
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    change(&plane, "w", 2).await;
    until_in_m1(&plane, "w", 2).await;
    widget(&plane, "later").await;
    until_in_m1(&plane, "later", 1).await;

    plane.restart_controllers().await;
    plane.settle().await;
    change(&plane, "w", 3).await;
    until_in_m1(&plane, "w", 3).await;
    plane.shutdown().await;
}

/// A dependency is propagated again after its definition was deleted and recreated.
#[tokio::test(start_paused = true)]
async fn dependencies_of_a_recreated_kind_are_propagated() {
    let plane = Plane::start().await;
    define(&plane).await;
    let script = "function GetDependencies(o) \
        return {{apiVersion = 'example.io/v1', kind = 'Widget', namespace = o.metadata.namespace, name = 'w'}} end";
    let customization = json!({"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "ours"}, "spec": {"target": {"apiVersion": "apps/v1", "kind": "Deployment"},
        "customizations": {"dependencyInterpretation": {"luaScript": script}}}});
    let customizations = ApiResource::cluster(
        "config.karmada.io",
        "v1alpha1",
        "ResourceInterpreterCustomization",
        "resourceinterpretercustomizations",
    );
    plane.create(customizations, customization).await;
    plane.settle().await;
    widget(&plane, "w").await;
    crate::dependencies::application(&plane, "web", "m1", json!({})).await;
    until_in_m1(&plane, "w", 1).await;

    let delete = async |resource: &ApiResource, key: &ObjectKey| {
        plane.client.delete(resource, key, &DeleteOptions::default()).await.expect("the deletion");
        plane.until("it is gone", async || plane.get(resource, key).await.is_none().then_some(())).await;
    };
    delete(&widgets(), &demo("w")).await;
    // The garbage collector, which this plane does not run, deletes the binding with its template.
    delete(&Binding::api_resource(Scope::Namespaced), &demo("w-widget")).await;
    delete(&definitions(), &ObjectKey::cluster(NAME)).await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    plane.create(definitions(), definition(&["v1"])).await;
    widget(&plane, "w").await;
    until_in_m1(&plane, "w", 1).await;
    change(&plane, "w", 2).await;
    until_in_m1(&plane, "w", 2).await;
    assert!(plane.get(&deployments(), &demo("web")).await.is_some());
    plane.shutdown().await;
}

/// The API enablements of m1.
async fn enabled(plane: &Plane) -> Value {
    let cluster = plane.get(&Cluster::api_resource(), &ObjectKey::cluster("m1")).await.expect("the cluster");
    cluster["status"]["apiEnablements"].clone()
}

/// Nor is it lost when a writer removes what it was recorded as.
#[tokio::test(start_paused = true)]
async fn an_unchanged_discovery_is_not_sent_again() {
    let plane = Plane::start().await;
    plane.until_ready("m1").await;
    let minute = Duration::from_secs(60);
    tokio::time::sleep(minute).await;
    plane.network.record(false);
    tokio::time::sleep(minute).await;
    let sent = plane.network.recorded();
    let is_answer = |line: &&String| line.contains(" m1 GET /api") && !line.ends_with(" sent");
    let answers: Vec<&String> = sent.iter().filter(is_answer).collect();
    assert!(answers.len() >= 10 && answers.iter().all(|line| line.ends_with(" 304")), "{answers:?}");

    let before = enabled(&plane).await;
    plane.member("m1").create(&definitions(), &definition(&["v1"])).await.expect("the definition");
    let with_widgets = async || {
        let now = enabled(&plane).await;
        now.as_array()?.iter().any(|group| group["groupVersion"] == "example.io/v1").then_some(now)
    };
    let after = plane.until("the kind is recorded", with_widgets).await;
    assert_eq!(after.as_array().map(Vec::len), before.as_array().map(|groups| groups.len() + 1));

    let emptied = json!({"status": {"apiEnablements": null}});
    let options = PatchOptions { subresource: Some("status"), ..PatchOptions::default() };
    plane.merge(&Cluster::api_resource(), &ObjectKey::cluster("m1"), emptied, options).await;
    plane.until("the kinds are recorded again", async || (enabled(&plane).await == after).then_some(())).await;
    plane.shutdown().await;
}

/// A Work for m1 with one manifest, labelled as those of bindings are.
async fn work(plane: &Plane, mut manifest: Value) {
    let name = manifest["kind"].as_str().expect("a kind").to_lowercase();
    manifest["metadata"]["labels"] = json!({labels::MANAGED: "true"});
    let work = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": {"name": name, "namespace": "karmada-es-m1"}, "spec": {"workload": {"manifests": [manifest]}}});
    plane.create(Work::api_resource(), work).await;
}

/// The Works of a new namespace and of its contents are dispatched together, in any order.
#[tokio::test(start_paused = true)]
async fn contents_of_a_namespace_that_is_being_created_report_no_failure() {
    let plane = Plane::start().await;
    let namespace = WorkKey::new(&ClusterName::from("m1"), names::work_name("Namespace", "later", ""));
    let manifest = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "later", "labels": {labels::MANAGED: "true"}}});
    let work_of_namespace = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": {"name": namespace.name(), "namespace": "karmada-es-m1"},
        "spec": {"suspendDispatching": true, "workload": {"manifests": [manifest]}}});
    plane.create(Work::api_resource(), work_of_namespace).await;
    let metadata = json!({"name": "early", "namespace": "later"});
    work(&plane, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let waiting = plane.get(&Work::api_resource(), &ObjectKey::namespaced("karmada-es-m1", "configmap")).await;
    assert_eq!(waiting.expect("the Work")["status"], Value::Null);

    let resumed = json!({"spec": {"suspendDispatching": false}});
    plane.merge(&Work::api_resource(), &namespace, resumed, PatchOptions::default()).await;
    let since = tokio::time::Instant::now();
    let member = plane.member("m1");
    let applied = async || get(&member, &config_maps(), &ObjectKey::namespaced("later", "early")).await;
    plane.until("the object", applied).await;
    assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
    plane.shutdown().await;
}

/// Half an hour without the namespace or the definition lets the back-off grow to 1000 s.
#[tokio::test(start_paused = true)]
async fn a_work_is_applied_as_soon_as_its_namespace_and_its_definition_exist() {
    let plane = Plane::start().await;
    plane.create(definitions(), definition(&["v1"])).await;
    widget(&plane, "template").await;
    let metadata = json!({"name": "early", "namespace": "later"});
    work(&plane, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).await;
    work(&plane, json!({"apiVersion": "example.io/v1", "kind": "Widget", "metadata": metadata})).await;
    tokio::time::sleep(Duration::from_mins(30)).await;

    let member = plane.member("m1");
    for (manifest, resource) in [
        (json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "later"}}), config_maps()),
        (definition(&["v1"]), widgets()),
    ] {
        assert_eq!(get(&member, &resource, &ObjectKey::namespaced("later", "early")).await, None);
        work(&plane, manifest).await;
        let since = tokio::time::Instant::now();
        let applied = async || get(&member, &resource, &ObjectKey::namespaced("later", "early")).await;
        plane.until("the waiting object", applied).await;
        assert!(since.elapsed() < Duration::from_secs(10), "{} after {:?}", resource.kind, since.elapsed());
    }
    plane.shutdown().await;
}
