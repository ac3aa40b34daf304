//! FederatedResourceQuota.

use std::collections::BTreeMap;

use apimachinery::meta::{ObjectMeta, null_as_default};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::schema;
use crate::is_default;
use crate::kubernetes::ResourceList;

crate::api_type!(FederatedResourceQuota, "policy.karmada.io", "v1alpha1", "federatedresourcequotas", true);

/// Limits what a namespace uses over all clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FederatedResourceQuota {
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Standard metadata.
    #[schemars(with = "schema::ObjectMeta")]
    pub metadata: ObjectMeta,
    /// Limits.
    #[schemars(extend("x-required" = true))]
    pub spec: FederatedResourceQuotaSpec,
    /// Observed.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub status: FederatedResourceQuotaStatus,
}

/// The limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FederatedResourceQuotaSpec {
    /// Total limit per resource name. Every statically assigned sum must be ≤ it, and every statically assigned
    /// resource name must appear in it.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub overall: ResourceList,
    /// Per-cluster quota. Not used for scheduling.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub static_assignments: Vec<StaticClusterAssignment>,
}

/// The part of the quota that one cluster gets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StaticClusterAssignment {
    /// Cluster; must be a valid cluster name. First entry for a name wins.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub cluster_name: String,
    /// `hard` of the ResourceQuota there.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub hard: ResourceList,
}

/// What is used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FederatedResourceQuotaStatus {
    /// Per cluster, sorted by name; only clusters whose Work is applied and reports status.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub aggregated_status: Vec<ClusterQuotaStatus>,
    /// Copy of spec.overall.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub overall: ResourceList,
    /// Gate off: sum over aggregatedStatus used.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub overall_used: ResourceList,
}

/// What is used in one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterQuotaStatus {
    /// Cluster.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub cluster_name: String,
    /// ResourceQuota.status.hard there.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub hard: ResourceList,
    /// ResourceQuota.status.used there.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub used: ResourceList,
}
