//! Failover settings of a policy.

use apimachinery::meta::null_as_default;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happens when a cluster or an application fails.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FailoverBehavior {
    /// What happens when the application fails in a cluster that is well. Absent: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationFailoverBehavior>,
    /// What happens when a cluster gets a NoExecute taint. Absent: as the flag
    /// `--no-execute-taint-eviction-purge-mode` says.
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
    /// Seconds the old copy may stay, with purgeMode Gracefully: more than 0, default 600. Must be absent with other
    /// modes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i32>,
    /// What happens to the old copy. `Directly`: it is removed at once. `Gracefully`: it stays until its replacement
    /// is healthy or the grace period is over (feature gate GracefulEviction, on by default). `Never`: it stays until
    /// somebody sets `suppressDeletion: false` in the binding's eviction task. Default: Gracefully.
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
    /// Seconds a workload may be unhealthy in a cluster before it is moved; 0 moves it at once. Default: 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = 300))]
    pub toleration_seconds: Option<i32>,
}

/// How workloads leave a failed cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterFailoverBehavior {
    /// What happens to the copy in that cluster. `Directly`: it is removed at once. `Gracefully`: it stays until its
    /// replacement is healthy or the time for that is over. Default: Gracefully.
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
    /// The values that are carried over, each with the label it goes to.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub rules: Vec<StatePreservationRule>,
}

/// One value to carry over.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StatePreservationRule {
    /// Key of the label that the workload in the new cluster gets.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub alias_label_name: String,
    /// Where the value is in the status of the failed copy, as kubectl's JSONPath, such as `{.availableReplicas}`.
    /// What is not there keeps the workload from being moved.
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
