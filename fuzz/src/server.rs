//! Requests to a whole API server: URLs, queries, headers and bodies of every form.
//!
//! The input has the form of HTTP: a line `METHOD URL`, lines `Header: value`, an empty line, and the body; a line
//! `----` starts the next request. The server must answer each without a panic and without a 5xx, and must still serve
//! afterwards; a watch returns the existing objects.

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;

use apiserver::auth::authn::Authentication;
use apiserver::{ApiServer, Authorization, ServerConfig};
use http_body_util::BodyExt;
use storage::memory::MemoryStore;
use tokio::runtime::Runtime;
use tower::ServiceExt;
use transport::{ApiService, Identity, Request};
use world::World;

thread_local! {
    static RUNTIME: OnceCell<Runtime> = const { OnceCell::new() };
}

/// Each input has its own server, so that a finding depends on its input only.
pub(crate) fn server(input: &[u8]) {
    RUNTIME.with(|cell| cell.get_or_init(runtime).block_on(run(input)));
}

/// Virtual time in tests and in the program. Tokio's support for virtual time is slower, and all crates built together
/// with this one would have it.
fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all();
    #[cfg(any(test, feature = "libfuzzer"))]
    builder.start_paused(true);
    builder.build().expect("a runtime")
}

async fn run(input: &[u8]) {
    let requests: Vec<Request> = split(input).take(8).filter_map(request).collect();
    if requests.is_empty() {
        return;
    }
    let server = start().await;
    let service = server.service();
    send(&service, request(CRD).expect("a request")).await;
    for request in requests {
        send(&service, request).await;
    }
    let code = send(&service, request(b"GET /api/v1/namespaces").expect("a request")).await;
    assert_eq!(code, 200, "the server no longer serves");
    server.shutdown();
    // Lets the server's tasks end.
    tokio::time::sleep(Duration::from_secs(1)).await;
}

const CRD: &[u8] = br#"POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions
Content-Type: application/json

{"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.n","statusReplicasPath":".status.n"}},
"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"n":{"type":"integer","default":1},
"s":{"type":"string"},"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
"list":{"type":"array","items":{"type":"object","properties":{"k":{"type":"string"},"v":{"type":"integer"}},"required":["k"]},
"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"]}}},"status":{"type":"object","properties":{"n":{"type":"integer"}}}}}}}]}}"#;

async fn start() -> ApiServer {
    let world = World::simulated(jiff::Timestamp::from_second(1_790_000_000).expect("in range"), 1);
    ApiServer::start(ServerConfig {
        store: Arc::new(MemoryStore::new()),
        world,
        resources: kubernetes_api::resources(),
        admission: Vec::new(),
        authentication: Box::new(|_| Authentication::default()),
        authorization: Authorization::AlwaysAllow,
        routes: Vec::new(),
        crds: Vec::new(),
        converters: Default::default(),
        version: Default::default(),
    })
    .await
    .expect("an empty store")
}

fn split(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(input);
    std::iter::from_fn(move || {
        let all = rest?;
        let end = all.windows(6).position(|window| window == b"\n----\n");
        rest = end.map(|end| &all[end + 6..]);
        Some(&all[..end.unwrap_or(all.len())])
    })
}

fn request(text: &[u8]) -> Option<Request> {
    let (head, body) = match text.windows(2).position(|window| window == b"\n\n") {
        Some(end) => (&text[..end], &text[end + 2..]),
        None => (text, &[][..]),
    };
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = lines.next()?;
    let space = first.iter().position(|byte| *byte == b' ')?;
    let mut builder = http::Request::builder().method(&first[..space]).uri(&first[space + 1..]);
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        builder = builder.header(&line[..colon], line[colon + 1..].trim_ascii());
    }
    let mut request = builder.body(transport::full(body.to_vec())).ok()?;
    request.extensions_mut().insert(Identity::system("fuzz"));
    Some(request)
}

async fn send(service: &ApiService, request: Request) -> u16 {
    let shown = format!("{} {}", request.method(), request.uri());
    let response = match service.clone().oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let code = response.status().as_u16();
    // Time is virtual: a watch without an end costs nothing.
    let body = tokio::time::timeout(Duration::from_secs(5), response.into_body().collect()).await;
    let text = body.map(|body| body.map(|b| b.to_bytes()).unwrap_or_default()).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    // kube-apiserver also returns 500 here: for an applied configuration with a field outside the schema, and for a
    // strategic merge patch that does not match (an element without its merge key, unknown directives). Such a Status
    // has no reason, and a failure of the server has one.
    let is_patch = shown.starts_with("PATCH ") && code == 500;
    let as_upstream =
        is_patch && (text.contains("failed to create typed patch object") || !text.contains("\"reason\":"));
    assert!(as_upstream || !matches!(code, 500..=502), "{shown}: {code} {text}");
    code
}
