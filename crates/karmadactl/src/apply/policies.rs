//! `apply --cluster` and `--all-clusters`: adds a policy for each object.

use apimachinery::ObjectKey;
use karmada_api::policy::v1alpha1::{ClusterPropagationPolicy, PropagationPolicy};
use karmada_api::{ApiType, names};
use serde_json::{Value, json};

use crate::objects::Item;

/// The policy of an object: in its namespace, or cluster-scoped as the object is. No clusters mean all.
pub fn policy(item: &Item, clusters: &[String]) -> Item {
    let gvk = item.gvk();
    let namespace = item.key.namespace().unwrap_or_default();
    // As Go prints it: the core group is empty before the slash.
    let shown = format!("{}/{}, Kind={}", gvk.group, gvk.version, gvk.kind);
    let name = names::policy_name(namespace, item.key.name(), &shown);
    let resource = match item.key.namespace() {
        Some(_) => PropagationPolicy::api_resource(),
        None => ClusterPropagationPolicy::api_resource(),
    };
    let mut selector = json!({"apiVersion": gvk.api_version(), "kind": gvk.kind, "name": item.key.name()});
    let mut metadata = json!({"name": name});
    let key = match item.key.namespace() {
        Some(namespace) => {
            selector["namespace"] = namespace.into();
            metadata["namespace"] = namespace.into();
            ObjectKey::namespaced(namespace, name)
        }
        None => ObjectKey::cluster(name),
    };
    let affinity = if clusters.is_empty() { json!({}) } else { json!({ "clusterNames": clusters }) };
    let object: Value = json!({"apiVersion": resource.api_version(), "kind": resource.kind, "metadata": metadata,
        "spec": {"resourceSelectors": [selector], "placement": {"clusterAffinity": affinity}}});
    Item { resource, key, object: Some(object), source: item.source.clone() }
}

#[cfg(test)]
mod tests {
    use apimachinery::ApiResource;

    use super::*;

    #[test]
    fn names_are_upstreams() {
        let item = |resource: ApiResource, key: ObjectKey| Item { resource, key, object: None, source: "f".into() };
        let deployment = ApiResource::namespaced("apps", "v1", "Deployment", "deployments");
        let role = ApiResource::cluster("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles");
        let namespace = ApiResource::cluster("", "v1", "Namespace", "namespaces");
        for (item, expected) in [
            (
                item(deployment, ObjectKey::namespaced("default", "app2")),
                "propagationpolicy.policy.karmada.io/app2-6d7f8d5f5b",
            ),
            (
                item(role, ObjectKey::cluster("app2:role")),
                "clusterpropagationpolicy.policy.karmada.io/app2.role-54499c54c",
            ),
            (
                item(namespace, ObjectKey::cluster("app2ns")),
                "clusterpropagationpolicy.policy.karmada.io/app2ns-646d6c6947",
            ),
        ] {
            assert_eq!(policy(&item, &[]).shown(), expected);
        }
    }
}
