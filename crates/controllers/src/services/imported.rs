//! EndpointSlices of the control plane for collected Works of exported Services.

use std::sync::Arc;

use apimachinery::{Object, ObjectKey};
use client::DeleteOptions;
use controller_runtime::{Event, Informer, Next, WorkQueue, run_workers};
use karmada_api::ApiType;
use karmada_api::constants::{annotations, finalizers, labels};
use karmada_api::identity::WorkKey;
use karmada_api::work::v1alpha1::Work;
use multicluster::collected::Collectors;
use multicluster::imported::{self, Step};
use serde_json::json;

use super::{WORKERS, slice_works, slices};
use crate::Context;
use crate::absence::certain;
use crate::error::{During, Error, Result, all, decoded};

const NAME: &str = "endpointslice-controller";
/// The index of imported slices by their source Work.
const WORK: &str = "imported-from";

pub(crate) async fn run(context: Context) {
    let queue: Arc<WorkQueue<WorkKey>> = context.queue();
    let informer = context.control.informer(&slices());
    informer.cache().add_index(WORK, |slice| source(slice).map(|work| work.to_string()).into_iter().collect());
    let keys = queue.clone();
    informer.subscribe(move |event| {
        let old = match event {
            Event::Updated { old, .. } => Some(old),
            Event::Added { .. } | Event::Deleted(_) => None,
        };
        old.into_iter().chain([event.object()]).filter_map(|slice| source(slice)).for_each(|key| keys.add(key));
    });
    let keys = queue.clone();
    context.works.subscribe(move |event| {
        let work = event.object();
        let concerns = |work: &Object| work.label(labels::ENDPOINT_SLICE_MANAGED_BY).is_some() || has_finalizer(work);
        let changes = match event {
            // Statuses are written to these Works, too.
            Event::Updated { old, new } => {
                event.changes_generation() || old.labels() != new.labels() || old.finalizers() != new.finalizers()
            }
            Event::Added { .. } | Event::Deleted(_) => true,
        };
        if changes && concerns(work) {
            WorkKey::of(work).into_iter().for_each(|key| keys.add(key));
        }
    });
    if !context.synced().await || !informer.synced().await {
        return;
    }
    let stop = context.stop.clone();
    run_workers(NAME, queue, WORKERS, stop, move |key| {
        let (context, informer) = (context.clone(), informer.clone());
        async move { reconcile(&context, &informer, &key).await }
    })
    .await;
}

/// The source Work of an imported slice.
fn source(slice: &Object) -> Option<WorkKey> {
    let is_imported = slice.label(labels::KUBERNETES_SLICE_MANAGED_BY) == Some(labels::SLICE_MANAGED_BY_IMPORT);
    is_imported.then_some(())?;
    let namespace = slice.annotation(annotations::WORK_NAMESPACE)?;
    WorkKey::try_from(ObjectKey::namespaced(namespace, slice.annotation(annotations::WORK_NAME)?)).ok()
}

fn has_finalizer(work: &Object) -> bool {
    work.finalizers().iter().any(|finalizer| **finalizer == *finalizers::ENDPOINT_SLICE)
}

async fn reconcile(context: &Context, informer: &Informer, key: &WorkKey) -> Result<Next> {
    let object = context.written_works.get(key).filter(|_| context.works.cache().get(key).is_some());
    let work = object.as_ref().map(|it| decoded(it.key(), Work::from_object(it))).transpose()?;
    let existing = informer.cache().by_index(WORK, &key.to_string());
    let is_taken = |namespace: &str, name: &str| {
        let other = informer.cache().get(&ObjectKey::namespaced(namespace, name));
        other.is_some_and(|other| source(&other).as_ref() != Some(key))
    };
    let service = object.as_ref().and_then(|work| slice_works::collected_service(work));
    let namespace = service.as_ref().and_then(ObjectKey::namespace).unwrap_or_default();
    let desired = work.as_ref().and_then(|work| imported::desired(work, |name| is_taken(namespace, name)));
    let Some(mut desired) = desired else {
        if !existing.is_empty() {
            confirm_end(context, key).await?;
            delete(context, existing.iter()).await?;
        }
        return match object.filter(|work| has_finalizer(work)) {
            Some(work) => slice_works::release(context, &work, finalizers::ENDPOINT_SLICE).await,
            None => Ok(Next::Done),
        };
    };
    let (kept, doubles): (Vec<_>, Vec<_>) =
        existing.iter().enumerate().partition(|(at, slice)| *at == 0 && slice.namespace() == Some(namespace));
    delete(context, doubles.into_iter().map(|(_, slice)| slice)).await?;
    match kept.first() {
        None => create(context, &desired).await,
        Some((_, slice)) => {
            // The existing slice keeps its name.
            desired["metadata"]["name"] = json!(slice.name());
            update(context, slice, &desired).await
        }
    }
    .map(|()| Next::Done)
}

async fn create(context: &Context, desired: &serde_json::Value) -> Result<()> {
    let created = context.client.create(&slices(), desired).await;
    created.map(drop).during(|| format!("creating EndpointSlice {}", desired["metadata"]["name"]))
}

async fn update(context: &Context, slice: &Arc<Object>, desired: &serde_json::Value) -> Result<()> {
    match imported::step(&decoded(slice.key(), slice.to_value())?, desired) {
        Step::Nothing => Ok(()),
        // Its deletion leads to the next pass.
        Step::Recreate => delete(context, std::iter::once(slice)).await,
        Step::Update(merged) => {
            let updated = context.client.update(&slices(), &merged).await;
            updated.map(drop).during(|| format!("updating EndpointSlice {}", slice.key()))
        }
    }
}

async fn delete(context: &Context, slices_: impl Iterator<Item = &Arc<Object>>) -> Result<()> {
    let mut errors = Vec::new();
    for slice in slices_ {
        let (key, options) = (slice.key(), DeleteOptions::default().only_uid(slice.uid()));
        match context.client.delete(&slices(), &key, &options).await {
            Err(error) if !error.is_not_found() => errors.push(format!("deleting EndpointSlice {key}: {error}")),
            _ => {}
        }
    }
    all(errors)
}

/// The server confirms that no export requires the slices of the Work.
async fn confirm_end(context: &Context, key: &WorkKey) -> Result<()> {
    let Some(live) = certain(&context.client, &Work::api_resource(), key).await? else { return Ok(()) };
    let by = live.label(labels::ENDPOINT_SLICE_MANAGED_BY).map(Collectors::parse).unwrap_or_default();
    match by.export && !live.is_deleting() {
        true => Err(Error::Wait(format!("work {key} is newer than the cache; its EndpointSlice stays"))),
        false => Ok(()),
    }
}
