//! The group apps.karmada.io.

mod rebalancer;

pub mod v1alpha1 {
    pub use super::rebalancer::*;
}
