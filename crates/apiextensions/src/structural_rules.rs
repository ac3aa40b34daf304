//! Checks that the JSON of an `openAPIV3Schema` is structural: every field has its one type outside of `allOf`,
//! `anyOf`, `oneOf` and `not`, which only restrict values. Further checks of a schema are in [`crate::schema_rules`]
//! and [`crate::schema_defaults`].

use apimachinery::field::{Error, ErrorList, Path};
use serde_json::{Map, Value, json};

use crate::re2;

/// The position in a schema; decides whether a missing type is an error.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Field,
    Item,
}

/// The errors that prevent a schema from being structural, ordered by text as upstream orders them. Recursion is
/// bounded by the depth that the JSON parser permits (128).
pub fn validate(schema: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if let Some(map) = schema.as_object() {
        node(map, path, Place::Root, &mut errors);
        complete(map, Some(map), path, path, &mut errors);
    }
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

/// Why a schema cannot be parsed, so that its structure cannot be checked.
pub fn unreadable(schema: &Value) -> Option<String> {
    unreadable_map(schema.as_object()?)
}

/// Whether there is such a reason.
pub(crate) fn is_unreadable(schema: &Map<String, Value>) -> bool {
    unreadable_map(schema).is_some()
}

/// Whether a value has a default in the schema or below.
pub(crate) fn has_default(schema: &Value) -> bool {
    let Some(map) = schema.as_object() else { return false };
    map.get("default").is_some_and(|default| !default.is_null()) || children(map).into_iter().any(has_default)
}

fn unreadable_map(map: &Map<String, Value>) -> Option<String> {
    let message = |key: &str| format!("OpenAPIV3Schema '{key}' is not supported");
    const UNSUPPORTED: [(&str, &str); 7] = [
        ("id", "id"),
        ("$schema", "schema"),
        ("$ref", "$ref"),
        ("patternProperties", "patternProperties"),
        ("dependencies", "dependencies"),
        ("additionalItems", "additionalItems"),
        ("definitions", "definitions"),
    ];
    let unsupported = UNSUPPORTED.iter().find(|(key, _)| is_set(map, key)).map(|(_, name)| message(name));
    let inside = || children(map).into_iter().find_map(unreadable);
    let preserves = || {
        (map.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)))
            .then(|| "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined".to_owned())
    };
    let listed = || {
        map.get("items")
            .is_some_and(Value::is_array)
            .then(|| "OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned())
    };
    unsupported.or_else(preserves).or_else(listed).or_else(inside)
}

/// The alternatives and intersections directly inside a schema.
fn children(map: &Map<String, Value>) -> Vec<&Value> {
    let listed = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|key| map.get(key)?.as_array()).flatten();
    let single = ["not", "items", "additionalProperties"].into_iter().filter_map(|key| map.get(key));
    let named = map.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::values);
    listed.chain(single).chain(named).collect()
}

pub(crate) fn text<'a>(map: &'a Map<String, Value>, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Whether the value differs from the zero value.
pub(crate) fn is_set(map: &Map<String, Value>, key: &str) -> bool {
    match map.get(key) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(_) => true,
    }
}

fn node(map: &Map<String, Value>, path: &Path, place: Place, errors: &mut ErrorList) {
    let properties = map.get("properties").and_then(Value::as_object);
    match map.get("items") {
        Some(Value::Object(items)) => node(items, &path.child("items"), Place::Item, errors),
        _ if text(map, "type") == "array" => errors.push(Error::required(&path.child("items"), "must be specified")),
        _ => {}
    }
    for (name, property) in properties.into_iter().flatten() {
        if let Some(property) = property.as_object() {
            node(property, &path.child("properties").key(name), Place::Field, errors);
        }
    }
    check_additional(map, path, place, errors);
    check_extensions(map, path, errors);
    check_junctors(map, path, true, errors);
    check_pattern(map, path, errors);
    check_type(map, path, place, errors);
    check_identity(properties, map, path, place, errors);
}

fn check_additional(map: &Map<String, Value>, path: &Path, place: Place, errors: &mut ErrorList) {
    let path = path.child("additionalProperties");
    let Some(values) = map.get("additionalProperties").filter(|values| !values.is_null()) else { return };
    if place == Place::Root {
        errors.push(Error::forbidden(&path, "must not be used at the root"));
    }
    if is_set(map, "x-kubernetes-embedded-resource") {
        errors.push(Error::forbidden(&path, "must not be used if x-kubernetes-embedded-resource is set"));
    }
    if let Some(values) = values.as_object() {
        node(values, &path, Place::Field, errors);
    }
}

fn check_type(map: &Map<String, Value>, path: &Path, place: Place, errors: &mut ErrorList) {
    let path = path.child("type");
    let may_lack = is_set(map, "x-kubernetes-int-or-string") || is_set(map, "x-kubernetes-preserve-unknown-fields");
    let embedded = is_set(map, "x-kubernetes-embedded-resource");
    match (text(map, "type"), place) {
        ("object", _) => {}
        (other, _) if embedded => {
            let why = "must be object if x-kubernetes-embedded-resource is true";
            errors.push(if other.is_empty() { Error::required(&path, why) } else { Error::invalid(&path, other, why) });
        }
        ("", _) if may_lack => {}
        ("", Place::Root) => errors.push(Error::required(&path, "must not be empty at the root")),
        ("", Place::Field) => errors.push(Error::required(&path, "must not be empty for specified object fields")),
        ("", Place::Item) => errors.push(Error::required(&path, "must not be empty for specified array items")),
        _ => {}
    }
    match text(map, "type") {
        "" | "object" => {}
        other if place == Place::Root => errors.push(Error::invalid(&path, other, "must be object at the root")),
        _ => {}
    }
}

fn check_extensions(map: &Map<String, Value>, path: &Path, errors: &mut ErrorList) {
    const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
    const EMBEDDED: &str = "x-kubernetes-embedded-resource";
    for key in [PRESERVE, EMBEDDED].into_iter().filter(|key| is_set(map, key)) {
        if is_set(map, "x-kubernetes-int-or-string") {
            let why = "must be false if x-kubernetes-int-or-string is true";
            errors.push(Error::invalid(&path.child(key), true, why));
        }
    }
    let has_properties = map.get("properties").and_then(Value::as_object).is_some_and(|all| !all.is_empty());
    if is_set(map, EMBEDDED) && !is_set(map, PRESERVE) && !has_properties {
        let why =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(Error::required(&path.child("properties"), why));
    }
}

/// The apiVersion, kind and metadata of an embedded object.
fn check_identity(
    properties: Option<&Map<String, Value>>,
    map: &Map<String, Value>,
    path: &Path,
    place: Place,
    errors: &mut ErrorList,
) {
    if place != Place::Root && !is_set(map, "x-kubernetes-embedded-resource") {
        return;
    }
    for (name, type_name) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let Some(property) = properties.and_then(|all| all.get(name)).and_then(Value::as_object) else { continue };
        let path = path.child("properties").key(name);
        let found = text(property, "type");
        if found != type_name {
            errors.push(Error::invalid(&path.child("type"), found, format!("must be {type_name}")));
        }
        // Metadata inside an embedded object may be fully described: fields that metadata does not have are dropped
        // when it is read.
        if place == Place::Root && name == "metadata" {
            check_metadata(property, &path, errors);
        }
    }
}

fn check_metadata(map: &Map<String, Value>, path: &Path, errors: &mut ErrorList) {
    // Descriptions and examples are ignored; defaults are refused separately.
    const PLAIN: [&str; 4] = ["type", "default", "properties", "example"];
    // Upstream compares with an unset field, from which an empty list differs, too.
    let says_anything = |key: &str| match map.get(key) {
        Some(Value::Array(_)) => true,
        Some(value) if key == "additionalProperties" => !value.is_null(),
        _ => is_set(map, key),
    };
    let mut names = map.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
    let only_names = names.all(|name| matches!(name.as_str(), "name" | "generateName"));
    if !only_names || map.keys().any(|key| !PLAIN.contains(&key.as_str()) && says_anything(key)) {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(Error::forbidden(path, why));
    }
}

fn check_pattern(map: &Map<String, Value>, path: &Path, errors: &mut ErrorList) {
    let pattern = text(map, "pattern");
    if !pattern.is_empty()
        && let Err(error) = re2::compile(pattern)
    {
        let why = format!("must be a valid regular expression, but isn't: {error}");
        errors.push(Error::invalid(&path.child("pattern"), pattern, why));
    }
}

/// Whether these are the two types of int-or-string, spelled out. Only then may a junctor name types.
fn spells_int_or_string(any_of: Option<&Value>) -> bool {
    any_of == Some(&json!([{"type": "integer"}, {"type": "string"}]))
}

/// `outermost`: these are the junctors of a field, not of another junctor.
fn check_junctors(map: &Map<String, Value>, path: &Path, outermost: bool, errors: &mut ErrorList) {
    for (key, index, at, schema) in junctors(map, path) {
        match (key, index) {
            ("anyOf", _) if outermost && spells_int_or_string(map.get("anyOf")) => {}
            ("allOf", 0) if outermost && spells_int_or_string(schema.get("anyOf")) => {
                let mut rest = schema.clone();
                rest.remove("anyOf");
                nested(&rest, &at, errors);
            }
            _ => nested(schema, &at, errors),
        }
    }
}

/// The schemas under allOf, anyOf, oneOf and not, each with its place.
fn junctors<'a>(map: &'a Map<String, Value>, path: &Path) -> Vec<(&'static str, usize, Path, &'a Map<String, Value>)> {
    let mut found = Vec::new();
    for key in ["allOf", "anyOf", "oneOf"] {
        for (index, schema) in map.get(key).and_then(Value::as_array).into_iter().flatten().enumerate() {
            if let Some(schema) = schema.as_object() {
                found.push((key, index, path.child(key).index(index), schema));
            }
        }
    }
    if let Some(schema) = map.get("not").and_then(Value::as_object) {
        found.push(("not", 0, path.child("not"), schema));
    }
    found
}

/// Inside a junctor only values are restricted.
fn nested(schema: &Map<String, Value>, path: &Path, errors: &mut ErrorList) {
    const EMPTY: [&str; 5] = ["type", "title", "description", "x-kubernetes-list-map-keys", "x-kubernetes-validations"];
    const UNDEFINED: [&str; 3] = ["default", "x-kubernetes-list-type", "x-kubernetes-map-type"];
    const FALSE: [&str; 4] = [
        "nullable",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
    ];
    let keys = EMPTY.iter().map(|key| (*key, "must be empty to be structural"));
    let keys = keys.chain(UNDEFINED.iter().map(|key| (*key, "must be undefined to be structural")));
    let keys = keys.chain(FALSE.iter().map(|key| (*key, "must be false to be structural")));
    for (key, why) in keys.filter(|(key, _)| is_set(schema, key)) {
        errors.push(Error::forbidden(&path.child(key), why));
    }
    if schema.get("additionalProperties").is_some_and(|values| !values.is_null()) {
        errors.push(Error::forbidden(&path.child("additionalProperties"), "must be undefined to be structural"));
    }
    check_junctors(schema, path, false, errors);
    check_pattern(schema, path, errors);
    if let Some(items) = schema.get("items").and_then(Value::as_object) {
        nested(items, &path.child("items"), errors);
    }
    for (key, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let path = path.child("properties").key(key);
        if key == "metadata" {
            errors.push(Error::forbidden(&path, "must not be specified in a nested context"));
        }
        if let Some(property) = property.as_object() {
            nested(property, &path, errors);
        }
    }
}

/// Fields in a junctor at the root must be declared outside of it. Upstream checks this for no other junctor.
fn complete(
    schema: &Map<String, Value>,
    declared: Option<&Map<String, Value>>,
    at: &Path,
    defined_at: &Path,
    errors: &mut ErrorList,
) {
    for (_, _, defined_at, inner) in junctors(schema, defined_at) {
        complete_nested(inner, declared, at, &defined_at, errors);
    }
}

fn complete_nested(
    schema: &Map<String, Value>,
    declared: Option<&Map<String, Value>>,
    at: &Path,
    defined_at: &Path,
    errors: &mut ErrorList,
) {
    let Some(outer) = declared else {
        errors.push(Error::required(at, format!("because it is defined in {defined_at}")));
        return;
    };
    complete(schema, declared, at, defined_at, errors);
    if let Some(items) = schema.get("items").and_then(Value::as_object) {
        let outer = outer.get("items").and_then(Value::as_object);
        complete_nested(items, outer, &at.child("items"), &defined_at.child("items"), errors);
    }
    let known = outer.get("properties").and_then(Value::as_object);
    for (key, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let (at, defined_at) = (at.child("properties").key(key), defined_at.child("properties").key(key));
        let outer = known.and_then(|known| known.get(key)).and_then(Value::as_object);
        if let Some(property) = property.as_object() {
            complete_nested(property, outer, &at, &defined_at, errors);
        }
    }
}
