//! The list `metadata.managedFields`: reading, ordering, bounding and writing it.

use std::cmp::{Ordering, Reverse};
use std::collections::HashSet;

use serde_json::{Map, Value};

use super::set::{FieldSet, ParseSetError};
use crate::object::ObjectTree as _;
use crate::raw_json::write_text;

/// Older writers than this many share one entry per API version.
pub(super) const MAX_UPDATERS: usize = 10;
const ANCIENT: &str = "ancient-changes";

/// How a manager came to own its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Deserialize)]
pub enum Operation {
    /// By server-side apply.
    Apply,
    /// By any other write.
    Update,
}

impl Operation {
    /// The name in `managedFields`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// One manager's claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub manager: String,
    pub operation: Operation,
    pub api_version: String,
    pub subresource: String,
    pub time: Option<String>,
    pub set: FieldSet,
}

/// Why an entry cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// The list or an entry is malformed.
    #[error("metadata.managedFields is not a list of entries")]
    NotEntries,
    /// The operation is neither Apply nor Update.
    #[error("invalid operation: {0:?} must be `Apply` or `Update`")]
    Operation(String),
    /// The apiVersion is missing or malformed.
    #[error("apiVersion must not be empty")]
    ApiVersion,
    /// The fieldsType is not FieldsV1.
    #[error("invalid fieldsType: {0:?} must be `FieldsV1`")]
    FieldsType(String),
    /// The field set is malformed.
    #[error(transparent)]
    Set(#[from] ParseSetError),
}

impl Entry {
    /// Whether both claims belong to one entry. Appliers are the same over all API versions.
    pub fn is_of(&self, manager: &str, operation: Operation, api_version: &str, subresource: &str) -> bool {
        self.manager == manager
            && self.operation == operation
            && self.subresource == subresource
            && (operation == Operation::Apply || self.api_version == api_version)
    }

    fn parse(document: &Value) -> Result<Self, EntryError> {
        let map = document.as_object().ok_or(EntryError::NotEntries)?;
        let text = |key: &str| map.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let operation = match text("operation").as_str() {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            other => return Err(EntryError::Operation(other.to_owned())),
        };
        if text("apiVersion").is_empty() {
            return Err(EntryError::ApiVersion);
        }
        if text("fieldsType") != "FieldsV1" {
            return Err(EntryError::FieldsType(text("fieldsType")));
        }
        let set = match map.get("fieldsV1") {
            None | Some(Value::Null) => FieldSet::default(),
            Some(fields) => FieldSet::parse(fields)?,
        };
        let time = map.get("time").and_then(Value::as_str).map(str::to_owned);
        Ok(Self {
            manager: text("manager"),
            operation,
            api_version: text("apiVersion"),
            subresource: text("subresource"),
            time,
            set,
        })
    }

    /// Appends the encoded entry.
    pub fn write(&self, out: &mut Vec<u8>) {
        let member = |out: &mut Vec<u8>, name: &str, text: &str| {
            out.extend_from_slice(name.as_bytes());
            write_text(text, out);
        };
        member(out, "{\"apiVersion\":", &self.api_version);
        out.extend_from_slice(b",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":");
        self.set.write(out);
        member(out, ",\"manager\":", &self.manager);
        member(out, ",\"operation\":", self.operation.as_str());
        if !self.subresource.is_empty() {
            member(out, ",\"subresource\":", &self.subresource);
        }
        if let Some(time) = &self.time {
            member(out, ",\"time\":", time);
        }
        out.push(b'}');
    }

    fn to_value(&self) -> Value {
        let mut map = Map::new();
        map.insert("manager".into(), self.manager.as_str().into());
        map.insert("operation".into(), self.operation.as_str().into());
        map.insert("apiVersion".into(), self.api_version.as_str().into());
        if let Some(time) = &self.time {
            map.insert("time".into(), time.as_str().into());
        }
        map.insert("fieldsType".into(), "FieldsV1".into());
        map.insert("fieldsV1".into(), self.set.to_value());
        if !self.subresource.is_empty() {
            map.insert("subresource".into(), self.subresource.as_str().into());
        }
        Value::Object(map)
    }
}

fn list(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

/// The entries of an object; empty without a list.
pub(super) fn read(object: &Value) -> Result<Vec<Entry>, EntryError> {
    parse(list(object))
}

pub(super) fn parse(list: Option<&Value>) -> Result<Vec<Entry>, EntryError> {
    match list {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(entries)) => entries.iter().map(Entry::parse).collect::<Result<_, _>>().map(last_of_each),
        Some(_) => Err(EntryError::NotEntries),
    }
}

/// A list is read as a map: of several entries for one manager the last is used. Clients that rename managers to the
/// same name rely on it.
pub(super) fn last_of_each(mut entries: Vec<Entry>) -> Vec<Entry> {
    let mut seen = HashSet::with_capacity(entries.len());
    let keep: Vec<bool> = entries
        .iter()
        .rev()
        .map(|entry| {
            let version = if entry.operation == Operation::Apply { "" } else { entry.api_version.as_str() };
            seen.insert((entry.manager.as_str(), entry.operation, version, entry.subresource.as_str()))
        })
        .collect();
    let mut keep = keep.into_iter().rev();
    entries.retain(|_| keep.next().unwrap_or(true));
    entries
}

/// Whether a client requests the removal of all entries, with `[]` or `[{}]`.
pub(super) fn requests_reset(object: &Value) -> bool {
    match list(object).and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => true,
        Some([only]) => only.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

/// Whether the object carries any list at all, null aside.
pub(super) fn is_present(object: &Value) -> bool {
    list(object).is_some_and(|list| !list.is_null())
}

pub(super) fn remove(object: &mut Value) -> Option<Value> {
    object.metadata_mut()?.remove("managedFields")
}

/// Leaves the entries that claim anything, in their order.
pub(super) fn settle(entries: &mut Vec<Entry>) {
    entries.retain(|entry| !entry.set.is_empty());
    entries.sort_by(order);
}

/// Appliers first, then by time, manager, version and subresource.
pub(super) fn order(a: &Entry, b: &Entry) -> Ordering {
    let key = |e: &Entry| (e.operation, e.time.is_some());
    key(a).cmp(&key(b)).then_with(|| {
        (&a.time, &a.manager, &a.api_version, &a.subresource).cmp(&(
            &b.time,
            &b.manager,
            &b.api_version,
            &b.subresource,
        ))
    })
}

/// Writes the list, unless it is empty.
pub(super) fn put(object: &mut Value, entries: &[Entry]) {
    let Some(object) = object.as_object_mut().filter(|_| !entries.is_empty()) else { return };
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("managedFields".into(), entries.iter().map(Entry::to_value).collect());
    }
}

/// Joins the oldest writers of each API version when there are more than ten, so that the list stays bounded.
pub(super) fn cap_updaters(entries: &mut Vec<Entry>) {
    let updaters = entries.iter().filter(|entry| entry.operation == Operation::Update).count();
    let mut excess = updaters.saturating_sub(MAX_UPDATERS);
    if excess == 0 {
        return;
    }
    let (mut appliers, mut rest): (Vec<_>, Vec<_>) =
        std::mem::take(entries).into_iter().partition(|entry| entry.operation == Operation::Apply);
    // Newest first, so that popping takes the oldest.
    rest.sort_by_key(|entry| Reverse((entry.time.clone(), entry.manager.clone())));
    // The combined entry of an earlier time continues to collect.
    let (mut first_of_version, mut rest): (Vec<_>, Vec<_>) = rest.into_iter().partition(|e| e.manager == ANCIENT);
    while excess > 0 {
        let Some(oldest) = rest.pop() else { break };
        match first_of_version.iter_mut().find(|entry| entry.api_version == oldest.api_version) {
            Some(bucket) => {
                bucket.manager = ANCIENT.to_owned();
                bucket.subresource.clear();
                bucket.set = std::mem::take(&mut bucket.set).union(oldest.set);
                bucket.time = oldest.time;
                excess -= 1;
            }
            None => first_of_version.push(oldest),
        }
    }
    appliers.extend(first_of_version);
    appliers.extend(rest);
    *entries = appliers;
}
