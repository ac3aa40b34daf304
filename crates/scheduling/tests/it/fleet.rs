//! Short constructors for clusters and bindings.

use std::sync::Arc;

use karmada_api::Scope;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::scope::Binding;
use karmada_api::work::v1alpha2::TargetCluster;
use scheduling::{Decision, Gates, Problem, Snapshot, decide};
use serde_json::{Value, json};

/// Serves Deployments; 100 pods and `cpu` cores are free.
pub fn cluster(name: &str, cpu: &str, more: Value) -> Value {
    let mut cluster = json!({
        "metadata": {"name": name},
        "spec": {"syncMode": "Push"},
        "status": {
            "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"kind": "Deployment", "name": "deployments"}]}],
            "resourceSummary": {"allocatable": {"cpu": cpu, "pods": "100"}},
        },
    });
    apimachinery::merge_patch::apply(&mut cluster, &more);
    cluster
}

pub fn snapshot(clusters: Vec<Value>) -> Snapshot {
    Snapshot::of_clusters(clusters.into_iter().map(|it| Arc::new(serde_json::from_value::<Cluster>(it).unwrap())))
}

/// Four replicas of the Deployment nginx, duplicated.
pub fn binding(spec: &Value, status: &Value) -> Binding {
    let mut binding = json!({"metadata": {"name": "nginx-deployment", "namespace": "default"}, "status": status, "spec": {
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx", "namespace": "default"},
        "replicas": 4,
        "placement": {},
    }});
    apimachinery::merge_patch::apply(&mut binding["spec"], spec);
    Binding::from_value(Scope::Namespaced, &binding).unwrap()
}

pub fn run(clusters: Vec<Value>, spec: Value) -> Decision {
    let binding = binding(&spec, &json!({}));
    decide(&Problem::of(&binding).unwrap(), &snapshot(clusters), &Gates::default())
}

pub fn printed(decision: &Decision) -> String {
    match &decision.clusters {
        Ok(clusters) => printed_targets(clusters),
        Err(error) => error.to_string(),
    }
}

pub fn printed_targets(clusters: &[TargetCluster]) -> String {
    clusters.iter().map(|it| format!("{}:{}", it.name, it.replicas)).collect::<Vec<_>>().join(" ")
}
