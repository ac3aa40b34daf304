//! Failover settings of a policy.

use apimachinery::meta::null_as_default;
use serde::{Deserialize, Serialize};

use crate::crd::JsonSchema;

/// The behavior when a cluster or an application fails.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FailoverBehavior {
    /// The behavior when the application fails in a healthy cluster. Absent: no failover.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationFailoverBehavior>,
    /// The behavior when a cluster gets a NoExecute taint. Absent: the flag `--no-execute-taint-eviction-purge-mode`
    /// applies.
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
    /// Seconds for which the old copy is kept with purgeMode Gracefully: more than 0, default 600. Must be absent with
    /// other modes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i32>,
    /// How the old copy is removed. `Directly`: immediately. `Gracefully`: when its replacement is healthy or the grace
    /// period ends (feature gate GracefulEviction, on by default). `Never`: not until a user sets `suppressDeletion:
    /// false` in the binding's eviction task. Default: Gracefully.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "Gracefully"))]
    pub purge_mode: Option<PurgeMode>,
    /// Parts of the status that the new cluster receives as labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_preservation: Option<StatePreservation>,
}

/// When an application counts as failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DecisionConditions {
    /// Seconds for which a workload may be unhealthy in a cluster before it is moved; 0 moves it immediately. Default:
    /// 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = 300))]
    pub toleration_seconds: Option<i32>,
}

/// How workloads are evicted from a failed cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterFailoverBehavior {
    /// How the copy in that cluster is removed. `Directly`: immediately. `Gracefully`: when its replacement is healthy
    /// or the grace period ends. Default: Gracefully.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "Gracefully"))]
    pub purge_mode: Option<ClusterPurgeMode>,
    /// Parts of the status that the new cluster receives as labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_preservation: Option<StatePreservation>,
}

/// Parts of the status that the new cluster receives as labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StatePreservation {
    /// The values to preserve, each with its label.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub rules: Vec<StatePreservationRule>,
}

/// A value to preserve.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StatePreservationRule {
    /// Key of the label on the workload in the new cluster.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub alias_label_name: String,
    /// The value in the status of the failed copy, as kubectl's JSONPath, such as `{.availableReplicas}`. The workload
    /// is not moved while the value is missing.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub json_path: String,
}

/// How the old copy of a moved workload is removed. Objects written up to Karmada 1.18 may have the former names; they
/// are read, and written with the new ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum PurgeMode {
    /// It is removed immediately.
    #[serde(alias = "Immediately")]
    Directly,
    /// It is kept until its replacement is healthy or the grace period ends.
    #[default]
    #[serde(alias = "Graciously")]
    Gracefully,
    /// It is kept until a user removes it.
    Never,
}

/// How the copies in a failed cluster are removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ClusterPurgeMode {
    /// They are removed immediately.
    Directly,
    /// They are kept until their replacements are healthy or the grace period ends.
    #[default]
    Gracefully,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn former_names_of_purge_modes_are_read() {
        for (stored, written) in [
            ("Immediately", "Directly"),
            ("Graciously", "Gracefully"),
            ("Directly", "Directly"),
            ("Gracefully", "Gracefully"),
            ("Never", "Never"),
        ] {
            let behavior: FailoverBehavior =
                serde_json::from_value(json!({"application": {"purgeMode": stored}})).unwrap();
            assert_eq!(json!(behavior)["application"]["purgeMode"], written, "{stored}");
        }
        assert!(serde_json::from_value::<PurgeMode>(json!("Soon")).is_err());
    }
}
