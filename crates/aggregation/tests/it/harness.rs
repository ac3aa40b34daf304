//! An API server with the aggregator, API servers behind it, and a server whose response depends on its group's name.

use std::sync::Arc;
use std::time::Duration;

use aggregation::{Aggregation, Routing};
use apiserver::auth::authn::{Authentication, ClientAuthority, FrontProxy, StaticTokens};
use apiserver::serve::{self, Limits, TlsConfig};
use apiserver::{ApiServer, Authorization, ServerConfig};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use client::webhooks::Webhooks;
use client::{Client, ClientIdentity, Endpoint};
use http::Method;
use http_body_util::BodyExt as _;
use pki::{Authority, ServerNames};
use serde_json::{Value, json};
use storage::memory::MemoryStore;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use transport::Identity;
use world::World;

pub const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const LONGEST: Duration = Duration::from_secs(30);

/// The authorities of a test.
pub struct Trust {
    pub servers: Authority,
    pub front: Authority,
    pub world: World,
}

impl Trust {
    pub fn new() -> Self {
        let world = World::system();
        let authority = |name: &str| Authority::generate(name, &world).expect("an authority").0;
        Self { servers: authority("servers"), front: authority("front-proxy-ca"), world }
    }

    /// The TLS settings of a server with the name of a service in the namespace `default`.
    pub fn tls(&self, service: &str) -> TlsConfig {
        let names = ServerNames::api_server("test", &[format!("{service}.default.svc")]);
        let pair = self.servers.issue_server(&names, &self.world).expect("a certificate");
        TlsConfig::new(&pair.certificate, &pair.key).expect("TLS")
    }

    pub fn bundle(&self) -> String {
        BASE64_STANDARD.encode(self.servers.certificate())
    }

    fn identity(&self) -> Arc<ClientIdentity> {
        let pair = self.front.issue_client("front-proxy-client", &[], &self.world).expect("a certificate");
        Arc::new(ClientIdentity { certificate: pair.certificate, key: pair.key })
    }
}

/// A reply.
#[derive(Debug)]
pub struct Reply {
    pub code: u16,
    pub text: String,
    pub headers: http::HeaderMap,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }
}

/// An API server with the aggregator.
pub struct Front {
    pub server: ApiServer,
    pub client: Client,
    pub stop: CancellationToken,
}

impl Drop for Front {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn config(resources: Vec<apimachinery::resource::Resource>, world: &World) -> ServerConfig {
    ServerConfig {
        store: Arc::new(MemoryStore::new()),
        world: world.clone(),
        resources,
        admission: Vec::new(),
        authentication: Box::new(|_| Authentication::default()),
        authorization: Authorization::Rbac,
        routes: Vec::new(),
        crds: Vec::new(),
        converters: Default::default(),
        version: Default::default(),
    }
}

impl Front {
    pub async fn start(trust: &Trust) -> Self {
        Self::routing(trust, Routing::ClusterAddress).await
    }

    pub async fn routing(trust: &Trust, routing: Routing) -> Self {
        let mut config = config(kubernetes_api::resources(), &trust.world);
        let identity = trust.identity();
        let certificate = Box::new(move || Some(Arc::clone(&identity)));
        let aggregation = Aggregation::new(&config.resources, routing, certificate, Webhooks::new(|_| None));
        config.admission.push(Arc::clone(&aggregation) as _);
        config.routes.push(Arc::clone(&aggregation) as _);
        config.authentication = Box::new(|_| Authentication {
            static_tokens: Some(StaticTokens::parse("token,ann,7,\"dev\"").expect("tokens")),
            ..Authentication::default()
        });
        let server = ApiServer::start(config).await.expect("an empty store");
        let client = Client::in_process(server.service(), Identity::system("test"));
        let stop = CancellationToken::new();
        aggregation.begin(server.shared(), &client).await;
        let run = aggregation.run(Arc::clone(server.shared()), client.clone(), stop.clone());
        tokio::spawn(run);
        let front = Self { server, client, stop };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
        assert_eq!(front.send(Method::POST, "/api/v1/namespaces", &namespace).await.code, 201);
        front
    }

    /// Serves it on a socket; the client presents the token of ann.
    pub async fn over_tls(&self, trust: &Trust) -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let server = format!("https://{}", listener.local_addr().expect("an address"));
        let (service, limits) = (self.server.service(), self.server.limits());
        tokio::spawn(serve::serve(listener, Some(trust.tls("front")), service, limits, self.stop.clone()));
        let ca_bundle = Some(trust.servers.certificate().as_bytes().to_vec());
        let endpoint = Endpoint { server, ca_bundle, token: Some("token".into()), ..Endpoint::default() };
        Client::from_endpoint(&endpoint).expect("a client")
    }

    pub async fn send(&self, method: Method, path: &str, body: &Value) -> Reply {
        send(&self.client, method, path, "application/json", body).await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, &Value::Null).await
    }

    /// Creates a Service that resolves to this machine.
    pub async fn service(&self, name: &str, spec: Value) {
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
        let reply = self.send(Method::POST, "/api/v1/namespaces/default/services", &service).await;
        assert_eq!(reply.code, 201, "{}", reply.text);
    }

    pub async fn external(&self, name: &str) {
        self.service(name, json!({"type": "ExternalName", "externalName": "localhost"})).await;
    }

    /// Registers a group version of another server.
    pub async fn register(&self, trust: &Trust, group: &str, (service, port): (&str, u16)) {
        let reference = json!({"namespace": "default", "name": service, "port": port});
        let spec = json!({"group": group, "version": "v1", "groupPriorityMinimum": 1500, "versionPriority": 10,
            "service": reference, "caBundle": trust.bundle()});
        let object = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": format!("v1.{group}")}, "spec": spec});
        let reply = self.send(Method::POST, API_SERVICES, &object).await;
        assert_eq!(reply.code, 201, "{}", reply.text);
    }

    /// Waits for the condition `Available` of an APIService to satisfy `matches`.
    pub async fn condition(&self, group: &str, matches: impl Fn(&Value) -> bool) -> Value {
        let name = format!("v1.{group}");
        self.api_service(&name, |object| {
            let found = object?["status"]["conditions"][0].clone();
            matches(&found).then_some(found)
        })
        .await
    }

    pub async fn reason(&self, group: &str, reason: &str) -> Value {
        self.condition(group, |condition| condition["reason"] == reason).await
    }

    /// Waits until an APIService satisfies `matches`; `None` stands for an absent one.
    pub async fn api_service<T>(&self, name: &str, matches: impl Fn(Option<&Value>) -> Option<T>) -> T {
        let cache = self.server.shared().cache.resource("apiregistration.k8s.io/apiservices");
        let key = apimachinery::ObjectKey::cluster(name);
        let mut events = cache
            .subscribe(apiserver::cache::Selection::default(), self.server.shared().cache.revision())
            .expect("all can be read")
            .events;
        let waiting = async {
            loop {
                let object = cache.get(&key).expect("it can be read").map(|it| it.to_value().expect("JSON"));
                if let Some(found) = matches(object.as_ref()) {
                    return found;
                }
                events.recv().await;
            }
        };
        let shown = || cache.get(&key).ok().flatten().map(|it| it.to_value());
        tokio::time::timeout(LONGEST, waiting).await.unwrap_or_else(|_| panic!("{name} is {:?}", shown()))
    }
}

pub async fn send(client: &Client, method: Method, path: &str, kind: &str, body: &Value) -> Reply {
    let body = if body.is_null() { transport::empty() } else { transport::full(body.to_string()) };
    let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
    let sending = client.send(request.body(body).expect("a request"));
    let response = tokio::time::timeout(LONGEST, sending).await.expect("in time").expect("a response");
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.expect("a whole body").to_bytes();
    Reply { code: parts.status.as_u16(), text: String::from_utf8_lossy(&bytes).into_owned(), headers: parts.headers }
}

/// An API server with a custom resource, behind a front proxy. Returns its port.
pub async fn behind(trust: &Trust, service: &str, group: &str) -> (ApiServer, u16) {
    let mut config = config(kubernetes_api::resources(), &trust.world);
    let authority = ClientAuthority::from_pem(trust.front.certificate()).expect("an authority");
    config.authentication = Box::new(|_| Authentication {
        front_proxy: Some(FrontProxy::new(authority, vec!["front-proxy-client".to_owned()])),
        ..Authentication::default()
    });
    config.authorization = Authorization::Delegated;
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"size": {"type": "integer"}}}}}});
    config.crds = vec![json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("boxes.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"plural": "boxes", "singular": "box", "kind": "Box", "listKind": "BoxList", "shortNames": ["bx"]},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}}}]}})];
    let server = ApiServer::start(config).await.expect("an empty store");
    let client = Client::in_process(server.service(), Identity::system("test"));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    let made = send(&client, Method::POST, "/api/v1/namespaces", "application/json", &namespace).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let port = listener.local_addr().expect("an address").port();
    let stop = server.shared().ending();
    tokio::spawn(serve::serve(listener, Some(trust.tls(service)), server.service(), Limits::default(), stop));
    (server, port)
}

impl Front {
    pub async fn patch(&self, path: &str, patch: &Value) -> Reply {
        send(&self.client, Method::PATCH, path, "application/merge-patch+json", patch).await
    }

    /// Changes a Service.
    pub async fn touch(&self, name: &str, patch: &Value) {
        let reply = self.patch(&format!("/api/v1/namespaces/default/services/{name}"), patch).await;
        assert_eq!(reply.code, 200, "{}", reply.text);
    }
}
