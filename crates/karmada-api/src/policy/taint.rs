//! ClusterTaintPolicy.

use apimachinery::meta::{ObjectMeta, null_as_default};
use serde::{Deserialize, Serialize};

use crate::crd::JsonSchema;
#[cfg(test)]
use crate::crd::schema;
use crate::policy::v1alpha1::ClusterAffinity;

crate::api_type!(ClusterTaintPolicy, "policy.karmada.io", "v1alpha1", "clustertaintpolicies", false);

/// Adds taints to clusters and removes them, based on the clusters' conditions.
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
    /// The taints, the clusters, and the conditions.
    #[schemars(extend("x-required" = true))]
    pub spec: ClusterTaintPolicySpec,
}

/// The taints, the clusters, and the conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterTaintPolicySpec {
    /// The taints are added while all of these match. Empty: never.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub add_on_conditions: Vec<MatchCondition>,
    /// The taints are removed while all of these match. Empty: never.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub remove_on_conditions: Vec<MatchCondition>,
    /// The taints, unique by key and effect. At least one.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true, "minItems" = 1))]
    pub taints: Vec<PolicyTaint>,
    /// The clusters to taint. Absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_clusters: Option<ClusterAffinity>,
}

/// Matches one condition of a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MatchCondition {
    /// Type of the condition, such as Ready. A cluster without the condition does not match, even with NotIn.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub condition_type: String,
    /// `In` or `NotIn`. Other values match no cluster.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub operator: String,
    /// The statuses to compare with: `True`, `False`, `Unknown`.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub status_values: Vec<String>,
}

/// A taint that this policy adds and removes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyTaint {
    /// `NoSchedule`: new workloads are rejected. `NoExecute`: workloads that do not tolerate it are evicted; the
    /// administrator must allow it (`--allow-no-execute-taint-policy`).
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub effect: String,
    /// Key of the taint, in the format of a label key.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub key: String,
    /// Value of the taint.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub value: String,
}
