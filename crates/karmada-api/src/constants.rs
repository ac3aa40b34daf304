//! Labels, annotations, finalizers, namespaces, condition types and reasons. Clients and stored objects depend on them,
//! so they never change. The values are upstream's unless noted.

/// Label keys.
pub mod labels {
    /// The permanent id of a PropagationPolicy, on the policy, its templates and bindings.
    pub const POLICY_ID: &str = "propagationpolicy.karmada.io/permanent-id";
    /// The permanent id of a ClusterPropagationPolicy, on the policy, its templates and bindings.
    pub const CLUSTER_POLICY_ID: &str = "clusterpropagationpolicy.karmada.io/permanent-id";
    /// The permanent id of a ResourceBinding, on the binding and its Works.
    pub const BINDING_ID: &str = "resourcebinding.karmada.io/permanent-id";
    /// The permanent id of a ClusterResourceBinding, on the binding and its Works.
    pub const CLUSTER_BINDING_ID: &str = "clusterresourcebinding.karmada.io/permanent-id";
    /// The permanent id of a Work, on the Work and its manifests.
    pub const WORK_ID: &str = "work.karmada.io/permanent-id";
    /// The permanent id of a MultiClusterService, on its Works and bindings.
    pub const MULTI_CLUSTER_SERVICE_ID: &str = "multiclusterservice.karmada.io/permanent-id";

    /// `true` on objects in member clusters that the system manages.
    pub const MANAGED: &str = "karmada.io/managed";
    /// `true` on objects that the system creates for its own use.
    pub const SYSTEM: &str = "karmada.io/system";
    /// On the ConfigMaps of the failover history. Not in upstream.
    pub const FAILOVER_HISTORY: &str = "failover.karmada.io/history";
    /// The controller that manages a binding instead of the policy.
    pub const BINDING_MANAGED_BY: &str = "binding.karmada.io/managed-by";
    /// The controller that claims a template: with a value, policies do not apply to it.
    pub const CLAIMED_BY: &str = "resourcetemplate.karmada.io/claimed-by";
    /// `true` on templates whose replicas the member cluster controls.
    pub const RETAIN_REPLICAS: &str = "resourcetemplate.karmada.io/retain-replicas";
    /// Protects the object from deletion if the value is [`DELETION_PROTECTED_ALWAYS`].
    pub const DELETION_PROTECTED: &str = "resourcetemplate.karmada.io/deletion-protected";
    /// The value of [`DELETION_PROTECTED`] that protects.
    pub const DELETION_PROTECTED_ALWAYS: &str = "Always";
    /// `true` on namespaces that are not propagated to member clusters.
    pub const SKIP_AUTO_PROPAGATION: &str = "namespace.karmada.io/skip-auto-propagation";
    /// A prefix; the binding's reference key follows.
    pub const DEPENDED_BY_PREFIX: &str = "resourcebinding.karmada.io/depended-by-";
    /// The namespace of an EndpointSlice, on its Work.
    pub const ENDPOINT_SLICE_NAMESPACE: &str = "endpointslice.karmada.io/namespace";
    /// The name of an EndpointSlice, on its Work.
    pub const ENDPOINT_SLICE_NAME: &str = "endpointslice.karmada.io/name";
    /// The controllers that manage an EndpointSlice's Work.
    pub const ENDPOINT_SLICE_MANAGED_BY: &str = "endpointslice.karmada.io/managed-by";
    /// The namespace of a FederatedResourceQuota, on its Works.
    pub const QUOTA_NAMESPACE: &str = "federatedresourcequota.karmada.io/namespace";
    /// The name of a FederatedResourceQuota, on its Works.
    pub const QUOTA_NAME: &str = "federatedresourcequota.karmada.io/name";
    /// A value of [`BINDING_MANAGED_BY`] and of [`CLAIMED_BY`].
    pub const BY_MULTI_CLUSTER_SERVICE: &str = "MultiClusterService";
    /// A value of [`ENDPOINT_SLICE_MANAGED_BY`]; several are joined with `.`, in any order.
    pub const BY_SERVICE_EXPORT: &str = "ServiceExport";
    /// On Works of a MultiClusterService; on other objects the same keys are annotations.
    pub const MULTI_CLUSTER_SERVICE_NAMESPACE: &str = "multiclusterservice.karmada.io/namespace";
    /// See [`MULTI_CLUSTER_SERVICE_NAMESPACE`].
    pub const MULTI_CLUSTER_SERVICE_NAME: &str = "multiclusterservice.karmada.io/name";
    /// Kubernetes' label on EndpointSlices; slices with one of our values are not collected again.
    pub const KUBERNETES_SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
    /// The value on slices that are dispatched for a MultiClusterService.
    pub const SLICE_MANAGED_BY_DISPATCH: &str = "endpointslice-dispatch-controller.karmada.io";
    /// The value on slices that are imported for a ServiceImport.
    pub const SLICE_MANAGED_BY_IMPORT: &str = "endpointslice-controller.karmada.io";
    /// Kubernetes' label with the Service of an EndpointSlice.
    pub const KUBERNETES_SERVICE_NAME: &str = "kubernetes.io/service-name";
    /// On objects that an installer creates in the host cluster.
    pub const BOOTSTRAPPING: &str = "karmada.io/bootstrapping";
    /// On nodes of the host cluster that run etcd.
    pub const ETCD: &str = "karmada.io/etcd";
}

/// Annotation keys.
pub mod annotations {
    /// The namespace of the PropagationPolicy that claims a template.
    pub const POLICY_NAMESPACE: &str = "propagationpolicy.karmada.io/namespace";
    /// The name of the PropagationPolicy that claims a template.
    pub const POLICY_NAME: &str = "propagationpolicy.karmada.io/name";
    /// The name of the ClusterPropagationPolicy that claims a template.
    pub const CLUSTER_POLICY_NAME: &str = "clusterpropagationpolicy.karmada.io/name";
    /// The placement of the last scheduling decision, on the binding.
    pub const APPLIED_PLACEMENT: &str = "policy.karmada.io/applied-placement";
    /// The dependencies of a template, on its binding.
    pub const DEPENDENCIES: &str = "resourcebinding.karmada.io/dependencies";
    /// The namespace of the ResourceBinding of a Work.
    pub const BINDING_NAMESPACE: &str = "resourcebinding.karmada.io/namespace";
    /// The name of the ResourceBinding of a Work.
    pub const BINDING_NAME: &str = "resourcebinding.karmada.io/name";
    /// The name of the ClusterResourceBinding of a Work.
    pub const CLUSTER_BINDING_NAME: &str = "clusterresourcebinding.karmada.io/name";
    /// The conflict resolution of a template: `overwrite` or `abort`.
    pub const CONFLICT_RESOLUTION: &str = "work.karmada.io/conflict-resolution";
    /// The OverridePolicies that apply to a Work.
    pub const APPLIED_OVERRIDES: &str = "policy.karmada.io/applied-overrides";
    /// The ClusterOverridePolicies that apply to a Work.
    pub const APPLIED_CLUSTER_OVERRIDES: &str = "policy.karmada.io/applied-cluster-overrides";
    /// The namespace of the Work of an object in a member cluster.
    pub const WORK_NAMESPACE: &str = "work.karmada.io/namespace";
    /// The name of the Work of an object in a member cluster.
    pub const WORK_NAME: &str = "work.karmada.io/name";
    /// The UID of the template of an object in a member cluster.
    pub const TEMPLATE_UID: &str = "resourcetemplate.karmada.io/uid";
    /// The generation of the template of an object in a member cluster.
    pub const TEMPLATE_GENERATION: &str = "resourcetemplate.karmada.io/generation";
    /// The annotations that the template owns in a member cluster.
    pub const MANAGED_ANNOTATIONS: &str = "resourcetemplate.karmada.io/managed-annotations";
    /// The labels that the template owns in a member cluster.
    pub const MANAGED_LABELS: &str = "resourcetemplate.karmada.io/managed-labels";
    /// The name of the MultiClusterService of an object.
    pub const MULTI_CLUSTER_SERVICE_NAME: &str = "multiclusterservice.karmada.io/name";
    /// The namespace of the MultiClusterService of an object.
    pub const MULTI_CLUSTER_SERVICE_NAMESPACE: &str = "multiclusterservice.karmada.io/namespace";
    /// The cluster that provides an EndpointSlice.
    pub const PROVISION_CLUSTER: &str = "endpointslice.karmada.io/provision-cluster";
    /// The cluster of an object that is read from the cache.
    pub const CACHED_FROM_CLUSTER: &str = "resource.karmada.io/cached-from-cluster";
    /// The cluster of an object that is read through the proxy.
    pub const QUERY_FROM_CLUSTER: &str = "resource.karmada.io/query-from-cluster";
    /// On the Secret of a cluster: the destination of its token if no certificate is verified. Not in upstream.
    pub const CREDENTIAL_ENDPOINT: &str = "cluster.karmada.io/credential-endpoint";
    /// On objects in members: the incarnation of the control plane that wrote them last, and the revision of the Work.
    /// Not in upstream.
    pub const MARK: &str = "resume.karmada.io/mark";
    /// On a Cluster: the `lastTransitionTime` of the condition `ResumePending` that a user confirms. Not in upstream.
    pub const RESUME_CONFIRMED: &str = "resume.karmada.io/confirmed";
    /// The time of the condition `EvictionsPaused` whose pause a user ended for a Cluster. Not in upstream.
    pub const EVICTIONS_RELEASED: &str = "failover.karmada.io/evictions-released";
}

/// Finalizers.
pub mod finalizers {
    /// On Clusters, until their execution namespace is removed.
    pub const CLUSTER: &str = "karmada.io/cluster-controller";
    /// On Works, until their objects are removed from the member cluster.
    pub const EXECUTION: &str = "karmada.io/execution-controller";
    /// On ResourceBindings, until their Works are removed.
    pub const BINDING: &str = "karmada.io/binding-controller";
    /// On ClusterResourceBindings, until their Works are removed.
    pub const CLUSTER_BINDING: &str = "karmada.io/cluster-resource-binding-controller";
    /// On bindings with dependencies, until these are released.
    pub const DEPENDENCIES: &str = "karmada.io/binding-dependencies-distributor";
    /// On PropagationPolicies, until their claims are removed.
    pub const POLICY: &str = "karmada.io/propagation-policy-controller";
    /// On ClusterPropagationPolicies, until their claims are removed.
    pub const CLUSTER_POLICY: &str = "karmada.io/cluster-propagation-policy-controller";
    /// On Works of collected EndpointSlices.
    pub const ENDPOINT_SLICE: &str = "karmada.io/endpointslice-controller";
    /// On Works of dispatched EndpointSlices.
    pub const MCS_ENDPOINT_SLICE_DISPATCH: &str = "karmada.io/mcs-endpointslice-dispatch-controller";
    /// On MultiClusterServices, until their Works are removed.
    pub const MULTI_CLUSTER_SERVICE: &str = "karmada.io/multiclusterservice-controller";
    /// Defined by upstream and not used.
    pub const MCS_ENDPOINT_SLICE_COLLECT: &str = "karmada.io/mcs-endpointslice-collect-controller";
}

/// Namespaces.
pub mod namespaces {
    /// The system's own namespace.
    pub const SYSTEM: &str = "karmada-system";
    /// The namespace of the clusters' Secrets.
    pub const CLUSTER: &str = "karmada-cluster";
    /// A prefix; the cluster's name follows. The namespace of the cluster's Works.
    pub const EXECUTION_PREFIX: &str = "karmada-es-";

    /// Whether a namespace is reserved: its objects are not propagated.
    pub fn is_reserved(namespace: &str) -> bool {
        namespace == SYSTEM || namespace == CLUSTER || namespace.starts_with(EXECUTION_PREFIX)
    }
}

/// Taint keys set by the system.
pub mod taints {
    /// The condition Ready is False.
    pub const NOT_READY: &str = "cluster.karmada.io/not-ready";
    /// The condition Ready is Unknown.
    pub const UNREACHABLE: &str = "cluster.karmada.io/unreachable";
    /// The cluster is cordoned.
    pub const UNSCHEDULABLE: &str = "cluster.karmada.io/unschedulable";
    /// New workloads without a toleration are rejected.
    pub const NO_SCHEDULE: &str = "NoSchedule";
    /// Workloads without a toleration are evicted.
    pub const NO_EXECUTE: &str = "NoExecute";
}

/// Condition types.
pub mod conditions {
    /// A Cluster: its API server is healthy.
    pub const READY: &str = "Ready";
    /// A Cluster: discovery of its APIs is complete.
    pub const COMPLETE_API_ENABLEMENTS: &str = "CompleteAPIEnablements";
    /// A Cluster: objects from before the restore are not changed until a user confirms. Not in upstream.
    pub const RESUME_PENDING: &str = "ResumePending";
    /// A Cluster: evictions are paused because too many clusters are unhealthy. Not in upstream.
    pub const EVICTIONS_PAUSED: &str = "EvictionsPaused";
    /// A Cluster: Services of other clusters can be resolved.
    pub const SERVICE_DOMAIN_NAME_RESOLUTION_READY: &str = "ServiceDomainNameResolutionReady";
    /// A binding: it is scheduled.
    pub const SCHEDULED: &str = "Scheduled";
    /// A binding: all its Works are applied.
    pub const FULLY_APPLIED: &str = "FullyApplied";
    /// A Work: its manifests are applied.
    pub const APPLIED: &str = "Applied";
    /// A Work: it is dispatched to the member cluster.
    pub const DISPATCHING: &str = "Dispatching";
    /// A Work; defined by upstream and not used.
    pub const PROGRESSING: &str = "Progressing";
    /// A Work; defined by upstream and not used.
    pub const AVAILABLE: &str = "Available";
    /// A Work; defined by upstream and not used.
    pub const DEGRADED: &str = "Degraded";
    /// A MultiClusterService: its Service is applied.
    pub const SERVICE_APPLIED: &str = "ServiceApplied";
    /// A MultiClusterService: its EndpointSlices are dispatched.
    pub const ENDPOINT_SLICE_DISPATCHED: &str = "EndpointSliceDispatched";
    /// A FederatedHPA.
    pub const ABLE_TO_SCALE: &str = "AbleToScale";
    /// A FederatedHPA.
    pub const SCALING_ACTIVE: &str = "ScalingActive";
    /// A FederatedHPA.
    pub const SCALING_LIMITED: &str = "ScalingLimited";
    /// A CertificateSigningRequest: it is approved.
    pub const APPROVED: &str = "Approved";
    /// A ServiceExport; defined by upstream and not used.
    pub const VALID: &str = "Valid";
    /// A ServiceExport; defined by upstream and not used.
    pub const CONFLICT: &str = "Conflict";
}

/// Condition reasons.
#[allow(missing_docs, reason = "upstream's names describe themselves")]
pub mod reasons {
    /// The Cluster's condition `ResumePending`.
    pub const STORE_OLDER_THAN_MEMBER: &str = "StoreOlderThanMember";
    pub const RESUMED: &str = "Resumed";
    pub const FLEET_UNHEALTHY: &str = "FleetUnhealthy";
    pub const FLEET_RECOVERED: &str = "FleetRecovered";
    pub const CLUSTER_RECOVERED: &str = "ClusterRecovered";
    pub const EVICTIONS_RELEASED: &str = "EvictionsReleased";
    /// The Work's condition `Applied`, and the event on the Cluster.
    pub const RESUME_PENDING: &str = "ResumePending";
    pub const CLUSTER_READY: &str = "ClusterReady";
    pub const CLUSTER_NOT_REACHABLE: &str = "ClusterNotReachable";
    pub const CLUSTER_NOT_READY: &str = "ClusterNotReady";
    /// The endpoint of a Cluster is the control plane itself.
    pub const CLUSTER_IS_CONTROL_PLANE: &str = "ClusterIsControlPlane";
    /// The endpoint of a Cluster is a cluster that is joined under another name.
    pub const CLUSTER_JOINED_TWICE: &str = "ClusterJoinedTwice";
    /// The endpoint of a Cluster is another cluster than the recorded one.
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
    /// A certificate request of an agent.
    pub const AUTO_APPROVED: &str = "AutoApproved";
    /// A workload in a WorkloadRebalancer.
    pub const REFERENCED_BINDING_NOT_FOUND: &str = "ReferencedBindingNotFound";

    /// Reasons of a FederatedHPA's conditions.
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

/// Event reasons. They form pairs, one for success and one for failure of an operation.
#[allow(missing_docs, reason = "upstream's names describe themselves")]
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

    /// A FederatedHPA, in addition to the reasons of its conditions.
    pub const FAILED_GET_BINDINGS: &str = "FailedGetBindings";
    pub const FAILED_COMPUTE_METRICS_REPLICAS: &str = "FailedComputeMetricsReplicas";
    pub const FAILED_RESCALE: &str = "FailedRescale";
    pub const SUCCESSFUL_RESCALE: &str = "SuccessfulRescale";
    pub const SELECTOR_REQUIRED: &str = "SelectorRequired";
    pub const FAILED_UPDATE_STATUS: &str = "FailedUpdateStatus";
    /// A CronFederatedHPA.
    pub const SCALE_FAILED: &str = "ScaleFailed";
    pub const UPDATE_STATUS_FAILED: &str = "UpdateStatusFailed";
    pub const START_RULE_FAILED: &str = "StartRuleFailed";
    pub const UPDATE_CRON_FEDERATED_HPA_FAILED: &str = "UpdateCronFederatedHPAFailed";
}

/// Messages of conditions, which programs read too.
#[allow(missing_docs, reason = "the message describes itself")]
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

/// Reasons and producers of evictions.
pub mod evictions {
    /// The workload does not tolerate a taint.
    pub const TAINT_UNTOLERATED: &str = "TaintUntolerated";
    /// The application is unhealthy.
    pub const APPLICATION_FAILURE: &str = "ApplicationFailure";
    /// The producer of taint-based evictions.
    pub const BY_TAINT_MANAGER: &str = "TaintManager";
    /// The producer of application failovers of ResourceBindings.
    pub const BY_BINDING_FAILOVER: &str = "resource-binding-application-failover-controller";
    /// The producer of application failovers of ClusterResourceBindings.
    pub const BY_CLUSTER_BINDING_FAILOVER: &str = "cluster-resource-binding-application-failover-controller";
}

/// Keys of the Secrets with a cluster's credentials, and names for agents.
pub mod secrets {
    /// The key of the bearer token.
    pub const TOKEN: &str = "token";
    /// The key of the CA bundle.
    pub const CA_BUNDLE: &str = "caBundle";
    /// The Secret with an agent's certificate.
    pub const AGENT_KUBECONFIG: &str = "karmada-kubeconfig";
    /// The organization in an agent's certificate request.
    pub const AGENT_ORGANIZATION: &str = "system:karmada:agents";
    /// The prefix of the common name in an agent's certificate request.
    pub const AGENT_USER_PREFIX: &str = "system:karmada:agent:";
    /// The signer of an agent's certificate request.
    pub const AGENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
}

/// Kinds and namespaces that are never propagated.
pub mod templates {
    /// Groups whose kinds are never propagated.
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
    /// The default of `--skipped-propagating-namespaces`.
    pub const SKIPPED_NAMESPACES: &str = "kube-.*";

    /// Whether objects of a kind are never propagated, under any flags. ServiceExport and ServiceImport can be
    /// propagated.
    pub fn is_skipped(group: &str, version: &str, kind: &str) -> bool {
        SKIPPED_GROUPS.contains(&group)
            || (group, version, kind) == ("", "v1", "Event")
            || (group, version) == ("coordination.k8s.io", "v1")
    }

    /// Whether every API server writes this object for itself: in a member, a copy would replace the member's own
    /// addresses and authorities.
    pub fn is_of_api_server(kind: &str, namespace: &str, name: &str) -> bool {
        match kind {
            "ConfigMap" => (namespace, name) == ("kube-system", "extension-apiserver-authentication"),
            "Service" | "Endpoints" | "EndpointSlice" => (namespace, name) == ("default", "kubernetes"),
            _ => false,
        }
    }
}

/// Names of the components' Leases.
pub mod leases {
    /// The controller manager's Lease.
    pub const CONTROLLER_MANAGER: &str = "karmada-controller-manager";
    /// The scheduler's Lease.
    pub const SCHEDULER: &str = "karmada-scheduler";
    /// The descheduler's Lease.
    pub const DESCHEDULER: &str = "karmada-descheduler";
    /// A prefix; the cluster's name follows.
    pub const AGENT_PREFIX: &str = "karmada-agent-";
}

#[cfg(test)]
mod tests {
    use super::templates::is_skipped;

    #[test]
    fn skipped_kinds() {
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
