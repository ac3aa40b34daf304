//! The group work.karmada.io.

mod binding;
mod binding_v1alpha1;
mod conversion;
mod manifests;

pub use conversion::{BindingConverter, to_v1alpha1, to_v1alpha2};

/// The version v1alpha1.
pub mod v1alpha1 {
    pub use super::binding_v1alpha1::*;
    pub use super::manifests::*;
}

/// The version v1alpha2.
pub mod v1alpha2 {
    pub use super::binding::*;
}
