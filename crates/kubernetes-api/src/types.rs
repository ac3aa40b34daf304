//! The types of the built-in kinds: `data/types.txt` read once into one arena. The file's head explains its form.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use apimachinery::GroupVersionKind;
use apimachinery::schema::{ListType, PatchStrategy, Property, Schema, SchemaId, Schemas, Type, TypeOf};

const TYPES: &str = include_str!("../data/types.txt");
const SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

struct Types {
    schemas: Arc<Schemas>,
    kinds: HashMap<GroupVersionKind, SchemaId>,
}

/// The type of a built-in kind (lists and option kinds included); `None` for a kind that is not built in.
pub fn schema_for(gvk: &GroupVersionKind) -> Option<TypeOf> {
    let types = types();
    types.kinds.get(gvk).map(|&root| TypeOf { schemas: Arc::clone(&types.schemas), root })
}

/// The arena all built-in kinds share.
pub fn schemas() -> Arc<Schemas> {
    Arc::clone(&types().schemas)
}

fn types() -> &'static Types {
    static TYPES_ONCE: OnceLock<Types> = OnceLock::new();
    TYPES_ONCE.get_or_init(|| Reader::default().read(TYPES))
}

#[derive(Default)]
struct Reader {
    schemas: Schemas,
    kinds: HashMap<GroupVersionKind, SchemaId>,
    definitions: HashMap<&'static str, SchemaId>,
    /// Node of each type expression that is not a definition.
    known: HashMap<&'static str, SchemaId>,
}

impl Reader {
    fn read(mut self, text: &'static str) -> Types {
        let mut current: Option<(SchemaId, Schema)> = None;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some(field) = line.strip_prefix(' ') {
                if let Some((_, schema)) = &mut current {
                    self.field(schema, field);
                }
            } else {
                if let Some((id, schema)) = current.take() {
                    self.schemas.set(id, schema);
                }
                current = Some(self.definition(line));
            }
        }
        if let Some((id, schema)) = current {
            self.schemas.set(id, schema);
        }
        Types { schemas: Arc::new(self.schemas), kinds: self.kinds }
    }

    fn definition(&mut self, line: &'static str) -> (SchemaId, Schema) {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let id = self.named(name);
        let mut schema = scalar(words.next().unwrap_or_default());
        schema.definition = Some(name.into());
        for (key, value) in words.filter_map(|word| word.split_once('=')) {
            match key {
                "map" => schema.map_atomic = value == "atomic",
                "gvk" => self.kind(value, id),
                _ => {}
            }
        }
        let short = name.rsplit('.').next().unwrap_or_default();
        schema.int_or_string = short == "IntOrString";
        // Their content is unrestricted: raw JSON, and unions of JSON types that OpenAPI cannot express.
        schema.preserve_unknown_fields =
            matches!(short, "RawExtension" | "FieldsV1" | "JSON") || short.starts_with("JSONSchemaPropsOr");
        schema.of_objects = short.strip_prefix("JSONSchemaPropsOr").map(|_| self.named(SCHEMA));
        // Built-in kinds own raw JSON as a whole.
        schema.map_atomic |= short == "RawExtension";
        (id, schema)
    }

    fn kind(&mut self, text: &str, id: SchemaId) {
        let mut parts = text.split('/').map(str::to_owned);
        if let (Some(group), Some(version), Some(kind)) = (parts.next(), parts.next(), parts.next()) {
            self.kinds.insert(GroupVersionKind { group, version, kind }, id);
        }
    }

    fn field(&mut self, schema: &mut Schema, line: &'static str) {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let mut property = Property::new(self.expression(words.next().unwrap_or_default()));
        for (key, value) in words.filter_map(|word| word.split_once('=')) {
            match key {
                "list" => property.list_type = Some(list_type(value)),
                "map" => property.map_atomic = Some(value == "atomic"),
                "patch" => strategies(&mut property.patch, value),
                "key" => property.patch.merge_key = Some(value.into()),
                "default" => property.default = Some(value.into()),
                _ => {}
            }
        }
        let bare = name.trim_end_matches('!');
        if bare.len() < name.len() {
            schema.required.push(bare.into());
        }
        schema.properties.insert(bare.into(), property);
    }

    /// The node of a definition, reserved if it is used before its description.
    fn named(&mut self, name: &'static str) -> SchemaId {
        let Self { schemas, definitions, .. } = self;
        *definitions.entry(name).or_insert_with(|| schemas.reserve())
    }

    /// The node of a type expression; equal expressions share one node. The text is ours and nests three deep at most.
    fn expression(&mut self, text: &'static str) -> SchemaId {
        if let Some(name) = text.strip_prefix('@') {
            return self.named(name);
        }
        if let Some(&id) = self.known.get(text) {
            return id;
        }
        let schema = if let Some(inner) = enclosed(text, '[', ']') {
            Schema { type_: Type::Array, items: Some(self.expression(inner)), ..Schema::default() }
        } else if let Some(inner) = enclosed(text, '{', '}') {
            let values = self.expression(inner);
            Schema { type_: Type::Object, additional_properties: Some(values), ..Schema::default() }
        } else {
            scalar(text)
        };
        let id = self.schemas.add(schema);
        self.known.insert(text, id);
        id
    }
}

fn enclosed(text: &'static str, open: char, close: char) -> Option<&'static str> {
    text.strip_prefix(open)?.strip_suffix(close)
}

fn scalar(text: &str) -> Schema {
    let (name, format) = text.split_once(':').map_or((text, None), |(name, format)| (name, Some(format)));
    let type_ = match name {
        "object" => Type::Object,
        "string" => Type::String,
        "integer" => Type::Integer,
        "number" => Type::Number,
        "boolean" => Type::Boolean,
        _ => Type::Any,
    };
    Schema { type_, format: format.map(Into::into), ..Schema::default() }
}

fn list_type(text: &str) -> ListType {
    match text.strip_prefix("map(").and_then(|rest| rest.strip_suffix(')')) {
        Some(keys) => ListType::Map(keys.split(',').map(Into::into).collect()),
        None if text == "set" => ListType::Set,
        None => ListType::Atomic,
    }
}

fn strategies(patch: &mut PatchStrategy, text: &str) {
    patch.merge = text.split(',').any(|word| word == "merge");
    patch.retain_keys = text.split(',').any(|word| word == "retainKeys");
}
