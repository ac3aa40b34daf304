//! The group apps.karmada.io.

mod rebalancer;

/// The version v1alpha1.
pub mod v1alpha1 {
    pub use super::rebalancer::*;
}
