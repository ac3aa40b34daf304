//! The fields that an applied configuration names.

use serde_json::{Map, Value};

use super::path::PathElement;
use super::place::{Form, Place};
use super::set::{FieldSet, MAX_DEPTH, Node};

/// An applied configuration does not fit its schema. The text starts with the path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct TypedError {
    pub path: String,
    pub problem: String,
}

/// How strictly a document is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// A configuration from a client: unknown fields and repeated items are errors.
    Strict,
    /// A stored object, which may be older than its schema.
    Tolerant,
}

/// The leaves, the items of lists, and the members of maps that the schema does not name.
pub(super) fn field_set(document: &Value, place: Place<'_>, reading: Reading) -> Result<FieldSet, TypedError> {
    let mut path = Vec::new();
    Ok(node(document, place, reading, &mut path)?.children)
}

fn error(path: &[PathElement], problem: impl Into<String>) -> TypedError {
    TypedError { path: path.iter().map(ToString::to_string).collect(), problem: problem.into() }
}

/// The node of a value; the caller decides whether the value itself is a member when it is a container.
fn node(value: &Value, place: Place<'_>, reading: Reading, path: &mut Vec<PathElement>) -> Result<Node, TypedError> {
    if path.len() >= MAX_DEPTH {
        return Ok(Node::member());
    }
    if reading == Reading::Strict
        && let Some(problem) = place.mistyped(value)
    {
        return Err(error(path, problem));
    }
    match place.form(Some(value)) {
        Form::Map(map) => Ok(Node { member: false, children: members(map, place, reading, path)? }),
        Form::List(list) => Ok(Node { member: false, children: items(list, place, reading, path)? }),
        Form::Null | Form::Leaf | Form::Absent => Ok(Node::member()),
    }
}

fn members(
    map: &Map<String, Value>,
    place: Place<'_>,
    reading: Reading,
    path: &mut Vec<PathElement>,
) -> Result<FieldSet, TypedError> {
    let mut set = FieldSet::default();
    for (key, value) in map {
        let (child, declared) = place.child(key);
        path.push(PathElement::field(key));
        if !declared && reading == Reading::Strict && !place.is_open() {
            return Err(error(path, "field not declared in schema"));
        }
        let mut node = node(value, child, reading, path)?;
        path.pop();
        node.member |= !declared || value.as_object().is_some_and(Map::is_empty);
        set.push(PathElement::field(key), node);
    }
    Ok(set)
}

fn items(
    list: &[Value],
    place: Place<'_>,
    reading: Reading,
    path: &mut Vec<PathElement>,
) -> Result<FieldSet, TypedError> {
    let mut keyed: Vec<_> = list.iter().map(|item| (place.item_element(item), item)).collect();
    keyed.sort_by(|a, b| a.0.cmp(&b.0));
    let mut set = FieldSet::default();
    for (position, (element, item)) in keyed.iter().enumerate() {
        let repeats = |other: Option<&(PathElement, &Value)>| other.is_some_and(|(e, _)| e == element);
        let repeated = repeats(keyed.get(position + 1)) || (position > 0 && repeats(keyed.get(position - 1)));
        if repeated {
            if reading == Reading::Strict {
                return Err(error(path, format!("duplicate entries for key {element}")));
            }
            set.push(element.clone(), Node::member());
            continue;
        }
        path.push(element.clone());
        let mut node = node(item, place.items(), reading, path)?;
        path.pop();
        node.member = true;
        set.push(element.clone(), node);
    }
    Ok(set)
}
