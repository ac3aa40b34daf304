//! The `*.karmada.io` API groups: Rust types, CustomResourceDefinitions generated from them, names and constants, and
//! the rules of admission as pure functions.

pub mod admission;
pub mod agents;
pub mod apps;
pub mod autoscaling;
pub mod cluster;
pub mod config;
pub mod constants;
pub mod crd;
pub mod gates;
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
mod url;

pub use api_type::ApiType;
pub use crd::crds;
pub use scope::Scope;

/// Every resource that is served natively. `object_meta` is the type of `metadata`, so that apply knows its lists.
pub fn resources(object_meta: Option<&apimachinery::schema::TypeOf>) -> Vec<apimachinery::resource::Resource> {
    let mut resources = cluster::resources(object_meta);
    resources.extend(search::resources(object_meta));
    resources
}

/// Serde: leaves out what has the type's default value.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
