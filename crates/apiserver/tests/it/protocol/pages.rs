//! Lists of a revision, in pages, and their behavior after compaction.

use std::sync::Arc;

use apiserver::{ApiServer, Authorization, ServerConfig};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use storage::Store;
use world::World;

use super::{CM, get, lines};
use crate::engine::on_every_engine;
use crate::parity::{config_map, send};

on_every_engine! {
    alone: [
        past_revisions_are_readable_until_compaction,
        forged_continue_tokens_are_rejected,
        a_collection_is_deleted_in_pages_like_a_list,
    ],
}

async fn start(store: &Arc<dyn Store>) -> ApiServer {
    let server = ApiServer::start(ServerConfig {
        store: Arc::clone(store),
        world: World::system(),
        resources: kubernetes_api::resources(),
        admission: Vec::new(),
        authentication: Box::new(|_| apiserver::auth::authn::Authentication::default()),
        authorization: Authorization::AlwaysAllow,
        routes: Vec::new(),
        crds: Vec::new(),
        converters: Default::default(),
        version: Default::default(),
    });
    server.await.expect("a store")
}

/// A server whose store can be compacted.
async fn compactable() -> (Arc<dyn Store>, ApiServer) {
    let store = crate::engine::store_to_compact().await;
    let server = start(&store).await;
    let namespace = json!({"metadata": {"name": "default"}}).to_string();
    assert_eq!(send(&server, "POST", "/api/v1/namespaces", &[], &namespace).await.code, 201);
    for name in ["a", "b", "c"] {
        assert_eq!(send(&server, "POST", CM, &[], &config_map(name)).await.code, 201);
    }
    (store, server)
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().into_iter().flatten();
    items.filter_map(|item| item["metadata"]["name"].as_str()).collect()
}

fn token(list: &Value) -> &str {
    list["metadata"]["continue"].as_str().expect("a token")
}

async fn past_revisions_are_readable_until_compaction() {
    let (store, server) = compactable().await;
    let everywhere = "/api/v1/configmaps";
    for path in [CM, everywhere] {
        let first = send(&server, "GET", &format!("{path}?limit=1"), &[], "").await.json();
        assert_eq!((names(&first), first["metadata"]["remainingItemCount"].is_number()), (vec!["a"], true));
        let revision = first["metadata"]["resourceVersion"].as_str().expect("a revision").to_owned();
        let new = format!("n{}", path.len());
        assert_eq!(send(&server, "POST", CM, &[], &config_map(&new)).await.code, 201);

        // A known version with a limit is that version exactly, as older clients page.
        let past = send(&server, "GET", &format!("{path}?limit=9&resourceVersion={revision}"), &[], "").await.json();
        assert_eq!((names(&past).contains(&&*new), &past["metadata"]["resourceVersion"]), (false, &json!(revision)));
        let now = send(&server, "GET", &format!("{path}?resourceVersion={revision}"), &[], "").await.json();
        assert!(names(&now).contains(&&*new), "without a limit it is not older than: {now}");

        let newest = store.revision().await.expect("a revision");
        store.compact(newest).await.expect("the past goes");
        let again = format!("{path}?limit=1&continue={}", token(&first));
        let refused = send(&server, "GET", &again, &[], "").await;
        assert!(refused.shown().starts_with("410 Expired The provided continue parameter is too old"), "{path}");
        let resumed = refused.json();
        let decoded = URL_SAFE_NO_PAD.decode(token(&resumed)).expect("base64");
        let decoded: Value = serde_json::from_slice(&decoded).expect("JSON");
        assert_eq!((&decoded["v"], &decoded["rv"]), (&json!("meta.k8s.io/v1"), &json!(-1)));
        let rest = send(&server, "GET", &format!("{path}?continue={}", token(&resumed)), &[], "").await.json();
        assert_eq!(names(&rest)[..2], ["b", "c"], "the rest, as it is now");
        assert!(names(&rest).contains(&&*new));

        let exact = format!("{path}?resourceVersion={revision}&resourceVersionMatch=Exact");
        let refused = send(&server, "GET", &exact, &[], "").await;
        assert!(
            refused.shown().starts_with("410 Expired The resourceVersion for the provided list is too old."),
            "{}",
            refused.shown()
        );
        // This server still remembers; the next one on the same store does not.
        let watch = format!("{path}?watch=1&resourceVersion={revision}&timeoutSeconds=1");
        let events = lines(&get(&start(&store).await, &watch, "application/json").await);
        assert_eq!((events.len(), &events[0]["type"]), (1, &json!("ERROR")), "one line, then the end");
        let status = &events[0]["object"];
        assert_eq!((&status["code"], &status["reason"]), (&json!(410), &json!("Expired")));
        assert!(status["message"].as_str().is_some_and(|text| text.starts_with("too old resource version: ")));
    }
}

async fn forged_continue_tokens_are_rejected() {
    let (_store, server) = compactable().await;
    let prefix = "400 BadRequest invalid continue token: continue key is not valid: ";
    for (token, why) in [
        (
            r#"{"v":"meta2.k8s.io/v1","rv":5,"start":"a"}"#,
            "server does not recognize this encoded version meta2.k8s.io/v1",
        ),
        (
            r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#,
            "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
        ),
        ("null", "server does not recognize this encoded version "),
        ("[]", "json: cannot unmarshal array into Go value of type storage.continueToken"),
        ("[1]", "json: cannot unmarshal array into Go value of type storage.continueToken"),
        (
            r#"{"v":"meta.k8s.io/v1","rv":"5"}"#,
            "json: cannot unmarshal string into Go struct field continueToken.rv of type int64",
        ),
        (r#"{"v":"meta.k8s.io/v1","rv":5}"#, "encoded start key empty (version meta.k8s.io/v1)"),
        (r#"{"v":"meta.k8s.io/v1","rv":5,"start":"../secrets/a"}"#, "../secrets/a"),
    ] {
        let path = format!("{CM}?continue={}", URL_SAFE_NO_PAD.encode(token));
        assert_eq!(send(&server, "GET", &path, &[], "").await.shown(), format!("{prefix}{why}"), "{token}");
    }
}

/// A deletion of a collection finds its objects like a list: page by page, at a revision, or not at all.
async fn a_collection_is_deleted_in_pages_like_a_list() {
    let (store, server) = compactable().await;
    let left = async || {
        let list = send(&server, "GET", CM, &[], "").await.json();
        names(&list).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let delete = async |query: &str| send(&server, "DELETE", &format!("{CM}?{query}"), &[], "").await;
    let first = delete("limit=1&dryRun=All").await.json();
    assert_eq!((names(&first), first["metadata"]["remainingItemCount"].as_i64()), (vec!["a"], Some(2)));
    let rest = delete(&format!("limit=5&dryRun=All&continue={}", token(&first))).await.json();
    assert_eq!((names(&rest), rest["metadata"].get("continue")), (vec!["b", "c"], None));
    let invalid = delete("continue=abc").await;
    assert_eq!(invalid.code, 400, "{}", invalid.shown());
    let old = first["metadata"]["resourceVersion"].as_str().expect("a revision").to_owned();
    assert_eq!(send(&server, "POST", CM, &[], &config_map("d")).await.code, 201);
    let then = delete(&format!("resourceVersion={old}&dryRun=All")).await.json();
    assert_eq!(names(&then), ["a", "b", "c"]);
    assert_eq!(left().await, ["a", "b", "c", "d"]);
    let all = delete("").await.json();
    assert_eq!((names(&all).len(), all["metadata"].get("continue"), left().await.len()), (4, None, 0));
    store
        .compact(all["metadata"]["resourceVersion"].as_str().expect("a revision").parse().expect("a number"))
        .await
        .expect("compacted");
    assert_eq!(delete(&format!("resourceVersion={old}")).await.code, 410);
}
