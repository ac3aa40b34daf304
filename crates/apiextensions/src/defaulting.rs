//! Filling in the defaults of a structural schema.

use apimachinery::schema::{Schema, SchemaId, TypeOf};
use serde_json::Value;

/// Sets absent properties that have a default, and replaces `null` by the default where null is not allowed. A `null`
/// that is neither allowed nor has a default is dropped. Defaults inside an absent parent need the parent's default.
pub fn default(object: &mut Value, type_: &TypeOf) {
    default_node(object, type_, type_.root);
}

/// Whether the schema holds any default at all; objects of one that does not need no second look when read.
pub fn has_defaults(type_: &TypeOf) -> bool {
    type_.schemas.iter().any(|(_, schema)| schema.default.is_some())
}

fn default_node(value: &mut Value, type_: &TypeOf, id: SchemaId) {
    let schema = type_.schemas.get(id);
    match value {
        Value::Object(map) => {
            let filled = type_.schemas.has_default_members(id).then_some(&schema.properties);
            for (name, property) in filled.into_iter().flatten() {
                let child = type_.schemas.get(property.schema);
                let Some(default) = property.default.as_ref().or(child.default.as_ref()) else { continue };
                match map.get_mut(&**name) {
                    None => {
                        map.insert(name.to_string(), default.clone());
                    }
                    Some(present) if present.is_null() && !child.nullable => *present = default.clone(),
                    Some(_) => {}
                }
            }
            map.retain(|name, child| {
                let known = schema.properties.get(name.as_str()).map(|property| property.schema);
                let Some(id) = known.or(schema.additional_properties) else { return true };
                let child_schema = type_.schemas.get(id);
                if child.is_null() {
                    return null_stays(child, child_schema);
                }
                default_node(child, type_, id);
                true
            });
        }
        Value::Array(items) => {
            let Some(id) = schema.items else { return };
            let child = type_.schemas.get(id);
            for item in items {
                match &child.default {
                    Some(default) if item.is_null() && !child.nullable => *item = default.clone(),
                    _ => default_node(item, type_, id),
                }
            }
        }
        _ => {}
    }
}

/// Nulls stay where they are allowed, where nothing is declared, and (a map's values) where a default takes their place.
fn null_stays(child: &mut Value, schema: &Schema) -> bool {
    if let (Some(default), false) = (&schema.default, schema.nullable) {
        *child = default.clone();
        return true;
    }
    schema.nullable || (schema.type_ == apimachinery::schema::Type::Any && schema.preserve_unknown_fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_fill_gaps_and_nulls() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "replicas": {"type": "integer", "default": 1},
            "nul": {"type": "string", "nullable": true, "default": "d"},
            "plain": {"type": "string"},
            "nested": {"type": "object", "default": {}, "properties": {"q": {"type": "string", "default": "qq"}}},
            "absent": {"type": "object", "properties": {"q": {"type": "string", "default": "qq"}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"v": {"type": "string", "default": "dv"}}}},
        }}}});
        let type_ = crate::structural::compile(Some(&schema), None);
        for (given, expected) in [
            (json!({}), json!({})),
            (json!({"spec": {}}), json!({"spec": {"replicas": 1, "nul": "d", "nested": {"q": "qq"}}})),
            (
                json!({"spec": {"replicas": null, "nul": null, "plain": null, "nested": {"q": "x"}, "list": [{}]}}),
                json!({"spec": {"replicas": 1, "nul": null, "nested": {"q": "x"}, "list": [{"v": "dv"}]}}),
            ),
        ] {
            let mut object = given.clone();
            default(&mut object, &type_);
            assert_eq!(object, expected, "{given}");
        }
    }
}
