//! Metrics and the shutdown, with clients over HTTP/2.

use std::sync::Arc;
use std::time::Duration;

use apiserver::auth::authn::{Authentication, StaticTokens};
use apiserver::serve::{self, Goaway, Limits};
use apiserver::{ApiServer, Authorization, ServerConfig};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use storage::memory::MemoryStore;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use world::World;

use crate::parity::config_map;

const CM: &str = "/api/v1/namespaces/default/configmaps";

struct Rig {
    server: ApiServer,
    sender: SendRequest<Full<Bytes>>,
    connection: tokio::task::JoinHandle<Result<(), hyper::Error>>,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
}

impl Rig {
    async fn new(goaway: Option<f64>) -> Self {
        let tokens = StaticTokens::parse("t,admin,a,\"system:masters\"\nu,eve,e\n").expect("tokens");
        let server = ApiServer::start(ServerConfig {
            store: Arc::new(MemoryStore::new()),
            world: World::system(),
            resources: kubernetes_api::resources(),
            admission: Vec::new(),
            authentication: Box::new(|_| Authentication {
                static_tokens: Some(tokens),
                anonymous: true,
                ..Authentication::default()
            }),
            authorization: Authorization::Rbac,
            routes: Vec::new(),
            crds: Vec::new(),
            converters: Default::default(),
            version: Default::default(),
        })
        .await
        .expect("an empty store");
        let goaway = goaway.map(|chance| Goaway { chance, world: World::system() });
        let limits = Limits { goaway, ..server.limits() };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("address");
        let stop = CancellationToken::new();
        let serving = tokio::spawn(serve::serve(listener, None, server.service(), limits, stop.clone()));
        let stream = TcpStream::connect(address).await.expect("connected");
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
        let connection = tokio::spawn(connection);
        let client = client::Client::in_process(server.service(), transport::Identity::system("test"));
        let namespaces = apimachinery::ApiResource::cluster("", "v1", "Namespace", "namespaces");
        client.create(&namespaces, &json!({"metadata": {"name": "default"}})).await.expect("a namespace");
        Self { server, sender, connection, stop, serving }
    }

    async fn open(
        &mut self,
        method: &str,
        path: &str,
        token: &str,
        body: &str,
    ) -> http::Response<hyper::body::Incoming> {
        let mut request = http::Request::builder().method(method).uri(format!("http://server{path}"));
        request = request.header("content-type", "application/json");
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Full::new(body.to_owned().into())).expect("a request");
        self.sender.send_request(request).await.expect("a reply")
    }

    async fn call(&mut self, method: &str, path: &str, token: &str, body: &str) -> (u16, http::HeaderMap, String) {
        let response = self.open(method, path, token, body).await;
        let (code, headers) = (response.status().as_u16(), response.headers().clone());
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        (code, headers, String::from_utf8(body.to_vec()).expect("text"))
    }
}

/// The sum of the values of a series whose labels contain the text.
fn value(metrics: &str, name: &str, labels: &str) -> f64 {
    let lines = metrics.lines().filter(|line| line.starts_with(name) && line.contains(labels));
    lines
        .filter(|line| line[name.len()..].starts_with(['{', ' ']))
        .map(|line| line.rsplit(' ').next().and_then(|number| number.parse::<f64>().ok()).expect("a number"))
        .sum()
}

/// Checks the text format: each family has its help and type once, histograms are cumulative and complete.
fn check_format(metrics: &str) {
    let mut family = ("", "");
    let mut seen = std::collections::BTreeSet::new();
    let mut last = (String::new(), 0.0);
    for line in metrics.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            family.0 = help.split_once(' ').expect("a text").0;
            assert!(seen.insert(family.0), "{line}: twice");
            continue;
        }
        if let Some(type_) = line.strip_prefix("# TYPE ") {
            let (name, type_) = type_.split_once(' ').expect("a type");
            assert!(name == family.0 && ["counter", "gauge", "histogram"].contains(&type_), "{line}");
            family.1 = type_;
            continue;
        }
        let (series, number) = line.rsplit_once(' ').expect("a sample");
        let number: f64 = number.parse().expect("a number");
        let (name, labels) = series
            .split_once('{')
            .map_or((series, ""), |(name, rest)| (name, rest.strip_suffix('}').expect("the end of the labels")));
        let suffix = name.strip_prefix(family.0).expect("a sample of its family");
        match family.1 {
            "histogram" => assert!(["_bucket", "_sum", "_count"].contains(&suffix), "{line}"),
            _ => assert_eq!(suffix, "", "{line}"),
        }
        if suffix == "_bucket" {
            let (of, bound) = labels.rsplit_once("le=\"").expect("a bound");
            assert!(last.0 != of || number >= last.1, "{line}: below the bucket before");
            last = (of.to_owned(), number);
            assert!(bound == "+Inf\"" || bound.trim_end_matches('"').parse::<f64>().is_ok(), "{line}");
        } else if suffix == "_count" {
            assert!((number - last.1).abs() < f64::EPSILON, "{line}: {} in the buckets", last.1);
        }
    }
}

/// cli-utils, and with it kpt, probes `/livez/ping` with HEAD; a body would be a protocol error.
#[tokio::test]
async fn responses_to_head_have_no_body() {
    let mut rig = Rig::new(None).await;
    for (path, token, code) in [
        ("/livez/ping", "t", 200),
        ("/metrics", "t", 200),
        ("/", "t", 200),
        ("/openapi/v3", "t", 200),
        ("/version", "t", 405),
        ("/.well-known/openid-configuration", "t", 404),
        (CM, "t", 405),
        (CM, "u", 403),
        (CM, "wrong", 401),
    ] {
        let (found, headers, body) = rig.call("HEAD", path, token, "").await;
        assert_eq!((found, body.as_str()), (code, ""), "{path}");
        let length = headers.get("content-length").expect("a length").to_str().expect("text");
        assert!(length.parse::<u64>().expect("a number") > 0, "{path}");
    }
}

#[tokio::test]
async fn requests_are_counted_with_kube_apiservers_names() {
    let mut rig = Rig::new(None).await;
    let body = config_map("a");
    assert_eq!(rig.call("POST", CM, "t", &body).await.0, 201);
    assert_eq!(rig.call("GET", &format!("{CM}/a"), "t", "").await.0, 200);
    let (_, _, list) = rig.call("GET", CM, "t", "").await;
    assert_eq!(rig.call("GET", CM, "u", "").await.0, 403);
    assert_eq!(rig.call("GET", CM, "wrong", "").await.0, 401);
    let mut watch = rig.open("GET", &format!("{CM}?watch=1"), "t", "").await.into_body();
    let event = watch.frame().await.expect("an event").expect("whole").into_data().expect("data");
    let (_, _, metrics) = rig.call("GET", "/metrics", "t", "").await;
    check_format(&metrics);
    let of = "group=\"\",version=\"v1\",resource=\"configmaps\"";
    for (name, labels, expected) in [
        (
            "apiserver_request_total",
            "resource=\"configmaps\",subresource=\"\",scope=\"resource\",component=\"apiserver\",code=\"200\"",
            1.0,
        ),
        ("apiserver_request_duration_seconds_count", &format!("verb=\"POST\",dry_run=\"\",{of}"), 1.0),
        ("apiserver_request_sli_duration_seconds_count", &format!("verb=\"POST\",dry_run=\"\",{of}"), 1.0),
        ("apiserver_request_body_size_bytes_sum", "resource=\"configmaps\",verb=\"create\"", body.len() as f64),
        ("apiserver_response_sizes_sum", &format!("verb=\"LIST\",{of}"), 0.0),
        ("apiserver_response_sizes_count", &format!("verb=\"GET\",{of}"), 1.0),
        ("apiserver_longrunning_requests", &format!("verb=\"WATCH\",{of}"), 1.0),
        ("apiserver_watch_events_total", of, 1.0),
        ("apiserver_watch_events_sizes_sum", of, event.len() as f64),
        ("authentication_attempts", "result=\"failure\"", 1.0),
        ("authentication_duration_seconds_count", "result=\"failure\"", 1.0),
        ("authenticated_user_requests", "username=\"other\"", 1.0),
        ("authorization_attempts_total", "result=\"no-opinion\"", 1.0),
        ("apiserver_resource_objects", "group=\"\",resource=\"configmaps\"", 1.0),
        ("apiserver_storage_objects", "resource=\"configmaps\"", 1.0),
        ("apiserver_current_inflight_requests", "request_kind=\"readOnly\"", 1.0),
    ] {
        // One list was sent, and one was refused.
        let sizes = name == "apiserver_response_sizes_sum";
        let found = value(&metrics, name, labels);
        let right = if sizes { found > list.len() as f64 } else { found == expected };
        assert!(right, "{name} {labels}: {found}, not {expected}\n{metrics}");
    }
    drop(watch);
    // The server detects the end of the stream with the next turn of its connection.
    let open = async {
        while value(&rig.call("GET", "/metrics", "t", "").await.2, "apiserver_longrunning_requests", of) > 0.0 {}
    };
    tokio::time::timeout(Duration::from_secs(10), open).await.expect("the watch has ended");
}

#[tokio::test]
async fn a_shutdown_is_announced_before_requests_are_refused_and_watches_end() {
    let mut rig = Rig::new(None).await;
    assert_eq!(rig.call("POST", CM, "t", &config_map("a")).await.0, 201);
    let watch = rig.open("GET", &format!("{CM}?watch=1"), "t", "").await.into_body();
    let events = tokio::spawn(watch.collect());
    rig.server.announce_shutdown();
    let (code, _, text) = rig.call("GET", "/readyz", "", "").await;
    assert_eq!(code, 403, "{text}");
    let (code, _, text) = rig.call("GET", "/readyz", "t", "").await;
    assert!(code == 500 && text.contains("[-]shutdown failed: reason withheld\nreadyz check failed"), "{text}");
    assert_eq!(rig.call("GET", "/livez", "t", "").await.0, 200);
    assert_eq!(rig.call("POST", CM, "t", &config_map("b")).await.0, 201, "everything is still served");
    rig.server.refuse_requests();
    let (code, headers, text) = rig.call("POST", CM, "t", &config_map("c")).await;
    let status: Value = serde_json::from_str(&text).expect("a Status");
    assert_eq!((code, &status["reason"]), (429, &json!("TooManyRequests")));
    assert_eq!(status["message"], "The apiserver is shutting down, please try again later.");
    assert_eq!(headers["retry-after"], "5");
    assert_eq!(rig.call("GET", "/livez", "t", "").await.0, 200);
    rig.server.end_watches_within(Duration::from_millis(20));
    let events = events.await.expect("no panic").expect("an orderly end").to_bytes();
    let events: Vec<&[u8]> = events.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    assert_eq!(events.len(), 2, "every acknowledged write, whole");
    rig.stop.cancel();
    rig.serving.await.expect("no panic");
    rig.connection.await.expect("no panic").expect("GOAWAY, then an orderly end");
}

#[tokio::test]
async fn a_watch_that_ends_together_with_its_last_event_ends_in_order() {
    let mut rig = Rig::new(None).await;
    assert_eq!(rig.call("POST", CM, "t", &config_map("a")).await.0, 201);
    rig.server.end_watches();
    let watch = rig.open("GET", &format!("{CM}?watch=1&resourceVersion=0"), "t", "").await.into_body();
    let events = watch.collect().await.expect("an orderly end").to_bytes();
    assert_eq!(events.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count(), 1);
    rig.stop.cancel();
    rig.serving.await.expect("no panic");
    rig.connection.await.expect("no panic").expect("GOAWAY, then an orderly end");
}

#[tokio::test(start_paused = true)]
async fn watches_end_one_after_another_within_the_grace_period() {
    let (server, client) = crate::objects::server().await;
    let options = client::WatchOptions::default();
    let mut ends = Vec::new();
    let begun = tokio::time::Instant::now();
    for _ in 0..50 {
        let mut watch = client.watch(&crate::objects::config_maps(), Some("default"), &options).await.expect("a watch");
        ends.push(tokio::spawn(async move {
            while futures::StreamExt::next(&mut watch).await.is_some() {}
            begun.elapsed()
        }));
    }
    server.end_watches_within(Duration::from_secs(30));
    let ends: Vec<Duration> = futures::future::try_join_all(ends).await.expect("no panic");
    assert!(ends.iter().all(|end| *end <= Duration::from_secs(30)), "{ends:?}");
    for half in [Duration::ZERO..Duration::from_secs(15), Duration::from_secs(15)..Duration::from_secs(31)] {
        assert!(ends.iter().any(|end| half.contains(end)), "{half:?}: {ends:?}");
    }
}

#[tokio::test]
async fn connections_are_closed_with_the_goaway_chance() {
    let mut rig = Rig::new(Some(1.0)).await;
    assert_eq!(rig.call("POST", CM, "t", &config_map("a")).await.0, 201, "the request itself is answered");
    let ended = tokio::time::timeout(Duration::from_secs(10), rig.connection).await;
    ended.expect("the connection is closed to new requests").expect("no panic").expect("an orderly end");
    rig.stop.cancel();
    rig.serving.await.expect("no panic");
}
