//! Reads documents of kinds without a Rust type: an absent value or one of another type reads as the zero value.

use serde_json::{Map, Value};

pub fn at<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().fold(value, |value, key| &value[*key])
}

pub fn int(value: &Value, path: &[&str]) -> i64 {
    at(value, path).as_i64().unwrap_or_default()
}

pub fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).as_str().unwrap_or_default()
}

pub fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).as_array().map_or(&[], Vec::as_slice)
}

/// The object under `key`, added if it is absent or of another type.
pub fn object<'a>(value: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let child = &mut value[key];
    if !child.is_object() {
        *child = Value::Object(Map::new());
    }
    child.as_object_mut().expect("made an object above")
}
