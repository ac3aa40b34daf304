//! Which feature gates have an effect.

use karmada_api::gates;

/// Gates that change something when they differ from their default.
pub(super) const EFFECTIVE_GATES: &[&str] = &[
    gates::CONTROLLER_PRIORITY_QUEUE,
    gates::CUSTOMIZED_CLUSTER_RESOURCE_MODELING,
    gates::FAILOVER,
    gates::FEDERATED_QUOTA_ENFORCEMENT,
    gates::GRACEFUL_EVICTION,
    gates::HPA_SCALE_TO_ZERO,
    gates::MULTI_CLUSTER_SERVICE,
    gates::MULTIPLE_POD_TEMPLATES_SCHEDULING,
    gates::PRIORITY_BASED_SCHEDULING,
    gates::PROPAGATE_DEPS,
    gates::PROPAGATION_POLICY_PREEMPTION,
    gates::RESOURCE_QUOTA_ESTIMATE,
    gates::SCHEDULING_OVERCOMMIT_PROTECTION,
    gates::STATEFUL_FAILOVER_INJECTION,
    gates::WORKLOAD_AFFINITY,
];

/// Gates of Go's logging library, which accept any value.
pub(super) const NEEDLESS_GATES: &[&str] =
    &[gates::CONTEXTUAL_LOGGING, gates::LOGGING_ALPHA_OPTIONS, gates::LOGGING_BETA_OPTIONS];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gate_is_known() {
        let listed: Vec<&str> = EFFECTIVE_GATES.iter().chain(NEEDLESS_GATES).copied().collect();
        for name in &listed {
            assert!(gates::GATES.iter().any(|gate| gate.name == *name), "{name}");
        }
        for gate in gates::GATES {
            assert!(listed.contains(&gate.name), "{} has an effect, or is listed as needless", gate.name);
        }
    }
}
