//! Discovery: the resources that a server serves.

use std::collections::BTreeMap;

use apimachinery::meta::null_as_default;
use apimachinery::{ApiResource, GroupVersion, GroupVersionKind, GroupVersionResource};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{ACCEPT, ETAG, HeaderValue, IF_NONE_MATCH};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{Client, Error, MAX_LIST_BYTES, Result, codec, read_body};

/// The documents that list all groups.
const ROOTS: [&str; 2] = ["/api", "/apis"];
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

/// The entity tags of a server's discovery documents, to read them again only after a change:
/// [`Client::discovery_if_changed`]. Empty unless both are aggregated: of a list of groups, the tag says nothing about
/// the resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveryTags(Option<[HeaderValue; 2]>);

/// A discovery document and its entity tag.
struct Document {
    bytes: Bytes,
    tag: Option<HeaderValue>,
}

impl Client {
    /// Reads the served resources: by aggregated discovery if the server supports it, otherwise group by group.
    ///
    /// # Errors
    /// When the lists of groups cannot be read. A single group that fails is named in [`Discovery::failed`].
    pub fn discovery<'a>(&'a self) -> BoxFuture<'a, Result<Discovery>> {
        Box::pin(async move {
            let documents = self.root_documents(None).await?;
            self.read_documents(documents).await.map(|(discovery, _)| discovery)
        })
    }

    /// [`Client::discovery`], and the tags for the next time; `None` if both documents still have the known tags.
    ///
    /// # Errors
    /// As [`Client::discovery`].
    pub fn discovery_if_changed<'a>(
        &'a self,
        known: &'a DiscoveryTags,
    ) -> BoxFuture<'a, Result<Option<(Discovery, DiscoveryTags)>>> {
        Box::pin(async move {
            if let Some(tags) = &known.0 {
                match self.root_documents(Some(tags)).await? {
                    [None, None] => return Ok(None),
                    documents @ [Some(_), Some(_)] => return self.read_documents(documents).await.map(Some),
                    // The unchanged one is needed, too.
                    _ => {}
                }
            }
            let documents = self.root_documents(None).await?;
            self.read_documents(documents).await.map(Some)
        })
    }

    /// `/api` and `/apis`; `None` in the place of one that still has its tag.
    async fn root_documents(&self, tags: Option<&[HeaderValue; 2]>) -> Result<[Option<Document>; 2]> {
        let [core, groups] = ROOTS;
        Ok([
            self.discovery_document(core, AGGREGATED, tags.map(|tags| &tags[0])).await?,
            self.discovery_document(groups, AGGREGATED, tags.map(|tags| &tags[1])).await?,
        ])
    }

    async fn read_documents(&self, documents: [Option<Document>; 2]) -> Result<(Discovery, DiscoveryTags)> {
        let (mut discovery, mut tags) = (Discovery::default(), Vec::new());
        for (root, document) in ROOTS.into_iter().zip(documents) {
            let Document { bytes, tag } = modified(root, document)?;
            let list: Aggregated = decode(root, &bytes)?;
            if list.kind == "APIGroupDiscoveryList" {
                tags.extend(tag);
                add_aggregated(&mut discovery, list);
            } else {
                self.add_legacy(&mut discovery, root, &bytes).await?;
            }
        }
        Ok((discovery, DiscoveryTags(tags.try_into().ok())))
    }

    /// `None` if the document still has the tag.
    async fn discovery_document(
        &self,
        path: &str,
        accept: &str,
        tag: Option<&HeaderValue>,
    ) -> Result<Option<Document>> {
        let mut request = codec::request(Method::GET, path, Bytes::new(), "")?;
        let accept = HeaderValue::from_str(accept).map_err(|e| Error::encode(path, e))?;
        request.headers_mut().insert(ACCEPT, accept);
        request.headers_mut().extend(tag.map(|tag| (IF_NONE_MATCH, tag.clone())));
        let attempt = codec::Attempt::of(&request);
        let exchange = async {
            let (parts, body) = self.send(request).await?.into_parts();
            let failed = |error| Error::transport(&self.0.host, &attempt.to_string(), error);
            Ok((parts, read_body(body, MAX_LIST_BYTES).await.map_err(failed)?))
        };
        let (mut parts, bytes) = self.within_timeout(&attempt, exchange).await?;
        match parts.status {
            StatusCode::NOT_MODIFIED if tag.is_some() => Ok(None),
            status if status.is_success() => Ok(Some(Document { bytes, tag: parts.headers.remove(ETAG) })),
            status => Err(codec::refusal(status, &bytes)),
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
            let document = self.discovery_document(&path, "application/json", None).await;
            let list = document
                .and_then(|document| modified(&path, document))
                .and_then(|document| decode::<LegacyResources>(&path, &document.bytes));
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

fn modified(path: &str, document: Option<Document>) -> Result<Document> {
    document.ok_or_else(|| Error::unexpected(path, "304, although no tag was sent"))
}

fn decode<T: DeserializeOwned>(path: &str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|e| Error::decode(path, e))
}

/// Of a list of groups, which has no items, only the kind.
#[derive(Deserialize)]
struct Aggregated {
    #[serde(default)]
    kind: String,
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
mod tests;
