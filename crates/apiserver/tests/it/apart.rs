//! Events in a bounded store in memory, beside the store of all other objects.

use std::sync::Arc;

use apimachinery::{ApiResource, ObjectKey, StatusReason};
use apiserver::auth::authn::Authentication;
use apiserver::cache::Apart;
use apiserver::{ApiServer, Authorization, ServerConfig};
use client::{Client, ListOptions, Patch, PatchOptions, WatchOptions};
use futures::StreamExt;
use serde_json::{Value, json};
use storage::memory::{Bound, MemoryStore, Options};
use storage::{KeyRange, RangeRequest, Store};
use transport::{Identity, WatchEvent};
use world::World;

use crate::objects::{config_maps, namespaces};

const BOUND: usize = 10;
const FIRST: u64 = 1_000_000;

fn events() -> ApiResource {
    ApiResource::namespaced("", "v1", "Event", "events")
}

/// A server whose Events are in a store that begins at `first`.
async fn server(main: Arc<dyn Store>, first: u64) -> (ApiServer, Client) {
    let bound = Some(Bound { keys: BOUND, bytes: usize::MAX });
    let store = MemoryStore::with_options(Options { bound, first_revision: first, ..Options::default() });
    let apart = Apart { resources: vec![(String::new(), "events".to_owned())], store: Arc::new(store) };
    let config = ServerConfig {
        store: main,
        world: World::system(),
        resources: kubernetes_api::resources(),
        admission: Vec::new(),
        authentication: Box::new(|_| Authentication::default()),
        authorization: Authorization::Rbac,
        routes: Vec::new(),
        crds: Vec::new(),
        converters: Default::default(),
        version: Default::default(),
    };
    let server = ApiServer::start_with(config, vec![apart]).await.expect("empty stores");
    let client = Client::in_process(server.service(), Identity::system("test"));
    let namespace = json!({"metadata": {"name": "default"}});
    let created = client.create(&namespaces(), &namespace).await;
    assert!(created.is_ok() || created.is_err_and(|error| error.is_already_exists()));
    (server, client)
}

fn event(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": name}, "reason": "R", "message": "m"})
}

async fn create(client: &Client, names: impl IntoIterator<Item = usize>) {
    let documents = names.into_iter().map(|n| event(&format!("e{n:02}")).into()).collect();
    for created in client.create_all(&events(), Some("default"), documents).await.expect("outcomes") {
        created.expect("an event");
    }
}

async fn names(client: &Client, options: &ListOptions) -> String {
    let found = client.list(&events(), Some("default"), options).await.expect("a list").items;
    found.iter().map(|object| object.name().to_owned()).collect::<Vec<_>>().join(" ")
}

fn after(revision: u64) -> WatchOptions {
    WatchOptions { resource_version: Some(revision.to_string()), ..WatchOptions::default() }
}

#[tokio::test]
async fn the_oldest_events_are_deleted_as_if_expired() {
    let main: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (_server, client) = server(Arc::clone(&main), FIRST).await;
    let begun = client.list(&events(), Some("default"), &ListOptions::default()).await.expect("a list");
    assert_eq!(begun.resource_version, FIRST);
    let mut watch = client.watch(&events(), Some("default"), &after(FIRST)).await.expect("a watch");
    create(&client, 0..BOUND).await;
    // A repeat makes an event young again.
    let count = Patch::Merge(json!({"count": 2}));
    let repeated = ObjectKey::namespaced("default", "e00");
    client.patch(&events(), &repeated, &count, &PatchOptions::default()).await.expect("a patch");
    create(&client, BOUND..BOUND + 2).await;
    assert_eq!(names(&client, &ListOptions::default()).await, "e00 e03 e04 e05 e06 e07 e08 e09 e10 e11");
    let selected = ListOptions { field_selector: Some("involvedObject.name=e11".into()), ..ListOptions::default() };
    assert_eq!(names(&client, &selected).await, "e11");
    let mut last = FIRST;
    let mut deleted = Vec::new();
    while deleted.len() < 2 {
        let event = watch.next().await.expect("a change");
        let (WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object)) = &event else {
            panic!("{event:?}")
        };
        assert!(object.revision() > last, "revisions ascend");
        last = object.revision();
        if matches!(event, WatchEvent::Deleted(_)) {
            deleted.push(object.name().to_owned());
        }
    }
    assert_eq!(deleted, ["e01", "e02"]);
    // Nothing of it is in the other store, and its revisions are its own.
    let all = RangeRequest { range: KeyRange::prefix("/registry/core/events/"), revision: None, limit: 0 };
    assert_eq!(main.range(all).await.expect("a range").count, 0);
    let config_map = json!({"metadata": {"name": "a", "namespace": "default"}});
    let other = client.create(&config_maps(), &config_map).await.expect("a ConfigMap");
    assert!(other.revision() < FIRST);
}

#[tokio::test]
async fn lists_continue_in_pages_and_both_groups_are_equal() {
    let (_server, client) = server(Arc::new(MemoryStore::new()), FIRST).await;
    create(&client, 0..BOUND).await;
    let mut options = ListOptions { limit: 4, ..ListOptions::default() };
    let (mut pages, mut version) = (Vec::new(), None);
    loop {
        let page = client.list(&events(), Some("default"), &options).await.expect("a page");
        assert_eq!(*version.get_or_insert(page.resource_version), page.resource_version, "pages are of one state");
        pages.push(page.items.len());
        // Pages are of the state at their beginning.
        create(&client, [BOUND + pages.len()]).await;
        if page.continue_token.is_empty() {
            break;
        }
        options.continue_token = Some(page.continue_token);
    }
    assert_eq!(pages, [4, 4, 2]);
    let newer = ApiResource::namespaced("events.k8s.io", "v1", "Event", "events");
    let found = client.list(&newer, Some("default"), &ListOptions::default()).await.expect("a list");
    assert_eq!(found.items.len(), BOUND);
}

#[tokio::test]
async fn a_watch_from_another_store_has_expired() {
    let main: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (first, client) = server(Arc::clone(&main), FIRST).await;
    create(&client, 0..3).await;
    let known = client.list(&events(), Some("default"), &ListOptions::default()).await.expect("a list");
    first.shutdown();
    // After a restart, and after one on a clock that is behind.
    for next in [2 * FIRST, FIRST / 2] {
        let (server, client) = server(Arc::clone(&main), next).await;
        create(&client, 3..5).await;
        assert_eq!(names(&client, &ListOptions::default()).await, "e03 e04");
        let mut watch =
            client.watch(&events(), Some("default"), &after(known.resource_version)).await.expect("a watch");
        match watch.next().await {
            Some(WatchEvent::Error(status)) => assert!(status.is(StatusReason::Expired), "{status:?}"),
            other => panic!("{other:?}"),
        }
        server.shutdown();
    }
}
