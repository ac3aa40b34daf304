//! Evictions from clusters: by NoExecute taints, or because workloads are unhealthy, and the end of the old copy.
//!
//! `propagation::failover` decides. This module follows bindings, writes decisions with their source version as
//! precondition, and records events.

mod application;
mod brake;
mod graceful;
mod history;
mod pacing;
mod taint_manager;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use apimachinery::{Object, raw_json};
use client::{Patch, PatchOptions};
use controller_runtime::{Event, Involved, Priority, WorkQueue};
use karmada_api::constants::events;
use karmada_api::identity::{BindingKey, ClusterName};
use karmada_api::policy::v1alpha1::ClusterPurgeMode;
use karmada_api::scope::{Binding, Scope};
use karmada_api::work::v1alpha2::ResourceBindingSpec;
use parking_lot::Mutex;
use propagation::failover::brake::Limits;
use serde_json::{Value, json};

use crate::Context;
use crate::error::{During, Result};

pub(crate) use application::run as run_application;
pub(crate) use brake::Brake;
pub(crate) use graceful::run as run_graceful;
pub(crate) use history::History;
pub(crate) use taint_manager::run as run_taint_manager;

/// How workloads leave clusters; the defaults are upstream's but for the rate and the brake.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Eviction {
    /// `--enable-taint-manager` and `--enable-no-execute-taint-eviction`: NoExecute taints evict.
    pub by_taints: bool,
    /// `--no-execute-taint-eviction-purge-mode`
    pub purge_mode: ClusterPurgeMode,
    /// `--resource-eviction-rate`: evictions a second of one worker. Without it workloads leave as fast as the clusters
    /// that receive them report healthy copies.
    pub rate: Option<f64>,
    /// `--graceful-eviction-timeout`
    pub grace: Duration,
    pub brake: Limits,
}

impl Default for Eviction {
    fn default() -> Self {
        Self {
            by_taints: false,
            purge_mode: ClusterPurgeMode::Gracefully,
            rate: None,
            grace: Duration::from_secs(600),
            brake: Limits::default(),
        }
    }
}

/// Whether the spec of an object has a field, without decoding.
fn has(object: &Object, path: &[&str]) -> bool {
    let Some(spec) = object.member("spec") else { return false };
    let mut json = &spec[..];
    for name in path {
        let Some(span) = raw_json::member(json, name) else { return false };
        json = &json[span];
    }
    json != b"null"
}

/// Queues the bindings that concern a controller: with every change of them, and when a cluster turns ready or not
/// ready.
fn follow(context: &Context, queue: &Arc<WorkQueue<BindingKey>>, concerns: fn(&Object) -> bool) {
    let concerned: Arc<Mutex<BTreeSet<BindingKey>>> = Arc::default();
    for scope in Scope::ALL {
        let (keys, concerned) = (queue.clone(), concerned.clone());
        context.bindings(scope).subscribe(move |event| {
            let binding = event.object();
            let key = if !event.changes_generation() {
                // The spec, which decides, is as it was; most changes are of the status, and of bindings that do not
                // concern.
                concerned.lock().get(&binding.key()).cloned()
            } else if !matches!(event, Event::Deleted(_)) && concerns(binding) {
                let key = BindingKey::of(binding);
                concerned.lock().insert(key.clone());
                Some(key)
            } else {
                concerned.lock().take(&binding.key())
            };
            if let Some(key) = key {
                let initial = matches!(event, Event::Added { initial: true, .. });
                keys.add_with(key, if initial { Priority::Low } else { Priority::Normal });
            }
        });
    }
    let (keys, clusters) = (queue.clone(), context.clusters.clone());
    let ready: Mutex<BTreeMap<ClusterName, bool>> = Mutex::default();
    context.cluster_informer.subscribe(move |event| {
        let name = event.object().name();
        let is_ready = clusters.get(name).is_some_and(|cluster| cluster.is_ready());
        if ready.lock().insert(ClusterName::from(name), is_ready) != Some(is_ready) {
            concerned.lock().iter().for_each(|binding| keys.add(binding.clone()));
        }
    });
}

fn is_ready(context: &Context, cluster: &str) -> bool {
    context.clusters.get(cluster).is_some_and(|cluster| cluster.is_ready())
}

/// Writes the targets and the eviction tasks of a binding, onto the version they were decided for.
async fn write(context: &Context, binding: &Binding, spec: &ResourceBindingSpec) -> Result<()> {
    let list = |list: Value| if list.as_array().is_some_and(Vec::is_empty) { Value::Null } else { list };
    let metadata = json!({"uid": binding.metadata.uid, "resourceVersion": binding.metadata.resource_version});
    let patch = json!({"metadata": metadata, "spec": {
        "clusters": list(json!(spec.clusters)), "gracefulEvictionTasks": list(json!(spec.graceful_eviction_tasks)),
    }});
    let (resource, key) = (Binding::api_resource(binding.scope), binding.key());
    let written = context.client.patch(&resource, &key, &Patch::Merge(patch), &PatchOptions::default()).await;
    written.map(drop).during(|| format!("writing the evictions of {} {key}", resource.kind))
}

/// Both objects that events about an eviction are recorded for.
fn subjects(object: &Object, binding: &Binding) -> [Involved; 2] {
    let template = &binding.spec.resource;
    let template = Involved {
        api_version: template.api_version.clone(),
        kind: template.kind.clone(),
        namespace: template.namespace.clone(),
        name: template.name.clone(),
        uid: template.uid.clone(),
        resource_version: template.resource_version.clone(),
    };
    [Involved::from(object), template]
}

/// The event of a cluster that a workload cannot leave.
fn record_failed(
    context: &Context,
    component: &'static str,
    subjects: [Involved; 2],
    cluster: &str,
    why: &dyn std::fmt::Display,
) {
    let recorder = context.recorder.for_component(component);
    for subject in subjects {
        let message = format!("Evict from cluster {cluster} failed: {why}");
        recorder.warning(subject, events::EVICT_WORKLOAD_FROM_CLUSTER_FAILED, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_spec_are_found() {
        for (spec, expected) in [
            (json!({"failover": {"application": {"decisionConditions": {}}}}), true),
            (json!({"failover": {"application": null}}), false),
            (json!({"failover": {"cluster": {}}}), false),
            (json!({"failover": null}), false),
            (json!({}), false),
        ] {
            let object = Object::from_value(&json!({"metadata": {"name": "a"}, "spec": spec})).unwrap();
            assert_eq!(has(&object, &["failover", "application"]), expected, "{spec}");
        }
        assert!(!has(&Object::from_value(&json!({"metadata": {"name": "a"}})).unwrap(), &["failover"]));
    }
}
