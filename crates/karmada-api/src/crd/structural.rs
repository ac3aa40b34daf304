//! Converts a derived JSON schema to the structural schema of a CustomResourceDefinition.
//!
//! Structural schemas have one type per node and no references, and express nullability and enums in one way only.
//! Defaults are declared explicitly: serde's defaults are not the API server's.

use schemars::Schema;
use serde_json::{Map, Value, json};

pub fn structural(schema: Schema) -> Value {
    let mut value = Value::from(schema);
    node(&mut value);
    value
}

/// The keywords of structural schemas; all others (titles, draft names, serde's defaults) are dropped.
const KEPT: &[&str] = &[
    "additionalProperties",
    "anyOf",
    "default",
    "description",
    "enum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "pattern",
    "properties",
    "required",
    "type",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
];

fn node(value: &mut Value) {
    if value.as_bool() == Some(true) {
        *value = json!({});
    }
    let Some(map) = value.as_object_mut() else { return };
    drop_null(map);
    constants_to_enum(map);
    if map.remove("x-no-format").is_some() {
        map.remove("format");
    }
    if let Some(Value::String(text)) = map.get_mut("description") {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    children(map);
    map.remove("default");
    if let Some(default) = map.remove("x-default") {
        map.insert("default".to_owned(), default);
    }
    map.retain(|key, _| KEPT.contains(&key.as_str()));
}

/// `Option<T>` allows null. In an API object absent and null are equal, so null is omitted.
fn drop_null(map: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = map.get_mut("type") {
        types.retain(|type_| type_ != "null");
        if types.len() == 1 {
            let only = types.remove(0);
            map.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = map.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    let Some(Value::Array(choices)) = map.get_mut("anyOf") else { return };
    let before = choices.len();
    choices.retain(|choice| choice.get("type") != Some(&json!("null")));
    if before == choices.len() || choices.len() != 1 {
        return;
    }
    let Value::Object(only) = choices.remove(0) else { return };
    map.remove("anyOf");
    for (key, value) in only {
        map.entry(key).or_insert(value);
    }
    drop_null(map);
}

/// An enum with documented variants is derived as a choice of constants.
fn constants_to_enum(map: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = map.get("oneOf") else { return };
    let constants: Option<Vec<Value>> = choices.iter().map(|choice| choice.get("const").cloned()).collect();
    if let Some(constants) = constants {
        map.remove("oneOf");
        map.insert("type".to_owned(), json!("string"));
        map.insert("enum".to_owned(), Value::Array(constants));
    }
}

/// Recurses, and collects the properties that are marked as required.
fn children(map: &mut Map<String, Value>) {
    let mut required = match map.remove("required") {
        Some(Value::Array(names)) => names,
        _ => Vec::new(),
    };
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        for (name, property) in properties {
            let marked = property.as_object_mut().and_then(|map| map.remove("x-required")).is_some();
            if marked {
                required.push(json!(name));
            }
            node(property);
        }
    }
    if !required.is_empty() {
        map.insert("required".to_owned(), Value::Array(required));
    }
    for key in ["items", "additionalProperties"] {
        match map.get_mut(key) {
            Some(Value::Bool(_)) => {
                map.remove(key);
            }
            Some(child) => node(child),
            None => {}
        }
    }
}
