//! Objects in the form for comparison: without server-populated fields and without the values of Secrets.

use apimachinery::object::ObjectTree as _;
use serde_json::{Map, Value, json};

/// Fields of the metadata that the API server alone writes.
const SERVERS: [&str; 6] = ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"];
/// kubectl stores a copy of the whole object here.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The two sides as texts.
pub fn texts(before: Option<&Value>, after: Option<&Value>) -> (String, String) {
    let tidy = |object: Option<&Value>| object.map(tidied);
    let (mut before, mut after) = (tidy(before), tidy(after));
    mask(before.as_mut(), after.as_mut());
    let text = |object: Option<Value>| object.map_or_else(String::new, |it| apimachinery::yaml::to_string(&it));
    (text(before), text(after))
}

fn tidied(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
    }
    let Some(metadata) = object.metadata_mut() else { return object };
    for field in SERVERS {
        metadata.remove(field);
    }
    for field in ["labels", "annotations"] {
        if let Some(map) = metadata.get_mut(field).and_then(Value::as_object_mut) {
            // Ids that are known only once the objects of the control plane exist.
            map.retain(|_, value| *value != "");
        }
    }
    metadata.retain(|_, value| {
        !value.is_null()
            && value.as_object().is_none_or(|map| !map.is_empty())
            && value.as_array().is_none_or(|list| !list.is_empty())
    });
    object
}

/// As kubectl masks: equal values, and those of one side, are `***`; different ones are marked by their side.
fn mask<'a>(mut before: Option<&'a mut Value>, mut after: Option<&'a mut Value>) {
    let is_secret = |it: &Option<&mut Value>| it.as_ref().is_some_and(|it| it["kind"] == "Secret");
    if !is_secret(&before) && !is_secret(&after) {
        return;
    }
    for field in ["data", "stringData"] {
        let values = |it: &Option<&mut Value>| -> Map<String, Value> {
            it.as_ref().and_then(|it| it[field].as_object()).cloned().unwrap_or_default()
        };
        let (old, new) = (values(&before), values(&after));
        let masked = |own: &Map<String, Value>, other: &Map<String, Value>, side: &str| -> Map<String, Value> {
            let one = |key: &String, value: &Value| match other.get(key) {
                Some(known) if known != value => json!(format!("*** ({side})")),
                _ => json!("***"),
            };
            own.iter().map(|(key, value)| (key.clone(), one(key, value))).collect()
        };
        for (side, own, other, word) in [(&mut before, &old, &new, "before"), (&mut after, &new, &old, "after")] {
            if let Some(object) = side.as_deref_mut().filter(|_| !own.is_empty()) {
                object[field] = Value::Object(masked(own, other, word));
            }
        }
    }
    for object in [before, after].into_iter().flatten() {
        if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
            && annotations.contains_key(LAST_APPLIED)
        {
            annotations.insert(LAST_APPLIED.to_owned(), json!("***"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_and_servers_fields_left_out() {
        let secret = |data: Value| {
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "uid": "u", "resourceVersion": "7",
                "labels": {"work.karmada.io/permanent-id": ""}, "annotations": {LAST_APPLIED: "{\"data\":{\"a\":\"MQ==\"}}"}},
                "data": data, "status": {}})
        };
        let (old, new) = (
            secret(json!({"a": "MQ==", "b": "Mg==", "c": "Mw=="})),
            secret(json!({"a": "MQ==", "b": "NA==", "d": "NQ=="})),
        );
        let (before, after) = texts(Some(&old), Some(&new));
        for text in [&before, &after] {
            for hidden in ["MQ==", "Mg==", "Mw==", "NA==", "NQ==", "uid", "resourceVersion", "status", "permanent-id"] {
                assert!(!text.contains(hidden), "{hidden}: {text}");
            }
        }
        assert!(before.contains("a: '***'") || before.contains("a: \"***\""), "{before}");
        assert!(before.contains("*** (before)") && after.contains("*** (after)"), "{before}{after}");
        assert!(before.contains("  c:") && !before.contains("  d:") && after.contains("  d:"), "{before}{after}");
        assert_eq!(texts(None, None), (String::new(), String::new()));
    }
}
