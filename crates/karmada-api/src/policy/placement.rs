//! Placement: which clusters, how spread, how replicas are divided.

use apimachinery::meta::{LabelSelector, null_as_default};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::schema;
use crate::is_default;
use crate::kubernetes::{NodeSelectorRequirement, Toleration};

/// Where and how a workload is scheduled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Placement {
    /// Groups of clusters, tried in order until one can take the workload; later decisions go on from that group, and
    /// a WorkloadRebalancer begins with the first again. Excludes clusterAffinity.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub cluster_affinities: Vec<ClusterAffinityTerm>,
    /// The clusters that may be chosen. Absent: all. Excludes clusterAffinities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<ClusterAffinity>,
    /// Taints of clusters that do not keep the workload away. The operators are Equal, which an empty one means too,
    /// and Exists; tolerationSeconds counts from the taint's timeAdded on.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub cluster_tolerations: Vec<Toleration>,
    /// How replicas are handed to the chosen clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_scheduling: Option<ReplicaSchedulingStrategy>,
    /// How the chosen clusters are spread over groups. Ignored when replicas are divided by static weights, or by weights
    /// that are not given.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub spread_constraints: Vec<SpreadConstraint>,
    /// Which workloads belong on the same clusters, and which apart. Needs the feature gate WorkloadAffinity (off by
    /// default); for templates with a namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload_affinity: Option<WorkloadAffinity>,
}

/// A named group of clusters; groups are tried in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterAffinityTerm {
    /// Name of the group, unique among the groups and written like a label key. The binding's
    /// `status.schedulerObservingAffinityName` says which is in use.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true, "minLength" = 1, "maxLength" = 32))]
    pub affinity_name: String,
    /// Names of clusters that may be chosen. Empty: any.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub cluster_names: Vec<String>,
    /// Names of clusters that are never chosen, whatever else says.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub exclude: Vec<String>,
    /// Selects clusters by their provider, region and zones. Absent: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<FieldSelector>,
    /// Selects clusters by their labels. Absent: any. A selector that cannot be understood matches none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::LabelSelector")]
    pub label_selector: Option<LabelSelector>,
    /// Tiers of clusters that are added in order when the group's own clusters lack room, and given up in reverse
    /// order. A cluster in several tiers counts in the first. For dynamic weights and aggregated replicas only.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub overflow_affinities: Vec<OverflowClusterAffinity>,
}

/// A further tier of clusters, used when the tiers before it lack resources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OverflowClusterAffinity {
    /// Name of the tier, unique inside its group, other than the group's own, and written like a label key.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true, "minLength" = 1, "maxLength" = 32))]
    pub affinity_name: String,
    /// Names of clusters that may be chosen. Empty: any.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub cluster_names: Vec<String>,
    /// Names of clusters that are never chosen, whatever else says.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub exclude: Vec<String>,
    /// Selects clusters by their provider, region and zones. Absent: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<FieldSelector>,
    /// Selects clusters by their labels. Absent: any. A selector that cannot be understood matches none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::LabelSelector")]
    pub label_selector: Option<LabelSelector>,
}

/// A filter that selects clusters. Every part that is absent passes; an empty filter selects all clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterAffinity {
    /// Names of clusters that may be chosen. Empty: any.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub cluster_names: Vec<String>,
    /// Names of clusters that are never chosen, whatever else says.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub exclude: Vec<String>,
    /// Selects clusters by their provider, region and zones. Absent: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<FieldSelector>,
    /// Selects clusters by their labels. Absent: any. A selector that cannot be understood matches none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::LabelSelector")]
    pub label_selector: Option<LabelSelector>,
}

/// A filter over the fields provider, region and zone of a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldSelector {
    /// Requirements on the keys provider, region and zone, with the operators In and NotIn; all must hold. A cluster that
    /// does not say its provider or region fits NotIn.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub match_expressions: Vec<NodeSelectorRequirement>,
}

/// How the chosen clusters are spread over groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SpreadConstraint {
    /// The most groups that are chosen; 0 is no limit. Must not be less than minGroups. Default: 0.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    #[schemars(extend("x-no-format" = true))]
    pub max_groups: i64,
    /// The fewest groups that are chosen; fewer are a failure. Default: 1.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    #[schemars(extend("x-no-format" = true))]
    pub min_groups: i64,
    /// Groups by a field of the clusters: `cluster` (each is a group of its own), `region`, `zone` or `provider`. One
    /// of the constraints with a field must be by cluster; each field may appear once. Default: cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread_by_field: Option<SpreadField>,
    /// Groups by the value of this label of the clusters. Excludes spreadByField.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub spread_by_label: String,
}

/// How replicas are handed to the chosen clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSchedulingStrategy {
    /// How replicas are divided, with type Divided. `Aggregated`: over as few clusters as have room. `Weighted`: by the
    /// weights of weightPreference, which is the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_division_preference: Option<ReplicaDivisionPreference>,
    /// `Duplicated`: every chosen cluster gets all replicas, which is also done without replicaScheduling. `Divided`: they
    /// are divided among the clusters, which is the default inside replicaScheduling.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "Divided"))]
    pub replica_scheduling_type: Option<ReplicaSchedulingType>,
    /// The weights, with type Divided and preference Weighted. Absent: every cluster weighs the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight_preference: Option<ClusterPreferences>,
}

/// The weight of each cluster when replicas are divided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterPreferences {
    /// `AvailableReplicas`: weights are the estimated available replicas per cluster. Takes precedence over
    /// staticWeightList.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dynamic_weight: Option<DynamicWeightFactor>,
    /// Fixed weights; ignored when dynamicWeight is set. A cluster that no entry names gets nothing; if entries name none
    /// of the candidates, all weigh 1.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub static_weight_list: Vec<StaticClusterWeight>,
}

/// A fixed weight for some clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StaticClusterWeight {
    /// Clusters the weight applies to.
    #[schemars(extend("x-required" = true))]
    pub target_cluster: ClusterAffinity,
    /// The weight, at least 1. If several entries name a cluster, the largest counts.
    #[schemars(extend("x-required" = true, "minimum" = 1))]
    pub weight: i64,
}

/// Which workloads belong on the same clusters, and which apart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadAffinity {
    /// The workload goes only where workloads of its group are; the first of a group goes anywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<WorkloadAffinityTerm>,
    /// The workload goes only where no other workload of its group is.
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

/// The field of a Cluster that makes the groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SpreadField {
    #[default]
    Cluster,
    Region,
    Zone,
    Provider,
}

/// How shares are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ReplicaDivisionPreference {
    #[default]
    Aggregated,
    Weighted,
}

/// Whether each cluster gets all replicas or a share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ReplicaSchedulingType {
    Duplicated,
    #[default]
    Divided,
}

/// What dynamic weights are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum DynamicWeightFactor {
    #[default]
    AvailableReplicas,
}
