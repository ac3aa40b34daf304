//! The newer form: all groups, versions and resources in one `APIGroupDiscoveryList`.

use apimachinery::GroupVersionKind;
use apimachinery::resource::Resource;
use serde_json::{Value, json};

use super::legacy::describe_subresource;
use super::{Group, Version};

pub fn group_list<'a>(groups: impl Iterator<Item = &'a Group>, version: &str) -> Value {
    let items: Vec<Value> = groups.map(group).collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {}, "items": items,
    })
}

fn group(group: &Group) -> Value {
    let metadata = if group.name.is_empty() { json!({}) } else { json!({"name": group.name}) };
    let versions: Vec<Value> = group.versions.iter().map(describe_version).collect();
    json!({"metadata": metadata, "versions": versions})
}

fn describe_version(version: &Version) -> Value {
    if let Some(external) = &version.external {
        let freshness = if external.is_current { "Current" } else { "Stale" };
        let mut described = json!({"version": version.name, "freshness": freshness});
        if external.resources.is_array() {
            described["resources"] = Value::clone(&external.resources);
        }
        return described;
    }
    let resources: Vec<Value> = version.resources.iter().map(describe).collect();
    json!({"version": version.name, "resources": resources, "freshness": "Current"})
}

fn describe(resource: &Resource) -> Value {
    let info = &resource.info;
    // Upstream sorts the verbs of built-in resources only.
    let in_order = |mut verbs: Vec<String>| {
        if !info.custom {
            verbs.sort();
        }
        verbs
    };
    let mut value = json!({
        "resource": info.resource.plural,
        "responseKind": response_kind(resource, info.resource.gvk()),
        "scope": if info.resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": info.singular,
        "verbs": in_order(info.verbs.clone()),
    });
    if !info.short_names.is_empty() {
        value["shortNames"] = json!(info.short_names);
    }
    if !info.categories.is_empty() {
        value["categories"] = json!(info.categories);
    }
    let subresources: Vec<Value> = info
        .subresources
        .iter()
        .map(|subresource| {
            let (name, kind, verbs) = describe_subresource(resource, subresource);
            json!({"subresource": name, "responseKind": response_kind(resource, kind), "verbs": in_order(verbs)})
        })
        .collect();
    if !subresources.is_empty() {
        value["subresources"] = subresources.into();
    }
    value
}

/// For built-in resources, group and version are spelled out only where they differ from the enclosing ones.
fn response_kind(resource: &Resource, kind: GroupVersionKind) -> Value {
    let enclosing = &resource.info.resource;
    let same = !resource.info.custom && (&kind.group, &kind.version) == (&enclosing.group, &enclosing.version);
    let (group, version) = if same { (String::new(), String::new()) } else { (kind.group, kind.version) };
    json!({"group": group, "version": version, "kind": kind.kind})
}
