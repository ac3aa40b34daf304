//! An API server with the plugin, and a webhook server whose response depends on the path.

use std::sync::Arc;

use admission::{Configuration, ConversionCalls, UserAdmission};
use apiserver::admit::plugins::Switches;
use apiserver::auth::authn::Authentication;
use apiserver::{Admission, ApiServer, Authorization, ServerConfig};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use client::Client;
use client::webhooks::Webhooks;
use http::{Method, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde_json::{Value, json};
use storage::memory::MemoryStore;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use transport::Identity;
use world::World;

/// The path of a request, and its header `Authorization`.
type Authorized = (String, Option<String>);

/// A webhook server.
#[derive(Clone)]
pub struct Hooks {
    pub url: String,
    /// PEM in base64.
    pub ca: String,
    reviews: Arc<Mutex<Vec<(String, Value)>>>,
    connections: Arc<Mutex<usize>>,
    authorizations: Arc<Mutex<Vec<Authorized>>>,
    /// The headers `traceparent`.
    parents: Arc<Mutex<Vec<String>>>,
}

/// A socket of a TLS server.
pub struct Listening {
    pub listener: TcpListener,
    pub tls: TlsAcceptor,
    pub url: String,
    /// PEM in base64.
    pub ca: String,
}

impl Listening {
    pub async fn start() -> Self {
        let key =
            rcgen::generate_simple_self_signed(vec!["127.0.0.1".into(), "hook.default.svc".into()]).expect("a key");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let url = format!("https://{}", listener.local_addr().expect("an address"));
        let ca = BASE64_STANDARD.encode(key.cert.pem());
        let der = PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
        let tls = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![key.cert.der().clone()], der.into())
            .expect("a certificate");
        Self { listener, tls: TlsAcceptor::from(Arc::new(tls)), url, ca }
    }
}

impl Hooks {
    pub async fn start() -> Self {
        let Listening { listener, tls, url, ca } = Listening::start().await;
        let (reviews, connections, authorizations) = (Arc::default(), Arc::default(), Arc::default());
        let hooks = Self { url, ca, reviews, connections, authorizations, parents: Arc::default() };
        tokio::spawn(hooks.clone().serve(listener, tls));
        hooks
    }

    async fn serve(self, listener: TcpListener, tls: TlsAcceptor) {
        while let Ok((stream, _)) = listener.accept().await {
            let (hooks, tls) = (self.clone(), tls.clone());
            *self.connections.lock() += 1;
            tokio::spawn(async move {
                let Ok(stream) = tls.accept(stream).await else { return };
                let service = hyper::service::service_fn(move |request| {
                    let hooks = hooks.clone();
                    async move { hooks.reply(request).await }
                });
                let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                // A reply that breaks off is part of the tests.
                let _ = server.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    }

    async fn reply(self, request: http::Request<Incoming>) -> Result<Response<Full<Bytes>>, std::io::Error> {
        let path = request.uri().path().trim_start_matches('/').to_owned();
        let authorization = request.headers().get("authorization").and_then(|value| value.to_str().ok());
        self.authorizations.lock().push((path.clone(), authorization.map(str::to_owned)));
        let parent = request.headers().get("traceparent").and_then(|value| value.to_str().ok());
        self.parents.lock().extend(parent.map(str::to_owned));
        let body = request.into_body().collect().await.map_err(std::io::Error::other)?.to_bytes();
        let review: Value = serde_json::from_slice(&body)?;
        self.reviews.lock().push((path.clone(), review.clone()));
        let answer =
            |code: u16, body: String| Ok(Response::builder().status(code).body(Full::from(body)).expect("a response"));
        let uid = &review["request"]["uid"];
        let respond = |mut response: Value| {
            response["uid"] = uid.clone();
            let kinds = json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response});
            answer(200, kinds.to_string())
        };
        let patch = |patch: Value| {
            let patch = BASE64_STANDARD.encode(patch.to_string());
            respond(json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
        };
        let (kind, rest) = path.split_once('/').unwrap_or((&path, ""));
        match kind {
            "convert" => answer(200, converted(&review).to_string()),
            "convert-no" => {
                let mut reply = converted(&review);
                reply["response"]["result"] = json!({"status": "Failure", "message": "not today"});
                answer(200, reply.to_string())
            }
            "convert-lies" => answer(200, lying(&review, rest).to_string()),
            "allow" => respond(json!({"allowed": true})),
            "deny" => respond(json!({"allowed": false, "status": {"message": rest, "code": 418, "reason": "Teapot"}})),
            "silent" => respond(json!({"allowed": false})),
            "warn" => respond(
                json!({"allowed": true, "warnings": [rest], "auditAnnotations": {"a": "b", "c/d": "e", "no key": "f"}}),
            ),
            // Appends a letter to an annotation, so that the order and number of calls can be read.
            "mark" => {
                let object = &review["request"]["object"]["metadata"]["annotations"];
                let marked = format!("{}{rest}", object["marks"].as_str().unwrap_or_default());
                let path = if object.is_object() { "/metadata/annotations/marks" } else { "/metadata/annotations" };
                let value = if object.is_object() { json!(marked) } else { json!({ "marks": marked }) };
                patch(json!([{"op": "add", "path": path, "value": value}]))
            }
            // Sets the label once.
            "label" => patch(json!([{"op": "add", "path": "/metadata/labels", "value": {"by": rest}}])),
            // Adds a MiB.
            "grow" => {
                let value = "x".repeat(1 << 20);
                patch(json!([{"op": "add", "path": format!("/data/{rest}"), "value": value}]))
            }
            "warnings" => {
                let warnings: Vec<String> = (0..100_000).map(|n| format!("warning {n}")).collect();
                respond(json!({"allowed": true, "warnings": warnings}))
            }
            "uid" => patch(json!([{"op": "add", "path": "/metadata/uid", "value": "mine"},
                                  {"op": "add", "path": "/metadata/generation", "value": 9}])),
            "owner" => {
                let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"});
                patch(json!([{"op": "add", "path": "/metadata/ownerReferences/-", "value": owner}]))
            }
            "managers" => patch(match rest {
                "spoil" => json!([{"op": "remove", "path": "/metadata/managedFields/0/apiVersion"}]),
                "rename" => json!([{"op": "replace", "path": "/metadata/managedFields/0/manager", "value": "hook"}]),
                _ => json!([{"op": "add", "path": "/metadata/managedFields", "value": []}]),
            }),
            "mistyped" => patch(json!([{"op": "add", "path": "/metadata/labels", "value": 3}])),
            "impossible" => patch(json!([{"op": "remove", "path": "/nothing"}])),
            "replicas" => patch(json!([{"op": "replace", "path": "/spec/replicas", "value": 7}])),
            "code" => answer(rest.parse().expect("a code"), "body".to_owned()),
            "html" => answer(200, "<html>".to_owned()),
            "huge" => answer(200, format!("{{\"x\":\"{}\"}}", "x".repeat(9 << 20))),
            "empty" => answer(200, String::new()),
            "other" => answer(
                200,
                json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview",
                                          "response": {"uid": "other", "allowed": true}})
                .to_string(),
            ),
            "kindless" => answer(200, json!({"response": {"uid": uid, "allowed": true}}).to_string()),
            "close" => Err(std::io::Error::other("closed")),
            "hang" => std::future::pending().await,
            _ => answer(404, "404 page not found".to_owned()),
        }
    }

    /// The requests that arrived at a path, and at those below it.
    pub fn requests(&self, path: &str) -> Vec<Value> {
        let reviews = self.reviews.lock();
        let found = reviews.iter().filter(|(at, _)| at == path || at.starts_with(&format!("{path}/")));
        found.map(|(_, review)| review["request"].clone()).collect()
    }

    /// The paths of the requests since the last call.
    pub fn take_paths(&self) -> Vec<String> {
        self.reviews.lock().drain(..).map(|(path, _)| path).collect()
    }

    pub fn authorizations(&self) -> Vec<Authorized> {
        self.authorizations.lock().clone()
    }

    pub fn parents(&self) -> Vec<String> {
        self.parents.lock().clone()
    }

    pub fn connections(&self) -> usize {
        *self.connections.lock()
    }

    /// A webhook of a configuration: of all ConfigMaps, if `more` does not change that.
    pub fn webhook(&self, name: &str, path: &str, more: Value) -> Value {
        let mut webhook = json!({
            "name": format!("{name}.example.com"),
            "clientConfig": {"url": format!("{}/{path}", self.url), "caBundle": self.ca},
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        });
        webhook.as_object_mut().expect("a map").extend(more.as_object().cloned().unwrap_or_default());
        webhook
    }
}

/// The response of a conversion webhook: `spec.one` of v1 is `spec.two` of v2.
/// The objects of a review, converted with a lie.
fn lying(review: &Value, lie: &str) -> Value {
    let mut reply = converted(review);
    let objects = reply["response"]["convertedObjects"].as_array_mut().expect("a list");
    let last = objects.len() - 1;
    match lie {
        "drops" => drop(objects.pop()),
        "adds" => objects.push(objects[0].clone()),
        "repeats" => objects[last] = objects[0].clone(),
        "reorders" => objects.reverse(),
        "renames" => objects[last]["metadata"]["name"] = json!("other"),
        "moves" => objects[last]["metadata"]["namespace"] = json!("kube-system"),
        "retypes" => objects[last]["kind"] = json!("Secret"),
        "keeps" => objects[last]["apiVersion"] = json!("g.example/v3"),
        "identity" => objects[last]["metadata"]["uid"] = json!("11111111-2222-3333-4444-555555555555"),
        "strips" => drop(objects[last].as_object_mut().expect("a map").remove("metadata")),
        "nulls" => objects[last] = Value::Null,
        "labels" => objects[last]["metadata"]["labels"] = json!({"a b": "c"}),
        // Allowed, and without effect.
        "metadata" => {
            let metadata = objects[last]["metadata"].as_object_mut().expect("a map");
            for field in ["finalizers", "ownerReferences", "managedFields"] {
                metadata.insert(field.to_owned(), json!([]));
            }
            for field in ["resourceVersion", "creationTimestamp", "deletionTimestamp", "generateName", "selfLink"] {
                metadata.insert(field.to_owned(), json!("2020-01-01T00:00:00Z"));
            }
        }
        _ => panic!("{lie}"),
    }
    reply
}

fn converted(review: &Value) -> Value {
    let request = &review["request"];
    let desired = &request["desiredAPIVersion"];
    let (from, to) =
        if desired.as_str().is_some_and(|it| it.ends_with("/v2")) { ("one", "two") } else { ("two", "one") };
    let objects = request["objects"].as_array().expect("a list").iter().cloned().map(|mut object| {
        object["apiVersion"] = desired.clone();
        let value = object["spec"].as_object_mut().and_then(|spec| spec.remove(from));
        if let Some(value) = value {
            object["spec"][to] = value;
        }
        object["metadata"]["annotations"] = json!({"via": desired});
        object["metadata"]["generation"] = json!(99);
        object
    });
    let objects: Vec<Value> = objects.collect();
    json!({"apiVersion": review["apiVersion"], "kind": "ConversionReview",
        "response": {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects}})
}

/// An API server with the plugin.
pub struct Plane {
    pub server: ApiServer,
    pub client: Client,
    pub users: Arc<UserAdmission>,
}

/// A reply: its code, its body, its warnings.
#[derive(Debug)]
pub struct Reply {
    pub code: u16,
    pub body: Value,
    pub warnings: Vec<String>,
}

impl Reply {
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

impl Plane {
    pub async fn start() -> Self {
        let plane = Self::disabled().await;
        plane.users.enable();
        plane
    }

    pub async fn disabled() -> Self {
        Self::beside(Vec::new()).await
    }

    /// With more plugins.
    pub async fn beside(more: Vec<Arc<dyn Admission>>) -> Self {
        Self::of(more, Configuration::default(), Authorization::Rbac).await
    }

    /// With another configuration or authorizer.
    pub async fn of(more: Vec<Arc<dyn Admission>>, configuration: Configuration, authorization: Authorization) -> Self {
        let world = World::system();
        let users = Arc::new(UserAdmission::new(configuration, &Switches::default(), world.clone()));
        let mut admission =
            apiserver::admit::plugins::built_in(Default::default(), &world, &Switches::default()).expect("plugins");
        admission.extend(more);
        admission.push(Arc::clone(&users) as Arc<dyn Admission>);
        let config = ServerConfig {
            store: Arc::new(MemoryStore::new()),
            world,
            resources: kubernetes_api::resources(),
            admission,
            authentication: Box::new(|_| Authentication::default()),
            authorization,
            routes: Vec::new(),
            crds: Vec::new(),
            converters: Default::default(),
            version: Default::default(),
        };
        let server = ApiServer::start(config).await.expect("an empty store");
        users.count_in(&server.shared().metrics);
        let calls = ConversionCalls::new(Webhooks::new(|_| None), server.shared());
        server.shared().conversions.call_with(Arc::new(calls));
        let client = Client::in_process(server.service(), Identity::system("test"));
        let plane = Self { server, client, users };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {"env": "prod"}}});
        assert_eq!(plane.post("/api/v1/namespaces", &namespace).await.code, 201);
        plane
    }

    pub async fn send(&self, method: Method, path: &str, type_: &str, body: &Value) -> Reply {
        self.send_as(&self.client, method, path, type_, body).await
    }

    pub async fn send_as(&self, client: &Client, method: Method, path: &str, type_: &str, body: &Value) -> Reply {
        let body = if body.is_null() { transport::empty() } else { transport::full(body.to_string()) };
        let request = http::Request::builder().method(method).uri(path).header("content-type", type_);
        let response = client.send(request.body(body).expect("a request")).await.expect("a response");
        let code = response.status().as_u16();
        let warnings = response.headers().get_all("warning").iter();
        let warnings =
            warnings.map(|it| it.to_str().expect("text").trim_start_matches("299 - ").trim_matches('"').to_owned());
        let warnings = warnings.collect();
        let body = response.into_body().collect().await.expect("a body in memory").to_bytes();
        Reply { code, body: serde_json::from_slice(&body).unwrap_or_default(), warnings }
    }

    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        self.send(Method::POST, path, "application/json", body).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Reply {
        self.send(Method::PUT, path, "application/json", body).await
    }

    pub async fn patch(&self, path: &str, body: &Value) -> Reply {
        self.send(Method::PATCH, path, "application/merge-patch+json", body).await
    }

    pub async fn delete(&self, path: &str) -> Reply {
        self.send(Method::DELETE, path, "application/json", &Value::Null).await
    }

    /// Creates or replaces a configuration, and waits until the plugin has it: the server's watch cache observes it
    /// before the response of a later read.
    pub async fn configure(&self, kind: &str, name: &str, webhooks: Vec<Value>) {
        let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
                                   "metadata": {"name": name}, "webhooks": webhooks});
        let path = format!("/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations", kind.to_lowercase());
        self.delete(&format!("{path}/{name}")).await;
        let reply = self.post(&path, &configuration).await;
        assert_eq!(reply.code, 201, "{}", reply.body);
        self.observed().await;
    }

    /// Waits until everything written before is observed.
    pub async fn observed(&self) {
        self.server.shared().cache.catch_up().await.expect("a store");
    }
}

pub const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

pub fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"k": "v"}})
}
