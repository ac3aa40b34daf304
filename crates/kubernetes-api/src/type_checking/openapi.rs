//! Shapes from an OpenAPI v3 document. Unspecified parts of a schema have any type, so that there are no false
//! warnings.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use apimachinery::GroupVersionKind;
use cel::types::{Field, Identity, Kind, ObjectShape, Shape, escape};
use serde_json::Value;

const REFERENCE: &str = "#/components/schemas/";
/// The depth limit of a schema without references; deeper values have any type, and so have circular references.
const MAX_DEPTH: usize = 64;

/// The OpenAPI v3 document of a group version.
#[derive(Debug)]
pub struct Document {
    document: Value,
    /// The shapes of named schemas; `None` while one is being read.
    known: RefCell<HashMap<String, Option<Arc<Shape>>>>,
}

impl Document {
    /// A document as served below `/openapi/v3`.
    pub fn new(document: Value) -> Self {
        Self { document, known: RefCell::default() }
    }

    /// The shape of a kind, if the document has its schema.
    pub fn shape(&self, kind: &GroupVersionKind) -> Option<Arc<Shape>> {
        let schemas = self.document["components"]["schemas"].as_object()?;
        let is_of_kind = |schema: &&Value| {
            let mut kinds = schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten();
            kinds.any(|it| it["group"] == kind.group && it["version"] == kind.version && it["kind"] == kind.kind)
        };
        let schema = schemas.values().find(is_of_kind)?;
        let shape = self.shape_of(schema, &kind.kind, 0);
        matches!(shape.kind, Kind::Object(_)).then_some(shape)
    }

    fn shape_of(&self, schema: &Value, name: &str, depth: usize) -> Arc<Shape> {
        if let Some(reference) = reference(schema) {
            return self.named(reference, depth);
        }
        let is_open = depth > MAX_DEPTH || schema["x-kubernetes-int-or-string"] == true;
        let kind = if is_open { Kind::Any } else { self.kind(schema, name, depth + 1) };
        Arc::new(Shape::new(kind, 1))
    }

    fn named(&self, reference: &str, depth: usize) -> Arc<Shape> {
        let any = || Arc::new(Shape::new(Kind::Any, 1));
        if let Some(known) = self.known.borrow().get(reference) {
            return known.clone().unwrap_or_else(any);
        }
        self.known.borrow_mut().insert(reference.to_owned(), None);
        let name = reference.rsplit('.').next().unwrap_or(reference);
        let shape = self.shape_of(&self.document["components"]["schemas"][reference], name, depth);
        self.known.borrow_mut().insert(reference.to_owned(), Some(Arc::clone(&shape)));
        shape
    }

    fn kind(&self, schema: &Value, name: &str, depth: usize) -> Kind {
        match (schema["type"].as_str().unwrap_or_default(), schema["format"].as_str().unwrap_or_default()) {
            ("string", "byte") => Kind::Bytes,
            ("string", "date") => Kind::Date,
            ("string", "date-time") => Kind::DateTime,
            ("string", "duration") => Kind::Duration,
            // Also a number, in spite of its type.
            ("string", "int-or-string") => Kind::Any,
            ("string", _) => Kind::String,
            ("boolean", _) => Kind::Bool,
            ("integer", _) => Kind::Int,
            ("number", _) => Kind::Double,
            ("array", _) => {
                Kind::List { items: self.shape_of(&schema["items"], name, depth), identity: identity(schema) }
            }
            ("object", _) => self.object(schema, name, depth),
            _ => Kind::Any,
        }
    }

    fn object(&self, schema: &Value, name: &str, depth: usize) -> Kind {
        if schema["additionalProperties"].is_object() {
            return Kind::Map { values: self.shape_of(&schema["additionalProperties"], name, depth) };
        }
        let is_open = schema["x-kubernetes-preserve-unknown-fields"] == true || schema["additionalProperties"] == true;
        let Some(properties) = schema["properties"].as_object().filter(|_| !is_open) else { return Kind::Any };
        let fields = properties.iter().filter_map(|(property, schema)| {
            let shape = self.shape_of(schema, &format!("{name}.{property}"), depth);
            Some((escape(property)?.into(), Field { name: property.as_str().into(), shape }))
        });
        let fields: BTreeMap<Box<str>, Field> = fields.collect();
        Kind::Object(Arc::new(ObjectShape { name: name.into(), fields }))
    }
}

/// The name of the referenced schema: direct, or in the only element of `allOf` beside a default.
fn reference(schema: &Value) -> Option<&str> {
    let direct = schema["$ref"].as_str();
    let of_all = || match schema["allOf"].as_array().map(Vec::as_slice) {
        Some([one]) => one["$ref"].as_str(),
        _ => None,
    };
    direct.or_else(of_all)?.strip_prefix(REFERENCE)
}

fn identity(schema: &Value) -> Identity {
    match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => Identity::Set,
        Some("map") => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
            Identity::Map(keys.filter_map(Value::as_str).map(Box::from).collect())
        }
        _ => Identity::Atomic,
    }
}
