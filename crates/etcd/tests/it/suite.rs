//! The API on every engine: the same calls have the same outcomes.

use apimachinery::ApiResource;
use client::{DeleteOptions, ListOptions, Patch, PatchOptions, WatchOptions};
use futures::StreamExt;
use serde_json::json;
use transport::WatchEvent;

use super::Engine;
use super::apiserver::{Server, config_maps, key, map};

macro_rules! on_every_engine {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $name() {
                    super::$name(&super::Engine::Memory(storage::memory::MemoryStore::new().into())).await;
                }
            )*
        }
        mod embedded {
            use storage::embedded::{EmbeddedStore, Options};
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $name() {
                    let directory = tempfile::tempdir().unwrap();
                    let store = EmbeddedStore::open(directory.path(), Options::default()).await.unwrap();
                    super::$name(&super::Engine::Embedded(store)).await;
                }
            )*
        }
        mod on_etcd {
            $(
                #[tokio::test(flavor = "multi_thread")]
                #[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
                async fn $name() {
                    super::$name(&super::Engine::Etcd(crate::Etcd::start(&[]))).await;
                }
            )*
        }
    };
}

on_every_engine!(
    revisions_order_the_writes,
    lists_are_at_the_requested_revision,
    pages_have_one_revision_beside_writes,
    watches_resume_after_a_restart,
    a_finalizer_delays_a_deletion,
    definitions_come_and_go,
    addresses_are_given_once,
);

async fn revisions_order_the_writes(engine: &Engine) {
    let server = Server::on(engine.store().await).await;
    let first = server.create("a").await;
    let second = server.create("b").await;
    let third = server.label("a", "x").await;
    assert!(first < second && second < third);
    assert!(server.client.create(&config_maps(), &map("a")).await.is_err_and(|error| error.is_already_exists()));
    let mut stale = map("a");
    stale["metadata"]["resourceVersion"] = first.to_string().into();
    assert!(server.client.update(&config_maps(), &stale).await.is_err_and(|error| error.is_conflict()));
    let found = server.client.get(&config_maps(), &key("a")).await.unwrap();
    assert_eq!((found.revision(), server.names().await), (third, vec!["a".to_owned(), "b".to_owned()]));
    server.client.delete(&config_maps(), &key("a"), &DeleteOptions::default()).await.unwrap();
    assert!(server.client.get(&config_maps(), &key("a")).await.is_err_and(|error| error.is_not_found()));
}

async fn lists_are_at_the_requested_revision(engine: &Engine) {
    let server = Server::on(engine.store().await).await;
    let first = server.create("a").await;
    let last = server.create("b").await;
    let at = |revision: u64, limit| ListOptions {
        resource_version: Some(revision.to_string()),
        limit,
        ..ListOptions::default()
    };
    // With a limit the revision is exact, without one it is the oldest acceptable.
    for (options, expected) in [(at(first, 0), 2), (at(last, 0), 2), (at(first, 10), 1), (at(last, 10), 2)] {
        let list = server.client.list(&config_maps(), None, &options).await.unwrap();
        assert_eq!(list.items.len(), expected, "{options:?}");
    }
    let future = server.client.list(&config_maps(), None, &at(last + 1_000, 0)).await;
    let status = future.err().and_then(|error| error.status().cloned()).unwrap();
    assert!(status.message.contains("Too large resource version"), "{status:?}");
}

async fn pages_have_one_revision_beside_writes(engine: &Engine) {
    let server = Server::on(engine.store().await).await;
    for n in 0..30 {
        server.create(&format!("m{n:02}")).await;
    }
    let (mut token, mut names, mut revisions) = (None, Vec::new(), Vec::new());
    loop {
        let options = ListOptions { limit: 7, continue_token: token, ..ListOptions::default() };
        let page = server.client.list(&config_maps(), None, &options).await.unwrap();
        names.extend(page.items.iter().map(|object| object.name().to_owned()));
        revisions.push(page.resource_version);
        server.create(&format!("m{:02}x", names.len())).await;
        if page.continue_token.is_empty() {
            break;
        }
        token = Some(page.continue_token);
    }
    assert_eq!(names, (0..30).map(|n| format!("m{n:02}")).collect::<Vec<_>>());
    revisions.dedup();
    assert_eq!(revisions.len(), 1, "{revisions:?}");
}

async fn watches_resume_after_a_restart(engine: &Engine) {
    let server = Server::on(engine.store().await).await;
    let begin = server.create("a").await;
    let mut expected = vec![("b".to_owned(), server.create("b").await)];
    expected.push(("a".to_owned(), server.label("a", "x").await));
    server.crash();
    let server = Server::on(engine.store().await).await;
    expected.push(("c".to_owned(), server.create("c").await));
    assert_eq!(server.watched(begin, expected[2].1).await, expected);
    let initial = WatchOptions { resource_version: Some("0".to_owned()), ..WatchOptions::default() };
    let watch = server.client.watch(&config_maps(), None, &initial).await.unwrap();
    let first: Vec<WatchEvent> = watch.take(3).collect().await;
    let added = first.iter().filter(|event| matches!(event, WatchEvent::Added(_))).count();
    assert_eq!(added, 3, "{first:?}");
}

async fn a_finalizer_delays_a_deletion(engine: &Engine) {
    let server = Server::on(engine.store().await).await;
    let mut object = map("a");
    object["metadata"]["finalizers"] = json!(["example.org/hold"]);
    server.client.create(&config_maps(), &object).await.unwrap();
    server.client.delete(&config_maps(), &key("a"), &DeleteOptions::default()).await.unwrap();
    let deleting = server.client.get(&config_maps(), &key("a")).await.unwrap();
    assert!(deleting.is_deleting());
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    server.client.patch(&config_maps(), &key("a"), &release, &PatchOptions::default()).await.unwrap();
    assert!(server.client.get(&config_maps(), &key("a")).await.is_err_and(|error| error.is_not_found()));
}

async fn definitions_come_and_go(engine: &Engine) {
    let server = Server::on(engine.store().await).await;
    super::several::define(&server).await;
    let things = super::several::things();
    let thing =
        json!({"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "default"}});
    super::several::eventually(async || server.client.create(&things, &thing).await.is_ok()).await;
    let definitions =
        ApiResource::cluster("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions");
    let name = apimachinery::ObjectKey::cluster("things.example.org");
    server.client.delete(&definitions, &name, &DeleteOptions::default()).await.unwrap();
    super::several::eventually(async || {
        server.client.get(&definitions, &name).await.is_err_and(|error| error.is_not_found())
    })
    .await;
    assert!(server.client.get(&things, &key("t")).await.is_err_and(|error| error.is_not_found()));
}

async fn addresses_are_given_once(engine: &Engine) {
    let server = Server::on(engine.store().await).await;
    let services = super::several::services();
    let first = server.client.create(&services, &super::several::service("a", json!({}))).await.unwrap();
    let address = first.to_value().unwrap()["spec"]["clusterIP"].clone();
    let taken = super::several::service("b", json!({"clusterIP": address}));
    let refused = server.client.create(&services, &taken).await.err().unwrap().to_string();
    assert!(refused.contains("provided IP is already allocated"), "{refused}");
    server.client.delete(&services, &key("a"), &DeleteOptions::default()).await.unwrap();
    let again = server.client.create(&services, &taken).await;
    assert!(again.is_ok(), "the address of a deleted service is free at once: {again:?}");
}
