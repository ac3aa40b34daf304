//! An encrypted store: ciphertext below, plaintext above, rotation, and values that cannot be read.

use std::sync::Arc;

use apiserver::auth::authn::Authentication;
use apiserver::{ApiServer, Authorization, ServerConfig};
use client::Client;
use encryption::Configuration;
use futures::StreamExt as _;
use http::Method;
use identity::{EncryptedStore, Encryption};
use serde_json::json;
use storage::memory::MemoryStore;
use storage::{Error, Guard, KeyRange, Op, RangeRequest, Store, Txn, TxnOutcome};
use transport::Identity;
use world::World;

const OLD: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const NEW: &str = "ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=";

pub fn configuration(providers: &str) -> Configuration {
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n\
         resources: [{{resources: [secrets, widgets.example.com], providers: [{providers}]}}]"
    );
    Configuration::parse(text.as_bytes()).expect("a configuration")
}

fn gcm(keys: &[(&str, &str)]) -> String {
    let keys: Vec<String> = keys.iter().map(|(name, secret)| format!("{{name: {name}, secret: {secret}}}")).collect();
    format!("{{aesgcm: {{keys: [{}]}}}}", keys.join(", "))
}

async fn store(below: &Arc<MemoryStore>, providers: &str) -> EncryptedStore {
    let encryption = Encryption::start(configuration(providers)).await.expect("providers");
    EncryptedStore::new(Arc::clone(below) as _, Arc::new(encryption))
}

pub fn put(key: &str, value: &str) -> Txn {
    let key = bytes::Bytes::from(key.to_owned());
    Txn { guards: Vec::new(), ops: vec![Op::Put { key, value: value.to_owned().into(), lease: None }] }
}

pub async fn raw(below: &MemoryStore, key: &str) -> String {
    let found = below.get(key.to_owned().into(), None).await.expect("read").expect("a value");
    String::from_utf8_lossy(&found.value).into_owned()
}

const A: &str = "/registry/core/secrets/ns/a";
const B: &str = "/registry/core/configmaps/ns/b";
const C: &str = "/registry/example.com/widgets/ns/c";

#[tokio::test]
async fn the_engine_sees_ciphertext_and_callers_plaintext() {
    let below = Arc::new(MemoryStore::new());
    let store = store(&below, &gcm(&[("k1", OLD)])).await;
    let mut watch = store.watch(KeyRange::prefix("/registry/"), 1).await.expect("a watch");
    for key in [A, B, C] {
        store.txn(put(key, "{\"plain\":1}")).await.expect("stored");
    }
    store.txn(put(A, "{\"plain\":2}")).await.expect("stored");
    store.txn(Txn { guards: Vec::new(), ops: vec![Op::Delete { key: A.into() }] }).await.expect("deleted");
    store.txn_all(vec![put(A, "{\"plain\":3}"), put(C, "{\"plain\":4}")]).await.expect("stored");
    assert!(raw(&below, A).await.starts_with("k8s:enc:aesgcm:v1:k1:") && raw(&below, C).await.starts_with("k8s:enc:"));
    assert!(!raw(&below, A).await.contains("plain"));
    assert_eq!(raw(&below, B).await, "{\"plain\":1}", "other resources are stored as they are");
    assert_eq!(store.get(A.into(), None).await.expect("read").expect("a value").value, "{\"plain\":3}");
    let request = RangeRequest { range: KeyRange::prefix("/registry/"), revision: None, limit: 0 };
    let all = store.range(request.clone()).await.expect("read");
    let values: Vec<_> = all.items.iter().map(|item| String::from_utf8_lossy(&item.value).into_owned()).collect();
    assert_eq!(values, ["{\"plain\":1}", "{\"plain\":3}", "{\"plain\":4}"]);
    let refused = Txn { guards: vec![Guard::Absent(A.into())], ..put(A, "{}") };
    match store.txn(refused).await.expect("decided") {
        TxnOutcome::Failed { current, .. } => {
            assert_eq!(current[0].as_ref().expect("a value").value, "{\"plain\":3}");
        }
        other => panic!("{other:?}"),
    }
    // Watchers and history: the state before a change, too.
    let mut seen = Vec::new();
    while seen.len() < 7 {
        let batch = watch.next().await.expect("a batch").expect("changes");
        seen.extend(batch.changes.into_iter().map(|(_, change)| match change {
            storage::Change::Put { current, previous } => {
                let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
                (text(&current.value), previous.map(|previous| text(&previous.value)))
            }
            storage::Change::Delete { previous } => {
                (String::new(), Some(String::from_utf8_lossy(&previous.value).into_owned()))
            }
        }));
    }
    assert!(seen.iter().all(|(now, before)| !now.contains("k8s:enc") && !before.as_deref().unwrap_or_default().contains("k8s:enc")));
    assert_eq!(seen[3], ("{\"plain\":2}".to_owned(), Some("{\"plain\":1}".to_owned())));
    assert_eq!(seen[4].1.as_deref(), Some("{\"plain\":2}"));
}

#[tokio::test]
async fn values_are_encrypted_for_the_key_of_the_engine() {
    // kube-apiserver has Secrets at /registry/secrets, and encrypts their values for that key.
    let places: identity::encrypted::Places =
        Arc::new(|key| String::from_utf8_lossy(key).replace("/registry/core/", "/registry/").into());
    let encryption = Arc::new(Encryption::start(configuration(&gcm(&[("k1", OLD)]))).await.expect("providers"));
    let below = Arc::new(MemoryStore::new());
    let sealed = encryption.seal(A.as_bytes(), b"/registry/secrets/ns/a", "{\"plain\":1}".into()).expect("sealed");
    below
        .txn(Txn { guards: Vec::new(), ops: vec![Op::Put { key: A.into(), value: sealed, lease: None }] })
        .await
        .expect("stored");
    let store = EncryptedStore::at(Arc::clone(&below) as _, Arc::clone(&encryption), places);
    assert_eq!(store.get(A.into(), None).await.expect("read").expect("a value").value, "{\"plain\":1}");
    store.txn(put(A, "{\"plain\":2}")).await.expect("stored");
    assert_eq!(store.get(A.into(), None).await.expect("read").expect("a value").value, "{\"plain\":2}");
    let elsewhere = EncryptedStore::new(below, encryption).get(A.into(), None).await;
    assert!(matches!(elsewhere, Err(Error::Damaged(_))), "{elsewhere:?}");
}

#[tokio::test]
async fn values_that_cannot_be_decrypted_are_unknown_and_not_absent() {
    let below = Arc::new(MemoryStore::new());
    store(&below, &gcm(&[("k1", OLD)])).await.txn(put(A, "{}")).await.expect("stored");
    below.txn(put(C, "{}")).await.expect("stored");
    let lost = store(&below, &gcm(&[("k2", NEW)])).await;
    let error = lost.get(A.into(), None).await.expect_err("no key").to_string();
    assert_eq!(
        error,
        "the stored value of /registry/core/secrets/ns/a cannot be read (it cannot be decrypted: no provider of the configuration \
         matches its prefix \"k8s:enc:aesgcm:v1:k1:\")"
    );
    let request = RangeRequest { range: KeyRange::prefix("/registry/"), revision: None, limit: 0 };
    assert!(matches!(lost.range(request.clone()).await, Err(Error::Damaged(_))), "a list without it would be wrong");
    let (readable, damaged) = lost.salvage(request).await.expect("read");
    assert_eq!((readable.items.len(), damaged.len()), (0, 2));
    // A server on that store serves all other objects.
    let server = server(Arc::new(lost)).await;
    let client = Client::in_process(server.service(), Identity::system("test"));
    let error = client.request(Method::GET, "/api/v1/namespaces/ns/secrets/a", None).await.expect_err("unknown");
    let error = error.to_string();
    assert!(error.contains("cannot be read"), "{error}");
    let remedy =
        "add key \"k1\" of provider aesgcm, which wrote the value, to the file of --encryption-provider-config";
    assert!(error.ends_with(remedy) && !error.contains("backup"), "{error}");
    let list = client.request(Method::GET, "/api/v1/secrets", None).await.expect_err("unknown");
    assert!(list.to_string().contains("cannot be read"), "{list}");
    client.document("/api/v1/configmaps", "application/json").await.expect("others are served");
    server.shutdown();
}

async fn server(store: Arc<dyn Store>) -> ApiServer {
    let config = ServerConfig {
        store,
        world: World::simulated("2026-11-23T00:00:00Z".parse().expect("a time"), 7),
        resources: kubernetes_api::resources(),
        admission: Vec::new(),
        authentication: Box::new(|_| Authentication::default()),
        authorization: Authorization::AlwaysAllow,
        routes: Vec::new(),
        crds: Vec::new(),
        converters: Default::default(),
        version: Default::default(),
    };
    ApiServer::start(config).await.expect("started")
}

/// `kubectl get secrets -A -o json | kubectl replace -f -` after a change of the first provider.
#[tokio::test]
async fn replacing_objects_rotates_their_encryption() {
    let below = Arc::new(MemoryStore::new());
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "default"},
                        "data": {"password": "aHVudGVyMg=="}});
    let path = "/api/v1/namespaces/default/secrets";
    let stored = "/registry/core/secrets/default/a";
    for (providers, prefix) in [
        ("{identity: {}}".to_owned(), "{\"apiVersion\""),
        (format!("{}, {{identity: {{}}}}", gcm(&[("k1", OLD)])), "k8s:enc:aesgcm:v1:k1:"),
        (gcm(&[("k2", NEW), ("k1", OLD)]), "k8s:enc:aesgcm:v1:k2:"),
        (
            format!("{{secretbox: {{keys: [{{name: s, secret: {OLD}}}]}}}}, {}", gcm(&[("k2", NEW)])),
            "k8s:enc:secretbox:v1:s:",
        ),
        (format!("{{identity: {{}}}}, {{secretbox: {{keys: [{{name: s, secret: {OLD}}}]}}}}"), "{\"apiVersion\""),
    ] {
        let server = server(Arc::new(store(&below, &providers).await)).await;
        let client = Client::in_process(server.service(), Identity::system("test"));
        if below.get(stored.into(), None).await.expect("read").is_none() {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
            client.request(Method::POST, "/api/v1/namespaces", Some(namespace)).await.expect("created");
            client.request(Method::POST, path, Some(secret.clone())).await.expect("created");
        }
        let found = client.request(Method::GET, &format!("{path}/a"), None).await.expect("readable");
        let found: serde_json::Value = serde_json::from_slice(&found).expect("JSON");
        assert_eq!(found["data"], secret["data"]);
        let rewritten = client.request(Method::PUT, &format!("{path}/a"), Some(found.clone())).await.expect("replaced");
        assert!(raw(&below, stored).await.starts_with(prefix), "{prefix}");
        // The second time, nothing changes.
        let rewritten: serde_json::Value = serde_json::from_slice(&rewritten).expect("JSON");
        let before = below.revision().await.expect("a revision");
        client.request(Method::PUT, &format!("{path}/a"), Some(rewritten)).await.expect("replaced");
        assert_eq!(below.revision().await.expect("a revision"), before, "{prefix}");
        server.shutdown();
    }
}
