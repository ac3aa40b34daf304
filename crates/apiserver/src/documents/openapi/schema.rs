//! Type nodes as OpenAPI schemas, in the dialect of version 2 or 3.

use apimachinery::resource::{Resource, ResourceInfo};
use apimachinery::schema::{Constraints, ListType, Property, Schema, SchemaId, Type, TypeOf};
use apimachinery::{GroupVersion, GroupVersionKind};
use serde_json::{Map, Value, json};

use super::custom::{self, TypeMeta};
use super::{Definitions, descriptions, operations, requests};

pub const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
pub const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
pub const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    V2,
    V3,
}

/// Inline nodes deeper than this are rendered as anything; real types stay below 60.
const MAX_DEPTH: usize = 100;

/// Collects the definitions that the rendered schemas refer to.
pub struct Renderer<'a> {
    pub dialect: Dialect,
    sources: Definitions<'a>,
    definitions: Map<String, Value>,
    /// Of version 2: parameters that operations refer to.
    parameters: Map<String, Value>,
    depth: usize,
}

/// What a document defines.
pub struct Defined {
    pub schemas: Map<String, Value>,
    pub parameters: Map<String, Value>,
}

impl<'a> Renderer<'a> {
    pub fn new(dialect: Dialect, sources: Definitions<'a>) -> Self {
        Self { dialect, sources, definitions: Map::new(), parameters: Map::new(), depth: 0 }
    }

    pub fn finish(self) -> Defined {
        Defined { schemas: self.definitions, parameters: self.parameters }
    }

    /// A query parameter, by a reference in version 2. Old clients look for two of them and follow no references.
    pub fn query_parameter(&mut self, name: &str) -> Value {
        let Some(known) = operations::described(name) else { return json!({"name": name, "in": "query"}) };
        let parameter = self.parameter(name, "query", known.type_, known.description);
        if self.dialect == Dialect::V3 || matches!(name, "dryRun" | "fieldValidation") {
            return parameter;
        }
        self.parameters.entry(name).or_insert(parameter);
        json!({"$ref": format!("#/parameters/{name}")})
    }

    pub fn path_parameter(&self, name: &str, description: &str) -> Value {
        let mut parameter = self.parameter(name, "path", "string", description);
        parameter["required"] = true.into();
        parameter
    }

    fn parameter(&self, name: &str, place: &str, type_: &str, description: &str) -> Value {
        let mut parameter = json!({"name": name, "in": place, "description": description});
        let schema = json!({"type": type_, "uniqueItems": true});
        match (self.dialect, parameter.as_object_mut(), schema) {
            (Dialect::V2, Some(parameter), Value::Object(schema)) => parameter.extend(schema),
            (_, _, schema) => parameter["schema"] = schema,
        }
        parameter
    }

    /// Defines the types of bodies that no resource has, for the operations of a group version.
    pub fn define_requests(&mut self, group_version: &GroupVersion) {
        self.define_kind_by_name(DELETE_OPTIONS);
        for group_version in [&GroupVersion::new("", "v1"), group_version] {
            self.mark(DELETE_OPTIONS, &group_version.with_kind("DeleteOptions"));
        }
        if self.definitions.contains_key(STATUS) {
            return;
        }
        self.definitions.insert(PATCH.into(), json!({"type": "object", "description": "The body of a PATCH request."}));
        let cause = self.reference_to(&format!("{STATUS}Cause"));
        let details = self.wrapped_reference_to(&format!("{STATUS}Details"));
        let mut meta = match self.define_kind_by_name(LIST_META) {
            Some(name) => self.wrapped_reference_to(&name),
            None => Map::new(),
        };
        set(&mut meta, "description", descriptions::of_list_metadata());
        for (name, definition) in requests::status(STATUS, details, &cause, meta) {
            self.definitions.insert(name, definition);
        }
        self.mark(STATUS, &GroupVersion::new("", "v1").with_kind("Status"));
    }

    /// Defines the kind of a resource and its list, and returns both names.
    pub fn define(&mut self, resource: &Resource) -> (String, String) {
        let info = &resource.info;
        let gvk = info.resource.gvk();
        let name = match &info.schema.node().definition {
            Some(name) => name.to_string(),
            None => custom_name(&gvk),
        };
        match (self.sources)(info).filter(|_| info.custom) {
            Some(schema) => {
                let type_meta = self.type_meta();
                let published = custom::published(schema.as_ref(), self.dialect, &type_meta);
                self.definitions.insert(name.clone(), published.into());
            }
            None => self.define_as(&name, &info.schema),
        }
        self.mark(&name, &gvk);
        self.name_selectable_fields(&name, info);
        let list = if info.custom {
            custom_name(&GroupVersionKind { kind: info.list_kind.clone(), ..gvk.clone() })
        } else {
            format!("{name}List")
        };
        self.define_list(&list, &name, resource);
        self.mark(&list, &GroupVersionKind { kind: info.list_kind.clone(), ..gvk });
        self.name_selectable_fields(&list, info);
        (name, list)
    }

    /// Defines a kind without a served resource, such as the kind of a subresource.
    pub fn define_kind(&mut self, gvk: &GroupVersionKind) -> Option<String> {
        let type_ = kubernetes_api::schema_for(gvk)?;
        let name = type_.node().definition.as_deref()?.to_owned();
        self.define_as(&name, &type_);
        self.mark(&name, gvk);
        Some(name)
    }

    pub fn reference_to(&self, name: &str) -> Value {
        match self.dialect {
            Dialect::V2 => json!({"$ref": format!("#/definitions/{name}")}),
            Dialect::V3 => json!({"$ref": format!("#/components/schemas/{name}")}),
        }
    }

    /// The fields that every custom resource has.
    fn type_meta(&mut self) -> TypeMeta {
        let mut metadata = match self.define_kind_by_name(OBJECT_META) {
            Some(name) => self.wrapped_reference_to(&name),
            None => Map::from_iter([("type".to_owned(), "object".into())]),
        };
        set(&mut metadata, "description", descriptions::of_target(OBJECT_META));
        [("apiVersion", type_text("apiVersion")), ("kind", type_text("kind")), ("metadata", metadata.into())]
    }

    /// A reference beside which other keywords may stand.
    fn wrapped_reference_to(&self, name: &str) -> Map<String, Value> {
        let reference = self.reference_to(name);
        let mut map = Map::new();
        match self.dialect {
            // In version 3 nothing may stand beside a reference, so it is wrapped everywhere.
            Dialect::V3 => {
                map.insert("allOf".into(), json!([reference]));
            }
            Dialect::V2 => map.extend(reference.as_object().cloned().unwrap_or_default()),
        }
        map
    }

    fn mark(&mut self, name: &str, gvk: &GroupVersionKind) {
        let Some(definition) = self.definitions.get_mut(name) else { return };
        let entry = json!({"group": gvk.group, "kind": gvk.kind, "version": gvk.version});
        let kinds = &mut definition["x-kubernetes-group-version-kind"];
        match kinds.as_array_mut() {
            Some(known) if known.contains(&entry) => {}
            Some(known) => known.push(entry),
            None => *kinds = json!([entry]),
        }
    }

    /// Documents the selectable fields of a custom resource.
    fn name_selectable_fields(&mut self, name: &str, info: &ResourceInfo) {
        let Some(definition) = self.definitions.get_mut(name).filter(|_| info.custom) else { return };
        if !info.selectable_fields.is_empty() {
            let fields = info.selectable_fields.iter().map(|path| json!({"fieldPath": path}));
            definition["x-kubernetes-selectable-fields"] = fields.collect();
        }
    }

    fn define_list(&mut self, list: &str, item: &str, resource: &Resource) {
        if self.definitions.contains_key(list) {
            return;
        }
        let mut meta = self
            .define_kind_by_name(LIST_META)
            .map_or(json!({"type": "object"}), |name| self.wrapped_reference_to(&name).into());
        if let Some(text) = descriptions::of_list_metadata() {
            meta["description"] = text.into();
        }
        let value = json!({
            "type": "object", "required": ["items"],
            "description": format!("{} is a list of {}", resource.info.list_kind, resource.info.resource.kind),
            "properties": {
                "apiVersion": type_text("apiVersion"), "kind": type_text("kind"), "metadata": meta,
                "items": {"type": "array", "description": "The objects.", "items": self.reference_to(item)},
            },
        });
        self.definitions.insert(list.to_owned(), value);
    }

    fn define_kind_by_name(&mut self, name: &str) -> Option<String> {
        if !self.definitions.contains_key(name) {
            let schemas = kubernetes_api::schemas();
            let (root, _) = schemas.iter().find(|(_, node)| node.definition.as_deref() == Some(name))?;
            self.define_as(name, &TypeOf { schemas: schemas.clone(), root });
        }
        Some(name.to_owned())
    }

    fn define_as(&mut self, name: &str, type_: &TypeOf) {
        if !self.definitions.contains_key(name) {
            // Reserved first: recursive types refer to their own name.
            self.definitions.insert(name.to_owned(), Value::Null);
            let body = self.body(type_, type_.node());
            self.definitions.insert(name.to_owned(), Value::Object(body));
        }
    }

    fn node(&mut self, type_: &TypeOf, id: SchemaId) -> Map<String, Value> {
        let node = type_.schemas.get(id);
        let Some(name) = &node.definition else {
            if self.depth >= MAX_DEPTH {
                return Map::new();
            }
            self.depth += 1;
            let body = self.body(type_, node);
            self.depth -= 1;
            return body;
        };
        self.define_as(name, &type_.at(id));
        self.wrapped_reference_to(name)
    }

    fn body(&mut self, type_: &TypeOf, node: &Schema) -> Map<String, Value> {
        let mut map = Map::new();
        let known = node.definition.as_deref().and_then(|name| descriptions::of(name, ""));
        // A named type may describe the field that refers to it.
        set(&mut map, "description", known.or_else(|| node.description.as_deref().map(str::to_owned)));
        if node.int_or_string {
            self.int_or_string(node, &mut map);
            return map;
        }
        if node.is_quantity() && self.dialect == Dialect::V3 {
            map.insert("oneOf".into(), json!([{"type": "string"}, {"type": "number"}]));
            return map;
        }
        // Version 2 has no nullable, and old clients reject fields that are not in properties: properties are omitted.
        let loose =
            self.dialect == Dialect::V2 && (node.nullable || node.preserve_unknown_fields) && node.definition.is_none();
        if !loose {
            set(&mut map, "type", type_name(node.type_));
            set(&mut map, "format", node.format.as_deref());
            self.children(type_, node, &mut map);
        }
        if node.preserve_unknown_fields && node.definition.is_none() {
            map.insert("x-kubernetes-preserve-unknown-fields".into(), true.into());
        }
        if node.embedded_resource {
            map.insert("x-kubernetes-embedded-resource".into(), true.into());
        }
        if node.map_atomic {
            map.insert("x-kubernetes-map-type".into(), "atomic".into());
        }
        list_type(&node.list_type, &mut map);
        if self.dialect == Dialect::V3 {
            if node.nullable {
                map.insert("nullable".into(), true.into());
            }
            set(&mut map, "default", node.default.clone());
        }
        if let Some(constraints) = &node.constraints {
            self.constraints(type_, constraints, &mut map);
        }
        map
    }

    fn int_or_string(&self, node: &Schema, map: &mut Map<String, Value>) {
        match (&node.definition, self.dialect) {
            (None, _) => {
                map.insert("x-kubernetes-int-or-string".into(), true.into());
            }
            (Some(_), Dialect::V2) => {
                map.insert("type".into(), "string".into());
                map.insert("format".into(), "int-or-string".into());
            }
            (Some(_), Dialect::V3) => {
                map.insert("format".into(), "int-or-string".into());
                map.insert("oneOf".into(), json!([{"type": "integer"}, {"type": "string"}]));
            }
        }
    }

    fn children(&mut self, type_: &TypeOf, node: &Schema, map: &mut Map<String, Value>) {
        if !node.properties.is_empty() {
            let mut properties = Map::new();
            for (name, property) in &node.properties {
                let mut shown = self.property(type_, property);
                // kubectl prints the description of the field, not that of the referenced type.
                let target = type_.schemas.get(property.schema);
                let known = node.definition.as_deref().and_then(|type_| descriptions::of(type_, name));
                let known = known.or_else(|| target.description.as_deref().map(str::to_owned));
                let known = known.or_else(|| descriptions::of_target(target.definition.as_deref()?));
                if let Some(text) = known {
                    shown.entry("description").or_insert_with(|| text.into());
                }
                properties.insert(name.to_string(), Value::Object(shown));
            }
            map.insert("properties".into(), properties.into());
        }
        if !node.required.is_empty() {
            map.insert("required".into(), json!(node.required));
        }
        if let Some(id) = node.additional_properties {
            let values = self.node(type_, id);
            map.insert("additionalProperties".into(), values.into());
        }
        if let Some(id) = node.items {
            let items = self.node(type_, id);
            map.insert("items".into(), items.into());
        }
    }

    fn property(&mut self, type_: &TypeOf, property: &Property) -> Map<String, Value> {
        let mut map = self.node(type_, property.schema);
        let strategy = [(property.patch.merge, "merge"), (property.patch.retain_keys, "retainKeys")];
        let words: Vec<&str> = strategy.iter().filter(|(is_set, _)| *is_set).map(|(_, word)| *word).collect();
        if !words.is_empty() {
            map.insert("x-kubernetes-patch-strategy".into(), words.join(",").into());
        }
        set(&mut map, "x-kubernetes-patch-merge-key", property.patch.merge_key.as_deref());
        if let Some(kind) = &property.list_type {
            list_type(kind, &mut map);
            if *kind == ListType::Atomic {
                map.insert("x-kubernetes-list-type".into(), "atomic".into());
            }
        }
        if property.map_atomic == Some(true) {
            map.insert("x-kubernetes-map-type".into(), "atomic".into());
        }
        if self.dialect == Dialect::V3 {
            set(&mut map, "default", property.default.clone());
        }
        map
    }

    fn constraints(&mut self, type_: &TypeOf, constraints: &Constraints, map: &mut Map<String, Value>) {
        if !constraints.enum_values.is_empty() {
            map.insert("enum".into(), constraints.enum_values.clone().into());
        }
        for (name, number) in [
            ("minimum", constraints.minimum),
            ("maximum", constraints.maximum),
            ("multipleOf", constraints.multiple_of),
        ] {
            set(map, name, number);
        }
        for (name, count) in [
            ("minLength", constraints.min_length),
            ("maxLength", constraints.max_length),
            ("minItems", constraints.min_items),
            ("maxItems", constraints.max_items),
            ("minProperties", constraints.min_properties),
            ("maxProperties", constraints.max_properties),
        ] {
            set(map, name, count);
        }
        for (name, flag) in [
            ("exclusiveMinimum", constraints.exclusive_minimum),
            ("exclusiveMaximum", constraints.exclusive_maximum),
            ("uniqueItems", constraints.unique_items),
        ] {
            set(map, name, flag.then_some(true));
        }
        set(map, "pattern", constraints.pattern.as_deref());
        if !constraints.rules.is_empty() {
            map.insert("x-kubernetes-validations".into(), constraints.rules.clone().into());
        }
        if self.dialect == Dialect::V2 {
            return;
        }
        for (name, ids) in
            [("allOf", &constraints.all_of), ("anyOf", &constraints.any_of), ("oneOf", &constraints.one_of)]
        {
            if !ids.is_empty() {
                let parts: Vec<Value> = ids.iter().map(|id| self.node(type_, *id).into()).collect();
                map.insert(name.into(), parts.into());
            }
        }
        if let Some(id) = constraints.not {
            let not = self.node(type_, id);
            map.insert("not".into(), not.into());
        }
    }
}

/// `apiVersion` or `kind`, described as in all types.
pub fn type_text(name: &str) -> Value {
    let mut text = json!({"type": "string"});
    if let Some(description) = descriptions::of(DELETE_OPTIONS, name) {
        text["description"] = description.into();
    }
    text
}

/// `com.example.wire.v1.Widget` for `wire.example.com/v1, Kind=Widget`.
fn custom_name(gvk: &GroupVersionKind) -> String {
    let reversed: Vec<&str> = gvk.group.rsplit('.').collect();
    format!("{}.{}.{}", reversed.join("."), gvk.version, gvk.kind)
}

fn type_name(type_: Type) -> Option<&'static str> {
    match type_ {
        Type::Any => None,
        Type::Object => Some("object"),
        Type::Array => Some("array"),
        Type::String => Some("string"),
        Type::Integer => Some("integer"),
        Type::Number => Some("number"),
        Type::Boolean => Some("boolean"),
    }
}

fn list_type(kind: &ListType, map: &mut Map<String, Value>) {
    match kind {
        ListType::Atomic => {}
        ListType::Set => {
            map.insert("x-kubernetes-list-type".into(), "set".into());
        }
        ListType::Map(keys) => {
            map.insert("x-kubernetes-list-type".into(), "map".into());
            map.insert("x-kubernetes-list-map-keys".into(), json!(keys));
        }
    }
}

fn set(map: &mut Map<String, Value>, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        map.insert(key.to_owned(), value.into());
    }
}
