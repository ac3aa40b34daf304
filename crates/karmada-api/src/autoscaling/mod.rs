//! The group autoscaling.karmada.io.

mod cron_federated_hpa;
mod federated_hpa;

/// The version v1alpha1.
pub mod v1alpha1 {
    pub use super::cron_federated_hpa::*;
    pub use super::federated_hpa::*;
}
