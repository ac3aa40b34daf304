//! The fields that a configuration or an object names.

use serde_json::{Map, Value};

use super::path::PathElement;
use super::place::{Form, Place};
use super::set::{FieldSet, MAX_DEPTH, Node};

/// The leaves, the items of lists, and the members of maps that the schema does not name. A document may be older than
/// its schema, so it is not checked against it.
pub(super) fn field_set(document: &Value, place: Place<'_>) -> FieldSet {
    node(document, place, 0).children
}

/// The node of a value; the caller decides whether the value itself is a member when it is a container.
fn node(value: &Value, place: Place<'_>, depth: usize) -> Node {
    if depth >= MAX_DEPTH {
        return Node::member();
    }
    match place.form(Some(value)) {
        Form::Map(map) => Node { member: false, children: members(map, place, depth) },
        Form::List(list) => Node { member: false, children: items(list, place, depth) },
        Form::Null | Form::Leaf | Form::Absent => Node::member(),
    }
}

fn members(map: &Map<String, Value>, place: Place<'_>, depth: usize) -> FieldSet {
    let mut set = FieldSet::default();
    for (key, value) in map {
        let (child, declared) = place.child(key);
        let mut node = node(value, child, depth + 1);
        node.member |= !declared || value.as_object().is_some_and(Map::is_empty);
        set.push(PathElement::field(key), node);
    }
    set
}

fn items(list: &[Value], place: Place<'_>, depth: usize) -> FieldSet {
    let mut keyed: Vec<_> = list.iter().map(|item| (place.item_element(item), item)).collect();
    keyed.sort_by(|a, b| a.0.cmp(&b.0));
    let mut set = FieldSet::default();
    for (position, (element, item)) in keyed.iter().enumerate() {
        let repeats = |other: Option<&(PathElement, &Value)>| other.is_some_and(|(e, _)| e == element);
        // Items that share a key are owned as one.
        if repeats(keyed.get(position + 1)) || (position > 0 && repeats(keyed.get(position - 1))) {
            set.push(element.clone(), Node::member());
            continue;
        }
        let mut node = node(item, place.items(), depth + 1);
        node.member = true;
        set.push(element.clone(), node);
    }
    set
}
