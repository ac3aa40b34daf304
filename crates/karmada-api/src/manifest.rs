//! Converts a template to the manifest in a Work: drops fields, and records which labels and annotations the template
//! owns.
//!
//! Controllers and the admission of Works run the same functions, so a controller's output is stored byte for byte, and
//! no second write follows.

use serde_json::{Map, Value};

use crate::constants::{annotations, labels};

/// Metadata that belongs to one API server.
const METADATA: &[&str] = &[
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
    "ownerReferences",
    "finalizers",
];

/// The node that a claim waits for; empty for none.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Drops fields that must not be propagated between clusters. Special rules apply by kind, in any group.
pub fn prune(object: &mut Value) {
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
    }
    remove(object, &["metadata"], METADATA);
    remove(object, &["metadata", "annotations"], &[annotations::MARK]);
    match object["kind"].as_str() {
        Some("Deployment") => remove(
            object,
            &["metadata", "annotations"],
            &["deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history"],
        ),
        Some("Job") => prune_job(object),
        Some("Secret") if object["type"] == "kubernetes.io/service-account-token" => {
            remove(object, &["metadata", "annotations"], &["kubernetes.io/service-account.uid"]);
            object["data"] = Value::Null;
        }
        Some("ServiceAccount") => prune_service_account(object),
        Some("Service") if object["spec"]["clusterIP"] != "None" && !object["spec"]["clusterIP"].is_null() => {
            remove(object, &["spec"], &["clusterIP", "clusterIPs"]);
        }
        Some("PersistentVolumeClaim") if object["metadata"]["annotations"][SELECTED_NODE] != "" => {
            remove(object, &["metadata", "annotations"], &[SELECTED_NODE]);
        }
        _ => {}
    }
}

/// Drops the TTL of a Job in a Work: the member would delete the Job, and its status would be lost.
pub fn prune_for_work(object: &mut Value) {
    prune(object);
    if object["kind"] == "Job" {
        remove(object, &["spec"], &["ttlSecondsAfterFinished"]);
    }
}

fn prune_job(object: &mut Value) {
    if object["spec"]["manualSelector"] == true {
        return;
    }
    const SELECTOR: &[&str] = &["controller-uid", "batch.kubernetes.io/controller-uid"];
    remove(object, &["spec", "selector", "matchLabels"], SELECTOR);
    let labels = ["spec", "template", "metadata", "labels"];
    remove(object, &labels, SELECTOR);
    remove(object, &labels, &["job-name", "batch.kubernetes.io/job-name"]);
}

/// Tokens of the control plane are invalid in member clusters.
fn prune_service_account(object: &mut Value) {
    let prefix = format!("{}-token-", object["metadata"]["name"].as_str().unwrap_or_default());
    if let Some(secrets) = object.get_mut("secrets").and_then(Value::as_array_mut) {
        secrets.retain(|secret| !secret["name"].as_str().is_some_and(|name| name.starts_with(&prefix)));
    }
}

fn remove(object: &mut Value, path: &[&str], keys: &[&str]) {
    let parent = path.iter().try_fold(object, |value, key| value.get_mut(*key));
    if let Some(map) = parent.and_then(Value::as_object_mut) {
        for key in keys {
            map.remove(*key);
        }
    }
}

/// The labels or annotations of an object, added if absent.
pub fn metadata_map<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    let metadata = child(made_object(object), "metadata");
    child(metadata, field)
}

fn child<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    // Not `entry`, which copies the key of a present member too.
    if !map.contains_key(key) {
        map.insert(key.to_owned(), Value::Null);
    }
    made_object(&mut map[key])
}

fn made_object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("made an object above")
}

/// Records which annotations and labels of the manifest the template owns, so that a removed one is removed in the
/// member too. `work_id` is the Work's permanent id, empty before it has one; its label counts as owned.
pub fn record_managed(object: &mut Value, work_id: &str) {
    let map = metadata_map(object, "annotations");
    // Both records name themselves, also where one is written for the first time.
    for record in [annotations::MANAGED_ANNOTATIONS, annotations::MANAGED_LABELS] {
        if !map.contains_key(record) {
            map.insert(record.to_owned(), Value::Null);
        }
    }
    let keys = joined(map);
    map[annotations::MANAGED_ANNOTATIONS] = Value::String(keys);
    if !work_id.is_empty() {
        metadata_map(object, "labels").insert(labels::WORK_ID.to_owned(), Value::String(work_id.to_owned()));
    }
    let keys = object["metadata"]["labels"].as_object().map(joined).unwrap_or_default();
    metadata_map(object, "annotations")[annotations::MANAGED_LABELS] = Value::String(keys);
}

/// The keys, sorted as the map is.
fn joined(map: &Map<String, Value>) -> String {
    let mut text = String::with_capacity(map.keys().map(|key| key.len() + 1).sum());
    for key in map.keys() {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(key);
    }
    text
}

/// Applies all of admission's changes to a Work's manifest.
pub fn prepare(object: &mut Value, work_id: &str) {
    prune_for_work(object);
    record_managed(object, work_id);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn server_populated_fields_are_pruned() {
        for (before, after) in [
            (
                json!({"kind": "Deployment", "metadata": {"name": "a", "uid": "u", "resourceVersion": "1", "annotations": {"deployment.kubernetes.io/revision": "1", "k": "v"}}, "status": {}}),
                json!({"kind": "Deployment", "metadata": {"name": "a", "annotations": {"k": "v"}}}),
            ),
            (
                json!({"kind": "Service", "spec": {"clusterIP": "1.2.3.4", "clusterIPs": ["1.2.3.4"], "ports": []}}),
                json!({"kind": "Service", "spec": {"ports": []}}),
            ),
            (
                json!({"kind": "Service", "spec": {"clusterIP": "None"}}),
                json!({"kind": "Service", "spec": {"clusterIP": "None"}}),
            ),
            (
                json!({"kind": "Job", "spec": {"ttlSecondsAfterFinished": 1, "selector": {"matchLabels": {"controller-uid": "x"}}, "template": {"metadata": {"labels": {"job-name": "x", "k": "v"}}}}}),
                json!({"kind": "Job", "spec": {"selector": {"matchLabels": {}}, "template": {"metadata": {"labels": {"k": "v"}}}}}),
            ),
            (
                json!({"kind": "ServiceAccount", "metadata": {"name": "sa"}, "secrets": [{"name": "sa-token-1"}, {"name": "sa-token-2"}, {"name": "x"}]}),
                json!({"kind": "ServiceAccount", "metadata": {"name": "sa"}, "secrets": [{"name": "x"}]}),
            ),
            (
                json!({"kind": "Job", "spec": {"manualSelector": true, "ttlSecondsAfterFinished": 1, "selector": {"matchLabels": {"controller-uid": "x"}}}}),
                json!({"kind": "Job", "spec": {"manualSelector": true, "selector": {"matchLabels": {"controller-uid": "x"}}}}),
            ),
            (
                json!({"kind": "PersistentVolumeClaim", "metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n", "k": "v"}}}),
                json!({"kind": "PersistentVolumeClaim", "metadata": {"annotations": {"k": "v"}}}),
            ),
            (
                json!({"kind": "PersistentVolumeClaim", "metadata": {"annotations": {"volume.kubernetes.io/selected-node": ""}}}),
                json!({"kind": "PersistentVolumeClaim", "metadata": {"annotations": {"volume.kubernetes.io/selected-node": ""}}}),
            ),
            (
                json!({"kind": "ConfigMap", "metadata": {"generateName": "g-", "selfLink": "x", "generation": 3, "deletionTimestamp": "x",
                    "deletionGracePeriodSeconds": 1, "creationTimestamp": "x", "managedFields": [], "ownerReferences": [], "finalizers": []}}),
                json!({"kind": "ConfigMap", "metadata": {"generateName": "g-"}}),
            ),
            (
                json!({"kind": "Secret", "type": "Opaque", "data": {"token": "x"}}),
                json!({"kind": "Secret", "type": "Opaque", "data": {"token": "x"}}),
            ),
            (
                json!({"kind": "Secret", "type": "kubernetes.io/service-account-token", "data": {"token": "x"}}),
                json!({"kind": "Secret", "type": "kubernetes.io/service-account-token", "data": null}),
            ),
        ] {
            let mut object = before;
            prune_for_work(&mut object);
            assert_eq!(object, after);
        }
    }

    #[test]
    fn the_record_has_every_key_and_is_stable() {
        let mut object = json!({"kind": "ConfigMap", "metadata": {"annotations": {"a": "1"}}});
        prepare(&mut object, "id-1");
        let annotations = &object["metadata"]["annotations"];
        assert_eq!(
            annotations["resourcetemplate.karmada.io/managed-annotations"],
            "a,resourcetemplate.karmada.io/managed-annotations,resourcetemplate.karmada.io/managed-labels"
        );
        assert_eq!(annotations["resourcetemplate.karmada.io/managed-labels"], "work.karmada.io/permanent-id");
        let once = object.clone();
        prepare(&mut object, "id-1");
        assert_eq!(object, once);
    }
}
