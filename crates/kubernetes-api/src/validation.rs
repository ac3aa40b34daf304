//! kube-apiserver's validation of built-in kinds, with its messages. One walk over object and types runs the checks
//! that `data/validation.txt` lists for each definition; checks that a table cannot express are functions in the
//! modules below.
//! The caller validates metadata, for all kinds alike.

use std::sync::OnceLock;

use apimachinery::field::{Error, ErrorList, MAX_ERRORS};
use apimachinery::schema::SchemaId;
use serde_json::{Map, Value};

mod addresses;
mod annotations;
mod at;
mod autoscaling;
mod checks;
mod claims;
mod cluster;
mod config;
mod containers;
mod devices;
mod endpoint_slices;
mod events;
mod flow_control;
mod indexes;
mod internal;
mod jobs;
mod machinery;
mod network;
mod operating_system;
mod order;
mod persistent_volumes;
mod placement;
pub(crate) mod pod_resources;
mod pods;
mod policies;
mod rbac;
mod resize;
mod resources;
pub(crate) mod services;
pub(crate) mod status;
mod storage;
mod table;
mod update;
mod volumes;
mod webhooks;
mod windows;
mod workloads;

pub(crate) use addresses::{masked, parse as parse_range};
pub(crate) use annotations::APPARMOR;
use at::At;
pub use checks::{is_config_key, is_port_name};
use table::{Node, Rule, UpdateOrder};

type Object = Map<String, Value>;

/// Deeper values are not checked; except the JSON schemas of definitions, no built-in kind is half as deep.
const MAX_DEPTH: usize = 64;

fn nodes() -> &'static [Node] {
    static NODES: OnceLock<Vec<Node>> = OnceLock::new();
    NODES.get_or_init(table::read)
}

/// The errors of an object of the type at `root`.
pub(crate) fn create(root: SchemaId, object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    visit(root, object, &At::root(), &mut errors, 0);
    order::sort(root, &mut errors);
    errors
}

/// The errors of an update: those of the new object, and changes of immutable fields.
pub(crate) fn update(root: SchemaId, subresource: &str, old: &Value, object: &Value) -> ErrorList {
    // Only the main endpoint writes the validated parts; on other endpoints they are the stored object's.
    match subresource {
        "" => {}
        "finalize" => {
            let mut errors = ErrorList::new();
            machinery::finalize(object, &mut errors);
            return errors;
        }
        "ephemeralcontainers" => {
            let mut errors = create(root, object);
            update::ephemeral_containers(old, object, &mut errors);
            return errors;
        }
        "resize" => return resize::update(old, object, || create(root, object)),
        _ => return ErrorList::new(),
    }
    let node = &nodes()[root.0 as usize];
    let mut errors = if node.update == UpdateOrder::Last { create(root, object) } else { ErrorList::new() };
    update::compare(node, old, object, &mut errors);
    if node.update == UpdateOrder::First {
        errors.extend(create(root, object));
    }
    addresses::tolerate_known(old, &mut errors);
    errors
}

fn visit(id: SchemaId, value: &Value, at: &At<'_>, errors: &mut ErrorList, depth: usize) {
    let node = &nodes()[id.0 as usize];
    if !node.has_rules_below || depth > MAX_DEPTH || errors.len() >= MAX_ERRORS {
        return;
    }
    match value {
        Value::Object(map) => {
            for rule in &node.rules {
                run(rule, map, at, errors);
            }
            for (name, value) in map {
                if let Some(child) = node.values {
                    visit(child, value, &at.key(name), errors, depth + 1);
                } else if let Some(child) = node.field(name) {
                    visit(child, value, &at.child(name), errors, depth + 1);
                }
            }
        }
        Value::Array(list) => {
            let Some(child) = node.items else { return };
            for (index, value) in list.iter().enumerate() {
                visit(child, value, &at.index(index), errors, depth + 1);
            }
        }
        _ => {}
    }
}

fn run(rule: &Rule, map: &Object, at: &At<'_>, errors: &mut ErrorList) {
    match rule {
        Rule::Run(function) => function(map, at, errors),
        Rule::Field { name, checks } => {
            let at = at.child(name);
            let value = map.get(*name).filter(|value| !value.is_null());
            for check in checks {
                let before = errors.len();
                check.run(value, &at, errors);
                if errors.len() > before {
                    return;
                }
            }
        }
        Rule::Compare(_) | Rule::Fixed { .. } => {}
    }
}

/// The text of a field; empty if it is absent or not text.
fn text<'a>(map: &'a Object, name: &str) -> &'a str {
    map.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(map: &'a Object, name: &str) -> &'a [Value] {
    map.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The same of a value, which need not be an object.
fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

fn object<'a>(map: &'a Object, name: &str) -> Option<&'a Object> {
    map.get(name).and_then(Value::as_object)
}

fn invalid(errors: &mut ErrorList, at: &At<'_>, value: &Value, detail: &str) {
    errors.push(Error::invalid(&at.path(), value.clone(), detail));
}

fn required(errors: &mut ErrorList, at: &At<'_>, detail: &str) {
    errors.push(Error::required(&at.path(), detail));
}

fn forbidden(errors: &mut ErrorList, at: &At<'_>, detail: &str) {
    errors.push(Error::forbidden(&at.path(), detail));
}
