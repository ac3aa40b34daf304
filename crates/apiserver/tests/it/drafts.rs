//! Writes of callers in this process, sent as trees, have the same results as the same documents sent as bytes.

use std::sync::Arc;

use apimachinery::{ApiResource, Object, ObjectKey};
use client::{Client, Patch, PatchOptions};
use http::Method;
use serde_json::{Value, json};

use crate::objects::{config_maps, server};
use crate::statuses::lasting;

fn deployments() -> ApiResource {
    ApiResource::namespaced("apps", "v1", "Deployment", "deployments")
}

/// The result of a write: the object without fields that differ between writes, or the error.
fn outcome(result: Result<Arc<Object>, client::Error>) -> Result<Value, (u16, String)> {
    result.map(|object| lasting(&object)).map_err(|error| {
        let status = error.status().cloned().unwrap_or_default();
        (status.code, status.message)
    })
}

async fn as_bytes(client: &Client, method: Method, path: &str, document: &Value) -> Result<Value, (u16, String)> {
    let reply = client.request(method, path, Some(document.clone())).await;
    outcome(reply.map(|bytes| Object::parse(bytes).expect("an object").shared()))
}

fn deployment(name: &str, spec: Value) -> Value {
    let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "labels": {"a": "b"}},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    object["spec"].as_object_mut().expect("an object").extend(spec.as_object().expect("an object").clone());
    object
}

#[tokio::test]
async fn a_tree_is_created_and_updated_as_its_document_would_be() {
    let (_server, client) = server().await;
    let resource = deployments();
    let all = resource.collection_path(Some("default"));
    for (place, spec) in [
        json!({"replicas": 2.0, "paused": null, "foo": 1}),
        json!({"replicas": "2"}),
        json!({"template": {"spec": {"containers": [null]}}}),
        json!({"replicas": u64::MAX}),
        json!({"selector": null}),
        json!({"replicas": -1}),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("d{place}");
        let document = deployment(&name, spec);
        let wire = as_bytes(&client, Method::POST, &all, &document).await;
        if wire.is_ok() {
            client
                .delete(&resource, &ObjectKey::namespaced("default", &name), &Default::default())
                .await
                .expect("gone");
        }
        let draft = outcome(client.create(&resource, &document).await);
        assert_eq!(draft, wire, "{document}");
    }
    for (change, member) in [
        ("kind", json!("Secret")),
        ("kind", json!(7)),
        ("apiVersion", json!("apps/v2")),
        ("apiVersion", json!("v1")),
        ("metadata", json!({"name": "x", "namespace": "default", "resourceVersion": "1"})),
        ("metadata", json!({"generateName": 1, "namespace": "default"})),
    ] {
        let mut document = deployment("x", json!({}));
        document[change] = member;
        let wire = as_bytes(&client, Method::POST, &all, &document).await;
        assert_eq!(outcome(client.create(&resource, &document).await), wire, "{document}");
        assert!(wire.is_err(), "{document}");
    }
    let key = ObjectKey::namespaced("default", "d0");
    for spec in [json!({"replicas": 3.0, "foo": 1}), json!({"replicas": []}), json!({"selector": {}})] {
        let document = deployment("d0", spec);
        let wire = as_bytes(&client, Method::PUT, &resource.object_path(&key), &document).await;
        assert_eq!(outcome(client.update(&resource, &document).await), wire, "{document}");
    }
}

#[tokio::test]
async fn too_deep_a_tree_is_refused_as_its_document_is() {
    let (_server, client) = server().await;
    let nested = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"},
        "data": {"k": nested}});
    let path = config_maps().collection_path(Some("default"));
    let wire = as_bytes(&client, Method::POST, &path, &map).await.expect_err("too deep");
    let draft = outcome(client.create(&config_maps(), &map).await).expect_err("too deep");
    assert_eq!((draft.0, wire.0), (400, 400));
}

#[tokio::test]
async fn patches_are_accepted_as_trees() {
    let (_server, client) = server().await;
    let (resource, key) = (deployments(), ObjectKey::namespaced("default", "d"));
    client.create(&resource, &deployment("d", json!({}))).await.expect("created");
    let apply = |value| Patch::Apply { manager: "m".into(), force: true, value };
    let rows = [
        (Patch::Merge(json!({"spec": {"replicas": 4.0, "foo": 1}})), Ok(4)),
        (Patch::Merge(json!([1])), Err(400)),
        (Patch::Merge(json!(null)), Err(400)),
        (Patch::Merge(json!({"spec": {"replicas": "x"}})), Err(422)),
        (Patch::Strategic(json!({"spec": {"replicas": 5}})), Ok(5)),
        (Patch::Json(json!([{"op": "replace", "path": "/spec/replicas", "value": 6}])), Ok(6)),
        (Patch::Json(json!({"op": "replace"})), Err(400)),
        (
            apply(
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 7.0}}),
            ),
            Ok(7),
        ),
        (apply(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "d"}})), Err(400)),
    ];
    for (patch, expected) in rows {
        let patched = client.patch(&resource, &key, &patch, &PatchOptions::default()).await;
        let found = outcome(patched).map(|object| object["spec"]["replicas"].as_i64().unwrap_or(0));
        assert_eq!(found.map_err(|(code, _)| code), expected, "{patch:?}");
    }
}

/// Of Deployments. A patch of the metadata alone is written without the rest of the object.
#[tokio::test]
async fn annotations_raise_the_generation_on_every_path() {
    let (_server, client) = server().await;
    let (resource, key) = (deployments(), ObjectKey::namespaced("default", "d"));
    client.create(&resource, &deployment("d", json!({}))).await.expect("created");
    let annotations = |value: Value| json!({"metadata": {"annotations": value}});
    let rows = [
        (Patch::Merge(annotations(json!({"a": "1"}))), 2),
        (Patch::Merge(annotations(json!({"a": "1"}))), 2),
        (Patch::Merge(json!({"metadata": {"labels": {"c": "d"}}})), 2),
        (Patch::Strategic(annotations(json!({"a": "2"}))), 3),
        (Patch::Merge(annotations(json!({"a": null}))), 4),
        (Patch::Merge(annotations(json!({"a": null}))), 4),
        (Patch::Merge(json!({"metadata": annotations(json!({"b": "1"}))["metadata"], "spec": {"replicas": 3}})), 5),
    ];
    for (patch, expected) in rows {
        let patched = client.patch(&resource, &key, &patch, &PatchOptions::default()).await.expect("patched");
        assert_eq!(lasting(&patched)["metadata"]["generation"], expected, "{patch:?}");
    }
}

#[tokio::test]
async fn the_writer_and_the_cache_share_a_committed_object() {
    let (_server, client) = server().await;
    let map = |value: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"},
            "data": {"k": value}})
    };
    let key = ObjectKey::namespaced("default", "a");
    let created = client.create(&config_maps(), &map("1")).await.expect("created");
    let cached = client.get(&config_maps(), &key).await.expect("it is there");
    assert!(Arc::ptr_eq(&created, &cached));
    let updated = client.update(&config_maps(), &map("2")).await.expect("updated");
    let cached = client.get(&config_maps(), &key).await.expect("it is there");
    assert!(Arc::ptr_eq(&updated, &cached));
    let patch = Patch::Merge(json!({"data": {"k": "3"}}));
    let patched = client.patch(&config_maps(), &key, &patch, &PatchOptions::default()).await.expect("patched");
    let cached = client.get(&config_maps(), &key).await.expect("it is there");
    assert!(Arc::ptr_eq(&patched, &cached));
}
