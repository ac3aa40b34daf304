//! FederatedHPA.

use apimachinery::meta::{ObjectMeta, Time, null_as_default};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::autoscaling::v1alpha1::CrossVersionObjectReference;
use crate::crd::JsonSchema;
#[cfg(test)]
use crate::crd::schema;
use crate::is_default;

crate::api_type!(FederatedHPA, "autoscaling.karmada.io", "v1alpha1", "federatedhpas", true);

/// Scales a workload over all its clusters by metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FederatedHPA {
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Standard metadata.
    #[schemars(with = "schema::ObjectMeta")]
    pub metadata: ObjectMeta,
    /// The target, the bounds and the metrics.
    #[schemars(extend("x-required" = true))]
    pub spec: FederatedHPASpec,
    /// The current and the desired scale.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub status: FederatedHPAStatus,
}

/// The target, the bounds and the metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FederatedHPASpec {
    /// How fast the workload is scaled up and down, as in a HorizontalPodAutoscaler of autoscaling/v2. Absent fields
    /// have Kubernetes' defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::HpaBehavior")]
    pub behavior: Option<Value>,
    /// The maximum number of replicas over all clusters; not less than minReplicas.
    #[schemars(extend("x-required" = true))]
    pub max_replicas: i32,
    /// The metrics to scale by, as in a HorizontalPodAutoscaler of autoscaling/v2: Resource, ContainerResource, Pods or
    /// Object, not External. Default: 80 percent of the requested cpu.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::MetricSpecs")]
    pub metrics: Option<Value>,
    /// The minimum number of replicas over all clusters, at least 1. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    /// The target: a workload of the same namespace with the scale subresource.
    #[schemars(extend("x-required" = true))]
    pub scale_target_ref: CrossVersionObjectReference,
}

/// The current and the desired scale.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FederatedHPAStatus {
    /// Conditions: AbleToScale, ScalingActive and ScalingLimited.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<HorizontalPodAutoscalerCondition>,
    /// The last observed metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::MetricStatuses")]
    pub current_metrics: Option<Value>,
    /// The last observed replicas of the workload.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub current_replicas: i32,
    /// The last computed replicas.
    #[schemars(extend("x-required" = true))]
    pub desired_replicas: i32,
    /// When the scale last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::Time")]
    pub last_scale_time: Option<Time>,
    /// The generation that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// One condition of the autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HorizontalPodAutoscalerCondition {
    /// When the status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::Time")]
    pub last_transition_time: Option<Time>,
    /// Details for humans.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub message: String,
    /// Why the condition has this status, as one word.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub reason: String,
    /// True, False or Unknown.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub status: String,
    /// Type of the condition.
    #[serde(rename = "type", deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub type_: String,
}
