//! Nulls as items of lists and as values of maps. Go's decoder converts them to the zero value of their type: an empty
//! string, a quantity of zero, an empty struct. Nulls as fields of structs are absent fields, which are handled
//! elsewhere.

use apimachinery::schema::{Schema, Schemas, Type};
use serde_json::{Value, json};

/// Puts zeros in the place of nulls. Recursion is bounded: no value is deeper than the 128 levels the decoder takes.
pub(super) fn fill(value: &mut Value, schema: &Schema, schemas: &Schemas) {
    if schema.preserve_unknown_fields {
        return;
    }
    let element = |value: &mut Value, of: &Schema| {
        if value.is_null() { *value = zero(of) } else { fill(value, of, schemas) }
    };
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match (schema.properties.get(key.as_str()), schema.additional_properties) {
                    (Some(property), _) => fill(value, schemas.get(property.schema), schemas),
                    (None, Some(of)) => element(value, schemas.get(of)),
                    (None, None) => {}
                }
            }
        }
        Value::Array(items) => {
            let Some(of) = schema.items else { return };
            items.iter_mut().for_each(|item| element(item, schemas.get(of)));
        }
        _ => {}
    }
}

/// Go writes null for a nil list, and for an interface value.
fn zero(schema: &Schema) -> Value {
    if schema.is_quantity() {
        return json!("0");
    }
    match schema.type_ {
        _ if schema.int_or_string => json!(0),
        Type::String => json!(""),
        Type::Integer | Type::Number => json!(0),
        Type::Boolean => json!(false),
        Type::Object => json!({}),
        Type::Any | Type::Array => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apimachinery::GroupVersionKind;

    #[test]
    fn nulls_in_lists_and_maps_are_zeros() {
        let filled = |gvk: [&str; 3], mut object: Value| {
            let [group, version, kind] = gvk;
            let type_ =
                kubernetes_api::schema_for(&GroupVersionKind::new(group, version, kind)).expect("a built-in kind");
            fill(&mut object, type_.node(), &type_.schemas);
            object
        };
        for (gvk, object, expected) in [
            (
                ["", "v1", "ConfigMap"],
                json!({"metadata": {"labels": {"a": null}, "finalizers": [null], "ownerReferences": [null]}, "data": {"k": null}}),
                json!({"metadata": {"labels": {"a": ""}, "finalizers": [""], "ownerReferences": [{}]}, "data": {"k": ""}}),
            ),
            (["", "v1", "Secret"], json!({"data": {"k": null}}), json!({"data": {"k": ""}})),
            (
                ["", "v1", "Pod"],
                json!({"spec": {"nodeName": null, "containers": [null, {"args": [null], "resources": {"limits": {"cpu": null}}}]}}),
                json!({"spec": {"nodeName": null, "containers": [{}, {"args": [""], "resources": {"limits": {"cpu": "0"}}}]}}),
            ),
            (
                ["apiextensions.k8s.io", "v1", "CustomResourceDefinition"],
                json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {"enum": [null], "properties": {"a": null}}}}]}}),
                json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {"enum": [null], "properties": {"a": {}}}}}]}}),
            ),
        ] {
            assert_eq!(filled(gvk, object), expected, "{gvk:?}");
        }
    }
}
