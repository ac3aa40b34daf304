//! The group cluster.karmada.io: clusters, served natively (not as a custom resource).

pub mod credentials;
mod ids;
mod models;
mod shown;
mod strategy;
mod types;
mod validation;

use std::borrow::Cow;
use std::sync::Arc;

use apimachinery::gvk::GroupVersionKind;
use apimachinery::resource::{Resource, ResourceInfo, Subresource};
use apimachinery::schema::TypeOf;

use crate::ApiType;
use crate::crd::type_of;

pub use ids::ClusterIds;
pub use models::default_models;
pub use strategy::ClusterStrategy;
pub use validation::name_complaints;

/// The version v1alpha1.
pub mod v1alpha1 {
    pub use super::types::*;
}

/// The subresource of Clusters at which agents open tunnels. As upstream, discovery lists `status` and `proxy` only.
pub const TUNNEL: &str = "tunnel";

/// The API server of a member as its tunnel reaches it. The certificate of every Kubernetes API server covers this
/// name.
pub const NEAR_ENDPOINT: &str = "https://kubernetes.default.svc:443";

/// The path of the API of a member at the control plane.
pub fn proxy_path(cluster: &str) -> String {
    format!("/apis/cluster.karmada.io/v1alpha1/clusters/{cluster}/proxy")
}

/// A Cluster with the endpoint to connect to: in Pull mode only the agent's tunnel leads there, so the endpoint is
/// optional.
pub fn in_reach(cluster: &types::Cluster) -> Cow<'_, types::Cluster> {
    if cluster.spec.sync_mode != types::SyncMode::Pull || !cluster.spec.api_endpoint.is_empty() {
        return Cow::Borrowed(cluster);
    }
    let mut near = cluster.clone();
    near.spec.api_endpoint = NEAR_ENDPOINT.to_owned();
    Cow::Owned(near)
}

/// The Cluster resource. `object_meta` is the type of `metadata`, which server-side apply needs for its lists.
pub fn resources(object_meta: Option<&TypeOf>) -> Vec<Resource> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let info = ResourceInfo {
        resource: types::Cluster::api_resource(),
        singular: "cluster".to_owned(),
        list_kind: "ClusterList".to_owned(),
        short_names: Vec::new(),
        categories: Vec::new(),
        verbs: words(&["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]),
        subresources: vec![
            Subresource::Status,
            Subresource::Other {
                name: "proxy".to_owned(),
                kind: GroupVersionKind::new("cluster.karmada.io", "v1alpha1", "ClusterProxyOptions"),
                verbs: words(&["create", "delete", "get", "patch", "update"]),
            },
        ],
        selectable_fields: Vec::new(),
        custom: false,
        schema: type_of::<types::Cluster>(object_meta),
    };
    vec![Resource { info: Arc::new(info), strategy: Arc::new(ClusterStrategy { resource_models: true }) }]
}
