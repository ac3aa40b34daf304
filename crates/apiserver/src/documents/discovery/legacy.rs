//! The older form: `APIVersions`, `APIGroupList`, `APIGroup` and `APIResourceList`.

use std::borrow::Cow;

use apimachinery::GroupVersionKind;
use apimachinery::resource::{Resource, Subresource};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Serialize;
use sha2::Digest as _;

use super::{Group, Version};

/// The fields have kube-apiserver's order, because scripts search for whole lines.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiVersions<'a> {
    kind: &'static str,
    versions: Vec<&'a str>,
    #[serde(rename = "serverAddressByClientCIDRs")]
    addresses: Vec<ServerAddress<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerAddress<'a> {
    #[serde(rename = "clientCIDR")]
    client_cidr: &'static str,
    server_address: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupList<'a> {
    kind: &'static str,
    api_version: &'static str,
    groups: Vec<ApiGroup<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiGroup<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    name: &'a str,
    versions: Vec<GroupVersion<'a>>,
    preferred_version: Option<GroupVersion<'a>>,
}

#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupVersion<'a> {
    group_version: String,
    version: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceList<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    group_version: String,
    resources: Vec<Row<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    name: Cow<'a, str>,
    singular_name: &'a str,
    namespaced: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    kind: Cow<'a, str>,
    verbs: Cow<'a, [String]>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    short_names: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    categories: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    storage_version_hash: Option<String>,
}

/// `host` is the server's name in the client's request.
pub fn api_versions<'a>(groups: &'a [Group], host: Option<&'a str>) -> ApiVersions<'a> {
    let core = groups.iter().find(|group| group.name.is_empty());
    let versions = core.into_iter().flat_map(|group| &group.versions).map(|v| v.name.as_str()).collect();
    let everyone = host.map(|host| ServerAddress { client_cidr: "0.0.0.0/0", server_address: host });
    ApiVersions { kind: "APIVersions", versions, addresses: everyone.into_iter().collect() }
}

pub fn group_list(groups: &[Group]) -> GroupList<'_> {
    let groups = groups.iter().filter(|group| !group.name.is_empty()).map(describe).collect();
    GroupList { kind: "APIGroupList", api_version: "v1", groups }
}

pub fn group(group: &Group) -> ApiGroup<'_> {
    ApiGroup { kind: Some("APIGroup"), api_version: Some("v1"), ..describe(group) }
}

fn describe(group: &Group) -> ApiGroup<'_> {
    let named = |version: &Version| format!("{}/{}", group.name, version.name);
    let versions: Vec<GroupVersion<'_>> = group
        .versions
        .iter()
        .map(|version| GroupVersion { group_version: named(version), version: &version.name })
        .collect();
    let preferred_version = versions.first().cloned();
    ApiGroup { kind: None, api_version: None, name: &group.name, versions, preferred_version }
}

pub fn resource_list<'a>(group: &str, version: &'a Version) -> ResourceList<'a> {
    let core = group.is_empty();
    let group_version = if core { version.name.clone() } else { format!("{group}/{}", version.name) };
    // The core group's list has none, because it predates versions of this document.
    let api_version = (!core).then_some("v1");
    let resources = version.resources.iter().flat_map(rows).collect();
    ResourceList { kind: "APIResourceList", api_version, group_version, resources }
}

fn rows(resource: &Resource) -> impl Iterator<Item = Row<'_>> {
    let info = &resource.info;
    let row = Row {
        name: Cow::Borrowed(&info.resource.plural),
        singular_name: &info.singular,
        namespaced: info.resource.namespaced,
        group: None,
        version: None,
        kind: Cow::Borrowed(&info.resource.kind),
        verbs: Cow::Borrowed(&info.verbs),
        short_names: &info.short_names,
        categories: &info.categories,
        storage_version_hash: storage_version_hash(resource),
    };
    std::iter::once(row).chain(info.subresources.iter().map(|subresource| subresource_row(resource, subresource)))
}

fn subresource_row<'a>(resource: &'a Resource, subresource: &'a Subresource) -> Row<'a> {
    let named = &resource.info.resource;
    let (name, kind, verbs) = describe_subresource(resource, subresource);
    let differs = (&kind.group, &kind.version) != (&named.group, &named.version);
    Row {
        name: Cow::Owned(format!("{}/{name}", named.plural)),
        singular_name: "",
        namespaced: named.namespaced,
        group: differs.then_some(kind.group).filter(|group| !group.is_empty()),
        version: differs.then_some(kind.version),
        kind: Cow::Owned(kind.kind),
        verbs: Cow::Owned(verbs),
        short_names: &[],
        categories: &[],
        storage_version_hash: None,
    }
}

/// Shows clients when the storage version of a kind changes: kube-apiserver's 8 bytes of a digest of that version.
/// `None` for kinds that are not stored.
fn storage_version_hash(resource: &Resource) -> Option<String> {
    let (info, named) = (&resource.info, &resource.info.resource);
    if !info.verbs.iter().any(|verb| verb == "watch") {
        return None;
    }
    let (group, version) = match (named.group.as_str(), named.plural.as_str()) {
        ("events.k8s.io", "events") => ("", "v1"),
        ("autoscaling", "horizontalpodautoscalers") => ("autoscaling", "v2"),
        (group, _) if info.custom => (group, resource.strategy.storage_version()?),
        (group, _) => (group, named.version.as_str()),
    };
    let digest = sha2::Sha256::digest(format!("{group}/{version}/{}", named.kind));
    digest.first_chunk::<8>().map(|head| BASE64.encode(head))
}

/// Name, kind and verbs of a subresource.
pub fn describe_subresource<'a>(
    resource: &Resource,
    subresource: &'a Subresource,
) -> (&'a str, GroupVersionKind, Vec<String>) {
    let plain = || ["get", "patch", "update"].map(str::to_owned).to_vec();
    match subresource {
        Subresource::Status => ("status", resource.info.resource.gvk(), plain()),
        Subresource::Scale { .. } => ("scale", GroupVersionKind::new("autoscaling", "v1", "Scale"), plain()),
        Subresource::Other { name, kind, verbs } => (name, kind.clone(), verbs.clone()),
    }
}
