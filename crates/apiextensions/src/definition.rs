//! `apiextensions.k8s.io/v1` CustomResourceDefinition, typed. Schemas stay JSON here; [`crate::structural`] reads them.

use std::collections::BTreeMap;

use apimachinery::meta::{ObjectMeta, Time, null_as_default};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The finalizer that keeps a definition until its instances are deleted.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Protects the groups of the Kubernetes community.
pub const API_APPROVED_ANNOTATION: &str = "api-approved.kubernetes.io";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomResourceDefinition {
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "null_as_default")]
    pub spec: Spec,
    #[serde(deserialize_with = "null_as_default")]
    pub status: CrdStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversion: Option<Conversion>,
    pub group: String,
    #[serde(deserialize_with = "null_as_default")]
    pub names: Names,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub preserve_unknown_fields: bool,
    /// `Cluster` or `Namespaced`.
    pub scope: String,
    #[serde(deserialize_with = "null_as_default")]
    pub versions: Vec<Version>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Conversion {
    /// `None` or `Webhook`.
    pub strategy: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Names {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub categories: Vec<String>,
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub list_kind: String,
    pub plural: String,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub short_names: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub singular: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Version {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub additional_printer_columns: Vec<PrinterColumn>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deprecated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecation_warning: Option<String>,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Validation>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub selectable_fields: Vec<SelectableField>,
    pub served: bool,
    pub storage: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subresources: Option<Subresources>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Validation {
    #[serde(rename = "openAPIV3Schema", skip_serializing_if = "Option::is_none")]
    pub open_api_v3_schema: Option<Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PrinterColumn {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub format: String,
    pub json_path: String,
    pub name: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub priority: i32,
    #[serde(rename = "type")]
    pub type_: String,
}

fn is_zero(n: &i32) -> bool {
    *n == 0
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SelectableField {
    pub json_path: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Subresources {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<Scale>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<BTreeMap<String, Value>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Scale {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector_path: Option<String>,
    pub spec_replicas_path: String,
    pub status_replicas_path: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CrdStatus {
    #[serde(deserialize_with = "null_as_default")]
    pub accepted_names: Names,
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(deserialize_with = "null_as_default")]
    pub stored_versions: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    #[serde(rename = "type")]
    pub type_: String,
}

impl CustomResourceDefinition {
    /// Reads a definition from its tree.
    ///
    /// # Errors
    /// When a field has the wrong JSON type.
    pub fn from_value(value: &Value) -> Result<Self, serde_json::Error> {
        Self::deserialize(value)
    }

    pub fn storage_version(&self) -> Option<&Version> {
        self.spec.versions.iter().find(|version| version.storage)
    }

    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_)
    }

    pub fn condition_is_true(&self, type_: &str) -> bool {
        self.condition(type_).is_some_and(|condition| condition.status == "True")
    }
}

impl Version {
    pub fn json_schema(&self) -> Option<&Value> {
        self.schema.as_ref()?.open_api_v3_schema.as_ref()
    }

    pub fn scale(&self) -> Option<&Scale> {
        self.subresources.as_ref()?.scale.as_ref()
    }

    pub fn has_status(&self) -> bool {
        self.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some())
    }

    /// The paths of the fields that lists may be selected by.
    pub fn selectable_paths(&self) -> Vec<String> {
        self.selectable_fields.iter().map(|field| field.json_path.trim_start_matches('.').to_owned()).collect()
    }
}

/// Sets upstream's defaults on the tree: names, listKind, conversion, and on a first write the stored versions; and
/// removes fields that upstream omits.
pub fn default_definition(crd: &mut Value) {
    let storage = storage_version_name(crd);
    if let Some(metadata) = crd.get_mut("metadata").and_then(Value::as_object_mut) {
        crate::zeros::omit_in_metadata(metadata);
    }
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else { return };
    crate::zeros::omit(spec);
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        set_if_blank(names, "singular", &kind.to_lowercase());
        if !kind.is_empty() {
            set_if_blank(names, "listKind", &format!("{kind}List"));
        }
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".into(), serde_json::json!({"strategy": "None"}));
    }
    drop_empty_webhook(spec);
    default_webhook_port(spec);
    if let (Some(storage), Some(root)) = (storage, crd.as_object_mut()) {
        let status = root.entry("status").or_insert_with(|| serde_json::json!({}));
        if let Some(status) = status.as_object_mut() {
            let stored = status.entry("storedVersions").or_insert(Value::Null);
            if stored.as_array().is_none_or(Vec::is_empty) {
                *stored = serde_json::json!([storage]);
            }
            status.entry("conditions").or_insert(Value::Null);
            status.entry("acceptedNames").or_insert_with(|| serde_json::json!({"kind": "", "plural": ""}));
        }
    }
}

/// Upstream's internal type has no webhook without any of its fields.
fn drop_empty_webhook(spec: &mut serde_json::Map<String, Value>) {
    let is_blank = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    if let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_object_mut)
        && let Some(Value::Object(webhook)) = conversion.get("webhook")
        && webhook.values().all(is_blank)
    {
        conversion.remove("webhook");
    }
}

fn default_webhook_port(spec: &mut serde_json::Map<String, Value>) {
    let service = spec
        .get_mut("conversion")
        .and_then(|conversion| conversion.get_mut("webhook"))
        .and_then(|webhook| webhook.get_mut("clientConfig"))
        .and_then(|config| config.get_mut("service"))
        .and_then(Value::as_object_mut);
    if let Some(service) = service {
        service.entry("port").or_insert_with(|| Value::from(443));
    }
}

/// The version of a definition that objects are stored in.
pub(crate) fn storage_version_name(crd: &Value) -> Option<String> {
    let versions = crd.get("spec")?.get("versions")?.as_array()?;
    let storage = versions.iter().find(|version| version.get("storage") == Some(&Value::Bool(true)))?;
    storage.get("name")?.as_str().map(str::to_owned)
}

fn set_if_blank(map: &mut serde_json::Map<String, Value>, key: &str, text: &str) {
    if map.get(key).and_then(Value::as_str).is_none_or(str::is_empty) && !text.is_empty() {
        map.insert(key.to_owned(), Value::from(text));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_empty_webhook_and_empty_metadata_are_omitted() {
        let mut crd = json!({"metadata": {"name": "a", "labels": {}, "finalizers": [], "generateName": ""},
            "spec": {"names": {"kind": "A"}, "versions": [], "conversion": {"strategy": "None", "webhook": {}}}});
        default_definition(&mut crd);
        assert_eq!(crd["metadata"], json!({"name": "a"}));
        assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
    }
}
