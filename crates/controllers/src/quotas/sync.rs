//! The static assignments of a quota: a Work with a ResourceQuota in each assigned cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use apimachinery::{Object, ObjectKey};
use client::DeleteOptions;
use controller_runtime::{Event, Next, WorkQueue, run_workers};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::{events, labels};
use karmada_api::names;
use karmada_api::policy::v1alpha1::FederatedResourceQuota;
use karmada_api::work::v1alpha1::Work;
use propagation::quotas;

use super::{WORKERS, informer, quota_of, works_of};
use crate::absence::certain;
use crate::error::{Error, Result, all, decode};
use crate::{Context, work_writes};

const COMPONENT: &str = "federated-resource-quota-sync-controller";

pub(crate) async fn run(context: Context) {
    let queue: Arc<WorkQueue<ObjectKey>> = context.queue();
    context.works.cache().add_label_index(labels::QUOTA_NAME);
    let quotas = informer(&context);
    let keys = queue.clone();
    quotas.subscribe(move |event| {
        if event.changes_generation() {
            keys.add(event.object().key());
        }
    });
    // A cluster that joins gets its part.
    let (keys, known) = (queue.clone(), quotas.clone());
    context.control.informer(&Cluster::api_resource()).subscribe(move |event| {
        if matches!(event, Event::Added { initial: false, .. }) {
            known.cache().keys().into_iter().for_each(|key| keys.add(key));
        }
    });
    // A Work that a user deleted is recreated; the Work of a quota that was deleted while no controller ran is deleted.
    let keys = queue.clone();
    context.works.subscribe(move |event| {
        if let (Event::Added { .. } | Event::Deleted(_), Some(key)) = (event, quota_of(event.object())) {
            keys.add(key);
        }
    });
    if !context.synced().await || !quotas.synced().await {
        return;
    }
    let stop = context.stop.clone();
    run_workers(COMPONENT, queue, WORKERS, stop, move |key| {
        let context = context.clone();
        async move { reconcile(&context, &key).await }
    })
    .await;
}

async fn reconcile(context: &Context, key: &ObjectKey) -> Result<Next> {
    let object = informer(context).cache().get(key).filter(|it| !it.is_deleting());
    let quota = object.as_deref().map(decode::<FederatedResourceQuota>).transpose()?;
    let is_known = |cluster: &str| {
        let cluster = context.clusters.get(cluster);
        cluster.is_some_and(|it| it.metadata.deletion_timestamp.is_none())
    };
    let works = match &quota {
        Some(quota) => quotas::works(quota, is_known).map_err(|error| Error::Wait(error.to_string()))?,
        None => Default::default(),
    };
    let (mut errors, mut written) = (Vec::new(), false);
    for (cluster, work) in works {
        match work_writes::write(context, work).await {
            Ok(changed) => written |= changed,
            Err(error) => errors.push(format!("cluster {cluster}: {error}")),
        }
    }
    match delete_unassigned(context, key, quota.as_ref()).await {
        Ok(deleted) => written |= deleted,
        Err(error) => errors.push(error.to_string()),
    }
    if let Some(object) = &object {
        let recorder = context.recorder.for_component(COMPONENT);
        if !errors.is_empty() {
            let why = errors.join("; ");
            let message = format!("Sync works for FederatedResourceQuota({key}) failed: {why}");
            recorder.warning(&**object, events::SYNC_WORK_FAILED, message);
        } else if written {
            let message = format!("Sync works for FederatedResourceQuota({key}) succeed.");
            recorder.normal(&**object, events::SYNC_WORK_SUCCEED, message);
        }
    }
    all(errors).map(|()| Next::Done)
}

/// Deletes the Works in clusters without an assignment by the quota. `quota` is from the cache; before a Work is
/// deleted, the server confirms that no newer version is stored.
async fn delete_unassigned(context: &Context, key: &ObjectKey, quota: Option<&FederatedResourceQuota>) -> Result<bool> {
    let assigned: BTreeSet<&str> =
        quota.iter().flat_map(|it| &it.spec.static_assignments).map(|it| it.cluster_name.as_str()).collect();
    let is_unassigned = |work: &Arc<Object>| {
        let cluster = work.namespace().and_then(names::cluster_of_namespace);
        cluster.is_some_and(|cluster| !assigned.contains(cluster)) && !work.is_deleting()
    };
    let works: Vec<_> = works_of(context, key).into_iter().filter(is_unassigned).collect();
    if works.is_empty() {
        return Ok(false);
    }
    let resource = FederatedResourceQuota::api_resource();
    let live = certain(&context.client, &resource, key).await?;
    let live = live.filter(|it| !it.is_deleting());
    let of = |uid: &str, generation: i64| (uid.to_owned(), generation);
    if live.map(|it| of(it.uid(), it.generation())) != quota.map(|it| of(&it.metadata.uid, it.metadata.generation)) {
        return Err(Error::Wait(format!("FederatedResourceQuota {key} is newer than the cached state; trying again")));
    }
    let mut errors = Vec::new();
    for work in works {
        let (key, options) = (work.key(), DeleteOptions::default().only_uid(work.uid()));
        match context.client.delete(&Work::api_resource(), &key, &options).await {
            Err(error) if !error.is_not_found() => errors.push(format!("deleting work {key}: {error}")),
            _ => {}
        }
    }
    all(errors).map(|()| true)
}
