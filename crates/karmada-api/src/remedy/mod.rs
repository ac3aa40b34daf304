//! The group remedy.karmada.io.

mod kinds;

/// The version v1alpha1.
pub mod v1alpha1 {
    pub use super::kinds::*;
}
