//! The API server on etcd: lists, pages, watches, transactions, several servers, restarts.

use std::sync::Arc;

use apimachinery::{ApiResource, ObjectKey};
use apiserver::admit::services::ServiceAddresses;
use apiserver::auth::authn::Authentication;
use apiserver::{ApiServer, Authorization, ServerConfig};
use client::{Client, ListOptions, Patch, PatchOptions, WatchOptions, Write};
use etcd::{EtcdStore, Layout};
use futures::StreamExt;
use serde_json::{Value, json};
use storage::{Op, Store, Txn};
use transport::{Identity, WatchEvent};
use world::World;

use super::Etcd;

/// A server.
pub(crate) struct Server {
    server: ApiServer,
    pub client: Client,
}

/// A server on a separate store.
struct OnEtcd {
    server: Server,
    store: EtcdStore,
}

impl std::ops::Deref for OnEtcd {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl OnEtcd {
    async fn start(etcd: &Etcd) -> Self {
        let store = etcd.store().await;
        Self { server: Server::on(Arc::new(store.clone())).await, store }
    }

    fn stop(self) {
        self.server.crash();
        self.store.close();
    }
}

impl Server {
    pub async fn on(store: Arc<dyn Store>) -> Self {
        Self::with(store, World::system()).await
    }

    /// With a clock of its own.
    pub async fn with(store: Arc<dyn Store>, world: World) -> Self {
        let server = ApiServer::start(ServerConfig {
            store,
            world,
            resources: kubernetes_api::resources(),
            admission: vec![Arc::new(ServiceAddresses::default())],
            authentication: Box::new(|_| Authentication::default()),
            authorization: Authorization::AlwaysAllow,
            routes: Vec::new(),
            crds: Vec::new(),
            converters: Default::default(),
            version: Default::default(),
        });
        let server = server.await.unwrap();
        let client = Client::in_process(server.service(), Identity::system("test"));
        let namespace = json!({"metadata": {"name": "default"}});
        // Another server may have created it.
        let _ = client.create(&ApiResource::cluster("", "v1", "Namespace", "namespaces"), &namespace).await;
        Self { server, client }
    }

    /// Ends the tasks of the server.
    pub fn crash(&self) {
        self.server.shutdown();
    }

    pub async fn create(&self, name: &str) -> u64 {
        self.client.create(&config_maps(), &map(name)).await.unwrap().revision()
    }

    pub async fn label(&self, name: &str, value: &str) -> u64 {
        let patch = Patch::Merge(json!({"metadata": {"labels": {"a": value}}}));
        self.client.patch(&config_maps(), &key(name), &patch, &PatchOptions::default()).await.unwrap().revision()
    }

    pub async fn names(&self) -> Vec<String> {
        let list = self.client.list(&config_maps(), None, &ListOptions::default()).await.unwrap();
        list.items.iter().map(|object| object.name().to_owned()).collect()
    }

    /// Names and revisions of the changes after a revision, until one has the revision `last`.
    pub async fn watched(&self, after: u64, last: u64) -> Vec<(String, u64)> {
        let options = WatchOptions { resource_version: Some(after.to_string()), ..WatchOptions::default() };
        let mut watch = self.client.watch(&config_maps(), None, &options).await.unwrap();
        let mut seen = Vec::new();
        while seen.last().is_none_or(|(_, at)| *at < last) {
            match watch.next().await {
                Some(WatchEvent::Added(it) | WatchEvent::Modified(it) | WatchEvent::Deleted(it)) => {
                    seen.push((it.name().to_owned(), it.revision()));
                }
                Some(WatchEvent::Bookmark { .. }) => {}
                other => panic!("{other:?} after {seen:?}"),
            }
        }
        seen
    }
}

pub(crate) fn config_maps() -> ApiResource {
    ApiResource::namespaced("", "v1", "ConfigMap", "configmaps")
}

pub(crate) fn secrets() -> ApiResource {
    ApiResource::namespaced("", "v1", "Secret", "secrets")
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

pub(crate) fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"k": "1"}})
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn two_servers_read_each_others_writes() {
    let etcd = Etcd::start(&[]);
    let (one, other) = (OnEtcd::start(&etcd).await, OnEtcd::start(&etcd).await);
    for n in 0..50 {
        let name = format!("m{n:02}");
        let (writer, reader) = if n % 2 == 0 { (&one, &other) } else { (&other, &one) };
        let at = writer.create(&name).await;
        let read = reader.client.get(&config_maps(), &key(&name)).await.unwrap();
        assert_eq!(read.revision(), at, "{name}");
        assert_eq!(reader.names().await.len(), n + 1);
        // The other server's guard rejects a write that is based on an older state.
        let changed = reader.label(&name, "x").await;
        let mut stale = map(&name);
        stale["metadata"]["resourceVersion"] = at.to_string().into();
        let refused = writer.client.update(&config_maps(), &stale).await;
        assert!(refused.is_err_and(|error| error.is_conflict()), "{name} is at {changed}");
    }
    // Other programs' writes to the same etcd raise its revision, and no read waits for a change that never arrives.
    let other_store = etcd.process.options(Layout::new("/others", [])).unwrap();
    let other_store = EtcdStore::open(other_store).await.unwrap();
    let op = Op::Put { key: "/a".into(), value: "1".into(), lease: None };
    other_store.txn(Txn { guards: vec![], ops: vec![op] }).await.unwrap();
    assert_eq!(one.names().await.len(), 50);
    assert_eq!(other.names().await.len(), 50);
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn pages_and_watches_survive_a_restart_of_the_server_until_they_are_compacted() {
    let etcd = Etcd::start(&[]);
    let server = OnEtcd::start(&etcd).await;
    let mut expected = Vec::new();
    for n in 0..120 {
        let name = format!("m{n:03}");
        expected.push((name.clone(), server.create(&name).await));
    }
    let page = |token: Option<String>, limit| ListOptions { limit, continue_token: token, ..Default::default() };
    let first = server.client.list(&config_maps(), None, &page(None, 50)).await.unwrap();
    let begin = expected[0].1;
    for n in (0..120).step_by(7) {
        let name = format!("m{n:03}");
        expected.push((name.clone(), server.label(&name, "later").await));
    }
    server.client.delete(&config_maps(), &key("m003"), &Default::default()).await.unwrap();
    server.stop();

    let server = OnEtcd::start(&etcd).await;
    let rest = server.client.list(&config_maps(), None, &page(Some(first.continue_token.clone()), 500)).await.unwrap();
    assert_eq!((first.items.len(), rest.items.len()), (50, 70));
    assert!(rest.items.iter().all(|it| it.revision() <= first.resource_version), "the pages have one revision");
    let last = server.label("m000", "last").await;
    let seen = server.watched(begin, last).await;
    let changes = &seen[..expected.len() - 1];
    assert_eq!(changes, &expected[1..], "in order, none missing, none twice");
    assert_eq!(seen[expected.len() - 1].0, "m003");

    server.store.compact(last).await.unwrap();
    server.stop();
    let server = OnEtcd::start(&etcd).await;
    let options = WatchOptions { resource_version: Some(begin.to_string()), ..WatchOptions::default() };
    let gone = match server.client.watch(&config_maps(), None, &options).await {
        Err(error) => error.is_expired(),
        Ok(mut watch) => matches!(watch.next().await, Some(WatchEvent::Error(status)) if status.code == 410),
    };
    assert!(gone, "history before the compaction is gone");
    assert_eq!(server.names().await.len(), 119);
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn writes_together_share_a_revision_or_are_sent_one_by_one() {
    let etcd = Etcd::start(&[]);
    let server = OnEtcd::start(&etcd).await;
    let (maps, others) = (config_maps(), secrets());
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}});
    let create = |resource, object| Write::Create { resource, object, with_status: false };
    let stored =
        server.client.write_together(vec![create(&maps, map("a")), create(&others, secret.clone())]).await.unwrap();
    let stored = stored.expect("one transaction of etcd");
    assert_eq!(stored[0].revision(), stored[1].revision());
    for (resource, object) in [(&maps, &stored[0]), (&others, &stored[1])] {
        assert_eq!(server.client.get(resource, &object.key()).await.unwrap().json(), object.json());
    }
    // Of two changes of one resource at one revision, a watch that resumes after the first would miss the second.
    let refused = server.client.write_together(vec![create(&maps, map("b")), create(&maps, map("c"))]).await.unwrap();
    assert!(refused.is_none(), "the caller sends them one by one");
    assert_eq!(server.names().await, ["a"]);
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn a_server_recovers_from_an_etcd_outage() {
    let mut etcd = Etcd::start(&[]);
    let server = OnEtcd::start(&etcd).await;
    let begin = server.create("a").await;
    let mut answers = server.store.answers();
    etcd.process.kill();
    answers.wait_for(|answers| !answers).await.unwrap();
    etcd.restart();
    answers.wait_for(|answers| *answers).await.unwrap();
    let mut expected = vec![("b".to_owned(), server.create("b").await)];
    expected.push(("a".to_owned(), server.label("a", "x").await));
    assert_eq!(server.watched(begin, expected[1].1).await, expected);
    assert_eq!(server.names().await, ["a", "b"]);
}
