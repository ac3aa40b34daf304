//! Placement: cluster selection, spread constraints, division of replicas.

use apimachinery::meta::{LabelSelector, null_as_default};
use serde::{Deserialize, Serialize};

use crate::crd::JsonSchema;
#[cfg(test)]
use crate::crd::schema;
use crate::is_default;
use crate::kubernetes::{NodeSelectorRequirement, Toleration};

/// How a workload is scheduled to clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Placement {
    /// Groups of clusters, tried in order until scheduling succeeds. Later decisions start with the group in use; a
    /// WorkloadRebalancer starts with the first one. Excludes clusterAffinity.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub cluster_affinities: Vec<ClusterAffinityTerm>,
    /// The candidate clusters. Absent: all. Excludes clusterAffinities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<ClusterAffinity>,
    /// Taints of clusters that the workload tolerates. The operators are Equal, the default, and Exists;
    /// tolerationSeconds counts from the taint's timeAdded.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub cluster_tolerations: Vec<Toleration>,
    /// How replicas are divided over the selected clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_scheduling: Option<ReplicaSchedulingStrategy>,
    /// How the selected clusters are spread over groups. Ignored when replicas are divided by static weights.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub spread_constraints: Vec<SpreadConstraint>,
    /// Workloads that share clusters with this one or avoid them. Requires the feature gate WorkloadAffinity (off by
    /// default); for namespaced templates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload_affinity: Option<WorkloadAffinity>,
}

/// A named group of clusters; groups are tried in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterAffinityTerm {
    /// Name of the group, unique among the groups and in the format of a label key. The binding's
    /// `status.schedulerObservingAffinityName` is the name of the group in use.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true, "minLength" = 1, "maxLength" = 32))]
    pub affinity_name: String,
    /// Names of the candidate clusters. Empty: any.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub cluster_names: Vec<String>,
    /// Names of excluded clusters. Takes precedence over all other fields.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub exclude: Vec<String>,
    /// Selects clusters by their provider, region and zones. Absent: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<FieldSelector>,
    /// Selects clusters by their labels. Absent: any. An invalid selector matches none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::LabelSelector")]
    pub label_selector: Option<LabelSelector>,
    /// Tiers of clusters that are added in order when the group's own clusters lack capacity, and removed in reverse
    /// order. A cluster in several tiers counts in the first. For dynamic weights and aggregated replicas only.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub overflow_affinities: Vec<OverflowClusterAffinity>,
}

/// An additional tier of clusters, used when the tiers before it lack resources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OverflowClusterAffinity {
    /// Name of the tier, unique inside its group, different from the group's own, and in the format of a label key.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true, "minLength" = 1, "maxLength" = 32))]
    pub affinity_name: String,
    /// Names of the candidate clusters. Empty: any.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub cluster_names: Vec<String>,
    /// Names of excluded clusters. Takes precedence over all other fields.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub exclude: Vec<String>,
    /// Selects clusters by their provider, region and zones. Absent: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<FieldSelector>,
    /// Selects clusters by their labels. Absent: any. An invalid selector matches none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::LabelSelector")]
    pub label_selector: Option<LabelSelector>,
}

/// Selects clusters. An absent part matches any cluster; an empty filter selects all clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterAffinity {
    /// Names of the candidate clusters. Empty: any.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub cluster_names: Vec<String>,
    /// Names of excluded clusters. Takes precedence over all other fields.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub exclude: Vec<String>,
    /// Selects clusters by their provider, region and zones. Absent: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<FieldSelector>,
    /// Selects clusters by their labels. Absent: any. An invalid selector matches none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::LabelSelector")]
    pub label_selector: Option<LabelSelector>,
}

/// A filter over the fields provider, region and zone of a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldSelector {
    /// Requirements on the keys provider, region and zone, with the operators In and NotIn; all must hold. A cluster
    /// without a provider or region matches NotIn.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub match_expressions: Vec<NodeSelectorRequirement>,
}

/// How the selected clusters are spread over groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SpreadConstraint {
    /// The maximum number of selected groups; 0 is no limit. Must not be less than minGroups. Default: 0.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    #[schemars(extend("x-no-format" = true))]
    pub max_groups: i64,
    /// The minimum number of selected groups; scheduling fails with fewer. Default: 1.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    #[schemars(extend("x-no-format" = true))]
    pub min_groups: i64,
    /// Groups by a field of the clusters: `cluster` (each cluster is a group), `region`, `zone` or `provider`. One of
    /// the constraints with a field must be by cluster; each field may appear once. Default: cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread_by_field: Option<SpreadField>,
    /// Groups by the value of this label of the clusters. Excludes spreadByField.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub spread_by_label: String,
}

/// How replicas are divided over the selected clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSchedulingStrategy {
    /// How replicas are divided with type Divided. `Aggregated`: over as few clusters as possible. `Weighted`: by the
    /// weights of weightPreference, which is the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_division_preference: Option<ReplicaDivisionPreference>,
    /// `Duplicated`: every selected cluster receives all replicas, which is also the result without replicaScheduling.
    /// `Divided`: replicas are divided over the clusters, which is the default inside replicaScheduling.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "Divided"))]
    pub replica_scheduling_type: Option<ReplicaSchedulingType>,
    /// The weights, with type Divided and preference Weighted. Absent: all clusters have the same weight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight_preference: Option<ClusterPreferences>,
}

/// The weight of each cluster when replicas are divided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterPreferences {
    /// `AvailableReplicas`: the weight of a cluster is the estimated number of available replicas. Takes precedence
    /// over staticWeightList.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dynamic_weight: Option<DynamicWeightFactor>,
    /// Fixed weights; ignored when dynamicWeight is set. A cluster without an entry receives no replicas; if no
    /// candidate has an entry, all have the weight 1.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub static_weight_list: Vec<StaticClusterWeight>,
}

/// A fixed weight for certain clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StaticClusterWeight {
    /// Clusters the weight applies to.
    #[schemars(extend("x-required" = true))]
    pub target_cluster: ClusterAffinity,
    /// The weight, at least 1. If several entries select a cluster, the largest counts.
    #[schemars(extend("x-required" = true, "minimum" = 1))]
    pub weight: i64,
}

/// Workloads that share clusters with this one or avoid them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadAffinity {
    /// Schedules the workload only to clusters with workloads of its group; the first of a group is not restricted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<WorkloadAffinityTerm>,
    /// Schedules the workload only to clusters without other workloads of its group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anti_affinity: Option<WorkloadAffinityTerm>,
}

/// Groups workloads of one namespace by the value of a label.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadAffinityTerm {
    /// Key of a label of the template; workloads of one namespace with the same value are a group.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub group_by_label_key: String,
}

/// The field of a Cluster that defines groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SpreadField {
    /// Each cluster is a group.
    #[default]
    Cluster,
    /// `spec.region`.
    Region,
    /// `spec.zones`.
    Zone,
    /// `spec.provider`.
    Provider,
}

/// How divided replicas are distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ReplicaDivisionPreference {
    /// Over as few clusters as possible.
    #[default]
    Aggregated,
    /// By weights.
    Weighted,
}

/// Whether each cluster receives all replicas or a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ReplicaSchedulingType {
    /// Each cluster receives all replicas.
    Duplicated,
    /// The replicas are divided.
    #[default]
    Divided,
}

/// The source of dynamic weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum DynamicWeightFactor {
    /// The estimated available replicas.
    #[default]
    AvailableReplicas,
}
