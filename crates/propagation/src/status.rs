//! Status from members: Work conditions, the state of a manifest, the binding's aggregate, FullyApplied.

use std::borrow::Cow;
use std::collections::BTreeMap;

use apimachinery::meta::{Condition, Time};
use apimachinery::{ObjectKey, raw_json};
use interpreter::{Interpreter, Operation};
use karmada_api::ApiType;
use karmada_api::constants::{conditions, messages, reasons};
use karmada_api::identity::{ClusterName, OutsideExecution, WorkKey};
use karmada_api::raw::RawJson;
use karmada_api::work::v1alpha1::{ManifestStatus, ResourceIdentifier, Work};
use karmada_api::work::v1alpha2::{AggregatedStatusItem, ObjectReference, ResourceBindingSpec, ResourceHealth};
use serde::Deserialize;
use serde_json::Value;

use crate::contest;
use crate::resume;
use crate::template::Template;
use crate::works::expected_clusters;

/// Sets a condition; the transition time moves only with the status. Returns whether anything changed.
pub fn set_condition(list: &mut Vec<Condition>, mut condition: Condition, now: Time) -> bool {
    match list.iter_mut().find(|known| known.type_ == condition.type_) {
        None => {
            condition.last_transition_time = condition.last_transition_time.or(Some(now));
            list.push(condition);
            true
        }
        Some(known) => {
            let turned = known.status != condition.status;
            condition.last_transition_time = if turned { Some(now) } else { known.last_transition_time };
            let changed = *known != condition;
            *known = condition;
            changed
        }
    }
}

fn condition(type_: &str, holds: bool, reason: &str, message: impl Into<String>) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.into(),
        ..Condition::default()
    }
}

/// The Dispatching condition of a Work, if its status differs from the present one.
pub fn dispatching(work: &Work) -> Option<Condition> {
    let suspended = work.spec.suspend_dispatching == Some(true);
    let desired = if suspended {
        let message = "Work dispatching is in a suspended state.";
        condition(conditions::DISPATCHING, false, reasons::SUSPENDED, message)
    } else {
        let message = "Work is being dispatched to member clusters.";
        condition(conditions::DISPATCHING, true, reasons::DISPATCHING, message)
    };
    let present = work.status.conditions.iter().find(|known| known.type_ == conditions::DISPATCHING);
    present.is_none_or(|present| present.status != desired.status).then_some(desired)
}

const NOT_ALL_APPLIED: &str = "Failed to apply all manifests (";

/// The Applied condition after an attempt: the number of applied manifests, and the errors.
pub fn applied(succeeded: usize, total: usize, errors: &[String]) -> Condition {
    if errors.is_empty() {
        return condition(conditions::APPLIED, true, reasons::APPLIED, "Manifest has been successfully applied");
    }
    let aggregated = match errors {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    let message = format!("{NOT_ALL_APPLIED}{succeeded}/{total}): {aggregated}");
    condition(conditions::APPLIED, false, reasons::NOT_APPLIED, message)
}

/// The message of an Applied condition without the number of applied manifests.
pub fn errors_of(message: &str) -> &str {
    let counted = message.strip_prefix(NOT_ALL_APPLIED).and_then(|rest| rest.split_once("): "));
    counted.map_or(message, |(_, errors)| errors)
}

/// Whether the last attempt to apply succeeded.
pub fn is_applied(work: &Work) -> bool {
    work.status.conditions.iter().any(|it| it.type_ == conditions::APPLIED && it.status == "True")
}

/// The identity of a manifest, read without decoding all of it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Identity<'m> {
    #[serde(borrow)]
    api_version: Cow<'m, str>,
    #[serde(borrow)]
    kind: Cow<'m, str>,
    #[serde(borrow)]
    metadata: IdentityMeta<'m>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct IdentityMeta<'m> {
    #[serde(borrow)]
    name: Cow<'m, str>,
    #[serde(borrow)]
    namespace: Cow<'m, str>,
}

impl<'m> Identity<'m> {
    /// `None` for a manifest that is no object.
    fn of(manifest: &'m RawJson) -> Option<Self> {
        Self::front(manifest.get()).or_else(|| manifest.decode().ok())
    }

    /// Reads members until all are found; `None` if the decoder has to.
    fn front(text: &'m str) -> Option<Self> {
        fn plain(text: &str) -> Option<Cow<'_, str>> {
            let text = text.strip_prefix('"')?.strip_suffix('"')?;
            (!text.contains('\\')).then_some(Cow::Borrowed(text))
        }
        let (mut found, mut left) = (Self::default(), 3);
        for (name, span) in raw_json::members(text.as_bytes()) {
            match name {
                b"apiVersion" => found.api_version = plain(&text[span])?,
                b"kind" => found.kind = plain(&text[span])?,
                b"metadata" => {
                    let inside = &text[span];
                    for (name, span) in raw_json::members(inside.as_bytes()) {
                        match name {
                            b"name" => found.metadata.name = plain(&inside[span])?,
                            b"namespace" => found.metadata.namespace = plain(&inside[span])?,
                            _ => {}
                        }
                    }
                }
                _ => continue,
            }
            left -= 1;
            if left == 0 {
                return Some(found);
            }
        }
        None
    }
}

/// The index of an object's manifest in a Work.
fn ordinal(work: &Work, api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<usize> {
    work.spec.workload.manifests.iter().position(|manifest| {
        Identity::of(manifest).is_some_and(|it| {
            it.api_version == api_version
                && it.kind == kind
                && it.metadata.name == name
                && it.metadata.namespace == namespace
        })
    })
}

/// The reflected state of an object in a member, and the errors to report.
#[derive(Clone, Debug, PartialEq)]
pub struct Reflected {
    /// The state as the Work's status holds it.
    pub manifest_status: ManifestStatus,
    /// Set when the health could not be interpreted.
    pub health_error: Option<interpreter::Error>,
}

/// Why an object's state is not reported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants")]
pub enum ReflectError {
    #[error("Reflect status for object({kind}/{key}) failed, err: {source}.")]
    Reflect { kind: String, key: String, source: interpreter::Error },
    #[error("no such manifest exist: {kind} {key} is not in work {work}")]
    NoManifest { kind: String, key: String, work: String },
}

/// Reads the state of an object in a member for its Work.
///
/// # Errors
/// When the interpreter fails, or the Work has no such manifest.
pub fn reflect(work: &Work, observed: Template<'_>, interpreter: &Interpreter) -> Result<Reflected, ReflectError> {
    let (kind, key) = (observed.kind().to_owned(), observed.key().to_string());
    let status = interpreter.reflect_status(observed.0).map_err(|source| ReflectError::Reflect {
        kind: kind.clone(),
        key: key.clone(),
        source,
    })?;
    let place = ordinal(work, observed.api_version(), observed.kind(), observed.namespace(), observed.name());
    let Some(ordinal) = place else {
        return Err(ReflectError::NoManifest { kind, key, work: work.key().to_string() });
    };
    let (health, health_error) = health(observed.0, interpreter);
    let gvk = observed.gvk();
    let identifier = ResourceIdentifier {
        ordinal: i64::try_from(ordinal).unwrap_or_default(),
        group: gvk.group,
        version: gvk.version,
        kind: gvk.kind,
        resource: String::new(),
        namespace: observed.namespace().to_owned(),
        name: observed.name().to_owned(),
    };
    let manifest_status =
        ManifestStatus { identifier, health: Some(health), status: status.as_ref().map(RawJson::from_value) };
    Ok(Reflected { manifest_status, health_error })
}

/// Kinds without a rule are healthy; an error makes the health unknown.
fn health(object: &Value, interpreter: &Interpreter) -> (ResourceHealth, Option<interpreter::Error>) {
    if !interpreter.enabled_for(object, Operation::InterpretHealth) {
        return (ResourceHealth::Healthy, None);
    }
    match interpreter.interpret_health(object) {
        Ok(true) => (ResourceHealth::Healthy, None),
        Ok(false) => (ResourceHealth::Unhealthy, None),
        Err(error) => (ResourceHealth::Unknown, Some(error)),
    }
}

fn item(cluster: &str, ordinal: usize, work: &Work) -> AggregatedStatusItem {
    let condition = work.status.conditions.iter().find(|it| it.type_ == conditions::APPLIED);
    let mut item = AggregatedStatusItem {
        cluster_name: cluster.to_owned(),
        applied: condition.is_some_and(|it| it.status == "True"),
        health: Some(ResourceHealth::Unknown),
        ..AggregatedStatusItem::default()
    };
    if !item.applied {
        item.applied_message = condition.map(|it| it.message.clone()).unwrap_or_default();
        // Works waiting for a confirmation are observed all the same.
        if !condition.is_some_and(resume::waits) {
            return item;
        }
    }
    let reported =
        work.status.manifest_statuses.iter().find(|it| usize::try_from(it.identifier.ordinal) == Ok(ordinal));
    if let Some(reported) = reported {
        item.status.clone_from(&reported.status);
        item.health = reported.health.or(item.health);
    }
    item
}

/// The state of the copy for one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// The last attempt succeeded.
    Applied,
    /// The last attempt failed, or the copy cannot be rendered.
    Failed,
    /// Dispatching is suspended, and the cluster never had it.
    Suspended,
    /// The cluster is newer than the store, and a person has to confirm first.
    ResumePending,
    /// No attempt has ended yet.
    InFlight,
}

impl Standing {
    /// The standing that a Work's conditions report.
    pub fn of(work: &Work) -> Self {
        let find = |type_: &str| work.status.conditions.iter().find(|it| it.type_ == type_);
        match find(conditions::APPLIED) {
            Some(applied) if applied.status == "True" => Self::Applied,
            _ if work.spec.suspend_dispatching == Some(true) => Self::Suspended,
            Some(applied) if resume::waits(applied) => Self::ResumePending,
            Some(_) => Self::Failed,
            None => Self::InFlight,
        }
    }
}

/// The part of one Work.
#[derive(Clone, Debug, PartialEq)]
pub struct Contribution {
    /// The key of the Work.
    pub work: WorkKey,
    /// The status item of its cluster.
    pub item: AggregatedStatusItem,
    /// The state of the copy.
    pub standing: Standing,
    /// The fields that another client in the member writes too, in words.
    pub contested: Option<String>,
    /// Among the Works of one cluster: the one of the binding's resource, then the newest one.
    pub(crate) precedence: (bool, Option<Time>),
}

/// Why a Work does not contribute to its binding's status.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants")]
pub enum ContributionError {
    #[error("work {work} cannot be decoded: {source}")]
    Decode { work: ObjectKey, source: serde_json::Error },
    #[error("work {work} has no manifest of {resource}")]
    NoManifest { work: ObjectKey, resource: String },
    #[error(transparent)]
    Namespace(#[from] OutsideExecution),
}

impl Contribution {
    /// `None` for a Work that is being deleted. An override may have changed the identity of the copy: the only manifest
    /// is that of the binding's resource in any case. The status of another kind has other fields, and does not count.
    ///
    /// # Errors
    /// A Work of several manifests that does not hold the binding's resource, or one in no execution namespace.
    pub fn of(resource: &ObjectReference, work: &Work) -> Result<Option<Self>, ContributionError> {
        if work.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let ObjectReference { api_version, kind, namespace, name, .. } = resource;
        let exact = ordinal(work, api_version, kind, namespace, name);
        let only = match work.spec.workload.manifests.as_slice() {
            [only] => Some(only),
            _ => None,
        };
        let Some(ordinal) = exact.or(only.map(|_| 0)) else {
            return Err(ContributionError::NoManifest {
                work: work.key(),
                resource: format!("{kind} {namespace}/{name}"),
            });
        };
        let key = WorkKey::of_work(work)?;
        let mut item = item(key.cluster(), ordinal, work);
        let is_of_kind = |manifest| Identity::of(manifest).is_some_and(|it| it.kind == *kind);
        if exact.is_none() && !only.is_some_and(is_of_kind) {
            item.status = None;
        }
        let contested = contest::message_of(&work.status.conditions).map(str::to_owned);
        let precedence = (exact.is_some(), work.metadata.creation_timestamp);
        Ok(Some(Self { work: key, item, standing: Standing::of(work), contested, precedence }))
    }
}

/// Marks the clusters whose Work cannot be rendered. Earlier statuses of a cluster stay.
pub fn mark_unrendered(items: &mut Vec<AggregatedStatusItem>, unrendered: &BTreeMap<ClusterName, String>) {
    for (cluster, why) in unrendered {
        match items.iter_mut().find(|item| item.cluster_name == *cluster) {
            Some(item) => (item.applied, item.applied_message) = (false, why.clone()),
            None => items.push(AggregatedStatusItem {
                cluster_name: cluster.to_string(),
                applied_message: why.clone(),
                health: Some(ResourceHealth::Unknown),
                ..AggregatedStatusItem::default()
            }),
        }
    }
    items.sort_by(|left, right| left.cluster_name.cmp(&right.cluster_name));
}

/// The FullyApplied condition of a binding. If every cluster failed the message is upstream's; otherwise it names the
/// missing clusters with the reasons.
pub fn fully_applied(
    spec: &ResourceBindingSpec,
    standings: &BTreeMap<&str, Standing>,
    unrendered: &BTreeMap<ClusterName, String>,
) -> Condition {
    let expected = expected_clusters(spec);
    let no = |message: String| condition(conditions::FULLY_APPLIED, false, reasons::NOT_FULLY_APPLIED, message);
    if expected.is_empty() {
        return no("No cluster is assigned, so nothing is applied".to_owned());
    }
    let standing = |cluster: &str| match unrendered.contains_key(cluster) {
        true => Standing::Failed,
        false => standings.get(cluster).copied().unwrap_or(Standing::InFlight),
    };
    let of = |state: Standing| -> Vec<&str> {
        expected.iter().copied().filter(|cluster| standing(cluster) == state).collect()
    };
    let leaving: Vec<&str> = standings.keys().copied().filter(|cluster| !expected.contains(cluster)).collect();
    let [applied, failed] = [of(Standing::Applied), of(Standing::Failed)];
    if applied.len() == expected.len() && leaving.is_empty() {
        let message = messages::FULLY_APPLIED;
        return condition(conditions::FULLY_APPLIED, true, reasons::FULLY_APPLIED, message);
    }
    if failed.len() == expected.len() && unrendered.is_empty() {
        return no(messages::NOT_FULLY_APPLIED.to_owned());
    }
    let mut parts = vec![format!("Applied in {} of {} clusters", applied.len(), expected.len())];
    let groups = [
        ("failed in", failed),
        ("held until resumed in", of(Standing::ResumePending)),
        ("dispatching is suspended for", of(Standing::Suspended)),
        ("waiting for", of(Standing::InFlight)),
        ("being removed from", leaving),
    ];
    let named = groups.into_iter().filter(|(_, clusters)| !clusters.is_empty());
    parts.extend(named.map(|(words, clusters)| format!("{words} {}", listed(&clusters))));
    let first = expected.iter().find_map(|cluster| unrendered.get(*cluster));
    parts.extend(first.cloned());
    no(format!("{}; see status.aggregatedStatus for details", parts.join("; ")))
}

/// The first few names; a condition is no place for hundreds.
fn listed(clusters: &[&str]) -> String {
    const NAMED: usize = 5;
    match clusters.get(..NAMED) {
        Some(first) if clusters.len() > NAMED => format!("{} and {} more", first.join(", "), clusters.len() - NAMED),
        _ => clusters.join(", "),
    }
}

/// The template with the status of all members folded in; `None` when its status is as it should be, or when its kind
/// has no rule.
///
/// # Errors
/// When the interpreter fails to aggregate the statuses.
pub fn template_status(
    template: &Value,
    items: &[AggregatedStatusItem],
    interpreter: &Interpreter,
    now: Time,
) -> Result<Option<Value>, interpreter::Error> {
    if !interpreter.enabled_for(template, Operation::AggregateStatus) {
        return Ok(None);
    }
    let mut updated = template.clone();
    interpreter.aggregate_status(&mut updated, items, now)?;
    Ok((updated["status"] != template["status"]).then_some(updated))
}

#[cfg(test)]
mod tests;
