//! OverridePolicy and ClusterOverridePolicy.

use std::collections::BTreeMap;

use apimachinery::meta::{ObjectMeta, null_as_default};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::crd::schema;
use crate::policy::v1alpha1::ClusterAffinity;
use crate::policy::v1alpha1::ResourceSelector;

crate::api_type!(OverridePolicy, "policy.karmada.io", "v1alpha1", "overridepolicies", true);
crate::api_type!(ClusterOverridePolicy, "policy.karmada.io", "v1alpha1", "clusteroverridepolicies", false);

/// Changes resource templates of its namespace for some clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OverridePolicy {
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Standard metadata.
    #[schemars(with = "schema::ObjectMeta")]
    pub metadata: ObjectMeta,
    /// Override rules.
    #[schemars(extend("x-required" = true))]
    pub spec: OverrideSpec,
}

/// Changes resource templates of any scope for some clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterOverridePolicy {
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Standard metadata.
    #[schemars(with = "schema::ObjectMeta")]
    pub metadata: ObjectMeta,
    /// Override rules.
    #[schemars(extend("x-required" = true))]
    pub spec: OverrideSpec,
}

/// Which templates are changed, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OverrideSpec {
    /// Ordered rules.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub override_rules: Vec<RuleWithCluster>,
    /// Deprecated, same.
    pub overriders: Overriders,
    /// Templates concerned; empty or Absent: every template (match strength 1).
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub resource_selectors: Vec<ResourceSelector>,
    /// Deprecated; with `overriders` forms one implicit rule when overrideRules is empty. Must not be set together with
    /// overrideRules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<ClusterAffinity>,
}

/// Changes for some clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RuleWithCluster {
    /// Changes to one copy of a template. They run in the order image, command, args, labels, annotations, field,
    /// plaintext.
    #[schemars(extend("x-required" = true))]
    pub overriders: Overriders,
    /// Clusters concerned; Absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<ClusterAffinity>,
}

/// Changes to one copy of a template. They run in the order image, command, args, labels, annotations, field,
/// plaintext.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Overriders {
    /// Rules for `metadata.annotations` (any kind).
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub annotations_overrider: Vec<LabelAnnotationOverrider>,
    /// Rules for container `args` of the same six kinds.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub args_overrider: Vec<CommandArgsOverrider>,
    /// Rules for container `command` of the same six kinds.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub command_overrider: Vec<CommandArgsOverrider>,
    /// Edits inside a string field that itself holds a JSON or YAML document (ConfigMap keys and the like).
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub field_overrider: Vec<FieldOverrider>,
    /// Edits of image references of the form `[registry/]repository[:tag|@digest]`.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub image_overrider: Vec<ImageOverrider>,
    /// Rules for `metadata.labels` (any kind).
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub labels_overrider: Vec<LabelAnnotationOverrider>,
    /// Raw JSON-patch operations on the whole object, all sent as one patch.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub plaintext: Vec<PlaintextOverrider>,
}

/// A change to labels or annotations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelAnnotationOverrider {
    /// `add` sets (overwrites too, creates the map if absent), `replace` sets only keys that exist, `remove` deletes
    /// only keys that exist (value text is not compared).
    #[schemars(extend("x-required" = true))]
    pub operator: OverriderOperator,
    /// Key/value pairs; must be valid labels (webhook, only inside overrideRules).
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub value: BTreeMap<String, String>,
}

/// A change to the command or the arguments of a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CommandArgsOverrider {
    /// Container to edit (exact name; every container with that name).
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub container_name: String,
    /// `add` appends the values (creating the list if absent), `remove` drops every element equal to one of the values.
    #[schemars(extend("x-required" = true))]
    pub operator: ContainerOperator,
    /// Values; empty leaves the list unchanged.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub value: Vec<String>,
}

/// A change inside a string that itself holds a JSON or YAML document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldOverrider {
    /// RFC 6901 pointer to the string field. Missing path or non-string value is an error for the whole Work.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub field_path: String,
    /// JSON-patch style operations; exactly one of json/yaml must be non-empty.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub json: Vec<FieldPatchOperation>,
    /// As json, but the text is converted YAML→JSON, patched, converted back (key order and comments are lost). If both
    /// were present yaml would win.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub yaml: Vec<FieldPatchOperation>,
}

/// One operation of a JSON patch inside an embedded document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldPatchOperation {
    /// Standard JSON-patch op.
    #[schemars(extend("x-required" = true))]
    pub operator: OverriderOperator,
    /// RFC 6901 pointer inside the embedded document.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub sub_path: String,
    /// Any JSON; required for add/replace, must be absent (or null) for remove.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::AnyValue")]
    pub value: Option<Value>,
}

/// A change to one part of an image reference.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageOverrider {
    /// `Registry`, `Repository` or `Tag` (Tag also covers digests).
    #[schemars(extend("x-required" = true))]
    pub component: ImageComponent,
    /// `add` appends the value to the component's current text (no separator is inserted), `replace` sets it, `remove`
    /// clears it.
    #[schemars(extend("x-required" = true))]
    pub operator: OverriderOperator,
    /// Absent: all entries of `containers` (not initContainers) of kinds Pod (`/spec/containers/<i>/image`) and
    /// ReplicaSet, Deployment, DaemonSet, StatefulSet, Job (`/spec/template/spec/containers/<i>/image`); other kinds
    /// are left alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicate: Option<ImagePredicate>,
    /// Text for add/replace; ignored for remove. Registry = first path segment if it contains `.` or `:` or equals
    /// `localhost`.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub value: String,
}

/// Where the image reference is found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ImagePredicate {
    /// One JSON pointer to a string; the single image at this path is edited. Must start with `/`.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub path: String,
}

/// One operation of a JSON patch on the whole object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlaintextOverrider {
    /// Standard JSON-patch op.
    #[schemars(extend("x-required" = true))]
    pub operator: OverriderOperator,
    /// RFC 6901 pointer.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub path: String,
    /// Any JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::AnyValue")]
    pub value: Option<Value>,
}

/// What an override does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OverriderOperator {
    #[default]
    Add,
    Remove,
    Replace,
}

/// What an override does to a command or to arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ContainerOperator {
    #[default]
    Add,
    Remove,
}

/// A part of an image reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ImageComponent {
    #[default]
    Registry,
    Repository,
    Tag,
}
