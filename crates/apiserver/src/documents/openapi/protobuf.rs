//! An OpenAPI version 2 document in gnostic's protobuf form, which kubectl requests.
//!
//! Encodes exactly the fields that [`super::paths`] and [`super::schema`] produce, by the field numbers of gnostic's
//! `OpenAPIv2.proto`. Fields that are not in the tables below are extensions (`x-…`) or not encoded at all.

use serde_json::{Map, Value};

/// Encodes a document.
pub fn encode_document(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    text(&mut out, 1, document["swagger"].as_str());
    message(&mut out, 2, |out| {
        text(out, 1, document["info"]["title"].as_str());
        text(out, 2, document["info"]["version"].as_str());
    });
    message(&mut out, 8, |out| {
        for (path, item) in entries(&document["paths"]) {
            named(out, 2, path, |out| path_item(out, item));
        }
    });
    message(&mut out, 9, |out| {
        for (name, definition) in entries(&document["definitions"]) {
            named(out, 1, name, |out| schema(out, definition));
        }
    });
    message(&mut out, 10, |out| {
        for (name, shared) in entries(&document["parameters"]) {
            named(out, 1, name, |out| parameter(out, shared));
        }
    });
    out
}

fn path_item(out: &mut Vec<u8>, item: &Map<String, Value>) {
    for (method, field) in
        [("get", 2), ("put", 3), ("post", 4), ("delete", 5), ("options", 6), ("head", 7), ("patch", 8)]
    {
        if let Some(operation_) = item.get(method).and_then(Value::as_object) {
            message(out, field, |out| operation(out, operation_));
        }
    }
    parameters(out, 9, item.get("parameters"));
}

fn operation(out: &mut Vec<u8>, operation: &Map<String, Value>) {
    texts(out, 1, operation.get("tags"));
    for (key, field) in [("description", 3), ("operationId", 5)] {
        text(out, field, operation.get(key).and_then(Value::as_str));
    }
    texts(out, 6, operation.get("produces"));
    texts(out, 7, operation.get("consumes"));
    parameters(out, 8, operation.get("parameters"));
    message(out, 9, |out| {
        for (code, response) in operation.get("responses").into_iter().flat_map(entries) {
            named(out, 1, code, |out| {
                message(out, 1, |out| {
                    text(out, 1, response.get("description").and_then(Value::as_str));
                    if let Some(schema_) = response.get("schema").and_then(Value::as_object) {
                        message(out, 2, |out| message(out, 1, |out| schema(out, schema_)));
                    }
                });
            });
        }
    });
    texts(out, 10, operation.get("schemes"));
    extensions(out, 13, operation);
}

fn parameters(out: &mut Vec<u8>, field: u32, parameters: Option<&Value>) {
    for parameter_ in parameters.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object) {
        // ParametersItem: a Parameter or a JsonReference.
        message(out, field, |out| match parameter_.get("$ref") {
            Some(target) => message(out, 2, |out| text(out, 1, target.as_str())),
            None => message(out, 1, |out| parameter(out, parameter_)),
        });
    }
}

fn parameter(out: &mut Vec<u8>, parameter: &Map<String, Value>) {
    let get = |key: &str| parameter.get(key).and_then(Value::as_str);
    let required = parameter.get("required") == Some(&Value::Bool(true));
    match get("in") {
        Some("body") => message(out, 1, |out| {
            text(out, 1, get("description"));
            text(out, 2, get("name"));
            text(out, 3, get("in"));
            boolean(out, 4, required);
            if let Some(schema_) = parameter.get("schema").and_then(Value::as_object) {
                message(out, 5, |out| schema(out, schema_));
            }
        }),
        place => {
            let (kind, type_field, unique_field) = if place == Some("path") { (4, 5, 19) } else { (3, 6, 20) };
            message(out, 2, |out| {
                message(out, kind, |out| {
                    boolean(out, 1, required);
                    text(out, 2, place);
                    text(out, 3, get("description"));
                    text(out, 4, get("name"));
                    text(out, type_field, get("type"));
                    boolean(out, unique_field, parameter.get("uniqueItems") == Some(&Value::Bool(true)));
                });
            });
        }
    }
}

fn schema(out: &mut Vec<u8>, schema_: &Map<String, Value>) {
    for (key, field) in [("$ref", 1), ("format", 2), ("title", 3), ("description", 4), ("pattern", 13)] {
        text(out, field, schema_.get(key).and_then(Value::as_str));
    }
    if let Some(default) = schema_.get("default") {
        message(out, 5, |out| any(out, default));
    }
    for (key, field) in [("multipleOf", 6), ("maximum", 7), ("minimum", 9)] {
        double(out, field, schema_.get(key).and_then(Value::as_f64));
    }
    for (key, field) in [("exclusiveMaximum", 8), ("exclusiveMinimum", 10), ("uniqueItems", 16)] {
        boolean(out, field, schema_.get(key) == Some(&Value::Bool(true)));
    }
    for (key, field) in [
        ("maxLength", 11),
        ("minLength", 12),
        ("maxItems", 14),
        ("minItems", 15),
        ("maxProperties", 17),
        ("minProperties", 18),
    ] {
        integer(out, field, schema_.get(key).and_then(Value::as_u64));
    }
    texts(out, 19, schema_.get("required"));
    for value in schema_.get("enum").and_then(Value::as_array).into_iter().flatten() {
        message(out, 20, |out| any(out, value));
    }
    match schema_.get("additionalProperties") {
        Some(Value::Object(values)) => message(out, 21, |out| message(out, 1, |out| schema(out, values))),
        Some(Value::Bool(any)) => message(out, 21, |out| integer(out, 2, Some((*any).into()))),
        _ => {}
    }
    if let Some(type_) = schema_.get("type").and_then(Value::as_str) {
        message(out, 22, |out| text(out, 1, Some(type_)));
    }
    if let Some(items) = schema_.get("items").and_then(Value::as_object) {
        message(out, 23, |out| message(out, 1, |out| schema(out, items)));
    }
    if let Some(properties) = schema_.get("properties") {
        message(out, 25, |out| {
            for (name, property) in entries(properties) {
                named(out, 1, name, |out| schema(out, property));
            }
        });
    }
    if let Some(docs) = schema_.get("externalDocs") {
        message(out, 29, |out| external_documentation(out, docs));
    }
    if let Some(example) = schema_.get("example") {
        message(out, 30, |out| any(out, example));
    }
    extensions(out, 31, schema_);
}

pub(super) fn external_documentation(out: &mut Vec<u8>, docs: &Value) {
    for (key, field) in [("description", 1), ("url", 2)] {
        text(out, field, docs[key].as_str());
    }
}

pub(super) fn extensions(out: &mut Vec<u8>, field: u32, map: &Map<String, Value>) {
    for (name, value) in map.iter().filter(|(name, _)| name.starts_with("x-")) {
        named(out, field, name, |out| any(out, value));
    }
}

/// Arbitrary values travel as YAML, and JSON is YAML.
pub(super) fn any(out: &mut Vec<u8>, value: &Value) {
    text(out, 2, Some(&value.to_string()));
}

pub(super) fn entries(value: &Value) -> impl Iterator<Item = (&String, &Map<String, Value>)> {
    value.as_object().into_iter().flatten().filter_map(|(name, value)| Some((name, value.as_object()?)))
}

/// A `Named…` message: the key, then the value.
pub(super) fn named(out: &mut Vec<u8>, field: u32, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
    message(out, field, |out| {
        text(out, 1, Some(name));
        message(out, 2, value);
    });
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn tag(out: &mut Vec<u8>, field: u32, wire_type: u64) {
    varint(out, (u64::from(field) << 3) | wire_type);
}

/// Writes the content in place and moves it by the width of its length, which saves a buffer for each level.
pub(super) fn message(out: &mut Vec<u8>, field: u32, content: impl FnOnce(&mut Vec<u8>)) {
    tag(out, field, 2);
    let start = out.len();
    content(out);
    let mut length = Vec::with_capacity(5);
    varint(&mut length, (out.len() - start) as u64);
    out.splice(start..start, length);
}

pub(super) fn text(out: &mut Vec<u8>, field: u32, value: Option<&str>) {
    if let Some(value) = value {
        tag(out, field, 2);
        varint(out, value.len() as u64);
        out.extend_from_slice(value.as_bytes());
    }
}

pub(super) fn texts(out: &mut Vec<u8>, field: u32, values: Option<&Value>) {
    for value in values.and_then(Value::as_array).into_iter().flatten() {
        text(out, field, value.as_str());
    }
}

pub(super) fn boolean(out: &mut Vec<u8>, field: u32, value: bool) {
    if value {
        tag(out, field, 0);
        out.push(1);
    }
}

pub(super) fn integer(out: &mut Vec<u8>, field: u32, value: Option<u64>) {
    if let Some(value) = value {
        tag(out, field, 0);
        varint(out, value);
    }
}

pub(super) fn double(out: &mut Vec<u8>, field: u32, value: Option<f64>) {
    if let Some(value) = value {
        tag(out, field, 1);
        out.extend_from_slice(&value.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_matches_gnostics() {
        let document = serde_json::json!({"swagger": "2.0", "info": {"title": "T", "version": "v"},
            "paths": {}, "parameters": {"p": {"name": "p", "in": "query", "description": "d", "type": "string"}},
            "definitions": {"a.B": {"type": "string", "x-y": [1]}}});
        #[rustfmt::skip]
        let expected: &[u8] = &[
            0x0a, 3, b'2', b'.', b'0', // swagger
            0x12, 6, 0x0a, 1, b'T', 0x12, 1, b'v', // info
            0x42, 0, // paths
            0x4a, 35, 0x0a, 33, 0x0a, 3, b'a', b'.', b'B', 0x12, 26, // definitions, the named schema
            0xb2, 0x01, 8, 0x0a, 6, b's', b't', b'r', b'i', b'n', b'g', // its type
            0xfa, 0x01, 12, 0x0a, 3, b'x', b'-', b'y', 0x12, 5, 0x12, 3, b'[', b'1', b']', // its extension
            0x52, 32, 0x0a, 30, 0x0a, 1, b'p', 0x12, 25, 0x12, 23, 0x1a, 21, // parameters: one of a query
            0x12, 5, b'q', b'u', b'e', b'r', b'y', 0x1a, 1, b'd', 0x22, 1, b'p', // its place, description and name
            0x32, 6, b's', b't', b'r', b'i', b'n', b'g', // its type
        ];
        assert_eq!(encode_document(&document), expected);
    }
}
