//! Namespaces, prefixes and suffixes of names, and replicas by name.

use serde_json::Value;

use super::config::Replicas;
use super::fields::{Kinds, visit};
use super::resource::{Resource, is_cluster_scoped};

/// The names of these kinds are derived from their definition.
const FIXED_NAMES: [Kinds; 3] = [
    Kinds("", "", "CustomResourceDefinition"),
    Kinds("apiregistration.k8s.io", "", "APIService"),
    Kinds("", "", "Namespace"),
];
const BINDINGS: [&str; 2] = ["RoleBinding", "ClusterRoleBinding"];
const SCALED: [&str; 4] = ["Deployment", "ReplicationController", "ReplicaSet", "StatefulSet"];

/// Moves all resources into a namespace. Namespaces take its name.
pub fn namespace(namespace: &str, resources: &mut [Resource]) -> Result<(), String> {
    if namespace.is_empty() {
        return Ok(());
    }
    for at in 0..resources.len() {
        move_into(namespace, &mut resources[at]);
        let id = resources[at].id();
        let is_taken = |other: &Resource| other.id().is_same(&id);
        if let Some(other) = resources[..at].iter().find(|other| is_taken(other)) {
            let (was, other) = (resources[at].original(), other.original());
            return Err(format!("the namespace {namespace:?} gives {was} and {other} the same identity, {id}"));
        }
    }
    Ok(())
}

fn move_into(namespace: &str, resource: &mut Resource) {
    let gvk = resource.gvk();
    if gvk.kind == "Namespace" && gvk.group.is_empty() {
        resource.rename("name", namespace);
    } else if !is_cluster_scoped(&gvk) {
        resource.rename("namespace", namespace);
    }
    let mut set = |path: &str, create: bool| {
        visit(&mut resource.object, path, create, &mut |at| *at = Value::from(namespace));
    };
    match gvk.kind.as_str() {
        "APIService" if gvk.group == "apiregistration.k8s.io" => set("spec/service/namespace", false),
        "CustomResourceDefinition" if gvk.group == "apiextensions.k8s.io" => {
            set("spec/conversion/webhook/clientConfig/service/namespace", false);
        }
        _ => {}
    }
    if BINDINGS.contains(&gvk.kind.as_str()) {
        visit(&mut resource.object, "subjects", false, &mut |subject| {
            if subject["name"] == "default" {
                subject["namespace"] = Value::from(namespace);
            }
        });
    }
}

pub fn affix(prefix: &str, suffix: &str, resources: &mut [Resource]) {
    for resource in resources {
        let gvk = resource.gvk();
        if FIXED_NAMES.iter().any(|kinds| kinds.includes(&gvk)) {
            continue;
        }
        if !prefix.is_empty() {
            resource.rename("name", &format!("{prefix}{}", resource.name()));
            resource.prefixes.push(prefix.to_owned());
        }
        if !suffix.is_empty() {
            resource.rename("name", &format!("{}{suffix}", resource.name()));
            resource.suffixes.push(suffix.to_owned());
        }
    }
}

/// Sets the replicas of the workloads that have, or had, this name.
pub fn scale(scaled: &Replicas, resources: &mut [Resource]) -> Result<(), String> {
    let mut found = false;
    for resource in resources {
        let is_named = resource.name() == scaled.name || resource.previous.iter().any(|id| id.name == scaled.name);
        if is_named && SCALED.contains(&resource.gvk().kind.as_str()) {
            found = true;
            visit(&mut resource.object, "spec/replicas", true, &mut |at| *at = Value::from(scaled.count));
        }
    }
    let (name, kinds) = (&scaled.name, SCALED.join(", "));
    if found { Ok(()) } else { Err(format!("replicas: no resource named {name:?} of the kinds {kinds}")) }
}
