//! Lists that a strategic merge patch merges: by key, or as sets of primitives, and their order.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{At, ELEMENT_ORDER, PATCH, merge_maps, taken};
use crate::go_json;
use crate::patch::PatchError;
use crate::schema::PatchStrategy;

pub(super) fn merge(
    live: &mut Vec<Value>,
    patch: &[Value],
    order: Option<&[Value]>,
    strategy: &PatchStrategy,
    at: At<'_>,
) -> Result<(), PatchError> {
    if live.is_empty() && patch.is_empty() {
        return Ok(());
    }
    let are_maps = of_one_type(live, patch)?;
    match (strategy.merge_key.as_deref(), are_maps) {
        (Some(key), true) => merge_by_key(live, patch, order, key, at),
        (Some(_), false) => Err(unexpected(MAP, live.first().or(patch.first()).unwrap_or(&Value::Null))),
        (None, true) => Err(PatchError::Directive("cannot merge lists without merge key for string".to_owned())),
        (None, false) => {
            let identity = |item: &Value| Some(item.to_string());
            let before = live.clone();
            check_order(patch, order, None)?;
            let mut seen: BTreeSet<String> = live.iter().map(ToString::to_string).collect();
            live.extend(patch.iter().filter(|item| seen.insert(item.to_string())).cloned());
            reorder(live, &before, order.unwrap_or(patch), &identity);
            Ok(())
        }
    }
}

/// A list that an order is stated for.
pub(super) fn read_list(list: &Value) -> Result<&[Value], PatchError> {
    list.as_array().map(Vec::as_slice).ok_or_else(|| unexpected(LIST, list))
}

const MAP: &str = "map[string]interface {}";
const LIST: &str = "[]interface {}";

fn unexpected(expected: &str, found: &Value) -> PatchError {
    // As Go prints the missing type of nil.
    let found = if found.is_null() { "%!s(<nil>)" } else { go_json::go_type(found) };
    PatchError::Directive(format!("expected a {expected}, but received a {found}"))
}

/// Whether all items of both lists are maps. They are of one type, and no lists.
pub(super) fn of_one_type(live: &[Value], patch: &[Value]) -> Result<bool, PatchError> {
    let mut items = live.iter().chain(patch);
    let Some(first) = items.next() else {
        return Err(PatchError::Directive("no elements in any of the given slices".to_owned()));
    };
    if first.is_array() {
        return Err(PatchError::NotApplicable("lists of lists are not supported".to_owned()));
    }
    if items.any(|item| go_json::go_type(item) != go_json::go_type(first)) {
        let both = Value::from(vec![live.to_vec(), patch.to_vec()]);
        return Err(PatchError::Directive(format!(
            "list element types are not identical: {}",
            go_json::printed(&both)
        )));
    }
    Ok(first.is_object())
}

/// Removes values from a list of primitives. A non-list removes nothing; null removes the whole list.
pub(super) fn delete_primitives(live: &mut Map<String, Value>, field: &str, gone: &Value) -> Result<(), PatchError> {
    if gone.is_null() {
        live.remove(field);
    }
    if let (Some(Value::Array(items)), Value::Array(gone)) = (live.get_mut(field), gone) {
        if items.is_empty() && gone.is_empty() {
            return Ok(());
        }
        of_one_type(items, gone)?;
        let gone: BTreeSet<String> = gone.iter().map(ToString::to_string).collect();
        items.retain(|item| !gone.contains(&item.to_string()));
    }
    Ok(())
}

fn merge_by_key(
    live: &mut Vec<Value>,
    patch: &[Value],
    order: Option<&[Value]>,
    key: &str,
    at: At<'_>,
) -> Result<(), PatchError> {
    let identity = |item: &Value| item.get(key).map(ToString::to_string);
    let before = live.clone();
    check_order(patch, order, Some(key))?;
    let Directed { items: patch_items, gone, replace } = directed(patch, key)?;
    if replace {
        // The rest of the patch is the list, unchanged.
        *live = patch_items.into_iter().filter_map(|map| taken(&Value::Object(map.clone()))).collect();
        need_keys(live, key)?;
        reorder(live, &before, order.unwrap_or(&[]), &identity);
        return Ok(());
    }
    if !gone.is_empty() {
        live.retain(|item| identity(item).is_none_or(|name| !gone.contains(&name)));
    }
    let items = at.items()?;
    // Both lists may have as many items as a body holds, so each is looked up once. Of equal ones the first is used.
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for (at, item) in live.iter().enumerate() {
        if let Some(name) = identity(item) {
            places.entry(name).or_insert(at);
        }
    }
    for map in patch_items {
        let name = map.get(key).ok_or_else(|| lacks_key(&Value::Object(map.clone()), key))?.to_string();
        match places.entry(name) {
            Entry::Occupied(place) => merge_maps(super::into_map(&mut live[*place.get()]), map, items)?,
            Entry::Vacant(place) => {
                place.insert(live.len());
                live.extend(taken(&Value::Object(map.clone())));
            }
        }
    }
    need_keys(live, key)?;
    reorder(live, &before, order.unwrap_or(patch), &identity);
    Ok(())
}

/// Items without a key have no place among others.
fn need_keys(items: &[Value], key: &str) -> Result<(), PatchError> {
    items.iter().find(|item| item.get(key).is_none()).map_or(Ok(()), |item| Err(lacks_key(item, key)))
}

/// The parsed items of a patch: those to merge, the keys of those to delete, and whether the list is replaced.
struct Directed<'p> {
    items: Vec<&'p Map<String, Value>>,
    gone: BTreeSet<String>,
    replace: bool,
}

fn directed<'p>(patch: &'p [Value], key: &str) -> Result<Directed<'p>, PatchError> {
    let mut found = Directed { items: Vec::with_capacity(patch.len()), gone: BTreeSet::new(), replace: false };
    for item in patch {
        let map = item.as_object().ok_or_else(|| unexpected(MAP, item))?;
        match map.get(PATCH).map(|directive| directive.as_str().unwrap_or_default()) {
            None => found.items.push(map),
            Some("replace") => found.replace = true,
            Some("delete") => {
                found.gone.insert(map.get(key).ok_or_else(|| lacks_key(item, key))?.to_string());
            }
            Some("merge") => {
                return Err(PatchError::Directive("merging lists cannot yet be specified in the patch".to_owned()));
            }
            Some(other) => {
                let text = format!("unknown patch type: {other} in map: {}", go_json::printed(item));
                return Err(PatchError::Directive(text));
            }
        }
    }
    Ok(found)
}

/// Checks a list without a live counterpart against its declared order.
pub(super) fn check(patch: &[Value], order: &[Value], strategy: &PatchStrategy) -> Result<(), PatchError> {
    check_order(patch, Some(order), strategy.merge_key.as_deref())
}

/// Sorts the items of a list that was created or is absent from the patch by its `$setElementOrder`.
pub(super) fn put_in_order(
    items: &mut Vec<Value>,
    before: &[Value],
    order: &[Value],
    strategy: &PatchStrategy,
) -> Result<(), PatchError> {
    if let Some(key) = strategy.merge_key.as_deref() {
        need_keys(items, key)?;
    }
    reorder(items, before, order, &identity_of(strategy));
    Ok(())
}

fn identity_of(strategy: &PatchStrategy) -> impl Fn(&Value) -> Option<String> {
    move |item| match &strategy.merge_key {
        Some(key) => item.get(&**key).map(ToString::to_string),
        None => Some(item.to_string()),
    }
}

fn lacks_key(item: &Value, key: &str) -> PatchError {
    PatchError::Directive(format!("map: {} does not contain declared merge key: {key}", go_json::printed(item)))
}

type Identity<'a> = &'a dyn Fn(&Value) -> Option<String>;

/// Items of the patch must have the order of `$setElementOrder`. An empty order is ignored.
fn check_order(patch: &[Value], order: Option<&[Value]>, key: Option<&str>) -> Result<(), PatchError> {
    let Some(order) = order.filter(|order| !order.is_empty() && !patch.is_empty()) else { return Ok(()) };
    let identity = |item: &Value| -> Result<String, PatchError> {
        let Some(key) = key else { return Ok(item.to_string()) };
        let map = item.as_object().ok_or_else(|| unexpected(MAP, item))?;
        map.get(key).map(ToString::to_string).ok_or_else(|| lacks_key(item, key))
    };
    if let Some(item) = patch.iter().find(|item| key.is_some() && !item.is_object()) {
        return Err(unexpected(MAP, item));
    }
    let mut ordered = order.iter();
    for item in patch.iter().filter(|item| item.get(PATCH).is_none()) {
        let name = identity(item)?;
        let mut found = false;
        for other in ordered.by_ref() {
            found = identity(other)? == name;
            if found {
                break;
            }
        }
        if !found {
            let patch = go_json::printed(&Value::Array(patch.to_vec()));
            let order = go_json::printed(&Value::Array(order.to_vec()));
            return Err(PatchError::Directive(format!(
                "The order in patch list:\n{patch}\n doesn't match {ELEMENT_ORDER} list:\n{order}\n"
            )));
        }
    }
    Ok(())
}

/// Ordered items get the declared order. Each of the others keeps its position relative to its successor in the live
/// list before the patch. A patch without an order declares its own, so its additions are first.
fn reorder(merged: &mut Vec<Value>, before: &[Value], order: &[Value], identity: Identity<'_>) {
    let rank = |list: &[Value]| -> BTreeMap<String, usize> {
        list.iter().enumerate().rev().filter_map(|(at, item)| Some((identity(item)?, at))).collect()
    };
    let (ordered, was) = (rank(order), rank(before));
    let (mut named, others): (Vec<Value>, Vec<Value>) = std::mem::take(merged)
        .into_iter()
        .partition(|item| identity(item).is_some_and(|name| ordered.contains_key(&name)));
    named.sort_by_key(|item| identity(item).and_then(|name| ordered.get(&name).copied()));
    let live_rank = |item: &Value| identity(item).and_then(|name| was.get(&name).copied());
    let mut others = others.into_iter().peekable();
    for item in named {
        while others
            .peek()
            .is_some_and(|other| live_rank(other).zip(live_rank(&item)).is_some_and(|(other, item)| other < item))
        {
            merged.extend(others.next());
        }
        merged.push(item);
    }
    merged.extend(others);
}
