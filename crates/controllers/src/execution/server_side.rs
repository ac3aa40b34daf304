//! One manifest into one member by server-side apply, where the policy selects it (`propagation::server_side`).

use std::sync::Arc;

use apimachinery::Object;
use apimachinery::status::StatusCause;
use client::{Patch, PatchOptions};
use karmada_api::constants::{annotations, labels};
use karmada_api::manifest::metadata_map;
use propagation::contest::Contests;
use propagation::retain;
use propagation::server_side::{self, MANAGER, Mode};
use propagation::template::Template;
use serde_json::{Value, json};

use super::apply::{Applied, Attempt, Manifest, cached, is_current, live};
use super::compare::covers;
use super::contest;
use crate::error::{During, Error, Result, decoded};
use crate::members::Member;
use crate::metrics::result;

/// As [`super::apply::apply`].
pub(super) async fn apply(attempt: Attempt<'_>, mode: Mode, contests: &mut Contests) -> Result<Applied> {
    let Attempt { context, member, work, manifest, permit, had } = attempt;
    let Manifest { resource, key, .. } = manifest;
    let tree = &manifest.tree()?;
    // The object must be observed before: otherwise a manifest could be merged into a foreign object. The cache holds
    // only ours.
    let mut observed = match cached(context, member, manifest).await? {
        Some(observed) => Some(observed),
        None => match live(member, resource, key).await {
            Ok(observed) => Some(observed),
            Err(Error::Api { source, .. }) if source.is_absence_of(key.name()) => None,
            Err(error) => return Err(error),
        },
    };
    let mut desired = tree.clone();
    let mut drifts = Vec::new();
    // Without force, fields of others are not overwritten.
    if mode == Mode::Force
        && (had || !contests.is_empty())
        && let Some(observed) = &mut observed
    {
        (desired, drifts) = contest::settled(attempt, contests, tree, observed).await?;
    }
    if let Some(observed) = &observed {
        let current = decoded(observed, observed.to_tree())?;
        retain::may_write(tree, &current, &member.name).map_err(|error| Error::Wait(error.to_string()))?;
        if had && covers(&current, &desired) {
            return Ok(Applied { object: observed.clone(), wrote: false, yielded: Vec::new() });
        }
        if Template(tree).label(labels::RETAIN_REPLICAS) == Some("true") {
            leave_replicas(&mut desired);
        }
        permit.allows(context, member, observed)?;
        if !retain::is_managed(Template(&current)) {
            is_current(context, work).await?;
        }
        match observed.annotation(annotations::MARK).filter(|_| covers(&current, &desired)) {
            Some(mark) => {
                drop(metadata_map(&mut desired, "annotations").insert(annotations::MARK.to_owned(), json!(mark)))
            }
            None => permit.mark(&mut desired),
        }
    } else {
        permit.mark(&mut desired);
    }
    let mut yielded = Vec::new();
    let mut written = send(member, manifest, &desired, mode == Mode::Force).await;
    let conflicts = written.as_ref().err().map(conflicts).unwrap_or_default();
    if !conflicts.is_empty() {
        yielded = server_side::yield_fields(&mut desired, &conflicts).map_err(|field| {
            let what = format!("{} {key} in cluster {}", resource.kind, member.name);
            Error::Wait(format!("a field of {what} is owned by others and cannot be left to them: {field}"))
        })?;
        // The remaining conflicts are with our own earlier writes.
        written = send(member, manifest, &desired, true).await;
    }
    let version = resource.api_version();
    let labels = |last| [result(&written), &version, &resource.kind, &member.name, last];
    match &observed {
        None => context.metrics.creates.increment(&labels(if had { "true" } else { "false" })),
        Some(_) => context.metrics.updates.increment(&labels(if written.is_ok() { "updated" } else { "none" })),
    }
    let object = written.during(|| format!("applying {} {key}", resource.kind))?;
    contest::reverted(attempt, contests, drifts);
    let wrote = observed.is_none_or(|observed| observed.resource_version() != object.resource_version());
    let yielded = yielded.into_iter().map(|field| format!("{} {key} {field}", resource.kind)).collect();
    Ok(Applied { object, wrote, yielded })
}

/// Retained fields are not applied.
fn leave_replicas(desired: &mut Value) {
    if let Some(spec) = desired.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("replicas");
    }
}

/// The conflicting fields and their owners.
fn conflicts(error: &client::Error) -> Vec<StatusCause> {
    let details = error.status().filter(|_| error.is_conflict()).and_then(|status| status.details.as_ref());
    let causes = details.map(|details| details.causes.clone()).unwrap_or_default();
    causes.into_iter().filter(|cause| cause.reason == "FieldManagerConflict").collect()
}

async fn send(member: &Member, manifest: &Manifest, desired: &Value, force: bool) -> client::Result<Arc<Object>> {
    let patch = Patch::Apply { manager: MANAGER.to_owned(), force, value: desired.clone() };
    member.client.patch(&manifest.resource, &manifest.key, &patch, &PatchOptions::default()).await
}
