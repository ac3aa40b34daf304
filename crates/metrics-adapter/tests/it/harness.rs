//! An API server with the route, over members that are functions.

use std::convert::Infallible;
use std::sync::Arc;

use apimachinery::Status;
use apiserver::auth::authn::Authentication;
use apiserver::routes::Documents;
use apiserver::{ApiServer, Authorization, ServerConfig};
use client::Client;
use fleet_metrics::resource::ResourceRequest;
use futures::future::BoxFuture;
use http_body_util::BodyExt as _;
use metrics_adapter::{Fleet, MetricsApi, Target, published};
use parking_lot::Mutex;
use readings::Connect;
use serde_json::{Value, json};
use storage::memory::MemoryStore;
use tower::ServiceExt as _;
use transport::{ApiService, Identity, Request, Response};
use world::World;

/// A member's response to a path with its query.
#[derive(Clone)]
pub enum Member {
    /// These documents by path; 404 for others, as an API server without the group.
    Serves(Arc<Vec<(String, Value)>>),
    /// This document at any path.
    Encoded(bytes::Bytes),
    /// This status and text.
    Refuses(u16, &'static str),
    /// Never.
    Silent,
    /// Without an end.
    Endless,
    /// An error in the middle of the body.
    Closing,
    /// It is not ready.
    Excluded,
    /// A member that is known to have no objects.
    Empty,
}

impl Member {
    pub fn serves(documents: &[(&str, Value)]) -> Self {
        let owned = documents.iter().map(|(path, document)| ((*path).to_owned(), document.clone()));
        Self::Serves(Arc::new(owned.collect()))
    }

    fn answer(&self, target: &str) -> Response {
        let response = |code: u16, body| http::Response::builder().status(code).body(body).expect("a response");
        match self {
            Self::Serves(documents) => match documents.iter().find(|(path, _)| path == target) {
                Some((_, Value::String(text))) => response(404, transport::full(metric_missing(text).to_string())),
                Some((_, document)) => response(200, transport::full(document.to_string())),
                None => response(404, transport::full("404 page not found\n")),
            },
            Self::Encoded(document) => response(200, transport::full(document.clone())),
            Self::Refuses(code, text) => response(*code, transport::full(*text)),
            Self::Endless => {
                let chunk = bytes::Bytes::from(vec![b' '; 1 << 20]);
                let frames = futures::stream::repeat_with(move || Ok(chunk.clone()));
                response(200, transport::stream(frames))
            }
            Self::Closing => {
                let frames = [Ok("{\"kind\":".into()), Err("connection reset by peer".into())];
                response(200, transport::stream(futures::stream::iter(frames)))
            }
            Self::Silent | Self::Excluded | Self::Empty => response(500, transport::full("not to be called")),
        }
    }
}

/// A 404 of an adapter, not of its API server.
fn metric_missing(text: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "message": text})
}

struct Members {
    all: Vec<(String, Member)>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Connect for Members {
    fn client<'a>(&'a self, cluster: &'a str) -> BoxFuture<'a, Result<Client, String>> {
        let found = self.all.iter().find(|(name, _)| name == cluster);
        let (name, member) = found.cloned().expect("a member");
        let requests = Arc::clone(&self.requests);
        let service = ApiService::new(tower::service_fn(move |request: Request| {
            let target = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
            requests.lock().push(format!("{name} {target}"));
            let member = member.clone();
            async move {
                if matches!(member, Member::Silent) {
                    std::future::pending::<()>().await;
                }
                Ok::<_, Infallible>(member.answer(&target))
            }
        }));
        Box::pin(async move { Ok(Client::in_process(service, Identity::system("test"))) })
    }
}

impl Fleet for Members {
    fn clusters(&self) -> Result<Vec<Target>, Status> {
        let target = |(name, member): &(String, Member)| Target {
            name: name.clone(),
            excluded: matches!(member, Member::Excluded).then(|| "it is not ready".to_owned()),
        };
        Ok(self.all.iter().map(target).collect())
    }

    fn may_have(&self, cluster: &str, _wanted: &ResourceRequest) -> bool {
        !self.all.iter().any(|(name, member)| name == cluster && matches!(member, Member::Empty))
    }
}

/// The server.
pub struct Adapter {
    pub server: ApiServer,
    requests: Arc<Mutex<Vec<String>>>,
}

pub struct Reply {
    pub code: u16,
    pub body: Value,
    pub warnings: Vec<String>,
}

impl Reply {
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// `name@cluster` of the items.
    pub fn items(&self) -> Vec<String> {
        let place = |item: &Value| {
            let meta = &item["metadata"];
            let cluster = &meta["annotations"]["resource.karmada.io/query-from-cluster"];
            format!("{}@{}", meta["name"].as_str().unwrap_or("-"), cluster.as_str().unwrap_or("-"))
        };
        self.body["items"].as_array().into_iter().flatten().map(place).collect()
    }
}

impl Adapter {
    pub async fn over(members: Vec<(&str, Member)>) -> Self {
        let requests = Arc::default();
        let all = members.into_iter().map(|(name, member)| (name.to_owned(), member)).collect();
        let fleet = Members { all, requests: Arc::clone(&requests) };
        let config = ServerConfig {
            store: Arc::new(MemoryStore::new()),
            world: World::simulated("2026-11-23T00:00:00Z".parse().expect("a time"), 7),
            resources: Vec::new(),
            admission: Vec::new(),
            authentication: Box::new(|_| Authentication::default()),
            authorization: Authorization::AlwaysAllow,
            routes: vec![Arc::new(MetricsApi::new(Arc::new(fleet))), Arc::new(Documents::new(Default::default()))],
            crds: Vec::new(),
            converters: Default::default(),
            version: Default::default(),
        };
        let server = ApiServer::start(config).await.expect("an empty store");
        server.shared().apis.store(Arc::new(published(1, &Default::default())));
        Self { server, requests }
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.get_as(path, "application/vnd.kubernetes.protobuf, */*").await
    }

    pub async fn get_as(&self, path: &str, accept: &str) -> Reply {
        self.send(http::Method::GET, path, accept).await
    }

    pub async fn send(&self, method: http::Method, path: &str, accept: &str) -> Reply {
        let request = http::Request::builder().method(method).uri(path).header("accept", accept);
        let mut request = request.body(transport::empty()).expect("a request");
        request.extensions_mut().insert(Identity::system("test"));
        let response = self.server.service().oneshot(request).await.expect("an answer");
        let code = response.status().as_u16();
        let warnings = response.headers().get_all("warning").iter();
        let warnings = warnings.map(|it| it.to_str().expect("text").to_owned()).collect();
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        Reply { code, body: serde_json::from_slice(&body).unwrap_or_default(), warnings }
    }

    /// The encoded response.
    pub async fn body(&self, path: &str) -> bytes::Bytes {
        let mut request = http::Request::get(path).body(transport::empty()).expect("a request");
        request.extensions_mut().insert(Identity::system("test"));
        let response = self.server.service().oneshot(request).await.expect("an answer");
        response.into_body().collect().await.expect("a body").to_bytes()
    }

    /// The requests to members since the last call, sorted.
    pub fn requests(&self) -> Vec<String> {
        let mut requests = std::mem::take(&mut *self.requests.lock());
        requests.sort();
        requests
    }
}

/// A `PodMetrics`.
pub fn pod(namespace: &str, name: &str) -> Value {
    json!({"kind": "PodMetrics", "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": "2026-11-23T00:00:00Z", "labels": {"app": "web"}},
        "timestamp": "2026-11-23T00:00:00Z", "window": "15s",
        "containers": [{"name": "app", "usage": {"cpu": "10m", "memory": "16Mi"}}]})
}

/// A `PodMetricsList`.
pub fn pods(items: &[(&str, &str)]) -> Value {
    let items: Vec<Value> = items.iter().map(|(namespace, name)| pod(namespace, name)).collect();
    json!({"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items})
}
