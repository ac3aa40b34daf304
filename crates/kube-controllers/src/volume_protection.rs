//! Removes the finalizers that the admission plugin StorageObjectInUseProtection adds: from a deleted claim that no pod
//! uses, and from a deleted volume that is not bound. It adds none: without the plugin there is no protection.

use std::sync::Arc;

use apimachinery::{ApiResource, Object, ObjectKey};
use client::ListOptions;
use client::{Patch, PatchOptions};
use controller_runtime::{Event, Next, WorkQueue, run_workers};
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::{Result, decoded};
use crate::resources::{CLAIMS, PODS, VOLUMES};
use crate::running::Starting;

const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";

pub(crate) async fn run_claims(context: Context, starting: Starting) {
    let queue: Arc<WorkQueue<ObjectKey>> = Arc::new(WorkQueue::new());
    let (claims, pods) = (context.informers.informer(&CLAIMS), context.informers.informer(&PODS));
    follow(&context, &CLAIMS, CLAIM_PROTECTION, &queue);
    let keys = queue.clone();
    pods.subscribe(move |event| {
        // A running pod keeps its claims; a finished or deleted pod may have been the last user.
        let object = event.object();
        let gone = matches!(event, Event::Deleted(_));
        if let Some(pod) = object.to_value().ok().filter(|pod| gone || !may_use(pod)) {
            for name in claims_of(&pod) {
                keys.add(ObjectKey::namespaced(object.namespace().unwrap_or_default(), name.as_str()));
            }
        }
    });
    if !claims.synced().await || !pods.synced().await {
        return;
    }
    drop(starting);
    let (workers, stop) = (context.settings.workers, context.stop.clone());
    run_workers("persistentvolumeclaim-protection-controller", queue, workers, stop, move |key| {
        let context = context.clone();
        async move { free_claim(&context, &key).await }
    })
    .await;
}

pub(crate) async fn run_volumes(context: Context, starting: Starting) {
    let queue: Arc<WorkQueue<ObjectKey>> = Arc::new(WorkQueue::new());
    let volumes = context.informers.informer(&VOLUMES);
    follow(&context, &VOLUMES, VOLUME_PROTECTION, &queue);
    if !volumes.synced().await {
        return;
    }
    drop(starting);
    let (workers, stop) = (context.settings.workers, context.stop.clone());
    run_workers("persistentvolume-protection-controller", queue, workers, stop, move |key| {
        let context = context.clone();
        async move { free_volume(&context, &key).await }
    })
    .await;
}

/// Queues deleted objects with this finalizer.
fn follow(
    context: &Context,
    resource: &'static ApiResource,
    finalizer: &'static str,
    queue: &Arc<WorkQueue<ObjectKey>>,
) {
    let keys = queue.clone();
    context.informers.informer(resource).subscribe(move |event| {
        if !matches!(event, Event::Deleted(_)) && waits_for(event.object(), finalizer) {
            keys.add(event.object().key());
        }
    });
}

fn waits_for(object: &Object, finalizer: &str) -> bool {
    object.is_deleting() && object.finalizers().iter().any(|existing| **existing == *finalizer)
}

/// Whether a kubelet may use the pod's volumes: the pod is scheduled and has not ended.
fn may_use(pod: &Value) -> bool {
    let has_node = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    has_node && !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// The claims that a pod names, and those created for it.
fn claims_of(pod: &Value) -> Vec<String> {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let pod_name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let claims = volumes.filter_map(|volume| {
        if let Some(name) = volume["persistentVolumeClaim"]["claimName"].as_str() {
            return Some(name.to_owned());
        }
        let own = volume.get("ephemeral").is_some_and(|source| !source.is_null());
        own.then(|| format!("{pod_name}-{}", volume["name"].as_str().unwrap_or_default()))
    });
    claims.collect()
}

async fn free_claim(context: &Context, key: &ObjectKey) -> Result<Next> {
    let cached = context.informers.informer(&CLAIMS).cache().get(key);
    if !cached.is_some_and(|claim| waits_for(&claim, CLAIM_PROTECTION)) {
        return Ok(Next::Done);
    }
    // Reads from the server and not from the cache: a pod may have been scheduled a moment ago.
    let pods = context.client.list(&PODS, key.namespace(), &ListOptions::default()).await?;
    for pod in &pods.items {
        let pod: Value = decoded(pod, pod.decode())?;
        if may_use(&pod) && claims_of(&pod).iter().any(|claim| claim == key.name()) {
            // The end of that pod queues it again.
            return Ok(Next::Done);
        }
    }
    lift(context, &CLAIMS, key, CLAIM_PROTECTION).await
}

async fn free_volume(context: &Context, key: &ObjectKey) -> Result<Next> {
    let Some(live) = context.client.get_opt(&VOLUMES, key).await? else { return Ok(Next::Done) };
    let volume: Value = decoded(&live, live.decode())?;
    if volume["status"]["phase"] == "Bound" {
        return Ok(Next::Done);
    }
    lift(context, &VOLUMES, key, VOLUME_PROTECTION).await
}

/// Removes the finalizer from the current object, if it is still the same one.
async fn lift(context: &Context, resource: &ApiResource, key: &ObjectKey, finalizer: &str) -> Result<Next> {
    let Some(live) = context.client.get_opt(resource, key).await? else { return Ok(Next::Done) };
    if !waits_for(&live, finalizer) {
        return Ok(Next::Done);
    }
    let left: Vec<&str> =
        live.finalizers().iter().map(|existing| &**existing).filter(|existing| *existing != finalizer).collect();
    let patch = json!({"metadata": {
        "uid": live.uid(), "resourceVersion": live.resource_version(), "finalizers": left}});
    match context.client.patch(resource, key, &Patch::Merge(patch), &PatchOptions::default()).await {
        Err(error) if error.is_not_found() => Ok(Next::Done),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(Next::Done),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_use_the_claims_they_name_and_their_own() {
        let pod = |node: &str, phase: &str| {
            json!({"metadata": {"name": "p"}, "status": {"phase": phase}, "spec": {"nodeName": node, "volumes": [
                {"name": "a", "persistentVolumeClaim": {"claimName": "shared"}}, {"name": "b", "ephemeral": {}},
                {"name": "c", "emptyDir": {}}]}})
        };
        assert_eq!(claims_of(&pod("n", "Running")), ["shared", "p-b"]);
        for (node, phase, expected) in
            [("n", "Running", true), ("n", "Pending", true), ("", "Pending", false), ("n", "Succeeded", false)]
        {
            assert_eq!(may_use(&pod(node, phase)), expected, "{node} {phase}");
        }
    }
}
