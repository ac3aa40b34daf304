//! PropagationPolicy and ClusterPropagationPolicy.

use apimachinery::meta::{LabelSelector, ObjectMeta, null_as_default};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::schema;
use crate::is_default;
use crate::policy::v1alpha1::FailoverBehavior;
use crate::policy::v1alpha1::Placement;

crate::api_type!(PropagationPolicy, "policy.karmada.io", "v1alpha1", "propagationpolicies", true);
crate::api_type!(ClusterPropagationPolicy, "policy.karmada.io", "v1alpha1", "clusterpropagationpolicies", false);

/// Chooses resource templates of its namespace and says where they go.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PropagationPolicy {
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Standard metadata.
    #[schemars(with = "schema::ObjectMeta")]
    pub metadata: ObjectMeta,
    /// What is propagated, where to, and how.
    #[schemars(extend("x-required" = true))]
    pub spec: PropagationSpec,
}

/// Chooses cluster-scoped templates, or templates of any namespace, and says where they go.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterPropagationPolicy {
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Standard metadata.
    #[schemars(with = "schema::ObjectMeta")]
    pub metadata: ObjectMeta,
    /// What is propagated, where to, and how.
    #[schemars(extend("x-required" = true))]
    pub spec: PropagationSpec,
}

/// What is propagated, where to, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PropagationSpec {
    /// When changes of this policy take effect. Absent: at once. `Lazy`: when the template itself changes next; what the
    /// system writes into it does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation_preference: Option<ActivationPreference>,
    /// Deprecated: it has no effect. Use propagateDeps.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub association: bool,
    /// What happens to an object that exists in a member cluster and is not managed. `Abort`: it is left alone.
    /// `Overwrite`: it is taken over. The annotation `work.karmada.io/conflict-resolution` of a template wins over
    /// this. Default: Abort.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "Abort"))]
    pub conflict_resolution: Option<ConflictResolution>,
    /// Names of override policies without which nothing is propagated: OverridePolicies of the same namespace, or
    /// ClusterOverridePolicies for a cluster policy. Until they exist the templates wait.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub dependent_overrides: Vec<String>,
    /// What happens when a cluster or an application fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failover: Option<FailoverBehavior>,
    /// Where the templates go. Absent or empty: to every cluster, with all replicas in each.
    pub placement: Placement,
    /// Whether templates that a policy of lower priority claims are taken over. `Always` needs the feature gate
    /// PropagationPolicyPreemption (off by default); `Never` leaves them. Default: Never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "Never"))]
    pub preemption: Option<PreemptionBehavior>,
    /// True: the copies in member clusters stay when the template is deleted. Absent: they go with it. Deleting the
    /// policy alone never deletes copies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
    /// Priority among the policies that select a template; the highest wins, then the one that selects more
    /// precisely, then the name that comes first in the alphabet. Default: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = 0))]
    pub priority: Option<i32>,
    /// Whether objects the template needs, such as ConfigMaps and Secrets of its pods, are propagated with it. Needs the
    /// feature gate PropagateDeps (on by default); without effect for cluster-scoped templates. Default: false.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub propagate_deps: bool,
    /// The templates; one entry that fits is enough. At least one is required.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true, "minItems" = 1))]
    pub resource_selectors: Vec<ResourceSelector>,
    /// The place of the bindings in the scheduling queue. Needs the feature gate PriorityBasedScheduling (on by default);
    /// without effect for cluster-scoped templates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_priority: Option<SchedulePriority>,
    /// The scheduler in charge. It cannot be changed. The scheduler that is part of the system has the name of its
    /// flag `--scheduler-name`. Default: default-scheduler.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("x-default" = "default-scheduler"))]
    pub scheduler_name: String,
    /// Holds dispatching back, for all clusters or some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspension: Option<Suspension>,
}

/// Selects resource templates by kind, and by name or labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceSelector {
    /// Group and version of the templates, such as apps/v1 or v1; no wildcards.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub api_version: String,
    /// Kind of the templates, such as Deployment; no wildcards.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub kind: String,
    /// Labels of the templates; used only when `name` is empty. Absent, and no name: all objects of the kind. An empty
    /// selector matches all of them, too, but goes before a policy without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::LabelSelector")]
    pub label_selector: Option<LabelSelector>,
    /// Name of the template. When it is set, `labelSelector` is ignored.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub name: String,
    /// Namespace of the templates. In a policy with a namespace it is that one; in a cluster policy empty is every
    /// namespace that is not reserved (kube-*, karmada-system, karmada-cluster, karmada-es-*).
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
}

/// The place in the scheduling queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulePriority {
    /// Name of the priority class. Templates wait while it does not exist.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub priority_class_name: String,
    /// Where the class is looked up. `KubePriorityClass`: among the PriorityClasses of the control plane.
    #[schemars(extend("x-required" = true))]
    pub priority_class_source: PriorityClassSource,
}

/// Holds dispatching back, for all clusters or some.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Suspension {
    /// True: nothing is dispatched to any cluster; scheduling and the collection of status go on. Excludes
    /// dispatchingOnClusters. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatching: Option<bool>,
    /// Clusters to which nothing is dispatched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatching_on_clusters: Option<SuspendClusters>,
}

/// Clusters to which nothing is dispatched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SuspendClusters {
    /// Names of those clusters.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub cluster_names: Vec<String>,
}

/// When changes of a policy take effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ActivationPreference {
    #[default]
    Lazy,
}

/// What happens to an object that exists in a member cluster and is not managed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ConflictResolution {
    #[default]
    Abort,
    Overwrite,
}

/// Whether a policy may take templates from policies of lower priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum PreemptionBehavior {
    Always,
    #[default]
    Never,
}

/// Where a priority class is looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum PriorityClassSource {
    #[default]
    KubePriorityClass,
}
