//! The group cluster.karmada.io: clusters, served natively (not as a custom resource).

mod types;

pub mod v1alpha1 {
    pub use super::types::*;
}
