//! Checks of a schema beyond being structural, in upstream's order: supported fields, the Kubernetes extensions, and
//! finally the CEL rules, where no other error was found.

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::schema::{SchemaId, Schemas};
use serde_json::{Map, Value};

use crate::rule_definitions::{self, Costs, Rules};
use crate::shapes::{metadata, shape};
use crate::structural;
use crate::structural_rules::{is_set, text};

/// Validates a schema. `compiled`: it is structural, so its rules can be compiled. Recursion is bounded by the depth
/// that the JSON parser permits (128).
pub fn validate(schema: &Value, path: &Path, compiled: bool) -> ErrorList {
    let Some(map) = schema.as_object() else { return ErrorList::new() };
    let type_ = compiled.then(|| structural::compile(Some(schema), None));
    let mut walk = Walk::default();
    let here = type_.as_ref().map(|type_| Compiled {
        schemas: &type_.schemas,
        id: type_.root,
        cardinality: Some(1),
        root: true,
        metadata: false,
    });
    walk.node(map, path, &Place { root: true, ..Place::default() }, here.as_ref());
    let Walk { schema_errors: mut errors, rule_errors, costs } = walk;
    errors.extend(rule_errors);
    costs.check(path, &mut errors);
    errors
}

/// Properties of a place in a schema that depend on its surroundings.
#[derive(Clone, Default)]
struct Place {
    root: bool,
    /// In apiVersion, kind or metadata.
    in_meta: bool,
    /// Why there is no default here.
    no_default: Option<String>,
    /// The list around whose items have no counterpart in an older object.
    uncorrelatable: Option<Path>,
}

/// A node of the compiled schema.
struct Compiled<'a> {
    schemas: &'a Schemas,
    id: SchemaId,
    /// How many nodes of an object are here; `None` when only the size of a request bounds them.
    cardinality: Option<u64>,
    root: bool,
    /// The metadata of an object, whose names are visible to expressions.
    metadata: bool,
}

impl<'a> Compiled<'a> {
    fn inner(&self, id: SchemaId, cardinality: Option<u64>) -> Compiled<'a> {
        Compiled { schemas: self.schemas, id, cardinality, root: false, metadata: false }
    }

    fn property(&self, name: &str) -> Option<Compiled<'a>> {
        let schema = self.schemas.get(self.id);
        let property = schema.properties.get(name)?;
        let metadata = name == "metadata" && (self.root || schema.embedded_resource);
        Some(Compiled { metadata, ..self.inner(property.schema, self.cardinality) })
    }

    fn items(&self) -> Option<Compiled<'a>> {
        let schema = self.schemas.get(self.id);
        let most = schema.constraints.as_deref().and_then(|constraints| constraints.max_items);
        Some(self.inner(schema.items?, self.times(most)))
    }

    fn values(&self) -> Option<Compiled<'a>> {
        let schema = self.schemas.get(self.id);
        let most = schema.constraints.as_deref().and_then(|constraints| constraints.max_properties);
        Some(self.inner(schema.additional_properties?, self.times(most)))
    }

    fn times(&self, declared: Option<u64>) -> Option<u64> {
        Some(self.cardinality?.saturating_mul(declared?))
    }
}

#[derive(Default)]
struct Walk {
    schema_errors: ErrorList,
    /// Reported after all others.
    rule_errors: ErrorList,
    costs: Costs,
}

impl Walk {
    fn node(&mut self, map: &Map<String, Value>, path: &Path, place: &Place, compiled: Option<&Compiled<'_>>) {
        let before = self.schema_errors.len();
        check_supported(map, path, place, &mut self.schema_errors);
        self.fields(map, path, place, compiled);
        self.junctors(map, path, place);
        self.items(map, path, place, compiled);
        check_extensions(map, path, &mut self.schema_errors);
        if !is_set(map, "x-kubernetes-validations") {
            return;
        }
        rule_definitions::check_texts(map, path, &mut self.schema_errors);
        // Errors of rules here or below would only repeat the errors of the schema.
        if self.schema_errors.len() == before
            && let Some(compiled) = compiled
        {
            self.rules(path, place, compiled);
        }
    }

    fn fields(&mut self, map: &Map<String, Value>, path: &Path, place: &Place, compiled: Option<&Compiled<'_>>) {
        let properties = map.get("properties").and_then(Value::as_object);
        let additional = map.get("additionalProperties").filter(|values| !values.is_null());
        if let Some(values) = additional {
            let at = path.child("additionalProperties");
            if properties.is_some_and(|all| !all.is_empty()) && values != &Value::Bool(true) {
                let why = "additionalProperties and properties are mutual exclusive";
                self.schema_errors.push(Error::forbidden(&at, why));
            }
            if let Some(values) = values.as_object() {
                let mut inner = Place { root: false, ..place.clone() };
                if place.in_meta {
                    inner.no_default = Some("inside additionalProperties applying to object metadata".to_owned());
                }
                self.node(values, &at, &inner, compiled.and_then(Compiled::values).as_ref());
            }
        }
        let whole = place.root || is_set(map, "x-kubernetes-embedded-resource");
        for (name, property) in properties.into_iter().flatten() {
            let Some(property) = property.as_object() else { continue };
            let mut inner = Place { root: false, ..place.clone() };
            if whole && matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
                inner.in_meta = true;
                if place.root {
                    inner.no_default = Some(format!("in top-level {name}"));
                }
            }
            let of_property = compiled.and_then(|compiled| compiled.property(name));
            self.node(property, &path.child("properties").key(name), &inner, of_property.as_ref());
        }
    }

    fn junctors(&mut self, map: &Map<String, Value>, path: &Path, place: &Place) {
        let inner = Place { root: false, ..place.clone() };
        if let Some(schema) = map.get("not").and_then(Value::as_object) {
            self.node(schema, &path.child("not"), &inner, None);
        }
        for key in ["allOf", "oneOf", "anyOf"] {
            for (index, schema) in map.get(key).and_then(Value::as_array).into_iter().flatten().enumerate() {
                if let Some(schema) = schema.as_object() {
                    self.node(schema, &path.child(key).index(index), &inner, None);
                }
            }
        }
    }

    fn items(&mut self, map: &Map<String, Value>, path: &Path, place: &Place, compiled: Option<&Compiled<'_>>) {
        let mut inner = Place { root: false, ..place.clone() };
        if text(map, "x-kubernetes-list-type") != "map" && inner.uncorrelatable.is_none() {
            inner.uncorrelatable = Some(path.clone());
        }
        let path = path.child("items");
        match map.get("items") {
            Some(Value::Object(items)) => {
                self.node(items, &path, &inner, compiled.and_then(Compiled::items).as_ref());
            }
            Some(Value::Array(all)) => {
                for (index, schema) in all.iter().enumerate() {
                    if let Some(schema) = schema.as_object() {
                        self.node(schema, &path.index(index), &inner, None);
                    }
                }
            }
            _ => {}
        }
    }

    fn rules(&mut self, path: &Path, place: &Place, compiled: &Compiled<'_>) {
        let Compiled { schemas, id, cardinality, .. } = *compiled;
        let shape = if compiled.metadata { Some(metadata(schemas, id)) } else { shape(schemas, id, compiled.root) };
        let rules = Rules { schemas, id, shape, cardinality, uncorrelatable: place.uncorrelatable.as_ref() };
        rules.check(&path.child("x-kubernetes-validations"), &mut self.costs, &mut self.rule_errors);
    }
}

fn check_supported(map: &Map<String, Value>, path: &Path, place: &Place, errors: &mut ErrorList) {
    const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
    let type_ = text(map, "type");
    if !type_.is_empty() && !TYPES.contains(&type_) {
        errors.push(Error::not_supported(&path.child("type"), type_, &TYPES));
    }
    if let Some(why) = place.no_default.as_ref().filter(|_| map.get("default").is_some_and(|value| !value.is_null())) {
        errors.push(Error::forbidden(&path.child("default"), format!("must not be set {why}")));
    }
    for key in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        if is_set(map, key) {
            errors.push(Error::forbidden(&path.child(key), format!("{key} is not supported")));
        }
    }
    if type_ == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        errors.push(Error::forbidden(&path.child("type"), why));
    }
    if map.get("items").and_then(Value::as_array).is_some_and(|all| !all.is_empty()) {
        errors.push(Error::forbidden(&path.child("items"), "items must be a schema object and not an array"));
    }
    if place.in_meta && is_set(map, "x-kubernetes-embedded-resource") {
        let why = "must not be used inside of resource meta";
        errors.push(Error::forbidden(&path.child("x-kubernetes-embedded-resource"), why));
    }
    if is_set(map, "uniqueItems") {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(Error::forbidden(&path.child("uniqueItems"), why));
    }
}

fn check_extensions(map: &Map<String, Value>, path: &Path, errors: &mut ErrorList) {
    const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
    if map.get(PRESERVE) == Some(&Value::Bool(false)) {
        errors.push(Error::invalid(&path.child(PRESERVE), false, "must be true or undefined"));
    }
    let text_of = |key: &str| map.get(key).and_then(Value::as_str);
    let (map_path, list_path) = (path.child("x-kubernetes-map-type"), path.child("x-kubernetes-list-type"));
    if let Some(map_type) = text_of("x-kubernetes-map-type") {
        must_be(map, "object", "x-kubernetes-map-type is specified", path, errors);
        if !["atomic", "granular"].contains(&map_type) {
            errors.push(Error::not_supported(&map_path, map_type, &["atomic", "granular"]));
        }
    }
    let list_type = text_of("x-kubernetes-list-type");
    let of_list = "x-kubernetes-list-type is specified";
    if list_type.is_some() && must_be(map, "array", of_list, path, errors) && list_type == Some("set") {
        check_set(map, path, errors);
    }
    if let Some(other) = list_type.filter(|type_| !["atomic", "set", "map"].contains(type_)) {
        errors.push(Error::not_supported(&list_path, other, &["atomic", "set", "map"]));
    }
    if list_type != Some("map") && is_set(map, "x-kubernetes-list-map-keys") {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(match list_type {
            None => Error::required(&list_path, why),
            Some(other) => Error::invalid(&list_path, other, why),
        });
    }
    if list_type == Some("map") {
        check_keys(map, path, errors);
    }
    if let Some(list_type @ ("set" | "map")) = list_type {
        check_presence(map, list_type, path, errors);
    }
}

/// Checks the type that an extension requires; returns whether it matches.
fn must_be(map: &Map<String, Value>, required_value: &str, when: &str, path: &Path, errors: &mut ErrorList) -> bool {
    let (path, why) = (path.child("type"), format!("must be {required_value} if {when}"));
    let found = text(map, "type");
    match found {
        found if found == required_value => {}
        "" => errors.push(Error::required(&path, why)),
        found => errors.push(Error::invalid(&path, found, why)),
    }
    found == required_value
}

/// The items of a set are compared as a whole. Unset, lists are atomic and maps are not.
fn check_set(map: &Map<String, Value>, path: &Path, errors: &mut ErrorList) {
    let Some(items) = map.get("items").and_then(Value::as_object) else { return };
    let (key, fine): (_, &[&str]) = match text(items, "type") {
        "array" => ("x-kubernetes-list-type", &["", "atomic"]),
        "object" => ("x-kubernetes-map-type", &["atomic"]),
        _ => return,
    };
    if !fine.contains(&text(items, key)) {
        // Upstream shows the list type in both cases.
        let shown = items.get("x-kubernetes-list-type").cloned().unwrap_or(Value::Null);
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        errors.push(Error::invalid(&path.child("items").child(key), shown, why));
    }
}

fn names(map: &Map<String, Value>, key: &str) -> Vec<String> {
    let list = map.get(key).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The keys of a list of type map are scalars in each item.
fn check_keys(map: &Map<String, Value>, path: &Path, errors: &mut ErrorList) {
    let (at, keys_path) = (path.child("items"), path.child("x-kubernetes-list-map-keys"));
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
    let mut seen = std::collections::BTreeSet::new();
    for key in &keys {
        match items.get("properties").and_then(|all| all.get(key)).and_then(Value::as_object) {
            Some(property) if ["array", "object"].contains(&text(property, "type")) => {
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                // Upstream shows the type of the item, not of the key.
                let at = at.child("properties").key(key).child("type");
                errors.push(Error::invalid(&at, text(items, "type"), why));
            }
            Some(_) => {}
            None => {
                errors.push(Error::invalid(&keys_path, keys.clone(), "entries must all be names of item properties"));
            }
        }
        if !seen.insert(key) {
            errors.push(Error::invalid(&keys_path, keys.clone(), "must not contain duplicate entries"));
        }
    }
}

/// The keys of a list of type map are required or have a default in its items.
fn check_presence(map: &Map<String, Value>, list_type: &str, path: &Path, errors: &mut ErrorList) {
    let at = path.child("items");
    let Some(items) = map.get("items").and_then(Value::as_object) else { return };
    if is_set(items, "nullable") {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(Error::forbidden(&at.child("nullable"), why));
    }
    if list_type != "map" {
        return;
    }
    let required = names(items, "required");
    for key in names(map, "x-kubernetes-list-map-keys") {
        let property = items.get("properties").and_then(|all| all.get(&key)).and_then(Value::as_object);
        let Some(property) = property else { continue };
        let at = at.child("properties").key(&key);
        if !required.contains(&key) && property.get("default").is_none_or(Value::is_null) {
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
