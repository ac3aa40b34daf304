//! Several writes in one transaction: the same result as one after another, or none.

use std::sync::Arc;

use apimachinery::{ApiResource, Object, ObjectKey};
use client::{Client, Patch, PatchOptions, WatchOptions, Write};
use futures::StreamExt;
use serde_json::{Value, json};
use transport::{Identity, WatchEvent};

use crate::engine::{self, on_every_engine};
use crate::objects::{config_maps, server};
use crate::statuses::lasting;

on_every_engine! {
    alone: [
        joint_writes_equal_separate_ones,
        a_rejected_write_rejects_the_transaction,
        unchanged_objects_are_part_of_the_transaction,
        concurrent_transactions_do_not_deadlock,
    ],
}

fn deployments() -> ApiResource {
    ApiResource::namespaced("apps", "v1", "Deployment", "deployments")
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"k": "1"}})
}

fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
}

fn label() -> Patch {
    Patch::Merge(json!({"metadata": {"labels": {"claimed": "yes"}}}))
}

fn status() -> Patch {
    Patch::Merge(json!({"status": {"replicas": 3}}))
}

/// A new ConfigMap, a label, a status and a changed ConfigMap; the objects that exist have names that end in `n`.
fn writes<'a>(resources: &'a [ApiResource; 2], keys: &'a [ObjectKey; 2], n: &str) -> Vec<Write<'a>> {
    let [maps, deployments] = resources;
    let patch = |key, patch, options| Write::Patch { resource: deployments, key, patch, options };
    let mut changed = map(&format!("known{n}"));
    changed["data"]["k"] = json!("2");
    vec![
        Write::Create { resource: maps, object: map(&format!("new{n}")), with_status: false },
        patch(&keys[0], label(), PatchOptions::default()),
        patch(&keys[1], status(), PatchOptions::status()),
        Write::Update { resource: maps, object: changed },
    ]
}

/// How many of [`writes`] are stored together: all, or those of different resources.
fn together() -> usize {
    if engine::of_this_test().shares_revisions() { 2 } else { 4 }
}

async fn prepare(client: &Client, n: &str) -> [ObjectKey; 2] {
    client.create(&config_maps(), &map(&format!("known{n}"))).await.expect("created");
    let names = [format!("labelled{n}"), format!("running{n}")];
    for name in &names {
        client.create(&deployments(), &deployment(name)).await.expect("created");
    }
    names.map(|name| key(&name))
}

async fn write_single(client: &Client, write: Write<'_>) -> Arc<Object> {
    let stored = match write {
        Write::Create { resource, object, .. } => client.create(resource, &object).await,
        Write::Update { resource, object } => client.update(resource, &object).await,
        Write::Patch { resource, key, patch, options } => client.patch(resource, key, &patch, &options).await,
    };
    stored.expect("stored")
}

async fn joint_writes_equal_separate_ones() {
    let (_server, client) = server().await;
    let resources = [config_maps(), deployments()];
    let (one, all) = (prepare(&client, "1").await, prepare(&client, "2").await);
    let (mut expected, together) = (Vec::new(), together());
    for write in writes(&resources, &one, "1").into_iter().take(together) {
        let stored = write_single(&client, write).await;
        expected.push(lasting(&stored));
    }
    let before = client.get(&config_maps(), &key("new1")).await.expect("it is there").resource_version().to_owned();
    let options = WatchOptions { resource_version: Some(before), ..WatchOptions::default() };
    let mut watch = client.watch(&config_maps(), None, &options).await.expect("a watch");
    let mut writes = writes(&resources, &all, "2");
    if writes.len() > together {
        let all = writes.clone();
        assert!(client.write_together(all).await.expect("an answer").is_none(), "the caller sends them one by one");
        writes.truncate(together);
    }
    let stored = client.write_together(writes).await.expect("an answer").expect("stored");
    assert_eq!(stored.iter().map(|object| lasting(object)).collect::<Vec<_>>(), expected);
    let revisions: Vec<u64> = stored.iter().map(|object| object.revision()).collect();
    let first = revisions[0];
    let follow: &[u64] = if together == 2 { &[0, 0] } else { &[0, 1, 2, 3] };
    let follow: Vec<u64> = follow.iter().map(|after| first + after).collect();
    assert_eq!(revisions, follow, "changes of one resource have their own, so that a watch can go on after each");
    let of = [(&resources[0], 0), (&resources[1], 1), (&resources[1], 2), (&resources[0], 3)];
    for (resource, object) in of.into_iter().take(together) {
        let cached = client.get(resource, &stored[object].key()).await.expect("it is there");
        assert!(Arc::ptr_eq(&cached, &stored[object]), "the cache has the objects of the answer");
    }
    let mut seen = Vec::new();
    while seen.len() < together / 2 {
        match watch.next().await {
            Some(WatchEvent::Added(object) | WatchEvent::Modified(object)) if object.revision() >= first => {
                seen.push((object.name().to_owned(), object.revision()));
            }
            Some(_) => {}
            None => panic!("the watch ended after {seen:?}"),
        }
    }
    assert_eq!(seen, [("new2".to_owned(), first), ("known2".to_owned(), first + 3)][..together / 2]);
}

async fn a_rejected_write_rejects_the_transaction() {
    let (server, client) = server().await;
    let resources = [config_maps(), deployments()];
    let keys = prepare(&client, "").await;
    let stale = Patch::Merge(json!({"metadata": {"resourceVersion": "2", "labels": {"x": "y"}}}));
    let patch = |key, patch, options| Write::Patch { resource: &resources[1], key, patch, options };
    let new = |object| Write::Create { resource: &resources[0], object, with_status: false };
    let (missing, bad) = (key("missing"), json!({"metadata": {"name": "A_B", "namespace": "default"}}));
    for (what, write) in [
        ("it exists", new(map("known"))),
        ("its name is invalid", new(bad)),
        ("its version is old", patch(&keys[0], stale, PatchOptions::default())),
        ("it does not exist", patch(&missing, label(), PatchOptions::default())),
        ("the same object twice", patch(&keys[1], label(), PatchOptions::default())),
    ] {
        let also = [new(map("other")), patch(&keys[1], status(), PatchOptions::status())];
        let stored = client.write_together(also.into_iter().chain([write]).collect()).await;
        assert!(stored.expect("an answer").is_none(), "{what}");
        assert!(client.get_opt(&config_maps(), &key("other")).await.expect("an answer").is_none(), "{what}");
    }
    let running = client.get(&deployments(), &keys[1]).await.expect("it is there");
    assert_eq!(running.to_value().expect("JSON")["status"]["replicas"], Value::Null);
    let unauthorized = Client::in_process(server.service(), Identity { user: "nobody".into(), ..Identity::default() });
    assert!(unauthorized.write_together(writes(&resources, &keys, "")).await.expect("an answer").is_none());
    let writes = writes(&resources, &keys, "").into_iter().take(together()).collect();
    let stored = client.write_together(writes).await.expect("an answer");
    assert_eq!(stored.map(|objects| objects.len()), Some(together()), "nothing is left of what was refused");
}

async fn unchanged_objects_are_part_of_the_transaction() {
    let (_server, client) = server().await;
    let resources = [config_maps(), deployments()];
    let keys = prepare(&client, "").await;
    let mut expected =
        vec![client.patch(&resources[1], &keys[0], &label(), &PatchOptions::default()).await.expect("patched")];
    let same =
        Write::Patch { resource: &resources[1], key: &keys[0], patch: label(), options: PatchOptions::default() };
    let new = Write::Create { resource: &resources[0], object: map("new"), with_status: false };
    let stored = client.write_together(vec![same, new]).await.expect("an answer").expect("stored");
    expected.push(client.get(&config_maps(), &key("new")).await.expect("it is there"));
    assert!(stored.iter().zip(&expected).all(|(stored, expected)| Arc::ptr_eq(stored, expected)));
}

async fn concurrent_transactions_do_not_deadlock() {
    let (_server, client) = server().await;
    let resources = [config_maps(), deployments()];
    let keys = prepare(&client, "").await;
    let known = key("known");
    let one = (&resources[1], &keys[0]);
    let two = if together() == 4 { (&resources[1], &keys[1]) } else { (&resources[0], &known) };
    let patch = |(resource, key), n: usize| {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"n": n.to_string()}}}));
        Write::Patch { resource, key, patch, options: PatchOptions::default() }
    };
    // Half of them name the objects the other way around.
    let writes = (0..20).map(|n| {
        let (one, two) = if n % 2 == 0 { (one, two) } else { (two, one) };
        client.write_together(vec![patch(one, n), patch(two, n)])
    });
    let stored = futures::future::join_all(writes).await;
    assert!(stored.into_iter().all(|stored| stored.expect("an answer").is_some()));
    let [one, two] = [one, two].map(|(resource, key)| client.get(resource, key));
    let (one, two) = (one.await.expect("it is there"), two.await.expect("it is there"));
    assert_eq!(one.annotation("n"), two.annotation("n"), "no transaction is between the two parts of another one");
}
