//! Whole decisions, from clusters and a binding to the result.

use std::sync::Arc;

use karmada_api::Scope;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::scope::Binding;
use karmada_api::work::v1alpha2::TargetCluster;
use scheduling::{Decision, Gates, Problem, Snapshot, decide};
use serde_json::{Value, json};

/// Serves Deployments; 100 pods and `cpu` cores are left.
fn cluster(name: &str, cpu: &str, more: Value) -> Value {
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

fn run(clusters: Vec<Value>, spec: Value) -> Decision {
    let clusters = clusters.into_iter().map(|it| Arc::new(serde_json::from_value::<Cluster>(it).unwrap()));
    let snapshot = Snapshot::of_clusters(clusters);
    let mut binding = json!({"metadata": {"name": "nginx", "namespace": "default"}, "spec": {
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx", "namespace": "default"},
        "replicas": 4,
        "placement": {},
    }});
    apimachinery::merge_patch::apply(&mut binding["spec"], &spec);
    let binding = Binding::from_value(Scope::Namespaced, &binding).unwrap();
    decide(&Problem::of(&binding).unwrap(), &snapshot, &Gates::default())
}

fn printed(decision: &Decision) -> String {
    match &decision.clusters {
        Ok(clusters) => printed_targets(clusters),
        Err(error) => error.to_string(),
    }
}

fn printed_targets(clusters: &[TargetCluster]) -> String {
    clusters.iter().map(|it| format!("{}:{}", it.name, it.replicas)).collect::<Vec<_>>().join(" ")
}

#[test]
fn reasons_are_counted() {
    let no_api = json!({"status": {"apiEnablements": null}});
    let tainted = |taint: Value| json!({"spec": {"taints": [taint]}});
    let decision = run(
        vec![
            cluster("m1", "10", no_api),
            cluster("m2", "10", tainted(json!({"key": "k", "value": "v", "effect": "NoSchedule"}))),
            cluster("m3", "10", tainted(json!({"key": "k", "effect": "NoExecute"}))),
        ],
        json!({}),
    );
    assert_eq!(
        printed(&decision),
        "0/3 clusters are available: 1 cluster(s) did not have the API resource, 1 cluster(s) had untolerated taint \
         {k:NoExecute}, 1 cluster(s) had untolerated taint {k=v:NoSchedule}."
    );
    assert_eq!(decision.result(), Some(&[][..]));
}
