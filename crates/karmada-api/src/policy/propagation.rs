//! PropagationPolicy and ClusterPropagationPolicy.

use apimachinery::meta::{LabelSelector, ObjectMeta, null_as_default};
use serde::{Deserialize, Serialize};

use crate::crd::JsonSchema;
#[cfg(test)]
use crate::crd::schema;
use crate::is_default;
use crate::policy::v1alpha1::FailoverBehavior;
use crate::policy::v1alpha1::Placement;

crate::api_type!(PropagationPolicy, "policy.karmada.io", "v1alpha1", "propagationpolicies", true);
crate::api_type!(ClusterPropagationPolicy, "policy.karmada.io", "v1alpha1", "clusterpropagationpolicies", false);

/// Selects resource templates of its namespace and propagates them to clusters.
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
    /// The selected templates, and how they are propagated.
    #[schemars(extend("x-required" = true))]
    pub spec: PropagationSpec,
}

/// Selects cluster-scoped templates, or templates of any namespace, and propagates them to clusters.
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
    /// The selected templates, and how they are propagated.
    #[schemars(extend("x-required" = true))]
    pub spec: PropagationSpec,
}

/// The selected templates, and how they are propagated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PropagationSpec {
    /// When changes of this policy take effect. Absent: immediately. `Lazy`: with the next change of the template by a
    /// user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation_preference: Option<ActivationPreference>,
    /// Deprecated: it has no effect. Use propagateDeps.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub association: bool,
    /// How an existing unmanaged object in a member cluster is treated. `Abort`: it is not changed. `Overwrite`: it is
    /// adopted. The annotation `work.karmada.io/conflict-resolution` of a template takes precedence. Default: Abort.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "Abort"))]
    pub conflict_resolution: Option<ConflictResolution>,
    /// Names of override policies that must exist before propagation: OverridePolicies of the same namespace, or
    /// ClusterOverridePolicies for a cluster policy. Templates wait for them.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub dependent_overrides: Vec<String>,
    /// The behavior when a cluster or an application fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failover: Option<FailoverBehavior>,
    /// The target clusters. Absent or empty: every cluster, with all replicas in each.
    pub placement: Placement,
    /// Whether the policy takes over templates that a policy of lower priority claims. `Always` requires the feature
    /// gate PropagationPolicyPreemption (off by default); `Never` does not take over. Default: Never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "Never"))]
    pub preemption: Option<PreemptionBehavior>,
    /// True: the objects in member clusters are kept when the template is deleted. Absent: they are deleted with it.
    /// Deleting only the policy never deletes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
    /// Priority among the policies that select a template: the highest wins, then the most specific selector, then the
    /// first name in alphabetical order. Default: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = 0))]
    pub priority: Option<i32>,
    /// Whether dependencies of the template, such as ConfigMaps and Secrets of its pods, are propagated with it.
    /// Requires the feature gate PropagateDeps (on by default); no effect for cluster-scoped templates. Default: false.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub propagate_deps: bool,
    /// The templates; one matching entry suffices. At least one is required.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true, "minItems" = 1))]
    pub resource_selectors: Vec<ResourceSelector>,
    /// Priority of the bindings in the scheduling queue. Requires the feature gate PriorityBasedScheduling (on by
    /// default); no effect for cluster-scoped templates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_priority: Option<SchedulePriority>,
    /// The scheduler to use; immutable. The built-in scheduler has the name of its flag `--scheduler-name`. Default:
    /// default-scheduler.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("x-default" = "default-scheduler"))]
    pub scheduler_name: String,
    /// Suspends dispatching to all or certain clusters.
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
    /// Labels of the templates; used only when `name` is empty. Absent, without a name: all objects of the kind. An
    /// empty selector also matches all of them, but takes precedence over a policy without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::LabelSelector")]
    pub label_selector: Option<LabelSelector>,
    /// Name of the template. If set, `labelSelector` is ignored.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub name: String,
    /// Namespace of the templates. A namespaced policy always selects its own namespace; in a cluster policy empty
    /// means every namespace that is not reserved (kube-*, karmada-system, karmada-cluster, karmada-es-*).
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
}

/// Priority in the scheduling queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulePriority {
    /// Name of the priority class. Templates wait while it does not exist.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub priority_class_name: String,
    /// The source of the class. `KubePriorityClass`: the PriorityClasses of the control plane.
    #[schemars(extend("x-required" = true))]
    pub priority_class_source: PriorityClassSource,
}

/// Suspends dispatching to all or certain clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Suspension {
    /// True: dispatching to all clusters is suspended; scheduling and status collection continue. Excludes
    /// dispatchingOnClusters. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatching: Option<bool>,
    /// Clusters to which dispatching is suspended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatching_on_clusters: Option<SuspendClusters>,
}

/// Clusters to which dispatching is suspended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SuspendClusters {
    /// Names of the clusters.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub cluster_names: Vec<String>,
}

/// When changes of a policy take effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ActivationPreference {
    /// With the next change of the template by a user.
    #[default]
    Lazy,
}

/// How an existing unmanaged object in a member cluster is treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ConflictResolution {
    /// It is unchanged.
    #[default]
    Abort,
    /// It is adopted and overwritten.
    Overwrite,
}

/// Whether a policy takes over templates from policies of lower priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum PreemptionBehavior {
    /// It does.
    Always,
    /// It does not.
    #[default]
    Never,
}

/// The source of a priority class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum PriorityClassSource {
    /// Among the PriorityClasses of the control plane.
    #[default]
    KubePriorityClass,
}
