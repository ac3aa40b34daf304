//! Drops fields that a structural schema does not declare.

use apimachinery::schema::{Schema, TypeOf};
use serde_json::Value;

/// Removes unspecified fields and returns their paths (`spec.nested.zz`, `spec.list[0].x`), in document order.
pub fn prune(object: &mut Value, type_: &TypeOf) -> Vec<String> {
    let mut pruned = Vec::new();
    prune_node(object, type_, type_.node(), &mut String::new(), &mut pruned);
    pruned
}

/// [`prune`] without the list of removed fields.
pub fn drop_unspecified(object: &mut Value, type_: &TypeOf) {
    drop_below(object, type_, type_.node());
}

fn drop_below(value: &mut Value, type_: &TypeOf, schema: &Schema) {
    match value {
        Value::Object(map) => map.retain(|name, child| {
            let named = schema.properties.get(name.as_str()).map(|property| property.schema);
            match named.or(schema.additional_properties) {
                Some(id) => {
                    drop_below(child, type_, type_.schemas.get(id));
                    true
                }
                None => schema.preserve_unknown_fields,
            }
        }),
        Value::Array(items) => {
            let Some(id) = schema.items else { return };
            items.iter_mut().for_each(|item| drop_below(item, type_, type_.schemas.get(id)));
        }
        _ => {}
    }
}

fn prune_node(value: &mut Value, type_: &TypeOf, schema: &Schema, path: &mut String, pruned: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.retain(|name, child| {
            let length = path.len();
            push_name(path, name);
            let known = match (schema.properties.get(name.as_str()), schema.additional_properties) {
                (Some(property), _) => Some(property.schema),
                (None, values) => values,
            };
            let keep = match known {
                Some(id) => {
                    prune_node(child, type_, type_.schemas.get(id), path, pruned);
                    true
                }
                None => schema.preserve_unknown_fields,
            };
            if !keep {
                pruned.push(path.clone());
            }
            path.truncate(length);
            keep
        }),
        Value::Array(items) => {
            let Some(id) = schema.items else { return };
            for (index, item) in items.iter_mut().enumerate() {
                let length = path.len();
                path.push_str(&format!("[{index}]"));
                prune_node(item, type_, type_.schemas.get(id), path, pruned);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

fn push_name(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unspecified_fields_are_pruned_and_preserved_ones_kept() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "a": {"type": "string"},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"typed": {"type": "object", "properties": {"x": {"type": "string"}}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"k": {"type": "string"}}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}},
            "emb": {"type": "object", "x-kubernetes-embedded-resource": true},
        }}}});
        let mut object = json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n"}, "bogus": 1, "spec": {
            "a": "x", "b": 1, "free": {"any": {"thing": 1}, "typed": {"x": "1", "y": 2}},
            "map": {"one": {"k": "v", "z": 1}}, "list": [{"k": "v"}, {"q": 1}],
            "emb": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}},
        }});
        let type_ = crate::structural::compile(Some(&schema), None);
        let mut silently = object.clone();
        drop_unspecified(&mut silently, &type_);
        let pruned = prune(&mut object, &type_);
        assert_eq!(silently, object);
        assert_eq!(
            pruned,
            ["bogus", "spec.b", "spec.emb.spec", "spec.free.typed.y", "spec.list[1].q", "spec.map.one.z"]
        );
        assert_eq!(object["spec"]["free"], json!({"any": {"thing": 1}, "typed": {"x": "1"}}));
        assert_eq!(object["spec"]["emb"]["metadata"]["name"], "p");
        assert_eq!(prune(&mut object, &type_), Vec::<String>::new());
    }
}
