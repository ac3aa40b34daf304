//! The feature gates of reconcilers; `karmada_api::gates` lists all gates, with names and defaults.

/// The configured feature gates; the defaults are upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// `PropagateDeps`: the dependencies distributor runs.
    pub propagate_deps: bool,
    /// `PriorityBasedScheduling`: bindings carry the value of the PriorityClass their policy names.
    pub schedule_priority: bool,
    /// `CustomizedClusterResourceModeling`: nodes are counted by the models of their cluster.
    pub resource_models: bool,
    /// `ControllerPriorityQueue`: objects of an initial list are processed after changes.
    pub priority_queue: bool,
    /// `PropagationPolicyPreemption`: policies with `preemption: Always` take templates from weaker ones.
    pub preemption: bool,
    /// `MultiplePodTemplatesScheduling`: bindings list the components of a workload instead of its replicas.
    pub multiple_pod_templates: bool,
    /// `WorkloadAffinity`
    pub workload_affinity: bool,
    /// `ResourceQuotaEstimate`
    pub resource_quota_estimate: bool,
    /// `Failover`: ClusterTaintPolicies add and remove taints, and NoExecute taints may evict.
    pub failover: bool,
    /// `GracefulEviction`: application failover may keep the old copy until the new one is healthy.
    pub graceful_eviction: bool,
    /// `StatefulFailoverInjection`: a copy that replaces a failed one gets labels with its preserved state.
    pub stateful_failover: bool,
    /// `FederatedQuotaEnforcement`: bindings are counted against the quotas of their namespace.
    pub quota_enforcement: bool,
    /// `MultiClusterService`: MultiClusterServices are reconciled.
    pub multi_cluster_service: bool,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            propagate_deps: true,
            schedule_priority: true,
            resource_models: true,
            priority_queue: true,
            preemption: false,
            multiple_pod_templates: false,
            workload_affinity: false,
            resource_quota_estimate: false,
            failover: false,
            graceful_eviction: true,
            stateful_failover: false,
            quota_enforcement: false,
            multi_cluster_service: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use karmada_api::gates;

    use super::*;

    #[test]
    fn defaults_are_those_of_the_table() {
        let defaults = Gates::default();
        let upstreams = gates::Gates::default();
        for (open, name) in [
            (defaults.propagate_deps, gates::PROPAGATE_DEPS),
            (defaults.schedule_priority, gates::PRIORITY_BASED_SCHEDULING),
            (defaults.resource_models, gates::CUSTOMIZED_CLUSTER_RESOURCE_MODELING),
            (defaults.priority_queue, gates::CONTROLLER_PRIORITY_QUEUE),
            (defaults.preemption, gates::PROPAGATION_POLICY_PREEMPTION),
            (defaults.multiple_pod_templates, gates::MULTIPLE_POD_TEMPLATES_SCHEDULING),
            (defaults.workload_affinity, gates::WORKLOAD_AFFINITY),
            (defaults.resource_quota_estimate, gates::RESOURCE_QUOTA_ESTIMATE),
            (defaults.failover, gates::FAILOVER),
            (defaults.graceful_eviction, gates::GRACEFUL_EVICTION),
            (defaults.stateful_failover, gates::STATEFUL_FAILOVER_INJECTION),
            (defaults.quota_enforcement, gates::FEDERATED_QUOTA_ENFORCEMENT),
            (defaults.multi_cluster_service, gates::MULTI_CLUSTER_SERVICE),
        ] {
            assert_eq!(open, upstreams.is_open(name), "{name}");
        }
    }
}
