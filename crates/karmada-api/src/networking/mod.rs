//! The group networking.karmada.io.

mod ingress;
mod service;

/// The version v1alpha1.
pub mod v1alpha1 {
    pub use super::ingress::*;
    pub use super::service::*;
}
