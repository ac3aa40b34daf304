//! Merges an applied configuration into the live object, and removes fields that its manager has released.

use std::collections::BTreeMap;

use serde_json::Value;

use super::path::PathElement;
use super::place::{Form, Place};
use super::set::{FieldSet, MAX_DEPTH, Node};

/// Merges the whole `patch` into `live`. A null in the patch replaces values without parts by null.
pub(super) fn merge(live: &mut Value, patch: &Value, place: Place<'_>, depth: usize) {
    if depth < MAX_DEPTH {
        match (&mut *live, place.form(Some(patch))) {
            (Value::Object(map), Form::Map(changes)) => {
                for (key, change) in changes {
                    match map.get_mut(key) {
                        Some(member) => merge(member, change, place.child(key).0, depth + 1),
                        None => {
                            map.insert(key.clone(), change.clone());
                        }
                    }
                }
                return;
            }
            (Value::Array(items), Form::List(changes)) => {
                merge_lists(items, changes, place, depth);
                return;
            }
            // It has no more parts than an empty value.
            (some, Form::Null) if !is_empty(some) => {
                if matches!(place.form(Some(some)), Form::Map(_) | Form::List(_)) {
                    return;
                }
            }
            _ => {}
        }
    }
    live.clone_from(patch);
}

/// The order is the patch's; items only in the live list keep their position between their neighbours.
fn merge_lists(live: &mut Vec<Value>, patch: &[Value], place: Place<'_>, depth: usize) {
    let patched: Vec<PathElement> = patch.iter().map(|item| place.item_element(item)).collect();
    let present: Vec<PathElement> = live.iter().map(|item| place.item_element(item)).collect();
    let positions: BTreeMap<&PathElement, usize> = patched.iter().enumerate().map(|(at, e)| (e, at)).collect();
    let mut first_live: BTreeMap<&PathElement, usize> = BTreeMap::new();
    for (at, element) in present.iter().enumerate() {
        first_live.entry(element).or_insert(at);
    }
    let mut old: Vec<Option<Value>> = std::mem::take(live).into_iter().map(Some).collect();
    // For each item of the patch, the next following one that is also in the live list.
    let mut next_shared = vec![None; patch.len() + 1];
    for at in (0..patch.len()).rev() {
        next_shared[at] = if first_live.contains_key(&patched[at]) { Some(at) } else { next_shared[at + 1] };
    }
    let (mut l, mut p) = (0, 0);
    while l < old.len() || p < patch.len() {
        if let Some(element) = present.get(l) {
            match positions.get(element) {
                None => {
                    live.extend(old[l].take());
                    l += 1;
                    continue;
                }
                // Taken already, or due later in the patch's order.
                Some(at) if *at < p || next_shared[p] != Some(*at) => {
                    l += 1;
                    continue;
                }
                Some(_) => {}
            }
        }
        let Some(item) = patch.get(p) else { break };
        let base = first_live.get(&patched[p]).and_then(|at| old[*at].take());
        live.push(match base {
            Some(mut merged) => {
                merge(&mut merged, item, place.items(), depth + 1);
                merged
            }
            None => item.clone(),
        });
        p += 1;
    }
}

/// Removes from `value` the fields in `last` (the manager's previous configuration) that are in none of `owners`. Returns
/// the maps and lists that lost all their content so and were removed, too, although other managers own them: to these
/// managers they are unset, not removed.
pub(super) fn prune(value: &mut Value, last: &FieldSet, owners: &[&FieldSet], place: Place<'_>) -> FieldSet {
    prune_below(value, last, owners, place, 0).emptied
}

/// Whether a set claims a node. Naming something below a declared field claims the field, too.
fn claims(node: &Node, declared: bool) -> bool {
    node.member || (declared && !node.children.is_empty())
}

/// What a prune leaves of a value.
#[derive(Default)]
struct Pruned {
    /// Whether it lost everything.
    is_void: bool,
    /// What was removed below it for having lost everything.
    emptied: FieldSet,
}

fn prune_below(value: &mut Value, last: &FieldSet, owners: &[&FieldSet], place: Place<'_>, depth: usize) -> Pruned {
    let mut result = Pruned::default();
    if depth >= MAX_DEPTH {
        return result;
    }
    match value {
        Value::Object(map) => {
            for (element, node) in last.iter() {
                let PathElement::Field(name) = element else { continue };
                let Some(member) = map.get_mut(&**name) else { continue };
                let (child, declared) = place.child(name);
                // Metadata is never removed, regardless of its owners.
                let keep = depth == 0 && &**name == "metadata";
                let pruned = prune_child(member, element, node, owners, (child, declared), depth);
                let without_owners = || keep.then(|| prune_below(member, &node.children, &[], child, depth + 1));
                let Some(pruned) = pruned.or_else(without_owners) else {
                    map.remove(&**name);
                    continue;
                };
                let children = pruned.emptied;
                result.emptied.push(element.clone(), Node { member: pruned.is_void, children });
                if pruned.is_void && !keep {
                    map.remove(&**name);
                }
            }
            // A member that lost everything is still one.
            result.is_void = map.is_empty() && result.emptied.is_empty();
        }
        Value::Array(items) => {
            items.retain_mut(|item| {
                let element = place.item_element(item);
                let Some(node) = last.get(&element) else { return true };
                let pruned = prune_child(item, &element, node, owners, (place.items(), false), depth);
                pruned.is_some_and(|pruned| {
                    let is_left = !pruned.is_void;
                    result.emptied.push(element, Node { member: false, children: pruned.emptied });
                    is_left
                })
            });
            result.is_void = items.is_empty();
        }
        _ => {}
    }
    result
}

/// What is left of the child; `None` if it goes.
fn prune_child(
    value: &mut Value,
    element: &PathElement,
    node: &Node,
    owners: &[&FieldSet],
    (place, declared): (Place<'_>, bool),
    depth: usize,
) -> Option<Pruned> {
    let claimants: Vec<&Node> = owners.iter().filter_map(|owner| owner.get(element)).collect();
    if claims(node, declared) && !claimants.iter().any(|claimant| claims(claimant, declared)) {
        return None;
    }
    if node.children.is_empty() || is_empty(value) {
        return Some(Pruned::default());
    }
    let below: Vec<&FieldSet> = claimants.iter().map(|claimant| &claimant.children).collect();
    Some(prune_below(value, &node.children, &below, place, depth + 1))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Removes nulls that a Go struct would not keep. Free-form parts and custom resources keep theirs, because there null
/// may be a value.
pub(super) fn drop_nulls(value: &mut Value, place: Place<'_>, depth: usize) {
    if depth >= MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(map) => {
            if place.is_struct() {
                map.retain(|_, member| !member.is_null());
            }
            for (key, member) in map {
                drop_nulls(member, place.child(key).0, depth + 1);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| drop_nulls(item, place.items(), depth + 1)),
        _ => {}
    }
}
