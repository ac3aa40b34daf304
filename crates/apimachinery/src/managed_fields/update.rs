//! Ownership after a create, an update or a patch that is not an apply.

use serde_json::Value;

use super::compare::Comparison;
use super::entries::{self, Entry, Operation};
use super::owners::Owners;
use super::place::Place;
use super::versions::{Change, after_update, take_others};
use super::{FieldSet, ManagerContext, server_fields};
use crate::schema::TypeOf;

/// Writes `metadata.managedFields` of `new`: the manager owns the fields it added or changed; removed fields lose their
/// owners.
///
/// `old` is `None` on create. If `new` has entries, they replace the stored ones (kubectl migrates ownership this way);
/// `[]` and `[{}]` remove them. An object without entries gets none until its first apply.
pub fn update(old: Option<&Value>, new: &mut Value, context: &ManagerContext<'_>, type_: &TypeOf) {
    let stored = old.and_then(|old| entries::read(old).ok()).map(Owners).unwrap_or_default();
    track(old.map(|old| (old, stored)), new, context, type_).put(new);
}

/// [`update`] with separate owners: those of `old` are a parameter, those of `new` are returned, and `new` has no list
/// afterwards.
pub fn track(old: Option<(&Value, Owners)>, new: &mut Value, context: &ManagerContext<'_>, type_: &TypeOf) -> Owners {
    let (old, stored) = old.unzip();
    let mut entries = starting_entries(stored.unwrap_or_default(), new, context);
    entries::remove(new);
    if entries.is_empty() && old.is_some() {
        return Owners::default();
    }
    let nothing = Value::Object(serde_json::Map::new());
    let mut changes = Comparison::of(old.unwrap_or(&nothing), new, Place::root(type_));
    changes.subtract_recursively(context.reset_fields);
    let others = take_others(&mut entries, context.api_version);
    claim(&mut entries, changes, context);
    if !others.is_empty() {
        entries.extend(after_update(others, Change::new(old, new, context)));
    }
    entries::cap_updaters(&mut entries);
    entries::settle(&mut entries);
    Owners(entries)
}

/// The request's own list counts only on the object itself and when it can be read.
fn starting_entries(stored: Owners, new: &Value, context: &ManagerContext<'_>) -> Vec<Entry> {
    if !context.subresource.is_empty() {
        return stored.0;
    }
    if entries::requests_reset(new) {
        return Vec::new();
    }
    match entries::read(new) {
        Ok(own) if !own.is_empty() => own,
        _ => stored.0,
    }
}

pub(super) fn claim(entries: &mut Vec<Entry>, changes: Comparison, context: &ManagerContext<'_>) {
    let is_own =
        |entry: &Entry| entry.is_of(context.manager, Operation::Update, context.api_version, context.subresource);
    // Upstream converts the owners of a scale to those of its object, and loses the time.
    let time = || (context.subresource != "scale").then(|| context.now.to_string());
    let (mut gained, removed) = changes.into_changed();
    if entries.is_empty() {
        // No entry loses anything to another one.
        gained.subtract(server_fields());
        if !gained.is_empty() {
            entries.push(Entry { set: gained, time: time(), ..new_entry(context, Operation::Update) });
        }
        return;
    }
    let of_server = gained.intersection(server_fields());
    gained.subtract(server_fields());
    let loses = |set: &FieldSet| set.intersects(&removed) || set.intersects(&of_server);
    let is_changed = |own: &Entry| !own.set.contains_all(&gained) || loses(&own.set);
    let is_changed = entries.iter().find(|entry| is_own(entry)).is_none_or(is_changed);
    for entry in entries.iter_mut() {
        [&gained, &of_server, &removed].into_iter().for_each(|taken| entry.set.subtract(taken));
    }
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
    if is_changed {
        own.time = time();
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

/// The entry for all fields that an object had before its first apply.
pub(super) fn entry_before_apply(live: &Value, context: &ManagerContext<'_>, type_: &TypeOf) -> Entry {
    let nothing = Value::Object(serde_json::Map::new());
    let (mut set, _) = Comparison::of(&nothing, live, Place::root(type_)).into_changed();
    set.subtract_recursively(context.reset_fields);
    set.subtract(server_fields());
    let before = ManagerContext { manager: "before-first-apply", ..*context };
    Entry { set, time: Some(context.now.to_string()), ..new_entry(&before, Operation::Update) }
}

/// If only the times of entries differ between `old` and `new`, sets the old times in `new`, so that the write is
/// recognized as unchanged. Call it last, right before comparing.
pub fn keep_old_times(old: &Value, new: &mut Value) {
    let (mut was, mut is) = (old.clone(), new.clone());
    if let (Ok(known), Ok(owners)) = (Owners::take(&mut was), Owners::take(&mut is))
        && was == is
        && owners.equal_but_times(&known)
    {
        new.clone_from(old);
    }
}
