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
    /// On the ConfigMaps of the failover history. An addition of ours.
    pub const FAILOVER_HISTORY: &str = "failover.karmada.io/history";
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
    /// A value of [`BINDING_MANAGED_BY`] and of [`CLAIMED_BY`].
    pub const BY_MULTI_CLUSTER_SERVICE: &str = "MultiClusterService";
    /// A value of [`ENDPOINT_SLICE_MANAGED_BY`]; several are joined with `.`, in any order.
    pub const BY_SERVICE_EXPORT: &str = "ServiceExport";
    /// On Works of a MultiClusterService; elsewhere the same texts are annotations.
    pub const MULTI_CLUSTER_SERVICE_NAMESPACE: &str = "multiclusterservice.karmada.io/namespace";
    pub const MULTI_CLUSTER_SERVICE_NAME: &str = "multiclusterservice.karmada.io/name";
    /// Kubernetes' label on EndpointSlices; slices with a value of ours are not collected again.
    pub const KUBERNETES_SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
    pub const SLICE_MANAGED_BY_DISPATCH: &str = "endpointslice-dispatch-controller.karmada.io";
    pub const SLICE_MANAGED_BY_IMPORT: &str = "endpointslice-controller.karmada.io";
    pub const KUBERNETES_SERVICE_NAME: &str = "kubernetes.io/service-name";
    /// On objects an installer made in the host cluster.
    pub const BOOTSTRAPPING: &str = "karmada.io/bootstrapping";
    /// On nodes of the host cluster that hold etcd.
    pub const ETCD: &str = "karmada.io/etcd";
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
    /// On the Secret of a cluster: where its token may be sent when no certificate is verified.
    pub const CREDENTIAL_ENDPOINT: &str = "cluster.karmada.io/credential-endpoint";
    /// On objects in members: which start of the control plane wrote them last, and from which revision of the Work. An
    /// addition of ours.
    pub const MARK: &str = "resume.karmada.io/mark";
    /// On a Cluster: the `lastTransitionTime` of the condition `ResumePending` that a person confirms. An addition of ours.
    pub const RESUME_CONFIRMED: &str = "resume.karmada.io/confirmed";
    /// The time of the condition `EvictionsPaused` whose pause a person ended for a Cluster.
    pub const EVICTIONS_RELEASED: &str = "failover.karmada.io/evictions-released";
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
    /// Named by upstream, and put on nothing.
    pub const MCS_ENDPOINT_SLICE_COLLECT: &str = "karmada.io/mcs-endpointslice-collect-controller";
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
    /// Of a Cluster: nothing it had is changed until a person confirms. An addition of ours.
    pub const RESUME_PENDING: &str = "ResumePending";
    /// On Clusters: too much of the fleet is unhealthy for evictions from this one.
    pub const EVICTIONS_PAUSED: &str = "EvictionsPaused";
    pub const SERVICE_DOMAIN_NAME_RESOLUTION_READY: &str = "ServiceDomainNameResolutionReady";
    pub const SCHEDULED: &str = "Scheduled";
    pub const FULLY_APPLIED: &str = "FullyApplied";
    pub const APPLIED: &str = "Applied";
    pub const DISPATCHING: &str = "Dispatching";
    /// Of a Work; defined, never set.
    pub const PROGRESSING: &str = "Progressing";
    pub const AVAILABLE: &str = "Available";
    pub const DEGRADED: &str = "Degraded";
    /// Of a MultiClusterService.
    pub const SERVICE_APPLIED: &str = "ServiceApplied";
    pub const ENDPOINT_SLICE_DISPATCHED: &str = "EndpointSliceDispatched";
    /// Of a FederatedHPA.
    pub const ABLE_TO_SCALE: &str = "AbleToScale";
    pub const SCALING_ACTIVE: &str = "ScalingActive";
    pub const SCALING_LIMITED: &str = "ScalingLimited";
    /// Of a CertificateSigningRequest.
    pub const APPROVED: &str = "Approved";
    /// Of a ServiceExport; defined, never set.
    pub const VALID: &str = "Valid";
    pub const CONFLICT: &str = "Conflict";
}

/// Condition reasons.
pub mod reasons {
    /// Of a Cluster's condition `ResumePending`.
    pub const STORE_OLDER_THAN_MEMBER: &str = "StoreOlderThanMember";
    pub const RESUMED: &str = "Resumed";
    pub const FLEET_UNHEALTHY: &str = "FleetUnhealthy";
    pub const FLEET_RECOVERED: &str = "FleetRecovered";
    pub const CLUSTER_RECOVERED: &str = "ClusterRecovered";
    pub const EVICTIONS_RELEASED: &str = "EvictionsReleased";
    /// Of a Work's condition `Applied`, and of the event on the Cluster.
    pub const RESUME_PENDING: &str = "ResumePending";
    pub const CLUSTER_READY: &str = "ClusterReady";
    pub const CLUSTER_NOT_REACHABLE: &str = "ClusterNotReachable";
    pub const CLUSTER_NOT_READY: &str = "ClusterNotReady";
    /// The endpoint of a Cluster leads back to the control plane.
    pub const CLUSTER_IS_CONTROL_PLANE: &str = "ClusterIsControlPlane";
    /// The endpoint of a Cluster leads to a cluster that is joined under another name.
    pub const CLUSTER_JOINED_TWICE: &str = "ClusterJoinedTwice";
    /// Another cluster than the recorded one answers at the endpoint.
    pub const CLUSTER_REPLACED: &str = "ClusterReplaced";
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
    pub const SERVICE_APPLIED: &str = "ServiceAppliedSucceed";
    pub const SERVICE_NOT_APPLIED: &str = "ServiceAppliedFailed";
    pub const ENDPOINT_SLICE_DISPATCHED: &str = "EndpointSliceDispatchedSucceed";
    pub const ENDPOINT_SLICE_NOT_DISPATCHED: &str = "EndpointSliceDispatchedFailed";
    /// Of a certificate request of an agent.
    pub const AUTO_APPROVED: &str = "AutoApproved";
    /// Of a workload in a WorkloadRebalancer.
    pub const REFERENCED_BINDING_NOT_FOUND: &str = "ReferencedBindingNotFound";

    /// Of a FederatedHPA's conditions.
    pub mod autoscaling {
        pub const FAILED_GET_SCALE: &str = "FailedGetScale";
        pub const FAILED_GET_SCALE_TARGET_REF: &str = "FailedGetScaleTargetRef";
        pub const FAILED_GET_BINDING: &str = "FailedGetBinding";
        pub const FAILED_GET_TARGET_CLUSTERS: &str = "FailedGetTargetClusters";
        pub const FAILED_UPDATE_SCALE: &str = "FailedUpdateScale";
        pub const SUCCEEDED_GET_SCALE: &str = "SucceededGetScale";
        pub const SUCCEEDED_RESCALE: &str = "SucceededRescale";
        pub const READY_FOR_NEW_SCALE: &str = "ReadyForNewScale";
        pub const SCALE_DOWN_STABILIZED: &str = "ScaleDownStabilized";
        pub const SCALE_UP_STABILIZED: &str = "ScaleUpStabilized";
        pub const SCALING_DISABLED: &str = "ScalingDisabled";
        pub const INVALID_SELECTOR: &str = "InvalidSelector";
        pub const AMBIGUOUS_SELECTOR: &str = "AmbiguousSelector";
        pub const FAILED_GET_OBJECT_METRIC: &str = "FailedGetObjectMetric";
        pub const FAILED_GET_PODS_METRIC: &str = "FailedGetPodsMetric";
        pub const FAILED_GET_RESOURCE_METRIC: &str = "FailedGetResourceMetric";
        pub const FAILED_GET_CONTAINER_RESOURCE_METRIC: &str = "FailedGetContainerResourceMetric";
        pub const INVALID_METRIC_SOURCE_TYPE: &str = "InvalidMetricSourceType";
        pub const VALID_METRIC_FOUND: &str = "ValidMetricFound";
        pub const DESIRED_WITHIN_RANGE: &str = "DesiredWithinRange";
        pub const SCALE_UP_LIMIT: &str = "ScaleUpLimit";
        pub const TOO_MANY_REPLICAS: &str = "TooManyReplicas";
        pub const SCALE_DOWN_LIMIT: &str = "ScaleDownLimit";
        pub const TOO_FEW_REPLICAS: &str = "TooFewReplicas";
    }
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
    pub const SYNC_IMPERSONATION_CONFIG_SUCCEED: &str = "SyncImpersonationConfigSucceed";
    pub const SYNC_IMPERSONATION_CONFIG_FAILED: &str = "SyncImpersonationConfigFailed";
    pub const SYNC_SCHEDULE_RESULT_TO_DEPENDENCIES_SUCCEED: &str = "SyncScheduleResultToDependenciesSucceed";
    pub const SYNC_SCHEDULE_RESULT_TO_DEPENDENCIES_FAILED: &str = "SyncScheduleResultToDependenciesFailed";
    pub const DESCHEDULE_BINDING_SUCCEED: &str = "DescheduleBindingSucceed";
    pub const DESCHEDULE_BINDING_FAILED: &str = "DescheduleBindingFailed";
    pub const EVICT_WORKLOAD_FROM_CLUSTER_SUCCEED: &str = "EvictWorkloadFromClusterSucceed";
    pub const EVICT_WORKLOAD_FROM_CLUSTER_FAILED: &str = "EvictWorkloadFromClusterFailed";
    pub const EVICTIONS_PAUSED: &str = "EvictionsPaused";
    pub const EVICTIONS_RESUMED: &str = "EvictionsResumed";
    pub const COLLECT_OVERALL_STATUS_SUCCEED: &str = "CollectOverallStatusSucceed";
    pub const COLLECT_OVERALL_STATUS_FAILED: &str = "CollectOverallStatusFailed";
    pub const GET_DEPENDENCIES_SUCCEED: &str = "GetDependenciesSucceed";
    pub const GET_DEPENDENCIES_FAILED: &str = "GetDependenciesFailed";
    pub const GET_COMPONENTS_SUCCEED: &str = "GetComponentsSucceed";
    pub const GET_COMPONENTS_FAILED: &str = "GetComponentsFailed";
    pub const PREEMPT_POLICY_SUCCEED: &str = "PreemptPolicySucceed";
    pub const PREEMPT_POLICY_FAILED: &str = "PreemptPolicyFailed";
    pub const SYNC_DERIVED_SERVICE_SUCCEED: &str = "SyncDerivedServiceSucceed";
    pub const SYNC_DERIVED_SERVICE_FAILED: &str = "SyncDerivedServiceFailed";
    pub const SYNC_SERVICE_SUCCEED: &str = "SyncServiceSucceed";
    pub const SYNC_SERVICE_FAILED: &str = "SyncServiceFailed";
    pub const DISPATCH_ENDPOINT_SLICE_SUCCEED: &str = "DispatchEndpointSliceSucceed";
    pub const DISPATCH_ENDPOINT_SLICE_FAILED: &str = "DispatchEndpointSliceFailed";
    pub const DEPENDENCY_POLICY_CONFLICT: &str = "DependencyPolicyConflict";
    pub const CLUSTER_NOT_FOUND: &str = "ClusterNotFound";
    pub const API_INCOMPATIBLE: &str = "APIIncompatible";

    /// Of a FederatedHPA, besides the reasons of its conditions.
    pub const FAILED_GET_BINDINGS: &str = "FailedGetBindings";
    pub const FAILED_COMPUTE_METRICS_REPLICAS: &str = "FailedComputeMetricsReplicas";
    pub const FAILED_RESCALE: &str = "FailedRescale";
    pub const SUCCESSFUL_RESCALE: &str = "SuccessfulRescale";
    pub const SELECTOR_REQUIRED: &str = "SelectorRequired";
    pub const FAILED_UPDATE_STATUS: &str = "FailedUpdateStatus";
    /// Of a CronFederatedHPA.
    pub const SCALE_FAILED: &str = "ScaleFailed";
    pub const UPDATE_STATUS_FAILED: &str = "UpdateStatusFailed";
    pub const START_RULE_FAILED: &str = "StartRuleFailed";
    pub const UPDATE_CRON_FEDERATED_HPA_FAILED: &str = "UpdateCronFederatedHPAFailed";
}

/// Messages of conditions, as they are read by programs too.
pub mod messages {
    pub const CLUSTER_READY: &str = "cluster is healthy and ready to accept workloads";
    pub const CLUSTER_NOT_REACHABLE: &str = "cluster is not reachable";
    pub const CLUSTER_NOT_READY: &str = "cluster is reachable but health endpoint responded without ok";
    pub const SCHEDULED: &str = "Binding has been scheduled successfully.";
    pub const FULLY_APPLIED: &str = "All works have been successfully applied";
    pub const NOT_FULLY_APPLIED: &str = "Failed to apply all works, see status.aggregatedStatus for details";
    pub const APPLIED: &str = "Manifest has been successfully applied";
    pub const DISPATCHING: &str = "Work is being dispatched to member clusters.";
    pub const SUSPENDED: &str = "Work dispatching is in a suspended state.";
}

/// Why a workload leaves a cluster, and who said so.
pub mod evictions {
    pub const TAINT_UNTOLERATED: &str = "TaintUntolerated";
    pub const APPLICATION_FAILURE: &str = "ApplicationFailure";
    pub const BY_TAINT_MANAGER: &str = "TaintManager";
    pub const BY_BINDING_FAILOVER: &str = "resource-binding-application-failover-controller";
    pub const BY_CLUSTER_BINDING_FAILOVER: &str = "cluster-resource-binding-application-failover-controller";
}

/// Secrets with the credentials of a cluster.
pub mod secrets {
    pub const TOKEN: &str = "token";
    pub const CA_BUNDLE: &str = "caBundle";
    /// The Secret an agent's certificate is kept in.
    pub const AGENT_KUBECONFIG: &str = "karmada-kubeconfig";
    /// How an agent's certificate request names it.
    pub const AGENT_ORGANIZATION: &str = "system:karmada:agents";
    pub const AGENT_USER_PREFIX: &str = "system:karmada:agent:";
    pub const AGENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
}

/// Which objects are never templates.
pub mod templates {
    /// Every kind of these groups.
    pub const SKIPPED_GROUPS: &[&str] = &[
        "cluster.karmada.io",
        "policy.karmada.io",
        "work.karmada.io",
        "config.karmada.io",
        "networking.karmada.io",
        "autoscaling.karmada.io",
        "remedy.karmada.io",
        "apps.karmada.io",
        "events.k8s.io",
    ];
    /// `--skipped-propagating-namespaces`.
    pub const SKIPPED_NAMESPACES: &str = "kube-.*";

    /// Whether objects of a kind are never propagated, whatever the flags say. ServiceExport and ServiceImport are
    /// templates on purpose.
    pub fn is_skipped(group: &str, version: &str, kind: &str) -> bool {
        SKIPPED_GROUPS.contains(&group)
            || (group, version, kind) == ("", "v1", "Event")
            || (group, version) == ("coordination.k8s.io", "v1")
    }
}

/// Leases of components.
pub mod leases {
    pub const CONTROLLER_MANAGER: &str = "karmada-controller-manager";
    pub const SCHEDULER: &str = "karmada-scheduler";
    pub const DESCHEDULER: &str = "karmada-descheduler";
    /// Followed by a cluster's name.
    pub const AGENT_PREFIX: &str = "karmada-agent-";
}

#[cfg(test)]
mod tests {
    use super::templates::is_skipped;

    #[test]
    fn what_is_never_a_template() {
        for (group, version, kind, skipped) in [
            ("", "v1", "Event", true),
            ("", "v1", "ConfigMap", false),
            ("coordination.k8s.io", "v1", "Lease", true),
            ("work.karmada.io", "v1alpha2", "ResourceBinding", true),
            ("search.karmada.io", "v1alpha1", "ResourceRegistry", false),
            ("multicluster.x-k8s.io", "v1alpha1", "ServiceImport", false),
        ] {
            assert_eq!(is_skipped(group, version, kind), skipped, "{group} {kind}");
        }
    }
}
