//! Which resources of which members belong to which service, from registries and Clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apimachinery::ApiResource;
use karmada_api::cluster::v1alpha1::{ApiEnablementStatus, Cluster};
use karmada_api::search::v1alpha1::{RegistrySelector, ResourceRegistry};

use super::document::index_of;
use super::source::Place;

/// A service: what is equal in two registries is written once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Backend {
    pub addresses: Vec<String>,
    pub secret: Option<(String, String)>,
}

impl Backend {
    /// The service of a registry; `None` if its objects stay in memory.
    pub fn of(registry: &ResourceRegistry) -> Option<Self> {
        let service = registry.spec.backend_store.as_ref()?.open_search.as_ref()?;
        let secret = &service.secret_ref;
        let is_named = !secret.namespace.is_empty() && !secret.name.is_empty();
        let secret = is_named.then(|| (secret.namespace.clone(), secret.name.clone()));
        Some(Self { addresses: service.addresses.clone(), secret })
    }
}

/// What belongs to one service.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The names of the registries with this service.
    pub registries: BTreeSet<String>,
    /// The namespaces of each resource; an empty set means all.
    pub places: BTreeMap<Place, BTreeSet<String>>,
}

/// What is wanted by service. `resource` maps a selector to its resource; selectors without one are skipped.
pub(super) fn wanted(
    registries: &[ResourceRegistry],
    clusters: &[Arc<Cluster>],
    resource: impl Fn(&RegistrySelector) -> Option<ApiResource>,
) -> BTreeMap<Backend, Wanted> {
    let mut wanted = BTreeMap::<Backend, Wanted>::new();
    for registry in registries.iter().filter(|it| it.metadata.deletion_timestamp.is_none()) {
        let Some(backend) = Backend::of(registry) else { continue };
        let of_backend = wanted.entry(backend).or_default();
        of_backend.registries.insert(registry.metadata.name.clone());
        let selectors: Vec<(&RegistrySelector, ApiResource)> =
            registry.spec.resource_selectors.iter().filter_map(|it| Some((it, resource(it)?))).collect();
        for cluster in clusters.iter().filter(|it| propagation::cluster::matches(&registry.spec.target_cluster, it)) {
            for (selector, resource) in &selectors {
                let serves = cluster.api_enablement(&selector.api_version, &selector.kind);
                if serves == ApiEnablementStatus::Disabled || index_of(&resource.kind).is_none() {
                    continue;
                }
                let place = Place { cluster: cluster.metadata.name.clone(), resource: resource.clone() };
                let namespaces = of_backend.places.entry(place).or_default();
                namespaces.insert(selector.namespace.clone());
            }
        }
    }
    for namespaces in wanted.values_mut().flat_map(|it| it.places.values_mut()) {
        if namespaces.contains("") {
            namespaces.clear();
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use apimachinery::Object;
    use karmada_api::ApiType;
    use serde_json::{Value, json};

    use super::*;

    fn registry(name: &str, address: &str, clusters: &[&str], selectors: &Value) -> ResourceRegistry {
        let service = (!address.is_empty())
            .then(|| json!({"openSearch": {"addresses": [address], "secretRef": {"namespace": "n", "name": "s"}}}));
        let object = json!({"apiVersion": "search.karmada.io/v1alpha1", "kind": "ResourceRegistry",
            "metadata": {"name": name}, "spec": {"targetCluster": {"clusterNames": clusters},
                "resourceSelectors": selectors, "backendStore": service}});
        ResourceRegistry::from_object(&Object::from_value(&object).unwrap()).unwrap()
    }

    fn cluster(name: &str) -> Arc<Cluster> {
        let object = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
            "spec": {"syncMode": "Push"}});
        Arc::new(Cluster::from_object(&Object::from_value(&object).unwrap()).unwrap())
    }

    #[test]
    fn registries_of_one_service_are_merged() {
        let pods = |namespace: &str| json!([{"apiVersion": "v1", "kind": "Pod", "namespace": namespace}]);
        let registries = [
            registry("a", "http://one", &["m1"], &pods("x")),
            registry("b", "http://one", &["m1", "m2"], &pods("y")),
            registry("c", "http://one", &["m2"], &pods("")),
            registry("d", "http://two", &[], &json!([{"apiVersion": "v1", "kind": "Unknown"}])),
            registry("e", "", &[], &pods("")),
        ];
        let resource =
            |it: &RegistrySelector| (it.kind == "Pod").then(|| ApiResource::namespaced("", "v1", "Pod", "pods"));
        let found: Vec<String> = wanted(&registries, &[cluster("m1"), cluster("m2")], resource)
            .into_iter()
            .map(|(backend, wanted)| {
                let places = wanted.places.iter().map(|(place, it)| format!("{}{it:?}", place.cluster));
                let places: Vec<String> = places.collect();
                format!("{} {:?} {}", backend.addresses[0], wanted.registries, places.join(" "))
            })
            .collect();
        assert_eq!(
            found,
            [r#"http://one {"a", "b", "c"} m1{"x", "y"} m2{}"#, r#"http://two {"d"} "#].map(str::to_owned)
        );
    }
}
