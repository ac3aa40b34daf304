//! The group config.karmada.io.

mod context;
mod customization;
mod webhook;

pub mod v1alpha1 {
    pub use super::context::*;
    pub use super::customization::*;
    pub use super::webhook::*;
}
