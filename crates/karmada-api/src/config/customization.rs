//! ResourceInterpreterCustomization.

use apimachinery::meta::{ObjectMeta, null_as_default};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::schema;

crate::api_type!(
    ResourceInterpreterCustomization,
    "config.karmada.io",
    "v1alpha1",
    "resourceinterpretercustomizations",
    false
);

/// Teaches the interpreter a kind through Lua scripts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceInterpreterCustomization {
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Standard metadata.
    #[schemars(with = "schema::ObjectMeta")]
    pub metadata: ObjectMeta,
    /// Desired.
    #[schemars(extend("x-required" = true))]
    pub spec: ResourceInterpreterCustomizationSpec,
}

/// The kind and the scripts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceInterpreterCustomizationSpec {
    /// What is customized; what has no script is interpreted as without this object.
    #[schemars(extend("x-required" = true))]
    pub customizations: CustomizationRules,
    /// The kind whose interpretation is customized.
    #[schemars(extend("x-required" = true))]
    pub target: CustomizationTarget,
}

/// The scripts; each is optional.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomizationRules {
    /// Tells the components (pod templates) of a workload that has several. The script defines
    /// `GetComponents(desiredObj)`, which returns a list of `{name, replicas, replicaRequirements}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub component_resource: Option<LuaRule>,
    /// Tells which other objects the object needs. The script defines `GetDependencies(desiredObj)`, which returns a
    /// list of `{apiVersion, kind, namespace, name}` or with `labelSelector` instead of the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependency_interpretation: Option<LuaRule>,
    /// Tells whether a copy in a member cluster is healthy. The script defines `InterpretHealth(observedObj)`, which
    /// returns true or false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_interpretation: Option<LuaRule>,
    /// Tells how many replicas are wanted and what one of them needs. The script defines `GetReplicas(desiredObj)`,
    /// which returns the number and the requirements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_resource: Option<LuaRule>,
    /// Sets the share of replicas of one member cluster. The script defines `ReviseReplica(desiredObj, desiredReplica)`,
    /// which returns the changed object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_revision: Option<LuaRule>,
    /// Keeps values that belong to the member cluster when its copy is updated. The script defines
    /// `Retain(desiredObj, observedObj)`, which returns the object to write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<LuaRule>,
    /// Folds the statuses of all copies into the template. The script defines `AggregateStatus(desiredObj,
    /// statusItems)`, which returns the template with its status; each item has `clusterName` and `status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_aggregation: Option<LuaRule>,
    /// Picks what of a copy's status is reported. The script defines `ReflectStatus(observedObj)`, which returns that
    /// status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_reflection: Option<LuaRule>,
}

/// One script.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LuaRule {
    /// Lua 5.1 source that defines the function of the operation. It is compiled when the object is written; a call may
    /// take one second.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub lua_script: String,
}

/// The kind that is customized.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomizationTarget {
    /// Group and version of the kind, such as apps/v1; no wildcards.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub api_version: String,
    /// The kind, such as Deployment; no wildcards.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub kind: String,
}
