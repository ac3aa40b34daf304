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
    /// The limits, over all clusters and for single ones.
    #[schemars(extend("x-required" = true))]
    pub spec: FederatedResourceQuotaSpec,
    /// What is used, as last seen.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub status: FederatedResourceQuotaStatus,
}

/// The limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FederatedResourceQuotaSpec {
    /// The most of each resource that the namespace may use over all clusters. What is assigned to clusters must fit
    /// in it.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub overall: ResourceList,
    /// Parts of the quota for single clusters, each of which gets a ResourceQuota. The scheduler does not look at
    /// them.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub static_assignments: Vec<StaticClusterAssignment>,
}

/// The part of the quota that one cluster gets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StaticClusterAssignment {
    /// Name of the cluster. Of several entries for one the first counts.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub cluster_name: String,
    /// The most of each resource in that cluster: `spec.hard` of the ResourceQuota there.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub hard: ResourceList,
}

/// What is used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FederatedResourceQuotaStatus {
    /// What is used in each cluster that reports it, by name.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub aggregated_status: Vec<ClusterQuotaStatus>,
    /// The limits that were looked at last: spec.overall.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub overall: ResourceList,
    /// What is used in all: the sum of aggregatedStatus; with the feature gate FederatedQuotaEnforcement, the sum of
    /// what scheduled bindings ask for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub overall_used: ResourceList,
}

/// What is used in one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterQuotaStatus {
    /// Name of the cluster.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub cluster_name: String,
    /// The limits there: `status.hard` of the ResourceQuota.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub hard: ResourceList,
    /// What is used there: `status.used` of the ResourceQuota.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub used: ResourceList,
}
