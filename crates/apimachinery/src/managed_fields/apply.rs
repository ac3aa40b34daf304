//! Server-side apply: merge, take ownership, release fields that are no longer applied.

use serde_json::{Map, Value};

use super::applied::field_set;
use super::compare::Comparison;
use super::conflict::{Conflict, to_conflict_status};
use super::entries::{self, Entry, EntryError, Operation};
use super::owners::Owners;
use super::place::Place;
use super::typed::{TypedError, check};
use super::update::{entry_before_apply, new_entry};
use super::versions::{self, Change, take_others};
use super::{FieldSet, ManagerContext, merge, server_fields};
use crate::Status;
use crate::field::json_of_go;
use crate::names::ANNOTATIONS_MAX;
use crate::schema::TypeOf;

const KUBECTL: &str = "kubectl";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Why a configuration cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Others own fields that would change. `force` takes them over.
    #[error("{}", to_conflict_status(.0).message)]
    Conflicts(Vec<Conflict>),
    /// The configuration contains `metadata.managedFields`.
    #[error("metadata.managedFields must be nil")]
    ManagedFieldsSet,
    /// The configuration does not match the schema.
    #[error("failed to create typed patch object ({object}): {source}")]
    Typed {
        /// The object in Go's notation.
        object: String,
        /// The mismatch.
        source: TypedError,
    },
    /// The stored object's entries cannot be read.
    #[error("failed to decode managed fields: {0}")]
    Entries(#[from] EntryError),
    /// The object cannot be converted to a version in which fields are owned.
    #[error("{0}")]
    Conversion(String),
}

impl ApplyError {
    /// The API's response. Upstream answers an ill-typed configuration with 500; it is the client's error, so it is 400
    /// here.
    pub fn to_status(&self) -> Status {
        match self {
            Self::Conflicts(conflicts) => to_conflict_status(conflicts),
            Self::ManagedFieldsSet => Status::bad_request(self.to_string()),
            Self::Typed { .. } | Self::Conversion(_) => Status::unclassified(self.to_string()),
            Self::Entries(_) => Status::internal(self),
        }
    }
}

/// Applies a configuration to the live object (`None` creates one) and returns the merged object with its new
/// `metadata.managedFields`. The caller then defaults and validates it, and calls [`super::keep_old_times`].
///
/// The patch is an object with apiVersion and kind. A null in it is owned, and unsets the field.
///
/// # Errors
/// `Conflicts` without `force`, `ManagedFieldsSet` and `Typed` for an invalid configuration, `Entries` for a stored
/// object with unreadable owners.
pub fn apply(
    live: Option<&Value>,
    patch: &Value,
    context: &ManagerContext<'_>,
    force: bool,
    type_: &TypeOf,
) -> Result<Value, ApplyError> {
    let mut stored = live.cloned();
    let owners = stored.as_mut().map(Owners::take).transpose()?.unwrap_or_default();
    let (mut merged, owners) = merge_apart(stored.as_ref().map(|tree| (tree, owners)), patch, context, force, type_)?;
    owners.put(&mut merged);
    Ok(merged)
}

/// [`apply`] with separate owners: those of `live` are a parameter, those of the merged object are returned.
///
/// # Errors
/// As [`apply`].
pub fn merge_apart(
    live: Option<(&Value, Owners)>,
    patch: &Value,
    context: &ManagerContext<'_>,
    force: bool,
    type_: &TypeOf,
) -> Result<(Value, Owners), ApplyError> {
    if entries::is_present(patch) {
        return Err(ApplyError::ManagedFieldsSet);
    }
    let (live, owners) = live.unzip();
    let owners = owners.unwrap_or_default();
    let again = (context.manager == KUBECTL && !force).then(|| owners.clone());
    let result = match (apply_once(live, owners, patch, context, force, type_), again) {
        (Err(ApplyError::Conflicts(conflicts)), Some(owners)) => {
            let left = without_last_applied(conflicts, live, type_);
            if !left.is_empty() {
                return Err(ApplyError::Conflicts(left));
            }
            apply_once(live, owners, patch, context, true, type_)
        }
        (other, _) => other,
    };
    result.map(|(mut object, owners)| {
        if context.manager == KUBECTL {
            refresh_last_applied(&mut object, patch);
        }
        (object, owners)
    })
}

fn apply_once(
    live: Option<&Value>,
    Owners(mut entries): Owners,
    patch: &Value,
    context: &ManagerContext<'_>,
    force: bool,
    type_: &TypeOf,
) -> Result<(Value, Owners), ApplyError> {
    let place = Place::root(type_);
    check(patch, place).map_err(|source| ApplyError::Typed { object: describe(patch), source })?;
    let named = field_set(patch, place);
    let nothing = Value::Object(Map::new());
    let base = live.unwrap_or(&nothing);
    if live.is_some() && entries.is_empty() {
        entries.push(entry_before_apply(base, context, type_));
    }
    versions::reconcile_all(&mut entries, context, place);
    let mut own = take_own(&mut entries, context);
    let last = std::mem::take(&mut own.set);
    let last_version = std::mem::replace(&mut own.api_version, context.api_version.to_owned());
    let mut others = take_others(&mut entries, context.api_version);

    let mut merged = base.clone();
    merge::merge(&mut merged, patch, place, 0);
    let emptied = if others.is_empty() && last_version == context.api_version {
        let owners: Vec<&FieldSet> = std::iter::once(&named).chain(entries.iter().map(|entry| &entry.set)).collect();
        merge::prune(&mut merged, &last, &owners, place)
    } else {
        let owners = entries.iter().chain(&others).map(|entry| (&*entry.api_version, &entry.set));
        let owners: Vec<_> = std::iter::once((context.api_version, &named)).chain(owners).collect();
        versions::prune(&mut merged, (&last, &last_version), &owners, context, type_)
            .map_err(ApplyError::Conversion)?;
        FieldSet::default()
    };

    let mut changes = Comparison::of(base, &merged, place);
    changes.removed.subtract(&emptied);
    changes.subtract_recursively(context.reset_fields);
    let others_lose = (!others.is_empty()).then(|| Change::new(live, &merged, context));
    yield_fields((&mut entries, changes), (&mut others, others_lose), force)?;
    entries.append(&mut others);
    if *base != merged {
        own.time = Some(context.now.to_string());
    }
    merge::drop_nulls(&mut merged, place, 0);
    own.set = named;
    own.set.subtract_recursively(context.reset_fields);
    own.set.subtract(server_fields());
    entries.push(own);
    entries::settle(&mut entries);
    Ok((merged, Owners(entries)))
}

/// The manager's entry so far, out of the list.
fn take_own(entries: &mut Vec<Entry>, context: &ManagerContext<'_>) -> Entry {
    let own = entries
        .iter()
        .position(|entry| entry.is_of(context.manager, Operation::Apply, context.api_version, context.subresource));
    match own {
        Some(position) => entries.swap_remove(position),
        None => new_entry(context, Operation::Apply),
    }
}

/// Removes the changed or removed fields from the other owners; without force, such a change is a conflict.
fn yield_fields(
    (entries, changes): (&mut [Entry], Comparison),
    (others, change): (&mut [Entry], Option<Change<'_>>),
    force: bool,
) -> Result<(), ApplyError> {
    let (changed, removed) = changes.into_changed();
    let mut conflicts = Vec::new();
    let mut lose = |entry: &mut Entry, changed: &FieldSet, removed: &FieldSet| {
        if !force {
            conflicts.push(Conflict::new(entry, entry.set.intersection(changed)));
        }
        entry.set.subtract(changed);
        entry.set.subtract(removed);
    };
    entries.iter_mut().for_each(|entry| lose(entry, &changed, &removed));
    if let Some(mut change) = change {
        for entry in others {
            let (changed, removed) = change.in_version(&entry.api_version).map_err(ApplyError::Conversion)?;
            lose(entry, changed, removed);
        }
    }
    conflicts.retain(|conflict| !conflict.fields.is_empty());
    if conflicts.is_empty() { Ok(()) } else { Err(ApplyError::Conflicts(conflicts)) }
}

/// `NAMESPACE/NAME; GROUP/VERSION, Kind=KIND`.
fn describe(patch: &Value) -> String {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let metadata = patch.get("metadata");
    let version = text(patch.get("apiVersion"));
    let slash = if version.contains('/') { "" } else { "/" };
    format!(
        "{}/{}; {slash}{version}, Kind={}",
        text(metadata.and_then(|m| m.get("namespace"))),
        text(metadata.and_then(|m| m.get("name"))),
        text(patch.get("kind"))
    )
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

/// Drops conflicts over fields last set by client-side `kubectl apply` and unchanged since: the switch to server-side
/// apply does not conflict with the same client's earlier writes.
fn without_last_applied(conflicts: Vec<Conflict>, live: Option<&Value>, type_: &TypeOf) -> Vec<Conflict> {
    let Some(own) = live.and_then(|live| last_applied_fields(live, type_)) else { return conflicts };
    let mut left = conflicts;
    for conflict in &mut left {
        conflict.fields.subtract(&own);
    }
    left.retain(|conflict| !conflict.fields.is_empty());
    left
}

fn last_applied_fields(live: &Value, type_: &TypeOf) -> Option<FieldSet> {
    let document: Value = serde_json::from_str(annotation(live, LAST_APPLIED)?).ok()?;
    if document["apiVersion"] != live["apiVersion"] {
        return None;
    }
    let place = Place::root(type_);
    let mut set = field_set(&document, place);
    let changes = Comparison::of(&document, live, place);
    for differing in [&changes.modified, &changes.added, &changes.removed] {
        set.subtract(differing);
    }
    Some(set)
}

/// Updates the annotation of client-side apply, so that a later client-side apply computes a correct diff.
fn refresh_last_applied(object: &mut Value, patch: &Value) {
    if annotation(object, LAST_APPLIED).is_none() {
        return;
    }
    let mut document = patch.clone();
    entries::remove(&mut document);
    let text = json_of_go(&document) + "\n";
    let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else { return };
    let others = annotations.iter().filter(|(key, _)| *key != LAST_APPLIED);
    let size: usize = others.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size + LAST_APPLIED.len() + text.len() > ANNOTATIONS_MAX {
        annotations.remove(LAST_APPLIED);
    } else {
        annotations.insert(LAST_APPLIED.to_owned(), text.into());
    }
}
