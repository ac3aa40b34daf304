//! The group config.karmada.io.

mod customization;
mod webhook;

pub mod v1alpha1 {
    pub use super::customization::*;
    pub use super::webhook::*;
}
