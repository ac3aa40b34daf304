//! The group search.karmada.io: which objects of members are cached. Served natively, as upstream's karmada-search
//! serves it; `search` and `proxying` are verbs on paths, not stored kinds.

mod registry;

use std::sync::Arc;

use apimachinery::resource::{Resource, ResourceInfo, Subresource};
use apimachinery::schema::TypeOf;

use crate::ApiType;
use crate::crd::type_of;

pub use registry::RegistryStrategy;

pub mod v1alpha1 {
    pub use super::registry::{
        BackendStore, OpenSearch, RegistrySelector, RegistrySpec, RegistryStatus, ResourceRegistry,
    };
}

/// The ResourceRegistry resource. `object_meta` is the type of `metadata`, so that apply knows its lists.
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
    vec![Resource { info: Arc::new(info), strategy: Arc::new(RegistryStrategy) }]
}
