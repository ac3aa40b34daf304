//! Decoding and defaulting as in kube-apiserver: zero values that mean "absent" are removed, quantities and times get
//! their canonical form, and defaults are filled in. Two walks over object and types apply the table
//! `data/defaults.txt`; rules that a table cannot express are in [`computed`]. Nothing is validated here: a value of
//! the wrong type is not changed.

use std::sync::OnceLock;

use apimachinery::schema::SchemaId;
use serde_json::{Map, Value};

mod canonical;
mod computed;
mod image;
mod pod_resources;
mod table;

use table::{Field, Node, Rule, Shape};

/// Deeper values are not changed; except the JSON schemas of definitions, no built-in kind is half as deep.
const MAX_DEPTH: usize = 64;

fn nodes() -> &'static [Node] {
    static NODES: OnceLock<Vec<Node>> = OnceLock::new();
    NODES.get_or_init(table::read)
}

/// Converts an object of the type at `root` to its stored form. The conversion is idempotent.
pub(crate) fn apply(root: SchemaId, object: &mut Value) {
    clean(nodes(), root, object, 0);
    fill(nodes(), root, object, 0);
}

/// The status of a new object: `None` if the kind has no default.
pub(crate) fn initial_status(root: SchemaId) -> Option<Value> {
    let nodes = nodes();
    let node = &nodes[root.0 as usize];
    let rule = node.rules.iter().find_map(|rule| match rule {
        Rule::Set { path, value, .. } if path[..] == ["status"] => Some(value),
        _ => None,
    })?;
    let mut status = rule.clone();
    let Shape::Struct(fields) = &node.shape else { return None };
    let field = fields.iter().find(|field| &*field.name == "status")?;
    fill(nodes, field.schema, &mut status, 0);
    Some(status)
}

/// The children of a value with their types.
fn parts(node: &Node, value: &mut Value, mut each: impl FnMut(SchemaId, &mut Value)) {
    match (&node.shape, value) {
        (Shape::List(items), Value::Array(list)) => list.iter_mut().for_each(|item| each(*items, item)),
        (Shape::Map(values), Value::Object(map)) => map.values_mut().for_each(|value| each(*values, value)),
        (Shape::Struct(fields), Value::Object(map)) => {
            let mut fields = Sorted { fields, at: 0 };
            for (key, value) in map.iter_mut() {
                if let Some(field) = fields.find(key) {
                    each(field.schema, value);
                }
            }
        }
        _ => {}
    }
}

fn clean(nodes: &[Node], at: SchemaId, value: &mut Value, depth: usize) {
    let node = &nodes[at.0 as usize];
    match (&node.shape, &mut *value) {
        (Shape::Leaf, _) => return,
        (Shape::Quantity, value) => return canonical::quantity(value),
        (Shape::Time, value) => return canonical::time(value),
        (Shape::MicroTime, value) => return canonical::micro_time(value),
        (Shape::Bytes, value) => return canonical::bytes(value),
        (Shape::Struct(fields), Value::Object(map)) => drop_zeros(fields, map),
        _ => {}
    }
    if depth < MAX_DEPTH {
        parts(node, value, |at, value| clean(nodes, at, value, depth + 1));
    }
}

/// Rules of an object may read its descendants, so all values are cleaned before.
fn fill(nodes: &[Node], at: SchemaId, value: &mut Value, depth: usize) {
    let node = &nodes[at.0 as usize];
    if !node.has_rules_below || depth > MAX_DEPTH {
        return;
    }
    if let Value::Object(map) = value {
        node.rules.iter().for_each(|rule| run(rule, map));
    }
    parts(node, value, |at, value| fill(nodes, at, value, depth + 1));
}

/// Finds the fields of sorted keys in one pass over both.
struct Sorted<'a> {
    fields: &'a [Field],
    at: usize,
}

impl<'a> Sorted<'a> {
    fn find(&mut self, key: &str) -> Option<&'a Field> {
        if self.at.checked_sub(1).is_some_and(|last| *self.fields[last].name >= *key) {
            self.at = 0;
        }
        while self.fields.get(self.at).is_some_and(|field| *field.name < *key) {
            self.at += 1;
        }
        self.fields.get(self.at).filter(|field| *field.name == *key)
    }
}

/// Removes values that Go omits: null, and the zero values of fields that are not pointers.
fn drop_zeros(fields: &[Field], map: &mut Map<String, Value>) {
    let mut fields = Sorted { fields, at: 0 };
    map.retain(|key, value| {
        let zero = match value {
            Value::Null => true,
            Value::Bool(flag) => !*flag,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty(),
        };
        // An empty list of owners requests their removal.
        let is_reset = key == "managedFields" && value.is_array();
        !(zero && !is_reset && fields.find(key).is_some_and(|field| value.is_null() || field.omits_zero))
    });
}

fn run(rule: &Rule, map: &mut Map<String, Value>) {
    match rule {
        Rule::Run(function) => function(map),
        Rule::Set { path, value, conditions } => {
            if table::holds(conditions, map) {
                set_absent(map, path, value);
            }
        }
    }
}

/// Creates the objects along the path; changes nothing if one of its members has another type.
fn set_absent(map: &mut Map<String, Value>, path: &[&str], value: &Value) {
    match path {
        [] => {}
        [name] => {
            if !map.contains_key(*name) {
                map.insert((*name).to_owned(), value.clone());
            }
        }
        [name, rest @ ..] => {
            if !map.contains_key(*name) {
                map.insert((*name).to_owned(), Value::Object(Map::new()));
            }
            if let Some(Value::Object(inner)) = map.get_mut(*name) {
                set_absent(inner, rest, value);
            }
        }
    }
}
