//! Structural schemas as CEL shapes: the shape of a document at a node, with the sizes for estimates.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::schema::{Constraints, ListType, Schema, SchemaId, Schemas, Type};
use cel::types::{Field, Identity, Kind, ObjectShape, Shape, escape};

/// The largest request in bytes, which bounds undeclared sizes.
pub const MAX_REQUEST: u64 = 3 << 20;

// Sizes of the shortest and longest JSON texts of a type, quotes included.
const SHORTEST_STRING: u64 = 2;
const SHORTEST_BOOL: u64 = 4;
const SHORTEST_DURATION: u64 = 3;
const DATE: u64 = 12;
const SHORTEST_TIME: u64 = 21;
const LONGEST_TIME: u64 = 32;

/// The shape at a node, or `None` if it is invisible to expressions. `root` is set at the root of an object, where
/// apiVersion, kind and the names in metadata are visible whether declared or not. The depth of schemas is that of
/// their JSON (128).
pub fn shape(schemas: &Schemas, id: SchemaId, root: bool) -> Option<Arc<Shape>> {
    let schema = schemas.get(id);
    let root = root || schema.embedded_resource;
    if schema.int_or_string {
        let declared = constraints(schema, |constraints| constraints.max_length);
        let most = declared.map_or(MAX_REQUEST - 2, |length| length.saturating_mul(4));
        return Some(Arc::new(sized(Kind::Any, 1, most)));
    }
    let shape = match schema.type_ {
        Type::Any => return None,
        Type::Boolean => Shape::new(Kind::Bool, SHORTEST_BOOL),
        Type::Integer => Shape::new(Kind::Int, 1),
        Type::Number => Shape::new(Kind::Double, 1),
        Type::String => string(schema),
        Type::Array => {
            let items = shape_of(schemas, schema.items?)?;
            let declared = constraints(schema, |constraints| constraints.max_items);
            let most = declared.unwrap_or((MAX_REQUEST - 2) / (items.min_size + 1));
            let identity = match &schema.list_type {
                ListType::Atomic => Identity::Atomic,
                ListType::Set => Identity::Set,
                ListType::Map(keys) => Identity::Map(keys.clone()),
            };
            sized(Kind::List { items, identity }, 2, most)
        }
        Type::Object => match schema.additional_properties {
            Some(values) => {
                let values = shape_of(schemas, values)?;
                let declared = constraints(schema, |constraints| constraints.max_properties);
                let most = declared.unwrap_or((MAX_REQUEST - 2) / (values.min_size + 6));
                sized(Kind::Map { values }, 2, most)
            }
            None => object(schemas, schema, root),
        },
    };
    Some(Arc::new(shape))
}

fn shape_of(schemas: &Schemas, id: SchemaId) -> Option<Arc<Shape>> {
    shape(schemas, id, false)
}

fn sized(kind: Kind, min_size: u64, max_elements: u64) -> Shape {
    Shape { kind, max_elements: Some(max_elements), min_size }
}

fn constraints(schema: &Schema, read: impl Fn(&Constraints) -> Option<u64>) -> Option<u64> {
    schema.constraints.as_deref().and_then(read)
}

fn string(schema: &Schema) -> Shape {
    let longest = MAX_REQUEST - 2;
    let declared = constraints(schema, |constraints| constraints.max_length);
    match schema.format.as_deref() {
        Some("byte") => sized(Kind::Bytes, SHORTEST_STRING, declared.unwrap_or(longest)),
        Some("duration") => sized(Kind::Duration, SHORTEST_DURATION, LONGEST_TIME),
        Some("date") => sized(Kind::Date, DATE, DATE),
        Some("date-time") => sized(Kind::DateTime, SHORTEST_TIME, LONGEST_TIME),
        _ => {
            let listed = schema.constraints.as_deref().and_then(|constraints| {
                constraints.enum_values.iter().map(|value| value.as_str().map_or(0, str::len) as u64).max()
            });
            // A character takes at most four bytes.
            let most = declared.map(|length| length.saturating_mul(4)).or(listed).unwrap_or(longest);
            sized(Kind::String, SHORTEST_STRING, most)
        }
    }
}

fn object(schemas: &Schemas, schema: &Schema, root: bool) -> Shape {
    let mut fields = BTreeMap::new();
    let mut min_size = 2;
    for (name, property) in &schema.properties {
        let inner = if root && &**name == "metadata" {
            Some(metadata(schemas, property.schema))
        } else {
            shape_of(schemas, property.schema)
        };
        let (Some(inner), Some(escaped)) = (inner, escape(name)) else { continue };
        let child = schemas.get(property.schema);
        if schema.required.contains(name) && child.default.is_none() {
            min_size += name.len() as u64 + inner.min_size + 4;
        }
        fields.insert(escaped.into(), Field { name: name.clone(), shape: inner });
    }
    Shape::new(Kind::Object(Arc::new(ObjectShape { name: "object".into(), fields })), min_size)
}

/// Only the names in metadata are visible.
pub fn metadata(schemas: &Schemas, id: SchemaId) -> Arc<Shape> {
    let declared = schemas.get(id);
    let field = |name: &str| {
        let property = declared.properties.get(name);
        let inner = property.and_then(|property| shape_of(schemas, property.schema));
        let inner = inner.unwrap_or_else(|| Arc::new(sized(Kind::String, SHORTEST_STRING, MAX_REQUEST - 2)));
        (Box::from(name), Field { name: name.into(), shape: inner })
    };
    let fields = ["name", "generateName"].map(field).into_iter().collect();
    Arc::new(Shape::new(Kind::Object(Arc::new(ObjectShape { name: "object".into(), fields })), 2))
}
