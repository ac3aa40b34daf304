//! Redaction of recorded objects. Upstream records the objects that a policy selects, including secrets; here the
//! values of Secrets and tokens never reach an audit log, regardless of the policy.

use apimachinery::object::ObjectTree as _;
use serde_json::Value;

use crate::event::ObjectReference;

/// The replacement of secret values.
const REDACTED: &str = "REDACTED";

/// `kubectl apply` repeats the whole object in it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Replaces secret values in an object, a list, or a patch of the resource that `about` names: the data of Secrets,
/// wherever they are embedded (Lists, Works), tokens in reviews and token requests.
pub fn redact(tree: &mut Value, about: &ObjectReference) {
    let is = |group: &str, resource: &str| about.api_group == group && about.resource == resource;
    if is("", "secrets") {
        secret(tree);
    }
    if is("authentication.k8s.io", "tokenreviews") {
        replace(tree, &["spec", "token"]);
    }
    if is("", "serviceaccounts") && about.subresource == "token" {
        replace(tree, &["status", "token"]);
    }
    embedded(tree);
}

fn replace(tree: &mut Value, path: &[&str]) {
    let found = path.iter().try_fold(tree, |tree, field| tree.get_mut(*field));
    if let Some(found) = found.filter(|found| !found.is_null()) {
        *found = Value::from(REDACTED);
    }
}

/// A Secret, a list or a table of Secrets, or a patch of one.
fn secret(tree: &mut Value) {
    match tree {
        // A JSON patch.
        Value::Array(operations) => operations.iter_mut().for_each(|operation| replace(operation, &["value"])),
        Value::Object(map) => {
            for field in ["data", "stringData"] {
                if let Some(values) = map.get_mut(field) {
                    values_of(values);
                }
            }
            if let Some(annotations) = map.get_mut("metadata").and_then(|it| it.get_mut("annotations")) {
                replace(annotations, &[LAST_APPLIED]);
            }
            if let Some(Value::Array(items)) = map.get_mut("items") {
                items.iter_mut().for_each(secret);
            }
            if let Some(Value::Array(rows)) = map.get_mut("rows") {
                rows.iter_mut().filter_map(|row| row.get_mut("object")).for_each(secret);
            }
        }
        _ => {}
    }
}

/// The keys are recorded; they are not secret.
fn values_of(values: &mut Value) {
    match values {
        Value::Object(map) => {
            map.values_mut().filter(|value| !value.is_null()).for_each(|value| *value = Value::from(REDACTED))
        }
        Value::Null => {}
        other => *other = Value::from(REDACTED),
    }
}

/// Secrets within other objects, and JSON patches that may write into one.
fn embedded(tree: &mut Value) {
    match tree {
        Value::Object(map) => {
            if map.get("kind").and_then(Value::as_str).is_some_and(|kind| matches!(kind, "Secret" | "SecretList")) {
                return secret(tree);
            }
            let into_manifest = |path: &Value| path.as_str().is_some_and(|path| path.contains("/manifests/"));
            if map.contains_key("op") && map.get("path").is_some_and(into_manifest) {
                return replace(tree, &["value"]);
            }
            if let Some(applied) = map.get_mut(LAST_APPLIED) {
                last_applied(applied);
            }
            map.values_mut().for_each(embedded);
        }
        Value::Array(items) => items.iter_mut().for_each(embedded),
        _ => {}
    }
}

/// An object within the text of an annotation.
fn last_applied(text: &mut Value) {
    let Some(object) = text.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok()) else { return };
    let mut redacted = object.clone();
    embedded(&mut redacted);
    if redacted != object {
        *text = Value::from(redacted.to_string());
    }
}

/// Removes `metadata.managedFields` from an object and from the items of a list.
pub fn omit_managed_fields(tree: &mut Value) {
    let remove = |object: &mut Value| {
        if let Some(metadata) = object.metadata_mut() {
            metadata.remove("managedFields");
        }
    };
    remove(tree);
    if let Some(Value::Array(items)) = tree.get_mut("items") {
        items.iter_mut().for_each(remove);
    }
    if let Some(Value::Array(rows)) = tree.get_mut("rows") {
        rows.iter_mut().filter_map(|row| row.get_mut("object")).for_each(remove);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn about(group: &str, resource: &str, subresource: &str) -> ObjectReference {
        ObjectReference {
            api_group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            ..ObjectReference::default()
        }
    }

    #[test]
    fn no_secret_value_is_left() {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "annotations": {
            LAST_APPLIED: r#"{"kind":"Secret","stringData":{"p":"hidden"}}"#}}, "data": {"p": "hidden"}, "stringData": {"q": "hidden"}});
        let bare = json!({"metadata": {"name": "s"}, "data": {"p": "hidden"}});
        let works = json!({"kind": "Work", "spec": {"workload": {"manifests": [secret, {"kind": "ConfigMap", "data": {"a": "shown"}}]}}});
        let applied = json!({"kind": "Work", "metadata": {"annotations": {LAST_APPLIED: works.to_string()}}});
        for (of, tree) in [
            (about("", "secrets", ""), secret.clone()),
            (about("", "secrets", ""), json!({"kind": "SecretList", "items": [bare]})),
            (about("", "secrets", ""), json!({"kind": "Table", "rows": [{"cells": ["s"], "object": bare}]})),
            (about("", "secrets", ""), json!({"data": {"p": "hidden"}})),
            (about("", "secrets", ""), json!({"data": "hidden"})),
            (about("", "secrets", ""), json!([{"op": "add", "path": "/data/p", "value": "hidden"}])),
            (about("", "configmaps", ""), json!({"kind": "List", "items": [secret]})),
            (about("work.karmada.io", "works", ""), works.clone()),
            (about("work.karmada.io", "works", ""), json!({"kind": "WorkList", "items": [works]})),
            (about("work.karmada.io", "works", ""), applied),
            (
                about("work.karmada.io", "works", ""),
                json!([{"op": "replace", "path": "/spec/workload/manifests/0/data/p", "value": "hidden"}]),
            ),
            (
                about("authentication.k8s.io", "tokenreviews", ""),
                json!({"kind": "TokenReview", "spec": {"token": "hidden"}}),
            ),
            (about("", "serviceaccounts", "token"), json!({"kind": "TokenRequest", "status": {"token": "hidden"}})),
        ] {
            let mut redacted = tree.clone();
            redact(&mut redacted, &of);
            assert!(!redacted.to_string().contains("hidden"), "{redacted}");
            assert_eq!(redacted.to_string().contains("shown"), tree.to_string().contains("shown"), "{redacted}");
        }
    }

    #[test]
    fn fields_without_secrets_are_unchanged() {
        let tree = json!({"kind": "ConfigMap", "data": {"a": "b"}, "metadata": {"annotations": {LAST_APPLIED: "{ \"data\": {}}"}}});
        let mut same = tree.clone();
        redact(&mut same, &about("", "configmaps", ""));
        assert_eq!(same, tree);
        let mut keys = json!({"kind": "Secret", "type": "Opaque", "data": {"p": "x", "q": null}});
        redact(&mut keys, &about("", "secrets", ""));
        assert_eq!(keys, json!({"kind": "Secret", "type": "Opaque", "data": {"p": REDACTED, "q": null}}));
    }

    #[test]
    fn managed_fields_are_removed_from_objects_and_lists() {
        let object = || json!({"metadata": {"name": "a", "managedFields": [{}]}});
        let mut list = json!({"items": [object()], "rows": [{"object": object()}], "metadata": {"managedFields": []}});
        omit_managed_fields(&mut list);
        assert!(!list.to_string().contains("managedFields"), "{list}");
    }
}
