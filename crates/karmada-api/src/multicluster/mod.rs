//! The group multicluster.x-k8s.io.

mod service_export;
mod service_import;

/// The version v1alpha1.
pub mod v1alpha1 {
    pub use super::service_export::*;
    pub use super::service_import::*;
}
