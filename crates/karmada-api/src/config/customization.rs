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
    /// Rules; every one optional.
    #[schemars(extend("x-required" = true))]
    pub customizations: CustomizationRules,
    /// Kind concerned.
    #[schemars(extend("x-required" = true))]
    pub target: CustomizationTarget,
}

/// The scripts; each is optional.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomizationRules {
    /// Operation `InterpretComponent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub component_resource: Option<LuaRule>,
    /// Operation `InterpretDependency`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependency_interpretation: Option<LuaRule>,
    /// Operation `InterpretHealth`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_interpretation: Option<LuaRule>,
    /// Operation `InterpretReplica`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_resource: Option<LuaRule>,
    /// Operation `ReviseReplica`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_revision: Option<LuaRule>,
    /// Operation `Retain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<LuaRule>,
    /// Operation `AggregateStatus`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_aggregation: Option<LuaRule>,
    /// Operation `InterpretStatus`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_reflection: Option<LuaRule>,
}

/// One script.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LuaRule {
    /// Lua source defining `Retain(desiredObj, observedObj) → desiredObj: keep values the member cluster owns`.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub lua_script: String,
}

/// The kind that is customized.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomizationTarget {
    /// Exact API version.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub api_version: String,
    /// Exact kind.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub kind: String,
}
