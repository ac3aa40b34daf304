//! Ownership after a create, an update or a patch that is not an apply.

use serde_json::Value;

use super::compare::Comparison;
use super::entries::{self, Entry, Operation};
use super::place::Place;
use super::{FieldSet, ManagerContext, server_fields};
use crate::schema::TypeOf;

/// Writes `metadata.managedFields` of `new`: the manager owns what it added or changed, and nobody owns what is gone.
///
/// `old` is `None` on create. `new` may bring entries of its own, which replace the stored ones (kubectl migrates
/// ownership so), or `[]` or `[{}]`, which forgets them. An object without entries stays without until its first apply.
pub fn update(old: Option<&Value>, new: &mut Value, context: &ManagerContext<'_>, type_: &TypeOf) {
    let mut entries = starting_entries(old, new, context);
    entries::remove(new);
    if entries.is_empty() && old.is_some() {
        return;
    }
    let nothing = Value::Object(serde_json::Map::new());
    let mut changes = Comparison::of(old.unwrap_or(&nothing), new, Place::root(type_));
    changes.subtract_recursively(context.reset_fields);
    claim(&mut entries, changes, context);
    entries::cap_updaters(&mut entries);
    entries::write(new, entries);
}

/// The request's own list counts only on the object itself and when it can be read.
fn starting_entries(old: Option<&Value>, new: &Value, context: &ManagerContext<'_>) -> Vec<Entry> {
    let stored = || old.and_then(|old| entries::read(old).ok()).unwrap_or_default();
    if !context.subresource.is_empty() {
        return stored();
    }
    if entries::asks_for_reset(new) {
        return Vec::new();
    }
    match entries::read(new) {
        Ok(own) if !own.is_empty() => own,
        _ => stored(),
    }
}

fn claim(entries: &mut Vec<Entry>, changes: Comparison, context: &ManagerContext<'_>) {
    let is_own =
        |entry: &Entry| entry.is_of(context.manager, Operation::Update, context.api_version, context.subresource);
    let (mut gained, removed) = changes.into_changed();
    let former = entries.iter().find(|entry| is_own(entry)).map(|entry| entry.set.clone());
    for entry in entries.iter_mut() {
        entry.set.subtract(&gained);
        entry.set.subtract(&removed);
    }
    gained.subtract(server_fields());
    let own = match entries.iter_mut().find(|entry| is_own(entry)) {
        Some(own) => own,
        None if gained.is_empty() => return,
        None => {
            entries.push(new_entry(context, Operation::Update));
            let last = entries.len() - 1;
            &mut entries[last]
        }
    };
    own.set = std::mem::take(&mut own.set).union(gained);
    if former.as_ref() != Some(&own.set) {
        // Upstream translates the owners of a scale to those of its object, and the time is lost on the way.
        own.time = (context.subresource != "scale").then(|| context.now.to_string());
    }
}

pub(super) fn new_entry(context: &ManagerContext<'_>, operation: Operation) -> Entry {
    Entry {
        manager: context.manager.to_owned(),
        operation,
        api_version: context.api_version.to_owned(),
        subresource: context.subresource.to_owned(),
        time: None,
        set: FieldSet::default(),
    }
}

/// The entry that stands for everything an object held before its first apply.
pub(super) fn entry_before_apply(live: &Value, context: &ManagerContext<'_>, type_: &TypeOf) -> Entry {
    let nothing = Value::Object(serde_json::Map::new());
    let (mut set, _) = Comparison::of(&nothing, live, Place::root(type_)).into_changed();
    set.subtract_recursively(context.reset_fields);
    set.subtract(server_fields());
    let before = ManagerContext { manager: "before-first-apply", ..*context };
    Entry { set, time: Some(context.now.to_string()), ..new_entry(&before, Operation::Update) }
}

/// When nothing but the times of entries differs between `old` and `new`, gives `new` the old times, so that the
/// write is seen to change nothing. Call it last, right before comparing.
pub fn keep_old_times(old: &Value, new: &mut Value) {
    if old == new || !only_times_differ(old, new) {
        return;
    }
    let Some(entries) = old.get("metadata").and_then(|m| m.get("managedFields")).cloned() else { return };
    if let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("managedFields".into(), entries);
    }
}

fn only_times_differ(old: &Value, new: &Value) -> bool {
    let (Some(was), Some(is)) = (old.as_object(), new.as_object()) else { return false };
    equal_but(was, is, "metadata", |was, is| {
        let (Some(was), Some(is)) = (was.as_object(), is.as_object()) else { return false };
        equal_but(was, is, "managedFields", |was, is| {
            let (Some(was), Some(is)) = (was.as_array(), is.as_array()) else { return false };
            // Times decide the order, so entries are paired by what else they say.
            was.len() == is.len() && is.iter().all(|entry| was.iter().any(|other| same_entry(entry, other)))
        })
    })
}

fn same_entry(a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return a == b };
    let timeless = |(key, _): &(&String, &Value)| *key != "time";
    a.iter().filter(timeless).eq(b.iter().filter(timeless))
}

type Members = serde_json::Map<String, Value>;

fn equal_but(was: &Members, is: &Members, key: &str, equal: impl Fn(&Value, &Value) -> bool) -> bool {
    let other = |(k, _): &(&String, &Value)| *k != key;
    was.iter().filter(other).eq(is.iter().filter(other))
        && match (was.get(key), is.get(key)) {
            (Some(was), Some(is)) => was == is || equal(was, is),
            (was, is) => was == is,
        }
}
