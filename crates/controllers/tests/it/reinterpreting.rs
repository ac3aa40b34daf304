//! Changes of customizations while their objects exist.

use apimachinery::{ApiResource, ObjectKey};
use client::PatchOptions;
use karmada_api::scope::{Binding, Scope};
use serde_json::{Value, json};

use crate::dependencies::{application, demo, deployments};
use crate::harness::{Plane, get, writes};

#[tokio::test(start_paused = true)]
async fn a_changed_customization_is_applied_to_the_statuses_of_existing_objects() {
    let plane = Plane::start().await;
    application(&plane, "web", "m1", json!({})).await;
    let member = plane.member("m1");
    plane.until("web in m1", async || get(&member, &deployments(), &demo("web")).await).await;
    let status = json!({"status": {"replicas": 1, "observedGeneration": 1}});
    let patch = client::Patch::Merge(status);
    member.patch(&deployments(), &demo("web"), &patch, &PatchOptions::status()).await.expect("the status");
    let reported = async || {
        let binding = plane.get(&Binding::api_resource(Scope::Namespaced), &demo("web-deployment")).await?;
        let item = binding["status"]["aggregatedStatus"].get(0)?.clone();
        let template = plane.get(&deployments(), &demo("web")).await?;
        Some((item["health"].clone(), item["status"]["replicas"].clone(), template["status"]["replicas"].clone()))
    };
    let until = async |what: &str, expected: (Value, Value, Value)| {
        plane.until(what, async || reported().await.filter(|found| *found == expected)).await;
    };
    until("the built-in rules", (json!("Unhealthy"), json!(1), json!(1))).await;
    plane.settle().await;
    let script = |text: &str| json!({"luaScript": text});
    let mut customization = json!({"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "ours"}, "spec": {"target": {"apiVersion": "apps/v1", "kind": "Deployment"}, "customizations": {
        "healthInterpretation": script("function InterpretHealth(o) return true end"),
        "statusReflection": script("function ReflectStatus(o) return {replicas = 7} end"),
        "statusAggregation":
            script("function AggregateStatus(o, items) o.status = {replicas = items[1].status.replicas * 2} return o end"),
    }}});
    let resource = ApiResource::cluster(
        "config.karmada.io",
        "v1alpha1",
        "ResourceInterpreterCustomization",
        "resourceinterpretercustomizations",
    );
    plane.create(resource.clone(), customization.clone()).await;
    until("the customization", (json!("Healthy"), json!(7), json!(14))).await;
    customization["spec"]["customizations"]["statusReflection"]["luaScript"] =
        json!("function ReflectStatus(o) return {replicas = 8} end");
    plane.merge(&resource, &ObjectKey::cluster("ours"), customization, PatchOptions::default()).await;
    until("the other script", (json!("Healthy"), json!(8), json!(16))).await;
    plane.settle().await;
    let (work, before) = (writes(&plane.context, "m1"), plane.requests());
    let annotated = json!({"metadata": {"annotations": {"a": "b"}}});
    plane.merge(&resource, &ObjectKey::cluster("ours"), annotated, PatchOptions::default()).await;
    plane.settle().await;
    assert_eq!((writes(&plane.context, "m1"), plane.requests()), (work, before), "no script differs");
    plane
        .client
        .delete(&resource, &ObjectKey::cluster("ours"), &client::DeleteOptions::default())
        .await
        .expect("the deletion");
    until("the built-in rules again", (json!("Unhealthy"), json!(1), json!(1))).await;
    assert_eq!(writes(&plane.context, "m1"), work, "nothing in the member is written");
    plane.shutdown().await;
}
