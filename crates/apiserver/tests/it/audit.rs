//! Audit events of requests over every way into the server.

use std::sync::Arc;

use apimachinery::ObjectKey;
use apiserver::ApiServer;
use apiserver::audit::{Auditor, Sink, SinkError};
use audit::{Event, Policy};
use client::{Client, ListOptions, Patch, PatchOptions, Write};
use futures::FutureExt;
use futures::future::BoxFuture;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::ServiceExt;
use transport::{Identity, Request};

use crate::objects::{config_maps, server};

#[derive(Default)]
pub(crate) struct Memory {
    events: Mutex<Vec<Value>>,
    fails: bool,
}

impl Sink for Memory {
    fn take<'a>(&'a self, event: &'a Event) -> BoxFuture<'a, Result<(), SinkError>> {
        self.events.lock().push(serde_json::from_str(&event.to_json()).expect("JSON"));
        let failure = SinkError { message: "the disk is full".into(), is_strict: true };
        std::future::ready(if self.fails { Err(failure) } else { Ok(()) }).boxed()
    }
}

impl Memory {
    pub(crate) fn take_events(&self) -> Vec<Value> {
        std::mem::take(&mut *self.events.lock())
    }
}

async fn audited(rules: &str, fails: bool) -> (ApiServer, Client, Arc<Memory>) {
    let (server, client) = server().await;
    let memory = recorded(&server, rules, fails);
    (server, client, memory)
}

/// The events of the server from now on.
pub(crate) fn recorded(server: &ApiServer, rules: &str, fails: bool) -> Arc<Memory> {
    let text = format!("{{apiVersion: audit.k8s.io/v1, kind: Policy, rules: {rules}}}");
    let policy = Policy::parse(text.as_bytes()).expect("a policy").policy;
    let memory = Arc::new(Memory { fails, ..Memory::default() });
    server.audit(Auditor::new(policy, vec![memory.clone()], &server.shared().metrics));
    memory
}

/// A request as from a socket, without an identity if `user` is `None`.
async fn send(server: &ApiServer, user: Option<&str>, request: http::request::Builder, body: &str) -> (u16, String) {
    let mut request: Request = request.body(transport::full(body.to_owned())).expect("a request");
    if let Some(user) = user {
        let groups = vec!["system:masters".to_owned(), "system:authenticated".to_owned()];
        let groups = if user == "bob" { Vec::new() } else { groups };
        request.extensions_mut().insert(Identity { user: user.to_owned(), groups, ..Identity::default() });
    }
    let response = server.service().oneshot(request).await.expect("an answer");
    let (code, id) = (response.status().as_u16(), response.headers()["audit-id"].to_str().expect("text").to_owned());
    response.into_body().collect().await.expect("a body");
    (code, id)
}

fn stages(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["stage"].as_str().unwrap_or_default()).collect()
}

#[tokio::test]
async fn a_request_has_an_event_for_each_stage() {
    let (server, _client, memory) = audited("[{level: RequestResponse}]", false).await;
    let create = http::Request::post("/api/v1/namespaces/default/configmaps?fieldManager=m")
        .header("content-type", "application/json")
        .header("user-agent", "tester/1")
        .header("x-forwarded-for", "10.1.2.3");
    let (code, id) = send(&server, Some("ann"), create, r#"{"metadata":{"name":"c"},"data":{"k":"v"}}"#).await;
    assert_eq!(code, 201);
    let events = memory.take_events();
    assert_eq!(stages(&events), ["RequestReceived", "ResponseComplete"]);
    assert!(events.iter().all(|event| event["auditID"] == id && event["level"] == "RequestResponse"), "{events:?}");
    let (first, last) = (&events[0], &events[1]);
    assert_eq!(first["requestURI"], "/api/v1/namespaces/default/configmaps?fieldManager=m");
    assert_eq!(
        (&first["verb"], &first["userAgent"], &first["sourceIPs"]),
        (&json!("create"), &json!("tester/1"), &json!(["10.1.2.3"]))
    );
    assert_eq!(first["user"], json!({"username": "ann", "groups": ["system:masters", "system:authenticated"]}));
    assert_eq!(first.get("responseStatus"), None);
    assert_eq!(last["responseStatus"], json!({"metadata": {}, "code": 201}));
    let reference = json!({"resource": "configmaps", "namespace": "default", "name": "c", "apiVersion": "v1"});
    assert_eq!(last["objectRef"], reference);
    assert_eq!(last["requestObject"], json!({"metadata": {"name": "c"}, "data": {"k": "v"}}));
    assert_eq!(
        (&last["responseObject"]["kind"], &last["responseObject"]["data"]["k"]),
        (&json!("ConfigMap"), &json!("v"))
    );
    assert_eq!(last["annotations"]["authorization.k8s.io/decision"], "allow");
}

#[tokio::test]
async fn refusals_and_failures_are_recorded_with_their_status() {
    let (server, _client, memory) = audited("[{level: Request}]", false).await;
    let list = || http::Request::get("/api/v1/namespaces/default/configmaps");
    assert_eq!(send(&server, Some("bob"), list(), "").await.0, 403);
    let event = memory.take_events().pop().expect("an event");
    assert_eq!(
        (&event["responseStatus"]["reason"], &event["responseStatus"]["code"]),
        (&json!("Forbidden"), &json!(403))
    );
    assert_eq!(event["annotations"]["authorization.k8s.io/decision"], "forbid");

    // The body of a refused request is not read.
    let create = http::Request::post("/api/v1/namespaces/default/configmaps");
    assert_eq!(send(&server, Some("bob"), create, "{}").await.0, 403);
    assert_eq!(memory.take_events().pop().expect("an event").get("requestObject"), None);

    let bearer = list().header("authorization", "Bearer hidden");
    assert_eq!(send(&server, None, bearer, "").await.0, 401);
    let events = memory.take_events();
    assert_eq!(stages(&events), ["ResponseStarted"]);
    assert_eq!(events[0]["responseStatus"]["message"], "Authentication failed, attempted: bearer");
    assert!(!events[0].to_string().contains("hidden"));

    assert_eq!(
        send(&server, Some("ann"), http::Request::get("/api/v1/namespaces/default/configmaps/none"), "").await.0,
        404
    );
    let event = memory.take_events().pop().expect("an event");
    assert_eq!(event["responseStatus"]["message"], r#"configmaps "none" not found"#);
}

#[tokio::test]
async fn an_impersonated_request_records_both_users() {
    let (server, _client, memory) = audited("[{level: Metadata, omitStages: [RequestReceived]}]", false).await;
    let list = http::Request::get("/api/v1/configmaps").header("impersonate-user", "carl");
    assert_eq!(send(&server, Some("ann"), list, "").await.0, 403);
    let event = memory.take_events().pop().expect("an event");
    assert_eq!((&event["user"]["username"], &event["impersonatedUser"]["username"]), (&json!("ann"), &json!("carl")));
}

#[tokio::test]
async fn no_secret_reaches_an_event() {
    let (server, client, memory) = audited("[{level: RequestResponse}]", false).await;
    let path = "/api/v1/namespaces/default/secrets";
    let json = |request: http::request::Builder| request.header("content-type", "application/json");
    let secret = r#"{"metadata":{"name":"s"},"stringData":{"k":"hidden"}}"#;
    assert_eq!(send(&server, Some("ann"), json(http::Request::post(path)), secret).await.0, 201);
    let patch = http::Request::patch(format!("{path}/s")).header("content-type", "application/merge-patch+json");
    assert_eq!(send(&server, Some("ann"), patch, r#"{"stringData":{"k":"hidden2"}}"#).await.0, 200);
    let patch = http::Request::patch(format!("{path}/s")).header("content-type", "application/json-patch+json");
    let operations = r#"[{"op":"add","path":"/stringData","value":{"q":"hidden3"}}]"#;
    assert_eq!(send(&server, Some("ann"), patch, operations).await.0, 200);
    for accept in [
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/json;as=Table;g=meta.k8s.io;v=v1",
    ] {
        let list = http::Request::get(format!("{path}?includeObject=Object")).header("accept", accept);
        assert_eq!(send(&server, Some("ann"), list, "").await.0, 200);
    }
    let secrets = apimachinery::ApiResource::namespaced("", "v1", "Secret", "secrets");
    let key = ObjectKey::namespaced("default", "s");
    client
        .patch(&secrets, &key, &Patch::Merge(json!({"stringData": {"k": "hidden"}})), &PatchOptions::default())
        .await
        .expect("the patch");
    client.get(&secrets, &key).await.expect("the Secret");
    let text = serde_json::to_string(&memory.take_events()).expect("JSON");
    // `hidden` and its base64, `aGlkZGVu`.
    assert!(text.contains("REDACTED") && !text.contains("hidden") && !text.contains("aGlkZGVu"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_recorded_when_it_starts_and_when_it_ends() {
    let (server, client, memory) = audited("[{level: Metadata, verbs: [watch]}]", false).await;
    let request = http::Request::get("/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=1");
    let (code, _) = send(&server, Some("ann"), request, "").await;
    assert_eq!(code, 200);
    while memory.events.lock().len() < 3 {
        tokio::task::yield_now().await;
    }
    let events = memory.take_events();
    assert_eq!(stages(&events), ["RequestReceived", "ResponseStarted", "ResponseComplete"]);
    assert!(events.iter().all(|event| event["verb"] == "watch"));
    client.list(&config_maps(), None, &ListOptions::default()).await.expect("a list");
    assert!(memory.take_events().is_empty());
}

#[tokio::test]
async fn in_process_requests_are_recorded() {
    let (_server, client, memory) =
        audited("[{level: Request, omitStages: [RequestReceived], omitManagedFields: true}]", false).await;
    let object = json!({"metadata": {"name": "c", "namespace": "default"}, "data": {"k": "v"}});
    client.create(&config_maps(), &object).await.expect("a ConfigMap");
    let event = memory.take_events().pop().expect("an event");
    assert_eq!(
        (&event["user"]["username"], &event["requestObject"]["data"]["k"]),
        (&json!("system:test"), &json!("v"))
    );
}

#[tokio::test]
async fn writes_that_are_stored_together_are_recorded_each() {
    let (_server, client, memory) = audited("[{level: Request, omitStages: [RequestReceived]}]", false).await;
    let resource = config_maps();
    let object = |name: &str| json!({"metadata": {"name": name, "namespace": "default"}});
    let writes = || ["a", "b"].map(|name| Write::create(&resource, &object(name)).expect("a write")).to_vec();
    assert_eq!(client.write_together(writes()).await.expect("an answer").map(|objects| objects.len()), Some(2));
    let mut events = memory.take_events();
    events.sort_by_key(|event| event["objectRef"]["name"].to_string());
    let shown: Vec<_> = events.iter().map(|it| (&it["objectRef"]["name"], &it["responseStatus"]["code"])).collect();
    assert_eq!(shown, [(&json!("a"), &json!(201)), (&json!("b"), &json!(201))]);
    assert!(client.write_together(writes()).await.expect("an answer").is_none());
    let codes: Vec<_> = memory.take_events().iter().map(|event| event["responseStatus"]["code"].clone()).collect();
    assert_eq!(codes, [409, 409]);
}

#[tokio::test]
async fn objects_that_are_created_together_are_recorded_each() {
    let (_server, client, memory) = audited("[{level: RequestResponse, omitStages: [RequestReceived]}]", false).await;
    let object =
        |name: &str, key: &str| json!({"metadata": {"name": name, "namespace": "default"}, "data": {key: "v"}});
    let objects = [object("a", "k"), object("b", "not a key"), object("c", "k")].map(Into::into).to_vec();
    let outcomes = client.create_all(&config_maps(), Some("default"), objects).await.expect("an answer");
    assert_eq!(outcomes.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    let mut events = memory.take_events();
    events.sort_by_key(|event| event["objectRef"]["name"].to_string());
    let shown: Vec<_> = events
        .iter()
        .map(|event| {
            let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or("-").to_owned();
            (text("/verb"), text("/requestURI"), text("/objectRef/name"), text("/responseObject/kind"))
        })
        .collect();
    let url = "/api/v1/namespaces/default/configmaps";
    let expected = [("a", "ConfigMap"), ("b", "Status"), ("c", "ConfigMap")];
    let expected = expected.map(|(name, kind)| ("create".to_owned(), url.to_owned(), name.to_owned(), kind.to_owned()));
    assert_eq!(shown, expected);
    let codes: Vec<_> = events.iter().map(|event| event["responseStatus"]["code"].clone()).collect();
    assert_eq!(codes, [201, 422, 201]);
    let ids: std::collections::BTreeSet<_> = events.iter().map(|event| event["auditID"].to_string()).collect();
    assert_eq!(ids.len(), 3);
    assert!(events.iter().all(|event| event["annotations"]["authorization.k8s.io/decision"] == "allow"));
}

/// Each is refused by itself, as if it had been sent alone.
#[tokio::test]
async fn a_strict_sink_that_fails_refuses_each_of_the_objects_that_are_created_together() {
    let (_server, client, memory) = audited("[{level: Metadata}]", true).await;
    let objects = ["a", "b"].map(|name| json!({"metadata": {"name": name}}).into()).to_vec();
    let outcomes = client.create_all(&config_maps(), Some("default"), objects).await.expect("an answer");
    assert!(outcomes.len() == 2 && outcomes.iter().all(Result::is_err), "{outcomes:?}");
    assert_eq!(memory.take_events().len(), 4);
}

#[tokio::test]
async fn a_strict_sink_that_fails_refuses_the_request() {
    let (server, _client, memory) = audited("[{level: Metadata, verbs: [create]}]", true).await;
    let create =
        || http::Request::post("/api/v1/namespaces/default/configmaps").header("content-type", "application/json");
    let object = r#"{"metadata":{"name":"c"}}"#;
    assert_eq!(send(&server, Some("ann"), create(), object).await.0, 500);
    assert_eq!(stages(&memory.take_events())[0], "RequestReceived");
    let get = http::Request::get("/api/v1/namespaces/default/configmaps/c");
    assert_eq!(send(&server, Some("ann"), get, "").await.0, 404);
    let metrics = server.shared().metrics.text();
    assert!(metrics.contains("apiserver_audit_requests_rejected_total 1"), "{metrics}");
}
