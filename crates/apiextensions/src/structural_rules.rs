//! Whether the JSON of an `openAPIV3Schema` is structural and within what custom resources support.

use apimachinery::field::{Error, ErrorList, Path};
use serde_json::{Map, Value};

use crate::validation::Validator;
use crate::{pruning, re2, structural};

/// Where in a schema we are; decides what a missing type means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Field,
    Item,
}

/// Judges a whole schema. Recursion is bounded by the depth that the JSON parser lets through (128).
pub fn validate(schema: &Value, path: &Path, errors: &mut ErrorList) {
    let Some(map) = schema.as_object() else { return };
    match text(map, "type") {
        "object" => {}
        "" => errors.push(Error::required(&path.child("type"), "must not be empty at the root")),
        other => errors.push(Error::invalid(&path.child("type"), other, "must be object at the root")),
    }
    node(map, path, Place::Root, errors);
}

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn is_set(map: &Map<String, Value>, key: &str) -> bool {
    match map.get(key) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(_) => true,
    }
}

fn node(map: &Map<String, Value>, path: &Path, place: Place, errors: &mut ErrorList) {
    check_unsupported(map, path, errors);
    check_type(map, path, place, errors);
    check_extensions(map, path, errors);
    check_value_rules(map, path, errors);
    check_default(map, path, errors);
    let properties = map.get("properties").and_then(Value::as_object);
    match map.get("additionalProperties") {
        Some(Value::Bool(false)) => errors
            .push(Error::forbidden(&path.child("additionalProperties"), "additionalProperties cannot be set to false")),
        Some(Value::Object(values)) => {
            if properties.is_some_and(|properties| !properties.is_empty()) {
                let why = "additionalProperties and properties are mutual exclusive";
                errors.push(Error::forbidden(&path.child("additionalProperties"), why));
            }
            node(values, &path.child("additionalProperties"), Place::Field, errors);
        }
        _ => {}
    }
    let holds_object = place == Place::Root || is_set(map, "x-kubernetes-embedded-resource");
    for (name, property) in properties.into_iter().flatten() {
        let path = path.child("properties").key(name);
        let Some(property) = property.as_object() else { continue };
        if holds_object && name == "metadata" {
            check_metadata(property, &path, errors);
        }
        node(property, &path, Place::Field, errors);
    }
    match map.get("items") {
        Some(Value::Object(items)) => node(items, &path.child("items"), Place::Item, errors),
        Some(Value::Array(_)) => {
            errors.push(Error::forbidden(&path.child("items"), "items must be a schema object and not an array"))
        }
        _ => {}
    }
    for (junctor, path, schema) in junctors(map, path) {
        nested(schema, map, &path, &junctor, errors);
    }
}

fn check_unsupported(map: &Map<String, Value>, path: &Path, errors: &mut ErrorList) {
    for key in ["$ref", "definitions", "dependencies", "patternProperties", "additionalItems", "id", "$schema"] {
        if is_set(map, key) {
            errors.push(Error::forbidden(&path.child(key), format!("{key} is not supported")));
        }
    }
    if is_set(map, "uniqueItems") {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(Error::forbidden(&path.child("uniqueItems"), why));
    }
}

fn check_type(map: &Map<String, Value>, path: &Path, place: Place, errors: &mut ErrorList) {
    const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
    let path = path.child("type");
    let int_or_string = is_set(map, "x-kubernetes-int-or-string");
    match (text(map, "type"), place) {
        ("", Place::Root) => {}
        ("", _) if int_or_string || is_set(map, "x-kubernetes-preserve-unknown-fields") => {}
        ("", Place::Field) => errors.push(Error::required(&path, "must not be empty for specified object fields")),
        ("", Place::Item) => errors.push(Error::required(&path, "must not be empty for specified array items")),
        (type_, _) if !TYPES.contains(&type_) => errors.push(Error::not_supported(&path, type_, &TYPES)),
        (type_, _) if int_or_string => {
            errors.push(Error::invalid(&path, type_, "must be empty if x-kubernetes-int-or-string is true"));
        }
        ("array", _) if !is_set(map, "items") => {
            errors.push(Error::required(
                &Path::new(path.as_str().trim_end_matches(".type")).child("items"),
                "must be specified",
            ));
        }
        _ => {}
    }
}

fn check_extensions(map: &Map<String, Value>, path: &Path, errors: &mut ErrorList) {
    let list_type = text(map, "x-kubernetes-list-type");
    let list_path = path.child("x-kubernetes-list-type");
    if !["", "atomic", "set", "map"].contains(&list_type) {
        errors.push(Error::not_supported(&list_path, list_type, &["atomic", "map", "set"]));
    }
    if !list_type.is_empty() && text(map, "type") != "array" {
        errors.push(Error::invalid(
            &path.child("type"),
            text(map, "type"),
            "must be array if x-kubernetes-list-type is specified",
        ));
    }
    let map_type = text(map, "x-kubernetes-map-type");
    if !["", "atomic", "granular"].contains(&map_type) {
        errors.push(Error::not_supported(&path.child("x-kubernetes-map-type"), map_type, &["atomic", "granular"]));
    }
    if is_set(map, "x-kubernetes-embedded-resource") && text(map, "type") != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(Error::invalid(&path.child("type"), text(map, "type"), why));
    }
    let keys: Vec<&str> = map
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let keys_path = path.child("x-kubernetes-list-map-keys");
    if list_type == "map" && keys.is_empty() {
        errors.push(Error::required(&keys_path, "must not be empty if x-kubernetes-list-type is map"));
    }
    if list_type != "map" && !keys.is_empty() {
        errors.push(Error::required(&list_path, "must be map if x-kubernetes-list-map-keys is non-empty"));
    }
    let items = map.get("items").and_then(Value::as_object);
    let required: Vec<&Value> =
        items.and_then(|items| items.get("required")).and_then(Value::as_array).into_iter().flatten().collect();
    for (index, key) in keys.iter().enumerate().filter(|_| list_type == "map") {
        let property = items.and_then(|items| items.get("properties")).and_then(|properties| properties.get(*key));
        match property {
            None => errors.push(Error::invalid(&keys_path.index(index), *key, "must be a property of the item schema")),
            Some(property) if !required.iter().any(|name| **name == **key) && property.get("default").is_none() => {
                let path = path.child("items").child("properties").key(key).child("default");
                let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                errors.push(Error::required(&path, why));
            }
            Some(_) => {}
        }
    }
}

fn check_value_rules(map: &Map<String, Value>, path: &Path, errors: &mut ErrorList) {
    let pattern = text(map, "pattern");
    if !pattern.is_empty()
        && let Err(error) = re2::compile(pattern)
    {
        let why = format!("must be a valid regular expression, but isn't: {error}");
        errors.push(Error::invalid(&path.child("pattern"), pattern, why));
    }
}

fn check_default(map: &Map<String, Value>, path: &Path, errors: &mut ErrorList) {
    let Some(default) = map.get("default") else { return };
    let path = path.child("default");
    if default.is_null() {
        if !is_set(map, "nullable") {
            errors.push(Error::invalid(&path, Value::Null, "must not be null"));
        }
        return;
    }
    // Judged inside a wrapper: at the root of a schema metadata would be implied.
    let wrapper = serde_json::json!({"type": "object", "properties": {"default": map}});
    let type_ = structural::compile(Some(&wrapper), None);
    let mut instance = serde_json::json!({"default": default});
    if !pruning::prune(&mut instance, &type_).is_empty() {
        errors.push(Error::invalid(&path, default.clone(), "must not have unknown fields"));
    }
    // Rules that do not compile are reported where they stand.
    let told_elsewhere = |error: &Error| error.detail.starts_with("rule compile error");
    for error in Validator::new(type_).validate(&instance).into_iter().filter(|error| !told_elsewhere(error)) {
        let inner = error.path.as_str().strip_prefix("default").unwrap_or_default().to_owned();
        let full = Path::new(&format!("{path}{inner}"));
        errors.push(Error { path: full, ..error });
    }
}

fn check_metadata(map: &Map<String, Value>, path: &Path, errors: &mut ErrorList) {
    let properties = map.get("properties").and_then(Value::as_object);
    let only_names = properties.into_iter().flatten().all(|(name, _)| matches!(name.as_str(), "name" | "generateName"));
    let plain = ["additionalProperties", "required", "x-kubernetes-preserve-unknown-fields"];
    if !only_names || plain.iter().any(|key| is_set(map, key)) || map.get("default").is_some() {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(Error::forbidden(path, why));
    }
}

/// The schemas under allOf, anyOf, oneOf and not, each with its name (`allOf[0]`) and path.
fn junctors<'a>(map: &'a Map<String, Value>, path: &Path) -> Vec<(String, Path, &'a Map<String, Value>)> {
    let mut found = Vec::new();
    for key in ["allOf", "anyOf", "oneOf"] {
        for (index, schema) in map.get(key).and_then(Value::as_array).into_iter().flatten().enumerate() {
            if let Some(schema) = schema.as_object() {
                found.push((format!("{key}[{index}]"), path.child(key).index(index), schema));
            }
        }
    }
    if let Some(schema) = map.get("not").and_then(Value::as_object) {
        found.push(("not".to_owned(), path.child("not"), schema));
    }
    found
}

/// Inside a junctor only value rules are allowed, and only on what the outer schema declares.
fn nested(schema: &Map<String, Value>, outer: &Map<String, Value>, path: &Path, name: &str, errors: &mut ErrorList) {
    const EMPTY: [&str; 5] = ["type", "title", "description", "x-kubernetes-list-type", "x-kubernetes-validations"];
    const UNDEFINED: [&str; 2] = ["additionalProperties", "default"];
    const FALSE: [&str; 4] = [
        "nullable",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
    ];
    let int_or_string = is_set(outer, "x-kubernetes-int-or-string");
    let keys = EMPTY.iter().map(|key| (*key, "must be empty to be structural"));
    let keys = keys.chain(UNDEFINED.iter().map(|key| (*key, "must be undefined to be structural")));
    let keys = keys.chain(FALSE.iter().map(|key| (*key, "must be false to be structural")));
    for (key, why) in keys {
        // The one exception: anyOf [{type: integer}, {type: string}] spells out int-or-string.
        if is_set(schema, key) && !(key == "type" && int_or_string) {
            errors.push(Error::forbidden(&path.child(key), why));
        }
    }
    check_unsupported(schema, path, errors);
    check_value_rules(schema, path, errors);
    let declared = outer.get("properties").and_then(Value::as_object);
    let preserves = is_set(outer, "x-kubernetes-preserve-unknown-fields");
    for (key, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let inner = format!("{name}.properties[{key}]");
        let path = path.child("properties").key(key);
        let counterpart = declared.and_then(|declared| declared.get(key)).and_then(Value::as_object);
        match (counterpart, property.as_object()) {
            (Some(counterpart), Some(property)) => nested(property, counterpart, &path, &inner, errors),
            (None, _) if !preserves => {
                errors.push(Error::required(&path, format!("because it is defined in {inner}")));
            }
            _ => {}
        }
    }
    if let (Some(inner), Some(counterpart)) =
        (schema.get("items").and_then(Value::as_object), outer.get("items").and_then(Value::as_object))
    {
        nested(inner, counterpart, &path.child("items"), &format!("{name}.items"), errors);
    }
    for (inner, path, deeper) in junctors(schema, path) {
        nested(deeper, outer, &path, &format!("{name}.{inner}"), errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn schemas_that_are_not_structural_are_refused() {
        for (property, expected) in [
            (json!({"type": "string"}), None),
            (json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}), None),
            (json!({"type": "object", "properties": {"a": {"type": "string"}}, "oneOf": [{"required": ["a"]}]}), None),
            (json!({}), Some("p[x].type: Required value: must not be empty for specified object fields")),
            (
                json!({"type": "array", "items": {}}),
                Some("p[x].items.type: Required value: must not be empty for specified array items"),
            ),
            (
                json!({"type": "text"}),
                Some(
                    r#"p[x].type: Unsupported value: "text": supported values: "array", "boolean", "integer", "number", "object", "string""#,
                ),
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
                Some("p[x].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"),
            ),
            (
                json!({"type": "string", "allOf": [{"description": "d"}]}),
                Some("p[x].allOf[0].description: Forbidden: must be empty to be structural"),
            ),
            (
                json!({"type": "integer", "default": "x"}),
                Some(r#"p[x].default: Invalid value: "string": default in body must be of type integer: "string""#),
            ),
            (
                json!({"type": "object", "default": {"a": 1}}),
                Some(r#"p[x].default: Invalid value: {"a":1}: must not have unknown fields"#),
            ),
            (
                json!({"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}}),
                Some(
                    "p[x].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
                ),
            ),
            (json!({"type": "string", "$ref": "#/x"}), Some("p[x].$ref: Forbidden: $ref is not supported")),
        ] {
            let mut errors = ErrorList::new();
            validate(&json!({"type": "object", "properties": {"x": property}}), &Path::root(), &mut errors);
            let texts: Vec<String> =
                errors.iter().map(|error| error.to_string().replacen("properties[x]", "p[x]", 1)).collect();
            assert_eq!(texts, expected.into_iter().collect::<Vec<_>>(), "{property}");
        }
        let mut errors = ErrorList::new();
        let schema = json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}});
        validate(&schema, &Path::root(), &mut errors);
        assert_eq!(errors.len(), 1, "{errors:?}");
    }
}
