//! The resources that are not custom resources, and the conversions between their versions.

use std::sync::Arc;

use apiextensions::Converter;
use apimachinery::GroupVersionKind;
use apimachinery::resource::Resource;
use apiserver::crds::Converters;
use karmada_api::cluster::ClusterStrategy;
use karmada_api::work::BindingConverter;

/// The resources of one of Karmada's groups that are not CRDs.
pub fn resources_of(group: &str, resource_models: bool) -> Vec<Resource> {
    let mut resources = resources(resource_models);
    resources.retain(|it| it.info.resource.group == group);
    resources
}

/// The resources that are not custom resources: the built-in kinds, and some of Karmada.
pub fn resources(resource_models: bool) -> Vec<Resource> {
    let mut resources = kubernetes_api::resources();
    let config_map = GroupVersionKind::new("", "v1", "ConfigMap");
    let object_meta = kubernetes_api::schema_for(&config_map).and_then(|kind| {
        let metadata = kind.node().properties.get("metadata")?.schema;
        Some(kind.at(metadata))
    });
    resources.extend(karmada_api::resources(object_meta.as_ref()));
    let clusters = resources.iter_mut().filter(|it| it.info.resource.group == "cluster.karmada.io");
    clusters.for_each(|it| it.strategy = Arc::new(ClusterStrategy { resource_models }));
    resources
}

/// Bindings are served in two versions.
pub fn converters() -> Converters {
    let names = ["resourcebindings.work.karmada.io", "clusterresourcebindings.work.karmada.io"];
    names.map(|name| (name.to_owned(), Arc::new(BindingConverter) as Arc<dyn Converter>)).into()
}
