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
    /// Propagation rules.
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
    /// Propagation rules.
    #[schemars(extend("x-required" = true))]
    pub spec: PropagationSpec,
}

/// What is propagated, where to, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PropagationSpec {
    /// Empty: policy changes act at once. `Lazy` = policy changes wait until the template itself changes (changes made
    /// by Karmada do not count).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation_preference: Option<ActivationPreference>,
    /// Deprecated predecessor of propagateDeps; read by nothing.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub association: bool,
    /// `Abort`: do not touch an object that already exists in a member cluster and is not managed by Karmada.
    /// `Overwrite`: take it over. A template annotation `work.karmada.io/conflict-resolution` with a valid value wins
    /// over it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "Abort"))]
    pub conflict_resolution: Option<ConflictResolution>,
    /// Names that must exist before this policy takes effect: OverridePolicies of the same namespace for
    /// PropagationPolicy, ClusterOverridePolicies for ClusterPropagationPolicy. Until then the template is retried.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub dependent_overrides: Vec<String>,
    /// What happens when a cluster or an application fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failover: Option<FailoverBehavior>,
    /// Always present after admission (`{}` is added).
    pub placement: Placement,
    /// `Always`: may take templates claimed by lower-priority policies; needs gate PropagationPolicyPreemption (off).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "Never"))]
    pub preemption: Option<PreemptionBehavior>,
    /// True: member-cluster copies survive deletion of the template. Deleting the policy never deletes copies anyway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
    /// Explicit priority; higher wins. Absent counts as 0. Ties: higher match strength, then alphabetically smaller
    /// policy name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = 0))]
    pub priority: Option<i32>,
    /// Also propagate objects the template depends on (found by the interpreter). Needs gate PropagateDeps (on). No
    /// effect for cluster-scoped templates.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub propagate_deps: bool,
    /// Which templates; at least one entry.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true, "minItems" = 1))]
    pub resource_selectors: Vec<ResourceSelector>,
    /// Scheduling queue priority; gate PriorityBasedScheduling (on). Applied to ResourceBindings only, never to
    /// ClusterResourceBindings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_priority: Option<SchedulePriority>,
    /// Scheduler in charge; copied to bindings; immutable on update. The built-in scheduler answers to `--scheduler-
    /// name`.
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
    /// Exact `group/version` (or `v1`); no wildcards.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub api_version: String,
    /// Exact kind; no wildcards.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub kind: String,
    /// Used only when `name` is empty. Absent (and no name): all objects of the kind. Note: a present empty selector
    /// also matches everything but with strength 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::LabelSelector")]
    pub label_selector: Option<LabelSelector>,
    /// Exact name. When set, `labelSelector` is ignored altogether.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub name: String,
    /// Empty matches any namespace. For cluster policies empty means every namespace (reserved ones excluded by the
    /// detector).
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
}

/// The place in the scheduling queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulePriority {
    /// Name of a scheduling.k8s.io/v1 PriorityClass in the control plane; a missing class makes building the binding
    /// fail and retry.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub priority_class_name: String,
    /// Only `KubePriorityClass` is admitted by the schema (constants `PodPriorityClass` and `FederatedPriorityClass`
    /// exist in code but are not implemented).
    #[schemars(extend("x-required" = true))]
    pub priority_class_source: PriorityClassSource,
}

/// Holds dispatching back, for all clusters or some.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Suspension {
    /// True: do not dispatch Works to any cluster (Work gets `suspendDispatching: true`). Excludes a non-empty
    /// dispatchingOnClusters.clusterNames. Scheduling and status collection continue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatching: Option<bool>,
    /// Suspend for some clusters only.
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
