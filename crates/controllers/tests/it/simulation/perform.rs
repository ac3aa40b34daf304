//! Executes the steps of a history.

use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use client::{Client, DeleteOptions, Error, Patch, PatchOptions};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::names;
use karmada_api::scope::{Binding, Scope};
use serde_json::{Value, json};

use super::history::{Action, Amendment};
use super::kinds::{DEFINITION, Kind, Made, definition, definitions, template};
use super::policies::{key, overrides, policies};
use crate::harness::{Plane, namespaces};

/// Errors of steps that are too late or too early are expected.
pub fn tolerant<T>(result: Result<T, Error>) {
    if let Err(error) = result {
        let expected = error.is_not_found() || error.is_already_exists() || error.is_conflict();
        // A terminating namespace rejects creates; admission may reject a policy.
        assert!(expected || error.status().is_some(), "{error}");
    }
}

/// The finalizer that delays a template's deletion.
pub const HOLD: &str = "example.io/hold";

/// A member, or the control plane.
fn server(plane: &Plane, member: Option<&str>) -> Client {
    member.map_or_else(|| plane.client.clone(), |member| plane.member(member))
}

/// The binding of a template.
pub fn binding_of(kind: Kind, n: u8) -> (ApiResource, ObjectKey) {
    binding_named(kind, &template(n))
}

pub fn binding_named(kind: Kind, template: &str) -> (ApiResource, ObjectKey) {
    let name = names::binding_name(&kind.resource().kind, template);
    let scope = if kind.is_namespaced() { Scope::Namespaced } else { Scope::Cluster };
    (Binding::api_resource(scope), kind.key(&name))
}

/// Creates, or replaces as `kubectl replace` does: fields that the new object lacks are removed. Other managers' labels
/// and annotations are kept.
pub async fn put(plane: &Plane, resource: &ApiResource, key: &ObjectKey, object: Value) {
    match plane.client.create(resource, &object).await {
        Err(error) if error.is_already_exists() => {
            let Some(mut live) = plane.get(resource, key).await else { return };
            for (field, value) in object.as_object().into_iter().flatten() {
                match (field.as_str(), &value["labels"]) {
                    ("metadata", Value::Null) => {}
                    ("metadata", labels) => live["metadata"]["labels"]["colour"] = labels["colour"].clone(),
                    _ => live[field] = value.clone(),
                }
            }
            tolerant(plane.client.update(resource, &live).await);
        }
        other => tolerant(other),
    }
}

pub async fn delete(plane: &Plane, resource: &ApiResource, key: &ObjectKey) {
    tolerant(plane.client.delete(resource, key, &DeleteOptions::background()).await);
}

async fn put_template(plane: &Plane, kind: Kind, n: u8, made: &Made) {
    let name = template(n);
    put(plane, &kind.resource(), &kind.key(&name), kind.object(&name, made)).await;
}

impl Action {
    pub async fn perform(&self, plane: &mut Plane) {
        match self {
            Self::Template { kind, n, made } => put_template(plane, *kind, *n, made).await,
            Self::DropTemplate { kind, n } => delete(plane, &kind.resource(), &kind.key(&template(*n))).await,
            Self::ReplaceTemplate { kind, n, made } => {
                delete(plane, &kind.resource(), &kind.key(&template(*n))).await;
                put_template(plane, *kind, *n, made).await;
            }
            Self::Hold { kind, n, on } => {
                let finalizers = if *on { json!([HOLD]) } else { Value::Null };
                let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
                let (resource, key) = (kind.resource(), kind.key(&template(*n)));
                tolerant(plane.client.patch(&resource, &key, &patch, &PatchOptions::default()).await);
            }
            Self::DropNamespace => delete(plane, &namespaces(), &ObjectKey::cluster("demo")).await,
            Self::MakeNamespace => {
                let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "demo"}});
                tolerant(plane.client.create(&namespaces(), &namespace).await);
            }
            Self::DropNamespaceIn(member) => {
                let (client, key) = (plane.member(member), ObjectKey::cluster("demo"));
                tolerant(client.delete(&namespaces(), &key, &DeleteOptions::background()).await);
            }
            Self::DropDefinition(of) => {
                let (client, key) = (server(plane, *of), ObjectKey::cluster(DEFINITION));
                tolerant(client.delete(&definitions(), &key, &DeleteOptions::background()).await);
            }
            Self::MakeDefinition(of) => {
                tolerant(server(plane, *of).create(&definitions(), &definition()).await);
            }
            Self::Zone(member, zone) => {
                let (resource, key) = (Cluster::api_resource(), ObjectKey::cluster(*member));
                let patch = Patch::Merge(json!({"metadata": {"labels": {"zone": zone}}}));
                tolerant(plane.client.patch(&resource, &key, &patch, &PatchOptions::default()).await);
            }
            Self::Policy { cluster_wide, n, spec } => {
                let (resource, at) = (policies(*cluster_wide), key(*cluster_wide, format!("p{n}")));
                put(plane, &resource, &at, spec.object(&resource.kind, &at)).await;
            }
            Self::DropPolicy { cluster_wide, n } => {
                delete(plane, &policies(*cluster_wide), &key(*cluster_wide, format!("p{n}"))).await;
            }
            Self::Amend { cluster_wide, n, amendment } => amend(plane, *cluster_wide, *n, amendment).await,
            Self::Override { cluster_wide, n, kind, member, value } => {
                let (resource, at) = (overrides(*cluster_wide), key(*cluster_wide, format!("o{n}")));
                let of = kind.resource();
                let object = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": resource.kind,
                    "metadata": {"name": at.name(), "namespace": at.namespace()}, "spec": {
                        "resourceSelectors": [{"apiVersion": of.api_version(), "kind": of.kind}],
                        "overrideRules": [{"targetCluster": {"clusterNames": [member]}, "overriders": {
                            "plaintext": [{"path": kind.pointer(), "operator": "replace", "value": value}]}}]}});
                put(plane, &resource, &at, object).await;
            }
            Self::DropOverride { cluster_wide, n } => {
                delete(plane, &overrides(*cluster_wide), &key(*cluster_wide, format!("o{n}"))).await;
            }
            Self::DropBinding { kind, n } => {
                let (resource, key) = binding_of(*kind, *n);
                delete(plane, &resource, &key).await;
            }
            Self::SuspendScheduling { kind, n, on } => {
                let (resource, key) = binding_of(*kind, *n);
                let value = if *on { json!(true) } else { Value::Null };
                let patch = Patch::Merge(json!({"spec": {"suspension": {"scheduling": value}}}));
                tolerant(plane.client.patch(&resource, &key, &patch, &PatchOptions::default()).await);
            }
            Self::Evict { kind, n, purge } => evict(plane, *kind, *n, purge).await,
            Self::EndEvictions { kind, n } => {
                let (resource, key) = binding_of(*kind, *n);
                let patch = Patch::Merge(json!({"spec": {"gracefulEvictionTasks": null}}));
                tolerant(plane.client.patch(&resource, &key, &patch, &PatchOptions::default()).await);
            }
            Self::EditInMember { member, kind, n, disown } => {
                let mut patch = kind.patch("edited");
                if *disown {
                    patch["metadata"] = json!({"labels": {"karmada.io/managed": null}});
                }
                let (client, key) = (plane.member(member), kind.key(&template(*n)));
                let patch = if *kind == Kind::Widget { Patch::Merge(patch) } else { Patch::Strategic(patch) };
                tolerant(client.patch(&kind.resource(), &key, &patch, &PatchOptions::default()).await);
            }
            Self::DeleteInMember { member, kind, n } => {
                let (client, key) = (plane.member(member), kind.key(&template(*n)));
                tolerant(client.delete(&kind.resource(), &key, &DeleteOptions::background()).await);
            }
            Self::CreateInMember { member, kind, n } => {
                let made = Made { value: "theirs".to_owned(), replicas: 1, colour: "none", needs: None };
                let object = kind.object(&template(*n), &made);
                tolerant(plane.member(member).create(&kind.resource(), &object).await);
            }
            Self::Taint(member, effect) => {
                taint(plane, member, json!([{"key": "user", "value": "x", "effect": effect}])).await;
            }
            Self::Untaint(member) => taint(plane, member, json!([])).await,
            Self::Cut(member) => plane.network.cut(member),
            Self::Heal(member) => plane.network.heal(member),
            Self::Unjoin(member) => delete(plane, &Cluster::api_resource(), &ObjectKey::cluster(*member)).await,
            Self::Join(member) => {
                join(plane, member).await;
            }
            Self::Rejoin(member) => {
                delete(plane, &Cluster::api_resource(), &ObjectKey::cluster(*member)).await;
                // It may take longer if the cluster is unreachable.
                for _ in 0..60 {
                    if join(plane, member).await {
                        break;
                    }
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
            Self::Restart => plane.restart_controllers().await,
            Self::Overlap(time) => plane.overlap_controllers(*time),
            Self::NetworkFaults(faults) => plane.network.set_faults(Some(*faults)),
            Self::Wait(time) => tokio::time::sleep(*time).await,
            // The simulation handles these.
            Self::Backup | Self::Restore { .. } => {}
        }
    }
}

/// Returns whether there was no such cluster.
async fn join(plane: &Plane, member: &str) -> bool {
    let is_free = plane.get(&Cluster::api_resource(), &ObjectKey::cluster(member)).await.is_none();
    if is_free {
        plane.join(member).await;
    }
    is_free
}

async fn amend(plane: &Plane, cluster_wide: bool, n: u8, amendment: &Amendment) {
    let (resource, at) = (policies(cluster_wide), key(cluster_wide, format!("p{n}")));
    let change = async |change: &dyn Fn(&mut Value)| {
        let Some(mut policy) = plane.get(&resource, &at).await else { return };
        change(&mut policy["spec"]);
        tolerant(plane.client.update(&resource, &policy).await);
    };
    match amendment {
        Amendment::Priority(priority) => change(&|spec| spec["priority"] = json!(priority)).await,
        Amendment::Preserve(on) => change(&|spec| spec["preserveResourcesOnDeletion"] = json!(on)).await,
        Amendment::Suspend(suspends) => {
            change(&|spec| spec["suspension"] = suspends.suspension().unwrap_or_default()).await;
        }
        Amendment::Waver(member) => {
            let Some(policy) = plane.get(&resource, &at).await else { return };
            let there = policy["spec"]["placement"]["clusterAffinity"].clone();
            for affinity in [json!({"clusterNames": [member]}), there] {
                change(&|spec| spec["placement"]["clusterAffinity"] = affinity.clone()).await;
            }
        }
    }
}

/// Removes the first cluster from a binding's result, with a purge mode.
async fn evict(plane: &Plane, kind: Kind, n: u8, purge: &str) {
    let (resource, key) = binding_of(kind, n);
    let Some(mut binding) = plane.get(&resource, &key).await else { return };
    let Some(clusters) = binding["spec"]["clusters"].as_array_mut().filter(|clusters| !clusters.is_empty()) else {
        return;
    };
    let left = clusters.remove(0);
    let task = json!({"fromCluster": left["name"], "reason": "TaintUntolerated", "producer": "TaintManager",
        "purgeMode": purge});
    match binding["spec"]["gracefulEvictionTasks"].as_array_mut() {
        Some(tasks) => tasks.push(task),
        None => binding["spec"]["gracefulEvictionTasks"] = json!([task]),
    }
    tolerant(plane.client.update(&resource, &binding).await);
}

/// Sets the user's taints and keeps those of the control plane.
pub async fn taint(plane: &Plane, member: &str, own_taints: Value) {
    let (resource, key) = (Cluster::api_resource(), ObjectKey::cluster(member));
    let Some(mut cluster) = plane.get(&resource, &key).await else { return };
    let mut taints: Vec<Value> = cluster["spec"]["taints"].as_array().cloned().unwrap_or_default();
    taints.retain(|taint| taint["key"] != "user");
    taints.extend(own_taints.as_array().cloned().unwrap_or_default());
    cluster["spec"]["taints"] = json!(taints);
    tolerant(plane.client.update(&resource, &cluster).await);
}
