//! Fitting stored sets to a schema whose lists and maps became atomic.

use super::path::PathElement;
use super::place::Place;
use super::set::{FieldSet, MAX_DEPTH};

/// Ownership of parts of a value that is atomic now becomes ownership of the whole. Ownership of a whole value that is
/// granular now stays ownership of the list or map itself, without its parts: a set cannot distinguish it from the
/// remainder after others took the parts.
pub(super) fn reconcile(set: &mut FieldSet, place: Place<'_>) {
    reconcile_at(set, place, 0);
}

fn reconcile_at(set: &mut FieldSet, place: Place<'_>, depth: usize) {
    if depth >= MAX_DEPTH {
        return;
    }
    for (element, node) in set.iter_mut().filter(|(_, node)| !node.children.is_empty()) {
        let child = match element {
            PathElement::Field(name) => place.child(name).0,
            _ => place.items(),
        };
        if child.is_atomic() {
            node.member = true;
            node.children = FieldSet::default();
        } else {
            reconcile_at(&mut node.children, child, depth + 1);
        }
    }
}
