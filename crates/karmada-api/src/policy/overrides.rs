//! OverridePolicy and ClusterOverridePolicy.

use std::collections::BTreeMap;

use apimachinery::meta::{ObjectMeta, null_as_default};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::crd::JsonSchema;
#[cfg(test)]
use crate::crd::schema;
use crate::policy::v1alpha1::ClusterAffinity;
use crate::policy::v1alpha1::ResourceSelector;

crate::api_type!(OverridePolicy, "policy.karmada.io", "v1alpha1", "overridepolicies", true);
crate::api_type!(ClusterOverridePolicy, "policy.karmada.io", "v1alpha1", "clusteroverridepolicies", false);

/// Changes resource templates of its namespace for certain clusters.
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
    /// The selected templates, and the changes.
    #[schemars(extend("x-required" = true))]
    pub spec: OverrideSpec,
}

/// Changes resource templates of any scope for certain clusters.
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
    /// The selected templates, and the changes.
    #[schemars(extend("x-required" = true))]
    pub spec: OverrideSpec,
}

/// The selected templates, and the changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OverrideSpec {
    /// Changes for certain clusters; all rules that match a cluster apply, in order.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub override_rules: Vec<RuleWithCluster>,
    /// Deprecated: use overrideRules. The changes for targetCluster, when overrideRules is absent.
    pub overriders: Overriders,
    /// The templates to change. Absent or empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub resource_selectors: Vec<ResourceSelector>,
    /// Deprecated: use overrideRules. The clusters that overriders apply to. Must not be set together with
    /// overrideRules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<ClusterAffinity>,
}

/// Changes for certain clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RuleWithCluster {
    /// Changes to a template for a cluster. They apply in the order image, command, args, labels, annotations, field,
    /// plaintext.
    #[schemars(extend("x-required" = true))]
    pub overriders: Overriders,
    /// The clusters that the changes apply to. Absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<ClusterAffinity>,
}

/// Changes to a template for a cluster. They apply in the order image, command, args, labels, annotations, field,
/// plaintext.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Overriders {
    /// Changes to annotations, of objects of any kind.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub annotations_overrider: Vec<LabelAnnotationOverrider>,
    /// Changes to the arguments of containers: of Pods, ReplicaSets, Deployments, DaemonSets, StatefulSets and Jobs.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub args_overrider: Vec<CommandArgsOverrider>,
    /// Changes to the command of containers: of Pods, ReplicaSets, Deployments, DaemonSets, StatefulSets and Jobs.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub command_overrider: Vec<CommandArgsOverrider>,
    /// Changes inside a string that contains a JSON or YAML document, such as a key of a ConfigMap.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub field_overrider: Vec<FieldOverrider>,
    /// Changes to image references, which have the form `[registry/]repository[:tag|@digest]`.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub image_overrider: Vec<ImageOverrider>,
    /// Changes to labels, of objects of any kind.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub labels_overrider: Vec<LabelAnnotationOverrider>,
    /// Operations of one JSON patch (RFC 6902) on the whole object.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub plaintext: Vec<PlaintextOverrider>,
}

/// A change to labels or annotations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelAnnotationOverrider {
    /// `add` sets keys, whether they exist or not; `replace` sets existing keys; `remove` removes keys, whatever their
    /// values.
    #[schemars(extend("x-required" = true))]
    pub operator: OverriderOperator,
    /// The keys with their values.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub value: BTreeMap<String, String>,
}

/// A change to the command or the arguments of a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CommandArgsOverrider {
    /// Name of the container to change.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub container_name: String,
    /// `add` appends the values; `remove` removes every item that equals one of them.
    #[schemars(extend("x-required" = true))]
    pub operator: ContainerOperator,
    /// The items. Empty: no change.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub value: Vec<String>,
}

/// A change inside a string that contains a JSON or YAML document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldOverrider {
    /// Path of the string as a JSON pointer (RFC 6901), such as /data/config.yaml. It is an error if the string does
    /// not exist.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub field_path: String,
    /// Operations on a JSON document. Exactly one of json and yaml is required.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub json: Vec<FieldPatchOperation>,
    /// Operations on a YAML document; its comments and the order of its keys are lost. Exactly one of json and yaml is
    /// required.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub yaml: Vec<FieldPatchOperation>,
}

/// One operation of a JSON patch inside an embedded document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldPatchOperation {
    /// The operation of the JSON patch: add, replace or remove.
    #[schemars(extend("x-required" = true))]
    pub operator: OverriderOperator,
    /// Path inside the document, as a JSON pointer (RFC 6901).
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub sub_path: String,
    /// The new value: any JSON. Required for add and replace, forbidden for remove.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::AnyValue")]
    pub value: Option<Value>,
}

/// A change to one part of an image reference.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageOverrider {
    /// The part to change: `Registry`, `Repository` or `Tag`; a digest counts as the tag.
    #[schemars(extend("x-required" = true))]
    pub component: ImageComponent,
    /// `add` appends the value to the part unchanged, without a separator; `replace` sets the part; `remove` removes
    /// it.
    #[schemars(extend("x-required" = true))]
    pub operator: OverriderOperator,
    /// The location of the image. Absent: every container, except init containers, of Pods, ReplicaSets, Deployments,
    /// DaemonSets, StatefulSets and Jobs; other kinds are unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicate: Option<ImagePredicate>,
    /// The text for add and replace. The registry is the part before the first slash, if it has a dot or a colon or is
    /// localhost.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub value: String,
}

/// The location of an image reference.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ImagePredicate {
    /// Path of the image to change, as a JSON pointer (RFC 6901), such as /spec/template/spec/containers/0/image.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub path: String,
}

/// One operation of a JSON patch on the whole object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlaintextOverrider {
    /// The operation of the JSON patch: add, replace or remove.
    #[schemars(extend("x-required" = true))]
    pub operator: OverriderOperator,
    /// Path in the object, as a JSON pointer (RFC 6901).
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub path: String,
    /// The new value: any JSON. Required for add and replace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::AnyValue")]
    pub value: Option<Value>,
}

/// The operation of an override.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OverriderOperator {
    /// Sets or appends a value.
    #[default]
    Add,
    /// Removes a value.
    Remove,
    /// Replaces an existing value.
    Replace,
}

/// The operation of an override of a command or of arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ContainerOperator {
    /// Appends the values.
    #[default]
    Add,
    /// Removes the values.
    Remove,
}

/// A part of an image reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ImageComponent {
    /// The registry's host and port.
    #[default]
    Registry,
    /// The path without registry and tag.
    Repository,
    /// The tag or the digest.
    Tag,
}
