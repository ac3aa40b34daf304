//! The `--horizontal-pod-autoscaler-*` flags that change decisions.

use jiff::SignedDuration;

/// Settings of every FederatedHPA of a control plane.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// `--horizontal-pod-autoscaler-downscale-stabilization`: how long earlier recommendations prevent a scale-down if
    /// the behavior does not define it.
    pub downscale_stabilization: SignedDuration,
    /// `--horizontal-pod-autoscaler-tolerance`: the deviation of the usage ratio from 1 without effect.
    pub tolerance: f64,
    /// `--horizontal-pod-autoscaler-cpu-initialization-period`: the time after a pod's start in which cpu samples of
    /// the time before its readiness are ignored.
    pub cpu_initialization: SignedDuration,
    /// `--horizontal-pod-autoscaler-initial-readiness-delay`: a pod that became unready within this time after its
    /// start has never been ready.
    pub initial_readiness_delay: SignedDuration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            downscale_stabilization: SignedDuration::from_mins(5),
            tolerance: 0.1,
            cpu_initialization: SignedDuration::from_mins(5),
            initial_readiness_delay: SignedDuration::from_secs(30),
        }
    }
}
