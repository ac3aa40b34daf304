//! Fitting stored sets to a schema whose lists and maps became atomic, or stopped being so.

use std::collections::BTreeMap;

use serde_json::Value;

use super::applied::field_set;
use super::path::PathElement;
use super::place::{Form, Place};
use super::set::{FieldSet, MAX_DEPTH};

/// Claims below what is atomic now become a claim to all of it; a claim to the whole of what is granular now becomes
/// claims to its parts, as the live object has them.
pub(super) fn reconcile(set: &mut FieldSet, live: Option<&Value>, place: Place<'_>) {
    reconcile_at(set, live, place, 0);
}

fn reconcile_at(set: &mut FieldSet, live: Option<&Value>, place: Place<'_>, depth: usize) {
    if depth >= MAX_DEPTH {
        return;
    }
    let items = items_of(live, place);
    for (element, node) in set.iter_mut() {
        let (child, value, declared) = match element {
            PathElement::Field(name) => {
                let (child, declared) = place.child(name);
                (child, live.and_then(|live| live.get(&**name)), declared)
            }
            _ => (place.items(), items.get(element).copied(), false),
        };
        if node.children.is_empty() {
            // A declared list that is owned as such was atomic when it was claimed; maps own themselves either way.
            if let (true, Form::List(_), Some(value)) = (declared && node.member, child.form(value), value) {
                let parts = field_set(value, child);
                node.member = parts.is_empty();
                node.children = parts;
            }
        } else if child.is_atomic() {
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
