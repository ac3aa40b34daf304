//! An OpenAPI version 3 document in gnostic's protobuf form.
//!
//! A writer for exactly the fields that [`super::paths`] and [`super::schema`] produce, by the field numbers of
//! gnostic's `OpenAPIv3.proto`.

use serde_json::{Map, Value};

use super::protobuf::{
    any, boolean, double, entries, extensions, external_documentation, integer, message, named, text, texts,
};

/// Encodes a document.
pub fn encode_document(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    text(&mut out, 1, document["openapi"].as_str());
    message(&mut out, 2, |out| {
        text(out, 1, document["info"]["title"].as_str());
        text(out, 6, document["info"]["version"].as_str());
    });
    message(&mut out, 4, |out| {
        for (path, item) in entries(&document["paths"]) {
            named(out, 1, path, |out| path_item(out, item));
        }
    });
    message(&mut out, 5, |out| {
        message(out, 1, |out| {
            for (name, definition) in entries(&document["components"]["schemas"]) {
                named(out, 1, name, |out| schema_or_reference(out, definition));
            }
        });
    });
    out
}

fn path_item(out: &mut Vec<u8>, item: &Map<String, Value>) {
    for (method, field) in
        [("get", 4), ("put", 5), ("post", 6), ("delete", 7), ("options", 8), ("head", 9), ("patch", 10)]
    {
        if let Some(operation_) = item.get(method).and_then(Value::as_object) {
            message(out, field, |out| operation(out, operation_));
        }
    }
    parameters(out, 13, item.get("parameters"));
}

fn operation(out: &mut Vec<u8>, operation: &Map<String, Value>) {
    texts(out, 1, operation.get("tags"));
    for (key, field) in [("description", 3), ("operationId", 5)] {
        text(out, field, operation.get(key).and_then(Value::as_str));
    }
    parameters(out, 6, operation.get("parameters"));
    if let Some(body) = operation.get("requestBody").and_then(Value::as_object) {
        // RequestBodyOrReference.request_body, then RequestBody.
        message(out, 7, |out| {
            message(out, 1, |out| {
                content(out, 2, body);
                boolean(out, 3, body.get("required") == Some(&Value::Bool(true)));
            });
        });
    }
    message(out, 8, |out| {
        for (code, response) in operation.get("responses").into_iter().flat_map(entries) {
            named(out, 2, code, |out| {
                message(out, 1, |out| {
                    text(out, 1, response.get("description").and_then(Value::as_str));
                    content(out, 3, response);
                });
            });
        }
    });
    extensions(out, 13, operation);
}

/// The schemas of the media types.
fn content(out: &mut Vec<u8>, field: u32, holder: &Map<String, Value>) {
    let Some(content) = holder.get("content") else { return };
    message(out, field, |out| {
        for (media_type, described) in entries(content) {
            named(out, 1, media_type, |out| schema_in(out, 1, described.get("schema")));
        }
    });
}

fn parameters(out: &mut Vec<u8>, field: u32, parameters: Option<&Value>) {
    for parameter in parameters.and_then(Value::as_array).into_iter().flatten() {
        // ParameterOrReference.parameter, then Parameter.
        message(out, field, |out| {
            message(out, 1, |out| {
                text(out, 1, parameter["name"].as_str());
                text(out, 2, parameter["in"].as_str());
                text(out, 3, parameter["description"].as_str());
                boolean(out, 4, parameter["required"] == true);
                schema_in(out, 10, parameter.get("schema"));
            });
        });
    }
}

fn schema_in(out: &mut Vec<u8>, field: u32, schema: Option<&Value>) {
    if let Some(schema) = schema.and_then(Value::as_object) {
        message(out, field, |out| schema_or_reference(out, schema));
    }
}

fn schema_or_reference(out: &mut Vec<u8>, schema_: &Map<String, Value>) {
    match schema_.get("$ref").and_then(Value::as_str) {
        Some(target) => message(out, 2, |out| text(out, 1, Some(target))),
        None => message(out, 1, |out| schema(out, schema_)),
    }
}

fn schema(out: &mut Vec<u8>, schema_: &Map<String, Value>) {
    if let Some(docs) = schema_.get("externalDocs") {
        message(out, 6, |out| external_documentation(out, docs));
    }
    if let Some(example) = schema_.get("example") {
        message(out, 7, |out| any(out, example));
    }
    for (key, field) in [("multipleOf", 10), ("maximum", 11), ("minimum", 13)] {
        double(out, field, schema_.get(key).and_then(Value::as_f64));
    }
    for (key, field) in [("nullable", 1), ("exclusiveMaximum", 12), ("exclusiveMinimum", 14), ("uniqueItems", 20)] {
        boolean(out, field, schema_.get(key) == Some(&Value::Bool(true)));
    }
    for (key, field) in [
        ("maxLength", 15),
        ("minLength", 16),
        ("maxItems", 18),
        ("minItems", 19),
        ("maxProperties", 21),
        ("minProperties", 22),
    ] {
        integer(out, field, schema_.get(key).and_then(Value::as_u64));
    }
    for (key, field) in [("title", 9), ("pattern", 17), ("type", 25), ("description", 34), ("format", 35)] {
        text(out, field, schema_.get(key).and_then(Value::as_str));
    }
    texts(out, 23, schema_.get("required"));
    for value in schema_.get("enum").and_then(Value::as_array).into_iter().flatten() {
        message(out, 24, |out| any(out, value));
    }
    for (key, field) in [("allOf", 26), ("oneOf", 27), ("anyOf", 28)] {
        for part in schema_.get(key).and_then(Value::as_array).into_iter().flatten() {
            schema_in(out, field, Some(part));
        }
    }
    if let Some(not) = schema_.get("not").and_then(Value::as_object) {
        message(out, 29, |out| schema(out, not));
    }
    if let Some(items) = schema_.get("items") {
        message(out, 30, |out| schema_in(out, 1, Some(items)));
    }
    if let Some(properties) = schema_.get("properties") {
        message(out, 31, |out| {
            for (name, property) in entries(properties) {
                named(out, 1, name, |out| schema_or_reference(out, property));
            }
        });
    }
    match schema_.get("additionalProperties") {
        Some(Value::Bool(any)) => message(out, 32, |out| integer(out, 2, Some((*any).into()))),
        values => {
            if values.is_some() {
                message(out, 32, |out| schema_in(out, 1, values));
            }
        }
    }
    default(out, schema_.get("default"));
    extensions(out, 36, schema_);
}

/// Numbers, booleans and texts; the form has no place for others.
fn default(out: &mut Vec<u8>, value: Option<&Value>) {
    match value {
        Some(Value::Number(number)) => message(out, 33, |out| double(out, 1, number.as_f64())),
        // The alternative is written also for false.
        Some(Value::Bool(flag)) => message(out, 33, |out| integer(out, 2, Some((*flag).into()))),
        Some(Value::String(value)) => message(out, 33, |out| text(out, 3, Some(value))),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_matches_gnostics() {
        let document = serde_json::json!({"openapi": "3.0.0", "info": {"title": "T", "version": "v"}, "paths": {},
            "components": {"schemas": {
                "a.B": {"type": "string", "default": false, "x-y": [1]}, "c": {"allOf": [{"$ref": "#"}]}}}});
        #[rustfmt::skip]
        let expected: &[u8] = &[
            0x0a, 5, b'3', b'.', b'0', b'.', b'0', // openapi
            0x12, 6, 0x0a, 1, b'T', 0x32, 1, b'v', // info
            0x22, 0, // paths
            0x2a, 59, 0x0a, 57, // components, their schemas
            0x0a, 38, 0x0a, 3, b'a', b'.', b'B', 0x12, 31, 0x0a, 29, // the first by its name
            0xca, 0x01, 6, b's', b't', b'r', b'i', b'n', b'g', // its type
            0x8a, 0x02, 2, 0x10, 0, // its default
            0xa2, 0x02, 12, 0x0a, 3, b'x', b'-', b'y', 0x12, 5, 0x12, 3, b'[', b'1', b']', // its extension
            0x0a, 15, 0x0a, 1, b'c', 0x12, 10, 0x0a, 8, 0xd2, 0x01, 5, 0x12, 3, 0x0a, 1, b'#', // the second refers
        ];
        assert_eq!(encode_document(&document), expected);
    }
}
