//! FederatedHPA and CronFederatedHPA: replicas by metrics, and on schedules.

mod cron;
mod federated;
mod metrics;
mod others;
mod target;

use std::time::Duration;

pub use metrics::DESCRIPTIONS;

pub(crate) use cron::run as run_cron;
pub(crate) use federated::run as run_federated;

/// Settings of FederatedHPA.
#[derive(Clone, Debug)]
pub struct Scaling {
    /// `--horizontal-pod-autoscaler-sync-period`
    pub sync_period: Duration,
    /// The flags that change decisions.
    pub decisions: autoscaling::Settings,
}

impl Default for Scaling {
    fn default() -> Self {
        Self { sync_period: Duration::from_secs(15), decisions: autoscaling::Settings::default() }
    }
}
