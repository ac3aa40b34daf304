//! Comparison of a manifest with the object in a member.

use serde_json::Value;

/// Whether `observed` contains everything in `desired`. Fields that the member's API server adds (defaults) are
/// ignored; lists must have equal lengths. Used only for a manifest that was written before and is unchanged since: it
/// avoids a write without changes.
///
/// ```
/// use propagation::compare::covers;
/// use serde_json::json;
///
/// let desired = json!({"spec": {"replicas": 2}});
/// assert!(covers(&json!({"spec": {"replicas": 2, "revisionHistoryLimit": 10}}), &desired));
/// assert!(!covers(&json!({"spec": {"replicas": 3}}), &desired));
/// ```
pub fn covers(observed: &Value, desired: &Value) -> bool {
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

/// A field of a manifest that an object in a member has not, or has otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// As in `spec.template.spec.containers[0].image`.
    pub path: String,
    /// `None` where the object does not have it.
    pub observed: Option<Value>,
    /// The value in the manifest.
    pub desired: Value,
}

/// The differences between `desired` and `observed`: empty if it [`covers`] it.
pub fn differences(observed: &Value, desired: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    differ(Some(observed), desired, &mut String::new(), &mut found);
    found
}

fn differ(observed: Option<&Value>, desired: &Value, path: &mut String, found: &mut Vec<Difference>) {
    let length = path.len();
    match (observed, desired) {
        (Some(Value::Object(observed)), Value::Object(desired)) => {
            for (key, desired) in desired {
                let plain = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
                match (plain, length) {
                    (true, 0) => path.push_str(key),
                    (true, _) => path.extend([".", key]),
                    (false, _) => path.extend(["[\"", key, "\"]"]),
                }
                differ(observed.get(key), desired, path, found);
                path.truncate(length);
            }
        }
        (Some(Value::Array(observed)), Value::Array(desired)) if observed.len() == desired.len() => {
            for (place, (observed, desired)) in observed.iter().zip(desired).enumerate() {
                path.push_str(&format!("[{place}]"));
                differ(Some(observed), desired, path, found);
                path.truncate(length);
            }
        }
        (Some(observed), desired) if covers(observed, desired) => {}
        (None, desired) if is_empty(desired) => {}
        (observed, desired) => {
            found.push(Difference { path: path.clone(), observed: observed.cloned(), desired: desired.clone() });
        }
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
            assert_eq!(differences(&observed, &desired).is_empty(), same, "{observed}");
        }
    }

    #[test]
    fn differences_have_paths() {
        let desired = json!({"metadata": {"annotations": {"a.b/c": "1"}}, "spec": {"replicas": 2, "c": [{"image": "x"}], "l": [1, 2]}});
        let observed =
            json!({"metadata": {"annotations": {}}, "spec": {"replicas": 3, "c": [{"image": "y"}], "l": [1]}});
        let found = differences(&observed, &desired);
        let shown: Vec<String> = found
            .iter()
            .map(|it| format!("{}: {:?} {}", it.path, it.observed.as_ref().map(Value::to_string), it.desired))
            .collect();
        assert_eq!(
            shown,
            [
                r#"metadata.annotations["a.b/c"]: None "1""#,
                r#"spec.c[0].image: Some("\"y\"") "x""#,
                r#"spec.l: Some("[1]") [1,2]"#,
                r#"spec.replicas: Some("3") 2"#,
            ]
        );
    }
}
