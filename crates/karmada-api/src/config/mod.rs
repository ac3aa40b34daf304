//! The group config.karmada.io.

mod context;
mod customization;
mod webhook;

/// The version v1alpha1.
pub mod v1alpha1 {
    pub use super::context::*;
    pub use super::customization::*;
    pub use super::webhook::*;
}
