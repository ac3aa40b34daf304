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
    /// Desired.
    #[schemars(extend("x-required" = true))]
    pub spec: WorkloadRebalancerSpec,
    /// Observed.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub status: WorkloadRebalancerStatus,
}

/// The workloads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadRebalancerSpec {
    /// Absent: keep; n: delete n seconds after status.finishTime; 0 = at once. Negative values are not refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
    /// At least one.
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
    /// Kind.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub kind: String,
    /// Name.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// Namespace; empty = cluster-scoped (ClusterResourceBinding).
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
}

/// How far it got.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadRebalancerStatus {
    /// Set whenever the status changed and nothing is left to retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::Time")]
    pub finish_time: Option<Time>,
    /// metadata.generation handled.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub observed_generation: i64,
    /// One per workload, sorted by the string "apiVersion kind namespace name". An entry removed from spec stays here
    /// if it was Successful.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub observed_workloads: Vec<ObservedWorkload>,
}

/// The outcome for one workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObservedWorkload {
    /// Only `ReferencedBindingNotFound` (with Failed). Other errors are retried.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub reason: String,
    /// `Successful` or `Failed`; empty while retrying.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub result: String,
    /// Identity.
    #[schemars(extend("x-required" = true))]
    pub workload: WorkloadReference,
}
