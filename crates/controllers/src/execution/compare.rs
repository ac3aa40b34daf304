//! Whether an object that has had our manifest still has it.

use serde_json::Value;

/// Whether `observed` has everything of `desired`. What the member's API server adds (defaults) does not count; lists
/// must be as long. Used only for a manifest that was written before, unchanged since: it saves the write that would
/// change nothing.
pub(super) fn covers(observed: &Value, desired: &Value) -> bool {
    match (observed, desired) {
        (Value::Object(observed), Value::Object(desired)) => desired.iter().all(|(key, desired)| {
            observed.get(key).map_or_else(|| is_empty(desired), |observed| covers(observed, desired))
        }),
        (Value::Array(observed), Value::Array(desired)) => {
            observed.len() == desired.len() && observed.iter().zip(desired).all(|(o, d)| covers(o, d))
        }
        (observed, desired) => observed == desired || (observed.is_null() && is_empty(desired)),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_do_not_count_and_edits_do() {
        let desired = json!({"metadata": {"name": "a", "creationTimestamp": null}, "spec": {"replicas": 2, "c": [{"image": "x"}], "e": {}}});
        for (observed, same) in [
            (
                json!({"metadata": {"name": "a", "uid": "u"}, "spec": {"replicas": 2, "c": [{"image": "x", "pull": "Always"}], "more": 1}}),
                true,
            ),
            (json!({"metadata": {"name": "a"}, "spec": {"replicas": 3, "c": [{"image": "x"}]}}), false),
            (json!({"metadata": {"name": "a"}, "spec": {"replicas": 2, "c": [{"image": "x"}, {"image": "y"}]}}), false),
            (json!({"metadata": {"name": "a"}, "spec": {"replicas": 2}}), false),
        ] {
            assert_eq!(covers(&observed, &desired), same, "{observed}");
        }
    }
}
