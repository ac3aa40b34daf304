//! Strategic merge patch: a merge patch whose lists are merged as the schema says, with directives.
//!
//! What the schema does not know is merged as by RFC 7386. Only built-in kinds are patched so.

mod lists;

use serde_json::{Map, Value};

use crate::go_json;
use crate::patch::PatchError;
use crate::schema::{PatchStrategy, Schema, SchemaId, Schemas, TypeOf};

/// Documents are never deeper than what the JSON decoder reads.
const MAX_DEPTH: usize = 128;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ELEMENT_ORDER: &str = "$setElementOrder/";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList/";

/// Applies `patch` to `live`. On an error `live` is left half changed; work on a copy.
pub fn apply(live: &mut Value, patch: &Value, type_: &TypeOf) -> Result<(), PatchError> {
    let Value::Object(patch) = patch else {
        return Err(PatchError::Malformed("a strategic merge patch is an object".into()));
    };
    let at = At { schemas: &type_.schemas, node: Some(type_.node()), depth: 0 };
    merge_maps(into_map(live), patch, at)
}

/// A place in the schema; without a node nothing is known.
#[derive(Clone, Copy)]
struct At<'s> {
    schemas: &'s Schemas,
    node: Option<&'s Schema>,
    depth: usize,
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
            let text =
                format!("unknown patch type: {other} in map: {}", go_json::printed(&Value::Object(patch.clone())));
            return Err(PatchError::Directive(text));
        }
    }
    retain_keys(live, patch)?;
    for (key, change) in patch {
        if key == RETAIN_KEYS || key.starts_with(ELEMENT_ORDER) {
            continue;
        }
        if let Some(field) = key.strip_prefix(DELETE_PRIMITIVES) {
            lists::delete_primitives(live, field, change)?;
            continue;
        }
        merge_member(live, key, change, patch, at)?;
    }
    // An order without a patch of the list itself reorders what is there.
    for (key, order) in patch {
        if let Some(field) = key.strip_prefix(ELEMENT_ORDER).filter(|field| !patch.contains_key(*field)) {
            let (child, strategy) = at.child(field)?;
            if let (true, Some(Value::Array(items))) = (strategy.merge, live.get_mut(field)) {
                lists::merge(items, &[], Some(order), strategy, child)?;
            }
        }
    }
    Ok(())
}

fn merge_member(
    live: &mut Map<String, Value>,
    key: &str,
    change: &Value,
    patch: &Map<String, Value>,
    at: At<'_>,
) -> Result<(), PatchError> {
    let (child, strategy) = at.child(key)?;
    let order = patch.get(&format!("{ELEMENT_ORDER}{key}"));
    match (live.get_mut(key), change) {
        (_, Value::Null) => {
            live.remove(key);
        }
        (Some(Value::Object(live)), Value::Object(change)) => merge_maps(live, change, child)?,
        (Some(Value::Array(live)), Value::Array(change)) if strategy.merge => {
            lists::merge(live, change, order, strategy, child)?;
        }
        // Taken as it is; what it says within is not looked at.
        (Some(Value::Array(live)), Value::Array(change)) => live.clone_from(change),
        (_, change) => {
            if let (Value::Array(items), Some(order), true) = (change, order, strategy.merge) {
                lists::check(items, order, strategy)?;
            }
            match taken(change) {
                Some(mut change) => {
                    if let (Value::Array(items), Some(Value::Array(order))) = (&mut change, order) {
                        lists::put_in_order(items, order, strategy)?;
                    }
                    live.insert(key.to_owned(), change);
                }
                None => {
                    live.remove(key);
                }
            }
        }
    }
    Ok(())
}

/// A part of a patch that meets nothing of its kind: without nulls and directives, and `None` where it is itself
/// directed by `$patch`, for which there is nothing to do. Recursion is bounded by the decoder's depth.
fn taken(change: &Value) -> Option<Value> {
    let is_directive =
        |key: &str| key == RETAIN_KEYS || key.starts_with(ELEMENT_ORDER) || key.starts_with(DELETE_PRIMITIVES);
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

/// `$retainKeys` names all keys that may stay, so that members of a union do not pile up.
fn retain_keys(live: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), PatchError> {
    let Some(keys) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let keys = keys.as_array().ok_or(PatchError::Format("retainKeys"))?;
    let listed = |key: &str| keys.iter().any(|listed| listed.as_str() == Some(key));
    // What is only taken away need not be listed: kubectl's patches say both.
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
