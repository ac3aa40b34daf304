//! One greedy user or client beside another one. The order in which they are served is compared, never the time.

mod connections;
mod turns;
mod writes;

use std::net::SocketAddr;
use std::sync::Arc;

use apiserver::auth::authn::{Authentication, StaticTokens};
use apiserver::serve::{self, Limits};
use apiserver::{ApiServer, Authorization, ServerConfig};
use bytes::Bytes;
use futures::FutureExt as _;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use storage::Store;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use transport::{ApiService, Identity, Request};
use world::World;

const TOKENS: &str = "greedy-token,greedy,1\nneighbor-token,neighbor,2\n";

async fn server(store: Arc<dyn Store>) -> ApiServer {
    let tokens = StaticTokens::parse(TOKENS).expect("a token file");
    let authentication =
        |_| Authentication { static_tokens: Some(tokens), anonymous: true, ..Authentication::default() };
    ApiServer::start(ServerConfig {
        store,
        world: World::system(),
        resources: kubernetes_api::resources(),
        admission: Vec::new(),
        authentication: Box::new(authentication),
        authorization: Authorization::AlwaysAllow,
        routes: Vec::new(),
        crds: Vec::new(),
        converters: Default::default(),
        version: Default::default(),
    })
    .await
    .expect("an empty store")
}

/// A call of this process.
async fn call(
    service: &ApiService,
    user: &str,
    method: &str,
    url: &str,
    content_type: &str,
    body: &str,
) -> (u16, Value) {
    let identity = Identity { user: user.into(), groups: vec!["system:masters".into()], ..Identity::default() };
    let request: Request = http::Request::builder()
        .method(method)
        .uri(url)
        .header("content-type", content_type)
        .extension(identity)
        .body(transport::full(body.to_owned()))
        .expect("a request");
    // Boxed, because otherwise the compiler cannot analyse the body's trait object.
    let response = tower::ServiceExt::oneshot(service.clone(), request).boxed().await.expect("infallible");
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    (code, serde_json::from_slice(&body).expect("JSON"))
}

/// Creates ConfigMaps `a0`, `a1`, ... in `default`.
async fn fill(service: &ApiService, count: usize) {
    let json = "application/json";
    let namespace = r#"{"metadata":{"name":"default"}}"#;
    assert_eq!(call(service, "admin", "POST", "/api/v1/namespaces", json, namespace).await.0, 201);
    for n in 0..count {
        let map = format!(r#"{{"metadata":{{"name":"a{n}","labels":{{"group":"{}"}}}},"data":{{"k":"v"}}}}"#, n % 100);
        let (code, status) = call(service, "admin", "POST", "/api/v1/namespaces/default/configmaps", json, &map).await;
        assert_eq!(code, 201, "{status}");
    }
}

/// A service on a port of the system's choosing.
struct Listening {
    address: SocketAddr,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Listening {
    async fn start(service: ApiService, limits: Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("address");
        let stop = CancellationToken::new();
        let task = tokio::spawn(serve::serve(listener, None, service, limits, stop.clone()));
        Self { address, stop, task }
    }

    async fn end(self) {
        self.stop.cancel();
        self.task.await.expect("no panic");
    }

    async fn connect(&self) -> SendRequest<Full<Bytes>> {
        let stream = TcpStream::connect(self.address).await.expect("connected");
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
        tokio::spawn(connection);
        sender
    }

    /// The code of the answer to a GET; `None` when the connection ends instead.
    async fn get(&self, sender: &SendRequest<Full<Bytes>>, token: Option<&str>, path: &str) -> Option<u16> {
        let mut request = http::Request::get(format!("http://{}{path}", self.address));
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Full::default()).expect("a request");
        let response = sender.clone().send_request(request).await.ok()?;
        let code = response.status().as_u16();
        response.into_body().collect().await.ok()?;
        Some(code)
    }
}
