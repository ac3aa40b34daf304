//! Namespace deletion: deletes all content of a namespace that is being deleted, of every kind, and removes the
//! finalizer `kubernetes` only when the server returns no more objects.
//!
//! Each reconcile reads discovery. A group whose discovery fails, or a resource that cannot be listed, keeps the
//! namespace: its content is unknown.

mod conditions;

use std::sync::Arc;
use std::time::Duration;

use apimachinery::meta::{Condition, Time, null_as_default};
use apimachinery::object::ObjectTree as _;
use apimachinery::{ApiResource, Object, ObjectKey};
use client::{DeleteOptions, DiscoveredResource, ListOptions, Patch, PatchOptions, WriteOptions};
use controller_runtime::{Event, Next, WorkQueue, run_workers};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::{Error, Result, decoded};
use crate::resources::NAMESPACES;
use crate::running::Starting;
use conditions::{Content, Remaining};

const FINALIZER: &str = "kubernetes";

/// Other replicas of a remote server may accept new content for a moment; upstream waits as long.
const SETTLE: Duration = Duration::from_secs(5);

/// The page size of lists over a socket.
const PAGE: usize = 500;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Namespace {
    #[serde(deserialize_with = "null_as_default")]
    spec: Spec,
    #[serde(deserialize_with = "null_as_default")]
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    #[serde(deserialize_with = "null_as_default")]
    finalizers: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    phase: String,
    #[serde(deserialize_with = "null_as_default")]
    conditions: Vec<Condition>,
}

pub(crate) async fn run(context: Context, starting: Starting) {
    let queue: Arc<WorkQueue<Box<str>>> = Arc::new(WorkQueue::new());
    let namespaces = context.informers.informer(&NAMESPACES);
    let keys = queue.clone();
    let settle = if context.client.is_in_process() { Duration::ZERO } else { SETTLE };
    namespaces.subscribe(move |event| {
        if !matches!(event, Event::Deleted(_)) && event.object().is_deleting() {
            keys.add_after(event.object().name().into(), settle);
        }
    });
    if !namespaces.synced().await {
        return;
    }
    drop(starting);
    let (workers, stop) = (context.settings.workers, context.stop.clone());
    run_workers("namespace-controller", queue, workers, stop, move |name| {
        let context = context.clone();
        async move { reconcile(&context, &ObjectKey::cluster(&*name)).await }
    })
    .await;
}

async fn reconcile(context: &Context, key: &ObjectKey) -> Result<Next> {
    let cached = context.informers.informer(&NAMESPACES).cache().get(key);
    let Some(object) = cached.filter(|object| object.is_deleting()) else { return Ok(Next::Done) };
    let namespace: Namespace = decoded(&object, object.decode())?;
    if !namespace.spec.finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        return Ok(Next::Done);
    }
    let content = delete_content(context, key.name()).await?;
    // The namespace is removed with the next request, so a status write is not needed.
    if !content.is_empty() || !object.finalizers().is_empty() {
        report(context, key, &namespace.status, &content).await?;
    }
    if content.is_empty() {
        return finalize(context, &object, &namespace.spec).await;
    }
    Ok(Next::After(pause(object.deletion_timestamp(), context.now())))
}

/// How long to wait for foreign finalizers: short at first, up to upstream's 8 s.
fn pause(deleted: Option<&str>, now: Time) -> Duration {
    let since = deleted.and_then(|text| text.parse::<jiff::Timestamp>().ok());
    let waited = since.map_or(Duration::ZERO, |since| now.timestamp().duration_since(since).unsigned_abs());
    (waited / 4).clamp(Duration::from_millis(250), Duration::from_secs(8))
}

/// Deletes the content, and returns the remaining content.
async fn delete_content(context: &Context, namespace: &str) -> Result<Content> {
    let discovery = context.mapper.refresh().await?;
    let mut content =
        Content { undiscovered: discovery.failed.iter().map(ToString::to_string).collect(), ..Content::default() };
    let deletable = |found: &&DiscoveredResource| found.resource.namespaced && found.can("list") && found.can("delete");
    let mut resources: Vec<_> = discovery.preferred().into_iter().filter(deletable).collect();
    // Pods use other content, so they are deleted first, and the rest after them.
    resources.sort_by_key(|found| !is_pods(&found.resource));
    for found in resources {
        match delete_all(context, found, namespace).await {
            Ok(Some(remaining)) => {
                content.remaining.push(remaining);
                if is_pods(&found.resource) {
                    break;
                }
            }
            Ok(None) => {}
            // NotFound is a failure too: the next reconcile reads from discovery whether the resource still exists.
            Err(error) => content.failures.push(error.to_string()),
        }
    }
    Ok(content)
}

fn is_pods(resource: &ApiResource) -> bool {
    resource.group.is_empty() && resource.plural == "pods"
}

async fn delete_all(
    context: &Context,
    found: &DiscoveredResource,
    namespace: &str,
) -> client::Result<Option<Remaining>> {
    let resource = &found.resource;
    let before = list(context, resource, namespace).await?;
    let to_delete: Vec<_> = before.iter().filter(|object| !object.is_deleting()).collect();
    if to_delete.is_empty() {
        return Ok(Remaining::of(resource, &before));
    }
    let background = DeleteOptions::background();
    if found.can("deletecollection") {
        context.client.delete_collection(resource, Some(namespace), &ListOptions::default(), &background).await?;
    } else {
        for object in to_delete {
            match context.client.delete(resource, &object.key(), &background.clone().only_uid(object.uid())).await {
                Err(error) if !error.is_not_found() && !error.is_conflict() => return Err(error),
                _ => {}
            }
        }
    }
    Ok(Remaining::of(resource, &list(context, resource, namespace).await?))
}

async fn list(context: &Context, resource: &ApiResource, namespace: &str) -> client::Result<Vec<Arc<Object>>> {
    let limit = if context.client.is_in_process() { 0 } else { PAGE };
    let mut options = ListOptions { limit, ..ListOptions::default() };
    let mut items = Vec::new();
    loop {
        let page = context.client.list(resource, Some(namespace), &options).await?;
        items.extend(page.items);
        if page.continue_token.is_empty() {
            return Ok(items);
        }
        options.continue_token = Some(page.continue_token);
    }
}

async fn report(context: &Context, key: &ObjectKey, status: &Status, content: &Content) -> Result<()> {
    let Some(conditions) = conditions::updated(&status.conditions, content, context.now()) else { return Ok(()) };
    let mut patch = json!({"status": {"conditions": conditions}});
    if status.phase != "Terminating" {
        patch["status"]["phase"] = "Terminating".into();
    }
    match context.client.patch(&NAMESPACES, key, &Patch::Merge(patch), &PatchOptions::status()).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

/// Removes the namespace's own finalizer; other finalizers belong to other controllers.
async fn finalize(context: &Context, object: &Object, spec: &Spec) -> Result<Next> {
    let mut tree: Value = decoded(object, object.to_value())?;
    let left: Vec<_> = spec.finalizers.iter().filter(|finalizer| *finalizer != FINALIZER).collect();
    tree["spec"]["finalizers"] = json!(left);
    // With the current version as precondition: only the finalizer is removed, and concurrent changes are kept.
    if let Some(metadata) = tree.metadata_mut() {
        metadata.remove("resourceVersion");
    }
    let without = decoded(object, Object::from_value(&tree))?;
    match context.client.update_object(&NAMESPACES, Some("finalize"), &without, &WriteOptions::default()).await {
        Ok(_) => Ok(Next::Done),
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(Next::Done),
        Err(error) => Err(Error::from(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_the_wait() {
        let at = |text: &str| Time::new(text.parse().expect("a time"));
        let check = |deleted: Option<&str>, millis: u128| {
            assert_eq!(pause(deleted, at("2026-11-21T00:01:00Z")).as_millis(), millis, "{deleted:?}");
        };
        check(None, 250);
        check(Some("2026-11-21T00:01:00Z"), 250);
        check(Some("2026-11-21T00:00:50Z"), 2_500);
        check(Some("2026-11-21T00:00:00Z"), 8_000);
    }
}
