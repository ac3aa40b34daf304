//! Copies whose identity an override changes, or whose policy waits for an override.

use apimachinery::{ApiResource, ObjectKey};
use serde_json::{Value, json};

use crate::by_hand::{bindings, config_maps, demo};
use crate::harness::{Plane, get};

fn overrides() -> ApiResource {
    ApiResource::namespaced("policy.karmada.io", "v1alpha1", "OverridePolicy", "overridepolicies")
}

/// An override of the ConfigMap `thing`.
fn of_thing(name: &str, rule: Value) -> Value {
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": {"name": name, "namespace": "demo"},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "thing"}], "overrideRules": [rule]}})
}

async fn propagate_thing(plane: &Plane, more: Value) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "thing", "namespace": "demo"}});
    plane.create(config_maps(), map).await;
    let mut spec = json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "thing"}]});
    apimachinery::merge_patch::apply(&mut spec, &more);
    let policies = ApiResource::namespaced("policy.karmada.io", "v1alpha1", "PropagationPolicy", "propagationpolicies");
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "things", "namespace": "demo"}, "spec": spec});
    plane.create(policies, policy).await;
}

/// Upstream aggregates no status of the binding then.
#[tokio::test(start_paused = true)]
async fn the_status_of_a_renamed_copy_is_reported() {
    let plane = Plane::start().await;
    let rename = json!({"path": "/metadata/name", "operator": "replace", "value": "renamed"});
    let version = json!({"path": "/apiVersion", "operator": "replace", "value": "v2"});
    let rule = |member: &str, operation: Value| json!({"targetCluster": {"clusterNames": [member]}, "overriders": {"plaintext": [operation]}});
    plane.create(overrides(), of_thing("name", rule("m1", rename))).await;
    plane.create(overrides(), of_thing("version", rule("m2", version))).await;
    propagate_thing(&plane, json!({})).await;
    let reported = async || {
        let binding = plane.get(&bindings(), &demo("thing-configmap")).await?;
        let items = binding["status"]["aggregatedStatus"].as_array()?.clone();
        let text = |item: &Value| format!("{} {}", item["applied"] == true, item["appliedMessage"]);
        match items.as_slice() {
            [m1, m2] if m1["applied"] == true && !m2["appliedMessage"].is_null() => Some([text(m1), text(m2)]),
            _ => None,
        }
    };
    let [m1, m2] = plane.until("both are reported", reported).await;
    assert_eq!(m1, "true null");
    assert!(m2.contains("false") && m2.contains("no matches for kind \\\"ConfigMap\\\" in version \\\"v2\\\""), "{m2}");
    assert!(get(&plane.member("m1"), &config_maps(), &demo("renamed")).await.is_some());
    plane.shutdown().await;
}

/// Upstream retries, at last every 1,000 s.
#[tokio::test(start_paused = true)]
async fn a_policy_that_waits_for_an_override_continues_with_it() {
    let plane = Plane::start().await;
    propagate_thing(&plane, json!({"dependentOverrides": ["late"]})).await;
    tokio::time::sleep(std::time::Duration::from_secs(3_000)).await;
    let binding: ObjectKey = demo("thing-configmap");
    assert_eq!(plane.get(&bindings(), &binding).await, None);
    let label = json!({"overriders": {"labelsOverrider": [{"operator": "add", "value": {"is": "late"}}]}});
    plane.create(overrides(), of_thing("late", label)).await;
    plane.settle().await;
    let copy = get(&plane.member("m1"), &config_maps(), &demo("thing")).await.expect("a copy");
    assert_eq!(copy["metadata"]["labels"]["is"], "late");
    plane.shutdown().await;
}
