//! ClusterTaintPolicy.

use apimachinery::meta::{ObjectMeta, null_as_default};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::schema;
use crate::policy::v1alpha1::ClusterAffinity;

crate::api_type!(ClusterTaintPolicy, "policy.karmada.io", "v1alpha1", "clustertaintpolicies", false);

/// Adds taints to clusters, and removes them, by the clusters' conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterTaintPolicy {
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Standard metadata.
    #[schemars(with = "schema::ObjectMeta")]
    pub metadata: ObjectMeta,
    /// Rules.
    #[schemars(extend("x-required" = true))]
    pub spec: ClusterTaintPolicySpec,
}

/// Which taints, on which clusters, when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterTaintPolicySpec {
    /// ANDed. Empty: never add.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub add_on_conditions: Vec<MatchCondition>,
    /// ANDed. Empty: never remove.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub remove_on_conditions: Vec<MatchCondition>,
    /// Taints to add (with timeAdded=now if key+effect absent) or remove (by key+effect). At least one; key+effect must
    /// be unique.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true, "minItems" = 1))]
    pub taints: Vec<PolicyTaint>,
    /// Absent: every cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_clusters: Option<ClusterAffinity>,
}

/// A test of one condition of a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MatchCondition {
    /// Condition type in Cluster.status.conditions. An absent condition never matches (not even NotIn).
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub condition_type: String,
    /// `In` or `NotIn`; the CRD has no enum: any other text is accepted by the API and makes the whole match false.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub operator: String,
    /// Condition statuses (`True`, `False`, `Unknown`); not validated.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub status_values: Vec<String>,
}

/// A taint this policy adds and removes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyTaint {
    /// `NoSchedule` or `NoExecute` in practice. Other text is accepted by the API, then refused on Cluster update.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub effect: String,
    /// Taint key; not validated here, but the Cluster update will be refused if it is not a label name.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub key: String,
    /// Taint value.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub value: String,
}
