//! The `*.karmada.io` API groups: Rust types, the CustomResourceDefinitions generated from them, names and constants,
//! and the rules of admission as pure functions.

#![warn(missing_docs)]

pub mod admission;
pub mod agents;
pub mod apps;
pub mod autoscaling;
pub mod cluster;
pub mod config;
pub mod constants;
pub mod crd;
pub mod gates;
pub mod identity;
pub mod kubernetes;
pub mod manifest;
pub mod multicluster;
pub mod names;
pub mod networking;
pub mod policy;
pub mod raw;
pub mod remedy;
pub mod scope;
pub mod search;
pub mod work;

mod api_type;
mod definitions;
#[cfg(test)]
mod derived;
mod shown;

pub use api_type::ApiType;
pub use definitions::{crd_names, crds};
pub use scope::Scope;

/// The natively served resources. `object_meta` is the type of `metadata`, which server-side apply needs for its lists.
pub fn resources(object_meta: Option<&apimachinery::schema::TypeOf>) -> Vec<apimachinery::resource::Resource> {
    let mut resources = cluster::resources(object_meta);
    resources.extend(search::resources(object_meta));
    resources
}

/// For serde: omits default values.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
