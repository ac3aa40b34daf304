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
    /// Which templates are changed, and how.
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
    /// Which templates are changed, and how.
    #[schemars(extend("x-required" = true))]
    pub spec: OverrideSpec,
}

/// Which templates are changed, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OverrideSpec {
    /// Changes for some clusters each; those that fit a cluster are made one after another.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub override_rules: Vec<RuleWithCluster>,
    /// Deprecated: use overrideRules. The changes for targetCluster, when overrideRules is absent.
    pub overriders: Overriders,
    /// The templates that are changed. Absent or empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub resource_selectors: Vec<ResourceSelector>,
    /// Deprecated: use overrideRules. The clusters for which overriders holds. Must not be set together with
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
    /// The clusters whose copies are changed. Absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<ClusterAffinity>,
}

/// Changes to one copy of a template. They run in the order image, command, args, labels, annotations, field,
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
    /// Changes inside a string that itself holds a JSON or YAML document, such as a key of a ConfigMap.
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
    /// `add` sets keys, whether they exist or not; `replace` sets those that exist; `remove` takes keys away,
    /// whatever their values are.
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
    /// Name of the container that is changed.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub container_name: String,
    /// `add` appends the values; `remove` takes away every item that is one of them.
    #[schemars(extend("x-required" = true))]
    pub operator: ContainerOperator,
    /// The items. Empty: nothing is changed.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub value: Vec<String>,
}

/// A change inside a string that itself holds a JSON or YAML document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldOverrider {
    /// Where the string is, as a JSON pointer (RFC 6901) such as /data/config.yaml. It is an error if there is no
    /// string.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub field_path: String,
    /// Operations on a JSON document. Either these or yaml must be given.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub json: Vec<FieldPatchOperation>,
    /// Operations on a YAML document; its comments and the order of its keys are lost. Either these or json must be
    /// given.
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
    /// Where inside the document, as a JSON pointer (RFC 6901).
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
    /// The part that is changed: `Registry`, `Repository` or `Tag`; a digest counts as the tag.
    #[schemars(extend("x-required" = true))]
    pub component: ImageComponent,
    /// `add` appends the value to the part as it is, without a separator; `replace` sets the part; `remove` takes it
    /// away.
    #[schemars(extend("x-required" = true))]
    pub operator: OverriderOperator,
    /// Where the image is. Absent: every container, but no init container, of Pods, ReplicaSets, Deployments,
    /// DaemonSets, StatefulSets and Jobs; other kinds are not changed then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicate: Option<ImagePredicate>,
    /// The text for add and replace. The registry is what stands before the first slash, if it has a dot or a colon
    /// or is localhost.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub value: String,
}

/// Where the image reference is found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ImagePredicate {
    /// Where the one image is that is changed, as a JSON pointer (RFC 6901), such as
    /// /spec/template/spec/containers/0/image.
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
    /// Where in the object, as a JSON pointer (RFC 6901).
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub path: String,
    /// The new value: any JSON. Required for add and replace.
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
