//! Objects with a damaged stored value: reads of them fail and name them, lists and watches that would contain them
//! fail, and all other requests succeed.

use std::path::Path;
use std::sync::Arc;

use apimachinery::{ApiResource, ObjectKey};
use apiserver::admit::Admission;
use apiserver::auth::authn::Authentication;
use apiserver::{ApiServer, Authorization, ServerConfig};
use client::{Client, DeleteOptions, Error, ListOptions, Patch, PatchOptions, WatchOptions};
use http_body_util::BodyExt;
use serde_json::json;
use storage::embedded::{EmbeddedStore, Options};
use transport::Identity;
use world::World;

async fn start(dir: &Path) -> (EmbeddedStore, ApiServer, Client) {
    start_with(dir, Vec::new()).await
}

async fn start_with(dir: &Path, admission: Vec<Arc<dyn Admission>>) -> (EmbeddedStore, ApiServer, Client) {
    let store = EmbeddedStore::open(dir, Options::default()).await.expect("a store");
    let server = ApiServer::start(ServerConfig {
        store: Arc::new(store.clone()),
        world: World::system(),
        resources: kubernetes_api::resources(),
        admission,
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

/// Flips a bit at each position of the text.
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
    // Other requests succeed.
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

/// A server with all plugins, on a store in which one object is damaged.
async fn damaged(
    dir: &Path,
    object: (&ApiResource, serde_json::Value),
    others: &[(&ApiResource, serde_json::Value)],
) -> Client {
    let plugins = || {
        apiserver::admit::plugins::built_in(Default::default(), &World::system(), &Default::default())
            .expect("the plugins")
    };
    let (store, server, client) = start_with(dir, plugins()).await;
    let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
    for namespace in ["default", "other"] {
        client.create(&namespaces, &json!({"metadata": {"name": namespace}})).await.expect("a namespace");
    }
    for (resource, object) in std::iter::once(&object).chain(others) {
        client.create(resource, object).await.unwrap_or_else(|error| panic!("{object}: {error}"));
    }
    server.shutdown();
    store.close().await.expect("closed");
    damage(dir, "needle");
    start_with(dir, plugins()).await.2
}

#[tokio::test]
async fn no_address_is_allocated_while_a_service_is_unreadable() {
    let dir = tempfile::tempdir().expect("a directory");
    let services = ApiResource::namespaced("", "v1", "Service", "services");
    let service = |name: &str, note: &str, mut spec: serde_json::Value| {
        spec["ports"] = json!([{"port": 80}]);
        json!({"metadata": {"name": name, "namespace": "default", "annotations": {"note": note}}, "spec": spec})
    };
    let lost = service("lost", "needle", json!({}));
    let client = damaged(dir.path(), (&services, lost), &[(&services, service("kept", "", json!({})))]).await;
    for (what, spec) in [("any", json!({})), ("a certain one", json!({"clusterIP": "10.96.1.1"}))] {
        let refused = client.create(&services, &service("new", "", spec)).await.expect_err(what);
        let (code, message) = status(refused);
        assert_eq!(code, 500, "{what}: {message}");
        for part in ["which are free is unknown", "services \"lost\" in namespace \"default\"", "backup"] {
            assert!(message.contains(part), "{what}: {message}");
        }
    }
    // Services that need no address succeed, and so do those that have one.
    client.create(&services, &service("headless", "", json!({"clusterIP": "None"}))).await.expect("a headless service");
    let key = ObjectKey::namespaced("default", "kept");
    let patch = async |spec| {
        client.patch(&services, &key, &Patch::Merge(json!({"spec": spec})), &PatchOptions::default()).await
    };
    patch(json!({"selector": {"app": "a"}})).await.expect("another selector");
    patch(json!({"type": "NodePort"})).await.expect_err("it would take a port");
}

#[tokio::test]
async fn nothing_is_admitted_while_a_rule_is_unreadable() {
    for (resource, spec) in [
        (ApiResource::namespaced("", "v1", "ResourceQuota", "resourcequotas"), json!({"hard": {"configmaps": "1"}})),
        (
            ApiResource::namespaced("", "v1", "LimitRange", "limitranges"),
            json!({"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]}),
        ),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let rule = json!({"metadata": {"name": "lost", "namespace": "default", "annotations": {"note": "needle"}},
            "spec": spec});
        let client = damaged(dir.path(), (&resource, rule), &[]).await;
        let claims = ApiResource::namespaced("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
        let claim = |namespace: &str| {
            json!({"metadata": {"name": "a", "namespace": namespace}, "spec": {"accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "2Gi"}}}})
        };
        let (code, message) = status(client.create(&claims, &claim("default")).await.expect_err("it is refused"));
        assert_eq!(code, 500, "{message}");
        assert!(message.contains("\"lost\" in namespace \"default\" cannot be read"), "{message}");
        client.create(&claims, &claim("other")).await.expect("another namespace");
    }
}
