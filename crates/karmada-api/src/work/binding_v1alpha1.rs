//! The first version of the bindings: served through conversion, never stored.

use std::collections::BTreeMap;

use apimachinery::meta::{Condition, ObjectMeta, null_as_default};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::schema;
use crate::is_default;
use crate::kubernetes::ResourceList;
use crate::raw::RawJson;

crate::api_type!(ResourceBinding, "work.karmada.io", "v1alpha1", "resourcebindings", true);
crate::api_type!(ClusterResourceBinding, "work.karmada.io", "v1alpha1", "clusterresourcebindings", false);

/// Ties a namespaced resource template to the clusters it goes to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceBinding {
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Standard metadata.
    #[schemars(with = "schema::ObjectMeta")]
    pub metadata: ObjectMeta,
    /// Desired.
    #[schemars(extend("x-required" = true))]
    pub spec: ResourceBindingSpec,
    /// Observed.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub status: ResourceBindingStatus,
}

/// Ties a cluster-scoped resource template to the clusters it goes to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterResourceBinding {
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Standard metadata.
    #[schemars(with = "schema::ObjectMeta")]
    pub metadata: ObjectMeta,
    /// Desired.
    #[schemars(extend("x-required" = true))]
    pub spec: ResourceBindingSpec,
    /// Observed.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub status: ResourceBindingStatus,
}

/// The template and where it goes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceBindingSpec {
    /// Scheduling result.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub clusters: Vec<TargetCluster>,
    /// Template plus demand.
    #[schemars(extend("x-required" = true))]
    pub resource: ObjectReference,
}

/// One cluster of a scheduling result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TargetCluster {
    /// Cluster.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// Replicas.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub replicas: i32,
}

/// The template and what one replica needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectReference {
    /// As v1alpha2.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub api_version: String,
    /// As v1alpha2.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub kind: String,
    /// As v1alpha2.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// As v1alpha2.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
    /// v1alpha2 spec.replicas.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub replicas: i32,
    /// v1alpha2 spec.replicaRequirements.resourceRequest.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub resource_per_replicas: ResourceList,
    /// As v1alpha2.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub resource_version: String,
}

/// What is known of the copies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceBindingStatus {
    /// As v1alpha2 without health.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub aggregated_status: Vec<AggregatedStatusItem>,
    /// As v1alpha2.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(with = "Vec<schema::Condition>")]
    pub conditions: Vec<Condition>,
}

/// The state of the object in one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AggregatedStatusItem {
    /// Applied.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub applied: bool,
    /// Message.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub applied_message: String,
    /// Cluster.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub cluster_name: String,
    /// Raw status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RawJson>,
}
