//! Reads objects as documents.

use std::collections::BTreeMap;

use apimachinery::ApiResource;
use client::{Client, ListOptions};
use karmada_api::scope::Scope;
use serde_json::Value;

/// Empty for a resource that is not served.
pub async fn all(client: &Client, resource: &ApiResource, namespace: Option<&str>) -> Vec<Value> {
    let list = match client.list(resource, namespace, &ListOptions::default()).await {
        Err(error) if error.is_not_found() => return Vec::new(),
        list => list.expect("the server answers"),
    };
    list.items.iter().map(|object| object.to_value().expect("an object")).collect()
}

pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub fn is_present(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_none()
}

pub fn condition<'a>(object: &'a Value, type_: &str) -> &'a str {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.find(|condition| condition["type"] == type_).map_or("", |condition| text(condition, "/status"))
}

pub fn is_managed(object: &Value) -> bool {
    text(object, "/metadata/labels/karmada.io~1managed") == "true"
}

pub fn execution_space(member: &str) -> String {
    format!("karmada-es-{member}")
}

pub fn overwrites(work: &Value) -> bool {
    text(&work["spec"]["workload"]["manifests"][0], "/metadata/annotations/work.karmada.io~1conflict-resolution")
        == "overwrite"
}

/// The binding of a Work; `None` for namespaces and similar objects.
pub fn binding_name(work: &Value) -> Option<(Scope, &str)> {
    let names = [
        (Scope::Namespaced, text(work, "/metadata/annotations/resourcebinding.karmada.io~1name")),
        (Scope::Cluster, text(work, "/metadata/annotations/clusterresourcebinding.karmada.io~1name")),
    ];
    names.into_iter().find(|(_, name)| !name.is_empty())
}

/// Names and replicas of a list of targets.
pub fn clusters(list: &Value) -> BTreeMap<String, i64> {
    let list = list.as_array().into_iter().flatten();
    list.map(|it| (text(it, "/name").to_owned(), it["replicas"].as_i64().unwrap_or_default())).collect()
}

/// The clusters with a binding's copies: its own clusters, and those of the bindings that require it.
pub fn targets(binding: &Value) -> BTreeMap<String, i64> {
    let mut found = clusters(&binding["spec"]["clusters"]);
    for snapshot in binding["spec"]["requiredBy"].as_array().into_iter().flatten() {
        for (cluster, replicas) in clusters(&snapshot["clusters"]) {
            found.entry(cluster).or_insert(replicas);
        }
    }
    found
}

/// Clusters that a workload is evicted from, except directly: they may have a copy.
pub fn leaving(binding: &Value) -> impl Iterator<Item = &str> {
    let tasks = binding["spec"]["gracefulEvictionTasks"].as_array().into_iter().flatten();
    tasks.filter(|task| task["purgeMode"] != "Directly").map(|task| text(task, "/fromCluster"))
}

/// Names of objects outside the histories have another first letter.
pub fn is_template(object: &Value) -> bool {
    name(object).starts_with('t')
}
