//! Fitting stored sets to a schema whose lists and maps became atomic.

use std::collections::BTreeMap;

use serde_json::Value;

use super::path::PathElement;
use super::place::Place;
use super::set::{FieldSet, MAX_DEPTH};

/// Claims below what is atomic now become a claim to all of it. A claim to the whole of what is granular now stays one to
/// the list or map itself, and to none of its parts: a set cannot tell it from what is left once others took the parts.
pub(super) fn reconcile(set: &mut FieldSet, live: Option<&Value>, place: Place<'_>) {
    reconcile_at(set, live, place, 0);
}

fn reconcile_at(set: &mut FieldSet, live: Option<&Value>, place: Place<'_>, depth: usize) {
    if depth >= MAX_DEPTH {
        return;
    }
    let items = items_of(live, place);
    for (element, node) in set.iter_mut() {
        let (child, value) = match element {
            PathElement::Field(name) => (place.child(name).0, live.and_then(|live| live.get(&**name))),
            _ => (place.items(), items.get(element).copied()),
        };
        if node.children.is_empty() {
            continue;
        }
        if child.is_atomic() {
            node.member = true;
            node.children = FieldSet::default();
        } else {
            reconcile_at(&mut node.children, value, child, depth + 1);
        }
    }
}

/// The items of a list by what names them; of equal ones the first. Lists may be as long as a body holds, so that no
/// item is looked for from the start.
fn items_of<'v>(live: Option<&'v Value>, place: Place<'_>) -> BTreeMap<PathElement, &'v Value> {
    let items = live.and_then(Value::as_array).into_iter().flatten();
    items.rev().map(|item| (place.item_element(item), item)).collect()
}
