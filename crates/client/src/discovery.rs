//! Discovery: the resources that a server serves.

use std::collections::BTreeMap;

use apimachinery::meta::null_as_default;
use apimachinery::{ApiResource, GroupVersion, GroupVersionKind, GroupVersionResource};
use bytes::Bytes;
use futures::future::BoxFuture;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{Answer, Client, Error, MAX_LIST_BYTES, Result, codec};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// A resource of a group version, as discovery lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredResource {
    /// Group, version, kind and plural name.
    pub resource: ApiResource,
    /// The singular name.
    pub singular: String,
    /// Short names such as `deploy`.
    pub short_names: Vec<String>,
    /// Categories such as `all`.
    pub categories: Vec<String>,
    /// The verbs that the resource supports.
    pub verbs: Vec<String>,
    /// Names of subresources such as `status`.
    pub subresources: Vec<String>,
}

impl DiscoveredResource {
    /// Whether the resource supports a verb.
    pub fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }
}

/// All resources of a server in its order of preference: groups as listed, the preferred version of each first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovery {
    /// The resources of all group versions.
    pub resources: Vec<DiscoveredResource>,
    /// Group versions that are announced but could not be read (the aggregated server is down). Their resources are
    /// unknown, which is not the same as absent.
    pub failed: Vec<GroupVersion>,
    /// Group versions that list names without kinds, such as `pods/http_requests` of `custom.metrics.k8s.io`.
    pub without_kinds: Vec<GroupVersion>,
}

impl Discovery {
    /// The resource of a kind.
    pub fn by_kind(&self, gvk: &GroupVersionKind) -> Option<&DiscoveredResource> {
        self.resources
            .iter()
            .find(|r| r.resource.kind == gvk.kind && r.resource.version == gvk.version && r.resource.group == gvk.group)
    }

    /// The resource of a name.
    pub fn by_resource(&self, gvr: &GroupVersionResource) -> Option<&DiscoveredResource> {
        self.resources.iter().find(|r| {
            r.resource.plural == gvr.resource && r.resource.version == gvr.version && r.resource.group == gvr.group
        })
    }

    /// Each resource once, in the first version of its group that serves it.
    pub fn preferred(&self) -> Vec<&DiscoveredResource> {
        let mut seen = std::collections::BTreeSet::new();
        self.resources.iter().filter(|r| seen.insert((r.resource.group.as_str(), r.resource.plural.as_str()))).collect()
    }

    /// The kinds of each group version, both sorted; [`Discovery::without_kinds`] have none.
    pub fn group_versions(&self) -> BTreeMap<GroupVersion, Vec<&DiscoveredResource>> {
        let mut map: BTreeMap<GroupVersion, Vec<&DiscoveredResource>> =
            self.without_kinds.iter().map(|version| (version.clone(), Vec::new())).collect();
        for resource in &self.resources {
            map.entry(resource.resource.group_version()).or_default().push(resource);
        }
        for resources in map.values_mut() {
            resources.sort_by(|a, b| a.resource.plural.cmp(&b.resource.plural));
        }
        map
    }
}

impl Client {
    /// Reads the served resources: by aggregated discovery if the server supports it, otherwise group by group.
    ///
    /// # Errors
    /// When the lists of groups cannot be read. A single group that fails is named in [`Discovery::failed`].
    pub fn discovery<'a>(&'a self) -> BoxFuture<'a, Result<Discovery>> {
        Box::pin(async move {
            let mut discovery = Discovery::default();
            for root in ["/api", "/apis"] {
                let bytes = self.discovery_document(root, AGGREGATED).await?;
                let probe: Probe = decode(root, &bytes)?;
                if probe.kind == "APIGroupDiscoveryList" {
                    add_aggregated(&mut discovery, decode(root, &bytes)?);
                } else {
                    self.add_legacy(&mut discovery, root, &bytes).await?;
                }
            }
            Ok(discovery)
        })
    }

    async fn discovery_document(&self, path: &str, accept: &str) -> Result<Bytes> {
        let mut request = codec::request(http::Method::GET, path, Bytes::new(), "")?;
        let accept = http::HeaderValue::from_str(accept).map_err(|e| Error::encode(path, e))?;
        request.headers_mut().insert(http::header::ACCEPT, accept);
        match self.answer(request, MAX_LIST_BYTES).await? {
            Answer::Bytes(bytes) => Ok(bytes),
            Answer::Payload(_) => Err(Error::unexpected(path, "an object instead of a discovery document")),
        }
    }

    async fn add_legacy(&self, discovery: &mut Discovery, root: &str, bytes: &[u8]) -> Result<()> {
        let versions: Vec<GroupVersion> = if root == "/api" {
            let core: LegacyVersions = decode(root, bytes)?;
            core.versions.into_iter().map(|version| GroupVersion::new("", version)).collect()
        } else {
            let groups: LegacyGroups = decode(root, bytes)?;
            groups.groups.into_iter().flat_map(LegacyGroup::versions).collect()
        };
        for version in versions {
            let path = version.url_prefix();
            let list = match self.discovery_document(&path, "application/json").await {
                Ok(bytes) => decode::<LegacyResources>(&path, &bytes),
                Err(error) => Err(error),
            };
            match list {
                Ok(list) => add_legacy_resources(discovery, &version, list),
                Err(error) => {
                    tracing::debug!(apiVersion = %version, err = %error, "Discovery of a group version failed");
                    discovery.failed.push(version);
                }
            }
        }
        Ok(())
    }
}

fn decode<T: DeserializeOwned>(path: &str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|e| Error::decode(path, e))
}

#[derive(Deserialize)]
struct Probe {
    #[serde(default)]
    kind: String,
}

#[derive(Deserialize)]
struct Aggregated {
    #[serde(default, deserialize_with = "null_as_default")]
    items: Vec<AggregatedGroup>,
}

#[derive(Deserialize)]
struct AggregatedGroup {
    #[serde(default)]
    metadata: AggregatedMeta,
    #[serde(default, deserialize_with = "null_as_default")]
    versions: Vec<AggregatedVersion>,
}

#[derive(Default, Deserialize)]
struct AggregatedMeta {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct AggregatedVersion {
    version: String,
    #[serde(default, deserialize_with = "null_as_default")]
    resources: Vec<AggregatedResource>,
    /// `Stale` when the aggregated server did not respond.
    #[serde(default)]
    freshness: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedResource {
    resource: String,
    #[serde(default)]
    response_kind: Option<AggregatedKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default, deserialize_with = "null_as_default")]
    verbs: Vec<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    short_names: Vec<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    categories: Vec<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    subresources: Vec<AggregatedSubresource>,
}

#[derive(Deserialize)]
struct AggregatedKind {
    #[serde(default)]
    kind: String,
}

#[derive(Deserialize)]
struct AggregatedSubresource {
    subresource: String,
}

fn add_aggregated(discovery: &mut Discovery, document: Aggregated) {
    for group in document.items {
        for version in group.versions {
            let gv = GroupVersion::new(&group.metadata.name, &version.version);
            if version.freshness == "Stale" {
                discovery.failed.push(gv);
                continue;
            }
            let is_empty = version.resources.is_empty();
            // Without a kind it represents only its subresources.
            let kind =
                |r: &AggregatedResource| Some(r.response_kind.as_ref()?.kind.clone()).filter(|it| !it.is_empty());
            let named: Vec<_> = version.resources.into_iter().filter_map(|r| Some((kind(&r)?, r))).collect();
            if named.is_empty() && !is_empty {
                discovery.without_kinds.push(gv);
                continue;
            }
            discovery.resources.extend(named.into_iter().map(|(kind, r)| DiscoveredResource {
                resource: ApiResource {
                    group: gv.group.clone(),
                    version: gv.version.clone(),
                    kind,
                    plural: r.resource,
                    namespaced: r.scope == "Namespaced",
                },
                singular: r.singular_resource,
                short_names: r.short_names,
                categories: r.categories,
                verbs: r.verbs,
                subresources: r.subresources.into_iter().map(|s| s.subresource).collect(),
            }));
        }
    }
}

#[derive(Deserialize)]
struct LegacyVersions {
    #[serde(default, deserialize_with = "null_as_default")]
    versions: Vec<String>,
}

#[derive(Deserialize)]
struct LegacyGroups {
    #[serde(default, deserialize_with = "null_as_default")]
    groups: Vec<LegacyGroup>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyGroup {
    #[serde(default, deserialize_with = "null_as_default")]
    versions: Vec<LegacyGroupVersion>,
    preferred_version: Option<LegacyGroupVersion>,
}

impl LegacyGroup {
    /// The preferred version first.
    fn versions(self) -> Vec<GroupVersion> {
        let preferred = self.preferred_version.map(|v| v.group_version);
        let (mut first, rest): (Vec<_>, Vec<_>) =
            self.versions.into_iter().map(|v| v.group_version).partition(|v| Some(v) == preferred.as_ref());
        first.extend(rest);
        first.iter().filter_map(|text| text.parse().ok()).collect()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyGroupVersion {
    group_version: String,
}

#[derive(Deserialize)]
struct LegacyResources {
    #[serde(default, deserialize_with = "null_as_default")]
    resources: Vec<LegacyResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyResource {
    name: String,
    #[serde(default)]
    singular_name: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    kind: String,
    #[serde(default, deserialize_with = "null_as_default")]
    verbs: Vec<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    short_names: Vec<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    categories: Vec<String>,
}

fn add_legacy_resources(discovery: &mut Discovery, version: &GroupVersion, list: LegacyResources) {
    let (subresources, resources): (Vec<_>, Vec<_>) = list.resources.into_iter().partition(|r| r.name.contains('/'));
    if resources.is_empty() && !subresources.is_empty() {
        discovery.without_kinds.push(version.clone());
    }
    discovery.resources.extend(resources.into_iter().map(|r| {
        DiscoveredResource {
            subresources: subresources
                .iter()
                .filter_map(|s| s.name.strip_prefix(&r.name)?.strip_prefix('/').map(str::to_owned))
                .collect(),
            resource: ApiResource {
                group: version.group.clone(),
                version: version.version.clone(),
                kind: r.kind,
                plural: r.name,
                namespaced: r.namespaced,
            },
            singular: r.singular_name,
            short_names: r.short_names,
            categories: r.categories,
            verbs: r.verbs,
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aggregated_and_legacy_documents_read_the_same() {
        let mut aggregated = Discovery::default();
        let document = r#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"apps"},"versions":[{"version":"v1","freshness":"Current",
            "resources":[{"resource":"deployments","responseKind":{"group":"apps","version":"v1","kind":"Deployment"},"scope":"Namespaced",
            "singularResource":"deployment","verbs":["get","list"],"shortNames":["deploy"],"categories":["all"],
            "subresources":[{"subresource":"status","verbs":["get"]}]}]},{"version":"v2","freshness":"Stale"}]}]}"#;
        add_aggregated(&mut aggregated, serde_json::from_str(document).expect("aggregated"));
        let mut legacy = Discovery::default();
        let document = r#"{"resources":[{"name":"deployments","singularName":"deployment","namespaced":true,"kind":"Deployment",
            "verbs":["get","list"],"shortNames":["deploy"],"categories":["all"]},{"name":"deployments/status","kind":"Deployment","verbs":["get"]}]}"#;
        let gv = GroupVersion::new("apps", "v1");
        add_legacy_resources(&mut legacy, &gv, serde_json::from_str(document).expect("legacy"));
        assert_eq!(aggregated.resources, legacy.resources);
        assert_eq!(aggregated.failed, [GroupVersion::new("apps", "v2")]);
        let found = legacy.by_kind(&GroupVersionKind::new("apps", "v1", "Deployment")).expect("known");
        assert_eq!(found.resource, ApiResource::namespaced("apps", "v1", "Deployment", "deployments"));
        assert_eq!(found.subresources, ["status"]);
    }

    /// Go encodes a list without elements as null.
    #[test]
    fn null_is_an_empty_list() {
        let groups: LegacyGroups = serde_json::from_str(r#"{"groups":null}"#).expect("groups");
        let list: LegacyResources = serde_json::from_str(r#"{"resources":null}"#).expect("resources");
        let aggregated: Aggregated = serde_json::from_str(r#"{"items":null}"#).expect("items");
        assert!(groups.groups.is_empty() && list.resources.is_empty() && aggregated.items.is_empty());
        let row = r#"{"resources":[{"name":"xs","kind":"X","verbs":null,"shortNames":null}]}"#;
        let mut discovery = Discovery::default();
        let list = serde_json::from_str(row).expect("resources");
        add_legacy_resources(&mut discovery, &GroupVersion::new("g", "v1"), list);
        assert_eq!(discovery.resources.len(), 1);
    }

    #[test]
    fn metrics_are_not_kinds() {
        let mut aggregated = Discovery::default();
        let document = r#"{"items":[{"metadata":{"name":"custom.metrics.k8s.io"},"versions":[{"version":"v1beta2","freshness":"Current",
            "resources":[{"resource":"pods","responseKind":{"group":"","version":"","kind":""},"scope":"Namespaced","singularResource":"",
            "verbs":[],"subresources":[{"subresource":"hits","verbs":["get"]}]}]},{"version":"v1beta1","freshness":"Current","resources":[]}]}]}"#;
        add_aggregated(&mut aggregated, serde_json::from_str(document).expect("aggregated"));
        let mut legacy = Discovery::default();
        let document =
            r#"{"resources":[{"name":"pods/hits","namespaced":true,"kind":"MetricValueList","verbs":["get"]}]}"#;
        let gv = GroupVersion::new("custom.metrics.k8s.io", "v1beta2");
        add_legacy_resources(&mut legacy, &gv, serde_json::from_str(document).expect("legacy"));
        assert_eq!(aggregated, legacy);
        assert_eq!(legacy.group_versions(), BTreeMap::from([(gv, Vec::new())]));
    }
}
