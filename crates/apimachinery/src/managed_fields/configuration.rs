//! The ApplyConfigurations of mutating admission policies may not replace what is atomic: the fields that they omit
//! would be lost. Nor may they unset fields by null.

use serde_json::Value;

use super::path::PathElement;
use super::place::Place;
use super::set::MAX_DEPTH;
use crate::schema::{ListType, Type, TypeOf};

/// Checks a configuration that matches its schema.
///
/// # Errors
/// kube-apiserver's text about the first null, or about all atomic fields.
pub fn check_policy_configuration(configuration: &Value, type_: &TypeOf) -> Result<(), String> {
    let mut walk = Walk::default();
    walk.value(configuration, Place::root(type_));
    if let Some(null) = walk.null {
        return Err(format!("failed to convert patch object to typed object: {null}"));
    }
    if walk.atomics.is_empty() {
        return Ok(());
    }
    let fields = walk.atomics.join(", ");
    Err(format!("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {fields}"))
}

#[derive(Default)]
struct Walk {
    path: Vec<PathElement>,
    null: Option<String>,
    atomics: Vec<String>,
}

impl Walk {
    fn shown(&self) -> String {
        self.path.iter().map(ToString::to_string).collect()
    }

    fn below(&mut self, element: PathElement, value: &Value, place: Place<'_>) {
        if self.path.len() < MAX_DEPTH {
            self.path.push(element);
            self.value(value, place);
            self.path.pop();
        }
    }

    fn value(&mut self, value: &Value, place: Place<'_>) {
        match value {
            Value::Object(map) => {
                if place.is_atomic_map() {
                    self.atomics.push(self.shown());
                }
                // As upstream, the values of maps are not searched.
                for (key, member) in map {
                    if let (child, true) = place.child(key) {
                        self.below(PathElement::field(key), member, child);
                    }
                }
            }
            Value::Array(items) => {
                if *place.list_type() == ListType::Atomic {
                    self.atomics.push(self.shown());
                }
                for (index, item) in items.iter().enumerate() {
                    self.below(PathElement::Index(index as i64), item, place.items());
                }
            }
            Value::Null if self.null.is_none() => {
                let expected = match place.type_() {
                    None | Some(Type::Any) => return,
                    Some(Type::Integer | Type::Number) => "numeric (int or float)",
                    Some(Type::String) => "string",
                    Some(Type::Boolean) => "boolean",
                    Some(Type::Array) => "list",
                    Some(Type::Object) => "map",
                };
                self.null = Some(format!("{}: expected {expected}, got null", self.shown()));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::{Property, Schema, Schemas};

    #[test]
    fn atomic_fields_and_nulls_are_refused() {
        let mut schemas = Schemas::default();
        let text = schemas.add(Schema { type_: Type::String, ..Schema::default() });
        let list = |list_type| Schema { type_: Type::Array, items: Some(text), list_type, ..Schema::default() };
        let (atomic, set) = (schemas.add(list(ListType::Atomic)), schemas.add(list(ListType::Set)));
        let object = |properties| Schema { type_: Type::Object, properties, ..Schema::default() };
        let leaf = || [("a".into(), Property::new(text))].into_iter().collect();
        let whole = schemas.add(Schema { map_atomic: true, ..object(leaf()) });
        let fields = [("text", text), ("atomic", atomic), ("set", set), ("whole", whole)];
        let spec = fields.map(|(name, id)| (name.into(), Property::new(id))).into_iter().collect();
        let spec = schemas.add(object(spec));
        let root = schemas.add(object([("spec".into(), Property::new(spec))].into_iter().collect()));
        let type_ = TypeOf { schemas: std::sync::Arc::new(schemas), root };
        for (configuration, expected) in [
            (json!({"spec": {"text": "a", "set": ["b"]}, "metadata": {"labels": {"a": "b"}, "finalizers": ["c"]}}), ""),
            (json!({"spec": {"atomic": ["a"], "whole": {"a": "b"}}}), "structs: .spec.atomic, .spec.whole"),
            (json!({"metadata": {"managedFields": []}}), "structs: .metadata.managedFields"),
            (json!({"spec": {"text": null}}), "typed object: .spec.text: expected string, got null"),
        ] {
            let found = check_policy_configuration(&configuration, &type_).err().unwrap_or_default();
            assert!(found.ends_with(expected) && found.is_empty() == expected.is_empty(), "{configuration}: {found}");
        }
    }
}
