//! Spans of requests: the sampled requests, the content of spans, and their child steps.

use std::collections::BTreeMap;
use std::sync::Arc;

use apiserver::ApiServer;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use tower::ServiceExt;
use trace::{Finished, Kind, Sink, Tracer, Value};
use transport::{Identity, Request};
use world::World;

use crate::objects::server;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const UNSAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
const TRACE: u128 = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736;
const ALL: u32 = 1_000_000;
const CREATE: &str = "/api/v1/namespaces/default/configmaps?fieldManager=m&token=secret";

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Finished>>>);

impl Sink for Kept {
    fn take(&self, span: Finished) {
        self.0.lock().push(span);
    }
}

impl Kept {
    fn take_all(&self) -> Vec<Finished> {
        std::mem::take(&mut *self.0.lock())
    }
}

async fn traced(per_million: u32) -> (ApiServer, Kept) {
    let (server, _) = server().await;
    let kept = Kept::default();
    server.trace(Tracer::new(World::system(), per_million, kept.clone()));
    (server, kept)
}

/// A request with headers, of a user in these groups.
async fn send(server: &ApiServer, (method, path): (&str, &str), headers: &[(&str, &str)], groups: &[&str]) -> u16 {
    let mut request = http::Request::builder().method(method).uri(path).header("user-agent", "kubectl/v1.36.0");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = if method == "POST" { r#"{"metadata":{"name":"c"},"data":{"password":"secret"}}"# } else { "" };
    let mut request: Request = request
        .header("content-type", "application/json")
        .header("authorization", "Bearer secret")
        .header("host", "karmada.example.com:5443")
        .body(transport::full(body))
        .expect("a request");
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    request.extensions_mut().insert(Identity { user: "ann".into(), groups, ..Identity::default() });
    let response = server.service().oneshot(request).await.expect("an answer");
    let code = response.status().as_u16();
    response.into_body().collect().await.expect("a body");
    code
}

fn attributes(span: &Finished) -> BTreeMap<&str, String> {
    let text = |value: &Value| match value {
        Value::Text(text) => text.to_string(),
        Value::Number(number) => number.to_string(),
    };
    span.attributes.iter().map(|(name, value)| (*name, text(value))).collect()
}

/// `NAME < PARENT`, sorted.
fn tree(spans: &[Finished]) -> Vec<String> {
    let parent = |span: &Finished| spans.iter().find(|other| Some(other.context.span) == span.parent);
    let mut lines: Vec<_> =
        spans.iter().map(|span| format!("{} < {}", span.name, parent(span).map_or("", |it| &it.name))).collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn a_write_has_a_span_with_its_steps_in_the_clients_trace() {
    let (server, kept) = traced(0).await;
    let headers = [("traceparent", PARENT), ("tracestate", "vendor=1"), ("audit-id", "id-1")];
    let code = send(&server, ("POST", CREATE), &headers, &["system:masters"]).await;
    assert_eq!(code, 201);
    let spans = kept.take_all();
    assert_eq!(
        tree(&spans),
        [
            "Create < POST /api/v1/namespaces/{:namespace}/configmaps",
            "POST /api/v1/namespaces/{:namespace}/configmaps < ",
            "Store transaction < Create",
            "authorization < POST /api/v1/namespaces/{:namespace}/configmaps",
        ]
    );
    assert!(spans.iter().all(|span| span.context.trace == TRACE && span.state.as_deref() == Some("vendor=1")));
    let root = spans.iter().find(|span| span.kind == Kind::Server).expect("a span of the server");
    assert_eq!((root.parent, root.link, &root.error), (Some(0x00f0_67aa_0ba9_02b7), None, &None));
    let expected = [
        ("audit-id", "id-1"),
        ("http.request.method", "POST"),
        ("http.response.status_code", "201"),
        ("http.target", "/api/v1/namespaces/default/configmaps?fieldManager=m&token=REDACTED"),
        ("server.address", "karmada.example.com"),
        ("server.port", "5443"),
        ("url.path", "/api/v1/namespaces/default/configmaps"),
        ("user_agent.original", "kubectl/v1.36.0"),
    ];
    assert_eq!(attributes(root), expected.into_iter().map(|(name, value)| (name, value.to_owned())).collect());
    let create = spans.iter().find(|span| span.name == "Create").expect("the step");
    assert_eq!(attributes(create)["resource"], "configmaps");
    assert!(!format!("{spans:?}").contains("secret"), "{spans:?}");
    assert!(spans.iter().all(|span| root.started <= span.started && span.ended <= root.ended));
}

#[tokio::test]
async fn the_ratio_and_trusted_clients_decide() {
    for (per_million, header, groups, spans, follows) in [
        (0, None, &["system:masters"][..], 0, false),
        (0, Some(PARENT), &["system:masters"], 3, true),
        (0, Some(PARENT), &["system:monitoring"], 2, true),
        (0, Some(PARENT), &[], 0, false),
        (0, Some("00-nonsense"), &["system:masters"], 0, false),
        (ALL, None, &["system:masters"], 3, false),
        (ALL, Some(UNSAMPLED), &["system:masters"], 0, false),
        (ALL, Some("00-nonsense"), &["system:masters"], 3, false),
        (ALL, Some(PARENT), &[], 2, false),
        (ALL, Some(UNSAMPLED), &[], 2, false),
    ] {
        let (server, kept) = traced(per_million).await;
        let headers: Vec<_> = header.map(|value| ("traceparent", value)).into_iter().collect();
        let code = send(&server, ("GET", "/api/v1/pods"), &headers, groups).await;
        assert_eq!(code, if groups.contains(&"system:masters") { 200 } else { 403 });
        let found = kept.take_all();
        let case = format!("{per_million} {header:?} {groups:?}: {:?}", tree(&found));
        assert_eq!((found.len(), found.iter().any(|span| span.context.trace == TRACE)), (spans, follows), "{case}");
        let links = found.iter().filter(|span| span.link.is_some_and(|link| link.trace == TRACE)).count();
        assert_eq!(links, usize::from(!found.is_empty() && groups.is_empty()), "{case}");
    }
}

#[tokio::test]
async fn rejected_and_non_resource_requests_have_spans() {
    let (server, kept) = traced(ALL).await;
    for (path, code, name) in [
        ("/api/v1/namespaces/default/configmaps/none", 404, "GET /api/v1/namespaces/{:namespace}/configmaps/{:name}"),
        ("/apis/none.example.com/v1/things", 404, "GET /apis/none.example.com/v1/things"),
        ("/api/v1/pods?timeout=x", 400, ""),
        ("/openapi/v3", 200, "GET"),
    ] {
        assert_eq!(send(&server, ("GET", path), &[], &["system:masters"]).await, code, "{path}");
        let spans = kept.take_all();
        let root = spans.iter().find(|span| span.kind == Kind::Server);
        assert_eq!(root.map_or("", |span| &span.name), name, "{path}: {:?}", tree(&spans));
        assert!(root.is_none_or(|span| attributes(span)["http.response.status_code"] == code.to_string()));
    }
}
