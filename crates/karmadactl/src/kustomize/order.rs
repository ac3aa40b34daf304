//! The order in which kubectl applies the objects of a kustomization: dependencies are first.

use super::resource::Resource;

const FIRST: [&str; 22] = [
    "Namespace",
    "ResourceQuota",
    "StorageClass",
    "CustomResourceDefinition",
    "ServiceAccount",
    "PodSecurityPolicy",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
    "ConfigMap",
    "Secret",
    "Endpoints",
    "Service",
    "LimitRange",
    "PriorityClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Deployment",
    "StatefulSet",
    "CronJob",
    "PodDisruptionBudget",
];
const LAST: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

pub fn sort(resources: &mut [Resource]) {
    resources.sort_by_cached_key(key);
}

fn key(resource: &Resource) -> (usize, String, String) {
    let gvk = resource.gvk();
    let first = FIRST.iter().position(|kind| *kind == gvk.kind);
    let last = LAST.iter().position(|kind| *kind == gvk.kind).map(|at| FIRST.len() + 1 + at);
    // kustomize compares the identities as text; the signs of absence sort behind all names.
    let or = |text: &str, absent: &str| if text.is_empty() { absent.to_owned() } else { text.to_owned() };
    let kind = format!("{}_{}_{}", or(&gvk.group, "~G"), or(&gvk.version, "~V"), gvk.kind);
    let name = format!("{}|{}", or(resource.namespace(), "~X"), resource.name());
    (first.or(last).unwrap_or(FIRST.len()), kind, name)
}
