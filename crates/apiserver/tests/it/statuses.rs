//! The status and the metadata of objects: writing them alone has the same result as writing the whole object.

use apimachinery::{ApiResource, Object, ObjectKey};
use client::{Client, Patch, PatchOptions};
use serde_json::{Value, json};

use crate::crds::start;
use crate::engine::on_every_engine;

on_every_engine! {
    alone: [
        a_status_is_written_alone_as_with_its_object,
        a_built_in_status_is_written_alone_as_with_its_object,
        metadata_is_written_alone_as_with_its_object,
        removing_the_last_finalizer_deletes_the_object,
        concurrent_writers_of_a_status_lose_nothing,
    ],
}

fn gauges() -> ApiResource {
    ApiResource::namespaced("g.example", "v1", "Gauge", "gauges")
}

fn definition() -> Value {
    let condition = json!({"type": "object", "required": ["type"], "properties": {"type": {"type": "string"}, "status": {"type": "string"}}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "default": {}, "properties": {"size": {"type": "integer", "default": 3}}},
        "status": {"type": "object", "properties": {
            "level": {"type": "integer", "minimum": 0}, "unit": {"type": "string", "default": "m"},
            "conditions": {"type": "array", "items": condition, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gauges.g.example"}, "spec": {"group": "g.example", "scope": "Namespaced",
        "names": {"plural": "gauges", "kind": "Gauge"}, "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}}}]}})
}

/// The parts that do not depend on the object's name and on the time.
pub(crate) fn lasting(object: &Object) -> Value {
    let mut tree = object.to_value().expect("an object");
    let metadata = tree["metadata"].as_object_mut().expect("metadata");
    for field in ["name", "uid", "resourceVersion", "creationTimestamp"] {
        metadata.remove(field);
    }
    for entry in metadata["managedFields"].as_array_mut().into_iter().flatten() {
        assert!(entry["time"].take().is_string(), "{entry}");
    }
    // Entries are in the order of their times, and a second may end between the two writes that are compared.
    if let Some(entries) = metadata["managedFields"].as_array_mut() {
        entries.sort_by_key(|entry| format!("{}{}", entry["manager"], entry["subresource"]));
    }
    tree
}

/// The outcome of a patch as it can be compared, and the version afterwards.
async fn patched(
    client: &Client,
    resource: &ApiResource,
    (name, options): (&str, &PatchOptions),
    patch: &Value,
) -> (Result<Value, String>, u64) {
    let key = ObjectKey::namespaced("default", name);
    let patched = client.patch(resource, &key, &Patch::Merge(patch.clone()), options).await;
    let stored = client.get(resource, &key).await.expect("it stays");
    if let Ok(patched) = &patched {
        assert_eq!(patched.json(), stored.json(), "the answer is what is stored");
    }
    let outcome = patched.map(|object| lasting(&object));
    // Some refusals show the whole object first.
    let why = |error: client::Error| {
        let text = error.to_string().replace(name, "NAME");
        text.rsplit("}\": ").next().unwrap_or_default().to_owned()
    };
    (outcome.map_err(why), stored.revision())
}

/// Patches two objects alike, one of them with more than the part; each step is the writer, the patch, and whether it
/// is accepted.
async fn compare(resource: &ApiResource, document: &Value, options: &PatchOptions, steps: &[(&str, Value, bool)]) {
    let (server, client) = start(&crate::engine::store().await, vec![definition()]).await.expect("an empty store");
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    client.create(&namespaces, &json!({"metadata": {"name": "default"}})).await.expect("a namespace");
    for name in ["alone", "whole"] {
        let mut object = document.clone();
        object["metadata"] =
            json!({"name": name, "namespace": "default", "labels": {"a": "b"}, "finalizers": ["g.example/f"]});
        client.create(resource, &object).await.expect("accepted");
    }
    for (manager, patch, accepted) in steps {
        let client = client.with_user_agent(manager);
        let mut whole = patch.clone();
        // A field without a change makes it a patch of more than the status.
        whole["kind"] = json!(resource.kind);
        let before =
            client.get(resource, &ObjectKey::namespaced("default", "alone")).await.expect("it is there").revision();
        let (one, version) = patched(&client, resource, ("alone", options), patch).await;
        let (other, _) = patched(&client, resource, ("whole", options), &whole).await;
        assert_eq!(one, other, "{patch}");
        assert_eq!(one.is_ok(), *accepted, "{patch}: {one:?}");
        assert!(*accepted || version == before, "{patch}");
    }
    server.shutdown();
}

async fn a_status_is_written_alone_as_with_its_object() {
    let steps = [
        ("one", json!({"status": {"level": 1, "conditions": [{"type": "A", "status": "True"}, {"type": "B"}]}}), true),
        ("one", json!({"status": {"level": 1}}), true),
        ("two", json!({"status": {"level": 2, "open": {"x": [1, null], "y": {}}}}), true),
        ("two", json!({"status": {"conditions": [{"type": "B", "status": "False"}]}}), true),
        ("one", json!({"status": {"open": {"x": null}, "level": 7.0}}), true),
        ("one", json!({"status": {"level": "x"}}), false),
        ("one", json!({"status": {"level": -1}}), false),
        ("one", json!({"status": {"conditions": [{"type": "B"}, {"type": "B"}]}}), false),
        ("one", json!({"status": {"conditions": [{"status": "B"}]}}), false),
        ("one", json!({"status": 5}), false),
        ("one", json!({"status": {"other": 5, "level": 8}}), true),
        ("one", json!({"metadata": {"uid": "another"}, "status": {"level": 9}}), false),
        ("one", json!({"metadata": {"resourceVersion": "1"}, "status": {"level": 9}}), false),
        ("one", json!({"metadata": {"resourceVersion": "x"}, "status": {"level": 9}}), false),
        ("one", json!({"metadata": {"labels": {"c": "d"}, "finalizers": []}, "status": {"level": 9}}), true),
        ("one", json!({"spec": {"size": 9}, "status": {"level": 10}}), true),
        ("one", json!({"status": {"unit": null, "level": null, "conditions": null}}), true),
        ("two", json!({"status": null}), true),
        ("three", json!({"status": {}}), true),
    ];
    let gauge = json!({"apiVersion": "g.example/v1", "kind": "Gauge", "spec": {"size": 4}});
    compare(&gauges(), &gauge, &PatchOptions::status(), &steps).await;
}

async fn a_built_in_status_is_written_alone_as_with_its_object() {
    let condition = |status: &str| json!({"type": "Available", "status": status, "reason": "R", "message": ""});
    let steps = [
        ("one", json!({"status": {"replicas": 2, "observedGeneration": 1, "conditions": [condition("False")]}}), true),
        ("one", json!({"status": {"replicas": 2}}), true),
        ("two", json!({"status": {"readyReplicas": 2, "conditions": [condition("True")]}}), true),
        ("two", json!({"status": {"availableReplicas": 3}}), false),
        ("two", json!({"status": {"replicas": -1}}), false),
        ("two", json!({"status": {"replicas": "2"}}), false),
        ("two", json!({"status": {"conditions": {}}}), false),
        ("two", json!({"status": {"readyReplicas": 0, "unknown": 1}}), true),
        ("one", json!({"status": {"readyReplicas": 0, "updatedReplicas": 1}}), true),
        ("one", json!({"metadata": {"annotations": {"c": "d"}}, "status": {"replicas": 4}}), true),
        ("one", json!({"status": {"replicas": 0, "updatedReplicas": null, "conditions": null}}), true),
        ("two", json!({"status": {}}), true),
        ("two", json!({"status": {"collisionCount": 1}}), true),
        ("two", json!({"status": {"collisionCount": null}}), false),
        ("two", json!({"status": null}), false),
    ];
    compare(&deployments(), &deployment(), &PatchOptions::status(), &steps).await;
}

fn deployments() -> ApiResource {
    ApiResource::namespaced("apps", "v1", "Deployment", "deployments")
}

fn deployment() -> Value {
    let container = json!({"name": "c", "image": "i"});
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec})
}

async fn metadata_is_written_alone_as_with_its_object() {
    let steps = [
        ("one", json!({"metadata": {"labels": {"c": "d"}, "annotations": {"x": "{\"y\": 1}"}}}), true),
        ("one", json!({"metadata": {"labels": {"c": "d"}}}), true),
        ("two", json!({"metadata": {"labels": {"c": "e", "a": null}}}), true),
        ("two", json!({"metadata": {"annotations": {"x": null}}}), true),
        ("one", json!({"metadata": {"annotations": null, "labels": {}}}), true),
        ("one", json!({"metadata": {"labels": {"c": 1}}}), false),
        ("one", json!({"metadata": {"labels": {"c d": "1"}}}), false),
        ("one", json!({"metadata": {"labels": ["c"]}}), false),
        ("one", json!({"metadata": {"finalizers": ["g.example/f", "g.example/g"]}}), true),
        ("one", json!({"metadata": {"finalizers": "f"}}), false),
        ("one", json!({"metadata": {"finalizers": ["a/b/c"]}}), false),
        ("two", json!({"metadata": {"finalizers": []}}), true),
        ("one", json!({"metadata": {"finalizers": null, "labels": null}}), true),
        ("one", json!({"metadata": {"uid": "another", "labels": {"c": "d"}}}), false),
        ("one", json!({"metadata": {"resourceVersion": "1", "labels": {"c": "d"}}}), false),
        ("one", json!({"metadata": {"resourceVersion": "x", "labels": {"c": "d"}}}), false),
        ("two", json!({"metadata": {"labels": {"c": "d"}, "generation": 7}}), true),
        ("two", json!({"metadata": {"labels": {"c": "e"}, "name": null}}), false),
        ("two", json!({"metadata": {"labels": {"f": "g"}}, "status": {"level": 1}}), true),
        ("three", json!({"metadata": {"annotations": {"\u{e4}/\u{e4}": "1"}}}), false),
        ("three", json!({"metadata": {"annotations": {"e": "\u{e4}"}}}), true),
    ];
    let gauge = json!({"apiVersion": "g.example/v1", "kind": "Gauge", "spec": {"size": 4}});
    compare(&gauges(), &gauge, &PatchOptions::default(), &steps).await;
    compare(&deployments(), &deployment(), &PatchOptions::default(), &steps).await;
}

async fn removing_the_last_finalizer_deletes_the_object() {
    let (server, client) = start(&crate::engine::store().await, vec![definition()]).await.expect("an empty store");
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    client.create(&namespaces, &json!({"metadata": {"name": "default"}})).await.expect("a namespace");
    let key = ObjectKey::namespaced("default", "a");
    for more in [json!({}), json!({"kind": "Gauge"})] {
        let finalizers = json!(["g.example/f", "g.example/g"]);
        let gauge = json!({"metadata": {"name": "a", "namespace": "default", "finalizers": finalizers}});
        let gauge = merged(&gauge, &json!({"apiVersion": "g.example/v1", "kind": "Gauge"}));
        client.create(&gauges(), &gauge).await.expect("a gauge");
        client.delete(&gauges(), &key, &client::DeleteOptions::default()).await.expect("marked");
        for (left, accepted) in [(json!(["g.example/g"]), true), (json!(["g.example/h"]), false), (json!([]), true)] {
            let patch = merged(&json!({"metadata": {"finalizers": left}}), &more);
            let patched = client.patch(&gauges(), &key, &Patch::Merge(patch), &PatchOptions::default()).await;
            assert_eq!(patched.is_ok(), accepted, "{left}: {patched:?}");
        }
        assert!(client.get_opt(&gauges(), &key).await.expect("an answer").is_none());
    }
    server.shutdown();
}

fn merged(one: &Value, other: &Value) -> Value {
    let mut merged = one.clone();
    merged.as_object_mut().expect("an object").extend(other.as_object().expect("an object").clone());
    merged
}

async fn concurrent_writers_of_a_status_lose_nothing() {
    let (server, client) = start(&crate::engine::store().await, vec![definition()]).await.expect("an empty store");
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    client.create(&namespaces, &json!({"metadata": {"name": "default"}})).await.expect("a namespace");
    let gauge =
        json!({"apiVersion": "g.example/v1", "kind": "Gauge", "metadata": {"name": "a", "namespace": "default"}});
    client.create(&gauges(), &gauge).await.expect("a gauge");
    let key = ObjectKey::namespaced("default", "a");
    let writes = (0..4).map(|n| {
        let (client, key) = (client.with_user_agent(&format!("writer{n}")), key.clone());
        async move {
            let patch = Patch::Merge(json!({"status": {"open": {format!("w{n}"): n}}}));
            client.patch(&gauges(), &key, &patch, &PatchOptions::status()).await.expect("written");
        }
    });
    futures::future::join_all(writes).await;
    let object = client.get(&gauges(), &key).await.expect("a gauge").to_value().expect("an object");
    assert_eq!(object["status"]["open"], json!({"w0": 0, "w1": 1, "w2": 2, "w3": 3}));
    let version = object["metadata"]["resourceVersion"].as_str().expect("a version");
    let stale = Patch::Merge(json!({"metadata": {"resourceVersion": version}, "status": {"level": 1}}));
    client.patch(&gauges(), &key, &stale, &PatchOptions::status()).await.expect("the newest");
    let refused = client.patch(&gauges(), &key, &stale, &PatchOptions::status()).await.expect_err("not the newest");
    assert!(refused.is_conflict(), "{refused}");
    server.shutdown();
}
