//! ResourceBinding and ClusterResourceBinding in the stored version (v1alpha2).

use std::collections::BTreeMap;

use apimachinery::meta::{Condition, ObjectMeta, Time, null_as_default};
use serde::{Deserialize, Serialize};

use crate::crd::JsonSchema;
#[cfg(test)]
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

/// Binds a namespaced resource template to its target clusters.
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
    /// The template, its requirements and its target clusters.
    #[schemars(extend("x-required" = true))]
    pub spec: ResourceBindingSpec,
    /// The state of scheduling and of the propagated objects.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub status: ResourceBindingStatus,
}

/// Binds a cluster-scoped resource template to its target clusters.
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
    /// The template, its requirements and its target clusters.
    #[schemars(extend("x-required" = true))]
    pub spec: ResourceBindingSpec,
    /// The state of scheduling and of the propagated objects.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub status: ResourceBindingStatus,
}

/// The template, its requirements and its target clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceBindingSpec {
    /// The target clusters: the scheduler's result, minus evictions and descheduled replicas.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub clusters: Vec<TargetCluster>,
    /// The pod templates of a workload with several, with the feature gate MultiplePodTemplatesScheduling (off by
    /// default); replicas and replicaRequirements are empty then.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub components: Vec<Component>,
    /// How an existing unmanaged object in a member cluster is treated, from the policy. For a dependency: Overwrite,
    /// if the policy of any dependent workload has it. Default: Abort.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "Abort"))]
    pub conflict_resolution: Option<ConflictResolution>,
    /// The behavior when a cluster or the application fails, from the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failover: Option<FailoverBehavior>,
    /// Evictions in progress, one for each cluster.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub graceful_eviction_tasks: Vec<GracefulEvictionTask>,
    /// Where the template may be scheduled, from the policy. Absent for dependencies, which follow the workloads that
    /// need them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Whether the objects in member clusters are kept when the template is deleted, from the policy. For a dependency:
    /// true, if the policy of any dependent workload has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
    /// Whether dependencies of the template are propagated with it, from the policy.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub propagate_deps: bool,
    /// Requirements of one replica, as the interpreter reads them from the template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<ReplicaRequirements>,
    /// The desired number of replicas, as the interpreter reads it from the template.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub replicas: i32,
    /// Bindings that depend on this one; the template is propagated to their clusters.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub required_by: Vec<BindingSnapshot>,
    /// When a WorkloadRebalancer requested a new decision: if that is later than status.lastScheduledTime, all replicas
    /// are rescheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::Time")]
    pub reschedule_triggered_at: Option<Time>,
    /// The template.
    #[schemars(extend("x-required" = true))]
    pub resource: ObjectReference,
    /// Priority in the scheduling queue, from the policy's priority class. For ResourceBindings only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_priority: Option<BindingSchedulePriority>,
    /// The scheduler to use, from the policy.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub scheduler_name: String,
    /// Suspends scheduling or dispatching.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspension: Option<BindingSuspension>,
    /// The affinity groups of the workload, with the feature gate WorkloadAffinity. For ResourceBindings only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload_affinity_groups: Option<WorkloadAffinityGroups>,
}

/// One cluster of a scheduling result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TargetCluster {
    /// Replicas of each component, for templates with several and with the feature gate MultiplePodTemplatesScheduling;
    /// every cluster receives complete sets.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub components: Vec<TargetComponent>,
    /// Name of the cluster.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// Replicas of the cluster; absent for objects without replicas.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub replicas: i32,
}

/// Replicas of one component in one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TargetComponent {
    /// Name of the component, as in spec.components.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// Replicas of the component.
    #[schemars(extend("x-required" = true))]
    pub replicas: i32,
}

/// One pod template of a workload with several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Component {
    /// Name of the component, unique within the binding.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true, "maxLength" = 32))]
    pub name: String,
    /// Requirements of one replica of the component.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<ComponentReplicaRequirements>,
    /// Replicas of the component.
    #[schemars(extend("x-required" = true))]
    pub replicas: i32,
}

/// Requirements of one replica of a component.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ComponentReplicaRequirements {
    /// The nodes on which a replica can run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_claim: Option<NodeClaim>,
    /// Priority class of the component's pods.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub priority_class_name: String,
    /// Requests of one replica of the component, by resource.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub resource_request: ResourceList,
}

/// The nodes on which a replica can run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClaim {
    /// The required node affinity of the pod template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard_node_affinity: Option<NodeSelector>,
    /// The node selector of the pod template.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub node_selector: BTreeMap<String, String>,
    /// The tolerations of the pod template.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub tolerations: Vec<Toleration>,
}

/// Requirements of one replica.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaRequirements {
    /// Namespace of the template, with the feature gate ResourceQuotaEstimate.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
    /// The nodes on which a replica can run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_claim: Option<NodeClaim>,
    /// Priority class of the pods, with the feature gate ResourceQuotaEstimate.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub priority_class_name: String,
    /// Requests of one pod, by resource: the sum of its containers or the largest init container, plus the overhead.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub resource_request: ResourceList,
}

/// An eviction in progress.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GracefulEvictionTask {
    /// Clusters that ran the workload before this failover.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub clusters_before_failover: Vec<String>,
    /// When the eviction was first observed; its grace period starts then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::Time")]
    pub creation_timestamp: Option<Time>,
    /// The cluster that the workload is evicted from.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub from_cluster: String,
    /// Seconds for which the copy is kept, from creationTimestamp on. Absent: the flag `--graceful-eviction-timeout`
    /// applies (10 minutes). Excludes suppressDeletion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i32>,
    /// Details for humans.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("maxLength" = 1024))]
    pub message: String,
    /// Labels for the copy in the new cluster, with the preserved values of this copy's status. They are set if the new
    /// cluster is the only one and is not in clustersBeforeFailover, and this is the last task.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub preserved_label_state: BTreeMap<String, String>,
    /// The component that requested the eviction, such as TaintManager or
    /// resource-binding-application-failover-controller.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub producer: String,
    /// How the copy is removed. `Directly`: immediately. `Gracefully`: when its replacement is healthy or the grace
    /// period ends. `Never`: not until a user sets `suppressDeletion: false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purge_mode: Option<PurgeMode>,
    /// Reason, as one word: `TaintUntolerated` or `ApplicationFailure`.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true, "minLength" = 1, "maxLength" = 32, "pattern" = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"))]
    pub reason: String,
    /// Replicas that the cluster had; absent for objects without replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// A user's decision about the copy. True: it is kept. False: it is removed immediately. Absent: purgeMode applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suppress_deletion: Option<bool>,
}

/// A binding that depends on this one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BindingSnapshot {
    /// Its clusters, to which this binding's template is propagated too.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub clusters: Vec<TargetCluster>,
    /// Name of that binding.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// Namespace of that binding; empty for a ClusterResourceBinding.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
}

/// The resource template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectReference {
    /// Group and version of the template.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub api_version: String,
    /// Kind of the template.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub kind: String,
    /// Name of the template.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// Namespace of the template; empty for cluster-scoped ones.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub namespace: String,
    /// The resource version of the template that this binding was built from.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub resource_version: String,
    /// UID of the template.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub uid: String,
}

/// The resolved priority in the scheduling queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BindingSchedulePriority {
    /// Value of the priority class; the highest is scheduled first. Default: 0.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    #[schemars(extend("x-default" = 0))]
    pub priority: i32,
}

/// Suspends scheduling or dispatching.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BindingSuspension {
    /// True: dispatching to all clusters is suspended, from the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatching: Option<bool>,
    /// Clusters to which dispatching is suspended, from the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatching_on_clusters: Option<SuspendClusters>,
    /// True: the scheduler skips this binding. Policies do not change this field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<bool>,
}

/// The affinity groups of the workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadAffinityGroups {
    /// The group that it shares clusters with, as KEY=VALUE of the template's label; absent without the label.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub affinity_group: String,
    /// The group that it avoids, as KEY=VALUE of the template's label; absent without the label.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub anti_affinity_group: String,
}

/// The state of scheduling and of the propagated objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceBindingStatus {
    /// The state of the object in each cluster.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub aggregated_status: Vec<AggregatedStatusItem>,
    /// Conditions: Scheduled and FullyApplied.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    #[schemars(with = "Vec<schema::Condition>")]
    pub conditions: Vec<Condition>,
    /// Time of the last successful scheduling.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::Time")]
    pub last_scheduled_time: Option<Time>,
    /// The generation of the last successful scheduling.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub scheduler_observed_generation: i64,
    /// Name of the group in use, from placement.clusterAffinities.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub scheduler_observing_affinity_name: String,
}

/// The state of the object in one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AggregatedStatusItem {
    /// Whether the object is applied in the cluster: the Work's condition Applied. Absent: false.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub applied: bool,
    /// The error, if the object could not be applied.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub applied_message: String,
    /// Name of the cluster.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub cluster_name: String,
    /// `Healthy`, `Unhealthy`, or `Unknown` while no status is collected. Kinds without a health interpretation are
    /// healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<ResourceHealth>,
    /// The object's status in that cluster, as the interpreter reflects it. Absent while no status is collected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RawJson>,
}

/// The health of an object, as the interpreter determines it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ResourceHealth {
    /// The object works.
    Healthy,
    /// The object does not work.
    Unhealthy,
    /// The health is unknown.
    #[default]
    Unknown,
}
