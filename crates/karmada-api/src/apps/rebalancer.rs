//! WorkloadRebalancer.

use apimachinery::meta::{ObjectMeta, Time, null_as_default};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::schema;
use crate::is_default;

crate::api_type!(WorkloadRebalancer, "apps.karmada.io", "v1alpha1", "workloadrebalancers", false);

/// Has the listed workloads scheduled afresh, once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadRebalancer {
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Standard metadata.
    #[schemars(with = "schema::ObjectMeta")]
    pub metadata: ObjectMeta,
    /// The workloads that are scheduled afresh.
    #[schemars(extend("x-required" = true))]
    pub spec: WorkloadRebalancerSpec,
    /// How far it got.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub status: WorkloadRebalancerStatus,
}

/// The workloads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadRebalancerSpec {
    /// Seconds after which the finished object is deleted; 0 is at once. Absent: it stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
    /// The workloads. At least one.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true, "minItems" = 1))]
    pub workloads: Vec<WorkloadReference>,
}

/// One workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadReference {
    /// API version (used only as identity: the binding name is derived from kind and name).
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub api_version: String,
    /// Kind of the workload.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub kind: String,
    /// Name of the workload.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// Namespace of the workload; empty for cluster-scoped ones.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
}

/// How far it got.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadRebalancerStatus {
    /// When every workload had its outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::Time")]
    pub finish_time: Option<Time>,
    /// The generation this status belongs to.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub observed_generation: i64,
    /// The outcome of each workload, sorted. One that was taken out of the spec stays here if it was successful.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub observed_workloads: Vec<ObservedWorkload>,
}

/// The outcome for one workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObservedWorkload {
    /// Why it failed: `ReferencedBindingNotFound`, if nothing propagates the workload. Other errors are tried again.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub reason: String,
    /// `Successful` or `Failed`; empty while it is being tried.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub result: String,
    /// The workload.
    #[schemars(extend("x-required" = true))]
    pub workload: WorkloadReference,
}
