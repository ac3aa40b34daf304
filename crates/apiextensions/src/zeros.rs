//! Zero values in definitions: upstream's types omit empty strings, empty lists and `false`, and always write a
//! version's `served` and `storage`.

use serde_json::{Map, Value};

type Object = Map<String, Value>;

/// Fields of a schema that are omitted when they hold an empty string, `false`, an empty list or an empty map.
const SCHEMA_FIELDS: [&str; 24] = [
    "$schema",
    "allOf",
    "anyOf",
    "definitions",
    "dependencies",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "id",
    "nullable",
    "oneOf",
    "pattern",
    "patternProperties",
    "properties",
    "required",
    "title",
    "type",
    "uniqueItems",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-validations",
];

/// Fields of metadata that the server always fills in, except in embedded objects.
const OMITTED_IN_EMBEDDED_METADATA: [&str; 9] = [
    "creationTimestamp",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Deeper schemas are not changed.
const MAX_DEPTH: usize = 64;

/// Removes zero values from the spec of a definition.
pub(crate) fn omit(spec: &mut Object) {
    drop_zeros(spec, &["preserveUnknownFields"]);
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        drop_zeros(names, &["categories", "shortNames"]);
    }
    for version in spec.get_mut("versions").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(version) = version.as_object_mut() else { continue };
        drop_zeros(version, &["additionalPrinterColumns", "deprecated", "selectableFields"]);
        for flag in ["served", "storage"] {
            let value = version.entry(flag).or_insert(Value::Bool(false));
            if value.is_null() {
                *value = Value::Bool(false);
            }
        }
        for column in version.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(column) = column.as_object_mut() {
                drop_zeros(column, &["description", "format", "priority"]);
            }
        }
        if let Some(schema) = version.get_mut("schema").and_then(|schema| schema.get_mut("openAPIV3Schema")) {
            omit_in_schema(schema, 0);
        }
    }
}

/// Removes empty texts, lists and maps from metadata.
pub(crate) fn omit_in_metadata(metadata: &mut Object) {
    drop_zeros(metadata, &["annotations", "finalizers", "generateName", "labels", "ownerReferences"]);
}

/// Metadata of an embedded object as upstream's type of metadata writes it: without zero values, with empty texts in the
/// place of nulls.
pub(crate) fn omit_in_embedded_metadata(metadata: &mut Object) {
    for name in ["annotations", "labels"] {
        let texts = metadata.get_mut(name).and_then(Value::as_object_mut);
        texts.into_iter().flat_map(Object::values_mut).filter(|text| text.is_null()).for_each(|text| *text = "".into());
    }
    omit_in_metadata(metadata);
    drop_zeros(metadata, &OMITTED_IN_EMBEDDED_METADATA);
}

fn omit_in_schema(schema: &mut Value, depth: usize) {
    let Some(map) = schema.as_object_mut().filter(|_| depth < MAX_DEPTH) else { return };
    drop_zeros(map, &SCHEMA_FIELDS);
    for (name, value) in map {
        match (name.as_str(), value) {
            ("properties" | "patternProperties" | "definitions", Value::Object(schemas)) => {
                schemas.values_mut().for_each(|schema| omit_in_schema(schema, depth + 1));
            }
            ("allOf" | "anyOf" | "oneOf" | "items", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(|schema| omit_in_schema(schema, depth + 1));
            }
            ("items" | "additionalItems" | "additionalProperties" | "not", schema) => {
                omit_in_schema(schema, depth + 1);
            }
            ("x-kubernetes-validations", Value::Array(rules)) => {
                for rule in rules.iter_mut().filter_map(Value::as_object_mut) {
                    drop_zeros(rule, &["fieldPath", "message", "messageExpression"]);
                }
            }
            _ => {}
        }
    }
}

fn drop_zeros(map: &mut Object, fields: &[&str]) {
    for field in fields {
        if map.get(*field).is_some_and(is_zero) {
            map.remove(*field);
        }
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(true) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn zero_values_are_omitted() {
        let mut spec = json!({"preserveUnknownFields": false, "names": {"shortNames": [], "categories": ["all"]},
            "versions": [{"name": "v1", "served": true, "deprecated": false, "selectableFields": [],
                "additionalPrinterColumns": [{"name": "a", "priority": 0, "format": ""}],
                "schema": {"openAPIV3Schema": {"type": "object", "description": "", "required": [], "properties": {
                    "a": {"type": "string", "default": "", "minLength": 0, "enum": [""], "nullable": false},
                    "b": {"type": "boolean", "default": false},
                    "c": {"type": "array", "maxItems": 0, "default": [], "items": {"type": "object", "properties": {}}},
                    "d": {"type": "object", "additionalProperties": {"type": "integer", "title": "", "default": 0},
                        "x-kubernetes-validations": [{"rule": "true", "message": ""}]}}}}}]});
        omit(spec.as_object_mut().expect("an object"));
        let expected = json!({"names": {"categories": ["all"]},
            "versions": [{"name": "v1", "served": true, "storage": false,
                "additionalPrinterColumns": [{"name": "a"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "a": {"type": "string", "default": "", "minLength": 0, "enum": [""]},
                    "b": {"type": "boolean", "default": false},
                    "c": {"type": "array", "maxItems": 0, "default": [], "items": {"type": "object"}},
                    "d": {"type": "object", "additionalProperties": {"type": "integer", "default": 0},
                        "x-kubernetes-validations": [{"rule": "true"}]}}}}}]});
        assert_eq!(spec, expected);
    }

    #[test]
    fn metadata_of_embedded_objects_has_no_zero_values() {
        let mut metadata = json!({"name": "", "namespace": "", "uid": "", "resourceVersion": "", "generation": 0,
            "labels": {}, "annotations": {"a": null, "b": ""}, "creationTimestamp": null, "finalizers": [], "managedFields": []});
        omit_in_embedded_metadata(metadata.as_object_mut().expect("an object"));
        assert_eq!(metadata, json!({"annotations": {"a": "", "b": ""}}));
        let mut kept =
            json!({"name": "a", "generation": 1, "labels": {"a": ""}, "deletionTimestamp": "2020-01-01T00:00:00Z"});
        let before = kept.clone();
        omit_in_embedded_metadata(kept.as_object_mut().expect("an object"));
        assert_eq!(kept, before);
    }
}
