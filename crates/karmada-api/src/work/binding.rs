//! ResourceBinding and ClusterResourceBinding as they are stored (v1alpha2).

use std::collections::BTreeMap;

use apimachinery::meta::{Condition, ObjectMeta, Time, null_as_default};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::schema;
use crate::is_default;
use crate::kubernetes::{NodeSelector, ResourceList, Toleration};
use crate::policy::v1alpha1::ConflictResolution;
use crate::policy::v1alpha1::FailoverBehavior;
use crate::policy::v1alpha1::Placement;
use crate::policy::v1alpha1::PurgeMode;
use crate::policy::v1alpha1::SuspendClusters;
use crate::raw::RawJson;

crate::api_type!(ResourceBinding, "work.karmada.io", "v1alpha2", "resourcebindings", true);
crate::api_type!(ClusterResourceBinding, "work.karmada.io", "v1alpha2", "clusterresourcebindings", false);

/// Ties a namespaced resource template to the clusters it goes to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceBinding {
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Standard metadata.
    #[schemars(with = "schema::ObjectMeta")]
    pub metadata: ObjectMeta,
    /// Desired.
    #[schemars(extend("x-required" = true))]
    pub spec: ResourceBindingSpec,
    /// Observed.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub status: ResourceBindingStatus,
}

/// Ties a cluster-scoped resource template to the clusters it goes to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterResourceBinding {
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Standard metadata.
    #[schemars(with = "schema::ObjectMeta")]
    pub metadata: ObjectMeta,
    /// Desired.
    #[schemars(extend("x-required" = true))]
    pub spec: ResourceBindingSpec,
    /// Observed.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub status: ResourceBindingStatus,
}

/// The template, what it needs and where it goes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceBindingSpec {
    /// Scheduling result. Written only by the scheduler (and shortened by eviction/descheduling); the detector never
    /// touches it.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub clusters: Vec<TargetCluster>,
    /// From interpreter GetComponents, only with gate MultiplePodTemplatesScheduling; then replicas/replicaRequirements
    /// stay empty.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub components: Vec<Component>,
    /// From policy; for dependency bindings the merge of the referrers (any Overwrite wins).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "Abort"))]
    pub conflict_resolution: Option<ConflictResolution>,
    /// From policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failover: Option<FailoverBehavior>,
    /// An eviction from one cluster that is under way.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub graceful_eviction_tasks: Vec<GracefulEvictionTask>,
    /// From policy; absent for bindings made by the dependencies distributor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// From policy; for dependency bindings any true wins. Copied to Works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
    /// From policy. (Not refreshed on an existing ClusterResourceBinding.)
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub propagate_deps: bool,
    /// From interpreter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<ReplicaRequirements>,
    /// From interpreter.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub replicas: i32,
    /// Bindings that pull this one along as a dependency.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub required_by: Vec<BindingSnapshot>,
    /// Set to the creation time of a WorkloadRebalancer. A fresh full scheduling happens when it is later than
    /// status.lastScheduledTime; ignored while lastScheduledTime is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::Time")]
    pub reschedule_triggered_at: Option<Time>,
    /// The template.
    #[schemars(extend("x-required" = true))]
    pub resource: ObjectReference,
    /// Resolved priority (ResourceBinding only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_priority: Option<BindingSchedulePriority>,
    /// From policy.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub scheduler_name: String,
    /// Holds scheduling or dispatching back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspension: Option<BindingSuspension>,
    /// Resolved groups (ResourceBinding only, gate WorkloadAffinity).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload_affinity_groups: Option<WorkloadAffinityGroups>,
}

/// One cluster of a scheduling result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TargetCluster {
    /// Per-component assignment, only for templates with more than one component and gate
    /// MultiplePodTemplatesScheduling; every selected cluster receives the full set.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub components: Vec<TargetComponent>,
    /// Cluster name.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// Replicas assigned; absent/0 for objects without replicas.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub replicas: i32,
}

/// Replicas of one component in one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TargetComponent {
    /// Matches spec.components[].name.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// Replicas of the component.
    #[schemars(extend("x-required" = true))]
    pub replicas: i32,
}

/// One pod template of a workload that has several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Component {
    /// Unique, non-empty (webhook with gate MultiplePodTemplatesScheduling).
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true, "maxLength" = 32))]
    pub name: String,
    /// What one replica of a component needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<ComponentReplicaRequirements>,
    /// Replica count.
    #[schemars(extend("x-required" = true))]
    pub replicas: i32,
}

/// What one replica of a component needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ComponentReplicaRequirements {
    /// The nodes on which a replica can run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_claim: Option<NodeClaim>,
    /// Pod priority class.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub priority_class_name: String,
    /// Request of one replica of the component.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub resource_request: ResourceList,
}

/// The nodes on which a replica can run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClaim {
    /// Copied from the pod template's required node affinity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard_node_affinity: Option<NodeSelector>,
    /// Copied from the pod template.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub node_selector: BTreeMap<String, String>,
    /// Copied from the pod template.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub tolerations: Vec<Toleration>,
}

/// What one replica needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaRequirements {
    /// Namespace of the template; filled only with gate ResourceQuotaEstimate.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
    /// The nodes on which a replica can run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_claim: Option<NodeClaim>,
    /// Pod priority class; filled only with gate ResourceQuotaEstimate.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub priority_class_name: String,
    /// Effective request of one pod (containers summed, max with init containers, plus overhead).
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub resource_request: ResourceList,
}

/// An eviction from one cluster that is under way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GracefulEvictionTask {
    /// Clusters that ran the workload before this failover.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub clusters_before_failover: Vec<String>,
    /// Set by the graceful eviction controller the first time it sees the task, not by the producer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::Time")]
    pub creation_timestamp: Option<Time>,
    /// Cluster being left.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub from_cluster: String,
    /// Deadline counted from creationTimestamp; overrides `--graceful-eviction-timeout` (default 10m). Must not be
    /// combined with suppressDeletion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i32>,
    /// Free text.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("maxLength" = 1024))]
    pub message: String,
    /// Labels to inject on the new cluster (see StatePreservation). Injected only when exactly one target cluster
    /// remains, the last task's purgeMode is Directly, and the target is not in clustersBeforeFailover.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub preserved_label_state: BTreeMap<String, String>,
    /// Who created it. Set by the system: `TaintManager`, `resource-binding-application-failover-controller`, `cluster-
    /// resource-binding-application-failover-controller`.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub producer: String,
    /// `Directly`, `Gracefully`, `Never`. Directly: the Work on that cluster is treated as an orphan and deleted at
    /// once. Other values keep the Work until the task is finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purge_mode: Option<PurgeMode>,
    /// CamelCase reason. Set by the system: `TaintUntolerated`, `ApplicationFailure`.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true, "minLength" = 1, "maxLength" = 32, "pattern" = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"))]
    pub reason: String,
    /// Replica count the cluster had; absent if it was 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// True: keep forever; false: delete now (human confirmation); Absent: normal handling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suppress_deletion: Option<bool>,
}

/// A binding that depends on this one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BindingSnapshot {
    /// Its scheduling result; these clusters are added to this binding's targets when Works are made.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub clusters: Vec<TargetCluster>,
    /// Name of that binding.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// Namespace of that binding (empty = ClusterResourceBinding).
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
}

/// The resource template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectReference {
    /// Template API version.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub api_version: String,
    /// Template kind.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub kind: String,
    /// Template name.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// Template namespace; empty for cluster-scoped.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
    /// Template resourceVersion at the last detector sync; this makes the binding generation move with every template
    /// change.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub resource_version: String,
    /// Template UID (used for event references).
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub uid: String,
}

/// The resolved place in the scheduling queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BindingSchedulePriority {
    /// Value of the PriorityClass. Higher is scheduled first.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    #[schemars(extend("x-default" = 0))]
    pub priority: i32,
}

/// Holds scheduling or dispatching back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BindingSuspension {
    /// As in a policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatching: Option<bool>,
    /// As in a policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatching_on_clusters: Option<SuspendClusters>,
    /// True: the scheduler skips this binding. Kept across policy syncs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<bool>,
}

/// The groups this workload belongs to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadAffinityGroups {
    /// `<labelKey>=<labelValue>` or absent when the template lacks the label.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub affinity_group: String,
    /// Same for anti-affinity.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub anti_affinity_group: String,
}

/// What is known of scheduling and of the copies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceBindingStatus {
    /// The state of the object in one cluster.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub aggregated_status: Vec<AggregatedStatusItem>,
    /// Types `Scheduled` and `FullyApplied`.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(with = "Vec<schema::Condition>")]
    pub conditions: Vec<Condition>,
    /// Time of the last successful scheduling.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::Time")]
    pub last_scheduled_time: Option<Time>,
    /// Generation last scheduled successfully; only moved when the Scheduled condition is True.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub scheduler_observed_generation: i64,
    /// Name of the cluster group in use.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub scheduler_observing_affinity_name: String,
}

/// The state of the object in one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AggregatedStatusItem {
    /// true iff the Work's Applied condition is True. (omitted on the wire when false)
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub applied: bool,
    /// Message of the Applied condition when it is False/Unknown.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub applied_message: String,
    /// Cluster, derived from the Work namespace.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub cluster_name: String,
    /// `Healthy`, `Unhealthy`, `Unknown`. Unknown when not applied or not collected yet; Healthy for kinds without
    /// health interpretation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<ResourceHealth>,
    /// Raw reflected status of the object in that cluster (arbitrary JSON). Absent when not applied or not collected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RawJson>,
}

/// What the interpreter says of an object's health.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ResourceHealth {
    Healthy,
    Unhealthy,
    #[default]
    Unknown,
}
