//! The deletion of namespaces.

use serde_json::{Value, json};

use crate::harness::{Plane, namespace, resource};

fn config_map(name: &str, finalizers: &[&str]) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "demo"}});
    if !finalizers.is_empty() {
        object["metadata"]["finalizers"] = json!(finalizers);
    }
    object
}

fn widgets() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}

#[tokio::test(start_paused = true)]
async fn only_the_content_of_the_namespace_is_deleted() {
    let plane = Plane::start(&["namespace", "serviceaccount"]).await;
    let (namespaces, maps) = (resource("v1", "Namespace"), resource("v1", "ConfigMap"));
    plane.create(widgets()).await;
    let widgets = apimachinery::ApiResource::namespaced("example.com", "v1", "Widget", "widgets");
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "demo"}});
    plane.until("the kind is served", async || plane.client.create(&widgets, &widget).await.ok()).await;
    for name in ["a", "b"] {
        plane.create(config_map(name, &[])).await;
    }
    let mut elsewhere = config_map("a", &[]);
    elsewhere["metadata"]["namespace"] = "default".into();
    plane.create(elsewhere).await;

    plane.delete(&namespaces, "demo", "").await;
    plane.until_gone(&namespaces, "demo").await;
    for (resource, key) in [(&maps, "demo/a"), (&maps, "demo/b"), (&widgets, "demo/w")] {
        assert_eq!(plane.get(resource, key).await, None, "{key}");
    }
    assert!(plane.get(&maps, "default/a").await.is_some());
    // One bulk delete for each resource with objects, and the finalization; no status write in between.
    let mut requests = plane.requests();
    requests.remove("create serviceaccounts");
    let expected = [
        "deletecollection configmaps",
        "deletecollection serviceaccounts",
        "deletecollection widgets.example.com",
        "update namespaces",
    ];
    assert_eq!(requests.into_iter().collect::<Vec<_>>(), expected.map(|row| (row.to_owned(), 1)));

    plane.create(namespace("demo")).await;
    plane.create(config_map("a", &[])).await;
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_waits_for_finalizers_and_reports_them() {
    let plane = Plane::start(&["namespace"]).await;
    let (namespaces, maps) = (resource("v1", "Namespace"), resource("v1", "ConfigMap"));
    plane.create(config_map("held", &["example.com/hold"])).await;
    plane.delete(&namespaces, "demo", "").await;
    let reported = async || {
        let live = plane.get(&namespaces, "demo").await?;
        (!live["status"]["conditions"].is_null()).then_some(live)
    };
    let live = plane.until("conditions", reported).await;
    assert_eq!(live["status"]["phase"], "Terminating");
    let rows: Vec<_> = live["status"]["conditions"].as_array().expect("a list").iter().collect();
    let of = |type_: &str| *rows.iter().find(|row| row["type"] == type_).expect(type_);
    let remaining = of("NamespaceContentRemaining");
    assert_eq!(remaining["message"], "Some resources are remaining: configmaps. has 1 resource instances");
    let finalizers = of("NamespaceFinalizersRemaining");
    let expected = "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances";
    assert_eq!(finalizers["message"], expected);
    assert_eq!(of("NamespaceDeletionContentFailure")["status"], "False");

    let refused = plane.client.create(&maps, &config_map("late", &[])).await.expect_err("no new content");
    assert!(refused.to_string().contains("because it is being terminated"), "{refused}");

    plane.settle().await;
    let before = plane.requests();
    assert_eq!(before.get("deletecollection configmaps"), Some(&1), "waiting objects are not deleted again");
    plane.merge(&maps, "demo/held", json!({"metadata": {"finalizers": null}})).await;
    plane.until_gone(&namespaces, "demo").await;
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_of_the_namespace_itself_keeps_it_but_not_its_content() {
    let plane = Plane::start(&["namespace"]).await;
    let (namespaces, maps) = (resource("v1", "Namespace"), resource("v1", "ConfigMap"));
    plane.create(config_map("a", &[])).await;
    plane.merge(&namespaces, "demo", json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
    plane.delete(&namespaces, "demo", "").await;
    let emptied = async || {
        let live = plane.get(&namespaces, "demo").await.expect("it is held");
        live["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty).then_some(live)
    };
    let live = plane.until("spec.finalizers is empty", emptied).await;
    let conditions = live["status"]["conditions"].as_array().expect("a list");
    assert!(conditions.len() == 5 && conditions.iter().all(|row| row["status"] == "False"), "{conditions:?}");
    assert_eq!(plane.get(&maps, "demo/a").await, None);
    plane.merge(&namespaces, "demo", json!({"metadata": {"finalizers": null}})).await;
    plane.until_gone(&namespaces, "demo").await;
    plane.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_begins_active_and_only_finalize_changes_its_finalizers() {
    let plane = Plane::idle().await;
    let namespaces = resource("v1", "Namespace");
    let shown = async || plane.get(&namespaces, "demo").await.expect("it is there");
    let first = shown().await;
    assert_eq!(first["spec"], json!({"finalizers": ["kubernetes"]}));
    assert_eq!(first["status"], json!({"phase": "Active"}));
    assert_eq!(first["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "demo"}));
    let patch = json!({"metadata": {"labels": null}, "spec": {"finalizers": []}, "status": {"phase": "Odd"}});
    plane.merge(&namespaces, "demo", patch).await;
    for field in ["spec", "status"] {
        assert_eq!(shown().await[field], first[field]);
    }
    assert_eq!(shown().await["metadata"]["labels"], first["metadata"]["labels"]);

    plane.delete(&namespaces, "demo", "").await;
    let mut leaving = shown().await;
    assert_eq!(leaving["status"]["phase"], "Terminating");
    leaving["spec"]["finalizers"] = json!([]);
    let body = Some(leaving);
    plane.client.request(http::Method::PUT, "/api/v1/namespaces/demo/finalize", body).await.expect("finalized");
    assert_eq!(plane.get(&namespaces, "demo").await, None);
    plane.shutdown().await;
}
