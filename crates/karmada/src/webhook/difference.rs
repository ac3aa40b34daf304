//! The JSON patch (RFC 6902) between two trees: the response of a mutating webhook.

use serde_json::{Map, Value, json};

/// Different lists are replaced as a whole.
pub fn patch(from: &Value, to: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    between(from, to, "", &mut operations);
    operations
}

fn between(from: &Value, to: &Value, path: &str, out: &mut Vec<Value>) {
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => members(from, to, path, out),
        (from, to) if from == to => {}
        _ => out.push(json!({ "op": "replace", "path": path, "value": to })),
    }
}

fn members(from: &Map<String, Value>, to: &Map<String, Value>, path: &str, out: &mut Vec<Value>) {
    let below = |key: &str| format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
    for (key, old) in from {
        match to.get(key) {
            Some(new) => between(old, new, &below(key), out),
            None => out.push(json!({ "op": "remove", "path": below(key) })),
        }
    }
    for (key, new) in to.iter().filter(|(key, _)| !from.contains_key(*key)) {
        out.push(json!({ "op": "add", "path": below(key), "value": new }));
    }
}

#[cfg(test)]
mod tests {
    use apimachinery::json_patch;

    use super::*;

    #[test]
    fn the_patch_leads_from_one_to_the_other() {
        for (from, to) in [
            (json!({}), json!({})),
            (json!({"a": 1, "b": {"c": [1], "d/e": 2}}), json!({"a": 2, "b": {"c": [1, 2], "f~": {}}})),
            (json!({"a": {"b": 1}}), json!({"a": null})),
            (json!(1), json!({"a": 1})),
        ] {
            let patch = patch(&from, &to);
            assert_eq!(patch.is_empty(), from == to);
            let mut changed = from.clone();
            let text = serde_json::to_vec(&patch).unwrap();
            json_patch::parse(&text).unwrap().apply(&mut changed).unwrap();
            assert_eq!(changed, to);
        }
    }
}
