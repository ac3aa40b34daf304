//! The group networking.karmada.io.

mod ingress;
mod service;

pub mod v1alpha1 {
    pub use super::ingress::*;
    pub use super::service::*;
}
