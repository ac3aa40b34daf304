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
    if place == Place::Root && is_set(map, "nullable") {
        errors.push(Error::forbidden(&path.child("nullable"), "nullable cannot be true at the root"));
    }
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
        let type_ = text(property, "type");
        let wanted = match name.as_str() {
            "apiVersion" | "kind" => "string",
            "metadata" => "object",
            _ => type_,
        };
        if holds_object && type_ != wanted {
            errors.push(Error::invalid(&path.child("type"), type_, format!("must be {wanted}")));
        }
        // Metadata inside an embedded object may be described in full: what no metadata has is dropped when it is read.
        if place == Place::Root && name == "metadata" {
            check_metadata(property, &path, errors);
        }
        if holds_object && name == "metadata" {
            embedded_metadata(property, &path, errors);
        } else {
            node(property, &path, Place::Field, errors);
        }
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
    const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
    const EMBEDDED: &str = "x-kubernetes-embedded-resource";
    if map.get(PRESERVE) == Some(&Value::Bool(false)) {
        errors.push(Error::invalid(&path.child(PRESERVE), false, "must be true or undefined"));
    }
    for key in [PRESERVE, EMBEDDED].into_iter().filter(|key| is_set(map, key)) {
        if is_set(map, "x-kubernetes-int-or-string") {
            let why = "must be false if x-kubernetes-int-or-string is true";
            errors.push(Error::invalid(&path.child(key), true, why));
        }
    }
    if is_set(map, EMBEDDED) {
        must_be(map, "object", "x-kubernetes-embedded-resource is true", path, errors);
        if !is_set(map, PRESERVE) && !is_set(map, "properties") {
            let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
            errors.push(Error::required(&path.child("properties"), why));
        }
    }
    let map_type = text(map, "x-kubernetes-map-type");
    if !map_type.is_empty() {
        must_be(map, "object", "x-kubernetes-map-type is specified", path, errors);
        if !["atomic", "granular"].contains(&map_type) {
            errors.push(Error::not_supported(&path.child("x-kubernetes-map-type"), map_type, &["atomic", "granular"]));
        }
    }
    let list_type = text(map, "x-kubernetes-list-type");
    let list_path = path.child("x-kubernetes-list-type");
    if !list_type.is_empty() {
        must_be(map, "array", "x-kubernetes-list-type is specified", path, errors);
        if !["atomic", "set", "map"].contains(&list_type) {
            errors.push(Error::not_supported(&list_path, list_type, &["atomic", "set", "map"]));
        }
    }
    if list_type != "map" && is_set(map, "x-kubernetes-list-map-keys") {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(match list_type {
            "" => Error::required(&list_path, why),
            other => Error::invalid(&list_path, other, why),
        });
    }
    if list_type == "map" || list_type == "set" {
        check_items(map, list_type, path, errors);
    }
}

/// The type that an extension asks for.
fn must_be(map: &Map<String, Value>, wanted: &str, when: &str, path: &Path, errors: &mut ErrorList) {
    let (path, why) = (path.child("type"), format!("must be {wanted} if {when}"));
    match text(map, "type") {
        found if found == wanted => {}
        "" => errors.push(Error::required(&path, why)),
        found => errors.push(Error::invalid(&path, found, why)),
    }
}

/// What items must be for their list to be a set or a map.
fn check_items(map: &Map<String, Value>, list_type: &str, path: &Path, errors: &mut ErrorList) {
    let at = path.child("items");
    if list_type == "map" {
        check_keys(map, path, errors);
    }
    let Some(items) = map.get("items").and_then(Value::as_object) else { return };
    if is_set(items, "nullable") {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(Error::forbidden(&at.child("nullable"), why));
    }
    // Unset, lists are atomic and maps are not.
    let (key, fine): (_, &[&str]) = match (list_type, text(items, "type")) {
        ("set", "array") => ("x-kubernetes-list-type", &["", "atomic"]),
        ("set", "object") => ("x-kubernetes-map-type", &["atomic"]),
        _ => return,
    };
    if !fine.contains(&text(items, key)) {
        // Upstream shows the list type in both cases.
        let shown = items.get("x-kubernetes-list-type").cloned().unwrap_or(Value::Null);
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        errors.push(Error::invalid(&at.child(key), shown, why));
    }
}

/// The keys of a list of type map must be there in each item, and be scalars.
fn check_keys(map: &Map<String, Value>, path: &Path, errors: &mut ErrorList) {
    let (at, keys_path) = (path.child("items"), path.child("x-kubernetes-list-map-keys"));
    let names = |map: &Map<String, Value>, key: &str| -> Vec<String> {
        let list = map.get(key).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let keys = names(map, "x-kubernetes-list-map-keys");
    if keys.is_empty() {
        errors.push(Error::required(&keys_path, "must not be empty if x-kubernetes-list-type is map"));
    }
    let items = match map.get("items") {
        Some(Value::Object(items)) => items,
        None | Some(Value::Null) => {
            errors.push(Error::required(&at, "must have a schema if x-kubernetes-list-type is map"));
            return;
        }
        Some(other) => {
            let why = "must only have a single schema if x-kubernetes-list-type is map";
            errors.push(Error::invalid(&at, other.clone(), why));
            return;
        }
    };
    if text(items, "type") != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(Error::invalid(&at.child("type"), text(items, "type"), why));
        return;
    }
    let required = names(items, "required");
    let mut seen = std::collections::BTreeSet::new();
    for key in &keys {
        let at = at.child("properties").key(key);
        if !seen.insert(key) {
            errors.push(Error::invalid(&keys_path, keys.clone(), "must not contain duplicate entries"));
        }
        let Some(property) = items.get("properties").and_then(|all| all.get(key)).and_then(Value::as_object) else {
            errors.push(Error::invalid(&keys_path, keys.clone(), "entries must all be names of item properties"));
            continue;
        };
        if ["array", "object"].contains(&text(property, "type")) {
            let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            // Upstream shows the type of the item, not of the key.
            errors.push(Error::invalid(&at.child("type"), text(items, "type"), why));
        }
        if !required.contains(key) && property.get("default").is_none_or(Value::is_null) {
            let why =
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(Error::required(&at.child("default"), why));
        }
        if is_set(property, "nullable") {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(Error::forbidden(&at.child("nullable"), why));
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

/// Defaults of metadata, or of what is in it, are held against what metadata is, not against what is said of it here.
fn embedded_metadata(map: &Map<String, Value>, path: &Path, errors: &mut ErrorList) {
    let before = errors.len();
    node(map, path, Place::Field, errors);
    let of_pruning = |error: &Error| error.detail == "must not have unknown fields";
    let added = errors.split_off(before);
    errors.extend(added.into_iter().filter(|error| !of_pruning(error)));
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
        let list =
            |type_: &str, items: Value| json!({"type": "array", "x-kubernetes-list-type": type_, "items": items});
        let keyed = |keys: &[&str], key: Value| {
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys,
                "items": {"type": "object", "required": ["k"], "properties": {"k": key}}})
        };
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
            (
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false}),
                Some("p[x].x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"),
            ),
            (
                json!({"x-kubernetes-int-or-string": true, "x-kubernetes-preserve-unknown-fields": true}),
                Some(
                    "p[x].x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if x-kubernetes-int-or-string is true",
                ),
            ),
            (
                json!({"type": "object", "x-kubernetes-embedded-resource": true}),
                Some(
                    "p[x].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
                ),
            ),
            (
                json!({"type": "string", "x-kubernetes-map-type": "atomic"}),
                Some(r#"p[x].type: Invalid value: "string": must be object if x-kubernetes-map-type is specified"#),
            ),
            (
                list("tree", json!({"type": "string"})),
                Some(
                    r#"p[x].x-kubernetes-list-type: Unsupported value: "tree": supported values: "atomic", "set", "map""#,
                ),
            ),
            (list("set", json!({"type": "string"})), None),
            (list("set", json!({"type": "array", "items": {"type": "string"}})), None),
            (list("set", json!({"type": "object", "x-kubernetes-map-type": "atomic"})), None),
            (
                list("set", json!({"type": "object"})),
                Some(
                    "p[x].items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
                ),
            ),
            (
                list("set", json!({"type": "string", "nullable": true})),
                Some("p[x].items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set"),
            ),
            (keyed(&["k"], json!({"type": "string"})), None),
            (
                keyed(&["k", "k"], json!({"type": "string"})),
                Some(
                    r#"p[x].x-kubernetes-list-map-keys: Invalid value: ["k","k"]: must not contain duplicate entries"#,
                ),
            ),
            (
                keyed(&["k", "l"], json!({"type": "string"})),
                Some(
                    r#"p[x].x-kubernetes-list-map-keys: Invalid value: ["k","l"]: entries must all be names of item properties"#,
                ),
            ),
            (
                keyed(&["k"], json!({"type": "object"})),
                Some(
                    r#"p[x].items.properties[k].type: Invalid value: "object": must be a scalar type if parent array's x-kubernetes-list-type is map"#,
                ),
            ),
            (
                keyed(&["k"], json!({"type": "string", "nullable": true})),
                Some(
                    "p[x].items.properties[k].nullable: Forbidden: this property is in x-kubernetes-list-map-keys, so it cannot be nullable",
                ),
            ),
            (
                json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "string"}}),
                Some(
                    r#"p[x].items.type: Invalid value: "string": must be object if parent array's x-kubernetes-list-type is map"#,
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
