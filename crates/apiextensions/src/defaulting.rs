//! Filling in the defaults of a structural schema, alone or together with [pruning](crate::pruning) in one walk.

use apimachinery::extent::{Budget, TooLarge};
use apimachinery::schema::{Schema, SchemaId, TypeOf};
use serde_json::{Map, Value};

use crate::zeros;

/// Sets absent properties that have a default, and replaces `null` by the default where null is not allowed. A `null`
/// that is neither allowed nor has a default is dropped. Defaults inside an absent parent need the parent's default.
///
/// # Errors
/// If the defaults together are larger than any object: an item of a list may take two bytes, and its default a million.
/// `object` has then only some of them.
pub fn default(object: &mut Value, type_: &TypeOf) -> Result<(), TooLarge> {
    let mut filling = Filling::of(type_);
    filling.default(object, type_.root);
    filling.end()
}

/// Removes unspecified fields and then fills in defaults, in one walk. Before that, metadata of embedded objects takes
/// the form that upstream's type of metadata gives it.
///
/// # Errors
/// As [`default`].
pub fn prune_and_default(object: &mut Value, type_: &TypeOf) -> Result<(), TooLarge> {
    let mut filling = Filling::of(type_);
    filling.settle(object, type_.root);
    filling.end()
}

/// Whether the schema holds any default at all; objects of one that does not need no second look when read.
pub fn has_defaults(type_: &TypeOf) -> bool {
    type_.schemas.iter().any(|(_, schema)| schema.default.is_some())
}

/// Whether an object without the field gets it by default.
pub fn has_default(type_: &TypeOf, field: &str) -> bool {
    type_.node().properties.get(field).is_some_and(|property| {
        let of_property = property.default.as_ref();
        of_property.or(type_.schemas.get(property.schema).default.as_ref()).is_some_and(|default| !default.is_null())
    })
}

/// A walk over an object.
struct Filling<'t> {
    type_: &'t TypeOf,
    /// For the defaults.
    budget: Budget,
    is_full: bool,
}

impl<'t> Filling<'t> {
    fn of(type_: &'t TypeOf) -> Self {
        Self { type_, budget: Budget::default(), is_full: false }
    }

    fn end(self) -> Result<(), TooLarge> {
        if self.is_full { Err(TooLarge) } else { Ok(()) }
    }

    /// A copy of a default; without budget for it, null.
    fn copy(&mut self, default: &Value) -> Value {
        self.is_full = self.is_full || self.budget.take_value(default).is_err();
        if self.is_full { Value::Null } else { default.clone() }
    }

    fn default(&mut self, value: &mut Value, id: SchemaId) {
        let type_ = self.type_;
        let schema = type_.schemas.get(id);
        match value {
            Value::Object(map) => {
                let filled = type_.schemas.has_default_members(id).then_some(&schema.properties);
                for (name, property) in filled.into_iter().flatten() {
                    let child = type_.schemas.get(property.schema);
                    let Some(default) = property.default.as_ref().or(child.default.as_ref()) else { continue };
                    match map.get_mut(&**name) {
                        None => {
                            map.insert(name.to_string(), self.copy(default));
                        }
                        Some(present) if present.is_null() && !child.nullable => *present = self.copy(default),
                        Some(_) => {}
                    }
                }
                map.retain(|name, child| {
                    let known = schema.properties.get(name.as_str()).map(|property| property.schema);
                    let Some(id) = known.or(schema.additional_properties) else { return true };
                    let child_schema = type_.schemas.get(id);
                    if child.is_null() {
                        return self.null_stays(child, child_schema);
                    }
                    self.default(child, id);
                    true
                });
            }
            Value::Array(items) => self.items(items, schema, Self::default),
            _ => {}
        }
    }

    fn settle(&mut self, value: &mut Value, id: SchemaId) {
        let type_ = self.type_;
        let schema = type_.schemas.get(id);
        match value {
            Value::Object(map) => {
                if schema.embedded_resource
                    && let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut)
                {
                    zeros::omit_in_embedded_metadata(metadata);
                }
                let mut is_settled = true;
                for (name, child) in map.iter_mut() {
                    is_settled &= self.settle_member(name, child, schema);
                }
                if !is_settled {
                    // Those that stay are not null, or will be null again.
                    map.retain(|name, child| {
                        let known = schema.properties.get(name.as_str()).map(|property| property.schema);
                        match known.or(schema.additional_properties) {
                            Some(id) => !child.is_null() || self.null_stays(child, type_.schemas.get(id)),
                            None => schema.preserve_unknown_fields,
                        }
                    });
                }
                if type_.schemas.has_default_members(id) {
                    self.fill(map, schema);
                }
            }
            Value::Array(items) => self.items(items, schema, Self::settle),
            _ => {}
        }
    }

    fn items(&mut self, items: &mut [Value], schema: &Schema, mut each: impl FnMut(&mut Self, &mut Value, SchemaId)) {
        let Some(id) = schema.items else { return };
        let child = self.type_.schemas.get(id);
        for item in items {
            match &child.default {
                Some(default) if item.is_null() && !child.nullable => *item = self.copy(default),
                _ => each(self, item, id),
            }
        }
    }

    /// Whether the member stays.
    fn settle_member(&mut self, name: &str, child: &mut Value, schema: &Schema) -> bool {
        let property = schema.properties.get(name);
        let Some(id) = property.map(|property| property.schema).or(schema.additional_properties) else {
            return schema.preserve_unknown_fields;
        };
        if !child.is_null() {
            self.settle(child, id);
            return true;
        }
        let child_schema = self.type_.schemas.get(id);
        let default = property.and_then(|property| property.default.as_ref().or(child_schema.default.as_ref()));
        if let Some(default) = default.filter(|default| !child_schema.nullable && !default.is_null()) {
            *child = self.copy(default);
            self.default(child, id);
            return true;
        }
        self.null_stays(child, child_schema)
    }

    /// Adds absent members by default. What a default holds is not pruned.
    fn fill(&mut self, map: &mut Map<String, Value>, schema: &Schema) {
        for (name, property) in &schema.properties {
            let child = self.type_.schemas.get(property.schema);
            let Some(default) = property.default.as_ref().or(child.default.as_ref()) else { continue };
            if !map.contains_key(&**name) {
                let mut value = self.copy(default);
                if value.is_null() {
                    if !self.null_stays(&mut value, child) {
                        continue;
                    }
                } else {
                    self.default(&mut value, property.schema);
                }
                map.insert(name.to_string(), value);
            }
        }
    }

    /// Nulls stay where they are allowed, where nothing is declared, and (a map's values) where a default takes their
    /// place.
    fn null_stays(&mut self, child: &mut Value, schema: &Schema) -> bool {
        if let (Some(default), false) = (&schema.default, schema.nullable) {
            *child = self.copy(default);
            return true;
        }
        schema.nullable
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_fill_gaps_and_nulls() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "replicas": {"type": "integer", "default": 1},
            "nul": {"type": "string", "nullable": true, "default": "d"},
            "plain": {"type": "string"},
            "free": {"x-kubernetes-preserve-unknown-fields": true},
            "nested": {"type": "object", "default": {}, "properties": {"q": {"type": "string", "default": "qq"}}},
            "absent": {"type": "object", "properties": {"q": {"type": "string", "default": "qq"}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"v": {"type": "string", "default": "dv"}}}},
        }}}});
        let type_ = crate::structural::compile(Some(&schema), None);
        for (given, expected) in [
            (json!({}), json!({})),
            (json!({"spec": {}}), json!({"spec": {"replicas": 1, "nul": "d", "nested": {"q": "qq"}}})),
            (
                json!({"spec": {"replicas": null, "nul": null, "plain": null, "free": null, "nested": {"q": "x"}, "list": [{}]}}),
                json!({"spec": {"replicas": 1, "nul": null, "nested": {"q": "x"}, "list": [{"v": "dv"}]}}),
            ),
        ] {
            let mut object = given.clone();
            default(&mut object, &type_).expect("small defaults");
            assert_eq!(object, expected, "{given}");
        }
    }

    #[test]
    fn metadata_of_embedded_objects_has_no_zero_values() {
        let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true});
        let schema = json!({"type": "object", "properties": {"template": embedded}});
        let type_ = crate::structural::compile(Some(&schema), None);
        let of = |metadata: Value| json!({"template": {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}});
        let mut object = of(json!({"name": "", "labels": {"a": null}, "creationTimestamp": null, "generation": 0}));
        prune_and_default(&mut object, &type_).expect("small");
        assert_eq!(object, of(json!({"labels": {"a": ""}})));
    }

    #[test]
    fn defaults_have_room_for_one_object() {
        let of = |items: Value| json!({"type": "object", "properties": {"list": {"type": "array", "items": items}}});
        let text = "x".repeat(10_000);
        for (items, item) in [
            (json!({"type": "object", "properties": {"v": {"type": "string", "default": text}}}), json!({})),
            (json!({"type": "object", "properties": {"v": {"type": "string", "default": text}}}), json!({"v": null})),
            (json!({"type": "string", "default": text}), json!(null)),
            (
                json!({"type": "object", "additionalProperties": {"type": "string", "default": text}}),
                json!({"k": null}),
            ),
        ] {
            let type_ = crate::structural::compile(Some(&of(items)), None);
            for (count, expected) in [(400, Ok(())), (500, Err(TooLarge)), (300_000, Err(TooLarge))] {
                let object = json!({"list": vec![item.clone(); count]});
                assert_eq!(default(&mut object.clone(), &type_), expected, "{count} {item}");
                assert_eq!(prune_and_default(&mut object.clone(), &type_), expected, "{count} {item}");
            }
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            3 => Just(Value::Null),
            1 => any::<bool>().prop_map(Value::from),
            1 => (0..3).prop_map(Value::from),
            1 => "[ab]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 64, 6, |inner| {
            let names = ["text", "free", "map", "list", "deep", "none", "kind", "metadata", "other"];
            let member = (prop::sample::select(names.to_vec()), inner.clone());
            prop_oneof![
                1 => prop::collection::vec(inner, 0..4).prop_map(Value::from),
                4 => prop::collection::vec(member, 0..8)
                    .prop_map(|members| members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
            ]
        })
    }

    /// Nodes of every kind that the walk distinguishes, within each other to `levels`.
    fn node(levels: usize, seed: u64) -> Value {
        let (bit, below) = (|n: u64| seed >> n & 1 == 1, |n: u64| node(levels - 1, seed.rotate_right(7 + n as u32)));
        let mut schema = json!({"type": "object", "properties": {
            "text": {"type": "string", "nullable": bit(0)},
            "none": {"type": "string", "nullable": bit(1), "default": null},
            "free": {"x-kubernetes-preserve-unknown-fields": true, "nullable": bit(2)},
        }});
        if bit(3) {
            schema["properties"]["text"]["default"] = json!("t");
        }
        if bit(4) {
            schema["x-kubernetes-preserve-unknown-fields"] = json!(true);
        }
        if bit(5) {
            schema["default"] = json!({"text": null, "other": 1, "deep": {"unknown": {}}});
        }
        if bit(6) && levels > 0 {
            schema = json!({"type": "object", "additionalProperties": below(0), "nullable": bit(7)});
        } else if levels > 0 {
            schema["properties"]["deep"] = below(1);
            schema["properties"]["map"] = json!({"type": "object", "additionalProperties": below(2)});
            schema["properties"]["list"] = json!({"type": "array", "items": below(3)});
        }
        schema
    }

    proptest! {
        #[test]
        fn the_combined_walk_equals_pruning_and_defaulting(mut object in any_value(), seed in any::<u64>()) {
            let type_ = crate::structural::compile(Some(&node(3, seed)), None);
            let mut settled = object.clone();
            prune_and_default(&mut settled, &type_).expect("small defaults");
            crate::pruning::drop_unspecified(&mut object, &type_);
            default(&mut object, &type_).expect("small defaults");
            prop_assert_eq!(settled, object);
        }
    }
}
