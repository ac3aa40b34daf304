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
    /// Ordered groups tried one after another until scheduling succeeds with one group; the chosen name goes to
    /// `status.schedulerObservingAffinityName` of the binding, and later scheduling resumes from that group (a
    /// WorkloadRebalancer trigger restarts from the first).
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub cluster_affinities: Vec<ClusterAffinityTerm>,
    /// Single cluster filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<ClusterAffinity>,
    /// Tolerations of cluster taints (`Cluster.spec.taints`). Operators `""`, `Exists`, `Equal`; `Lt`/`Gt` are refused.
    /// `tolerationSeconds` counts from the taint's `timeAdded` for NoExecute taints.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub cluster_tolerations: Vec<Toleration>,
    /// How replicas are handed to the chosen clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_scheduling: Option<ReplicaSchedulingStrategy>,
    /// Ignored completely when replicas are Divided + Weighted with static weights or no weightPreference.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub spread_constraints: Vec<SpreadConstraint>,
    /// Inter-workload rules; effective only with feature gate WorkloadAffinity (alpha, off) and only for namespaced
    /// templates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload_affinity: Option<WorkloadAffinity>,
}

/// A named group of clusters; groups are tried in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterAffinityTerm {
    /// Name of the group. Recorded by the scheduler in the binding's `status.schedulerObservingAffinityName`. Webhook:
    /// must be a valid label key and unique among the terms.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true, "minLength" = 1, "maxLength" = 32))]
    pub affinity_name: String,
    /// Allow-list of cluster names. Empty: every name passes.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub cluster_names: Vec<String>,
    /// Deny-list of cluster names, checked first and always wins.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub exclude: Vec<String>,
    /// Filter over cluster fields, see `fieldSelector.matchExpressions`. Absent: no field filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<FieldSelector>,
    /// Standard label selector over the Cluster object's labels. Absent: no label filter. An unparsable selector
    /// matches nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::LabelSelector")]
    pub label_selector: Option<LabelSelector>,
    /// Ordered tiers the scheduler may add when the primary tier (the inline affinity) lacks resources; contracted in
    /// reverse order on scale-down. A cluster in several tiers counts only in the first.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub overflow_affinities: Vec<OverflowClusterAffinity>,
}

/// A further tier of clusters, used when the tiers before it lack resources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OverflowClusterAffinity {
    /// Tier name; must be a valid label key, unique inside its term and different from the term's own name.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true, "minLength" = 1, "maxLength" = 32))]
    pub affinity_name: String,
    /// Allow-list of cluster names. Empty: every name passes.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub cluster_names: Vec<String>,
    /// Deny-list of cluster names, checked first and always wins.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub exclude: Vec<String>,
    /// Filter over cluster fields, see `fieldSelector.matchExpressions`. Absent: no field filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<FieldSelector>,
    /// Standard label selector over the Cluster object's labels. Absent: no label filter. An unparsable selector
    /// matches nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::LabelSelector")]
    pub label_selector: Option<LabelSelector>,
}

/// A filter that selects clusters. Every part that is absent passes; an empty filter selects all clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterAffinity {
    /// Allow-list of cluster names. Empty: every name passes.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub cluster_names: Vec<String>,
    /// Deny-list of cluster names, checked first and always wins.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub exclude: Vec<String>,
    /// Filter over cluster fields, see `fieldSelector.matchExpressions`. Absent: no field filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<FieldSelector>,
    /// Standard label selector over the Cluster object's labels. Absent: no label filter. An unparsable selector
    /// matches nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::LabelSelector")]
    pub label_selector: Option<LabelSelector>,
}

/// A filter over the fields provider, region and zone of a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldSelector {
    /// All must hold. `provider`/`region` read the spec fields (an empty spec field counts as "label absent", so
    /// `NotIn` matches it).
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub match_expressions: Vec<NodeSelectorRequirement>,
}

/// How the chosen clusters are spread over groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SpreadConstraint {
    /// Upper bound on selected groups. 0 = unlimited. Must be ≥ 0 and, when > 0, ≥ minGroups.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    #[schemars(extend("x-no-format" = true))]
    pub max_groups: i64,
    /// Lower bound on selected groups. Must be ≥ 0.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    #[schemars(extend("x-no-format" = true))]
    pub min_groups: i64,
    /// Grouping by cluster field: `cluster` (each cluster its own group), `region`, `zone`, `provider`. If any
    /// constraint uses spreadByField, one of them must be `cluster`; each field may appear once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread_by_field: Option<SpreadField>,
    /// Grouping by a cluster label key. Excludes spreadByField in the same entry.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub spread_by_label: String,
}

/// How replicas are handed to the chosen clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSchedulingStrategy {
    /// Only for Divided. `Aggregated`: as few clusters as possible given available resources. `Weighted`: by weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_division_preference: Option<ReplicaDivisionPreference>,
    /// `Duplicated`: every selected cluster gets the full count. `Divided`: the count is split. CRD default applies
    /// only when the parent object is present.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "Divided"))]
    pub replica_scheduling_type: Option<ReplicaSchedulingType>,
    /// Only for Divided+Weighted. Absent: all candidate clusters weigh the same (static weight 1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight_preference: Option<ClusterPreferences>,
}

/// The weight of each cluster when replicas are divided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterPreferences {
    /// Only value `AvailableReplicas`: weights are the estimated available replicas per cluster. Takes precedence over
    /// staticWeightList.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dynamic_weight: Option<DynamicWeightFactor>,
    /// Static weights; ignored when dynamicWeight is set. A candidate cluster matched by no entry gets nothing; if no
    /// candidate is matched at all, all weigh 1.
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
    /// Weight, ≥ 1. When several entries match a cluster the largest is used by the scheduler.
    #[schemars(extend("x-required" = true, "minimum" = 1))]
    pub weight: i64,
}

/// Which workloads belong on the same clusters, and which apart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadAffinity {
    /// Co-locate with workloads of the same group (hard requirement; the first workload of a group is never blocked).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<WorkloadAffinityTerm>,
    /// Keep away from clusters already running workloads of the same group (hard).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anti_affinity: Option<WorkloadAffinityTerm>,
}

/// Groups workloads of one namespace by the value of a label.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadAffinityTerm {
    /// Label key on the template; label value defines the group inside one namespace. Must be a valid label key.
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
