//! The two data source fields of a claim: `dataSource` and the newer, more general `dataSourceRef`.

use serde_json::Value;

const OLD: &str = "dataSource";
const NEW: &str = "dataSourceRef";

/// If one field is set, the other one follows it. `dataSource` is set only with the kinds it permits; existing claims
/// keep the fields they have.
pub(super) fn normalize(old: &Value, claim: &mut Value) {
    let had = [OLD, NEW].iter().any(|field| !old["spec"][*field].is_null());
    let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if !had {
        // Data sources in other namespaces are not supported yet.
        if let Some(source) = spec.get_mut(NEW).and_then(Value::as_object_mut) {
            source.remove("namespace");
        }
        if spec.get(OLD).is_some_and(|source| !is_simple(source)) {
            spec.remove(OLD);
        }
    }
    let of = |field: &str| spec.get(field).filter(|source| source.is_object()).cloned();
    match (of(OLD), of(NEW)) {
        (Some(source), None) => drop(spec.insert(NEW.to_owned(), source)),
        (None, Some(source)) if source["namespace"].as_str().unwrap_or_default().is_empty() => {
            let mut source = source;
            if let Some(source) = source.as_object_mut() {
                source.remove("namespace");
            }
            spec.insert(OLD.to_owned(), source);
        }
        _ => {}
    }
}

/// A claim or a snapshot.
fn is_simple(source: &Value) -> bool {
    let part = |field: &str| source[field].as_str().unwrap_or_default();
    matches!(
        (part("apiGroup"), part("kind")),
        ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_data_source_fields_are_set() {
        let claim = json!({"kind": "PersistentVolumeClaim", "name": "a"});
        let other = json!({"apiGroup": "g.io", "kind": "K", "name": "a"});
        let far = json!({"apiGroup": "g.io", "kind": "K", "name": "a", "namespace": "n"});
        let nothing = json!({});
        for (old, input, expected) in [
            (&nothing, json!({OLD: claim}), json!({OLD: claim, NEW: claim})),
            (&nothing, json!({OLD: other}), json!({})),
            (&nothing, json!({NEW: other}), json!({OLD: other, NEW: other})),
            (&nothing, json!({NEW: far}), json!({OLD: other, NEW: other})),
            (&json!({OLD: other}), json!({OLD: other}), json!({OLD: other, NEW: other})),
            (&json!({NEW: far}), json!({NEW: far}), json!({NEW: far})),
        ] {
            let mut claim = json!({"spec": input});
            normalize(&json!({"spec": old}), &mut claim);
            assert_eq!(claim["spec"], expected, "{input}");
        }
    }
}
