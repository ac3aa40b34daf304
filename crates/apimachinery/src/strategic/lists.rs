//! Lists that a strategic merge patch merges: by key, or as sets of primitives, and their order.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::{At, ELEMENT_ORDER, PATCH, added_map, merge_maps};
use crate::go_json;
use crate::go_print::GoPrint;
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
            check_order(patch, order, None)?;
            merge_primitives(live, patch, order.unwrap_or(patch));
            Ok(())
        }
    }
}

fn merge_primitives(live: &mut Vec<Value>, patch: &[Value], order: &[Value]) {
    let ranks = first_places(order, None);
    let Survey { known, mut places, .. } = Survey::of(live, &ranks, None);
    let mut seen = HashSet::new();
    let added: Vec<&Value> = patch.iter().filter(|item| !known.contains_key(item) && seen.insert(*item)).collect();
    places.extend(added.iter().map(|item| Place { was: None, rank: ranks.get(item).copied() }));
    live.extend(added.into_iter().cloned());
    arrange(live, places);
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
        return Err(PatchError::Directive(format!("list element types are not identical: {}", GoPrint(&both))));
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
        let gone: HashSet<&Value> = gone.iter().collect();
        items.retain(|item| !gone.contains(item));
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
    check_order(patch, order, Some(key))?;
    let Directed { items: patch_items, gone, replace } = directed(patch, key)?;
    if replace {
        // The rest of the patch is the list, unchanged.
        let before = std::mem::take(live);
        *live = patch_items.into_iter().map(added_map).collect();
        need_keys(live, key)?;
        let (ranks, known) = (first_places(order.unwrap_or_default(), Some(key)), first_places(&before, Some(key)));
        let place = |item: &Value| {
            let of = |places: &HashMap<&Value, usize>| places.get(item.get(key)?).copied();
            Place { was: of(&known), rank: of(&ranks) }
        };
        let places = live.iter().map(place).collect();
        arrange(live, places);
        return Ok(());
    }
    let Plan { targets, mut places, added, has_keys } = plan(live, &patch_items, &gone, order.unwrap_or(patch), key);
    let (items, count) = (at.items()?, live.len());
    for (index, map) in patch_items.into_iter().enumerate() {
        let target = targets.get(index).ok_or_else(|| lacks_key(&Value::Object(map.clone()), key))?;
        match live.get_mut(*target) {
            Some(item) => merge_maps(super::into_map(item), map, items)?,
            None => live.push(added_map(map)),
        }
    }
    let is_changed_well = |at: &usize| live.get(*at).is_none_or(|item| item.get(key).is_some());
    let has_keys = has_keys && targets.iter().all(is_changed_well);
    places.extend(added);
    if !gone.is_empty() {
        // New items may have the key of a deleted one.
        let is_kept =
            |index: usize, item: &Value| index >= count || item.get(key).is_none_or(|name| !gone.contains(name));
        let kept = std::mem::take(live).into_iter().zip(std::mem::take(&mut places)).enumerate();
        (*live, places) = kept.filter(|(index, (item, _))| is_kept(*index, item)).map(|(_, item)| item).unzip();
    }
    if !has_keys {
        need_keys(live, key)?;
    }
    arrange(live, places);
    Ok(())
}

/// A merge of keyed lists, planned before the list is changed. Both lists may have as many items as a body holds, and a
/// patch may merge the same list many times, so each item is looked up once, and none is copied.
struct Plan {
    /// Where each item of the patch is merged, up to one without a key. Places beyond the list are of new items.
    targets: Vec<usize>,
    /// Of the items of the list.
    places: Vec<Place>,
    /// Of the new items.
    added: Vec<Place>,
    /// Whether all items of the list have a key.
    has_keys: bool,
}

fn plan(live: &[Value], patch: &[&Map<String, Value>], gone: &HashSet<&Value>, order: &[Value], key: &str) -> Plan {
    let ranks = first_places(order, Some(key));
    let Survey { known, places, has_keys } = Survey::of(live, &ranks, Some(key));
    let mut plan = Plan { targets: Vec::new(), places, added: Vec::new(), has_keys };
    let mut new: HashMap<&Value, usize> = HashMap::new();
    for name in patch.iter().map_while(|map| map.get(key)) {
        let was = known.get(name).copied();
        plan.targets.push(match was.filter(|_| !gone.contains(name)) {
            Some(place) => place,
            None => *new.entry(name).or_insert_with(|| {
                plan.added.push(Place { was, rank: ranks.get(name).copied() });
                live.len() + plan.added.len() - 1
            }),
        });
    }
    plan
}

/// Items without a key have no place among others.
fn need_keys(items: &[Value], key: &str) -> Result<(), PatchError> {
    items.iter().find(|item| item.get(key).is_none()).map_or(Ok(()), |item| Err(lacks_key(item, key)))
}

/// The parsed items of a patch: those to merge, the keys of those to delete, and whether the list is replaced.
struct Directed<'p> {
    items: Vec<&'p Map<String, Value>>,
    gone: HashSet<&'p Value>,
    replace: bool,
}

fn directed<'p>(patch: &'p [Value], key: &str) -> Result<Directed<'p>, PatchError> {
    let mut found = Directed { items: Vec::with_capacity(patch.len()), gone: HashSet::new(), replace: false };
    for item in patch {
        let map = item.as_object().ok_or_else(|| unexpected(MAP, item))?;
        match map.get(PATCH).map(|directive| directive.as_str().unwrap_or_default()) {
            None => found.items.push(map),
            Some("replace") => found.replace = true,
            Some("delete") => {
                found.gone.insert(map.get(key).ok_or_else(|| lacks_key(item, key))?);
            }
            Some("merge") => {
                return Err(PatchError::Directive("merging lists cannot yet be specified in the patch".to_owned()));
            }
            Some(other) => {
                let text = format!("unknown patch type: {other} in map: {}", GoPrint(item));
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

/// Sorts the items of a list that was created (`is_new`) or is absent from the patch by its `$setElementOrder`.
pub(super) fn put_in_order(
    items: &mut Vec<Value>,
    is_new: bool,
    order: &[Value],
    strategy: &PatchStrategy,
) -> Result<(), PatchError> {
    let key = strategy.merge_key.as_deref();
    let Survey { mut places, has_keys, .. } = Survey::of(items, &first_places(order, key), key);
    if let Some(key) = key.filter(|_| !has_keys) {
        need_keys(items, key)?;
    }
    if is_new {
        places.iter_mut().for_each(|place| place.was = None);
    }
    arrange(items, places);
    Ok(())
}

/// What distinguishes an item: the value of the merge key, or the item itself.
fn identity<'v>(item: &'v Value, key: Option<&str>) -> Option<&'v Value> {
    match key {
        Some(key) => item.get(key),
        None => Some(item),
    }
}

/// The first place of each identity.
fn first_places<'v>(list: &'v [Value], key: Option<&str>) -> HashMap<&'v Value, usize> {
    let mut places = HashMap::with_capacity(list.len());
    for (at, item) in list.iter().enumerate() {
        if let Some(name) = identity(item, key) {
            places.entry(name).or_insert(at);
        }
    }
    places
}

/// The place of an item in the list before the patch, and in the declared order.
#[derive(Clone, Copy)]
struct Place {
    was: Option<usize>,
    rank: Option<usize>,
}

/// The items of a list before the patch, read once: a long list does not fit into the processor's caches.
struct Survey<'v> {
    known: HashMap<&'v Value, usize>,
    places: Vec<Place>,
    has_keys: bool,
}

impl<'v> Survey<'v> {
    fn of(list: &'v [Value], ranks: &HashMap<&Value, usize>, key: Option<&str>) -> Self {
        let mut known = HashMap::with_capacity(list.len());
        let first = |(at, item)| Some(*known.entry(identity(item, key)?).or_insert(at));
        let was: Vec<Option<usize>> = list.iter().enumerate().map(first).collect();
        let mut rank_of = vec![None; list.len()];
        for (name, rank) in ranks {
            if let Some(place) = known.get(name).and_then(|at| rank_of.get_mut(*at)) {
                *place = Some(*rank);
            }
        }
        let has_keys = was.iter().all(Option::is_some);
        let place = |was: Option<usize>| Place { was, rank: was.and_then(|at| rank_of.get(at).copied().flatten()) };
        Self { known, places: was.into_iter().map(place).collect(), has_keys }
    }
}

fn lacks_key(item: &Value, key: &str) -> PatchError {
    PatchError::Directive(format!("map: {} does not contain declared merge key: {key}", GoPrint(item)))
}

/// Items of the patch must have the order of `$setElementOrder`. An empty order is ignored.
fn check_order(patch: &[Value], order: Option<&[Value]>, key: Option<&str>) -> Result<(), PatchError> {
    let Some(order) = order.filter(|order| !order.is_empty() && !patch.is_empty()) else { return Ok(()) };
    let named = |item| {
        let Some(key) = key else { return Ok(item) };
        let map = Value::as_object(item).ok_or_else(|| unexpected(MAP, item))?;
        map.get(key).ok_or_else(|| lacks_key(item, key))
    };
    if let Some(item) = patch.iter().find(|item| key.is_some() && !item.is_object()) {
        return Err(unexpected(MAP, item));
    }
    let mut ordered = order.iter();
    for item in patch.iter().filter(|item| item.get(PATCH).is_none()) {
        let name = named(item)?;
        let mut found = false;
        for other in ordered.by_ref() {
            found = named(other)? == name;
            if found {
                break;
            }
        }
        if !found {
            let patch = GoPrint(&Value::Array(patch.to_vec())).to_string();
            let order = GoPrint(&Value::Array(order.to_vec())).to_string();
            return Err(PatchError::Directive(format!(
                "The order in patch list:\n{patch}\n doesn't match {ELEMENT_ORDER} list:\n{order}\n"
            )));
        }
    }
    Ok(())
}

/// Ordered items get the declared order. Each of the others keeps its position relative to its successor in the live
/// list before the patch. A patch without an order declares its own, so its additions are first.
fn arrange(list: &mut Vec<Value>, places: Vec<Place>) {
    let items = std::mem::take(list).into_iter().zip(places);
    let (mut named, others): (Vec<_>, Vec<_>) = items.partition(|(_, place)| place.rank.is_some());
    named.sort_by_key(|(_, place)| place.rank);
    let mut others = others.into_iter().peekable();
    for (item, place) in named {
        let precedes = |other: &Place| other.was.zip(place.was).is_some_and(|(other, item)| other < item);
        while let Some((other, _)) = others.next_if(|(_, other)| precedes(other)) {
            list.push(other);
        }
        list.push(item);
    }
    list.extend(others.map(|(item, _)| item));
}
