//! The created objects.

use anyhow::Context as _;
use apimachinery::ApiResource;
use client::Client;
use serde_json::{Value, json};

use crate::fleet::Fleet;

pub(crate) const NAMESPACE: &str = "karmada-bench";

/// An object of an earlier run is reused.
pub(crate) async fn create(client: &Client, resource: &ApiResource, object: &Value) -> anyhow::Result<()> {
    match client.create(resource, object).await {
        Err(error) if !error.is_already_exists() => {
            Err(error).with_context(|| format!("creating {} {}", resource.kind, object["metadata"]["name"]))
        }
        _ => Ok(()),
    }
}

pub(crate) fn namespaces() -> ApiResource {
    ApiResource::cluster("", "v1", "Namespace", "namespaces")
}

pub(crate) fn deployments() -> ApiResource {
    ApiResource::namespaced("apps", "v1", "Deployment", "deployments")
}

pub(crate) fn cluster_policies() -> ApiResource {
    ApiResource::cluster("policy.karmada.io", "v1alpha1", "ClusterPropagationPolicy", "clusterpropagationpolicies")
}

pub(crate) fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
}

pub(crate) fn policy(fleet: &Fleet) -> Value {
    let names: Vec<&str> = fleet.members.iter().map(|member| member.name.as_str()).collect();
    let selector = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": NAMESPACE,
        "labelSelector": {"matchLabels": {"bench": "propagation"}}});
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy", "metadata": {"name": NAMESPACE},
        "spec": {"resourceSelectors": [selector], "placement": {"clusterAffinity": {"clusterNames": names}}}})
}

pub(crate) fn deployment(name: &str, replicas: u32) -> Value {
    let labels = json!({"app": name, "bench": "propagation"});
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "app", "image": "nginx:1.29", "ports": [{"containerPort": 80}],
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}]}}}})
}
