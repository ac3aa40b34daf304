//! Reads from the server just before the garbage collector acts, and its writes other than deletions.

use std::sync::Arc;

use apimachinery::{ApiResource, Object, ObjectKey};
use client::{ListOptions, Patch, PatchOptions};
use serde_json::{Value, json};

use super::follow;
use super::graph::Node;
use crate::context::Context;
use crate::error::{Error, Result};

/// The page size of lists.
const PAGE: usize = 500;

/// Resolves `GROUP/PLURAL` to the version that the server prefers.
pub(super) async fn resource(context: &Context, place: &str) -> Result<ApiResource> {
    let (group, plural) = place.split_once('/').unwrap_or(("core", place));
    let group = if group == "core" { "" } else { group };
    let find = |discovery: &client::Discovery| {
        let mut served = discovery.resources.iter().map(|found| &found.resource);
        served.find(|resource| resource.group == group && resource.plural == plural).cloned()
    };
    if let Some(found) = find(&context.mapper.known()) {
        return Ok(found);
    }
    find(&*context.mapper.refresh().await?).ok_or_else(|| Error::NotServed(place.to_owned()))
}

/// `None` only if the server serves the resource and returns NotFound for the object.
pub(super) async fn get(context: &Context, resource: &ApiResource, key: &ObjectKey) -> Result<Option<Arc<Object>>> {
    match context.client.get(resource, key).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if names(&error, key) => Ok(None),
        Err(error) => {
            if error.is_not_found() {
                // The resource is removed, or served in another version.
                context.mapper.refresh().await?;
            }
            Err(error.into())
        }
    }
}

/// Whether a NotFound names this object; an error about a path names none.
fn names(error: &client::Error, key: &ObjectKey) -> bool {
    let details = error.status().and_then(|status| status.details.as_ref());
    error.is_not_found() && details.is_some_and(|details| details.name == key.name())
}

pub(super) async fn remove_finalizer(context: &Context, node: &Node, finalizer: &str) -> Result<()> {
    let kept: Vec<_> = node.object.finalizers().iter().filter(|name| &***name != finalizer).collect();
    write(context, node, json!({ "finalizers": kept })).await
}

/// Removes the references to these owners.
pub(super) async fn forget(context: &Context, node: &Node, owners: &[&str]) -> Result<()> {
    let kept: Vec<_> =
        node.object.owner_references().iter().filter(|owner| !owners.contains(&owner.uid.as_str())).collect();
    write(context, node, json!({ "ownerReferences": kept })).await
}

/// Reads the dependents of an owner from the server. The graph is known to be as recent as the owner if the server is in
/// this process, because it reports all changes in order: then only `aggregated` resources are read. A dependent that is
/// missed would be deleted after its owner.
pub(super) async fn dependents(context: &Context, owner: &Node, aggregated: &[ApiResource]) -> Result<Vec<Node>> {
    let resources = if context.client.is_in_process() { aggregated.to_vec() } else { followed(context).await? };
    let own = owner.object.uid();
    let namespace = owner.object.namespace();
    let mut dependents = Vec::new();
    for resource in resources {
        // References across namespaces are invalid.
        if namespace.is_some() && !resource.namespaced {
            continue;
        }
        let mut options = ListOptions { limit: PAGE, metadata_only: true, ..ListOptions::default() };
        loop {
            let page = context.client.list(&resource, namespace, &options).await?;
            let owned = |object: &Arc<Object>| object.owner_references().iter().any(|owner| owner.uid == own);
            let node = |object| Node { resource: follow::place(&resource), object };
            dependents.extend(page.items.into_iter().filter(owned).map(node));
            if page.continue_token.is_empty() {
                break;
            }
            options.continue_token = Some(page.continue_token);
        }
    }
    Ok(dependents)
}

/// All resources whose objects are collected.
async fn followed(context: &Context) -> Result<Vec<ApiResource>> {
    let discovery = context.mapper.refresh().await?;
    if let Some(failed) = discovery.failed.first() {
        return Err(Error::NotServed(failed.to_string()));
    }
    let followed = discovery.preferred().into_iter().filter(|found| follow::is_followed(found));
    Ok(followed.map(|found| found.resource.clone()).collect())
}

/// Reads a dependent again and removes its reference to an owner.
pub(super) async fn forget_owner(context: &Context, dependent: &Node, owner: &str) -> Result<()> {
    let resource = resource(context, &dependent.resource).await?;
    let Some(object) = get(context, &resource, &dependent.object.key()).await? else { return Ok(()) };
    if !object.owner_references().iter().any(|reference| reference.uid == owner) {
        return Ok(());
    }
    forget(context, &Node { object, ..dependent.clone() }, &[owner]).await
}

/// Removes the blocking references of an object; returns whether there were any.
pub(super) async fn unblock_owners(context: &Context, node: &Node) -> Result<bool> {
    let mut owners = node.object.owner_references().to_vec();
    if owners.iter().all(|owner| owner.block_owner_deletion != Some(true)) {
        return Ok(false);
    }
    owners.iter_mut().for_each(|owner| owner.block_owner_deletion = Some(false));
    write(context, node, json!({ "ownerReferences": owners })).await.map(|()| true)
}

/// Patches the metadata of exactly the version that was read; removes empty lists.
async fn write(context: &Context, node: &Node, mut metadata: Value) -> Result<()> {
    let object = &node.object;
    for list in metadata.as_object_mut().into_iter().flat_map(|fields| fields.values_mut()) {
        if list.as_array().is_some_and(Vec::is_empty) {
            *list = Value::Null;
        }
    }
    metadata["uid"] = object.uid().into();
    metadata["resourceVersion"] = object.resource_version().into();
    let resource = resource(context, &node.resource).await?;
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    match context.client.patch(&resource, &object.key(), &patch, &PatchOptions::default()).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}
