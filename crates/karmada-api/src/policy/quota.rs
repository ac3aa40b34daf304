//! FederatedResourceQuota.

use std::collections::BTreeMap;

use apimachinery::meta::{ObjectMeta, null_as_default};
use serde::{Deserialize, Serialize};

use crate::crd::JsonSchema;
#[cfg(test)]
use crate::crd::schema;
use crate::is_default;
use crate::kubernetes::ResourceList;

crate::api_type!(FederatedResourceQuota, "policy.karmada.io", "v1alpha1", "federatedresourcequotas", true);

/// Limits the resources of a namespace over all clusters.
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
    /// The limits, over all clusters and for single ones.
    #[schemars(extend("x-required" = true))]
    pub spec: FederatedResourceQuotaSpec,
    /// The observed usage.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub status: FederatedResourceQuotaStatus,
}

/// The limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FederatedResourceQuotaSpec {
    /// The maximum of each resource for the namespace over all clusters. The assignments to clusters must not exceed
    /// it.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub overall: ResourceList,
    /// Parts of the quota for certain clusters, each of which gets a ResourceQuota. The scheduler ignores them.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub static_assignments: Vec<StaticClusterAssignment>,
}

/// The part of the quota for one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StaticClusterAssignment {
    /// Name of the cluster. If several entries have the same name, the first counts.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub cluster_name: String,
    /// The maximum of each resource in that cluster: `spec.hard` of the ResourceQuota there.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub hard: ResourceList,
}

/// The observed usage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FederatedResourceQuotaStatus {
    /// The usage in each cluster that reports it, by name.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub aggregated_status: Vec<ClusterQuotaStatus>,
    /// The last observed limits: spec.overall.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub overall: ResourceList,
    /// The total usage: the sum of aggregatedStatus; with the feature gate FederatedQuotaEnforcement, the sum of the
    /// requests of scheduled bindings.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub overall_used: ResourceList,
}

/// The usage in one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterQuotaStatus {
    /// Name of the cluster.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub cluster_name: String,
    /// The limits in the cluster: `status.hard` of the ResourceQuota.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub hard: ResourceList,
    /// The usage in the cluster: `status.used` of the ResourceQuota.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub used: ResourceList,
}
