//! The first version of the bindings: served through conversion, never stored.

use std::collections::BTreeMap;

use apimachinery::meta::{Condition, ObjectMeta, null_as_default};
use serde::{Deserialize, Serialize};

use crate::crd::JsonSchema;
#[cfg(test)]
use crate::crd::schema;
use crate::is_default;
use crate::kubernetes::ResourceList;
use crate::raw::RawJson;

crate::api_type!(ResourceBinding, "work.karmada.io", "v1alpha1", "resourcebindings", true);
crate::api_type!(ClusterResourceBinding, "work.karmada.io", "v1alpha1", "clusterresourcebindings", false);

/// Binds a namespaced resource template to its target clusters.
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
    /// The template and its target clusters.
    #[schemars(extend("x-required" = true))]
    pub spec: ResourceBindingSpec,
    /// The state of the propagated objects.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub status: ResourceBindingStatus,
}

/// Binds a cluster-scoped resource template to its target clusters.
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
    /// The template and its target clusters.
    #[schemars(extend("x-required" = true))]
    pub spec: ResourceBindingSpec,
    /// The state of the propagated objects.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub status: ResourceBindingStatus,
}

/// The template and its target clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceBindingSpec {
    /// The target clusters.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub clusters: Vec<TargetCluster>,
    /// The template and the requirements of one replica.
    #[schemars(extend("x-required" = true))]
    pub resource: ObjectReference,
}

/// One cluster of a scheduling result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TargetCluster {
    /// Name of the cluster.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// Replicas of the cluster.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub replicas: i32,
}

/// The template and the requirements of one replica.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectReference {
    /// Group and version of the template.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub api_version: String,
    /// Kind of the template.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub kind: String,
    /// Name of the template.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// Namespace of the template; empty for cluster-scoped ones.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
    /// The desired number of replicas.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub replicas: i32,
    /// Requests of one replica, by resource.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub resource_per_replicas: ResourceList,
    /// The resource version of the template that this binding was built from.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub resource_version: String,
}

/// The state of the propagated objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceBindingStatus {
    /// The state of the object in each cluster.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub aggregated_status: Vec<AggregatedStatusItem>,
    /// Conditions: Scheduled and FullyApplied.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(with = "Vec<schema::Condition>")]
    pub conditions: Vec<Condition>,
}

/// The state of the object in one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AggregatedStatusItem {
    /// Whether the object is applied in the cluster. Absent: false.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub applied: bool,
    /// The error, if the object could not be applied.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub applied_message: String,
    /// Name of the cluster.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub cluster_name: String,
    /// The object's status in that cluster, as the interpreter reflects it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RawJson>,
}
