//! Client and informers against a real API server: inside the process, and over TLS with a token.

mod informers;
mod leader;

use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use apiserver::auth::authn::{Authentication, StaticTokens};
use apiserver::serve::{Limits, TlsConfig, serve};
use apiserver::{ApiServer, Authorization, ServerConfig};
use client::{Client, DeleteOptions, Endpoint, ListOptions, Mapper, Patch, PatchOptions};
use controller_runtime::{Event, InformerSet, Selection};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use transport::Identity;
use world::World;

struct Served {
    local: Client,
    remote: Client,
    endpoint: Endpoint,
    world: World,
    stop: CancellationToken,
    _server: ApiServer,
}

/// A server on a separate port; no test waits for time, so real time is used.
async fn served() -> Served {
    let world = World::system();
    let server = ApiServer::start(ServerConfig {
        store: Arc::new(storage::memory::MemoryStore::new()),
        world: world.clone(),
        resources: kubernetes_api::resources(),
        admission: Vec::new(),
        authentication: Box::new(|_| Authentication {
            static_tokens: Some(StaticTokens::parse("secret,ann,1,system:masters\n").expect("tokens")),
            ..Authentication::default()
        }),
        authorization: Authorization::AlwaysAllow,
        routes: Vec::new(),
        crds: Vec::new(),
        converters: Default::default(),
        version: Default::default(),
    })
    .await
    .expect("the server starts");
    let (authority, _) = pki::Authority::generate("test", &world).expect("an authority");
    let pair = authority.issue_server(&pki::ServerNames::api_server("api", &[]), &world).expect("a certificate");
    let tls = TlsConfig::new(&pair.certificate, &pair.key).expect("a server identity");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let stop = CancellationToken::new();
    tokio::spawn(serve(listener, Some(tls), server.service(), Limits::default(), stop.clone()));
    let endpoint = Endpoint {
        server: format!("https://{address}"),
        ca_bundle: Some(authority.certificate().as_bytes().to_vec()),
        token: Some("secret".into()),
        ..Endpoint::default()
    };
    let remote = Client::from_endpoint(&endpoint).expect("a client");
    let local = Client::in_process(server.service(), Identity::system("test"));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "demo"}});
    local.create(&ApiResource::cluster("", "v1", "Namespace", "namespaces"), &namespace).await.expect("a namespace");
    Served { local, remote, endpoint, world, stop, _server: server }
}

fn maps() -> ApiResource {
    ApiResource::namespaced("", "v1", "ConfigMap", "configmaps")
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("demo", name)
}

fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "demo", "labels": {"v": value}},
        "data": {"k": value}})
}

#[tokio::test]
async fn every_verb_works_over_either_transport() {
    let served = served().await;
    for (prefix, client) in [("l", &served.local), ("r", &served.remote)] {
        let maps = maps();
        let name = format!("{prefix}-a");
        let created = client.create(&maps, &map(&name, "1")).await.expect("created");
        assert_eq!((created.kind(), created.key()), ("ConfigMap", key(&name)));
        assert!(client.create(&maps, &map(&name, "1")).await.expect_err("twice").is_already_exists());

        let mut tree = created.to_value().expect("a tree");
        tree["data"]["k"] = json!("2");
        let updated = client.update(&maps, &tree).await.expect("updated");
        assert_ne!(updated.resource_version(), created.resource_version());
        assert!(client.update(&maps, &tree).await.expect_err("an old version").is_conflict());

        let patch = Patch::Merge(json!({"data": {"l": "3"}}));
        let patched = client.patch(&maps, &key(&name), &patch, &PatchOptions::default()).await.expect("patched");
        assert_eq!(patched.to_value().expect("a tree")["data"], json!({"k": "2", "l": "3"}));

        client.create(&maps, &map(&format!("{prefix}-b"), "1")).await.expect("created");
        let page = ListOptions { limit: 1, label_selector: Some("v=1".into()), ..ListOptions::default() };
        let first = client.list(&maps, Some("demo"), &page).await.expect("a page");
        assert_eq!((first.items.len(), first.items[0].kind()), (1, "ConfigMap"));
        assert!(!first.continue_token.is_empty());

        client.delete(&maps, &key(&name), &DeleteOptions::background()).await.expect("deleted");
        assert!(client.get_opt(&maps, &key(&name)).await.expect("answered").is_none());
        let missing = client.get(&maps, &key(&name)).await.expect_err("gone");
        assert_eq!(missing.to_string(), format!("configmaps \"{name}\" not found"));
        assert!(client.request(http::Method::GET, "/readyz", None).await.is_ok());
    }
    served.stop.cancel();
}

#[tokio::test]
async fn informers_see_the_same_over_either_transport() {
    let served = served().await;
    served.local.create(&maps(), &map("before", "1")).await.expect("created");
    let mut logs = Vec::new();
    for client in [&served.local, &served.remote] {
        let set = InformerSet::until(client.clone(), served.world.clone(), served.stop.child_token());
        let selection = Selection { label_selector: Some("v".into()), ..Selection::default() };
        let informer = set.selected(&maps(), selection);
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let written = log.clone();
        assert!(informer.synced().await);
        informer.subscribe(move |event| {
            let value = |object: &apimachinery::Object| object.label("v").unwrap_or_default().to_owned();
            written.lock().push(match event {
                Event::Added { object, initial } => format!("+{} {} {initial}", object.name(), value(object)),
                Event::Updated { old, new } => format!("~{} {}>{}", new.name(), value(old), value(new)),
                Event::Deleted(object) => format!("-{}", object.name()),
            });
        });
        logs.push((set, informer, log));
    }
    let client = &served.local;
    client.create(&maps(), &map("a", "1")).await.expect("created");
    let relabel = Patch::Merge(json!({"metadata": {"labels": {"v": "2"}}}));
    client.patch(&maps(), &key("a"), &relabel, &PatchOptions::default()).await.expect("patched");
    let unlabel = Patch::Merge(json!({"metadata": {"labels": {"v": null}}}));
    client.patch(&maps(), &key("a"), &unlabel, &PatchOptions::default()).await.expect("patched");
    client.delete(&maps(), &key("before"), &DeleteOptions::default()).await.expect("deleted");
    let expected = ["+before 1 true", "+a 1 false", "~a 1>2", "-a", "-before"];
    for (_set, informer, log) in &logs {
        let all_seen = async {
            while log.lock().len() < expected.len() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(20), all_seen).await;
        assert_eq!(*log.lock(), expected);
        assert!(informer.cache().is_empty());
    }
    served.stop.cancel();
}

#[tokio::test]
async fn the_latest_changes_can_be_delivered_first() {
    let served = served().await;
    for name in ["a", "b", "c"] {
        served.local.create(&maps(), &map(name, "1")).await.expect("created");
    }
    let relabel = Patch::Merge(json!({"metadata": {"labels": {"v": "2"}}}));
    served.local.patch(&maps(), &key("b"), &relabel, &PatchOptions::default()).await.expect("patched");
    let set = InformerSet::until(served.local.clone(), served.world.clone(), served.stop.child_token());
    let selection = Selection { label_selector: Some("v".into()), ..Selection::default() };
    let informer = set.selected(&maps(), selection);
    let delivered: [Arc<Mutex<Vec<String>>>; 2] = Default::default();
    // Whether it subscribes before the first list or after it.
    for delivered in &delivered {
        let delivered = delivered.clone();
        informer.subscribe_latest_first(move |event| delivered.lock().push(event.object().name().to_owned()));
        assert!(informer.synced().await);
    }
    assert!(delivered.iter().all(|delivered| *delivered.lock() == ["b", "c", "a"]), "{delivered:?}");
    served.stop.cancel();
}

#[tokio::test]
async fn kinds_map_to_resources_over_either_transport() {
    let served = served().await;
    for client in [&served.local, &served.remote] {
        let mapper = Mapper::new(client.clone());
        let deployment = apimachinery::GroupVersionKind::new("apps", "v1", "Deployment");
        let resource = mapper.resource(&deployment).await.expect("served");
        assert_eq!(resource, ApiResource::namespaced("apps", "v1", "Deployment", "deployments"));
        let unknown = apimachinery::GroupVersionKind::new("example.com", "v1", "Foo");
        let error = mapper.resource(&unknown).await.expect_err("not served");
        assert_eq!(error.to_string(), r#"no matches for kind "Foo" in version "example.com/v1""#);
        assert!(
            mapper
                .known()
                .by_kind(&deployment)
                .is_some_and(|found| found.can("list") && found.short_names == ["deploy"])
        );
    }
    served.stop.cancel();
}

#[tokio::test]
async fn wrong_tokens_untrusted_servers_and_closed_ports_differ() {
    let served = served().await;
    let wrong = Endpoint { token: Some("guess".into()), ..served.endpoint.clone() };
    let client = Client::from_endpoint(&wrong).expect("a client");
    assert!(client.get(&maps(), &key("a")).await.expect_err("a wrong token").is_unauthorized());
    let without_authority = Endpoint { ca_bundle: None, ..served.endpoint.clone() };
    let client = Client::from_endpoint(&without_authority).expect("a client");
    assert!(client.get(&maps(), &key("a")).await.expect_err("an unknown authority").is_unreachable());
    served.stop.cancel();
    let unreachable = Endpoint { server: "https://127.0.0.1:1".into(), insecure: true, ..Endpoint::default() };
    let client = Client::from_endpoint(&unreachable).expect("a client");
    let error = client.get(&maps(), &key("a")).await.expect_err("the port is closed");
    assert!(error.is_unreachable() && error.to_string().contains("onnection refused"), "{error}");
}
