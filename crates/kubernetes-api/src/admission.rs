//! kube-apiserver's admission plugins, as functions of the object and of other stored objects. The API server calls
//! them.

pub mod classes;
pub mod limits;
pub mod nodes;
pub mod pod_security;
pub mod quota;
pub mod service_account;

use apimachinery::quantity::Quantity;
use serde_json::{Map, Value};

type Object = Map<String, Value>;

/// The member `name` as an object, created if it is absent; `None` if it holds a value of another type.
fn made<'a>(value: &'a mut Value, name: &str) -> Option<&'a mut Object> {
    value.as_object_mut()?.entry(name).or_insert_with(|| Value::Object(Object::new())).as_object_mut()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// The amounts of a resource list; unreadable quantities are skipped.
fn amounts(value: &Value) -> impl Iterator<Item = (&str, Quantity)> {
    value
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(name, amount)| Some((name.as_str(), amount.as_str()?.parse().ok()?)))
}

/// Containers of both lists, with the name of the list.
fn containers(spec: &Value) -> impl Iterator<Item = (&'static str, &Value)> {
    ["containers", "initContainers"].into_iter().flat_map(|field| list(&spec[field]).map(move |item| (field, item)))
}
