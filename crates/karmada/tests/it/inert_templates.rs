//! Templates are stored unchanged: of kube-controller-manager's controllers, only those of Karmada's control planes run
//! by default.

use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use client::ListOptions;
use karmada_api::ApiType as _;
use karmada_api::work::v1alpha2::ResourceBinding;
use serde_json::{Value, json};

use crate::plane::{Plane, policies};

fn config_maps() -> ApiResource {
    ApiResource::namespaced("", "v1", "ConfigMap", "configmaps")
}

fn service_accounts() -> ApiResource {
    ApiResource::namespaced("", "v1", "ServiceAccount", "serviceaccounts")
}

fn quotas() -> ApiResource {
    ApiResource::namespaced("", "v1", "ResourceQuota", "resourcequotas")
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "team"}, "data": {"a": "1"}})
}

async fn names(plane: &Plane, resource: &ApiResource) -> Vec<String> {
    let list = plane.client().list(resource, Some("team"), &ListOptions::default()).await.expect("a list");
    list.items.iter().map(|object| object.name().to_owned()).collect()
}

/// A namespace that policies select as a whole, with a ResourceQuota for the members.
async fn team(plane: &Plane) {
    let client = plane.client();
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    client.create(&namespaces, &namespace).await.expect("a namespace");
    let kinds = ["ConfigMap", "ServiceAccount", "ResourceQuota"];
    let selectors: Vec<Value> = kinds.map(|kind| json!({"apiVersion": "v1", "kind": kind})).into();
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "all", "namespace": "team"},
        "spec": {"resourceSelectors": selectors, "placement": {"clusterAffinity": {"clusterNames": ["member1"]}}}});
    client.create(&policies(), &policy).await.expect("a policy");
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "of-members", "namespace": "team"},
        "spec": {"hard": {"count/configmaps": "1"}}});
    client.create(&quotas(), &quota).await.expect("a quota");
    tokio::time::sleep(Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn namespaces_contain_users_objects_only() {
    let plane = Plane::start().await;
    team(&plane).await;
    for name in ["a", "b"] {
        plane.client().create(&config_maps(), &config_map(name)).await.expect("no quota of members counts here");
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(names(&plane, &config_maps()).await, ["a", "b"]);
    assert_eq!(names(&plane, &service_accounts()).await, Vec::<String>::new());
    assert_eq!(
        names(&plane, &ResourceBinding::api_resource()).await,
        ["a-configmap", "b-configmap", "of-members-resourcequota"]
    );
    let quota = plane.client().get(&quotas(), &ObjectKey::namespaced("team", "of-members")).await.expect("a quota");
    assert_eq!(quota.to_value().expect("JSON")["status"].get("used"), None);

    // The member runs these controllers, so its namespace has these objects, and its quota is counted.
    let member = plane.plane.members().iter().find(|member| member.name() == "member1").expect("a member").client();
    let key = ObjectKey::namespaced("team", "kube-root-ca.crt");
    let own = member.get(&config_maps(), &key).await.expect("the member's own");
    assert_eq!(own.label("karmada.io/managed"), None);
    let counted = member.get(&quotas(), &ObjectKey::namespaced("team", "of-members")).await.expect("a quota");
    assert!(counted.to_value().expect("JSON")["status"]["used"]["count/configmaps"].is_string());
}

#[tokio::test(start_paused = true)]
async fn all_controllers_run_where_they_are_selected() {
    let plane = Plane::start_with(|options| options.kube_controllers = vec!["*".into()]).await;
    team(&plane).await;
    assert_eq!(names(&plane, &config_maps()).await, ["kube-root-ca.crt"]);
    assert_eq!(names(&plane, &service_accounts()).await, ["default"]);
    let refused = plane.client().create(&config_maps(), &config_map("a")).await.expect_err("the quota is used up");
    assert!(refused.to_string().contains("exceeded quota: of-members"), "{refused}");
}
