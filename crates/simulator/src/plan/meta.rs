//! The metadata that plans use. Narrower than `apimachinery::meta::ObjectMeta`: managed fields, the largest part, are
//! not decoded.

use std::collections::BTreeMap;

use apimachinery::ObjectKey;
use apimachinery::meta::{OwnerReference, Time, null_as_default};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Meta {
    pub name: String,
    #[serde(deserialize_with = "null_as_default")]
    pub namespace: String,
    pub uid: String,
    pub resource_version: String,
    #[serde(deserialize_with = "null_as_default")]
    pub generation: i64,
    #[serde(deserialize_with = "null_as_default")]
    pub labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_as_default")]
    pub annotations: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_as_default")]
    pub finalizers: Vec<String>,
    pub creation_timestamp: Option<Time>,
    pub deletion_timestamp: Option<Time>,
    #[serde(deserialize_with = "null_as_default")]
    pub owner_references: Vec<OwnerReference>,
}

impl Meta {
    pub fn key(&self) -> ObjectKey {
        ObjectKey::namespaced(self.namespace.as_str(), self.name.as_str())
    }

    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    pub fn controller(&self) -> Option<&OwnerReference> {
        controller(&self.owner_references)
    }

    /// The number in an annotation, if there is one.
    pub fn number(&self, annotation: &str) -> Option<i64> {
        self.annotations.get(annotation)?.parse().ok()
    }

    /// Older objects first; within a second, by name.
    pub fn age_order(&self) -> (Option<Time>, &str) {
        (self.creation_timestamp, &self.name)
    }

    /// The owner reference of a dependent.
    pub fn owned_by_this(&self, api_version: &str, kind: &str) -> Value {
        json!([{"apiVersion": api_version, "kind": kind, "name": self.name, "uid": self.uid,
            "controller": true, "blockOwnerDeletion": true}])
    }

    /// The body of a status write. It includes the metadata that the status subresource of built-in kinds accepts: a
    /// write without it removes an object's labels and owners.
    pub fn with_status(&self, status: Value) -> Value {
        json!({"metadata": {"name": self.name, "namespace": self.namespace, "resourceVersion": self.resource_version,
                "labels": self.labels, "annotations": self.annotations, "finalizers": self.finalizers,
                "ownerReferences": self.owner_references},
            "status": status})
    }
}

/// The owner that controls the object.
pub(crate) fn controller(owners: &[OwnerReference]) -> Option<&OwnerReference> {
    owners.iter().find(|owner| owner.controller == Some(true))
}

/// The key of an object in tree form.
pub(crate) fn key_of(object: &Value) -> ObjectKey {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    ObjectKey::namespaced(text("namespace"), text("name"))
}
