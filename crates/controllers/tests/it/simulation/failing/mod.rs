//! Histories in which clusters fail, flap, lose their network in one direction, lose their leases and report wrong
//! health, while evictions by taints are enabled. Three members in push mode and one with an agent run Deployments;
//! WorkloadRebalancers and FederatedResourceQuotas are created and deleted.
//!
//! At every step: no eviction ends before its grace period while fewer replicas are ready than before it began, nothing
//! that is being evicted gracefully is deleted, and nothing is deleted on behalf of an unreachable cluster. At the end
//! everything converges.

mod ends;
mod ledger;
mod members;
mod run;
mod steps;

pub use run::run;
pub use steps::draw;

/// In pull mode.
pub const PULLED: &str = "m4";
pub const ALL: [&str; 4] = ["m1", "m2", "m3", PULLED];
/// The network path from the agent to the control plane.
pub const AGENT: &str = "agent-of-m4";
/// Deployments, each with a separate policy.
pub const WORKLOADS: u8 = 3;

pub fn workload(n: u8) -> String {
    format!("w{n}")
}
