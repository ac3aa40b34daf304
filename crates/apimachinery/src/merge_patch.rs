//! JSON merge patch (RFC 7386).

use serde_json::{Map, Value};

use crate::patch::PatchError;

/// Reads a patch of an API object, which must be a JSON object itself. Strategic merge patches read the same.
///
/// # Errors
/// `Malformed` when the document is not a JSON object.
pub fn parse(document: &[u8]) -> Result<Value, PatchError> {
    let patch: Map<String, Value> =
        serde_json::from_slice(document).map_err(|e| PatchError::Malformed(e.to_string()))?;
    Ok(Value::Object(patch))
}

/// Applies `patch` to `target`. Null members are removed, arrays and scalars replaced. A value that replaces a
/// non-object loses its null members, also within arrays; upstream's library interprets the RFC this way.
pub fn apply(target: &mut Value, patch: &Value) {
    let (Value::Object(map), Value::Object(changes)) = (&mut *target, patch) else {
        *target = if target.is_object() { patch.clone() } else { without_nulls(patch) };
        return;
    };
    for (key, change) in changes {
        if change.is_null() {
            map.remove(key);
        } else if let Some(member) = map.get_mut(key) {
            apply(member, change);
        } else {
            let mut member = Value::Null;
            apply(&mut member, change);
            map.insert(key.clone(), member);
        }
    }
}

/// Items of arrays stay. Documents are never deeper than the JSON decoder's limit.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let members = map.iter().filter(|(_, member)| !member.is_null());
            members.map(|(key, member)| (key.clone(), without_nulls(member))).collect()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        scalar => scalar.clone(),
    }
}

/// The patch that turns `from` into `to`; `None` when they are equal. A merge patch cannot set a member to null, so
/// nulls inside `to` are lost.
///
/// ```
/// use apimachinery::merge_patch;
/// use serde_json::json;
///
/// let (old, new) = (json!({"a": 1, "b": 2}), json!({"a": 1, "c": 3}));
/// let patch = merge_patch::diff(&old, &new).expect("they differ");
/// assert_eq!(patch, json!({"b": null, "c": 3}));
/// let mut patched = old;
/// merge_patch::apply(&mut patched, &patch);
/// assert_eq!(patched, new);
/// ```
pub fn diff(from: &Value, to: &Value) -> Option<Value> {
    if from == to {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (from, to) else { return Some(to.clone()) };
    let mut patch = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in new {
        match old.get(key) {
            Some(was) => patch.extend(diff(was, value).map(|change| (key.clone(), change))),
            None => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn examples_of_the_rfc() {
        for (target, patch, expected) in [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b","b":"c"}), json!({"a":null}), json!({"b":"c"})),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":{"b":"c"}}), json!({"a":{"b":"d","c":null}}), json!({"a":{"b":"d"}})),
            (json!({"a":[{"b":"c"}]}), json!({"a":[1]}), json!({"a":[1]})),
            (json!(["a"]), json!({"a":1}), json!({"a":1})),
            (json!({}), json!({"a":{"bb":{"ccc":null}}}), json!({"a":{"bb":{}}})),
            // Beyond the RFC.
            (json!({}), json!({"a":[{"b":null,"c":1},null]}), json!({"a":[{"c":1},null]})),
            (json!({"a":[]}), json!({"a":[[{"b":null}]]}), json!({"a":[[{}]]})),
            (json!({"a":{}}), json!({"a":[{"b":null}]}), json!({"a":[{"b":null}]})),
        ] {
            let mut result = target.clone();
            apply(&mut result, &patch);
            assert_eq!(result, expected, "{target} + {patch}");
        }
    }

    fn document() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-c]{0,2}".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4).prop_map(|m| m.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_diff_leads_from_one_to_the_other(from in document(), to in document()) {
            let mut result = from.clone();
            if let Some(patch) = diff(&from, &to) {
                apply(&mut result, &patch);
            }
            prop_assert_eq!(result, to);
        }
    }
}
