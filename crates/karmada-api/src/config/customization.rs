//! ResourceInterpreterCustomization.

use apimachinery::meta::{ObjectMeta, null_as_default};
use serde::{Deserialize, Serialize};

use crate::crd::JsonSchema;
#[cfg(test)]
use crate::crd::schema;

crate::api_type!(
    ResourceInterpreterCustomization,
    "config.karmada.io",
    "v1alpha1",
    "resourceinterpretercustomizations",
    false
);

/// Customizes the interpretation of a kind with Lua scripts.
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
    /// The kind and the scripts.
    #[schemars(extend("x-required" = true))]
    pub spec: ResourceInterpreterCustomizationSpec,
}

/// The kind and the scripts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceInterpreterCustomizationSpec {
    /// The customized operations. An operation without a script has its default interpretation.
    #[schemars(extend("x-required" = true))]
    pub customizations: CustomizationRules,
    /// The kind to customize.
    #[schemars(extend("x-required" = true))]
    pub target: CustomizationTarget,
}

/// The scripts; each is optional.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomizationRules {
    /// Returns the components (pod templates) of a workload with several. The script defines
    /// `GetComponents(desiredObj)`, which returns a list of `{name, replicas, replicaRequirements}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub component_resource: Option<LuaRule>,
    /// Returns the dependencies of the object. The script defines `GetDependencies(desiredObj)`, which returns a list
    /// of `{apiVersion, kind, namespace, name}`, or with `labelSelector` instead of the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependency_interpretation: Option<LuaRule>,
    /// Determines whether the object in a member cluster is healthy. The script defines `InterpretHealth(observedObj)`,
    /// which returns true or false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_interpretation: Option<LuaRule>,
    /// Returns the desired replicas and the requirements of one replica. The script defines `GetReplicas(desiredObj)`,
    /// which returns the number and the requirements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_resource: Option<LuaRule>,
    /// Sets the replicas for one member cluster. The script defines `ReviseReplica(desiredObj, desiredReplica)`, which
    /// returns the changed object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_revision: Option<LuaRule>,
    /// Retains values that the member cluster owns when the object is updated there. The script defines
    /// `Retain(desiredObj, observedObj)`, which returns the object to write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<LuaRule>,
    /// Aggregates the statuses of all member clusters into the template. The script defines
    /// `AggregateStatus(desiredObj, statusItems)`, which returns the template with its status; each item has
    /// `clusterName` and `status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_aggregation: Option<LuaRule>,
    /// Selects the part of the object's status to collect. The script defines `ReflectStatus(observedObj)`, which
    /// returns that status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_reflection: Option<LuaRule>,
}

/// One script.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LuaRule {
    /// Lua 5.1 source that defines the function of the operation. It is compiled when the object is written; a call is
    /// limited to one second.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub lua_script: String,
}

/// The kind to customize.
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
