//! Responses on the wire, one row per exchange: status, reason and the text or a part of the body. The texts are those
//! of kube-apiserver, which scripts and people match.

use apiserver::ApiServer;
use bytes::Bytes;
use futures::StreamExt;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use storage::memory::MemoryStore;
use tower::ServiceExt;
use transport::{Identity, Request};

const CM: &str = "/api/v1/namespaces/default/configmaps";

/// Method, path, headers, body, and the expected response.
type Exchange<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a str, &'a str);

pub(crate) struct Reply {
    pub code: u16,
    pub headers: http::HeaderMap,
    pub body: Bytes,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// `CODE REASON MESSAGE`, or the code and the body when it is no Status.
    pub fn shown(&self) -> String {
        let tree = self.json();
        if tree["kind"] == "Status" {
            let text = |key: &str| tree[key].as_str().unwrap_or_default().to_owned();
            return format!("{} {} {}", self.code, text("reason"), text("message"));
        }
        format!("{} {}", self.code, String::from_utf8_lossy(&self.body).trim())
    }
}

fn request(method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Request {
    let mut builder = http::Request::builder().method(method).uri(path).extension(Identity::system("test"));
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    let body = Full::new(body.into()).map_err(|never| match never {}).boxed_unsync();
    builder.body(body).expect("a request")
}

pub(crate) async fn send(server: &ApiServer, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    send_body(server, method, path, headers, body.to_owned().into()).await
}

/// [`send`] with a body that is no text.
pub(crate) async fn send_body(
    server: &ApiServer,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Bytes,
) -> Reply {
    let response = server.service().oneshot(request(method, path, headers, body)).await.expect("infallible");
    let (parts, body) = response.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    Reply { code: parts.status.as_u16(), headers: parts.headers, body }
}

pub(crate) fn config_map(name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}}).to_string()
}

#[tokio::test]
async fn malformed_requests_get_upstreams_messages() {
    let (server, _client) = crate::objects::server().await;
    let json: &[(&str, &str)] = &[("content-type", "application/json")];
    let merge: &[(&str, &str)] = &[("content-type", "application/merge-patch+json")];
    let apply: &[(&str, &str)] = &[("content-type", "application/apply-patch+yaml")];
    let cbor: &[(&str, &str)] = &[("content-type", "application/apply-patch+cbor")];
    let a = format!("{CM}/a");
    assert_eq!(send(&server, "POST", CM, json, &config_map("a")).await.code, 201);
    for (name, version) in [("zero", "0"), ("text", "abc")] {
        let versioned = json!({"metadata": {"name": name, "resourceVersion": version}}).to_string();
        assert_eq!(send(&server, "POST", CM, json, &versioned).await.code, 201, "{version} is no version");
    }
    let uid = r#"{"metadata":{"name":"a","uid":"u"}}"#;
    let table: &[Exchange<'_>] = &[
        ("HEAD", CM, &[], "", "405 MethodNotAllowed the server does not allow this method on the requested resource"),
        ("PUT", CM, json, "{}", "405 MethodNotAllowed the server does not allow this method on the requested resource"),
        ("GET", &format!("{a}/nope"), &[], "", "404 NotFound the server could not find the requested resource"),
        ("GET", "/apis/none.io/v1/x", &[], "", "404 404 page not found"),
        (
            "GET",
            &a,
            &[("accept", "text/csv")],
            "",
            "406 NotAcceptable 406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
             application/vnd.kubernetes.protobuf",
        ),
        (
            "POST",
            CM,
            &[("content-type", "text/plain")],
            "x",
            "415 UnsupportedMediaType the body of the request was in an unknown format - accepted media types include: \
             application/json, application/yaml, application/vnd.kubernetes.protobuf",
        ),
        ("PATCH", &a, json, "{}", "415 UnsupportedMediaType 415: Unsupported Media Type"),
        // client-go that prefers CBOR repeats an apply in YAML after this refusal.
        ("PATCH", &format!("{a}?force=true"), cbor, "", "415 UnsupportedMediaType 415: Unsupported Media Type"),
        (
            "POST",
            CM,
            json,
            "{not json",
            "400 BadRequest the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; \
             json parse error: invalid character 'n' looking for beginning of object key string ({not json)",
        ),
        (
            "POST",
            CM,
            json,
            r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"b"}}"#,
            "400 BadRequest Secret in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Secret) to \
             (core.ConfigMap): unknown conversion",
        ),
        (
            "POST",
            CM,
            json,
            r#"{"metadata":{"name":"b","labels":["x"]}}"#,
            "400 BadRequest ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal array \
             into Go struct field ObjectMeta.metadata.labels of type map[string]string",
        ),
        (
            "POST",
            CM,
            json,
            r#"{"metadata":{"name":"b","finalizers":["nope"]}}"#,
            "422 Invalid ConfigMap \"b\" is invalid: metadata.finalizers[0]: Invalid value: \"nope\": name is neither a \
             standard finalizer name nor is it fully qualified",
        ),
        (
            "PUT",
            &a,
            json,
            r#"{"metadata":{"name":"a","resourceVersion":"abc"}}"#,
            "500  strconv.ParseUint: parsing \"abc\": invalid syntax",
        ),
        (
            "PATCH",
            &a,
            merge,
            uid,
            "422 Invalid ConfigMap \"a\" is invalid: metadata.uid: Invalid value: \"u\": field is immutable",
        ),
        (
            "PATCH",
            &a,
            merge,
            "[1]",
            "400 BadRequest error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (
            "PATCH",
            &format!("{a}?force=true"),
            merge,
            "{}",
            "422 Invalid PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch",
        ),
        (
            "PATCH",
            &format!("{CM}/new?fieldManager=m"),
            apply,
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new","uid":"u"}}"#,
            "409 Conflict Operation cannot be fulfilled on configmaps \"new\": uid mismatch: the provided object specified \
             uid u, and no existing object was found",
        ),
        (
            "PATCH",
            &format!("{a}?fieldManager=m"),
            apply,
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"bogus":1}"#,
            "500  failed to create typed patch object (/a; /v1, Kind=ConfigMap): .bogus: field not declared in \
             schema",
        ),
        (
            "GET",
            &format!("{CM}?continue=abc"),
            &[],
            "",
            "400 BadRequest invalid continue token: continue key is not valid: invalid character 'i' looking for \
             beginning of value",
        ),
        (
            "GET",
            &format!("{CM}?labelSelector=a%20in%20("),
            &[],
            "",
            "400 BadRequest unable to parse requirement: found '', expected: ',', ')' or identifier",
        ),
        ("GET", &format!("{CM}?labelSelector=a,"), &[], "", "400 BadRequest found '', expected: identifier after ','"),
        (
            "POST",
            CM,
            json,
            r#"{"metadata":{"name":"A_","resourceVersion":"5"}}"#,
            "422 Invalid ConfigMap \"A_\" is invalid: metadata.name: Invalid value: \"A_\": a lowercase RFC 1123 subdomain must \
             consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric \
             character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        ),
        (
            "POST",
            CM,
            json,
            r#"{"metadata":{"name":"a","resourceVersion":"5"}}"#,
            "500  resourceVersion should not be set on objects to be created",
        ),
        (
            "GET",
            &format!("{CM}?timeout=1"),
            &[],
            "",
            "400 BadRequest invalid timeout specified in the request URL - time: missing unit in duration \"1\"",
        ),
        ("GET", &format!("{CM}/none?watch=1"), &[], "", "404 NotFound configmaps \"none\" not found"),
        (
            "GET",
            &format!("{a}?resourceVersion=abc"),
            &[],
            "",
            "500  resourceVersion: Invalid value: \"abc\": \
            strconv.ParseUint: parsing \"abc\": invalid syntax",
        ),
        ("GET", "/api/v1/namespaces?fieldSelector=foo%3Dx", &[], "", "400 BadRequest field label not supported: foo"),
        (
            "GET",
            "/apis/batch/v1/jobs?fieldSelector=foo%3Dx",
            &[],
            "",
            "400 BadRequest field label \"foo\" not supported for batchv1.Job",
        ),
        (
            "GET",
            &format!("{a}?includeObject=Bad"),
            &[("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")],
            "",
            "400 BadRequest Unable to convert to Table as requested: includeObject: Invalid value: \"Bad\": must be \
             'Metadata', 'Object', 'None', or empty",
        ),
        (
            "POST",
            "/api/v1/componentstatuses",
            json,
            "{}",
            "405 MethodNotAllowed the server does not allow this method on the \
            requested resource",
        ),
        (
            "DELETE",
            "/api/v1/namespaces",
            &[],
            "",
            "405 MethodNotAllowed the server does not allow this method on the requested \
            resource",
        ),
        (
            "POST",
            "/api/v1/namespaces/default/bindings",
            json,
            r#"{"metadata":{"name":"p"},"target":{"name":"n"}}"#,
            "404 NotFound pods \"p\" not found",
        ),
        (
            "PATCH",
            &a,
            &[("content-type", "application/json-patch+json")],
            r#"[{"op":"test","path":"/data/k","value":"other"}]"#,
            "422 Invalid the server rejected our request due to an error in our request",
        ),
        (
            "PATCH",
            &a,
            &[("content-type", "application/strategic-merge-patch+json")],
            r#"{"data":{"$patch":"frob"}}"#,
            "500  unknown patch type: frob in map: map[$patch:frob]",
        ),
    ];
    for (method, path, headers, body, expected) in table {
        let reply = send(&server, method, path, headers, body).await;
        assert_eq!(reply.shown(), *expected, "{method} {path} {body}");
    }
}

#[tokio::test]
async fn each_failed_check_is_a_separate_cause() {
    let (server, _client) = crate::objects::server().await;
    assert_eq!(send(&server, "POST", CM, &[], &config_map("a")).await.code, 201);
    let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    assert_eq!(send(&server, "POST", lease, &[], r#"{"metadata":{"name":"a"}}"#).await.code, 201);
    let merge: &[(&str, &str)] = &[("content-type", "application/merge-patch+json")];
    let annotation = r#"{"metadata":{"annotations":{"a b":"x"}}}"#;
    for (path, body, causes) in [
        (format!("{CM}/a"), annotation, 4),
        (format!("{CM}/a"), r#"{"metadata":{"uid":"other"}}"#, 2),
        (format!("{lease}/a"), annotation, 3),
    ] {
        let reply = send(&server, "PATCH", &path, merge, body).await;
        let tree = reply.json();
        assert_eq!(reply.code, 422, "{path} {body}");
        assert_eq!(tree["details"]["causes"].as_array().map(Vec::len), Some(causes), "{path} {body}");
        assert!(!tree["message"].as_str().expect("a message").contains("is invalid: ["), "reported once: {tree}");
    }
    // A field that a Go struct prints although it was not set has no owner.
    let role = send(
        &server,
        "POST",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        &[],
        r#"{"metadata":{"name":"r"},"rules":null}"#,
    );
    let role = role.await.json();
    assert_eq!((role.get("rules"), role["metadata"].get("managedFields")), (Some(&Value::Null), None), "{role}");
}

#[tokio::test]
async fn responses_have_the_requested_presentation() {
    let (server, _client) = crate::objects::server().await;
    for number in 0..150 {
        let mut object: Value = serde_json::from_str(&config_map(&format!("a{number:03}"))).expect("json");
        object["data"]["k"] = "x".repeat(1024).into();
        assert_eq!(send(&server, "POST", CM, &[], &object.to_string()).await.code, 201);
    }
    let plain = send(&server, "GET", CM, &[], "").await;
    let first = &plain.json()["items"][0];
    assert_eq!((first.get("kind"), &first["metadata"]["name"]), (None, &json!("a000")), "lists imply the kind");

    let packed = send(&server, "GET", CM, &[("accept-encoding", "gzip")], "").await;
    assert_eq!(packed.headers["content-encoding"], "gzip");
    assert!(packed.body.len() * 5 < plain.body.len(), "{} of {}", packed.body.len(), plain.body.len());
    let one = format!("{CM}/a000");
    let small = send(&server, "GET", &one, &[("accept-encoding", "gzip")], "").await;
    assert!(!small.headers.contains_key("content-encoding"));

    let pretty = send(&server, "GET", &one, &[("user-agent", "curl/8")], "").await;
    assert!(pretty.body.starts_with(b"{\n  \"apiVersion\": \"v1\",\n"), "{pretty:?}", pretty = pretty.shown());
    assert_eq!(pretty.json(), small.json());
    let yaml = send(&server, "GET", &format!("{CM}/none"), &[("accept", "application/yaml")], "").await;
    assert_eq!(yaml.headers["content-type"], "application/yaml");
    assert!(yaml.body.starts_with(b"apiVersion: v1\ncode: 404\n"), "{}", yaml.shown());

    // Pages are one snapshot, despite writes in between.
    let page = send(&server, "GET", &format!("{CM}?limit=100"), &[], "").await.json();
    assert_eq!(page["metadata"]["remainingItemCount"], 50);
    assert_eq!(send(&server, "DELETE", &format!("{CM}/a149"), &[], "").await.code, 200);
    let token = page["metadata"]["continue"].as_str().expect("a token");
    for (selector, count) in [("", 50), ("&fieldSelector=metadata.name%3Da149", 1)] {
        let rest = send(&server, "GET", &format!("{CM}?limit=100&continue={token}{selector}"), &[], "").await.json();
        assert_eq!(rest["items"].as_array().map(Vec::len), Some(count), "{selector}");
        assert_eq!(rest["metadata"]["resourceVersion"], page["metadata"]["resourceVersion"]);
    }
}

#[tokio::test]
async fn one_object_is_served_in_all_its_forms() {
    let (server, _client) = crate::objects::server().await;
    let event =
        r#"{"metadata":{"name":"e"},"involvedObject":{"kind":"Pod","name":"p","namespace":"default"},"message":"m"}"#;
    assert_eq!(send(&server, "POST", "/api/v1/namespaces/default/events", &[], event).await.code, 201);
    let served = send(&server, "GET", "/apis/events.k8s.io/v1/namespaces/default/events/e", &[], "").await.json();
    assert_eq!((&served["apiVersion"], &served["note"]), (&json!("events.k8s.io/v1"), &json!("m")));
    let scaler = r#"{"metadata":{"name":"h"},"spec":{"maxReplicas":3,"targetCPUUtilizationPercentage":70,
                     "scaleTargetRef":{"kind":"Deployment","name":"d","apiVersion":"apps/v1"}}}"#;
    let old = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    let created = send(&server, "POST", old, &[], scaler).await;
    assert_eq!((created.code, &created.json()["apiVersion"]), (201, &json!("autoscaling/v1")));
    let new = send(&server, "GET", &format!("{}/h", old.replace("/v1/", "/v2/")), &[], "").await.json();
    assert_eq!(new["apiVersion"], "autoscaling/v2");
    assert_eq!(new["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 70);

    // Clients that take protobuf only get it, errors too.
    let protobuf: &[(&str, &str)] = &[("accept", "application/vnd.kubernetes.protobuf")];
    assert_eq!(send(&server, "POST", CM, &[], &config_map("a")).await.code, 201);
    for (path, kind) in [("/a", "ConfigMap"), ("", "ConfigMapList"), ("/none", "Status")] {
        let reply = send(&server, "GET", &format!("{CM}{path}"), protobuf, "").await;
        assert_eq!(reply.headers["content-type"], "application/vnd.kubernetes.protobuf");
        let tree = kubernetes_api::protobuf::decode(&reply.body).expect("protobuf");
        assert_eq!(tree["kind"], kind);
    }
}

#[tokio::test(start_paused = true)]
async fn watches_begin_anywhere_in_the_past_and_end_cleanly() {
    let long = storage::memory::Options { history_changes: 10_000, history_bytes: 64 << 20, ..Default::default() };
    let (server, _client) = crate::objects::server_on(std::sync::Arc::new(MemoryStore::with_options(long))).await;
    let start = send(&server, "GET", CM, &[], "").await.json()["metadata"]["resourceVersion"].clone();
    let start = start.as_str().expect("a revision").to_owned();
    // More changes than the cache remembers: the store still has them.
    for round in 0..5000 {
        let body = json!({"metadata": {"name": "a"}, "data": {"round": round.to_string()}}).to_string();
        let (method, path) = if round == 0 { ("POST", CM.to_owned()) } else { ("PUT", format!("{CM}/a")) };
        assert!(send(&server, method, &path, &[], &body).await.code < 300);
    }
    let path = format!("{CM}?watch=1&allowWatchBookmarks=true&timeoutSeconds=600&resourceVersion={start}");
    let response = server.service().oneshot(request("GET", &path, &[], "")).await.expect("infallible");
    // A frame contains whole events, several if they are available.
    let mut frames = response.into_body().into_data_stream().flat_map(|frame| {
        let lines =
            frame.expect("a frame").split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
        futures::stream::iter(lines)
    });
    for round in 0..5000 {
        let frame = frames.next().await.expect("an event");
        let event: Value = serde_json::from_slice(&frame).expect("json");
        assert_eq!(event["object"]["data"]["round"], round.to_string());
        assert_eq!(event["type"], if round == 0 { "ADDED" } else { "MODIFIED" });
    }
    let frame = frames.next().await.expect("a bookmark, a minute later");
    assert!(
        frame.starts_with(
            b"{\"type\":\"BOOKMARK\",\"object\":{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"resourceVersion\":"
        )
    );
    server.end_watches();
    assert!(frames.next().await.is_none(), "the stream ends without an error");
}

/// An admission plugin that counts deletions and refuses one of them.
#[derive(Default)]
struct Guard {
    calls: std::sync::atomic::AtomicUsize,
    refused: Option<&'static str>,
}

impl apiserver::Admission for Guard {
    fn validate<'a>(
        &'a self,
        request: &'a apiserver::AdmissionRequest<'_>,
    ) -> futures::future::BoxFuture<'a, Result<(), apimachinery::Status>> {
        Box::pin(async move {
            if request.operation == apiserver::Operation::Delete {
                self.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                if self.refused == Some(request.key.name()) {
                    return Err(apimachinery::Status::forbidden("", "configmaps", request.key.name(), "it is guarded"));
                }
            }
            Ok(())
        })
    }
}

#[tokio::test]
async fn a_collection_is_deleted_item_by_item() {
    const COUNT: usize = 300;
    let guard = std::sync::Arc::new(Guard { refused: Some("guarded"), ..Guard::default() });
    let (server, _client) = crate::objects::server_with(vec![guard.clone()]).await;
    for n in 0..COUNT {
        let finalizers = if n % 100 == 0 { json!(["example.com/wait"]) } else { json!([]) };
        let body = json!({"metadata": {"name": format!("a{n:03}"), "finalizers": finalizers}}).to_string();
        assert_eq!(send(&server, "POST", CM, &[], &body).await.code, 201);
    }
    let before = send(&server, "GET", CM, &[], "").await.json();
    let start = before["metadata"]["resourceVersion"].as_str().expect("a revision").to_owned();

    // A precondition that does not hold for the items refuses each of them.
    let precondition = json!({"preconditions": {"uid": "another"}}).to_string();
    assert_eq!(send(&server, "DELETE", CM, &[], &precondition).await.code, 409);
    let same = send(&server, "GET", CM, &[], "").await.json();
    assert_eq!(same["items"].as_array().map(Vec::len), Some(COUNT));

    let deleted = send(&server, "DELETE", CM, &[], "").await;
    assert_eq!(deleted.code, 200);
    assert_eq!(deleted.json()["items"].as_array().map(Vec::len), Some(COUNT));
    assert_eq!(guard.calls.load(std::sync::atomic::Ordering::Relaxed), COUNT, "admission saw every item once");
    let left = send(&server, "GET", CM, &[], "").await.json();
    let left = left["items"].as_array().expect("items");
    assert_eq!(left.len(), COUNT / 100);
    assert!(left.iter().all(|item| item["metadata"]["deletionTimestamp"].is_string()), "finalizers hold them");

    // Each deletion has a separate revision, and watchers see them in order.
    let path = format!("{CM}?watch=1&resourceVersion={start}&timeoutSeconds=1");
    let events = send(&server, "GET", &path, &[], "").await;
    let mut revisions = Vec::new();
    for line in events.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let event: Value = serde_json::from_slice(line).expect("json");
        let has_finalizers = event["object"]["metadata"]["finalizers"].is_array();
        assert_eq!(event["type"], if has_finalizers { "MODIFIED" } else { "DELETED" });
        let revision =
            event["object"]["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse::<u64>().ok());
        revisions.push(revision.expect("a revision"));
    }
    assert_eq!(revisions.len(), COUNT);
    assert!(revisions.is_sorted_by(|a, b| a < b), "{revisions:?}");

    // One refusal is the response, with any outcome of the others.
    assert_eq!(send(&server, "POST", CM, &[], &config_map("guarded")).await.code, 201);
    let refused = send(&server, "DELETE", CM, &[], "").await;
    assert_eq!(refused.code, 403);
    assert!(refused.json()["message"].as_str().is_some_and(|text| text.contains("it is guarded")));
}
