//! Claims that are interrupted, or changed by a user.

use std::sync::Arc;

use apimachinery::{ApiResource, Object};
use client::{DeleteOptions, PatchOptions};
use karmada_api::constants::{annotations, labels};
use serde_json::{Value, json};

use crate::by_hand::{bindings, config_maps, demo};
use crate::harness::{Plane, get};

fn policies() -> ApiResource {
    ApiResource::namespaced("policy.karmada.io", "v1alpha1", "PropagationPolicy", "propagationpolicies")
}

/// A policy that selects a ConfigMap by its name.
async fn policy(plane: &Plane, name: &str, selected: &str, member: &str) -> Arc<Object> {
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": "demo"},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": selected}],
            "placement": {"clusterAffinity": {"clusterNames": [member]}}}});
    plane.create(policies(), policy).await
}

async fn thing(plane: &Plane) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "thing", "namespace": "demo"}});
    plane.create(config_maps(), map).await;
}

/// The policy that claims the ConfigMap `thing` completely.
async fn claimed_by(plane: &Plane) -> Option<String> {
    let metadata = plane.get(&config_maps(), &demo("thing")).await?["metadata"].clone();
    metadata["labels"][labels::POLICY_ID].as_str()?;
    Some(metadata["annotations"][annotations::POLICY_NAME].as_str()?.to_owned())
}

async fn until_claimed_by(plane: &Plane, name: &str, member: &str) {
    plane.until("the claim", async || claimed_by(plane).await.filter(|by| by == name)).await;
    let member = plane.member(member);
    plane.until("a copy", async || get(&member, &config_maps(), &demo("thing")).await).await;
}

/// The controllers crash between the claim and the update of a binding that has no claim, and the policy changes
/// meanwhile.
#[tokio::test(start_paused = true)]
async fn a_claim_that_did_not_reach_the_binding_ends() {
    let mut plane = Plane::start().await;
    thing(&plane).await;
    policy(&plane, "former", "thing", "m1").await;
    until_claimed_by(&plane, "former", "m1").await;
    plane.client.delete(&policies(), &demo("former"), &DeleteOptions::default()).await.expect("the deletion");
    plane.until("no claim", async || claimed_by(&plane).await.is_none().then_some(())).await;
    plane.settle().await;
    assert!(plane.get(&bindings(), &demo("thing-configmap")).await.is_some());

    plane.stop_controllers().await;
    let elsewhere = policy(&plane, "elsewhere", "other", "m1").await;
    let claim = json!({"metadata": {"labels": {labels::POLICY_ID: elsewhere.label(labels::POLICY_ID)},
        "annotations": {annotations::POLICY_NAMESPACE: "demo", annotations::POLICY_NAME: "elsewhere"}}});
    plane.merge(&config_maps(), &demo("thing"), claim, PatchOptions::default()).await;
    policy(&plane, "wanted", "thing", "m2").await;
    plane.restart_controllers().await;
    until_claimed_by(&plane, "wanted", "m2").await;
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_a_user_removes_in_part_is_completed() {
    let plane = Plane::start().await;
    thing(&plane).await;
    policy(&plane, "things", "thing", "m1").await;
    until_claimed_by(&plane, "things", "m1").await;
    let part = json!({"metadata": {"annotations": {annotations::POLICY_NAME: Value::Null}}});
    plane.merge(&config_maps(), &demo("thing"), part, PatchOptions::default()).await;
    until_claimed_by(&plane, "things", "m1").await;
    plane.shutdown().await;
}

/// Not only by the next pass over the policy, which may be the one after a restart.
#[tokio::test(start_paused = true)]
async fn a_template_that_is_relabelled_is_released_at_once() {
    let plane = Plane::start().await;
    thing(&plane).await;
    let relabel = async |team: &str| {
        let labels = json!({"metadata": {"labels": {"team": team}}});
        plane.merge(&config_maps(), &demo("thing"), labels, PatchOptions::default()).await;
    };
    for (team, member) in [("red", "m1"), ("blue", "m2")] {
        let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": team, "namespace": "demo"},
            "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap",
                    "labelSelector": {"matchLabels": {"team": team}}}],
                "placement": {"clusterAffinity": {"clusterNames": [member]}}}});
        plane.create(policies(), policy).await;
    }
    relabel("red").await;
    until_claimed_by(&plane, "red", "m1").await;
    relabel("blue").await;
    until_claimed_by(&plane, "blue", "m2").await;

    // As after the deletion of the policy: the copy stays.
    relabel("green").await;
    plane.settle().await;
    assert_eq!(claimed_by(&plane).await, None);
    let binding = plane.get(&bindings(), &demo("thing-configmap")).await.expect("the binding");
    assert_eq!(binding["metadata"]["labels"][labels::POLICY_ID], Value::Null);
    let copies = [("m1", false), ("m2", true)];
    for (member, expected) in copies {
        let copy = get(&plane.member(member), &config_maps(), &demo("thing")).await;
        assert_eq!(copy.is_some(), expected, "{member}");
    }
    plane.shutdown().await;
}
