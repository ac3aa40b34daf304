//! Events have upstream's source components, for both kinds of bindings.

use std::collections::BTreeSet;
use std::time::Duration;

use apimachinery::ApiResource;
use client::ListOptions;
use karmada_api::ApiType as _;
use karmada_api::policy::v1alpha1::ClusterPropagationPolicy;
use serde_json::json;

use crate::plane::{Plane, policies};

#[tokio::test(start_paused = true)]
async fn both_kinds_of_bindings() {
    let plane = Plane::start().await;
    let config_maps = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    let roles = ApiResource::cluster("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles");
    let spec = |api_version: &str, kind: &str| {
        json!({"resourceSelectors": [{"apiVersion": api_version, "kind": kind, "name": "a"}],
               "placement": {"clusterAffinity": {"clusterNames": ["member1"]}}})
    };
    for (resource, object) in [
        (policies(), json!({"metadata": {"name": "a", "namespace": "default"}, "spec": spec("v1", "ConfigMap")})),
        (
            ClusterPropagationPolicy::api_resource(),
            json!({"metadata": {"name": "a"}, "spec": spec("rbac.authorization.k8s.io/v1", "ClusterRole")}),
        ),
        (config_maps, json!({"metadata": {"name": "a", "namespace": "default"}})),
        (roles, json!({"metadata": {"name": "a"}, "rules": []})),
    ] {
        let mut object = object;
        object["apiVersion"] = json!(resource.api_version());
        object["kind"] = json!(resource.kind);
        plane.client().create(&resource, &object).await.expect("an object");
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let events = ApiResource::namespaced("", "v1", "Event", "events");
    let events = plane.client().list(&events, None, &ListOptions::default()).await.expect("events");
    let mut sources = BTreeSet::new();
    for event in events.items.iter().map(|event| event.to_value().expect("JSON")) {
        let reason = event["reason"].as_str().unwrap_or_default();
        let kind = event["involvedObject"]["kind"].as_str().unwrap_or_default();
        if matches!(reason, "SyncWorkSucceed" | "AggregateStatusSucceed") && kind.ends_with("Binding") {
            sources.insert(format!("{kind} {reason}: {}", event["source"]["component"].as_str().unwrap_or("-")));
        }
    }
    let expected = [
        "ClusterResourceBinding AggregateStatusSucceed: cluster-resource-binding-status-controller",
        "ClusterResourceBinding SyncWorkSucceed: cluster-resource-binding-controller",
        "ResourceBinding AggregateStatusSucceed: resource-binding-status-controller",
        "ResourceBinding SyncWorkSucceed: binding-controller",
    ];
    assert_eq!(sources.into_iter().collect::<Vec<_>>(), expected);
}
