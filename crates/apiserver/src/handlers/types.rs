//! Checks that the values of a built-in kind have the types of its schema. Custom resources are validated in depth
//! elsewhere; here only the errors of Go's decoder are found.

use std::cell::Cell;

use apimachinery::field::{Error, Path};
use apimachinery::go_json::type_name;
use apimachinery::quantity::Quantity;
use apimachinery::schema::{Schema, Schemas, Type, TypeOf};
use base64::{DecodeError, Engine as _};
use serde_json::{Number, Value};

/// A value that its field cannot take.
#[derive(Debug)]
pub(super) struct Mismatch {
    /// In the words of Go's JSON decoder.
    pub decoder: String,
    /// In the words of the converter behind strategic merge patches, which names no field.
    pub converter: String,
}

/// The first value of a wrong type. Without one, nulls in lists and maps become zero values.
pub(super) fn mismatch(kind: &str, object: &mut Value, type_: &TypeOf) -> Option<Mismatch> {
    find_mismatch(kind, object, type_.node(), &type_.schemas)
}

/// The same for the metadata of a custom resource, which is read as of every other kind.
pub(super) fn metadata_mismatch(object: &mut Value, type_: &TypeOf) -> Option<Mismatch> {
    let metadata = object.get_mut("metadata")?;
    if !metadata.is_object() {
        let decoder = format!("json: cannot unmarshal {} into Go value of type v1.ObjectMeta", type_name(metadata));
        return Some(Mismatch { converter: decoder.clone(), decoder });
    }
    let schemas = &type_.schemas;
    let schema = schemas.get(type_.node().properties.get("metadata")?.schema);
    let found = find_mismatch("ObjectMeta", metadata, schema, schemas);
    if found.is_some() || !schemas.has_embedded_resources() {
        return found;
    }
    let Misplaced { metadata, why, steps } = embedded_mismatch(object, type_.node(), schema, schemas)?;
    let path = steps.into_iter().rev().fold(Path::root(), |path, step| match step {
        Step::Field(name) => path.child(name),
        Step::Key(name) => path.key(name),
        Step::Index(index) => path.index(index),
    });
    let decoder = Error::invalid(&path.child("metadata"), metadata.clone(), why).to_string();
    Some(Mismatch { converter: decoder.clone(), decoder })
}

fn find_mismatch(name: &str, value: &mut Value, schema: &Schema, schemas: &Schemas) -> Option<Mismatch> {
    let null_elements = Cell::new(false);
    let inside = Struct { name, schemas, null_elements: &null_elements };
    let found = below(value, schema, &inside, &Names::Root);
    if found.is_none() && null_elements.get() {
        super::elements::fill(value, schema, schemas);
    }
    found
}

/// Invalid metadata of an embedded object.
struct Misplaced<'v> {
    metadata: &'v Value,
    why: String,
    /// The path to the object, its last step first.
    steps: Vec<Step<'v>>,
}

enum Step<'v> {
    Field(&'v str),
    Key(&'v str),
    Index(usize),
}

/// The recursion is as deep as the document, which its decoder bounds.
fn embedded_mismatch<'v>(
    value: &'v Value,
    schema: &Schema,
    of_metadata: &Schema,
    schemas: &Schemas,
) -> Option<Misplaced<'v>> {
    if let Some(metadata) = value.get("metadata").filter(|metadata| schema.embedded_resource && !metadata.is_null()) {
        let inside = Struct { name: "ObjectMeta", schemas, null_elements: &Cell::default() };
        let wrong = if metadata.is_object() {
            below(metadata, of_metadata, &inside, &Names::Root).map(|wrong| wrong.decoder)
        } else {
            Some(format!("json: cannot unmarshal {} into Go value of type v1.ObjectMeta", type_name(metadata)))
        };
        if let Some(why) = wrong {
            return Some(Misplaced { metadata, why, steps: Vec::new() });
        }
    }
    let next = |value, id, step| {
        let mut found = embedded_mismatch(value, schemas.get(id), of_metadata, schemas)?;
        found.steps.push(step);
        Some(found)
    };
    match value {
        Value::Object(map) => map.iter().find_map(|(name, child)| match schema.properties.get(name.as_str()) {
            Some(property) => next(child, property.schema, Step::Field(name)),
            None => next(child, schema.additional_properties?, Step::Key(name)),
        }),
        Value::Array(items) => {
            let id = schema.items?;
            items.iter().enumerate().find_map(|(index, item)| next(item, id, Step::Index(index)))
        }
        _ => None,
    }
}

/// The innermost struct that contains a value: Go names it, and then the whole path.
#[derive(Clone, Copy)]
struct Struct<'s> {
    name: &'s str,
    schemas: &'s Schemas,
    /// Whether a list or a map contains a null.
    null_elements: &'s Cell<bool>,
}

/// The names of the fields around a value, which become text only for an error.
#[derive(Clone, Copy)]
enum Names<'n> {
    Root,
    Field(&'n Self, &'n str),
}

impl std::fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
        }
    }
}

fn below(value: &Value, schema: &Schema, inside: &Struct<'_>, path: &Names<'_>) -> Option<Mismatch> {
    if let (Some(id), Value::Object(_) | Value::Array(_)) = (schema.of_objects, value) {
        let schema = inside.schemas.get(id);
        return match value {
            Value::Array(items) => {
                let mut objects = items.iter().filter(|item| item.is_object());
                objects.find_map(|item| below(item, schema, inside, path))
            }
            object => below(object, schema, inside, path),
        };
    }
    if value.is_null() || schema.preserve_unknown_fields {
        return None;
    }
    if !fits(value, schema) {
        let go = go_type(schema, inside.schemas);
        let found = match value {
            // Only numbers that do not fit are quoted.
            Value::Number(number) if schema.type_ == Type::Integer => format!("number {number}"),
            _ => type_name(value).to_owned(),
        };
        let converter = conversion(value, schema, &go);
        let decoder =
            format!("json: cannot unmarshal {found} into Go struct field {}.{path} of type {go}", inside.name);
        return Some(Mismatch { decoder, converter });
    }
    if let Some(wrong) = unreadable(value, schema) {
        return Some(Mismatch { decoder: wrong.clone(), converter: wrong });
    }
    match value {
        Value::Object(map) => {
            let named = schema.definition.as_deref().filter(|_| !matches!(path, Names::Root)).map(last_segment);
            let inside = Struct { name: named.unwrap_or(inside.name), ..*inside };
            map.iter().find_map(|(key, value)| {
                let (schema, named) = match schema.properties.get(key.as_str()) {
                    Some(property) => (property.schema, true),
                    None => (schema.additional_properties?, false),
                };
                inside.null_elements.set(inside.null_elements.get() || (value.is_null() && !named));
                let named = if named { Names::Field(path, key) } else { *path };
                below(value, inside.schemas.get(schema), &inside, &named)
            })
        }
        Value::Array(items) => {
            let schema = inside.schemas.get(schema.items?);
            inside.null_elements.set(inside.null_elements.get() || items.iter().any(Value::is_null));
            items.iter().find_map(|item| below(item, schema, inside, path))
        }
        _ => None,
    }
}

/// Values of the right type that their decoders cannot read: amounts, times, encoded bytes, and large numbers of fields
/// that may be text.
fn unreadable(value: &Value, schema: &Schema) -> Option<String> {
    if let Value::Number(number) = value {
        let is_unreadable = schema.int_or_string && !schema.is_quantity() && !is_int32(number);
        return is_unreadable.then(|| format!("json: cannot unmarshal number {number} into Go value of type int32"));
    }
    let text = value.as_str()?;
    if schema.is_quantity() {
        return text.parse::<Quantity>().err().map(|error| error.to_string());
    }
    match schema.format.as_deref() {
        // Upstream requires six decimals in times of microseconds; fewer are accepted here.
        Some("date-time") => return apimachinery::go_time::rfc3339_error(text),
        Some("byte") => {}
        _ => return None,
    }
    // Go skips line breaks, and does not mind stray bits at the end.
    let dense: String = text.chars().filter(|letter| !matches!(letter, '\r' | '\n')).collect();
    let at = match base64::engine::general_purpose::STANDARD.decode(&dense).err()? {
        DecodeError::InvalidLastSymbol(..) => return None,
        DecodeError::InvalidByte(at, _) => at,
        DecodeError::InvalidLength(length) => length - length % 4,
        DecodeError::InvalidPadding => dense.len(),
    };
    Some(format!("illegal base64 data at input byte {at}"))
}

/// Why the converter cannot convert the value to the type of its field.
fn conversion(value: &Value, schema: &Schema, go: &str) -> String {
    let kind = match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    };
    match (schema.type_, value) {
        (Type::Object, _) if schema.additional_properties.is_none() => format!("cannot restore struct from: {kind}"),
        (Type::Object, _) => format!("cannot restore map from {kind}"),
        (Type::Array, _) => format!("cannot restore slice from {kind}"),
        // Go's converter refuses number-to-string and float-to-integer conversions.
        (Type::String | Type::Integer, Value::Number(_)) => format!("cannot convert {kind} to {go}"),
        _ => format!("unrecognized type: {go}"),
    }
}

fn fits(value: &Value, schema: &Schema) -> bool {
    // A quantity may be written as a number.
    let quantity = || schema.is_quantity();
    match (schema.type_, value) {
        (Type::Any, _)
        | (Type::Object, Value::Object(_))
        | (Type::Array, Value::Array(_))
        | (Type::String, Value::String(_))
        | (Type::Number, Value::Number(_))
        | (Type::Boolean, Value::Bool(_)) => true,
        (Type::Integer, Value::Number(number)) => match schema.format.as_deref() {
            Some("int32") => is_int32(number),
            _ => number.is_i64(),
        },
        (Type::Integer | Type::String, Value::Number(_) | Value::String(_)) => schema.int_or_string || quantity(),
        _ => false,
    }
}

fn is_int32(number: &Number) -> bool {
    number.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
}

fn last_segment(definition: &str) -> &str {
    definition.rsplit('.').next().unwrap_or(definition)
}

/// The type as Go prints it: `[]v1.Container`, `map[string]string`, `int32`.
fn go_type(schema: &Schema, schemas: &Schemas) -> String {
    if let Some(definition) = schema.definition.as_deref() {
        let mut parts = definition.rsplit('.');
        let (name, package) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        // Their own decoders read a string.
        if matches!(name, "Time" | "MicroTime") {
            return "string".to_owned();
        }
        return format!("{package}.{name}");
    }
    match schema.type_ {
        Type::String => "string".into(),
        Type::Integer => schema.format.as_deref().unwrap_or("int64").into(),
        Type::Number => "float64".into(),
        Type::Boolean => "bool".into(),
        Type::Array => {
            schema.items.map_or("[]interface {}".into(), |id| format!("[]{}", go_type(schemas.get(id), schemas)))
        }
        Type::Object => match schema.additional_properties {
            Some(id) => format!("map[string]{}", go_type(schemas.get(id), schemas)),
            None => "map[string]interface {}".into(),
        },
        Type::Any => "interface {}".into(),
    }
}

#[cfg(test)]
mod tests {
    use apimachinery::GroupVersionKind;
    use serde_json::json;

    use super::*;

    fn check(group: &str, kind: &str, object: Value, expected: Option<&str>) {
        let type_ = kubernetes_api::schema_for(&GroupVersionKind::new(group, "v1", kind)).expect("a built-in kind");
        assert_eq!(
            mismatch(kind, &mut object.clone(), &type_).map(|wrong| wrong.decoder).as_deref(),
            expected,
            "{object}"
        );
    }

    #[test]
    fn values_have_the_types_of_their_fields() {
        let refused = |found: &str, field: &str, go: &str| {
            format!("json: cannot unmarshal {found} into Go struct field {field} of type {go}")
        };
        check("", "ConfigMap", json!({"data": {"k": "5"}}), None);
        check("", "ConfigMap", json!({"data": {"k": 5}}), Some(&refused("number", "ConfigMap.data", "string")));
        let labels = json!({"metadata": {"labels": ["a"]}});
        check("", "ConfigMap", labels, Some(&refused("array", "ObjectMeta.metadata.labels", "map[string]string")));
        let type_ = kubernetes_api::schema_for(&GroupVersionKind::new("apps", "v1", "Deployment")).expect("built in");
        let converted = |mut object: Value| mismatch("Deployment", &mut object, &type_).map(|wrong| wrong.converter);
        for (spec, expected) in [
            (json!({"replicas": "2"}), "unrecognized type: int32"),
            (json!({"replicas": 1.5}), "cannot convert float64 to int32"),
            (json!({"replicas": 3_000_000_000_i64}), "cannot convert int64 to int32"),
            (json!({"strategy": {"type": 1}}), "cannot convert int64 to string"),
            (json!({"strategy": []}), "cannot restore struct from: slice"),
            (json!({"selector": {"matchLabels": "x"}}), "cannot restore map from string"),
        ] {
            assert_eq!(converted(json!({"spec": spec})).as_deref(), Some(expected), "{spec}");
        }
        check(
            "apps",
            "Deployment",
            json!({"spec": {"replicas": "2"}}),
            Some(&refused("string", "DeploymentSpec.spec.replicas", "int32")),
        );
        for number in [json!(1.5), json!(3_000_000_000_i64), json!(-2_147_483_649_i64), json!(u64::MAX)] {
            let refused = refused(&format!("number {number}"), "DeploymentSpec.spec.replicas", "int32");
            check("apps", "Deployment", json!({"spec": {"replicas": number}}), Some(&refused));
        }
        check("apps", "Deployment", json!({"spec": {"replicas": i32::MAX, "minReadySeconds": i32::MIN}}), None);
        check("", "ConfigMap", json!({"metadata": {"generation": i64::MAX}}), None);
        let generation = refused(&format!("number {}", u64::MAX), "ObjectMeta.metadata.generation", "int64");
        check("", "ConfigMap", json!({"metadata": {"generation": u64::MAX}}), Some(&generation));
        let port = |number: i64| json!({"spec": {"ports": [{"port": 80, "targetPort": number}]}});
        let large = "json: cannot unmarshal number 4294967296 into Go value of type int32";
        check("", "Service", port(1 << 32), Some(large));
        let container = |resources: Value| json!({"spec": {"template": {"spec": {"containers": [resources]}}}});
        check("apps", "Deployment", container(json!({"resources": {"limits": {"cpu": 1, "memory": "1Gi"}}})), None);
        let refused = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        check("apps", "Deployment", container(json!({"resources": {"limits": {"cpu": "x"}}})), Some(refused));
        let times = |time: &str| json!({"metadata": {"creationTimestamp": time}});
        check("", "ConfigMap", times("2020-01-01T00:00:00Z"), None);
        let refused = "parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"";
        check("", "ConfigMap", times("x"), Some(refused));
        check("", "Secret", json!({"data": {"k": "eA=="}}), None);
        check("", "Secret", json!({"data": {"k": "e*=="}}), Some("illegal base64 data at input byte 1"));
        check(
            "",
            "Service",
            json!({"spec": {"ports": [{"port": 80, "targetPort": "http"}, {"port": 81, "targetPort": 81}]}}),
            None,
        );
        check(
            "",
            "Service",
            json!({"metadata": {"creationTimestamp": null, "managedFields": [{"fieldsV1": {"f:a": {}}}]}}),
            None,
        );
    }
}
