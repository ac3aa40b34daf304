//! A ConfigMap with a manual binding: without a placement no component changes its clusters. And copies of bindings.

use apimachinery::{ApiResource, ObjectKey};
use karmada_api::ApiType;
use karmada_api::names;
use karmada_api::scope::{Binding, Scope};
use karmada_api::work::v1alpha1::Work;
use serde_json::{Value, json};

use crate::failures::messages_of;
use crate::harness::{Plane, get};

pub fn config_maps() -> ApiResource {
    ApiResource::namespaced("", "v1", "ConfigMap", "configmaps")
}

pub fn bindings() -> ApiResource {
    Binding::api_resource(Scope::Namespaced)
}

pub fn demo(name: &str) -> ObjectKey {
    ObjectKey::namespaced("demo", name)
}

/// The Work of `demo/thing` in a member.
pub fn work_in(member: &str) -> ObjectKey {
    ObjectKey::namespaced(names::execution_namespace(member), names::work_name("ConfigMap", "thing", "demo"))
}

/// The targets of a binding to these members.
pub fn targets(members: &[&str]) -> Value {
    json!({"spec": {"clusters": members.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()}})
}

/// Creates `demo/thing` and its binding, and waits for the copies.
pub async fn bind(plane: &Plane, members: &[&str]) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "thing", "namespace": "demo"}});
    let uid = plane.create(config_maps(), map).await.uid().to_owned();
    let mut binding = targets(members);
    binding["apiVersion"] = json!("work.karmada.io/v1alpha2");
    binding["kind"] = json!("ResourceBinding");
    binding["metadata"] = json!({"name": "thing-configmap", "namespace": "demo"});
    binding["spec"]["resource"] =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "demo", "name": "thing", "uid": uid});
    plane.create(bindings(), binding).await;
    for member in members {
        let client = plane.member(member);
        plane.until("a copy", async || get(&client, &config_maps(), &demo("thing")).await).await;
    }
    plane.settle().await;
}

/// As users edit one they have read: with the labels of the original, and to other clusters.
#[tokio::test(start_paused = true)]
async fn a_copied_binding_neither_deletes_nor_takes_over_the_works_of_its_original() {
    let plane = Plane::start().await;
    bind(&plane, &["m1"]).await;
    let before = plane.get(&Work::api_resource(), &work_in("m1")).await.expect("a Work");
    let copied = get(&plane.member("m1"), &config_maps(), &demo("thing")).await.expect("a copy");
    let original = plane.get(&bindings(), &demo("thing-configmap")).await.expect("the binding");
    let copy_to = |name: &str, members: &[&str]| {
        let mut copy = original.clone();
        copy["metadata"] = json!({"name": name, "namespace": "demo", "labels": original["metadata"]["labels"]});
        copy["spec"]["clusters"] = targets(members)["spec"]["clusters"].clone();
        copy
    };
    plane.create(bindings(), copy_to("elsewhere", &["m2"])).await;
    let m2 = plane.member("m2");
    plane.until("the other copy", async || get(&m2, &config_maps(), &demo("thing")).await).await;
    plane.create(bindings(), copy_to("same-place", &["m1"])).await;
    let refused = async || {
        let messages = messages_of(&plane, "SyncWorkFailed", "same-place").await;
        let of = |text: &String| text.contains("ResourceBinding demo/thing-configmap propagates the same template");
        messages.iter().any(of).then_some(())
    };
    plane.until("the refusal", refused).await;
    for name in ["elsewhere", "same-place"] {
        plane.client.delete(&bindings(), &demo(name), &client::DeleteOptions::default()).await.expect("the deletion");
    }
    plane.settle().await;
    let after = plane.get(&Work::api_resource(), &work_in("m1")).await.expect("the Work");
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["metadata"]["annotations"], before["metadata"]["annotations"]);
    let left = get(&plane.member("m1"), &config_maps(), &demo("thing")).await.expect("the copy");
    assert_eq!(left["metadata"]["uid"], copied["metadata"]["uid"]);
    plane.shutdown().await;
}
