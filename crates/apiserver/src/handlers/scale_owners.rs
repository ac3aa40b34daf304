//! Owners of the replicas, on a Scale and on the object behind it: the owners of one field there are the owners of
//! `spec.replicas` here.

use apimachinery::object::ObjectTree as _;
use serde_json::{Value, json};

/// The version in which a Scale's owners are recorded.
const SCALE: &str = "autoscaling/v1";

/// The field of the object that a Scale sets.
pub(super) struct Replicas<'a> {
    /// Dotted, as `.spec.replicas`.
    pub path: &'a str,
    /// The object's version.
    pub api_version: &'a str,
}

impl Replicas<'_> {
    fn names(&self) -> Vec<String> {
        self.path.split('.').filter(|part| !part.is_empty()).map(|part| format!("f:{part}")).collect()
    }

    /// The set that holds this field alone.
    fn set(&self) -> Value {
        self.names().into_iter().rev().fold(json!({}), |below, name| json!({name: below}))
    }

    fn is_in(&self, fields: &Value) -> bool {
        self.names().iter().try_fold(fields, |at, name| at.get(name)).is_some()
    }
}

fn entries(object: &Value) -> Vec<Value> {
    object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default()
}

fn same(a: &Value, b: &Value) -> bool {
    ["manager", "operation", "subresource"].iter().all(|key| a.get(*key) == b.get(*key))
}

/// Gives the Scale the owners of the object's replicas.
pub(super) fn show(object: &Value, scale: &mut Value, replicas: &Replicas<'_>) {
    let mut owners = entries(object);
    owners.retain(|entry| replicas.is_in(&entry["fieldsV1"]));
    for entry in &mut owners {
        entry["apiVersion"] = SCALE.into();
        entry["fieldsV1"] = json!({"f:spec": {"f:replicas": {}}});
    }
    if !owners.is_empty() {
        scale["metadata"]["managedFields"] = owners.into();
    }
}

/// Transfers the ownership of the object's replicas to the owners of the Scale, and removes it from others.
pub(super) fn transfer(scale: &Value, object: &mut Value, replicas: &Replicas<'_>) {
    let shown = Replicas { path: ".spec.replicas", api_version: SCALE };
    let mut owners = entries(scale);
    owners.retain(|entry| shown.is_in(&entry["fieldsV1"]));
    let mut kept = Vec::new();
    for mut entry in entries(object) {
        if replicas.is_in(&entry["fieldsV1"]) && !owners.iter().any(|owner| same(owner, &entry)) {
            remove(&mut entry["fieldsV1"], &replicas.names());
            if entry["fieldsV1"].as_object().is_none_or(serde_json::Map::is_empty) {
                continue;
            }
        }
        kept.push(entry);
    }
    for mut owner in owners {
        match kept.iter_mut().find(|entry| same(entry, &owner)) {
            // Only the Scale is written through the Scale, so the entry has no other fields.
            Some(entry) if replicas.is_in(&entry["fieldsV1"]) => {
                if owner["subresource"] == "scale" {
                    entry["time"] = owner["time"].take();
                }
            }
            _ => {
                owner["apiVersion"] = replicas.api_version.into();
                owner["fieldsV1"] = replicas.set();
                kept.push(owner);
            }
        }
    }
    if let Some(metadata) = object.metadata_mut() {
        // As upstream, owners without a time are the first of their operation.
        kept.sort_by_key(|entry| (entry["operation"] != "Apply", !entry["time"].is_null()));
        metadata.insert("managedFields".into(), kept.into());
    }
}

/// Removes a field from a set, and sets that become empty.
fn remove(fields: &mut Value, names: &[String]) {
    let (Some(map), [name, below @ ..]) = (fields.as_object_mut(), names) else { return };
    if let Some(found) = map.get_mut(name).filter(|_| !below.is_empty()) {
        remove(found, below);
        if found.as_object().is_some_and(|left| !left.is_empty()) {
            return;
        }
    }
    map.remove(name);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, subresource: &str, fields: &Value) -> Value {
        let mut entry = json!({"manager": manager, "operation": "Update", "apiVersion": "apps/v1", "fieldsV1": fields});
        if !subresource.is_empty() {
            entry["subresource"] = subresource.into();
        }
        entry
    }

    #[test]
    fn scaling_moves_the_ownership_of_replicas() {
        let replicas = Replicas { path: ".spec.replicas", api_version: "apps/v1" };
        let both = json!({"f:spec": {"f:replicas": {}, "f:paused": {}}});
        let mut object =
            json!({"metadata": {"managedFields": [entry("a", "", &both), entry("b", "", &json!({"f:x": {}}))]}});
        let mut scale = json!({"metadata": {}});
        show(&object, &mut scale, &replicas);
        assert_eq!(
            scale["metadata"]["managedFields"],
            json!([{"manager": "a", "operation": "Update",
            "apiVersion": SCALE, "fieldsV1": {"f:spec": {"f:replicas": {}}}}])
        );
        let before = object.clone();
        transfer(&scale, &mut object, &replicas);
        assert_eq!(object, before, "nothing was written");

        let mut taken = entry("c", "scale", &json!({"f:spec": {"f:replicas": {}}}));
        taken["apiVersion"] = SCALE.into();
        scale["metadata"]["managedFields"] = json!([taken]);
        transfer(&scale, &mut object, &replicas);
        let expected = json!([
            entry("a", "", &json!({"f:spec": {"f:paused": {}}})),
            entry("b", "", &json!({"f:x": {}})),
            entry("c", "scale", &json!({"f:spec": {"f:replicas": {}}}))
        ]);
        assert_eq!(object["metadata"]["managedFields"], expected);
    }
}
