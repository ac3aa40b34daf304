//! Events have upstream's source components, for both kinds of bindings, and the last outcome of an attempt is known at
//! once.

use std::collections::BTreeSet;
use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use client::{Client, DeleteOptions, ListOptions, Patch, PatchOptions};
use karmada_api::ApiType as _;
use karmada_api::policy::v1alpha1::ClusterPropagationPolicy;
use serde_json::{Value, json};

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

/// The repeated event counts again as the last one, although counts are written every half a minute.
#[tokio::test(start_paused = true)]
async fn a_recovery_is_known_at_once() {
    let plane = Plane::start().await;
    let client = plane.client();
    let create = async |resource: &ApiResource, spec: Value| {
        let object = json!({"apiVersion": resource.api_version(), "kind": resource.kind,
            "metadata": {"name": "a", "namespace": "default"}, "spec": spec});
        client.create(resource, &object).await.expect("an object");
    };
    let config_maps = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    let selectors = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}]);
    let overrides = ApiResource::namespaced("policy.karmada.io", "v1alpha1", "OverridePolicy", "overridepolicies");
    let rules =
        |path: &str| json!([{"overriders": {"plaintext": [{"path": path, "operator": "add", "value": {"a": "b"}}]}}]);
    client
        .create(
            &config_maps,
            &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}),
        )
        .await
        .expect("a ConfigMap");
    create(&policies(), json!({"resourceSelectors": selectors, "placement": {}})).await;
    create(&overrides, json!({"resourceSelectors": selectors, "overrideRules": rules("/data")})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    for (path, expected) in [
        ("data", "SyncWorkFailed"),
        ("/data", "SyncWorkSucceed"),
        ("data", "SyncWorkFailed"),
        ("/data", "SyncWorkSucceed"),
    ] {
        let patch = Patch::Merge(json!({"spec": {"overrideRules": rules(path)}}));
        let key = ObjectKey::namespaced("default", "a");
        client.patch(&overrides, &key, &patch, &PatchOptions::default()).await.expect("an override");
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(last_outcome(client, "ConfigMap", "SyncWork").await, expected);
    }
}

/// The next pass writes nothing, because the binding is as it should be.
#[tokio::test(start_paused = true)]
async fn a_success_without_a_write_ends_a_failure() {
    let plane = Plane::start().await;
    let client = plane.client();
    let key = ObjectKey::namespaced("default", "a");
    let labels = json!({"app": "a"});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "a", "image": "a"}]}}}});
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}], "placement": {}}});
    let deployments = ApiResource::namespaced("apps", "v1", "Deployment", "deployments");
    client.create(&deployments, &deployment).await.expect("a Deployment");
    client.create(&policies(), &policy).await.expect("a policy");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let script = "function GetReplicas(object) return object.none.replicas, nil end";
    let customizations = ApiResource::cluster(
        "config.karmada.io",
        "v1alpha1",
        "ResourceInterpreterCustomization",
        "resourceinterpretercustomizations",
    );
    let customization = json!({"apiVersion": customizations.api_version(), "kind": customizations.kind,
        "metadata": {"name": "a"}, "spec": {"target": {"apiVersion": "apps/v1", "kind": "Deployment"},
            "customizations": {"replicaResource": {"luaScript": script}}}});
    client.create(&customizations, &customization).await.expect("a customization");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let patch = Patch::Merge(json!({"spec": {"priority": 1}}));
    client.patch(&policies(), &key, &patch, &PatchOptions::default()).await.expect("a policy");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(last_outcome(client, "Deployment", "ApplyPolicy").await, "ApplyPolicyFailed");
    let options = DeleteOptions::default();
    client.delete(&customizations, &ObjectKey::cluster("a"), &options).await.expect("deleted");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(last_outcome(client, "Deployment", "ApplyPolicy").await, "ApplyPolicySucceed");
    assert_eq!(last_outcome(client, "Deployment", "GetReplicas").await, "GetReplicasSucceed");
}

/// The reason of the newest event about an attempt for the object of a kind.
async fn last_outcome(client: &Client, kind: &str, attempt: &str) -> String {
    let resource = ApiResource::namespaced("", "v1", "Event", "events");
    let events = client.list(&resource, Some("default"), &ListOptions::default()).await.expect("events");
    let events = events.items.iter().map(|event| event.to_value().expect("JSON"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let about =
        events.filter(|event| event["involvedObject"]["kind"] == kind && text(&event["reason"]).starts_with(attempt));
    about.map(|event| (text(&event["lastTimestamp"]), text(&event["reason"]))).max().expect("an event").1
}
