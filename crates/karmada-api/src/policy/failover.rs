//! Failover settings of a policy.

use apimachinery::meta::null_as_default;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happens when a cluster or an application fails.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FailoverBehavior {
    /// Failover on application failure. Absent: off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationFailoverBehavior>,
    /// Failover on cluster failure. Absent: controlled by controller-manager flag `--no-execute-taint-eviction-purge-
    /// mode`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterFailoverBehavior>,
}

/// When and how an unhealthy application is moved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ApplicationFailoverBehavior {
    /// Conditions that must all hold.
    #[schemars(extend("x-required" = true))]
    pub decision_conditions: DecisionConditions,
    /// Only with Gracefully: required (mutating webhook sets 600), must be > 0. With other modes it must be absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i32>,
    /// What happens to the old copy: `Directly` (removed at once, before/without waiting), `Gracefully` (kept until the
    /// replacement is healthy or the grace period ends; needs gate GracefulEviction, else the eviction attempt errors),
    /// `Never` (kept until a human sets suppressDeletion=false).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "Gracefully"))]
    pub purge_mode: Option<PurgeMode>,
    /// Which parts of the status are carried to the new cluster as labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_preservation: Option<StatePreservation>,
}

/// When an application counts as failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DecisionConditions {
    /// How long a workload may stay `Unhealthy` in a cluster before it is evicted. 0 = immediately. Must be ≥ 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = 300))]
    pub toleration_seconds: Option<i32>,
}

/// How workloads leave a failed cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterFailoverBehavior {
    /// `Directly` or `Gracefully`; an empty value is treated as Gracefully.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "Gracefully"))]
    pub purge_mode: Option<ClusterPurgeMode>,
    /// Which parts of the status are carried to the new cluster as labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_preservation: Option<StatePreservation>,
}

/// Which parts of the status are carried to the new cluster as labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StatePreservation {
    /// List of extractions.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub rules: Vec<StatePreservationRule>,
}

/// One value to carry over.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StatePreservationRule {
    /// Label key under which the value is injected in the workload on the new cluster; must be a valid label name.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub alias_label_name: String,
    /// Kubernetes JSONPath template evaluated against the *status* object (aggregated status item of the failing
    /// cluster), e.g. `{.availableReplicas}`. Missing keys are an error that blocks the eviction attempt.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub json_path: String,
}

/// What happens to the old copy of a moved workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum PurgeMode {
    Directly,
    #[default]
    Gracefully,
    Never,
}

/// What happens to the copies in a failed cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ClusterPurgeMode {
    Directly,
    #[default]
    Gracefully,
}
