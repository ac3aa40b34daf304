//! The group policy.karmada.io.

mod failover;
mod overrides;
mod placement;
mod propagation;
mod quota;
mod taint;

/// The version v1alpha1.
pub mod v1alpha1 {
    pub use super::failover::*;
    pub use super::overrides::*;
    pub use super::placement::*;
    pub use super::propagation::*;
    pub use super::quota::*;
    pub use super::taint::*;
}
