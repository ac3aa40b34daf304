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
    /// The template, what it needs and where it goes.
    #[schemars(extend("x-required" = true))]
    pub spec: ResourceBindingSpec,
    /// What is known of scheduling and of the copies.
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
    /// The template, what it needs and where it goes.
    #[schemars(extend("x-required" = true))]
    pub spec: ResourceBindingSpec,
    /// What is known of scheduling and of the copies.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub status: ResourceBindingStatus,
}

/// The template, what it needs and where it goes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceBindingSpec {
    /// The clusters the template goes to: the scheduler's result, from which evictions and the descheduler take away.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub clusters: Vec<TargetCluster>,
    /// The pod templates of a workload that has several, with the feature gate MultiplePodTemplatesScheduling (off by
    /// default); replicas and replicaRequirements are empty then.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub components: Vec<Component>,
    /// What happens to an object that exists in a member cluster and is not managed, as the policy says. Of a
    /// dependency: Overwrite, if a policy of what needs it says so. Default: Abort.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "Abort"))]
    pub conflict_resolution: Option<ConflictResolution>,
    /// What happens when a cluster or the application fails, as the policy says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failover: Option<FailoverBehavior>,
    /// Evictions that are under way, one for each cluster that is being left.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub graceful_eviction_tasks: Vec<GracefulEvictionTask>,
    /// Where the template may go, as the policy says. Absent for dependencies, which follow what needs them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Whether the copies stay when the template is deleted, as the policy says. Of a dependency: true, if any policy
    /// of what needs it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
    /// Whether what the template needs is propagated with it, as the policy says.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub propagate_deps: bool,
    /// What one replica needs, as the interpreter finds it in the template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<ReplicaRequirements>,
    /// How many replicas are wanted in all, as the interpreter finds it in the template.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub replicas: i32,
    /// Bindings whose templates need this one; it goes to their clusters.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub required_by: Vec<BindingSnapshot>,
    /// When a WorkloadRebalancer asked for it: if that is later than status.lastScheduledTime, all replicas are
    /// scheduled afresh.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::Time")]
    pub reschedule_triggered_at: Option<Time>,
    /// The template.
    #[schemars(extend("x-required" = true))]
    pub resource: ObjectReference,
    /// The place in the scheduling queue, from the policy's priority class. Of ResourceBindings only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_priority: Option<BindingSchedulePriority>,
    /// The scheduler in charge, as the policy says.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub scheduler_name: String,
    /// Holds scheduling or dispatching back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspension: Option<BindingSuspension>,
    /// The groups of workloads it belongs to, with the feature gate WorkloadAffinity. Of ResourceBindings only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload_affinity_groups: Option<WorkloadAffinityGroups>,
}

/// One cluster of a scheduling result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TargetCluster {
    /// Replicas of each component, for templates with several and with the feature gate
    /// MultiplePodTemplatesScheduling; every cluster gets the whole set.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub components: Vec<TargetComponent>,
    /// Name of the cluster.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// Replicas the cluster gets; absent for objects without replicas.
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

/// One pod template of a workload that has several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Component {
    /// Name of the component; no two of a binding may have the same.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true, "maxLength" = 32))]
    pub name: String,
    /// What one replica of a component needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<ComponentReplicaRequirements>,
    /// Replicas of the component.
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
    /// Priority class of the component's pods.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub priority_class_name: String,
    /// What one replica of the component asks for, by resource.
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

/// What one replica needs.
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
    /// What one pod asks for, by resource: the sum of its containers or the most of an init container, and the
    /// overhead.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub resource_request: ResourceList,
}

/// Evictions that are under way, one for each cluster that is being left.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GracefulEvictionTask {
    /// Clusters that ran the workload before this failover.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub clusters_before_failover: Vec<String>,
    /// When the eviction was first seen; the time for it counts from then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::Time")]
    pub creation_timestamp: Option<Time>,
    /// The cluster that is left.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub from_cluster: String,
    /// Seconds the copy may stay, from creationTimestamp on. Absent: as `--graceful-eviction-timeout` says (10
    /// minutes). Excludes suppressDeletion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i32>,
    /// Details for a human.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    #[schemars(extend("maxLength" = 1024))]
    pub message: String,
    /// Labels for the copy in the new cluster, with what was kept of this copy's status. It gets them if it is the
    /// only one, this is the last task, and the cluster is not in clustersBeforeFailover.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_as_default")]
    pub preserved_label_state: BTreeMap<String, String>,
    /// Who asked for the eviction, such as TaintManager or resource-binding-application-failover-controller.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub producer: String,
    /// What happens to the copy. `Directly`: it is removed at once. `Gracefully`: it stays until its replacement is
    /// healthy or its time is over. `Never`: it stays until somebody sets `suppressDeletion: false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purge_mode: Option<PurgeMode>,
    /// Why, as one word: `TaintUntolerated` or `ApplicationFailure`.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true, "minLength" = 1, "maxLength" = 32, "pattern" = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"))]
    pub reason: String,
    /// Replicas the cluster had; absent for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// A human's word on the copy. True: it stays. False: it is removed now. Absent: as purgeMode says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suppress_deletion: Option<bool>,
}

/// A binding that depends on this one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BindingSnapshot {
    /// Its clusters, to which this binding's template goes, too.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub clusters: Vec<TargetCluster>,
    /// Name of that binding.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// Namespace of that binding; empty is a ClusterResourceBinding.
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
    /// The version of the template this binding was made from.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub resource_version: String,
    /// UID of the template.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub uid: String,
}

/// The resolved place in the scheduling queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BindingSchedulePriority {
    /// Value of the priority class; the highest is scheduled first. Default: 0.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    #[schemars(extend("x-default" = 0))]
    pub priority: i32,
}

/// Holds scheduling or dispatching back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BindingSuspension {
    /// True: nothing is dispatched to any cluster, as the policy says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatching: Option<bool>,
    /// Clusters to which nothing is dispatched, as the policy says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatching_on_clusters: Option<SuspendClusters>,
    /// True: the scheduler passes this binding over. Policies leave it as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<bool>,
}

/// The groups this workload belongs to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadAffinityGroups {
    /// The group it belongs with, as KEY=VALUE of the template's label; absent without the label.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub affinity_group: String,
    /// The group it stays apart from, as KEY=VALUE of the template's label; absent without the label.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub anti_affinity_group: String,
}

/// What is known of scheduling and of the copies.
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
    /// The generation that was scheduled last with success.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub scheduler_observed_generation: i64,
    /// Name of the group of clusters in use, of those in placement.clusterAffinities.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub scheduler_observing_affinity_name: String,
}

/// The state of the object in one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AggregatedStatusItem {
    /// Whether the object was written to the cluster: the Work's condition Applied. Absent: false.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_as_default")]
    pub applied: bool,
    /// What is wrong, when the object could not be written.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_as_default")]
    pub applied_message: String,
    /// Name of the cluster.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(extend("x-required" = true))]
    pub cluster_name: String,
    /// `Healthy`, `Unhealthy`, or `Unknown` while nothing is known. Kinds whose health nobody can tell are healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<ResourceHealth>,
    /// The object's status in that cluster, as the interpreter reflects it. Absent while nothing is known.
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
