//! Remedy.

use apimachinery::meta::{ObjectMeta, null_as_default};
use serde::{Deserialize, Serialize};

use crate::crd::JsonSchema;
#[cfg(test)]
use crate::crd::schema;

crate::api_type!(Remedy, "remedy.karmada.io", "v1alpha1", "remedies", false);

/// Requests actions from clusters, based on their conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Remedy {
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Standard metadata.
    #[schemars(with = "schema::ObjectMeta")]
    pub metadata: ObjectMeta,
    /// The actions, the clusters, and the conditions.
    #[schemars(extend("x-required" = true))]
    pub spec: RemedySpec,
}

/// The actions, the clusters, and the conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RemedySpec {
    /// The actions, which are listed in the clusters' `status.remedyActions`. `TrafficControl`: the cluster receives no
    /// traffic.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub actions: Vec<String>,
    /// The clusters. Absent: all; an empty list of names selects none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<RemedyClusterAffinity>,
    /// When the actions are requested: one matching condition suffices. Absent: always; an empty list: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_matches: Option<Vec<DecisionMatch>>,
}

/// Clusters by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RemedyClusterAffinity {
    /// Names of the clusters.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub cluster_names: Vec<String>,
}

/// A condition to match; one match suffices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DecisionMatch {
    /// Matches one condition of the cluster. Absent: never matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_condition_match: Option<ClusterConditionRequirement>,
}

/// Matches one condition of a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterConditionRequirement {
    /// The status to compare with: True, False or Unknown.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub condition_status: String,
    /// Type of the condition, such as ServiceDomainNameResolutionReady. A cluster without the condition does not match,
    /// even with NotEqual.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub condition_type: String,
    /// `Equal` or `NotEqual`.
    #[schemars(extend("x-required" = true))]
    pub operator: ClusterConditionOperator,
}

/// How a condition is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ClusterConditionOperator {
    /// The status equals the value.
    #[default]
    Equal,
    /// The status differs from the value.
    NotEqual,
}
