//! Workloads that a HorizontalPodAutoscaler scales inside the members: their template is labelled, so that copies keep
//! their replicas in members, and the template's replicas follow their sum. Both controllers are off by default.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiResource, GroupVersionKind, Object, ObjectKey};
use client::{MapError, Patch, PatchOptions};
use controller_runtime::{Event, Next, WorkQueue, run_workers};
use karmada_api::constants::labels;
use karmada_api::names;
use karmada_api::scope::{Binding, Scope};
use propagation::replica_sync::{self, Sync};
use serde_json::{Value, json};

use crate::error::{During, Result, decoded};
use crate::{Context, templates};

/// How often a status of an older generation is read again (upstream's period).
const RECHECK: Duration = Duration::from_secs(1);

pub(crate) fn autoscalers() -> ApiResource {
    ApiResource::namespaced("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
}

fn deployments() -> ApiResource {
    ApiResource::namespaced("apps", "v1", "Deployment", "deployments")
}

/// The target of an autoscaler.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    gvk: GroupVersionKind,
    key: ObjectKey,
}

impl Target {
    fn of(autoscaler: &Object) -> Option<Self> {
        let tree = autoscaler.to_tree().ok()?;
        let reference = &tree["spec"]["scaleTargetRef"];
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let gvk = GroupVersionKind::from_api_version(text("apiVersion"), text("kind")).ok()?;
        Some(Self { gvk, key: ObjectKey::namespaced(autoscaler.namespace()?, text("name")) })
    }
}

/// Whether a policy propagates it.
pub(crate) fn is_claimed(object: &Object) -> bool {
    object.label(labels::POLICY_ID).is_some() || object.label(labels::CLUSTER_POLICY_ID).is_some()
}

/// Labels the targets of propagated autoscalers.
pub(crate) async fn run_marker(context: Context) {
    let queue: Arc<WorkQueue<Target>> = context.queue();
    let informer = context.control.informer(&autoscalers());
    let keys = queue.clone();
    informer.subscribe(move |event| {
        let former = match event {
            Event::Updated { old, .. } => Some(old),
            Event::Added { .. } | Event::Deleted(_) => None,
        };
        let states = || former.into_iter().chain([event.object()]);
        // Autoscalers that stay in the control plane do not affect objects marked by users.
        if states().any(|autoscaler| is_claimed(autoscaler)) {
            states().filter_map(|autoscaler| Target::of(autoscaler)).for_each(|target| keys.add(target));
        }
    });
    if !context.synced().await || !informer.synced().await {
        return;
    }
    let stop = context.stop.clone();
    run_workers("hpa-scale-target-marker", queue, 4, stop, move |target| {
        let context = context.clone();
        async move { mark(&context, &target).await }
    })
    .await;
}

/// The label is set with the first propagated autoscaler of the target, and stays as long as there is one.
async fn mark(context: &Context, target: &Target) -> Result<Next> {
    let autoscalers = autoscalers_of(context, target);
    let is_named = !autoscalers.is_empty();
    if is_named && !autoscalers.iter().any(|autoscaler| is_claimed(autoscaler)) {
        return Ok(Next::Done);
    }
    let resource = match context.mapper.resource(&target.gvk).await {
        Ok(resource) => resource,
        Err(MapError::NoMatch(_)) => return Ok(Next::Done),
        Err(error) => return Err(error.into()),
    };
    let Some(object) = templates::fetch(context, &resource, &target.key).await? else { return Ok(Next::Done) };
    if (object.label(labels::RETAIN_REPLICAS) == Some("true")) == is_named {
        return Ok(Next::Done);
    }
    let value = if is_named { json!("true") } else { Value::Null };
    let patch = json!({"metadata": {"uid": object.uid(), "labels": {labels::RETAIN_REPLICAS: value}}});
    match context.client.patch(&resource, &target.key, &Patch::Merge(patch), &PatchOptions::default()).await {
        Err(error) if error.is_not_found() => Ok(Next::Done),
        other => other.map(|_| Next::Done).during(|| format!("marking {} {}", resource.kind, target.key)),
    }
}

fn autoscalers_of(context: &Context, target: &Target) -> Vec<Arc<Object>> {
    let mut found = context.control.informer(&autoscalers()).cache().list(target.key.namespace());
    found.retain(|autoscaler| !autoscaler.is_deleting() && Target::of(autoscaler).as_ref() == Some(target));
    found
}

/// Writes the replicas of marked Deployments.
pub(crate) async fn run_syncer(context: Context) {
    let queue: Arc<WorkQueue<ObjectKey>> = context.queue();
    let informer = context.control.informer(&deployments());
    let keys = queue.clone();
    informer.subscribe(move |event| {
        if !matches!(event, Event::Deleted(_)) && is_marked(event.object()) {
            keys.add(event.object().key());
        }
    });
    if !context.synced().await || !informer.synced().await {
        return;
    }
    let stop = context.stop.clone();
    run_workers("deployment-replicas-syncer", queue, 4, stop, move |key| {
        let context = context.clone();
        async move { sync(&context, &key).await }
    })
    .await;
}

fn is_marked(object: &Object) -> bool {
    object.label(labels::RETAIN_REPLICAS) == Some("true")
}

async fn sync(context: &Context, key: &ObjectKey) -> Result<Next> {
    let cached = context.control.informer(&deployments()).cache().get(key);
    let Some(deployment) = cached.filter(|it| is_marked(it) && !it.is_deleting()) else { return Ok(Next::Done) };
    let of = ObjectKey::namespaced(key.namespace().unwrap_or_default(), names::binding_name("Deployment", key.name()));
    let Some(binding) = context.bindings(Scope::Namespaced).cache().get(&of) else { return Ok(Next::Done) };
    let tree = decoded(&deployment, deployment.to_tree())?;
    let replicas = match replica_sync::of_deployment(&tree, &Binding::decode(&binding)?) {
        Sync::Nothing => return Ok(Next::Done),
        Sync::Unsettled => return Ok(Next::After(RECHECK)),
        Sync::Replicas(replicas) => replicas,
    };
    // Based on the version that was read, so that a concurrent change of the template's replicas is not overwritten.
    let version = deployment.resource_version();
    let patch = Patch::Merge(json!({"metadata": {"resourceVersion": version}, "spec": {"replicas": replicas}}));
    match context.client.patch(&deployments(), key, &patch, &PatchOptions::default()).await {
        Err(error) if error.is_not_found() => Ok(Next::Done),
        other => other.map(|_| Next::Done).during(|| format!("writing the replicas of Deployment {key}")),
    }
}
