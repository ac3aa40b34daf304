//! Objects whose stored value is damaged: reads of them fail and name them, lists and watches that would hold them fail, and
//! everything else goes on.

use std::path::Path;
use std::sync::Arc;

use apimachinery::{ApiResource, ObjectKey};
use apiserver::authn::Authentication;
use apiserver::{ApiServer, Authorization, ServerConfig};
use client::{Client, DeleteOptions, Error, ListOptions, Patch, PatchOptions, WatchOptions};
use http_body_util::BodyExt;
use serde_json::json;
use storage::embedded::{EmbeddedStore, Options};
use transport::Identity;
use world::World;

async fn start(dir: &Path) -> (EmbeddedStore, ApiServer, Client) {
    let store = EmbeddedStore::open(dir, Options::default()).await.expect("a store");
    let server = ApiServer::start(ServerConfig {
        store: Arc::new(store.clone()),
        world: World::system(),
        resources: kubernetes_api::resources(),
        admission: Vec::new(),
        authentication: Box::new(|_| Authentication::default()),
        authorization: Authorization::Rbac,
        routes: Vec::new(),
        crds: Vec::new(),
        converters: Default::default(),
        version: Default::default(),
    })
    .await
    .expect("a server");
    let client = Client::in_process(server.service(), Identity::system("test"));
    (store, server, client)
}

/// Flips a bit of each place where the text stands.
fn damage(dir: &Path, text: &str) {
    let path = dir.join("store.sqlite");
    let mut file = std::fs::read(&path).expect("the file");
    let places: Vec<_> = file.windows(text.len()).enumerate().filter(|(_, at)| *at == text.as_bytes()).collect();
    let places: Vec<usize> = places.into_iter().map(|(place, _)| place).collect();
    assert!(!places.is_empty(), "{text} is not in the file");
    places.into_iter().for_each(|place| file[place] ^= 1);
    std::fs::write(path, file).expect("the file");
}

fn status(error: Error) -> (u16, String) {
    match error {
        Error::Status(status) => (status.code, status.message),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_damaged_object_is_unknown_and_not_absent() {
    let dir = tempfile::tempdir().expect("a directory");
    let config_maps = ApiResource::namespaced("", "v1", "ConfigMap", "configmaps");
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    let object = |namespace: &str, name: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace},
            "data": {"k": format!("needle-{name}")}})
    };
    let (store, server, client) = start(dir.path()).await;
    for namespace in ["default", "other"] {
        client.create(&namespaces, &json!({"metadata": {"name": namespace}})).await.expect("a namespace");
    }
    for (namespace, name) in [("default", "a"), ("default", "b"), ("other", "c")] {
        client.create(&config_maps, &object(namespace, name)).await.expect("an object");
    }
    server.shutdown();
    store.close().await.expect("closed");
    damage(dir.path(), "needle-a");

    let (store, server, client) = start(dir.path()).await;
    let key = |namespace: &str, name: &str| ObjectKey::namespaced(namespace, name);
    let a = key("default", "a");
    let patch = Patch::Merge(json!({"data": {"k": "2"}}));
    let list = async |namespace| client.list(&config_maps, namespace, &ListOptions::default()).await;
    let options = WatchOptions::default();
    for (what, error) in [
        ("get", client.get(&config_maps, &a).await.err()),
        ("create", client.create(&config_maps, &object("default", "a")).await.err()),
        ("patch", client.patch(&config_maps, &a, &patch, &PatchOptions::default()).await.err()),
        ("delete", client.delete(&config_maps, &a, &DeleteOptions::default()).await.err()),
        ("list", list(Some("default")).await.err()),
        ("list of all namespaces", list(None).await.err()),
        ("watch", client.watch(&config_maps, Some("default"), &options).await.err()),
        ("everything", client.watch_everything().await.err()),
    ] {
        let (code, message) = status(error.unwrap_or_else(|| panic!("{what} succeeded")));
        assert_eq!(code, 500, "{what}: {message}");
        for part in ["configmaps \"a\" in namespace \"default\" cannot be read", "checksum", "backup"] {
            assert!(message.contains(part) || what == "create", "{what}: {message}");
        }
        assert!(message.contains("/registry/core/configmaps/default/a"), "{what}: {message}");
    }
    // Everything else goes on.
    client.get(&config_maps, &key("default", "b")).await.expect("another object");
    assert_eq!(list(Some("other")).await.expect("another namespace").items.len(), 1);
    client.create(&config_maps, &object("default", "d")).await.expect("a new object");
    client.delete(&config_maps, &key("default", "b"), &DeleteOptions::default()).await.expect("a deletion");

    let response = server.shared().health.answer("/readyz", "verbose").expect("a health path");
    assert_eq!(response.status(), 500);
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    assert!(String::from_utf8_lossy(&body).contains("[-]storage-integrity failed"), "{body:?}");
    assert_eq!(store.damages().len(), 1);
    server.shutdown();
}
