//! The group remedy.karmada.io.

mod kinds;

pub mod v1alpha1 {
    pub use super::kinds::*;
}
