//! Owners that recorded their fields in another API version than the request's: their fields are compared, and removed,
//! in their own version.

use std::fmt;

use serde_json::{Map, Value};

use super::applied::field_set;
use super::compare::Comparison;
use super::entries::Entry;
use super::path::PathElement;
use super::place::Place;
use super::set::FieldSet;
use super::{ManagerContext, merge, reconcile};
use crate::schema::TypeOf;

/// The other API versions of a kind.
pub trait Versions: fmt::Debug + Sync {
    /// The type of objects in a version; `None` if the kind has no such version. Owners in it lose their fields.
    fn type_of(&self, api_version: &str) -> Option<&TypeOf>;

    /// An object in another version.
    ///
    /// # Errors
    /// The message of a failed conversion.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String>;
}

/// A kind with one version.
pub const ONE_VERSION: &dyn Versions = &OneVersion;

#[derive(Debug)]
struct OneVersion;

impl Versions for OneVersion {
    fn type_of(&self, _api_version: &str) -> Option<&TypeOf> {
        None
    }

    fn convert(&self, _object: &Value, api_version: &str) -> Result<Value, String> {
        Err(format!("there is no version {api_version}"))
    }
}

/// The owners that recorded their fields in other versions, out of the list; usually none.
pub(super) fn take_others(entries: &mut Vec<Entry>, api_version: &str) -> Vec<Entry> {
    let is_other = |entry: &Entry| entry.api_version != api_version;
    if !entries.iter().any(is_other) {
        return Vec::new();
    }
    let (others, own) = std::mem::take(entries).into_iter().partition(is_other);
    *entries = own;
    others
}

/// Fits the sets to the schemas of their versions. Owners in versions that do not exist lose theirs.
pub(super) fn reconcile_all(entries: &mut Vec<Entry>, context: &ManagerContext<'_>, own: Place<'_>) {
    entries.retain_mut(|entry| {
        let place = match entry.api_version == context.api_version {
            true => Some(own),
            false => context.versions.type_of(&entry.api_version).map(Place::root),
        };
        place.map(|place| reconcile::reconcile(&mut entry.set, place)).is_some()
    });
}

/// A change of an object, compared in each version once.
pub(super) struct Change<'c> {
    old: Option<&'c Value>,
    new: &'c Value,
    context: &'c ManagerContext<'c>,
    known: Vec<(String, FieldSet, FieldSet)>,
}

impl<'c> Change<'c> {
    pub fn new(old: Option<&'c Value>, new: &'c Value, context: &'c ManagerContext<'c>) -> Self {
        Self { old, new, context, known: Vec::new() }
    }

    /// The fields with a new value, and the removed ones, in a version that exists.
    pub fn in_version(&mut self, api_version: &str) -> Result<(&FieldSet, &FieldSet), String> {
        let at = match self.known.iter().position(|(version, ..)| version == api_version) {
            Some(at) => at,
            None => {
                let versions = self.context.versions;
                let type_ =
                    versions.type_of(api_version).ok_or_else(|| format!("there is no version {api_version}"))?;
                let old = self.old.map(|old| versions.convert(old, api_version));
                let old = old.unwrap_or_else(|| Ok(Value::Object(Map::new())))?;
                let new = versions.convert(self.new, api_version)?;
                let mut changes = Comparison::of(&old, &new, Place::root(type_));
                changes.subtract_recursively(self.context.reset_fields);
                let (changed, removed) = changes.into_changed();
                self.known.push((api_version.to_owned(), changed, removed));
                self.known.len() - 1
            }
        };
        let (_, changed, removed) = &self.known[at];
        Ok((changed, removed))
    }
}

/// The owners in other versions after an update. If a version cannot be converted to, its owners keep their fields: a
/// webhook that does not answer removes no owner.
pub(super) fn after_update(mut others: Vec<Entry>, mut change: Change<'_>) -> Vec<Entry> {
    others.retain_mut(|entry| {
        let Some(type_) = change.context.versions.type_of(&entry.api_version) else { return false };
        reconcile::reconcile(&mut entry.set, Place::root(type_));
        if let Ok((changed, removed)) = change.in_version(&entry.api_version) {
            entry.set.subtract(changed);
            entry.set.subtract(removed);
        }
        true
    });
    others
}

/// As [`merge::prune`], for a configuration (`last`) or owners in several versions: a field stays if it has an owner in
/// any of them.
pub(super) fn prune(
    merged: &mut Value,
    (last, last_version): (&FieldSet, &str),
    owners: &[(&str, &FieldSet)],
    context: &ManagerContext<'_>,
    own: &TypeOf,
) -> Result<(), String> {
    let type_of =
        |version: &str| if version == context.api_version { Some(own) } else { context.versions.type_of(version) };
    let convert = |object: &Value, version: &str| match object["apiVersion"] == version {
        true => Ok(object.clone()),
        false => context.versions.convert(object, version),
    };
    let owners_in = |version: &str| -> Vec<&FieldSet> {
        owners.iter().filter(|(known, _)| *known == version).map(|(_, set)| *set).collect()
    };
    let Some(last_type) = type_of(last_version) else { return Ok(()) };
    let place = Place::root(last_type);
    let before = convert(merged, last_version)?;
    let mut pruned = before.clone();
    let emptied = merge::prune(&mut pruned, last, &owners_in(last_version), place);
    if pruned == before {
        return Ok(());
    }
    unset(&mut pruned, &emptied, place);
    let mut versions: Vec<&str> = owners.iter().map(|(version, _)| *version).collect();
    versions.retain(|version| *version != last_version);
    versions.sort_unstable();
    versions.dedup();
    for version in versions {
        let Some(type_) = type_of(version) else { continue };
        let (whole, left) = (convert(merged, version)?, convert(&pruned, version)?);
        let place = Place::root(type_);
        let emptied;
        (pruned, emptied) = without(whole, &left, None, &owners_in(version), place);
        unset(&mut pruned, &emptied, place);
    }
    // What its manager has not applied stays, too.
    let left = convert(&pruned, last_version)?;
    let (pruned, _) = without(before, &left, Some(last), &[], place);
    *merged = convert(&pruned, context.api_version)?;
    Ok(())
}

/// Values that lost all their content, but have an owner, are null until all versions have been compared.
fn unset(value: &mut Value, emptied: &FieldSet, place: Place<'_>) {
    match value {
        Value::Object(map) => {
            for (element, node) in emptied.iter() {
                let PathElement::Field(name) = element else { continue };
                match map.get_mut(&**name) {
                    Some(member) => unset(member, &node.children, place.child(name).0),
                    None if node.member => drop(map.insert(name.to_string(), Value::Null)),
                    None => {}
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                if let Some(node) = emptied.get(&place.item_element(item)) {
                    unset(item, &node.children, place.items());
                }
            }
        }
        _ => {}
    }
}

/// `whole` without the fields (of `among`) that `left` lacks, unless they have an owner; and what lost all its content so.
fn without(
    mut whole: Value,
    left: &Value,
    among: Option<&FieldSet>,
    owners: &[&FieldSet],
    place: Place<'_>,
) -> (Value, FieldSet) {
    let named = |mut set: FieldSet| {
        name_declared(&mut set, place);
        set
    };
    let kept = named(field_set(left, place));
    let mut gone = named(field_set(&whole, place));
    gone.subtract(&kept);
    if let Some(among) = among {
        gone = gone.intersection(&named(among.clone()));
    }
    // A field that is left is not removed for what is gone below it.
    let owners: Vec<&FieldSet> = owners.iter().copied().chain([&kept]).collect();
    let emptied = merge::prune(&mut whole, &gone, &owners, place);
    (whole, emptied)
}

/// Makes the declared fields members that are named by what is below them.
fn name_declared(set: &mut FieldSet, place: Place<'_>) {
    for (element, node) in set.iter_mut().filter(|(_, node)| !node.children.is_empty()) {
        let (child, declared) = match element {
            PathElement::Field(name) => place.child(name),
            _ => (place.items(), false),
        };
        node.member |= declared;
        name_declared(&mut node.children, child);
    }
}
