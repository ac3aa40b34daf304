//! One manifest into one member.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiResource, Object, ObjectKey};
use client::WriteOptions;
use karmada_api::ApiType;
use karmada_api::raw::RawJson;
use karmada_api::work::v1alpha1::Work;
use propagation::contest::Contests;
use propagation::retain::{Update, is_managed, plan_update};
use propagation::template::Template;
use serde_json::Value;

use super::compare::covers;
use super::contest::{self, Review};
use crate::Context;
use crate::error::{During, Error, Result, decoded};
use crate::members::Member;
use crate::metrics::result;
use crate::resume::Permit;

/// How long a new Work waits for the member's cache before its object is read individually.
const CACHE_WAIT: Duration = Duration::from_millis(100);

/// How often a write is tried against newer versions of the object.
const CONFLICTS: usize = 5;

pub(super) struct Applied {
    pub object: Arc<Object>,
    pub wrote: bool,
    /// The fields left to other managers in the member, if the policy permits it.
    pub yielded: Vec<String>,
}

impl Applied {
    fn new(object: Arc<Object>, wrote: bool) -> Self {
        Self { object, wrote, yielded: Vec::new() }
    }
}

/// A manifest with its target.
pub(super) struct Manifest {
    /// As in the Work.
    pub object: Object,
    pub resource: ApiResource,
    pub key: ObjectKey,
}

impl Manifest {
    /// The control plane's knowledge of kinds is used for members too, as upstream does.
    pub(super) async fn read(context: &Context, raw: &RawJson) -> Result<Self> {
        let object = decoded("manifest", Object::parse_valid(raw.bytes()))?;
        let (resource, key) = (context.mapper.resource(&object.gvk()).await?, object.key());
        Ok(Self { object, resource, key })
    }

    /// Only for comparisons and changes: a new object is sent to the member unchanged.
    pub(super) fn tree(&self) -> Result<Value> {
        decoded("manifest", self.object.to_tree())
    }
}

/// One manifest to be written into a member.
#[derive(Clone, Copy)]
pub(super) struct Attempt<'a> {
    pub context: &'a Context,
    pub member: &'a Arc<Member>,
    pub work: &'a Object,
    pub manifest: &'a Manifest,
    pub permit: &'a Permit,
    /// The member has had this very manifest, so that only edits of it are undone.
    pub had: bool,
}

/// Creates or updates.
pub(super) async fn apply(attempt: Attempt<'_>, contests: &mut Contests) -> Result<Applied> {
    let Attempt { context, member, work, manifest, permit, had } = attempt;
    let Manifest { resource, key, .. } = manifest;
    let mut observed = match cached(context, member, manifest).await? {
        Some(observed) => observed,
        None => match create(context, member, manifest, permit, had).await {
            Ok(object) => return Ok(Applied::new(object, true)),
            // The cache contains only managed objects, so this one may belong to any client.
            Err(error) if error.is_already_exists() => live(member, resource, key).await?,
            Err(error) => return Err(error).during(|| format!("creating {} {key}", resource.kind)),
        },
    };
    let rendered = manifest.tree()?;
    for _ in 0..CONFLICTS {
        let current = decoded(&observed, observed.to_tree())?;
        let tree = &*contest::left_to_member(contests, manifest, &rendered, &current);
        // Retained fields and fields added by the member do not matter if the object has everything of the manifest.
        if had && is_managed(Template(&current)) && covers(&current, tree) {
            return Ok(Applied::new(observed, false));
        }
        let plan = context.interpreting.decide(|interpreter| plan_update(tree, &current, interpreter, &member.name));
        let desired = match plan.await {
            Ok(Update::Unchanged) => return Ok(Applied::new(observed, false)),
            Ok(Update::Put(desired)) => desired,
            Err(error) => return Err(Error::Wait(error.to_string())),
        };
        let is_covered = covers(&current, &desired);
        if had && is_covered {
            return Ok(Applied::new(observed, false));
        }
        permit.allows(context, member, &observed)?;
        if !is_managed(Template(&current)) {
            is_current(context, work).await?;
        }
        let drifts = match contest::review(attempt, contests, &rendered, &mut observed, &current, &desired).await? {
            Review::Again => continue,
            Review::Revert(drifts) => drifts,
        };
        // A new mark alone causes no write: an object that differs only by defaults keeps its mark.
        let mut desired = desired;
        if !is_covered {
            permit.mark(&mut desired);
        }
        let updated = member.client.update(resource, &desired).await;
        let version = resource.api_version();
        let labels = |outcome| [result(&updated), &version, &resource.kind, &member.name, outcome];
        let outcome = match &updated {
            Ok(object) if object.resource_version() == observed.resource_version() => "unchanged",
            Ok(_) => "updated",
            Err(_) => "none",
        };
        context.metrics.updates.increment(&labels(outcome));
        match updated {
            Ok(object) => {
                let wrote = object.resource_version() != observed.resource_version();
                contest::reverted(attempt, contests, drifts);
                return Ok(Applied::new(object, wrote));
            }
            Err(error) if error.is_conflict() => observed = live(member, resource, key).await?,
            // It was deleted, and the cache does not show it yet.
            Err(error) if error.is_not_found() => {
                let created = create(context, member, manifest, permit, true).await;
                let object = created.during(|| format!("creating {} {key}", resource.kind))?;
                return Ok(Applied::new(object, true));
            }
            Err(error) => return Err(error).during(|| format!("updating {} {key}", resource.kind)),
        }
    }
    Err(Error::Wait(format!("{} {key} changed {CONFLICTS} times while it was updated", resource.kind)))
}

/// The object from the member's cache; read from the member if the cache is incomplete.
pub(super) async fn cached(
    context: &Context,
    member: &Arc<Member>,
    manifest: &Manifest,
) -> Result<Option<Arc<Object>>> {
    let Manifest { resource, key, .. } = manifest;
    let informer = super::watch(context, member, resource);
    match tokio::time::timeout(CACHE_WAIT, informer.synced()).await {
        Ok(true) => Ok(informer.cache().get(key)),
        // Unknown is not absent: read it.
        _ => member.client.get_opt(resource, key).await.during(|| format!("reading {} {key}", resource.kind)),
    }
}

/// `had`: it was there before, so it has vanished.
async fn create(
    context: &Context,
    member: &Member,
    manifest: &Manifest,
    permit: &Permit,
    had: bool,
) -> client::Result<Arc<Object>> {
    let resource = &manifest.resource;
    let marked = permit.marked(&manifest.object);
    let object = marked.as_ref().unwrap_or(&manifest.object);
    let created = member.client.create_object(resource, object, &WriteOptions::default()).await;
    let exists = matches!(&created, Err(error) if error.is_already_exists());
    if !exists {
        let recreate = if had { "true" } else { "false" };
        let labels = [result(&created), &resource.api_version(), &resource.kind, &member.name, recreate];
        context.metrics.creates.increment(&labels);
    }
    created
}

/// Overwriting an unmanaged object cannot be reverted: before it is taken over, the server confirms that the Work has
/// not changed since it was read.
pub(super) async fn is_current(context: &Context, work: &Object) -> Result<()> {
    let live = context.live(&Work::api_resource(), work).await?;
    match live {
        Some(live) if !live.is_deleting() && live.generation() == work.generation() => Ok(()),
        _ => Err(Error::Superseded(work.key().to_string())),
    }
}

pub(super) async fn live(member: &Member, resource: &ApiResource, key: &ObjectKey) -> Result<Arc<Object>> {
    member.client.get(resource, key).await.during(|| format!("reading {} {key}", resource.kind))
}
