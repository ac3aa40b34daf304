//! API priority and fairness over connections. Time is virtual, and connections are pipes in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey, Status};
use apiserver::auth::authn::Authentication;
use apiserver::flow::Settings;
use apiserver::flow::bootstrap;
use apiserver::request::RequestInfo;
use apiserver::serve::{self, Limits};
use apiserver::{Admission, AdmissionRequest, ApiServer, Authorization, Peer, Route, ServerConfig, Shared};
use bytes::Bytes;
use client::{Client, DeleteOptions, Patch, PatchOptions};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use storage::Store;
use storage::memory::MemoryStore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use transport::{ApiService, Identity, Request, Response};
use world::World;

use crate::slow_store::Slow;

const WORK: Duration = Duration::from_millis(100);
const FLOW: &str = "flowcontrol.apiserver.k8s.io";

/// `/work` takes a while.
#[derive(Clone, Default)]
struct Work {
    running: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Route for Work {
    fn takes(&self, info: &RequestInfo) -> bool {
        info.path == "/work"
    }

    fn call<'a>(
        &'a self,
        _: &'a Shared,
        _: &'a RequestInfo,
        _: &'a Identity,
        _: Request,
    ) -> BoxFuture<'a, Result<Response, Status>> {
        async move {
            let running = self.running.fetch_add(1, Relaxed) + 1;
            self.most.fetch_max(running, Relaxed);
            tokio::time::sleep(WORK).await;
            self.running.fetch_sub(1, Relaxed);
            Ok(Response::new(transport::full("done")))
        }
        .boxed()
    }
}

struct Rig {
    server: ApiServer,
    client: Client,
    limits: Limits,
    work: Work,
}

fn levels() -> ApiResource {
    ApiResource::cluster(FLOW, "v1", "PriorityLevelConfiguration", "prioritylevelconfigurations")
}

fn schemas() -> ApiResource {
    ApiResource::cluster(FLOW, "v1", "FlowSchema", "flowschemas")
}

impl Rig {
    /// A server with the suggested objects.
    async fn new(settings: Settings) -> Self {
        Self::over(Arc::new(MemoryStore::new()), settings).await
    }

    async fn over(store: Arc<dyn Store>, settings: Settings) -> Self {
        Self::of(store, settings, Vec::new()).await
    }

    async fn of(store: Arc<dyn Store>, settings: Settings, admission: Vec<Arc<dyn Admission>>) -> Self {
        let start = jiff::Timestamp::from_second(1_790_000_000).expect("in range");
        let work = Work::default();
        let server = ApiServer::start(ServerConfig {
            store,
            world: World::simulated(start, 1),
            resources: kubernetes_api::resources(),
            admission,
            authentication: Box::new(|_| Authentication::default()),
            authorization: Authorization::AlwaysAllow,
            routes: vec![Arc::new(work.clone())],
            crds: Vec::new(),
            converters: Default::default(),
            version: Default::default(),
        })
        .await
        .expect("an empty store");
        let client = Client::in_process(server.service(), Identity::system("test"));
        let namespace = json!({"metadata": {"name": "default"}});
        client.create(&crate::objects::namespaces(), &namespace).await.expect("a namespace");
        for level in bootstrap::priority_levels() {
            client.create(&levels(), &level).await.expect("a level");
        }
        for schema in bootstrap::flow_schemas() {
            client.create(&schemas(), &schema).await.expect("a schema");
        }
        server.bound_requests(settings);
        let limits = Limits { requests_per_user: 100_000, streams_per_connection: 10_000, ..server.limits() };
        Self { server, client, limits, work }
    }

    /// A connection of a user.
    async fn connect(&self, user: &'static str) -> SendRequest<Full<Bytes>> {
        let (near, far) = tokio::io::duplex(1 << 20);
        let peer = Peer::new(([127, 0, 0, 1], 1).into(), []);
        let service = ApiService::new(self.server.service().map_request(move |mut request: Request| {
            let identity =
                Identity { user: user.into(), groups: vec!["system:authenticated".into()], ..Identity::default() };
            request.extensions_mut().insert(identity);
            request
        }));
        tokio::spawn(serve::serve_stream(far, peer, service, self.limits.clone(), CancellationToken::new()));
        let (sender, connection) = Builder::new(TokioExecutor::new())
            .initial_stream_window_size(1 << 10)
            .handshake(TokioIo::new(near))
            .await
            .expect("HTTP/2");
        tokio::spawn(connection);
        sender
    }

    async fn uid(&self, resource: &ApiResource, name: &str) -> String {
        let object = self.client.get(resource, &ObjectKey::cluster(name)).await.expect("an object");
        object.uid().to_owned()
    }

    async fn put_level(&self, name: &str, limited: Value) {
        let level = json!({"apiVersion": format!("{FLOW}/v1"), "kind": "PriorityLevelConfiguration",
            "metadata": {"name": name}, "spec": {"type": "Limited", "limited": limited}});
        self.client.create(&levels(), &level).await.expect("a level");
    }

    /// A schema for a user.
    async fn put_schema(&self, name: &str, level: &str, user: &str) {
        let schema = json!({"apiVersion": format!("{FLOW}/v1"), "kind": "FlowSchema", "metadata": {"name": name},
            "spec": {"matchingPrecedence": 50, "priorityLevelConfiguration": {"name": level},
                "rules": [{"subjects": [{"kind": "User", "user": {"name": user}}],
                    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true,
                        "namespaces": ["*"]}],
                    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}]}});
        self.client.create(&schemas(), &schema).await.expect("a schema");
    }
}

struct Answer {
    code: u16,
    headers: http::HeaderMap,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("-", |value| value.to_str().expect("text"))
    }
}

async fn send(
    sender: &SendRequest<Full<Bytes>>,
    method: &str,
    url: &str,
    body: &str,
) -> http::Response<hyper::body::Incoming> {
    let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = http::Request::builder()
        .method(method)
        .uri(format!("http://server{url}"))
        .header("content-type", content_type)
        .body(Full::from(body.to_owned()))
        .expect("a request");
    sender.clone().send_request(request).await.expect("a response")
}

async fn call(sender: &SendRequest<Full<Bytes>>, method: &str, url: &str, body: &str) -> Answer {
    let (head, body) = send(sender, method, url, body).await.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    Answer { code: head.status.as_u16(), headers: head.headers, body: String::from_utf8_lossy(&body).into_owned() }
}

#[tokio::test(start_paused = true)]
async fn responses_name_the_schema_and_the_level() {
    let rig = Rig::new(Settings::default()).await;
    let sender = rig.connect("jane").await;
    let expected = [rig.uid(&schemas(), "global-default").await, rig.uid(&levels(), "global-default").await];
    for (method, url, code) in [
        ("GET", "/api/v1/namespaces/default/configmaps", 200),
        ("GET", "/api/v1/namespaces/default/configmaps/missing", 404),
        ("GET", "/api/v1/configmaps?watch=1&timeoutSeconds=1", 200),
        ("GET", "/nothing", 404),
        ("PUT", "/api/v1/namespaces/default/configmaps/a", 400),
    ] {
        let answer = call(&sender, method, url, "").await;
        let found =
            [answer.header("x-kubernetes-pf-flowschema-uid"), answer.header("x-kubernetes-pf-prioritylevel-uid")];
        assert_eq!((answer.code, found), (code, [&*expected[0], &*expected[1]]), "{method} {url}");
    }
    let probe = call(&sender, "GET", "/readyz", "").await;
    assert_eq!(probe.header("x-kubernetes-pf-flowschema-uid"), rig.uid(&schemas(), "probes").await);
    // A caller in the process is not classified.
    let request = http::Request::get("/version").extension(Identity::system("test")).body(transport::empty());
    let answer = rig.server.service().oneshot(request.expect("a request")).await.expect("infallible");
    assert!(answer.headers().get("x-kubernetes-pf-flowschema-uid").is_none());
    rig.server.shutdown();
}

#[tokio::test(start_paused = true)]
async fn a_full_level_rejects_and_other_levels_serve() {
    let rig = Rig::new(Settings { reads: 10, writes: 0, ..Settings::default() }).await;
    let queuing = json!({"queues": 1, "handSize": 1, "queueLengthLimit": 1});
    rig.put_level(
        "narrow",
        json!({"nominalConcurrencyShares": 1, "borrowingLimitPercent": 0,
        "limitResponse": {"type": "Queue", "queuing": queuing}}),
    )
    .await;
    rig.put_schema("jane", "narrow", "jane").await;
    let (jane, other) = (rig.connect("jane").await, rig.connect("other").await);
    let first = tokio::spawn({
        let jane = jane.clone();
        async move { call(&jane, "GET", "/work", "").await.code }
    });
    let second = tokio::spawn({
        let jane = jane.clone();
        async move { call(&jane, "GET", "/work", "").await.code }
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    let refused = call(&jane, "GET", "/api/v1/configmaps", "").await;
    assert_eq!((refused.code, refused.header("retry-after")), (429, "1"));
    assert_eq!(refused.header("x-kubernetes-pf-prioritylevel-uid"), rig.uid(&levels(), "narrow").await);
    let status: Value = serde_json::from_str(&refused.body).expect("a Status");
    assert_eq!(
        (&status["reason"], &status["message"], &status["details"]["retryAfterSeconds"]),
        (&json!("TooManyRequests"), &json!("Too many requests, please try again later."), &json!(1))
    );
    assert_eq!(call(&other, "GET", "/api/v1/configmaps", "").await.code, 200);
    let dump = call(&other, "GET", "/debug/api_priority_and_fairness/dump_priority_levels", "").await.body;
    let row = dump.lines().find(|line| line.starts_with("narrow,")).expect("a row");
    let cells: Vec<&str> = row.split(',').map(str::trim).collect();
    assert_eq!(cells, ["narrow", "1", "false", "false", "1", "1", "1", "1", "0", "0"], "{dump}");
    let dump = call(&other, "GET", "/debug/api_priority_and_fairness/dump_queues", "").await.body;
    assert!(dump.starts_with("PriorityLevelName, Index, PendingRequests, "), "{dump}");
    let dump =
        call(&other, "GET", "/debug/api_priority_and_fairness/dump_requests?includeRequestDetails=1", "").await.body;
    let row = dump.lines().find(|line| line.starts_with("narrow,")).expect("a row");
    assert!(row.contains("jane,") && row.contains(" get, ") && row.contains(" /work,"), "{dump}");
    let metrics = call(&other, "GET", "/metrics", "").await.body;
    for line in [
        r#"apiserver_flowcontrol_rejected_requests_total{priority_level="narrow",flow_schema="jane",reason="queue-full"} 1"#,
        r#"apiserver_flowcontrol_current_inqueue_requests{priority_level="narrow",flow_schema="jane"} 1"#,
        r#"apiserver_flowcontrol_current_executing_requests{priority_level="narrow",flow_schema="jane"} 1"#,
        r#"apiserver_flowcontrol_nominal_limit_seats{priority_level="narrow"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    assert_eq!((first.await.expect("served"), second.await.expect("served")), (200, 200));
    // The request that waited was served when the first one ended, and another user can have more at once.
    let shares = Patch::Merge(json!({"spec": {"limited": {"nominalConcurrencyShares": 1000}}}));
    let key = ObjectKey::cluster("narrow");
    rig.client.patch(&levels(), &key, &shares, &PatchOptions::default()).await.expect("a patch");
    let many = (0..5).map(|_| call(&jane, "GET", "/work", ""));
    let codes: Vec<u16> = futures::future::join_all(many).await.iter().map(|answer| answer.code).collect();
    assert_eq!(codes, [200; 5], "the changed level is in effect at once");
    rig.client.delete(&schemas(), &ObjectKey::cluster("jane"), &DeleteOptions::default()).await.expect("deleted");
    let answer = call(&jane, "GET", "/version", "").await;
    assert_eq!(answer.header("x-kubernetes-pf-flowschema-uid"), rig.uid(&schemas(), "global-default").await);
    rig.server.shutdown();
}

#[tokio::test(start_paused = true)]
async fn a_started_watch_holds_no_seat() {
    let rig = Rig::new(Settings { reads: 10, writes: 0, ..Settings::default() }).await;
    rig.put_level("narrow", json!({"nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}})).await;
    rig.put_schema("jane", "narrow", "jane").await;
    let jane = rig.connect("jane").await;
    let mut watches = Vec::new();
    for _ in 0..20 {
        let watch = send(&jane, "GET", "/api/v1/configmaps?watch=1", "").await;
        assert_eq!(watch.status(), 200);
        watches.push(watch);
    }
    assert_eq!(call(&jane, "GET", "/api/v1/configmaps", "").await.code, 200);
    rig.server.shutdown();
}

/// A write keeps seats for the watches that receive its event, and for no others.
#[tokio::test(start_paused = true)]
async fn watches_of_other_namespaces_delay_no_write() {
    let rig = Rig::new(Settings::default()).await;
    let other = json!({"metadata": {"name": "other"}});
    rig.client.create(&crate::objects::namespaces(), &other).await.expect("a namespace");
    let (watcher, writer) = (rig.connect("watcher").await, rig.connect("writer").await);
    let mut watches = Vec::new();
    for n in 0..600 {
        let path = match n % 2 {
            0 => "/api/v1/namespaces/other/configmaps?watch=1",
            _ => "/api/v1/namespaces/default/configmaps?watch=1&fieldSelector=metadata.name%3Dother",
        };
        watches.push(send(&watcher, "GET", path, "").await);
    }
    let begun = Instant::now();
    for n in 0..50 {
        let path = format!("/api/v1/namespaces/default/configmaps/a{n}?fieldManager=a");
        let body = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a{n}"}}}}"#);
        assert_eq!(call(&writer, "POST", "/api/v1/namespaces/default/configmaps", &body).await.code, 201);
        assert_eq!(call(&writer, "PUT", &path, &body).await.code, 200);
        assert_eq!(call(&writer, "GET", &path, "").await.code, 200);
    }
    assert_eq!(begun.elapsed(), Duration::ZERO, "no request waited for a seat");
    rig.server.shutdown();
}

/// One user with thousands of requests in flight and many watches that it does not read, beside another one.
#[tokio::test(start_paused = true)]
async fn a_flooding_user_does_not_block_another() {
    const FLOOD: usize = 4000;
    const WATCHES: usize = 500;
    let rig = Rig::new(Settings::default()).await;
    for n in 0..100 {
        let object =
            json!({"metadata": {"name": format!("a{n}"), "namespace": "default"}, "data": {"k": "x".repeat(2000)}});
        rig.client.create(&crate::objects::config_maps(), &object).await.expect("a config map");
    }
    let watcher = rig.connect("greedy").await;
    let mut watches = Vec::new();
    for _ in 0..WATCHES {
        watches.push(send(&watcher, "GET", "/api/v1/configmaps?watch=1", "").await);
    }
    let mut flood = Vec::new();
    for _ in 0..4 {
        let greedy = rig.connect("greedy").await;
        for _ in 0..FLOOD / 4 {
            let greedy = greedy.clone();
            flood.push(tokio::spawn(async move { call(&greedy, "GET", "/work", "").await.code }));
        }
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(rig.work.running.load(Relaxed) > 10, "the flood is there");
    let neighbor = rig.connect("neighbor").await;
    let mut longest = Duration::ZERO;
    for n in 0..20 {
        let begun = Instant::now();
        let list = call(&neighbor, "GET", "/api/v1/namespaces/default/configmaps?limit=5", "").await;
        let body = format!(r#"{{"metadata":{{"name":"b{n}"}}}}"#);
        let created = call(&neighbor, "POST", "/api/v1/namespaces/default/configmaps", &body).await;
        assert_eq!((list.code, created.code), (200, 201), "{n}: {}", created.body);
        longest = longest.max(begun.elapsed());
        // Unread bytes of clients.
        let in_flight = rig.limits.budgets.in_flight();
        assert!(in_flight <= 64 << 20, "{in_flight} bytes");
    }
    // They find spare seats; those of a write stay occupied for its watches for some milliseconds.
    assert!(longest < WORK / 10, "{longest:?}");
    let mut codes = BTreeMap::<u16, usize>::new();
    for task in flood {
        *codes.entry(task.await.expect("no panic")).or_default() += 1;
    }
    assert_eq!(codes.values().sum::<usize>(), FLOOD);
    // 49 seats, and 6 queues of 50; the rest is refused at once.
    let most = rig.work.most.load(Relaxed);
    assert!(most <= 60, "{most} at once");
    assert!(codes[&200] >= 49 && codes[&200] <= 400 && codes[&429] >= FLOOD - 400, "{codes:?}");
    assert!(watches.iter().all(|watch| watch.status() == 200));
    assert_eq!(call(&rig.connect("greedy").await, "GET", "/version", "").await.code, 200, "once the flood is over");
    rig.server.shutdown();
}

/// Patches of one object follow each other, each with the seat that it got before it waits for those before it. On a slow
/// disk a user holds all seats that way.
#[tokio::test(start_paused = true)]
async fn patches_of_one_object_on_a_slow_disk_delay_no_read_of_another_user() {
    const PATCHES: usize = 300;
    let rig = Rig::over(Slow::new(WORK), Settings::default()).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    for name in ["a", "b"] {
        let object = json!({"metadata": {"name": name, "namespace": "default"}, "data": {"k": "v"}});
        rig.client.create(&crate::objects::config_maps(), &object).await.expect("a config map");
    }
    let (greedy, neighbor) = (rig.connect("greedy").await, rig.connect("neighbor").await);
    let mut patches = Vec::new();
    for n in 0..PATCHES {
        let greedy = greedy.clone();
        let (url, body) = (format!("{maps}/a"), format!(r#"{{"data":{{"k":"{n}"}}}}"#));
        patches.push(tokio::spawn(async move { call(&greedy, "PATCH", &url, &body).await.code }));
    }
    tokio::time::sleep(WORK / 2).await;
    let dump = call(&neighbor, "GET", "/debug/api_priority_and_fairness/dump_priority_levels", "").await.body;
    let row = dump.lines().find(|line| line.starts_with("global-default,")).expect("a row");
    let waiting = row.split(',').nth(4).and_then(|cell| cell.trim().parse::<u32>().ok());
    assert!(waiting > Some(100), "requests wait for seats: {row}");
    let own = format!("{maps}/b");
    for n in 0..20 {
        let begun = Instant::now();
        assert_eq!(call(&neighbor, "GET", &own, "").await.code, 200);
        assert_eq!(begun.elapsed(), Duration::ZERO, "get {n}");
        let body = format!(r#"{{"data":{{"k":"{n}"}}}}"#);
        assert_eq!(call(&neighbor, "PATCH", &own, &body).await.code, 200);
        assert_eq!(begun.elapsed(), WORK, "patch {n}: its own write and no other");
    }
    patches.iter().for_each(tokio::task::JoinHandle::abort);
    rig.server.shutdown();
}

/// Calls a program of a user that takes a while.
struct Calls;

impl Admission for Calls {
    fn mutate<'a>(&'a self, request: &'a mut AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        async move {
            if request.is_for("", "configmaps") {
                tokio::time::sleep(WORK).await;
                request.waited(apiserver::admit::durations::Phase::Validate, WORK);
            }
            if request.key.name() == "refused" { Err(request.forbidden("no")) } else { Ok(()) }
        }
        .boxed()
    }
}

/// Alerts about the server's service level must not be raised by slow webhooks, or by a client with too many requests.
#[tokio::test(start_paused = true)]
async fn the_service_level_indicator_excludes_webhooks_and_waits_for_seats() {
    let settings = Settings { reads: 10, writes: 0, ..Settings::default() };
    let rig = Rig::of(Arc::new(MemoryStore::new()), settings, vec![Arc::new(Calls)]).await;
    let queuing = json!({"queues": 1, "handSize": 1, "queueLengthLimit": 5});
    let limited = json!({"nominalConcurrencyShares": 1, "borrowingLimitPercent": 0,
        "limitResponse": {"type": "Queue", "queuing": queuing}});
    rig.put_level("narrow", limited).await;
    rig.put_schema("jane", "narrow", "jane").await;
    let (jane, other, maps) =
        (rig.connect("jane").await, rig.connect("other").await, "/api/v1/namespaces/default/configmaps");
    for (name, code) in [("a", 201), ("refused", 403)] {
        let body = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
        assert_eq!(call(&other, "POST", maps, &body).await.code, code);
    }
    let own = format!("{maps}/a");
    let (work, waits) = tokio::join!(call(&jane, "GET", "/work", ""), call(&jane, "GET", &own, ""));
    assert_eq!((work.code, waits.code), (200, 200));
    let metrics = call(&other, "GET", "/metrics", "").await.body;
    let seconds = |name: &str, verb: &str| {
        let of = |line: &&str| {
            line.starts_with(name) && line.contains(&format!("verb=\"{verb}\"")) && line.contains("\"configmaps\"")
        };
        let number = metrics.lines().find(of).and_then(|line| line.rsplit(' ').next()).expect("a sample");
        number.parse::<f64>().expect("a number")
    };
    for (verb, took) in [("POST", 2.0 * WORK.as_secs_f64()), ("GET", WORK.as_secs_f64())] {
        let (all, own) = (
            seconds("apiserver_request_duration_seconds_sum", verb),
            seconds("apiserver_request_sli_duration_seconds_sum", verb),
        );
        assert!(all >= took && all < 1.5 * took && own < 0.01 * took, "{verb} {all} {own}");
    }
    rig.server.shutdown();
}
