//! Fields that another client in the member writes as often as they are reverted (`propagation::contest`). This code
//! runs for an object only if such a field is about to be reverted.

use std::borrow::Cow;
use std::sync::Arc;

use apimachinery::Object;
use propagation::compare::covers;
use propagation::contest::{self, Contests, Drift, REASON};
use propagation::retain::{Update, plan_update};
use serde_json::Value;

use super::apply::{Attempt, Manifest};
use crate::error::{During, Error, Result, decoded};

/// The decision about a write.
pub(super) enum Review {
    /// The observed object or the contested fields have changed: it is planned again.
    Again,
    /// It is sent, and reverts these changes of others.
    Revert(Vec<Drift>),
}

/// The object in messages.
pub(super) fn name_of(manifest: &Manifest) -> String {
    format!("{} {}", manifest.resource.kind, manifest.key)
}

/// The manifest with the member's values of contested fields.
pub(super) fn left_to_member<'m>(
    contests: &mut Contests,
    manifest: &Manifest,
    rendered: &'m Value,
    current: &Value,
) -> Cow<'m, Value> {
    match contests.is_empty() {
        true => Cow::Borrowed(rendered),
        false => contests.left_to_member(&name_of(manifest), rendered, current),
    }
}

/// Reviews a write that would change the observed object to `desired`.
pub(super) async fn review(
    attempt: Attempt<'_>,
    contests: &mut Contests,
    rendered: &Value,
    observed: &mut Arc<Object>,
    current: &Value,
    desired: &Value,
) -> Result<Review> {
    let Attempt { context, member, work, manifest, had, .. } = attempt;
    // A manifest that is new to the member is written whatever the member has.
    if !had || !contest::may_be_contested(current, desired) {
        return Ok(Review::Revert(Vec::new()));
    }
    let Some(owners) = observed.managed_fields_json() else {
        // The cache has no field owners.
        let (resource, key) = (&manifest.resource, &manifest.key);
        let live = member.client.get_opt(resource, key).await;
        let live = live.during(|| format!("reading the field owners of {} {key}", resource.kind))?;
        return Ok(match live {
            Some(live) if live.managed_fields_json().is_some() => {
                *observed = live;
                Review::Again
            }
            // It was deleted, or its server records no owners.
            _ => Review::Revert(Vec::new()),
        });
    };
    let owners: Value = decoded(&observed, serde_json::from_slice(&owners))?;
    let drifts = contest::drifts(rendered, current, desired, &owners, member.client.field_manager());
    let object = name_of(manifest);
    let left = contests.leave(&object, &drifts, context.world.now());
    if left.is_empty() {
        return Ok(Review::Revert(drifts));
    }
    for field in &left {
        tracing::warn!(cluster = member.name.as_str(), %object, field = field.field, writer = field.manager, work = %work.key(),
            "The field is contested: it was reverted too often, and the other writer's value stays");
        context.metrics.contested.increment(&[&member.name, &manifest.resource.kind]);
    }
    if let Some(condition) = contests.condition(&member.name, work.generation()) {
        let recorder = context.recorder.for_component("execution-controller");
        recorder.warning(work, REASON, condition.message);
    }
    Ok(Review::Again)
}

/// Records the reverts of a write.
pub(super) fn reverted(attempt: Attempt<'_>, contests: &mut Contests, drifts: Vec<Drift>) {
    if !drifts.is_empty() {
        contests.reverted(&name_of(attempt.manifest), drifts, attempt.context.world.now());
    }
}

/// For a forced apply, which is not planned: the manifest with the member's values of contested fields, and the
/// reverted fields.
pub(super) async fn settled(
    attempt: Attempt<'_>,
    contests: &mut Contests,
    rendered: &Value,
    observed: &mut Arc<Object>,
) -> Result<(Value, Vec<Drift>)> {
    let Attempt { context, member, manifest, had, .. } = attempt;
    loop {
        let current = decoded(&observed, observed.to_tree())?;
        let tree = left_to_member(contests, manifest, rendered, &current).into_owned();
        if !had || covers(&current, &tree) {
            return Ok((tree, Vec::new()));
        }
        let plan = context.interpreting.decide(|interpreter| plan_update(&tree, &current, interpreter, &member.name));
        let desired = match plan.await {
            Ok(Update::Put(desired)) => desired,
            Ok(Update::Unchanged) => return Ok((tree, Vec::new())),
            Err(error) => return Err(Error::Wait(error.to_string())),
        };
        // At most two more rounds: with field owners, and with the remaining fields.
        if let Review::Revert(drifts) = review(attempt, contests, rendered, observed, &current, &desired).await? {
            return Ok((tree, drifts));
        }
    }
}
