//! Strategic merge patch: a merge patch with directives, whose lists are merged according to the schema.
//!
//! Fields outside the schema are merged by RFC 7386. Only built-in kinds support it.

mod lists;

use std::cell::Cell;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::go_print::GoPrint;
use crate::patch::PatchError;
use crate::schema::{PatchStrategy, Schema, SchemaId, Schemas, TypeOf};

/// The limit of the JSON decoder.
const MAX_DEPTH: usize = 128;

/// The bound on items that all merges of lists in one patch visit. A patch may name an item many times, and each time
/// merge a few items into a long list: minutes of work. A patch that names each once visits as many items as the object
/// and the patch have, three million at most in two bodies.
const MAX_WORK: usize = 4_000_000;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
/// The list that these are about follows after a slash.
const ELEMENT_ORDER: &str = "$setElementOrder";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList";

/// Applies `patch` to `live`. On an error `live` may be partly changed; use a copy.
///
/// # Errors
/// When a directive is malformed, or an item lacks its merge key; `live` may then be partly changed.
pub fn apply(live: &mut Value, patch: &Value, type_: &TypeOf) -> Result<(), PatchError> {
    let Value::Object(patch) = patch else {
        return Err(PatchError::Malformed("a strategic merge patch is an object".into()));
    };
    let work = Cell::new(0);
    let at = At { schemas: &type_.schemas, node: Some(type_.node()), depth: 0, work: &work };
    merge_maps(into_map(live), patch, at)
}

/// A position in the schema; without a node the schema is unknown.
#[derive(Clone, Copy)]
struct At<'s> {
    schemas: &'s Schemas,
    node: Option<&'s Schema>,
    depth: usize,
    /// Items that merges of lists have visited.
    work: &'s Cell<usize>,
}

impl<'s> At<'s> {
    fn below(&self, id: Option<SchemaId>) -> Result<Self, PatchError> {
        if self.depth >= MAX_DEPTH {
            return Err(PatchError::Directive(format!("the patch is deeper than {MAX_DEPTH}")));
        }
        Ok(Self { node: id.map(|id| self.schemas.get(id)), depth: self.depth + 1, ..*self })
    }

    /// The place of a member and how patches treat it there.
    fn child(&self, key: &str) -> Result<(Self, &'s PatchStrategy), PatchError> {
        const PLAIN: &PatchStrategy = &PatchStrategy { merge: false, retain_keys: false, merge_key: None };
        match self.node.and_then(|node| node.properties.get(key)) {
            Some(property) => Ok((self.below(Some(property.schema))?, &property.patch)),
            None => Ok((self.below(self.node.and_then(|node| node.additional_properties))?, PLAIN)),
        }
    }

    /// Counts the items of lists that are merged.
    fn visit(&self, lists: [Option<&Value>; 3]) -> Result<(), PatchError> {
        let lists = lists.into_iter().flatten().filter_map(Value::as_array);
        self.work.set(self.work.get().saturating_add(lists.map(Vec::len).sum()));
        if self.work.get() > MAX_WORK {
            return Err(PatchError::NotApplicable(format!("the patch visits more than {MAX_WORK} items of lists")));
        }
        Ok(())
    }

    /// Upstream looks up the fields of its structs; values that are not structs here are not checked.
    fn must_know(&self, field: &str) -> Result<(), PatchError> {
        match self.node.filter(|node| !node.properties.is_empty() && node.properties.get(field).is_none()) {
            None => Ok(()),
            Some(node) => {
                let name = node.definition.as_deref().unwrap_or_default();
                let name = name.rsplit('.').next().unwrap_or_default();
                let text = format!("unable to find api field in struct {name} for the json field {field:?}");
                Err(PatchError::Directive(text))
            }
        }
    }

    fn items(&self) -> Result<Self, PatchError> {
        self.below(self.node.and_then(|node| node.items))
    }
}

fn into_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}

fn merge_maps(live: &mut Map<String, Value>, patch: &Map<String, Value>, at: At<'_>) -> Result<(), PatchError> {
    match patch.get(PATCH).map(|directive| directive.as_str().unwrap_or_default()) {
        None => {}
        Some("replace") => {
            *live = patch.iter().filter(|(key, _)| *key != PATCH).map(|(k, v)| (k.clone(), v.clone())).collect();
            return Ok(());
        }
        Some("delete") => {
            live.clear();
            return Ok(());
        }
        Some(other) => {
            let text = format!("unknown patch type: {other} in map: {}", GoPrint(&Value::Object(patch.clone())));
            return Err(PatchError::Directive(text));
        }
    }
    retain_keys(live, patch)?;
    for (key, order) in patch.iter().filter(|(key, _)| key.starts_with(ELEMENT_ORDER)) {
        merge_ordered(live, field_of(key, ELEMENT_ORDER, "setElementOrder list")?, order, patch, at)?;
    }
    for (key, change) in patch {
        if key == RETAIN_KEYS || key.starts_with(ELEMENT_ORDER) {
            continue;
        }
        if key.starts_with(DELETE_PRIMITIVES) {
            let field = field_of(key, DELETE_PRIMITIVES, "primitive list")?;
            at.visit([live.get(field), Some(change), None])?;
            lists::delete_primitives(live, field, change)?;
            continue;
        }
        // Lists for which an order is stated are merged with it, above.
        if !patch.contains_key(&format!("{ELEMENT_ORDER}/{key}")) {
            merge_member(live, key, change, at)?;
        }
    }
    Ok(())
}

/// The list that a directive is about.
fn field_of<'k>(key: &'k str, directive: &str, named: &'static str) -> Result<&'k str, PatchError> {
    key.strip_prefix(directive).and_then(|rest| rest.strip_prefix('/')).ok_or(PatchError::Format(named))
}

/// Merges an optional list into an optional one, and sorts it in the declared order.
fn merge_ordered(
    live: &mut Map<String, Value>,
    field: &str,
    order: &Value,
    patch: &Map<String, Value>,
    at: At<'_>,
) -> Result<(), PatchError> {
    at.visit([live.get(field), patch.get(field), Some(order)])?;
    let order = lists::read_list(order)?;
    live.get(field).map(lists::read_list).transpose()?;
    let change = patch.get(field).map(lists::read_list).transpose()?;
    at.must_know(field)?;
    if change.is_some() || live.contains_key(field) {
        let before = live.get(field).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        lists::of_one_type(before, change.unwrap_or_default())?;
    }
    let (child, strategy) = at.child(field)?;
    match (live.get_mut(field), change) {
        (Some(Value::Array(items)), Some(change)) if strategy.merge => {
            lists::merge(items, change, Some(order), strategy, child)
        }
        // Taken unchanged; directives inside are ignored.
        (Some(Value::Array(items)), Some(change)) => {
            lists::check(change, order, strategy)?;
            *items = change.to_vec();
            Ok(())
        }
        (Some(Value::Array(items)), None) => lists::put_in_order(items, false, order, strategy),
        (_, Some(change)) => {
            lists::check(change, order, strategy)?;
            let mut items: Vec<Value> = change.iter().filter_map(taken).collect();
            lists::put_in_order(&mut items, true, order, strategy)?;
            live.insert(field.to_owned(), items.into());
            Ok(())
        }
        _ => Ok(()),
    }
}

fn merge_member(live: &mut Map<String, Value>, key: &str, change: &Value, at: At<'_>) -> Result<(), PatchError> {
    let (child, strategy) = at.child(key)?;
    if strategy.merge {
        at.visit([live.get(key), Some(change), None])?;
    }
    match (live.get_mut(key), change) {
        (_, Value::Null) => {
            live.remove(key);
        }
        (Some(Value::Object(live)), Value::Object(change)) => merge_maps(live, change, child)?,
        (Some(Value::Array(live)), Value::Array(change)) if strategy.merge => {
            lists::merge(live, change, None, strategy, child)?;
        }
        // Taken unchanged; directives inside are ignored.
        (Some(Value::Array(live)), Value::Array(change)) => live.clone_from(change),
        (_, change) => match taken(change) {
            Some(change) => drop(live.insert(key.to_owned(), change)),
            None => drop(live.remove(key)),
        },
    }
    Ok(())
}

/// A part of a patch without a live counterpart: without nulls and directives, and `None` if it has a `$patch`
/// directive itself, which then has no effect. Recursion is bounded by the decoder's depth.
fn taken(change: &Value) -> Option<Value> {
    match change {
        Value::Object(map) if map.contains_key(PATCH) => None,
        Value::Object(map) => {
            let members = map.iter().filter(|(key, value)| !value.is_null() && !is_directive(key));
            Some(members.filter_map(|(key, value)| Some((key.clone(), taken(value)?))).collect())
        }
        Value::Array(items) => Some(items.iter().filter_map(taken).collect()),
        scalar => Some(scalar.clone()),
    }
}

/// An item that a patch adds to a list: without nulls and directives, which have no effect inside it.
fn added(change: &Value) -> Value {
    match change {
        Value::Object(map) => added_map(map),
        Value::Array(items) => items.iter().map(added).collect(),
        scalar => scalar.clone(),
    }
}

fn added_map(map: &Map<String, Value>) -> Value {
    let members = map.iter().filter(|(key, value)| !value.is_null() && !is_directive(key));
    members.map(|(key, value)| (key.clone(), added(value))).collect()
}

fn is_directive(key: &str) -> bool {
    key == PATCH || key == RETAIN_KEYS || key.starts_with(ELEMENT_ORDER) || key.starts_with(DELETE_PRIMITIVES)
}

/// `$retainKeys` names all keys that may stay, so that members of a union do not pile up.
fn retain_keys(live: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), PatchError> {
    let Some(keys) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let keys = keys.as_array().ok_or(PatchError::Format("retainKeys"))?;
    let listed: BTreeSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let listed = |key: &str| listed.contains(key);
    // Removed members need not be listed: kubectl's patches contain both.
    if patch.iter().any(|(key, value)| !value.is_null() && !key.starts_with('$') && !listed(key)) {
        return Err(PatchError::Format("retainKeys"));
    }
    live.retain(|key, _| listed(key));
    Ok(())
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
