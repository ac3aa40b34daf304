//! Counts the usage of ResourceQuotas. The API server adds the usage of admitted objects; this controller subtracts
//! that of deleted ones, and recounts periodically.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiResource, Object, ObjectKey};
use client::ListOptions;
use controller_runtime::{Event, Next, WorkQueue, run_workers};
use futures::StreamExt;
use kubernetes_api::admission::quota;
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::{Result, decoded};
use crate::resources::RESOURCE_QUOTAS;
use crate::running::Starting;

/// kube-controller-manager's `--resource-quota-sync-period`.
const RECOUNT: Duration = Duration::from_secs(300);
/// Objects change in bursts; one count covers all changes of a moment.
const GATHER: Duration = Duration::from_millis(50);
/// The delay before the server's change stream is opened again.
const PAUSE: Duration = Duration::from_secs(1);

pub(crate) async fn run(context: Context, starting: Starting) {
    let queue: Arc<WorkQueue<ObjectKey>> = Arc::new(WorkQueue::new());
    let quotas = context.informers.informer(&RESOURCE_QUOTAS);
    let keys = queue.clone();
    quotas.subscribe(move |event| {
        // The server's and the counts' own status writes need no count.
        let concerns = match event {
            Event::Added { .. } => true,
            Event::Updated { old, new } => differs(old, new),
            Event::Deleted(_) => false,
        };
        if concerns {
            keys.add(event.object().key());
        }
    });
    if !quotas.synced().await {
        return;
    }
    drop(starting);
    let (workers, stop) = (context.settings.workers, context.stop.clone());
    let (following, keys, ended) = (context.clone(), queue.clone(), stop.clone());
    let following = tokio::spawn(async move { ended.run_until_cancelled(follow(following, keys)).await });
    run_workers("resourcequota-controller", queue, workers, stop, move |key| {
        let context = context.clone();
        async move { recount(&context, &key).await }
    })
    .await;
    drop(following.await);
}

fn differs(old: &Object, new: &Object) -> bool {
    let spec = |object: &Object| object.to_value().map(|tree| tree["spec"].clone()).unwrap_or_default();
    spec(old) != spec(new)
}

/// Queues the quotas of a namespace after changes. Quotas of remote servers are only recounted periodically.
async fn follow(context: Context, queue: Arc<WorkQueue<ObjectKey>>) {
    let quotas = context.informers.informer(&RESOURCE_QUOTAS);
    while context.client.is_in_process() {
        if let Ok(Some(mut changes)) = context.client.watch_everything().await {
            while let Some(change) = changes.following.next().await {
                let Some(object) = change.current.as_ref().or(change.previous.as_ref()) else { continue };
                let stays = change.current.is_some() && change.previous.is_some();
                // Pods also end, and services and claims change their usage.
                let changes_use =
                    ["core/pods", "core/services", "core/persistentvolumeclaims"].contains(&&*change.resource);
                if stays && !changes_use || &*change.resource == "core/resourcequotas" {
                    continue;
                }
                let Some(namespace) = object.namespace() else { continue };
                for quota in quotas.cache().list(Some(namespace)) {
                    queue.add_after(quota.key(), GATHER);
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn recount(context: &Context, key: &ObjectKey) -> Result<Next> {
    let Some(live) = context.client.get_opt(&RESOURCE_QUOTAS, key).await? else { return Ok(Next::Done) };
    let mut object: Value = decoded(&live, live.decode())?;
    let hard = object["spec"]["hard"].as_object().cloned().unwrap_or_default();
    let mut counted: Vec<(ApiResource, Value)> = Vec::new();
    for resource in served(context, &quota::counted(&hard)).await? {
        let list = context.client.list(&resource, key.namespace(), &ListOptions::default()).await?;
        for item in &list.items {
            counted.push((resource.clone(), decoded(item, item.decode())?));
        }
    }
    let objects = counted.iter().map(|(resource, object)| (resource.group.as_str(), resource.plural.as_str(), object));
    let used = quota::recount(&object, objects);
    let status = json!({"hard": hard, "used": used});
    if object["status"] != status {
        object["status"] = status;
        match context.client.update_status(&RESOURCE_QUOTAS, &object).await {
            // The server admitted an object in the meantime: count again.
            Err(error) if error.is_conflict() => return Ok(Next::After(GATHER)),
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
    }
    Ok(Next::After(RECOUNT))
}

/// The served resources among these groups and names, each in its preferred version.
async fn served(context: &Context, kinds: &BTreeSet<(String, String)>) -> Result<Vec<ApiResource>> {
    let find = |discovery: &client::Discovery| -> Vec<ApiResource> {
        let preferred = discovery.preferred().into_iter().map(|found| &found.resource);
        let named = |resource: &&ApiResource| {
            resource.namespaced && kinds.contains(&(resource.group.clone(), resource.plural.clone()))
        };
        preferred.filter(named).cloned().collect()
    };
    let known = find(&context.mapper.known());
    if known.len() == kinds.len() {
        return Ok(known);
    }
    Ok(find(&*context.mapper.refresh().await?))
}
