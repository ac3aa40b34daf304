//! Services across clusters: ServiceExport and ServiceImport, MultiClusterService, both together, and random histories.

mod exports;
mod history;
mod multi_cluster;
mod pulled;

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::{ApiResource, ObjectKey};
use client::{Client, DeleteOptions, ListOptions, PatchOptions};
use controller_runtime::InformerSet;
use controllers::{Gates, Settings};
use karmada_api::ApiType;
use karmada_api::multicluster::v1alpha1::{ServiceExport, ServiceImport};
use karmada_api::networking::v1alpha1::MultiClusterService;
use karmada_api::work::v1alpha1::Work;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::harness::{Plane, get};

fn slices() -> ApiResource {
    ApiResource::namespaced("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
}

fn services() -> ApiResource {
    ApiResource::namespaced("", "v1", "Service", "services")
}

fn policies() -> ApiResource {
    ApiResource::namespaced("policy.karmada.io", "v1alpha1", "PropagationPolicy", "propagationpolicies")
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("demo", name)
}

fn settings() -> Settings {
    Settings { gates: Gates { multi_cluster_service: true, ..Gates::default() }, ..Settings::default() }
}

/// A control plane with the gate open and a garbage collector, and members that serve the kinds of both mechanisms.
async fn start(members: &[&str], stop: &CancellationToken) -> Plane {
    let plane = Plane::of(members, settings()).await;
    let informers = InformerSet::until(plane.client.clone(), plane.world.clone(), stop.clone());
    let selection = ["garbage-collector-controller".to_owned(), "namespace-controller".to_owned()];
    let of = kube_controllers::Settings::default();
    kube_controllers::start(plane.client.clone(), &informers, of, &selection, stop.clone()).expect("they start");
    for member in members {
        define(&plane.member(member)).await;
    }
    plane
}

async fn joined(members: &[&str], stop: &CancellationToken) -> Plane {
    let plane = start(members, stop).await;
    for member in members {
        plane.join(member).await;
        plane.until_ready(member).await;
        until_namespace(&plane, member).await;
    }
    plane
}

async fn until_namespace(plane: &Plane, member: &str) {
    let client = plane.member(member);
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    plane.until("the namespace", async || get(&client, &namespaces, &ObjectKey::cluster("demo")).await).await;
}

/// Gives a member the definitions of ServiceExport and ServiceImport.
async fn define(member: &Client) {
    let resource =
        ApiResource::cluster("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions");
    let crds = karmada_api::crds().into_iter();
    for crd in crds.filter(|crd| crd["spec"]["group"] == "multicluster.x-k8s.io") {
        member.create(&resource, &crd).await.expect("the definition");
    }
}

/// An EndpointSlice as Kubernetes' controller writes it in a member.
async fn endpoints(plane: &Plane, member: &str, name: &str, service: &str, addresses: &[&str]) {
    let client = plane.member(member);
    let list: Vec<Value> = addresses.iter().map(|address| json!({"addresses": [address]})).collect();
    if get(&client, &slices(), &key(name)).await.is_some() {
        let patch = client::Patch::Merge(json!({"endpoints": list}));
        client.patch(&slices(), &key(name), &patch, &PatchOptions::default()).await.expect("the patch");
        return;
    }
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": name, "namespace": "demo", "labels": {"kubernetes.io/service-name": service,
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
        "endpoints": list, "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]});
    client.create(&slices(), &slice).await.expect("the slice");
}

async fn delete(client: &Client, resource: &ApiResource, name: &str) {
    client.delete(resource, &key(name), &DeleteOptions::default()).await.expect("the deletion");
}

async fn service(plane: &Plane, name: &str) {
    let object = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "demo"},
        "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 80}]}});
    plane.create(services(), object).await;
}

fn clusters(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"name": name})).collect()
}

async fn multi_cluster(plane: &Plane, name: &str, providers: &[&str], consumers: &[&str]) {
    let object = json!({"apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService",
        "metadata": {"name": name, "namespace": "demo"}, "spec": {"types": ["CrossCluster"],
            "providerClusters": clusters(providers), "consumerClusters": clusters(consumers)}});
    plane.create(MultiClusterService::api_resource(), object).await;
}

async fn change(plane: &Plane, name: &str, providers: &[&str], consumers: &[&str]) {
    let spec = json!({"spec": {"providerClusters": clusters(providers), "consumerClusters": clusters(consumers)}});
    plane.merge(&MultiClusterService::api_resource(), &key(name), spec, PatchOptions::default()).await;
}

/// Propagates one object by a policy of the same name as the kind and object.
async fn propagate(plane: &Plane, api_version: &str, kind: &str, name: &str, members: &[&str]) {
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": format!("{name}-{}", kind.to_lowercase()), "namespace": "demo"},
        "spec": {"resourceSelectors": [{"apiVersion": api_version, "kind": kind, "name": name}],
            "placement": {"clusterAffinity": {"clusterNames": members}}}});
    plane.create(policies(), policy).await;
}

const MULTICLUSTER: &str = "multicluster.x-k8s.io/v1alpha1";

async fn export(plane: &Plane, name: &str, members: &[&str]) {
    let object =
        json!({"apiVersion": MULTICLUSTER, "kind": "ServiceExport", "metadata": {"name": name, "namespace": "demo"}});
    plane.create(ServiceExport::api_resource(), object).await;
    propagate(plane, MULTICLUSTER, "ServiceExport", name, members).await;
}

async fn import(plane: &Plane, name: &str, members: &[&str]) {
    let object = json!({"apiVersion": MULTICLUSTER, "kind": "ServiceImport", "metadata": {"name": name, "namespace": "demo"},
        "spec": {"type": "ClusterSetIP", "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}});
    plane.create(ServiceImport::api_resource(), object).await;
    propagate(plane, MULTICLUSTER, "ServiceImport", name, members).await;
}

/// The slices of a Service in a server, with their addresses: `m1-web-1=10.0.0.1,10.0.0.2`.
async fn found(client: &Client, service: &str) -> String {
    let (resource, options) = (slices(), ListOptions::labels(format!("kubernetes.io/service-name={service}")));
    let items = client.list(&resource, Some("demo"), &options).await.expect("a list").items;
    let show = |slice: &Value| {
        let endpoints = slice["endpoints"].as_array().into_iter().flatten();
        let addresses: Vec<&str> = endpoints.filter_map(|it| it["addresses"][0].as_str()).collect();
        format!("{}={}", slice["metadata"]["name"].as_str().unwrap_or_default(), addresses.join(","))
    };
    let shown: BTreeSet<String> = items.iter().map(|item| show(&item.to_value().expect("JSON"))).collect();
    shown.into_iter().collect::<Vec<_>>().join(" ")
}

/// Waits until a MultiClusterService is gone.
async fn until_ended(plane: &Plane, name: &str) {
    let ended = async || plane.get(&MultiClusterService::api_resource(), &key(name)).await.is_none().then_some(());
    plane.until("the end", ended).await;
}

/// Waits until a server has exactly these slices of a Service.
async fn until(plane: &Plane, client: &Client, service: &str, expected: &str) {
    let last = parking_lot::Mutex::new(String::new());
    let what = format!("{service}: {expected}");
    let waiting = plane.until(&what, async || {
        let now = found(client, service).await;
        let same = now == expected;
        *last.lock() = now;
        same.then_some(())
    });
    tokio::select! {
        biased;
        () = waiting => {}
        () = tokio::time::sleep(std::time::Duration::from_secs(280)) => panic!("{service}: {expected:?}, found {:?}", last.lock()),
    }
}

/// Works of EndpointSlices in all execution namespaces: `m1/web-1 by ServiceExport` and `m2/m1-web-1`.
async fn works(plane: &Plane) -> BTreeSet<String> {
    let items = plane.client.list(&Work::api_resource(), None, &ListOptions::default()).await.expect("a list").items;
    let mut shown = BTreeSet::new();
    for item in items {
        let work = item.to_value().expect("JSON");
        let manifest = &work["spec"]["workload"]["manifests"][0];
        let collected = work["metadata"]["labels"]["endpointslice.karmada.io/managed-by"].as_str();
        let dispatched = work["metadata"]["annotations"]["endpointslice.karmada.io/provision-cluster"].as_str();
        if collected.is_none() && dispatched.is_none() {
            continue;
        }
        let cluster = item.namespace().and_then(|it| it.strip_prefix("karmada-es-")).unwrap_or_default().to_owned();
        let name = manifest["metadata"]["name"].as_str().unwrap_or_default();
        let by = collected.map(|by| format!(" by {by}")).unwrap_or_default();
        shown.insert(format!("{cluster}/{name}{by}"));
    }
    shown
}

/// The reasons of the events about objects of a kind, with how many different messages each has.
async fn reasons(plane: &Plane, kind: &str) -> BTreeMap<String, BTreeSet<String>> {
    let events = ApiResource::namespaced("", "v1", "Event", "events");
    let items = plane.client.list(&events, Some("demo"), &ListOptions::default()).await.expect("a list").items;
    let mut reasons: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for item in items {
        let event = item.to_value().expect("JSON");
        if event["involvedObject"]["kind"] == kind {
            let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
            reasons.entry(text("reason")).or_default().insert(text("message"));
        }
    }
    reasons
}

/// How often the control plane requested EndpointSlices from a member.
fn slice_requests(plane: &Plane, member: &str) -> u64 {
    let member = plane.context.members().connected(member).expect("connected");
    let rows = member.client.request_counts().into_iter();
    rows.filter(|row| row.resource == "endpointslices.discovery.k8s.io" && matches!(row.verb, "list" | "watch"))
        .map(|row| row.count)
        .sum()
}
