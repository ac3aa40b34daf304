//! The older form: `APIVersions`, `APIGroupList`, `APIGroup` and `APIResourceList`.

use apimachinery::GroupVersionKind;
use apimachinery::resource::{Resource, Subresource};
use serde_json::{Value, json};

use super::{Group, Version};

pub fn api_versions(groups: &[Group]) -> Value {
    let core = groups.iter().find(|group| group.name.is_empty());
    let versions: Vec<&str> = core.into_iter().flat_map(|group| &group.versions).map(|v| v.name.as_str()).collect();
    json!({"kind": "APIVersions", "versions": versions, "serverAddressByClientCIDRs": []})
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
