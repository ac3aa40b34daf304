//! Fitting stored sets to a schema whose lists and maps became atomic, or stopped being so.

use serde_json::Value;

use super::applied::{Reading, field_set};
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
    for (element, node) in set.iter_mut() {
        let (child, value, declared) = match element {
            PathElement::Field(name) => {
                let (child, declared) = place.child(name);
                (child, live.and_then(|live| live.get(&**name)), declared)
            }
            _ => (place.items(), live.and_then(|live| item(live, element, place)), false),
        };
        if node.children.is_empty() {
            // A declared list that is owned as such was atomic when it was claimed; maps own themselves either way.
            if let (true, Form::List(_), Some(value)) = (declared && node.member, child.form(value), value)
                && let Ok(parts) = field_set(value, child, Reading::Tolerant)
            {
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

fn item<'v>(live: &'v Value, element: &PathElement, place: Place<'_>) -> Option<&'v Value> {
    live.as_array()?.iter().find(|item| place.item_element(item) == *element)
}
