//! Plugins that change other objects in the transaction of a write: the others are right, with any outcome of the
//! write.

use std::sync::Arc;

use apimachinery::{Object, ObjectKey, Status};
use apiserver::{Admission, ApiServer, Change, JointWrite};
use client::{Client, DeleteOptions, Patch, PatchOptions, Write, WriteOptions};
use serde_json::{Value, json};

use crate::engine::on_every_engine;
use crate::objects::{config_maps, server_with};

on_every_engine! {
    alone: [
        concurrent_creates_respect_the_limit,
        rejected_objects_are_not_counted,
        a_transaction_may_change_an_existing_object,
        an_object_is_counted_until_its_last_finalizer_is_removed,
    ],
}

const LIMIT: i64 = 8;

/// Counts the ConfigMaps of a namespace in one of them, up to a limit.
struct Counting;

impl Admission for Counting {
    fn has_joint_writes(&self, group: &str, plural: &str) -> bool {
        group.is_empty() && plural == "configmaps"
    }

    fn joint_writes(&self, change: &Change<'_>) -> Result<Vec<JointWrite>, Status> {
        let difference = i64::from(change.new.is_some()) - i64::from(change.old.is_some());
        if change.key.name() == "counter" || difference == 0 {
            return Ok(Vec::new());
        }
        let namespace = change.key.namespace().unwrap_or_default();
        let counter = change.others("", "configmaps", namespace)?.into_iter().find(|it| it.name() == "counter");
        let Some(based_on) = counter else { return Ok(Vec::new()) };
        let mut object = based_on.to_value().map_err(Status::internal)?;
        let count = count_of(&object) + difference;
        if difference > 0 && count > LIMIT {
            return Err(Status::forbidden("", "configmaps", change.key.name(), "too many"));
        }
        object["data"]["count"] = count.to_string().into();
        Ok(vec![JointWrite { group: "", plural: "configmaps", based_on, object }])
    }
}

fn count_of(counter: &Value) -> i64 {
    counter["data"]["count"].as_str().and_then(|text| text.parse().ok()).expect("a count")
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

async fn server() -> (ApiServer, Client) {
    let (server, client) = server_with(vec![Arc::new(Counting)]).await;
    create(&client, "counter", false).await.expect("a counter");
    (server, client)
}

async fn create(client: &Client, name: &str, dry_run: bool) -> Result<Arc<Object>, client::Error> {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
        "data": {"count": "0"}});
    let options = WriteOptions { dry_run, ..WriteOptions::default() };
    client.create_object(&config_maps(), &Object::from_value(&object).expect("JSON"), &options).await
}

async fn count(client: &Client) -> i64 {
    let counter = client.get(&config_maps(), &key("counter")).await.expect("the counter");
    count_of(&counter.to_value().expect("JSON"))
}

fn code(error: &client::Error) -> u16 {
    error.status().map_or(0, |status| status.code)
}

async fn concurrent_creates_respect_the_limit() {
    let (_server, client) = server().await;
    let names: Vec<String> = (0..20).map(|n| format!("m{n}")).collect();
    let creations = futures::future::join_all(names.iter().map(|name| create(&client, name, false)));
    // Others write the counter at the same time.
    let stamps = futures::future::join_all((0..10).map(|n| {
        let (client, patch) = (client.clone(), Patch::Merge(json!({"data": {format!("stamp{n}"): "x"}})));
        async move { client.patch(&config_maps(), &key("counter"), &patch, &PatchOptions::default()).await }
    }));
    let (created, stamped) = futures::join!(creations, stamps);
    assert!(stamped.iter().all(Result::is_ok));
    let refused: Vec<u16> = created.iter().filter_map(|it| it.as_ref().err()).map(code).collect();
    assert_eq!(refused, vec![403; 12]);
    assert_eq!(count(&client).await, LIMIT);
    let deletions = names.iter().map(|name| {
        let (client, key) = (client.clone(), key(name));
        async move { client.delete(&config_maps(), &key, &DeleteOptions::default()).await.is_ok() }
    });
    let deleted = futures::future::join_all(deletions).await;
    assert_eq!(deleted.into_iter().filter(|it| *it).count(), 8);
    assert_eq!(count(&client).await, 0);
}

async fn rejected_objects_are_not_counted() {
    let (_server, client) = server().await;
    create(&client, "a", true).await.expect("it would be stored");
    assert_eq!(count(&client).await, 0);
    create(&client, "a", false).await.expect("stored");
    assert_eq!(code(&create(&client, "a", false).await.expect_err("it exists")), 409);
    assert_eq!(count(&client).await, 1);
    let stale = Patch::Merge(json!({"metadata": {"resourceVersion": "1"}, "data": {"x": "y"}}));
    let error = client.patch(&config_maps(), &key("a"), &stale, &PatchOptions::default()).await.expect_err("stale");
    assert!(error.is_conflict(), "{error}");
    for n in 1..LIMIT {
        create(&client, &format!("m{n}"), false).await.expect("there is room");
    }
    assert_eq!(code(&create(&client, "more", true).await.expect_err("a dry run")), 403);
    assert_eq!(code(&create(&client, "more", false).await.expect_err("the limit")), 403);
    assert_eq!(count(&client).await, LIMIT);
}

async fn a_transaction_may_change_an_existing_object() {
    let (_server, client) = server().await;
    let (resource, other) = (config_maps(), config_maps());
    let object = |name: &str| json!({"metadata": {"name": name, "namespace": "default"}, "data": {"count": "0"}});
    let new = |name: &str| Write::Create { resource: &resource, object: object(name), with_status: false };
    let label = || Write::Patch {
        resource: &other,
        key: Box::leak(Box::new(key("a"))),
        patch: Patch::Merge(json!({"metadata": {"labels": {"x": "y"}}})),
        options: PatchOptions::default(),
    };
    create(&client, "a", false).await.expect("stored");
    let stored = client.write_together(vec![new("b"), label()]).await.expect("an answer");
    let stored = stored.map_or(0, |objects| objects.len());
    if crate::engine::of_this_test().shares_revisions() {
        assert_eq!((stored, count(&client).await), (0, 1), "the caller sends them one by one");
        create(&client, "b", false).await.expect("stored");
    } else {
        assert_eq!((stored, count(&client).await), (2, 2));
    }
    let stored = client.write_together(vec![new("c"), new("d")]).await.expect("an answer");
    assert!(stored.is_none(), "both change the counter");
    assert_eq!(count(&client).await, 2);
    assert!(client.get_opt(&resource, &key("c")).await.expect("an answer").is_none());
}

async fn an_object_is_counted_until_its_last_finalizer_is_removed() {
    let (_server, client) = server().await;
    create(&client, "a", false).await.expect("stored");
    let finalizers = async |list: Value| {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": list}}));
        client.patch(&config_maps(), &key("a"), &patch, &PatchOptions::default()).await.expect("patched");
    };
    finalizers(json!(["test/a", "test/b"])).await;
    client.delete(&config_maps(), &key("a"), &DeleteOptions::default()).await.expect("marked");
    assert_eq!(count(&client).await, 1);
    finalizers(json!(["test/b"])).await;
    assert_eq!(count(&client).await, 1);
    finalizers(Value::Null).await;
    assert_eq!(count(&client).await, 0);
    assert!(client.get_opt(&config_maps(), &key("a")).await.expect("an answer").is_none());
}
