//! The group search.karmada.io: caching of members' objects. Served natively, as by upstream's karmada-search; `search`
//! and `proxying` are verbs on paths, not stored kinds.

pub mod credentials;
mod registry;
mod verbs;

use std::sync::Arc;

use apimachinery::resource::{Resource, ResourceInfo, Subresource};
use apimachinery::schema::TypeOf;

use crate::ApiType;
use crate::crd::type_of;

pub use registry::RegistryStrategy;

/// The version v1alpha1.
pub mod v1alpha1 {
    pub use super::registry::{
        BackendStore, OpenSearch, RegistrySelector, RegistrySpec, RegistryStatus, ResourceRegistry,
    };
    pub use super::verbs::{Proxying, Search};
}

/// The ResourceRegistry resource. `object_meta` is the type of `metadata`, which server-side apply needs for its lists.
pub fn resources(object_meta: Option<&TypeOf>) -> Vec<Resource> {
    let verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    let info = ResourceInfo {
        resource: registry::ResourceRegistry::api_resource(),
        singular: "resourceregistry".to_owned(),
        list_kind: "ResourceRegistryList".to_owned(),
        short_names: Vec::new(),
        categories: Vec::new(),
        verbs: verbs.map(str::to_owned).to_vec(),
        subresources: vec![Subresource::Status],
        selectable_fields: Vec::new(),
        custom: false,
        schema: type_of::<registry::ResourceRegistry>(object_meta),
    };
    let connected = [
        connected::<verbs::Search>("search", &["get"], object_meta),
        connected::<verbs::Proxying>("proxying", &["create", "delete", "get", "patch", "update"], object_meta),
    ];
    let registry = Resource { info: Arc::new(info), strategy: Arc::new(RegistryStrategy) };
    std::iter::once(registry).chain(connected).collect()
}

/// A resource without objects: requests under its names are forwarded.
fn connected<T: ApiType>(singular: &str, verbs: &[&str], object_meta: Option<&TypeOf>) -> Resource {
    let info = ResourceInfo {
        resource: T::api_resource(),
        singular: singular.to_owned(),
        list_kind: format!("{}List", T::KIND),
        short_names: Vec::new(),
        categories: Vec::new(),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        subresources: Vec::new(),
        selectable_fields: Vec::new(),
        custom: false,
        schema: type_of::<T>(object_meta),
    };
    Resource { info: Arc::new(info), strategy: Arc::new(RegistryStrategy) }
}
