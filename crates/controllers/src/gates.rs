//! The feature gates that reconcilers ask; `karmada_api::gates` has all of them, with names and defaults.

/// What an administrator switched on; all of it is off by default, as upstream has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    /// `PropagationPolicyPreemption`: policies with `preemption: Always` take templates from weaker ones.
    pub preemption: bool,
    /// `MultiplePodTemplatesScheduling`: bindings list the components of a workload instead of its replicas.
    pub multiple_pod_templates: bool,
    /// `WorkloadAffinity`
    pub workload_affinity: bool,
    /// `ResourceQuotaEstimate`
    pub resource_quota_estimate: bool,
}
