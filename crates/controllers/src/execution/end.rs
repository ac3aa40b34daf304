//! The end of a Work: its objects in the member are deleted, kept without our marks, or not changed.

use std::sync::Arc;

use apimachinery::{ApiResource, Object, ObjectKey};
use client::{DeleteOptions, Patch, PatchOptions};
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::{annotations, labels};
use karmada_api::manifest::metadata_map;
use karmada_api::names;
use karmada_api::work::v1alpha1::Work;
use propagation::deletion::{self, Member as State, Plan};
use propagation::retain::{self, Update, plan_update};
use propagation::template::Template;
use serde_json::json;

use super::apply::Manifest;
use crate::error::{During, Error, Result, all, decoded};
use crate::members::Member;
use crate::metrics::result;
use crate::resume::{self, Permit};
use crate::{Context, MemberError, identity, namespace};

/// The result.
pub(super) enum End {
    /// The finalizer can go.
    Finished,
    /// The cluster is not ready, or is held; the Work is queued again when that is over, or when it leaves.
    Waits,
}

pub(super) async fn end(context: &Context, object: &Object, work: &Work, cluster: &Cluster) -> Result<End> {
    let state = match (cluster.is_ready(), cluster.metadata.deletion_timestamp.is_some()) {
        (true, _) => State::Ready,
        (false, true) => State::NotReadyAndLeaving,
        (false, false) => State::NotReady,
    };
    let preserve = work.spec.preserve_resources_on_deletion == Some(true);
    match deletion::plan(preserve, state) {
        Plan::Wait => return Ok(End::Waits),
        Plan::Release => {}
        plan => {
            let is_leaving = cluster.metadata.deletion_timestamp.is_some();
            let member = match identity::writable(context, cluster).await {
                Ok(member) => member,
                // It is the control plane itself, or another cluster than the Work's: it contains no objects of the
                // Work.
                Err(MemberError::Refused { .. }) if is_leaving => return Ok(End::Finished),
                Err(MemberError::Refused { .. }) => return Ok(End::Waits),
                Err(error) => return Err(error.into()),
            };
            // Objects in a member that are newer than the store stay, also when the cluster leaves.
            let held = if is_leaving { End::Finished } else { End::Waits };
            let permit = match resume::permit(context, &member, cluster, object, work).await {
                Ok(permit) if permit.waits() => return Ok(held),
                Ok(permit) => permit,
                Err(MemberError::Superseded(_)) => return Ok(End::Waits),
                Err(error) => return Err(error.into()),
            };
            let mut errors = Vec::new();
            for raw in &work.spec.workload.manifests {
                let one = async {
                    let manifest = Manifest::read(context, raw).await?;
                    match plan {
                        Plan::Preserve => leave(context, &member, &manifest, &permit).await,
                        _ => delete(context, &member, &manifest, &permit).await,
                    }
                };
                match one.await {
                    Ok(()) => {}
                    Err(Error::ResumePending) => return Ok(held),
                    Err(error) => errors.push(error.to_string()),
                }
            }
            all(errors)?;
        }
    }
    Ok(End::Finished)
}

/// Deletes the object only in the observed version: an object whose labels a user removes meanwhile stays. The member
/// is read, not the cache.
async fn delete(context: &Context, member: &Arc<Member>, manifest: &Manifest, permit: &Permit) -> Result<()> {
    let Manifest { resource, key, .. } = manifest;
    let Some(observed) = observe(member, resource, key).await? else { return Ok(()) };
    let tree = decoded(&observed, observed.to_tree())?;
    if !deletion::may_delete(Template(&tree), permit.work_id()) || observed.is_deleting() {
        return Ok(());
    }
    if *resource == namespace::resource() && holds_preserved(context, member, &observed) {
        return release(context, member, manifest, &observed, permit).await;
    }
    permit.allows(context, member, &observed)?;
    resume::write_ahead(context, member, permit).await?;
    let options = DeleteOptions::background().only_version(observed.uid(), observed.resource_version());
    let deleted = member.client.delete(resource, key, &options).await;
    let labels = [result(&deleted), &resource.api_version(), &resource.kind, &member.name];
    context.metrics.deletes.increment(&labels);
    match deleted {
        Err(error) if error.is_absence_of(key.name()) => Ok(()),
        other => other.during(|| format!("deleting {} {key}", resource.kind)),
    }
}

/// The object's current state in the member. If it is absent, the Work ends and nothing is deleted later, so absence
/// must be certain: a 404 that does not name the object counts only if the member does not serve the kind.
async fn observe(member: &Member, resource: &ApiResource, key: &ObjectKey) -> Result<Option<Arc<Object>>> {
    let reading = || format!("reading {} {key}", resource.kind);
    let error = match member.client.get(resource, key).await {
        Ok(object) => return Ok(Some(object)),
        Err(error) if error.is_absence_of(key.name()) => return Ok(None),
        Err(error) if error.is_not_found() => error,
        Err(error) => return Err(error).during(reading),
    };
    let discovery = member.client.discovery().await.during(reading)?;
    let is_served = discovery.resources.iter().any(|served| served.resource == *resource);
    match is_served || discovery.failed.contains(&resource.group_version()) {
        true => Err(error).during(reading),
        false => Ok(None),
    }
}

/// The index of Works that preserve their objects, by execution namespace. Without it, each deletion of a namespace would
/// read every Work of its cluster.
pub(super) const PRESERVING: &str = "works-that-preserve";

/// The value in that index, found without decoding. A Work that cannot be decoded may preserve its objects.
pub(super) fn preserving(work: &Object) -> Vec<String> {
    let json = work.json();
    let value = |path: &[&str]| work.place_of(&json, path).map(|place| &json[place]);
    let preserves = match value(&["spec", "preserveResourcesOnDeletion"]) {
        Some(flag) => !matches!(flag, b"false" | b"null"),
        None => value(&["spec"]).is_some_and(|spec| !spec.starts_with(b"{")),
    };
    work.namespace().filter(|_| preserves).map(str::to_owned).into_iter().collect()
}

/// Whether a Namespace has objects that stay in the member, which its deletion would delete. Works that preserve objects
/// mark it before they end.
fn holds_preserved(context: &Context, member: &Member, namespace: &Object) -> bool {
    let name = namespace.name();
    let works = || context.works.cache().by_index(PRESERVING, &names::execution_namespace(&member.name));
    let preserves = |work: &Arc<Object>| {
        work.annotation(annotations::BINDING_NAMESPACE).is_none_or(|of| of == name)
            && Work::read(work).map_or(true, |work| deletion::preserves_in(&work, name))
    };
    namespace.annotation(deletion::HOLDS_PRESERVED).is_some() || works().iter().any(preserves)
}

/// Leaves an object in the member, and its namespace with it.
async fn leave(context: &Context, member: &Arc<Member>, manifest: &Manifest, permit: &Permit) -> Result<()> {
    let Some(observed) = observe(member, &manifest.resource, &manifest.key).await? else { return Ok(()) };
    release(context, member, manifest, &observed, permit).await?;
    let Some(namespace) = manifest.key.namespace() else { return Ok(()) };
    let (resource, key) = (namespace::resource(), ObjectKey::cluster(namespace));
    let Some(observed) = observe(member, &resource, &key).await? else { return Ok(()) };
    if !retain::marks_managed(observed.label(labels::MANAGED))
        || observed.annotation(deletion::HOLDS_PRESERVED).is_some()
    {
        return Ok(());
    }
    let mark = Patch::Merge(json!({"metadata": {"annotations": {deletion::HOLDS_PRESERVED: "true"}}}));
    match member.client.patch(&resource, &key, &mark, &PatchOptions::default()).await {
        Err(error) if error.is_absence_of(key.name()) => Ok(()),
        other => other.map(drop).during(|| format!("marking Namespace {namespace}, which holds {}", manifest.key)),
    }
}

/// Takes our marks off an object that stays.
async fn release(
    context: &Context,
    member: &Arc<Member>,
    manifest: &Manifest,
    observed: &Object,
    permit: &Permit,
) -> Result<()> {
    let Manifest { resource, key, .. } = manifest;
    let current = decoded(observed, observed.to_tree())?;
    // It was released or taken over before: its new owner keeps it unchanged, even if ours was to overwrite it.
    if !deletion::may_delete(Template(&current), permit.work_id()) {
        return Ok(());
    }
    permit.allows(context, member, observed)?;
    // It bears no mark from here on, as a deleted one.
    resume::write_ahead(context, member, permit).await?;
    let mut tree = manifest.tree()?;
    deletion::strip(&mut tree);
    let tree = &tree;
    let plan = context.interpreting.decide(|interpreter| plan_update(tree, &current, interpreter, &member.name));
    match plan.await {
        Ok(Update::Put(mut desired)) => {
            let kept = metadata_map(&mut desired, "annotations");
            for mark in [annotations::MARK, deletion::HOLDS_PRESERVED] {
                kept.remove(mark);
            }
            member.client.update(resource, &desired).await.map(|_| ()).during(|| format!("releasing {key}"))
        }
        // Unchanged, or never managed: it has no marks of ours.
        Ok(Update::Unchanged) | Err(retain::Error::UnmanagedObject { .. }) => Ok(()),
        Err(error) => Err(Error::Wait(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn works_that_preserve_are_indexed() {
        for (spec, expected) in [
            (json!({"workload": {"manifests": [{"spec": {"preserveResourcesOnDeletion": true}}]}}), false),
            (json!({"preserveResourcesOnDeletion": true, "workload": {"manifests": []}}), true),
            (json!({"workload": {"manifests": []}, "preserveResourcesOnDeletion": true}), true),
            (json!({"preserveResourcesOnDeletion": false}), false),
            (json!({"preserveResourcesOnDeletion": null}), false),
            (json!({"preserveResourcesOnDeletion": "yes"}), true),
            (json!("damaged"), true),
            (Value::Null, true),
        ] {
            let work = json!({"metadata": {"name": "w", "namespace": "karmada-es-m1"}, "spec": spec});
            let found = preserving(&Object::from_value(&work).expect("an object"));
            let expected = if expected { vec!["karmada-es-m1"] } else { Vec::new() };
            assert_eq!(found, expected, "{spec}");
        }
    }
}
