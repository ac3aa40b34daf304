//! The older form: `APIVersions`, `APIGroupList`, `APIGroup` and `APIResourceList`.

use apimachinery::GroupVersionKind;
use apimachinery::resource::{Resource, ResourceInfo, Subresource};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use sha2::Digest as _;

use super::{Group, Version};

/// `host` is what the client calls the server.
pub fn api_versions(groups: &[Group], host: Option<&str>) -> Value {
    let core = groups.iter().find(|group| group.name.is_empty());
    let versions: Vec<&str> = core.into_iter().flat_map(|group| &group.versions).map(|v| v.name.as_str()).collect();
    let everyone = host.map(|host| json!({"clientCIDR": "0.0.0.0/0", "serverAddress": host}));
    let addresses: Vec<Value> = everyone.into_iter().collect();
    json!({"kind": "APIVersions", "versions": versions, "serverAddressByClientCIDRs": addresses})
}

pub fn group_list(groups: &[Group]) -> Value {
    let groups: Vec<Value> = groups.iter().filter(|group| !group.name.is_empty()).map(describe).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

pub fn group(group: &Group) -> Value {
    let mut value = describe(group);
    value["kind"] = "APIGroup".into();
    value["apiVersion"] = "v1".into();
    value
}

fn describe(group: &Group) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| json!({"groupVersion": format!("{}/{}", group.name, version.name), "version": version.name}))
        .collect();
    let preferred = versions.first().cloned().unwrap_or(Value::Null);
    json!({"name": group.name, "versions": versions, "preferredVersion": preferred})
}

pub fn resource_list(group: &str, version: &Version) -> Value {
    let group_version = if group.is_empty() { version.name.clone() } else { format!("{group}/{}", version.name) };
    let rows: Vec<Value> = version.resources.iter().flat_map(rows).collect();
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": rows})
}

fn rows(resource: &Resource) -> Vec<Value> {
    let info = &resource.info;
    let mut row = json!({
        "name": info.resource.plural, "singularName": info.singular, "namespaced": info.resource.namespaced,
        "kind": info.resource.kind, "verbs": info.verbs,
    });
    if !info.short_names.is_empty() {
        row["shortNames"] = json!(info.short_names);
    }
    if !info.categories.is_empty() {
        row["categories"] = json!(info.categories);
    }
    if let Some(hash) = storage_version_hash(info) {
        row["storageVersionHash"] = hash.into();
    }
    let mut rows = vec![row];
    for subresource in &info.subresources {
        let (name, kind, verbs) = describe_subresource(resource, subresource);
        let mut row = json!({
            "name": format!("{}/{name}", info.resource.plural), "singularName": "",
            "namespaced": info.resource.namespaced, "kind": kind.kind, "verbs": verbs,
        });
        if (&kind.group, &kind.version) != (&info.resource.group, &info.resource.version) {
            row["group"] = kind.group.into();
            row["version"] = kind.version.into();
        }
        rows.push(row);
    }
    rows
}

/// Tells clients when a kind comes to be stored in another version: kube-apiserver's 8 bytes of a digest of that version.
/// `None` for what is not stored, and for custom resources, whose description does not say how they are.
fn storage_version_hash(info: &ResourceInfo) -> Option<String> {
    let named = &info.resource;
    if info.custom || !info.verbs.iter().any(|verb| verb == "watch") {
        return None;
    }
    let (group, version) = match (named.group.as_str(), named.plural.as_str()) {
        ("events.k8s.io", "events") => ("", "v1"),
        ("autoscaling", "horizontalpodautoscalers") => ("autoscaling", "v2"),
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
