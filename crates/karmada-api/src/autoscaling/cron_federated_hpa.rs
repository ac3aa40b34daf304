//! CronFederatedHPA.

use apimachinery::meta::{ObjectMeta, Time, null_as_default};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::schema;
use crate::is_default;

crate::api_type!(CronFederatedHPA, "autoscaling.karmada.io", "v1alpha1", "cronfederatedhpas", true);

/// Scales a workload or a FederatedHPA by the clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CronFederatedHPA {
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Standard metadata.
    #[schemars(with = "schema::ObjectMeta")]
    pub metadata: ObjectMeta,
    /// Desired.
    #[schemars(extend("x-required" = true))]
    pub spec: CronFederatedHPASpec,
    /// Observed.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub status: CronFederatedHPAStatus,
}

/// The target and the rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CronFederatedHPASpec {
    /// Rules; may be an empty list.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub rules: Vec<CronFederatedHPARule>,
    /// If apiVersion is `autoscaling.karmada.io/v1alpha1` the kind must be FederatedHPA; any other apiVersion means a
    /// workload scaled through /scale.
    #[schemars(extend("x-required" = true))]
    pub scale_target_ref: CrossVersionObjectReference,
}

/// What to scale to, and when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CronFederatedHPARule {
    /// Kept failures, newest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0, "maximum" = 32, "x-default" = 3))]
    pub failed_history_limit: Option<i32>,
    /// Unique; identifies the history.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true, "minLength" = 1, "maxLength" = 32))]
    pub name: String,
    /// Cron expression.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub schedule: String,
    /// Kept successes, newest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "maximum" = 32, "x-default" = 3))]
    pub successful_history_limit: Option<i32>,
    /// True: rule not executed; nextExecutionTime is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = false))]
    pub suspend: Option<bool>,
    /// For FederatedHPA; > 0 and ≥ min (absent min counts as 1, absent max as MaxInt32).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_max_replicas: Option<i32>,
    /// For FederatedHPA; > 0; Absent: leave. At least one of min/max.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_min_replicas: Option<i32>,
    /// Required for workloads, ≥ 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_replicas: Option<i32>,
    /// IANA name; Absent: zone of the controller process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
}

/// The object that is scaled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CrossVersionObjectReference {
    /// API version of the object.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub api_version: String,
    /// Kind of the object.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub kind: String,
    /// Name of the object.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,
}

/// What has been done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CronFederatedHPAStatus {
    /// One per rule.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub execution_histories: Vec<ExecutionHistory>,
}

/// The past and the next run of one rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ExecutionHistory {
    /// Newest first.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub failed_executions: Vec<FailedExecution>,
    /// Next run; absent when suspended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::Time")]
    pub next_execution_time: Option<Time>,
    /// Rule.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub rule_name: String,
    /// Newest first.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub successful_executions: Vec<SuccessfulExecution>,
}

/// A run that failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FailedExecution {
    /// Actual time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::Time", extend("x-required" = true))]
    pub execution_time: Option<Time>,
    /// Error text.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub message: String,
    /// Planned time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::Time", extend("x-required" = true))]
    pub schedule_time: Option<Time>,
}

/// A run that succeeded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SuccessfulExecution {
    /// targetMaxReplicas applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied_max_replicas: Option<i32>,
    /// targetMinReplicas applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied_min_replicas: Option<i32>,
    /// targetReplicas applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied_replicas: Option<i32>,
    /// Actual time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::Time", extend("x-required" = true))]
    pub execution_time: Option<Time>,
    /// Planned time (previous nextExecutionTime).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::Time", extend("x-required" = true))]
    pub schedule_time: Option<Time>,
}
