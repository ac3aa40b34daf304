//! CronFederatedHPA.

use apimachinery::meta::{ObjectMeta, Time, null_as_default};
use serde::{Deserialize, Serialize};

use crate::crd::JsonSchema;
#[cfg(test)]
use crate::crd::schema;
use crate::is_default;

crate::api_type!(CronFederatedHPA, "autoscaling.karmada.io", "v1alpha1", "cronfederatedhpas", true);

/// Scales a workload or a FederatedHPA on a schedule.
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
    /// The target and the rules.
    #[schemars(extend("x-required" = true))]
    pub spec: CronFederatedHPASpec,
    /// The past and next runs.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub status: CronFederatedHPAStatus,
}

/// The target and the rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CronFederatedHPASpec {
    /// The schedules with the replicas they set.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub rules: Vec<CronFederatedHPARule>,
    /// The target in the same namespace: a workload with the scale subresource, or a FederatedHPA, whose bounds are
    /// set.
    #[schemars(extend("x-required" = true))]
    pub scale_target_ref: CrossVersionObjectReference,
}

/// A schedule with the replicas it sets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CronFederatedHPARule {
    /// The number of failed runs to keep in the status, 0 to 32. Default: 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0, "maximum" = 32, "x-default" = 3))]
    pub failed_history_limit: Option<i32>,
    /// Name of the rule, unique within the object.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true, "minLength" = 1, "maxLength" = 32))]
    pub name: String,
    /// The schedule as a cron expression: minute, hour, day of month, month, day of week; such as `30 8 * * 1-5`, or
    /// @daily.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub schedule: String,
    /// The number of successful runs to keep in the status, 1 to 32. Default: 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "maximum" = 32, "x-default" = 3))]
    pub successful_history_limit: Option<i32>,
    /// True: the rule does not run. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = false))]
    pub suspend: Option<bool>,
    /// The maxReplicas to set on a FederatedHPA. Absent: unchanged. At least one of the two bounds is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_max_replicas: Option<i32>,
    /// The minReplicas to set on a FederatedHPA, more than 0. Absent: unchanged. At least one of the two bounds is
    /// required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_min_replicas: Option<i32>,
    /// The replicas to set on a workload, 0 or more. Required unless the target is a FederatedHPA.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_replicas: Option<i32>,
    /// Time zone of the schedule, such as Europe/Berlin. Absent: the controller's time zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
}

/// The object to scale.
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

/// The past and next runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CronFederatedHPAStatus {
    /// The past and next runs of each rule.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub execution_histories: Vec<ExecutionHistory>,
}

/// The past and next runs of one rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ExecutionHistory {
    /// Failed runs, the most recent first.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub failed_executions: Vec<FailedExecution>,
    /// When the rule runs next; absent while it is suspended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::Time")]
    pub next_execution_time: Option<Time>,
    /// Name of the rule.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub rule_name: String,
    /// Successful runs, the most recent first.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub successful_executions: Vec<SuccessfulExecution>,
}

/// A failed run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FailedExecution {
    /// When it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::Time", extend("x-required" = true))]
    pub execution_time: Option<Time>,
    /// The error.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub message: String,
    /// When it was due.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::Time", extend("x-required" = true))]
    pub schedule_time: Option<Time>,
}

/// A successful run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SuccessfulExecution {
    /// The maxReplicas that it set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied_max_replicas: Option<i32>,
    /// The minReplicas that it set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied_min_replicas: Option<i32>,
    /// The replicas that it set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied_replicas: Option<i32>,
    /// When it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::Time", extend("x-required" = true))]
    pub execution_time: Option<Time>,
    /// When it was due.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::Time", extend("x-required" = true))]
    pub schedule_time: Option<Time>,
}
