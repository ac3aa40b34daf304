//! Labels, annotations, finalizers, namespaces, condition types and reasons. They are a contract with every client and
//! with everything already stored, so they never change.

/// Label keys.
pub mod labels {
    pub const POLICY_ID: &str = "propagationpolicy.karmada.io/permanent-id";
    pub const CLUSTER_POLICY_ID: &str = "clusterpropagationpolicy.karmada.io/permanent-id";
    pub const BINDING_ID: &str = "resourcebinding.karmada.io/permanent-id";
    pub const CLUSTER_BINDING_ID: &str = "clusterresourcebinding.karmada.io/permanent-id";
    pub const WORK_ID: &str = "work.karmada.io/permanent-id";
    pub const MULTI_CLUSTER_SERVICE_ID: &str = "multiclusterservice.karmada.io/permanent-id";

    /// `true` on objects in member clusters that are ours.
    pub const MANAGED: &str = "karmada.io/managed";
    /// `true` on objects the system made for itself.
    pub const SYSTEM: &str = "karmada.io/system";
    pub const BINDING_MANAGED_BY: &str = "binding.karmada.io/managed-by";
    /// Not empty: the detector leaves the template alone.
    pub const CLAIMED_BY: &str = "resourcetemplate.karmada.io/claimed-by";
    pub const RETAIN_REPLICAS: &str = "resourcetemplate.karmada.io/retain-replicas";
    pub const DELETION_PROTECTED: &str = "resourcetemplate.karmada.io/deletion-protected";
    /// The value of [`DELETION_PROTECTED`] that protects.
    pub const DELETION_PROTECTED_ALWAYS: &str = "Always";
    pub const SKIP_AUTO_PROPAGATION: &str = "namespace.karmada.io/skip-auto-propagation";
    /// Followed by a binding's reference key.
    pub const DEPENDED_BY_PREFIX: &str = "resourcebinding.karmada.io/depended-by-";
    pub const ENDPOINT_SLICE_NAMESPACE: &str = "endpointslice.karmada.io/namespace";
    pub const ENDPOINT_SLICE_NAME: &str = "endpointslice.karmada.io/name";
    pub const ENDPOINT_SLICE_MANAGED_BY: &str = "endpointslice.karmada.io/managed-by";
    pub const QUOTA_NAMESPACE: &str = "federatedresourcequota.karmada.io/namespace";
    pub const QUOTA_NAME: &str = "federatedresourcequota.karmada.io/name";
}

/// Annotation keys.
pub mod annotations {
    pub const POLICY_NAMESPACE: &str = "propagationpolicy.karmada.io/namespace";
    pub const POLICY_NAME: &str = "propagationpolicy.karmada.io/name";
    pub const CLUSTER_POLICY_NAME: &str = "clusterpropagationpolicy.karmada.io/name";
    pub const APPLIED_PLACEMENT: &str = "policy.karmada.io/applied-placement";
    pub const DEPENDENCIES: &str = "resourcebinding.karmada.io/dependencies";
    pub const BINDING_NAMESPACE: &str = "resourcebinding.karmada.io/namespace";
    pub const BINDING_NAME: &str = "resourcebinding.karmada.io/name";
    pub const CLUSTER_BINDING_NAME: &str = "clusterresourcebinding.karmada.io/name";
    pub const CONFLICT_RESOLUTION: &str = "work.karmada.io/conflict-resolution";
    pub const APPLIED_OVERRIDES: &str = "policy.karmada.io/applied-overrides";
    pub const APPLIED_CLUSTER_OVERRIDES: &str = "policy.karmada.io/applied-cluster-overrides";
    pub const WORK_NAMESPACE: &str = "work.karmada.io/namespace";
    pub const WORK_NAME: &str = "work.karmada.io/name";
    pub const TEMPLATE_UID: &str = "resourcetemplate.karmada.io/uid";
    pub const TEMPLATE_GENERATION: &str = "resourcetemplate.karmada.io/generation";
    pub const MANAGED_ANNOTATIONS: &str = "resourcetemplate.karmada.io/managed-annotations";
    pub const MANAGED_LABELS: &str = "resourcetemplate.karmada.io/managed-labels";
    pub const MULTI_CLUSTER_SERVICE_NAME: &str = "multiclusterservice.karmada.io/name";
    pub const MULTI_CLUSTER_SERVICE_NAMESPACE: &str = "multiclusterservice.karmada.io/namespace";
    pub const PROVISION_CLUSTER: &str = "endpointslice.karmada.io/provision-cluster";
    pub const CACHED_FROM_CLUSTER: &str = "resource.karmada.io/cached-from-cluster";
    pub const QUERY_FROM_CLUSTER: &str = "resource.karmada.io/query-from-cluster";
}

/// Finalizers.
pub mod finalizers {
    pub const CLUSTER: &str = "karmada.io/cluster-controller";
    pub const EXECUTION: &str = "karmada.io/execution-controller";
    pub const BINDING: &str = "karmada.io/binding-controller";
    pub const CLUSTER_BINDING: &str = "karmada.io/cluster-resource-binding-controller";
    pub const DEPENDENCIES: &str = "karmada.io/binding-dependencies-distributor";
    pub const POLICY: &str = "karmada.io/propagation-policy-controller";
    pub const CLUSTER_POLICY: &str = "karmada.io/cluster-propagation-policy-controller";
    pub const ENDPOINT_SLICE: &str = "karmada.io/endpointslice-controller";
    pub const MCS_ENDPOINT_SLICE_DISPATCH: &str = "karmada.io/mcs-endpointslice-dispatch-controller";
    pub const MULTI_CLUSTER_SERVICE: &str = "karmada.io/multiclusterservice-controller";
}

/// Namespaces.
pub mod namespaces {
    pub const SYSTEM: &str = "karmada-system";
    pub const CLUSTER: &str = "karmada-cluster";
    /// Followed by a cluster's name: where its Works are.
    pub const EXECUTION_PREFIX: &str = "karmada-es-";

    /// Nothing in a reserved namespace is propagated.
    pub fn is_reserved(namespace: &str) -> bool {
        namespace == SYSTEM || namespace == CLUSTER || namespace.starts_with(EXECUTION_PREFIX)
    }
}

/// Taint keys set by the system.
pub mod taints {
    pub const NOT_READY: &str = "cluster.karmada.io/not-ready";
    pub const UNREACHABLE: &str = "cluster.karmada.io/unreachable";
    pub const UNSCHEDULABLE: &str = "cluster.karmada.io/unschedulable";
    pub const NO_SCHEDULE: &str = "NoSchedule";
    pub const NO_EXECUTE: &str = "NoExecute";
}

/// Condition types.
pub mod conditions {
    pub const READY: &str = "Ready";
    pub const COMPLETE_API_ENABLEMENTS: &str = "CompleteAPIEnablements";
    pub const SERVICE_DOMAIN_NAME_RESOLUTION_READY: &str = "ServiceDomainNameResolutionReady";
    pub const SCHEDULED: &str = "Scheduled";
    pub const FULLY_APPLIED: &str = "FullyApplied";
    pub const APPLIED: &str = "Applied";
    pub const DISPATCHING: &str = "Dispatching";
}

/// Condition reasons.
pub mod reasons {
    pub const CLUSTER_READY: &str = "ClusterReady";
    pub const CLUSTER_NOT_REACHABLE: &str = "ClusterNotReachable";
    pub const CLUSTER_NOT_READY: &str = "ClusterNotReady";
    pub const STATUS_COLLECTION_FAILED: &str = "StatusCollectionFailed";
    pub const CLUSTER_STATUS_UNKNOWN: &str = "ClusterStatusUnknown";
    pub const CLUSTER_STATUS_NEVER_UPDATED: &str = "ClusterStatusNeverUpdated";
    pub const API_ENABLEMENTS_COMPLETE: &str = "Complete";
    pub const API_ENABLEMENTS_PARTIAL: &str = "Partial";
    pub const API_ENABLEMENTS_EMPTY: &str = "Empty";
    pub const SCHEDULED: &str = "Success";
    pub const NO_CLUSTER_FIT: &str = "NoClusterFit";
    pub const UNSCHEDULABLE: &str = "Unschedulable";
    pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";
    pub const SCHEDULER_ERROR: &str = "SchedulerError";
    pub const FULLY_APPLIED: &str = "FullyAppliedSuccess";
    pub const NOT_FULLY_APPLIED: &str = "FullyAppliedFailed";
    pub const APPLIED: &str = "AppliedSuccessful";
    pub const NOT_APPLIED: &str = "AppliedFailed";
    pub const DISPATCHING: &str = "Dispatching";
    pub const SUSPENDED: &str = "SuspendDispatching";
}

/// Event reasons come in pairs; the pair is named by what was tried.
pub mod events {
    pub const APPLY_POLICY_SUCCEED: &str = "ApplyPolicySucceed";
    pub const APPLY_POLICY_FAILED: &str = "ApplyPolicyFailed";
    pub const GET_REPLICAS_SUCCEED: &str = "GetReplicasSucceed";
    pub const GET_REPLICAS_FAILED: &str = "GetReplicasFailed";
    pub const APPLY_OVERRIDE_POLICY_SUCCEED: &str = "ApplyOverridePolicySucceed";
    pub const APPLY_OVERRIDE_POLICY_FAILED: &str = "ApplyOverridePolicyFailed";
    pub const SYNC_WORK_SUCCEED: &str = "SyncWorkSucceed";
    pub const SYNC_WORK_FAILED: &str = "SyncWorkFailed";
    pub const CLEANUP_WORK_FAILED: &str = "CleanupWorkFailed";
    pub const AGGREGATE_STATUS_SUCCEED: &str = "AggregateStatusSucceed";
    pub const AGGREGATE_STATUS_FAILED: &str = "AggregateStatusFailed";
    pub const SCHEDULE_BINDING_SUCCEED: &str = "ScheduleBindingSucceed";
    pub const SCHEDULE_BINDING_FAILED: &str = "ScheduleBindingFailed";
    pub const SYNC_SUCCEED: &str = "SyncSucceed";
    pub const SYNC_FAILED: &str = "SyncFailed";
    pub const WORK_DISPATCHING: &str = "WorkDispatching";
    pub const REFLECT_STATUS_SUCCEED: &str = "ReflectStatusSucceed";
    pub const REFLECT_STATUS_FAILED: &str = "ReflectStatusFailed";
    pub const INTERPRET_HEALTH_SUCCEED: &str = "InterpretHealthSucceed";
    pub const INTERPRET_HEALTH_FAILED: &str = "InterpretHealthFailed";
    pub const CREATE_EXECUTION_SPACE_SUCCEED: &str = "CreateExecutionSpaceSucceed";
    pub const CREATE_EXECUTION_SPACE_FAILED: &str = "CreateExecutionSpaceFailed";
    pub const REMOVE_EXECUTION_SPACE_SUCCEED: &str = "RemoveExecutionSpaceSucceed";
    pub const REMOVE_EXECUTION_SPACE_FAILED: &str = "RemoveExecutionSpaceFailed";
    pub const TAINT_CLUSTER_SUCCEED: &str = "TaintClusterSucceed";
    pub const TAINT_CLUSTER_FAILED: &str = "TaintClusterFailed";
}
