//! WorkloadRebalancer.

use apimachinery::meta::{ObjectMeta, Time, null_as_default};
use serde::{Deserialize, Serialize};

use crate::crd::JsonSchema;
#[cfg(test)]
use crate::crd::schema;
use crate::is_default;

crate::api_type!(WorkloadRebalancer, "apps.karmada.io", "v1alpha1", "workloadrebalancers", false);

/// Requests one new scheduling decision for each of the listed workloads.
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
    /// The workloads to reschedule.
    #[schemars(extend("x-required" = true))]
    pub spec: WorkloadRebalancerSpec,
    /// The progress.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub status: WorkloadRebalancerStatus,
}

/// The workloads to reschedule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadRebalancerSpec {
    /// Seconds after which the finished object is deleted; 0 deletes it immediately. Absent: it is kept.
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
    /// API version of the workload. Informational: the binding is found by kind and name.
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

/// The progress.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadRebalancerStatus {
    /// When all workloads had a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::Time")]
    pub finish_time: Option<Time>,
    /// The generation that this status describes.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub observed_generation: i64,
    /// The result of each workload, sorted. A successful workload that is removed from the spec stays listed.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub observed_workloads: Vec<ObservedWorkload>,
}

/// The result of one workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObservedWorkload {
    /// Reason of a failure: `ReferencedBindingNotFound` if no policy propagates the workload. Other errors are retried.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub reason: String,
    /// `Successful` or `Failed`; empty while the workload is retried.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub result: String,
    /// The workload.
    #[schemars(extend("x-required" = true))]
    pub workload: WorkloadReference,
}
