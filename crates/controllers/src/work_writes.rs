//! Writes Works: only the differences to the newest known state, and the Works of one binding in one transaction.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::{Object, ObjectKey};
use client::Write;
use controller_runtime::Overlay;
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::identity::{ClusterName, WorkKey};
use karmada_api::work::v1alpha1::Work;
use propagation::works::{self, Rendered};

use crate::Context;
use crate::error::{During, Error, Result, decoded};

/// Works in one transaction. The API server takes up to 64 writes; a pass over more clusters has several transactions.
const TOGETHER: usize = 32;

/// A Work that is not as it was rendered.
enum Pending {
    Create(Work),
    Update(Work),
}

impl Pending {
    fn work(&self) -> &Work {
        match self {
            Self::Create(work) | Self::Update(work) => work,
        }
    }
}

/// Without new Works of leaving clusters. Present ones may still change, for example to preserve their objects.
pub(crate) fn without_late<E>(
    context: &Context,
    clusters: &BTreeMap<ClusterName, Arc<Cluster>>,
    mut rendered: Vec<std::result::Result<Rendered, E>>,
) -> Vec<std::result::Result<Rendered, E>> {
    let leaves = |name: &ClusterName| clusters.get(name).is_some_and(|it| it.metadata.deletion_timestamp.is_some());
    let is_new = |it: &Rendered| context.written_works.get(&it.work.key()).is_none();
    rendered.retain(|it| !it.as_ref().is_ok_and(|it| leaves(&it.cluster) && is_new(it)));
    rendered
}

/// Creates a Work, or updates the existing one. Returns whether anything was to be written.
pub(crate) async fn write(context: &Context, rendered: Work) -> Result<bool> {
    match pending(context, rendered)? {
        Some(pending) => write_single(context, &pending).await,
        None => Ok(false),
    }
}

/// [`write`] for the Works of one binding: in one transaction if the server supports it, otherwise one by one, so that
/// a refused one does not delay the others. The results are in the order of the Works.
pub(crate) async fn write_all(context: &Context, rendered: Vec<Work>) -> Vec<Result<bool>> {
    let decided = rendered.into_iter().map(|work| pending(context, work));
    let mut results = Vec::with_capacity(decided.len());
    let mut writes = Vec::new();
    for (place, decision) in decided.enumerate() {
        results.push(decision.as_ref().map(Option::is_some).map_err(|error| Error::Wait(error.to_string())));
        writes.extend(decision.ok().flatten().map(|pending| (place, pending)));
    }
    let groups = writes.chunks(TOGETHER).map(|group| async move {
        match write_together(context, group).await {
            Ok(true) => group.iter().map(|_| Ok(true)).collect(),
            Ok(false) => {
                let one_by_one = group.iter().map(|(_, pending)| write_single(context, pending));
                futures::future::join_all(one_by_one).await
            }
            Err(error) => {
                let why = error.to_string();
                group.iter().map(|_| Err(Error::Wait(why.clone()))).collect::<Vec<_>>()
            }
        }
    });
    let written = futures::future::join_all(groups).await;
    for ((place, _), result) in writes.iter().zip(written.into_iter().flatten()) {
        if let Some(known) = results.get_mut(*place) {
            *known = result;
        }
    }
    results
}

/// The pending change of a rendered Work.
fn pending(context: &Context, rendered: Work) -> Result<Option<Pending>> {
    let existing = || context.written_works.get(&rendered.key());
    if existing().is_some_and(|it| it.is_deleting())
        && let Ok(key) = WorkKey::try_from(rendered.key())
    {
        context.awaited_works.note(key);
    }
    match existing() {
        None => Ok(Some(Pending::Create(rendered))),
        Some(existing) => Ok(merged(&existing, rendered)?.map(Pending::Update)),
    }
}

fn merged(existing: &Arc<Object>, rendered: Work) -> Result<Option<Work>> {
    let work = decoded(existing, Work::from_object(existing))?;
    works::merge(&work, rendered).map_err(|error| Error::Wait(error.to_string()))
}

/// Returns whether the Works were written: all of them or none.
async fn write_together(context: &Context, group: &[(usize, Pending)]) -> Result<bool> {
    if group.len() < 2 || !context.client.is_in_process() {
        return Ok(false);
    }
    let resource = Work::api_resource();
    let keys: Vec<ObjectKey> = group.iter().map(|(_, pending)| pending.work().key()).collect();
    let writing = || format!("writing works {}", keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
    let mut writes = Vec::with_capacity(group.len());
    for (_, pending) in group {
        let write = match pending {
            Pending::Create(work) => Write::create(&resource, work),
            Pending::Update(work) => Write::update(&resource, work),
        };
        writes.push(write.during(writing)?);
    }
    let places: Vec<_> = keys.iter().map(|key| (Some(&context.written_works), key)).collect();
    let written = Overlay::write_together(&places, context.client.write_together(writes)).await;
    Ok(written.during(writing)?.is_some())
}

async fn write_single(context: &Context, pending: &Pending) -> Result<bool> {
    let (resource, works, key) = (Work::api_resource(), &context.written_works, pending.work().key());
    let writing = || format!("writing work {key}");
    let update = async |merged: &Work| works.write(&key, context.client.update(&resource, merged)).await;
    let rendered = match pending {
        Pending::Update(merged) => return update(merged).await.during(writing).map(|_| true),
        Pending::Create(rendered) => rendered,
    };
    match works.write(&key, context.client.create(&resource, rendered)).await {
        Ok(_) => Ok(true),
        // The cache lags behind, or another process was faster.
        Err(error) if error.is_already_exists() => {
            let existing = context.client.get(&resource, &key).await.during(writing)?;
            let Some(merged) = merged(&existing, rendered.clone())? else { return Ok(false) };
            update(&merged).await.during(writing).map(|_| true)
        }
        Err(error) => Err(error).during(writing),
    }
}
