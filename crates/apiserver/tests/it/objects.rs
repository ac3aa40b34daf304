//! The verbs on objects, through the real client in this process.

use std::sync::Arc;

use crate::engine::on_every_engine;
use apimachinery::resource::Resource;
use apimachinery::{ApiResource, ObjectKey, StatusReason};
use apiserver::auth::authn::Authentication;
use apiserver::{Admission, ApiServer, Authorization, ServerConfig};
use client::{Client, DeleteOptions, ListOptions, Patch, PatchOptions};
use futures::StreamExt;
use serde_json::{Value, json};
use storage::Store;
use transport::{Identity, WatchEvent};
use world::World;

on_every_engine! {
    alone: [
        created_objects_are_read_listed_and_watched,
        stale_updates_conflict_and_finalizers_block_deletion,
        generation_follows_the_spec_and_the_deletion_mark,
        the_oldest_form_of_orphaning_returns_the_remaining_object,
        a_missing_namespace_and_a_missing_object_are_named,
        no_request_for_an_object_is_one_for_its_collection,
        pages_continue_where_they_stopped,
        values_of_a_wrong_type_are_refused_and_nothing_is_written,
        nulls_in_lists_and_maps_are_stored_as_zeros,
        concurrent_creates_equal_sequential_ones,
        a_large_object_is_stored_or_its_limit_is_named,
    ],
    threads: [
        a_write_sees_the_previous_write,
    ],
}

pub(crate) fn config_maps() -> ApiResource {
    ApiResource::namespaced("", "v1", "ConfigMap", "configmaps")
}

pub(crate) fn namespaces() -> ApiResource {
    ApiResource::cluster("", "v1", "Namespace", "namespaces")
}

fn deployments() -> ApiResource {
    ApiResource::namespaced("apps", "v1", "Deployment", "deployments")
}

pub(crate) async fn server() -> (ApiServer, Client) {
    server_with(Vec::new()).await
}

pub(crate) async fn server_on(store: Arc<dyn Store>) -> (ApiServer, Client) {
    server_over(store, Vec::new()).await
}

/// A server without any object, in a world of the caller's.
pub(crate) async fn server_in(store: Arc<dyn Store>, world: World) -> ApiServer {
    start(store, Vec::new(), world).await
}

async fn start(store: Arc<dyn Store>, admission: Vec<Arc<dyn Admission>>, world: World) -> ApiServer {
    let resources: Vec<Resource> = kubernetes_api::resources();
    ApiServer::start(ServerConfig {
        store,
        world,
        resources,
        admission,
        authentication: Box::new(|_| Authentication::default()),
        authorization: Authorization::Rbac,
        routes: vec![Arc::new(apiserver::routes::Reviews)],
        crds: Vec::new(),
        converters: Default::default(),
        version: Default::default(),
    })
    .await
    .expect("an empty store")
}

pub(crate) async fn server_with(admission: Vec<Arc<dyn Admission>>) -> (ApiServer, Client) {
    server_over(crate::engine::store().await, admission).await
}

async fn server_over(store: Arc<dyn Store>, admission: Vec<Arc<dyn Admission>>) -> (ApiServer, Client) {
    let server = start(store, admission, World::system()).await;
    let client = Client::in_process(server.service(), Identity::system("test"));
    let namespace = json!({"metadata": {"name": "default"}});
    client.create(&namespaces(), &namespace).await.expect("a namespace");
    (server, client)
}

fn config_map(name: &str, data: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"k": data}})
}

async fn created_objects_are_read_listed_and_watched() {
    let (_server, client) = server().await;
    let created = client.create(&config_maps(), &config_map("a", "1")).await.expect("create");
    assert!(!created.uid().is_empty() && !created.resource_version().is_empty());
    let again = client.create(&config_maps(), &config_map("a", "1")).await;
    assert!(again.is_err_and(|e| e.is_already_exists()));

    let key = ObjectKey::namespaced("default", "a");
    let read = client.get(&config_maps(), &key).await.expect("get");
    assert_eq!(read.json(), created.json());
    let list = client.list(&config_maps(), Some("default"), &ListOptions::default()).await.expect("list");
    assert_eq!(list.items.len(), 1);

    let options =
        client::WatchOptions { resource_version: Some(list.resource_version.to_string()), ..Default::default() };
    let mut events = client.watch(&config_maps(), Some("default"), &options).await.expect("watch");
    let patch = Patch::Merge(json!({"data": {"k": "2"}}));
    let patched = client.patch(&config_maps(), &key, &patch, &PatchOptions::default()).await.expect("patch");
    let unchanged = client.patch(&config_maps(), &key, &patch, &PatchOptions::default()).await.expect("patch");
    assert_eq!(patched.resource_version(), unchanged.resource_version(), "a patch that changes nothing writes nothing");
    client.delete(&config_maps(), &key, &DeleteOptions::default()).await.expect("delete");
    match events.next().await {
        Some(WatchEvent::Modified(object)) => assert_eq!(object.json(), patched.json()),
        other => panic!("{other:?}"),
    }
    match events.next().await {
        Some(WatchEvent::Deleted(object)) => {
            let revision = |text: &str| text.parse::<u64>().expect("a revision");
            assert!(revision(object.resource_version()) > revision(patched.resource_version()));
        }
        other => panic!("{other:?}"),
    }
    assert!(client.get_opt(&config_maps(), &key).await.expect("get").is_none());
}

async fn stale_updates_conflict_and_finalizers_block_deletion() {
    let (_server, client) = server().await;
    let mut object = config_map("a", "1");
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let created = client.create(&config_maps(), &object).await.expect("create");
    let mut stale = created.to_value().expect("json");
    stale["metadata"]["resourceVersion"] = "1".into();
    stale["data"]["k"] = "x".into();
    let refused = client.update(&config_maps(), &stale).await.expect_err("a stale update");
    assert_eq!(refused.reason(), Some(StatusReason::Conflict));

    let key = ObjectKey::namespaced("default", "a");
    client.delete(&config_maps(), &key, &DeleteOptions::default()).await.expect("delete");
    let deleting = client.get(&config_maps(), &key).await.expect("it waits for its finalizer");
    assert!(deleting.is_deleting());
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    client.patch(&config_maps(), &key, &release, &PatchOptions::default()).await.expect("patch");
    assert!(client.get_opt(&config_maps(), &key).await.expect("get").is_none());
}

async fn generation_follows_the_spec_and_the_deletion_mark() {
    let (_server, client) = server().await;
    let object = json!({"metadata": {"name": "d", "namespace": "default", "finalizers": ["example.com/hold"]},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
                 "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let created = client.create(&deployments(), &object).await.expect("create");
    assert_eq!(created.generation(), 1);
    let key = created.key();
    let patch = |tree: Value| Patch::Merge(tree);
    let options = PatchOptions::default();
    let labelled =
        client.patch(&deployments(), &key, &patch(json!({"metadata": {"labels": {"x": "y"}}})), &options).await;
    assert_eq!(labelled.expect("patch").generation(), 1);
    let scaled = client.patch(&deployments(), &key, &patch(json!({"spec": {"replicas": 2}})), &options).await;
    assert_eq!(scaled.expect("patch").generation(), 2);
    client.delete(&deployments(), &key, &DeleteOptions::default()).await.expect("delete");
    assert_eq!(client.get(&deployments(), &key).await.expect("get").generation(), 3);
}

async fn the_oldest_form_of_orphaning_returns_the_remaining_object() {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    let (server, _client) = server().await;
    for (finalizers, options, code) in [
        (json!([]), json!({"orphanDependents": false}), 200),
        (json!(["example.com/hold"]), json!({"orphanDependents": false}), 202),
        (json!(["example.com/hold"]), json!({"propagationPolicy": "Background"}), 200),
        (json!(["example.com/hold"]), json!({}), 200),
    ] {
        let body = json!({"metadata": {"generateName": "m-", "finalizers": finalizers}}).to_string();
        let made = crate::parity::send(&server, "POST", MAPS, &[], &body).await.json();
        let path = format!("{MAPS}/{}", made["metadata"]["name"].as_str().expect("a name"));
        let reply = crate::parity::send(&server, "DELETE", &path, &[], &options.to_string()).await;
        assert_eq!(reply.code, code, "{finalizers} {options}");
    }
}

async fn a_missing_namespace_and_a_missing_object_are_named() {
    let (_server, client) = server().await;
    let mut object = config_map("a", "1");
    object["metadata"]["namespace"] = "nowhere".into();
    let error = client.create(&config_maps(), &object).await.expect_err("no namespace");
    assert_eq!(error.to_string(), "namespaces \"nowhere\" not found");
    let error = client.get(&deployments(), &ObjectKey::namespaced("default", "none")).await.expect_err("no object");
    assert_eq!(error.to_string(), "deployments.apps \"none\" not found");
}

async fn no_request_for_an_object_is_one_for_its_collection() {
    let (_server, client) = server().await;
    let (resource, unnamed) = (config_maps(), ObjectKey::namespaced("default", ""));
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}});
    client.create(&resource, &object).await.expect("created");
    let deleted = client.delete(&resource, &unnamed, &DeleteOptions::default()).await;
    assert!(matches!(deleted, Err(client::Error::Unnamed)), "{deleted:?}");
    let read = client.get(&resource, &unnamed).await;
    assert!(matches!(read, Err(client::Error::Unnamed)), "{read:?}");
    let patch = Patch::Merge(json!({"data": {"k": "v"}}));
    let patched = client.patch(&resource, &unnamed, &patch, &PatchOptions::default()).await;
    assert!(matches!(patched, Err(client::Error::Unnamed)), "{patched:?}");
    client.get(&resource, &ObjectKey::namespaced("default", "a")).await.expect("still there");
}

async fn pages_continue_where_they_stopped() {
    let (_server, client) = server().await;
    for name in ["a", "b", "c", "d", "e"] {
        client.create(&config_maps(), &config_map(name, "1")).await.expect("create");
    }
    let mut options = ListOptions { limit: 2, ..ListOptions::default() };
    let mut names = Vec::new();
    loop {
        let page = client.list(&config_maps(), Some("default"), &options).await.expect("list");
        names.extend(page.items.iter().map(|item| item.name().to_owned()));
        if page.continue_token.is_empty() {
            break;
        }
        // Writes in between belong to a later snapshot.
        let _ = client.create(&config_maps(), &config_map("bb", "1")).await;
        options.continue_token = Some(page.continue_token);
    }
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
}

/// Each write is acknowledged before the cache has it; the next write must still see it.
async fn a_write_sees_the_previous_write() {
    let (_server, client) = server().await;
    let key = ObjectKey::namespaced("default", "a");
    let options = PatchOptions::default();
    for _ in 0..50 {
        client.create(&config_maps(), &config_map("a", "1")).await.expect("create");
        for data in ["2", "1", "2"] {
            let patch = Patch::Merge(json!({"data": {"k": data}}));
            let patched = client.patch(&config_maps(), &key, &patch, &options).await.expect("patch");
            let mut tree = patched.to_value().expect("json");
            assert_eq!(tree["data"]["k"], data);
            tree["data"]["k"] = format!("{data}x").into();
            let updated = client.update(&config_maps(), &tree).await.expect("an update from the newest version");
            let read = client.get(&config_maps(), &key).await.expect("get");
            assert_eq!(read.json(), updated.json());
        }
        client.delete(&config_maps(), &key, &DeleteOptions::default()).await.expect("delete");
    }
}

async fn values_of_a_wrong_type_are_refused_and_nothing_is_written() {
    let (_server, client) = server().await;
    let mut object = config_map("a", "1");
    object["data"]["k"] = 5.into();
    let refused = client.create(&config_maps(), &object).await.expect_err("a number for a string");
    assert_eq!(refused.reason(), Some(StatusReason::BadRequest));
    let created = client.create(&config_maps(), &config_map("a", "1")).await.expect("create");
    let patch = Patch::Merge(json!({"data": {"k": 5}}));
    let refused = client.patch(&config_maps(), &created.key(), &patch, &PatchOptions::default()).await;
    assert_eq!(refused.expect_err("a number for a string").reason(), Some(StatusReason::Invalid));
    let read = client.get(&config_maps(), &created.key()).await.expect("get");
    assert_eq!(read.json(), created.json());
}

/// As Go's decoder reads them. Stored objects are readable again, from every encoding.
async fn nulls_in_lists_and_maps_are_stored_as_zeros() {
    let (server, client) = server().await;
    let send = async |method: &str, path: &str, type_: &str, body: Value| -> (u16, Value) {
        let request = http::Request::builder().method(method).uri(format!("/api/v1/namespaces/default/{path}"));
        let request = request.header("content-type", type_).extension(Identity::system("test"));
        let request = request.body(transport::full(body.to_string())).expect("a request");
        let response = tower::ServiceExt::oneshot(server.service(), request).await.expect("infallible");
        let code = response.status().as_u16();
        let body = http_body_util::BodyExt::collect(response.into_body()).await.expect("in memory").to_bytes();
        (code, serde_json::from_slice(&body).expect("JSON"))
    };
    const JSON: &str = "application/json";
    let marked = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"l": null}}, "data": {"k": null}});
    let (code, created) = send("POST", "configmaps", JSON, marked("created")).await;
    assert_eq!((code, &created["metadata"]["labels"], &created["data"]), (201, &json!({"l": ""}), &json!({"k": ""})));
    let (code, replaced) = send("PUT", "configmaps/created", JSON, marked("created")).await;
    assert_eq!((code, &replaced["metadata"]), (200, &created["metadata"]), "which changes nothing");
    let patch = json!([{"op": "add", "path": "/metadata/labels/m", "value": null}]);
    let (code, patched) = send("PATCH", "configmaps/created", "application/json-patch+json", patch).await;
    assert_eq!((code, &patched["metadata"]["labels"]), (200, &json!({"l": "", "m": ""})));
    let applied = "configmaps/applied?fieldManager=m";
    let (code, applied) = send("PATCH", applied, "application/apply-patch+yaml", marked("applied")).await;
    assert_eq!((code, &applied["data"]), (201, &json!({"k": ""})), "{applied}");
    for metadata in [json!({"name": "a", "finalizers": [null]}), json!({"name": "a", "ownerReferences": [null]})] {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        let (code, refused) = send("POST", "configmaps", JSON, body).await;
        assert_eq!((code, &refused["reason"]), (422, &json!("Invalid")), "{refused}");
    }
    let list = client.list(&config_maps(), Some("default"), &ListOptions::default()).await.expect("a list");
    assert_eq!(list.items.iter().map(|item| item.name().to_owned()).collect::<Vec<_>>(), ["applied", "created"]);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [null]}});
    let (code, refused) = send("POST", "pods", JSON, pod).await;
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(code == 422 && message.contains("spec.containers[0].name: Required value"), "{message}");
}

async fn concurrent_creates_equal_sequential_ones() {
    let (server, client) = server().await;
    let map = |name: &str, more: Value| {
        let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v", "n": null},
            "metadata": {"name": name, "namespace": "default", "labels": {"a": "b"}, "uid": "mine"}, "unknown": 1});
        map.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        map
    };
    let ordered = crate::engine::of_this_test().orders_concurrent_writes();
    let deep = (0..120).fold(json!(1), |inner, _| json!([inner]));
    let objects = vec![
        map("together", json!({})),
        map("a_b", json!({})),
        map("other", json!({"kind": "Secret"})),
        map("typed", json!({"data": {"k": 1}})),
        map("deep", json!({"data": deep})),
        map("last", json!({"metadata": {"name": "last", "namespace": "elsewhere"}})),
        map("together", if ordered { json!({"data": {"k": "another"}}) } else { json!({}) }),
    ];
    let objects = objects.into_iter().map(Into::into).collect();
    let outcomes = client.create_all(&config_maps(), Some("default"), objects).await.expect("outcomes");
    let mut codes: Vec<u16> = outcomes.iter().map(|it| it.as_ref().map_or_else(code, |_| 201)).collect();
    let is_later_first = !ordered && codes[0] == 409;
    if is_later_first {
        codes.swap(0, 6);
    }
    assert_eq!(codes, [201, 422, 400, 400, 400, 400, 409]);
    client.create(&config_maps(), &map("alone", json!({}))).await.expect("accepted");
    let lasting = async |name: &str| {
        let object = client.get(&config_maps(), &ObjectKey::namespaced("default", name)).await.expect("it is there");
        crate::statuses::lasting(&object)
    };
    assert_eq!(lasting("together").await, lasting("alone").await);
    let lost = vec![map("a", json!({"metadata": {"name": "a"}})).into()];
    let absent = client.create_all(&config_maps(), Some("nowhere"), lost).await.expect("outcomes");
    assert_eq!(absent.iter().map(|it| it.as_ref().map_or_else(code, |_| 201)).sum::<u16>(), 404);
    let text = server.shared().metrics.text();
    let counted = |code: u16, count: u64| {
        let end = format!("scope=\"namespace\",component=\"apiserver\",code=\"{code}\"}} {count}");
        text.lines().any(|line| line.contains("verb=\"POST\"") && line.contains("configmaps") && line.ends_with(&end))
    };
    // The first of each batch is counted by the code of the request.
    let conflict = if is_later_first { counted(201, 4) } else { counted(201, 3) && counted(409, 1) };
    assert!(conflict && counted(422, 1) && counted(400, 4), "{text}");
}

async fn a_large_object_is_stored_or_its_limit_is_named() {
    let (_server, client) = server().await;
    let env = json!([{"name": "A", "value": "x".repeat(2 << 20)}]);
    let object = json!({"metadata": {"name": "a", "namespace": "default"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i", "env": env}]}}}});
    let stored = client.create(&deployments(), &object).await;
    if !crate::engine::of_this_test().refuses_two_mebibytes() {
        assert_eq!(stored.expect("below the limit of requests").name(), "a");
        return;
    }
    let refused = stored.expect_err("more than etcd takes");
    assert_eq!(code(&refused), 413);
    assert!(refused.to_string().contains("--max-request-bytes"), "{refused}");
    assert!(client.get_opt(&deployments(), &ObjectKey::namespaced("default", "a")).await.expect("get").is_none());
}

fn code(error: &client::Error) -> u16 {
    error.status().map_or(0, |status| status.code)
}
