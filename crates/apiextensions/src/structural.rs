//! From the JSON of an `openAPIV3Schema` to [`Schemas`] nodes. It does not validate: [`crate::definition_validation`]
//! accepts only structural schemas; malformed parts are read as absent.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::schema::{Constraints, ListType, Property, Schema, SchemaId, Schemas, Type, TypeOf};
use serde_json::{Map, Value};

/// Reads one version's schema. Recursion is bounded by the depth that the JSON parser lets through (128).
/// `object_meta` is the type of `metadata` at the root and in embedded resources; without one it is an opaque object.
pub fn compile(schema: Option<&Value>, object_meta: Option<&TypeOf>) -> TypeOf {
    let mut compiler = Compiler { schemas: Schemas::default(), meta: BTreeMap::new(), object_meta };
    let empty = Map::new();
    let map = schema.and_then(Value::as_object).unwrap_or(&empty);
    let mut root = compiler.read(map);
    if map.is_empty() {
        root.preserve_unknown_fields = true;
        root.is_closed = false;
    }
    root.type_ = Type::Object;
    compiler.add_type_meta(&mut root);
    let root = compiler.schemas.add(root);
    TypeOf { schemas: Arc::new(compiler.schemas), root }
}

struct Compiler<'a> {
    schemas: Schemas,
    /// Nodes of `object_meta` already copied into this arena.
    meta: BTreeMap<SchemaId, SchemaId>,
    object_meta: Option<&'a TypeOf>,
}

impl Compiler<'_> {
    fn node(&mut self, value: &Value) -> SchemaId {
        let empty = Map::new();
        let mut schema = self.read(value.as_object().unwrap_or(&empty));
        if schema.embedded_resource {
            self.add_type_meta(&mut schema);
        }
        self.schemas.add(schema)
    }

    fn read(&mut self, map: &Map<String, Value>) -> Schema {
        let mut schema = Schema {
            type_: read_type(text(map, "type")),
            format: text(map, "format").map(Into::into),
            description: text(map, "description").filter(|text| !text.is_empty()).map(Into::into),
            required: texts(map, "required"),
            list_type: read_list_type(map),
            map_atomic: text(map, "x-kubernetes-map-type") == Some("atomic"),
            nullable: flag(map, "nullable"),
            int_or_string: flag(map, "x-kubernetes-int-or-string"),
            preserve_unknown_fields: flag(map, "x-kubernetes-preserve-unknown-fields"),
            is_closed: !flag(map, "x-kubernetes-preserve-unknown-fields"),
            embedded_resource: flag(map, "x-kubernetes-embedded-resource"),
            default: map.get("default").cloned(),
            ..Schema::default()
        };
        for (name, property) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let id = self.node(property);
            schema.properties.insert(name.as_str().into(), Property::new(id));
        }
        schema.additional_properties = match map.get("additionalProperties") {
            Some(value @ Value::Object(_)) => Some(self.node(value)),
            Some(Value::Bool(true)) => {
                Some(self.schemas.add(Schema { preserve_unknown_fields: true, ..Schema::default() }))
            }
            _ => None,
        };
        schema.items = map.get("items").filter(|items| items.is_object()).map(|items| self.node(items));
        schema.constraints = self.read_constraints(map);
        schema
    }

    fn read_constraints(&mut self, map: &Map<String, Value>) -> Option<Box<Constraints>> {
        let constraints = Constraints {
            enum_values: map.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
            minimum: number(map, "minimum"),
            maximum: number(map, "maximum"),
            exclusive_minimum: flag(map, "exclusiveMinimum"),
            exclusive_maximum: flag(map, "exclusiveMaximum"),
            multiple_of: number(map, "multipleOf"),
            min_length: count(map, "minLength"),
            max_length: count(map, "maxLength"),
            pattern: text(map, "pattern").filter(|text| !text.is_empty()).map(str::to_owned),
            min_items: count(map, "minItems"),
            max_items: count(map, "maxItems"),
            unique_items: flag(map, "uniqueItems"),
            min_properties: count(map, "minProperties"),
            max_properties: count(map, "maxProperties"),
            all_of: self.nodes(map, "allOf"),
            any_of: self.nodes(map, "anyOf"),
            one_of: self.nodes(map, "oneOf"),
            not: map.get("not").filter(|not| not.is_object()).map(|not| self.node(not)),
            rules: map.get("x-kubernetes-validations").and_then(Value::as_array).cloned().unwrap_or_default(),
        };
        (constraints != Constraints::default()).then(|| Box::new(constraints))
    }

    fn nodes(&mut self, map: &Map<String, Value>, key: &str) -> Vec<SchemaId> {
        map.get(key).and_then(Value::as_array).into_iter().flatten().map(|value| self.node(value)).collect()
    }

    /// apiVersion, kind and metadata exist whether declared or not. The author's restrictions are kept.
    fn add_type_meta(&mut self, schema: &mut Schema) {
        for (name, format) in [
            ("apiVersion", "APIVersion defines the versioned schema of this representation of an object."),
            ("kind", "Kind is a string value representing the REST resource this object represents."),
        ] {
            if !schema.properties.contains_key(name) {
                let node = Schema { type_: Type::String, description: Some(format.into()), ..Schema::default() };
                let id = self.schemas.add(node);
                schema.properties.insert(name.into(), Property::new(id));
            }
        }
        let declared = schema.properties.get("metadata").map(|property| property.schema);
        let meta = match self.object_meta {
            Some(object_meta) => self.copy(object_meta, object_meta.root),
            None => {
                self.schemas.add(Schema { type_: Type::Object, preserve_unknown_fields: true, ..Schema::default() })
            }
        };
        let meta = match declared {
            Some(declared) => self.restrict(meta, declared),
            None => meta,
        };
        schema.properties.insert("metadata".into(), Property::new(meta));
    }

    /// The full metadata type with the restrictions an author may state: those on name and generateName.
    fn restrict(&mut self, meta: SchemaId, declared: SchemaId) -> SchemaId {
        let declared = self.schemas.get(declared).clone();
        let mut merged = self.schemas.get(meta).clone();
        let restricted = declared.properties.iter().filter(|(name, _)| matches!(&***name, "name" | "generateName"));
        for (name, property) in restricted {
            merged.properties.insert(name.clone(), property.clone());
        }
        merged.constraints = declared.constraints;
        merged.default = declared.default;
        if let (Some(Value::Object(default)), false) = (&mut merged.default, merged.preserve_unknown_fields) {
            default.retain(|name, _| merged.properties.contains_key(name.as_str()));
        }
        self.schemas.add(merged)
    }

    /// Copies a node with its descendants from another arena.
    fn copy(&mut self, from: &TypeOf, id: SchemaId) -> SchemaId {
        if let Some(done) = self.meta.get(&id) {
            return *done;
        }
        let target = self.schemas.reserve();
        self.meta.insert(id, target);
        let mut node = from.schemas.get(id).clone();
        for property in node.properties.values_mut() {
            property.schema = self.copy(from, property.schema);
        }
        node.items = node.items.map(|items| self.copy(from, items));
        node.additional_properties = node.additional_properties.map(|values| self.copy(from, values));
        self.schemas.set(target, node);
        target
    }
}

pub(crate) fn read_type(text: Option<&str>) -> Type {
    match text {
        Some("object") => Type::Object,
        Some("array") => Type::Array,
        Some("string") => Type::String,
        Some("integer") => Type::Integer,
        Some("number") => Type::Number,
        Some("boolean") => Type::Boolean,
        _ => Type::Any,
    }
}

fn read_list_type(map: &Map<String, Value>) -> ListType {
    match text(map, "x-kubernetes-list-type") {
        Some("set") => ListType::Set,
        Some("map") => ListType::Map(texts(map, "x-kubernetes-list-map-keys")),
        _ => ListType::Atomic,
    }
}

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    map.get(key).and_then(Value::as_str)
}

fn texts(map: &Map<String, Value>, key: &str) -> Vec<Box<str>> {
    map.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect()
}

fn flag(map: &Map<String, Value>, key: &str) -> bool {
    map.get(key) == Some(&Value::Bool(true))
}

fn number(map: &Map<String, Value>, key: &str) -> Option<f64> {
    map.get(key).and_then(Value::as_f64)
}

fn count(map: &Map<String, Value>, key: &str) -> Option<u64> {
    map.get(key).and_then(Value::as_u64)
}
