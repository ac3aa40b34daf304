//! Requests that are passed on.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures::StreamExt as _;
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;
use transport::Identity;

use crate::faulty_server::FaultyServer;
use crate::harness::{API_SERVICES, Front, Trust, behind, send};

const BOXES: &str = "/apis/example.io/v1/namespaces/default/boxes";

async fn pair(trust: &Trust) -> (Front, apiserver::ApiServer) {
    let front = Front::start(trust).await;
    let (server, port) = behind(trust, "backs", "example.io").await;
    front.external("backs").await;
    front.register(trust, "example.io", ("backs", port)).await;
    front.reason("example.io", "Passed").await;
    (front, server)
}

fn one(name: &str, size: u64) -> Value {
    json!({"apiVersion": "example.io/v1", "kind": "Box", "metadata": {"name": name}, "spec": {"size": size}})
}

#[tokio::test]
async fn every_verb_reaches_the_aggregated_server() {
    let trust = Trust::new();
    let (front, _server) = pair(&trust).await;
    let watch = http::Request::get(format!("{BOXES}?watch=true&resourceVersion=0")).body(transport::empty());
    let watch = front.client.send(watch.expect("a request")).await.expect("a response");
    let mut events = watch.into_body().into_data_stream();
    let made = front.send(Method::POST, BOXES, &one("a", 1)).await;
    assert_eq!(made.code, 201, "{}", made.text);
    // An event is passed on before the watch ends.
    let event: Value = serde_json::from_slice(&events.next().await.expect("an event").expect("bytes")).expect("JSON");
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("a")));
    let path = format!("{BOXES}/a");
    assert_eq!(front.patch(&path, &json!({"spec": {"size": 2}})).await.json()["spec"]["size"], 2);
    let (applied, url) = (one("a", 3), format!("{path}?fieldManager=m&force=true"));
    let reply = send(&front.client, Method::PATCH, &url, "application/apply-patch+yaml", &applied).await;
    assert_eq!(reply.json()["spec"]["size"], 3);
    let status = front.patch(&format!("{path}/status"), &json!({"status": {}})).await;
    assert_eq!(status.code, 200, "{}", status.text);
    let mut object = front.get(&path).await.json();
    object["spec"]["size"] = json!(4);
    assert_eq!(front.send(Method::PUT, &path, &object).await.json()["spec"]["size"], 4);
    let refused = front.send(Method::PUT, &path, &one("b", 1)).await;
    assert_eq!(refused.code, 400, "the other server's Status: {}", refused.text);
    assert_eq!(front.send(Method::DELETE, &path, &Value::Null).await.code, 200);
    assert_eq!(front.get(BOXES).await.json()["items"], json!([]));
    // Typed clients of this process work on it, too.
    let boxes = apimachinery::ApiResource::namespaced("example.io", "v1", "Box", "boxes");
    let mut object = one("c", 1);
    object["metadata"]["namespace"] = json!("default");
    front.client.create(&boxes, &object).await.expect("created");
    let key = apimachinery::ObjectKey::namespaced("default", "c");
    assert_eq!(front.client.get(&boxes, &key).await.expect("found").name(), "c");
}

#[tokio::test]
async fn requests_are_authorized_before_forwarding_and_carry_their_user() {
    let trust = Trust::new();
    let (front, (faulty_server, port)) = (Front::start(&trust).await, FaultyServer::start(&trust).await);
    front.external("odd").await;
    front.register(&trust, "a.odd", ("odd", port)).await;
    front.reason("a.odd", "Passed").await;
    let ann = front.over_tls(&trust).await;
    let get = async |path: &str| send(&ann, Method::GET, path, "application/json", &Value::Null).await;
    let refused = get("/apis/a.odd/v1/pretty").await;
    assert_eq!(refused.code, 403);
    assert_eq!(
        refused.json()["message"],
        "pretty.a.odd is forbidden: User \"ann\" cannot list resource \"pretty\" in API group \"a.odd\" at the cluster scope"
    );
    assert!(faulty_server.requests.lock().is_empty(), "nothing was passed on");
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"},
        "rules": [{"apiGroups": ["a.odd"], "resources": ["*"], "verbs": ["*"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "dev"}]});
    assert_eq!(front.send(Method::POST, &format!("{rbac}/clusterroles"), &role).await.code, 201);
    assert_eq!(front.send(Method::POST, &format!("{rbac}/clusterrolebindings"), &binding).await.code, 201);
    let smuggled = http::Request::get("/apis/a.odd/v1/pretty?pretty=true").header("x-remote-user", "root");
    let smuggled = smuggled.header("x-remote-group", "system:masters").header("x-remote-extra-a", "b");
    let response = ann.send(smuggled.body(transport::empty()).expect("a request")).await.expect("a response");
    assert_eq!(response.status(), 200);
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    assert_eq!(body, r#"{"a":1}"#, "passed on as it came");
    let head = faulty_server.requests.lock().pop().expect("a request");
    let values = |name: &str| -> Vec<String> {
        head.headers.get_all(name).iter().map(|value| value.to_str().expect("text").to_owned()).collect()
    };
    assert_eq!(values("x-remote-user"), ["ann"]);
    assert_eq!(values("x-remote-uid"), ["7"]);
    assert_eq!(values("x-remote-group"), ["dev", "system:authenticated"]);
    assert_eq!(values("x-forwarded-for"), ["127.0.0.1"]);
    for name in ["authorization", "x-remote-extra-a"] {
        assert_eq!(values(name), <[String; 0]>::default(), "{name}");
    }
    assert_eq!(head.uri.to_string(), "/apis/a.odd/v1/pretty?pretty=true");
    // Bodies stream in both directions, and connections are upgraded.
    bodies_stream(&ann).await;
    upgrade(&ann).await;
    let refused = get("/apis/a.odd/v1/x/../../../../api/v1/secrets").await;
    assert!(matches!(refused.code, 400 | 403), "{}", refused.text);
}

async fn bodies_stream(client: &client::Client) {
    let (sender, pieces) = tokio::sync::mpsc::channel::<bytes::Bytes>(1);
    let pieces = futures::stream::unfold(pieces, async |mut pieces| Some((Ok(pieces.recv().await?), pieces)));
    let request = http::Request::post("/apis/a.odd/v1/echo").body(transport::stream(pieces)).expect("a request");
    sender.send("one".into()).await.expect("sent");
    let response = client.send(request).await.expect("a response");
    let mut echoed = response.into_body().into_data_stream();
    assert_eq!(echoed.next().await.expect("a piece").expect("bytes"), "one");
    sender.send("two".into()).await.expect("sent");
    assert_eq!(echoed.next().await.expect("a piece").expect("bytes"), "two");
    drop(sender);
    // HTTP/2 may end a body by an empty frame.
    let rest: Vec<_> = echoed.map(|piece| piece.expect("bytes")).collect().await;
    assert_eq!(rest.concat(), b"");
}

async fn upgrade(client: &client::Client) {
    let request =
        http::Request::get("/apis/a.odd/v1/switch").header("connection", "Upgrade").header("upgrade", "SPDY/3.1");
    let mut response = client.send(request.body(transport::empty()).expect("a request")).await.expect("a response");
    assert_eq!(
        (response.status().as_u16(), &response.headers()["upgrade"]),
        (101, &http::HeaderValue::from_static("SPDY/3.1"))
    );
    let upgraded = hyper::upgrade::on(&mut response).await.expect("upgraded");
    let mut stream = hyper_util::rt::TokioIo::new(upgraded);
    stream.write_all(b"hello").await.expect("written");
    let mut echoed = [0; 5];
    stream.read_exact(&mut echoed).await.expect("read");
    assert_eq!(&echoed, b"hello");
}

#[tokio::test]
async fn failures_of_aggregated_servers_match_upstreams() {
    let trust = Trust::new();
    let (front, (_faulty_server, port)) = (Front::start(&trust).await, FaultyServer::start(&trust).await);
    front.external("odd").await;
    front.register(&trust, "a.odd", ("odd", port)).await;
    front.reason("a.odd", "Passed").await;
    for (path, code, text) in [
        ("end", 503, "error trying to reach service: EOF\n"),
        ("redirect", 502, "the backend attempted to redirect this request, which is not permitted\n"),
        ("nosuch", 404, "404 page not found"),
    ] {
        let reply = front.get(&format!("/apis/a.odd/v1/{path}")).await;
        assert_eq!((reply.code, reply.text.as_str()), (code, text), "{path}");
    }
    // The server stops listening: requests fail until the next check.
    let free =
        tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bound").local_addr().expect("an address").port();
    let api_service = format!("{API_SERVICES}/v1.a.odd");
    let moved = front.patch(&api_service, &json!({"spec": {"service": {"port": free}}})).await;
    assert_eq!(moved.code, 200, "{}", moved.text);
    let condition = front.reason("a.odd", "FailedDiscoveryCheck").await;
    assert!(condition["message"].as_str().expect("a text").contains("connection refused"), "{condition}");
}

#[tokio::test]
async fn requests_have_a_time_limit() {
    let trust = Trust::new();
    let (front, (_faulty_server, port)) = (Front::start(&trust).await, FaultyServer::start(&trust).await);
    front.external("odd").await;
    front.register(&trust, "a.odd", ("odd", port)).await;
    front.reason("a.odd", "Passed").await;
    let open = async |path: &str| {
        let request = http::Request::get(format!("/apis/a.odd/v1/{path}")).body(transport::empty()).expect("a request");
        front.client.send(request).await.expect("a response")
    };
    let (begun, stalling, watch) = (Instant::now(), open("stall").await, open("stall?watch=true").await);
    assert_eq!((stalling.status(), watch.status()), (StatusCode::OK, StatusCode::OK));
    // Leaves a connection for the next request, because no other can be opened in virtual time.
    assert_eq!(front.get("/apis/a.odd/v1/pretty").await.code, 200);
    tokio::time::pause();
    assert_eq!(open("hang").await.status(), StatusCode::GATEWAY_TIMEOUT);
    // A response that begins and never ends is not passed on as a whole one.
    assert!(stalling.into_body().collect().await.is_err());
    assert!(begun.elapsed() <= Duration::from_secs(62), "{:?}", begun.elapsed());
    // A watch lasts as long as its server sends.
    let mut events = watch.into_body().into_data_stream();
    events.next().await.expect("a piece").expect("bytes");
    let next = tokio::time::timeout(Duration::from_secs(600), events.next()).await;
    assert!(next.is_err(), "{next:?}");
}

/// Documents that a server never completes, or that take too much to read, harm no other document.
#[tokio::test]
async fn hostile_documents_are_left_out() {
    let trust = Trust::new();
    let (front, (faulty_server, port)) = (Front::start(&trust).await, FaultyServer::start(&trust).await);
    front.external("odd").await;
    let nested = [vec![b'['; 1 << 20], vec![b']'; 1 << 20]].concat();
    let vast = format!("{{\"paths\":{{\"/apis/vaster.odd/v1\":[{}0]}}}}", "{},".repeat(2 << 20));
    for (group, document) in [
        ("nested.odd", nested.into()),
        ("vaster.odd", vast.into()),
        ("endless.odd", bytes::Bytes::new()),
        ("html.odd", "<html>".into()),
    ] {
        *faulty_server.openapi.lock() = Some(document);
        let before = faulty_server.read.load(Relaxed);
        front.register(&trust, group, ("odd", port)).await;
        front.reason(group, "Passed").await;
        while faulty_server.read.load(Relaxed) == before {
            tokio::task::yield_now().await;
        }
        let own = front.get("/openapi/v2").await;
        assert_eq!(own.code, 200, "{group}");
        let own = own.json();
        assert!(own["paths"]["/api/v1/namespaces"].is_object(), "{group}");
        assert!(!own["paths"]["/apis/vaster.odd/v1"].is_array(), "{group}");
        assert_eq!(front.get("/openapi/v3").await.code, 200, "{group}");
        assert_eq!(front.get(&format!("/apis/{group}/v1/pretty")).await.text, r#"{"a":1}"#, "{group}");
    }
}

#[tokio::test]
async fn openapi_documents_are_merged() {
    let trust = Trust::new();
    let (front, _server) = pair(&trust).await;
    let index = async {
        loop {
            let index = front.get("/openapi/v3").await.json();
            if let Some(url) = index["paths"]["apis/example.io/v1"]["serverRelativeURL"].as_str() {
                return url.to_owned();
            }
            tokio::task::yield_now().await;
        }
    };
    let url = tokio::time::timeout(Duration::from_secs(30), index).await.expect("an index");
    assert!(url.starts_with("/openapi/v3/apis/example.io/v1?hash="), "{url}");
    let document = front.get(&url).await;
    assert!(document.text.contains("io.example.v1.Box"), "{}", document.text);
    let document = front.get("/openapi/v2").await.json();
    assert!(document["paths"]["/apis/example.io/v1/namespaces/{namespace}/boxes"].is_object());
    assert!(document["definitions"]["io.example.v1.Box"].is_object());
    assert!(document["definitions"]["io.k8s.api.core.v1.Pod"].is_object());
    assert!(document["definitions"].get("io.k8s.api.core.v1.Pod_v2").is_none());
}

#[tokio::test]
async fn a_namespace_with_unknown_content_is_not_empty() {
    let trust = Trust::new();
    let (front, server) = pair(&trust).await;
    server.shutdown();
    front.touch("backs", &json!({"spec": {"externalName": "127.0.0.1"}})).await;
    front.reason("example.io", "FailedDiscoveryCheck").await;
    let boxes = apimachinery::ApiResource::namespaced("example.io", "v1", "Box", "boxes");
    let error = front.client.list(&boxes, Some("default"), &Default::default()).await.expect_err("unavailable");
    assert!(!error.is_not_found(), "{error}");
    let key = apimachinery::ObjectKey::namespaced("default", "a");
    assert!(front.client.get_opt(&boxes, &key).await.is_err(), "unknown, not absent");
    let known = front.client.discovery().await.expect("discovery");
    assert!(known.failed.contains(&apimachinery::GroupVersion::new("example.io", "v1")));
}

#[tokio::test]
async fn requests_of_this_process_carry_their_user() {
    let trust = Trust::new();
    let (front, (faulty_server, port)) = (Front::start(&trust).await, FaultyServer::start(&trust).await);
    front.external("odd").await;
    front.register(&trust, "a.odd", ("odd", port)).await;
    front.reason("a.odd", "Passed").await;
    let groups = vec!["system:masters".to_owned()];
    let user =
        Identity { user: "robot".into(), groups, extra: vec![("K/1".into(), vec!["v".into()])], ..Identity::default() };
    let client = client::Client::in_process(front.server.service(), user);
    assert_eq!(send(&client, Method::GET, "/apis/a.odd/v1/pretty", "application/json", &Value::Null).await.code, 200);
    let head = faulty_server.requests.lock().pop().expect("a request");
    assert_eq!(head.headers["x-remote-user"], "robot");
    assert_eq!(head.headers["x-remote-extra-k%2f1"], "v");
    assert!(!head.headers.contains_key("x-remote-uid"));
}
