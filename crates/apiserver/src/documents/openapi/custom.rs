//! The published schema of a custom resource: that of its definition, with what upstream adds and, in version 2,
//! without what old clients cannot read.

use serde_json::{Map, Value, json};

use super::schema::Dialect;

const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";

/// Keywords whose zero value is the same as their absence.
const PUBLISHED: &[&str] = &[
    "default",
    "description",
    "enum",
    "example",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "externalDocs",
    "format",
    "nullable",
    "pattern",
    "required",
    "title",
    "type",
    "uniqueItems",
    EMBEDDED,
    INT_OR_STRING,
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    PRESERVE,
    "x-kubernetes-validations",
];
const BOUNDS: &[&str] = &[
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
];
const JUNCTORS: &[&str] = &["allOf", "anyOf", "oneOf"];

/// The fields that every object has: `apiVersion`, `kind` and `metadata`.
pub type TypeMeta = [(&'static str, Value); 3];

/// The schema of a version, from its `openAPIV3Schema`. It is as deep as the definition, which the JSON parser bounds.
pub fn published(schema: Option<&Value>, dialect: Dialect, type_meta: &TypeMeta) -> Map<String, Value> {
    let schema = schema.and_then(Value::as_object);
    let Some(schema) = schema.filter(|schema| dialect == Dialect::V3 || !is_set(schema, PRESERVE)) else {
        // Clients of version 2 refuse fields that are not listed.
        return Map::from_iter([("type".to_owned(), "object".into())]);
    };
    let mut root = Publisher { dialect, type_meta }.structural(schema);
    add_properties(&mut root, type_meta);
    root
}

struct Publisher<'a> {
    dialect: Dialect,
    type_meta: &'a TypeMeta,
}

impl Publisher<'_> {
    fn structural(&self, schema: &Map<String, Value>) -> Map<String, Value> {
        let mut out = keywords(schema);
        let v2 = self.dialect == Dialect::V2;
        let (nullable, preserves) = (is_set(schema, "nullable"), is_set(schema, PRESERVE));
        if let Some(items) = schema.get("items").and_then(Value::as_object) {
            out.insert("items".into(), self.structural(items).into());
        }
        if let Some(Value::Object(properties)) = schema.get("properties").filter(|it| !is_zero(it)) {
            let shown = properties.iter().map(|(name, property)| {
                (
                    name.clone(),
                    property.as_object().map(|property| self.structural(property)).unwrap_or_default().into(),
                )
            });
            out.insert("properties".into(), Value::Object(shown.collect()));
        }
        match schema.get("additionalProperties") {
            Some(Value::Object(values)) => {
                out.insert("additionalProperties".into(), self.structural(values).into());
            }
            Some(Value::Bool(true)) => {
                out.insert("additionalProperties".into(), true.into());
            }
            _ => {}
        }
        if v2 {
            simplify(schema, nullable, preserves, &mut out);
        } else {
            add_junctors(schema, &mut out);
            unfold(schema, &mut out);
        }
        if is_set(schema, EMBEDDED) && !(v2 && preserves) {
            self.add_type_meta(&mut out);
        }
        out
    }

    fn add_type_meta(&self, out: &mut Map<String, Value>) {
        add_properties(out, self.type_meta);
        if let Some(required) = out.entry("required").or_insert_with(|| json!([])).as_array_mut() {
            for name in ["kind", "apiVersion"] {
                if !required.iter().any(|known| known == name) {
                    required.push(name.into());
                }
            }
        }
    }
}

fn add_properties(out: &mut Map<String, Value>, added: &TypeMeta) {
    if let Some(properties) = out.entry("properties").or_insert_with(|| json!({})).as_object_mut() {
        properties.extend(added.iter().map(|(name, shown)| ((*name).to_owned(), shown.clone())));
    }
}

fn keywords(schema: &Map<String, Value>) -> Map<String, Value> {
    let known = |name: &str| PUBLISHED.contains(&name) || BOUNDS.contains(&name);
    let is_default = |name: &str, value: &Value| {
        // A zero is a default and a bound.
        if matches!(name, "default" | "example") || BOUNDS.contains(&name) { value.is_null() } else { is_zero(value) }
    };
    let shown = schema.iter().filter(|(name, value)| known(name) && !is_default(name, value));
    shown.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Removes what clients of version 2 cannot read: defaults, nullable values, and fields of objects that may have others.
fn simplify(schema: &Map<String, Value>, nullable: bool, preserves: bool, out: &mut Map<String, Value>) {
    out.remove("default");
    if nullable {
        out.remove("type");
        out.remove("nullable");
    }
    if nullable || preserves {
        out.remove("items");
        out.remove("properties");
    }
    let untyped = match schema.get("type").and_then(Value::as_str) {
        Some("array") => !out.contains_key("items"),
        Some("object") => preserves,
        _ => false,
    };
    if untyped {
        out.remove("type");
    }
    let values_are_nullable = schema.get("additionalProperties").and_then(Value::as_object);
    if values_are_nullable.is_some_and(|values| is_set(values, "nullable")) {
        out.remove("required");
    }
    let Some(Value::Object(properties)) = schema.get("properties").filter(|_| out.contains_key("properties")) else {
        return;
    };
    let is_nullable = |name: &Value| {
        let property = name.as_str().and_then(|name| properties.get(name)).and_then(Value::as_object);
        property.is_some_and(|property| is_set(property, "nullable"))
    };
    if let Some(Value::Array(required)) = out.get_mut("required") {
        required.retain(|name| !is_nullable(name));
        if required.is_empty() {
            out.remove("required");
        }
    }
}

fn add_junctors(schema: &Map<String, Value>, out: &mut Map<String, Value>) {
    for name in JUNCTORS {
        if let Some(Value::Array(parts)) = schema.get(*name).filter(|parts| !is_zero(parts)) {
            out.insert((*name).to_owned(), parts.iter().map(constraint).collect());
        }
    }
    if let Some(not) = schema.get("not").filter(|not| not.is_object()) {
        out.insert("not".into(), constraint(not));
    }
}

/// A part of a junctor: it restricts values, and describes none.
fn constraint(part: &Value) -> Value {
    let Some(part) = part.as_object() else { return json!({}) };
    let mut out = keywords(part);
    add_junctors(part, &mut out);
    if let Some(items) = part.get("items").filter(|items| items.is_object()) {
        out.insert("items".into(), constraint(items));
    }
    if let Some(Value::Object(properties)) = part.get("properties").filter(|it| !is_zero(it)) {
        let shown = properties.iter().map(|(name, property)| (name.clone(), constraint(property)));
        out.insert("properties".into(), Value::Object(shown.collect()));
    }
    out.into()
}

/// States the types of an int-or-string, unless the definition does.
fn unfold(schema: &Map<String, Value>, out: &mut Map<String, Value>) {
    if !is_set(schema, INT_OR_STRING) {
        return;
    }
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let first_of_all = schema.get("allOf").and_then(|parts| parts.get(0)?.get("anyOf"));
    if schema.get("anyOf") == Some(&either) || first_of_all == Some(&either) {
        return;
    }
    if !out.contains_key("anyOf") {
        out.insert("anyOf".into(), either);
    } else if let Some(parts) = out.entry("allOf").or_insert_with(|| json!([])).as_array_mut() {
        parts.insert(0, json!({"anyOf": either}));
    }
}

fn is_set(schema: &Map<String, Value>, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::String(value) => value.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(values) => values.is_empty(),
        Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(schema: Value, dialect: Dialect) -> Value {
        let type_meta = [("apiVersion", json!(1)), ("kind", json!(2)), ("metadata", json!(3))];
        let root = json!({"type": "object", "properties": {"x": schema}});
        let mut root = published(Some(&root), dialect, &type_meta);
        assert_eq!(root["properties"]["metadata"], 3);
        root["properties"]["x"].take()
    }

    #[test]
    fn version_3_has_every_keyword_of_the_definition() {
        let all = json!({"type": "object", "title": "T", "description": "D", "nullable": true, "example": {"a": 1},
            "externalDocs": {"url": "u"}, "default": {}, "minProperties": 0, "additionalProperties": true,
            "x-kubernetes-map-type": "granular"});
        assert_eq!(shown(all.clone(), Dialect::V3), all);
        let list = json!({"type": "array", "items": {"type": "integer", "minimum": 0, "default": 0},
            "x-kubernetes-list-type": "atomic", "anyOf": [{"minItems": 2}, {"not": {"items": {"enum": [null]}}}]});
        assert_eq!(shown(list.clone(), Dialect::V3), list);
        let zeros = json!({"type": "string", "description": "", "enum": [], "nullable": false, "default": null});
        assert_eq!(shown(zeros, Dialect::V3), json!({"type": "string"}));
    }

    #[test]
    fn what_upstream_adds_is_added() {
        let either = json!([{"type": "integer"}, {"type": "string"}]);
        let bare = json!({INT_OR_STRING: true});
        assert_eq!(shown(bare.clone(), Dialect::V3), json!({INT_OR_STRING: true, "anyOf": either}));
        assert_eq!(shown(bare.clone(), Dialect::V2), bare);
        let more = json!({INT_OR_STRING: true, "anyOf": [{"pattern": "a"}], "allOf": [{"maxLength": 1}]});
        let expected = json!([{"anyOf": either}, {"maxLength": 1}]);
        assert_eq!(shown(more, Dialect::V3)["allOf"], expected);
        let stated = json!({INT_OR_STRING: true, "allOf": expected});
        assert_eq!(shown(stated.clone(), Dialect::V3), stated);

        let embedded = json!({"type": "object", EMBEDDED: true, "required": ["kind"]});
        let expected = json!({"type": "object", EMBEDDED: true, "required": ["kind", "apiVersion"],
            "properties": {"apiVersion": 1, "kind": 2, "metadata": 3}});
        assert_eq!(shown(embedded, Dialect::V3), expected);
        let open = json!({"type": "object", EMBEDDED: true, PRESERVE: true});
        assert_eq!(shown(open, Dialect::V2), json!({EMBEDDED: true, PRESERVE: true}));
    }

    #[test]
    fn version_2_omits_what_old_clients_cannot_read() {
        for (schema, expected) in [
            (json!({"type": "string", "nullable": true, "title": "T", "default": "a"}), json!({"title": "T"})),
            (json!({"type": "array", "nullable": true, "items": {}}), json!({})),
            (json!({"type": "object", PRESERVE: true, "properties": {"a": {}}}), json!({PRESERVE: true})),
            (
                json!({"type": "object", "required": ["a", "b"], "anyOf": [{}], "not": {},
                    "properties": {"a": {"type": "string", "nullable": true}}}),
                json!({"type": "object", "required": ["b"], "properties": {"a": {}}}),
            ),
            (
                json!({"type": "object", "required": ["a"], "additionalProperties": {"type": "string", "nullable": true}}),
                json!({"type": "object", "additionalProperties": {}}),
            ),
        ] {
            assert_eq!(shown(schema, Dialect::V2), expected);
        }
        let open = json!({"type": "object", "description": "D", PRESERVE: true});
        let type_meta = [("apiVersion", json!(1)), ("kind", json!(2)), ("metadata", json!(3))];
        assert_eq!(Value::from(published(Some(&open), Dialect::V2, &type_meta)), json!({"type": "object"}));
    }
}
