//! Clients that do not read their responses. Time is virtual, and connections are pipes in memory.

mod identities;
mod lists;
mod watches;

use std::sync::Arc;
use std::time::Duration;

use apiserver::ApiServer;
use apiserver::Peer;
use apiserver::limits::budget::{Budgets, Bytes};
use apiserver::serve::{self, Limits};
use bytes::Bytes as Data;
use client::Client;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use storage::memory::MemoryStore;
use tokio::io::DuplexStream;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use transport::{ApiService, Identity};
use world::World;

/// An unread response is aborted after this time, and at most a quarter of it later.
const STALL: Duration = Duration::from_secs(60);
const LATEST: Duration = Duration::from_secs(80);

/// A server with some objects, and connections to it.
struct Rig {
    server: ApiServer,
    client: Client,
    limits: Limits,
    shutdown: CancellationToken,
    registry: metrics::Registry,
}

impl Rig {
    async fn new(budget: Bytes) -> Self {
        let start = jiff::Timestamp::from_second(1_790_000_000).expect("in range");
        let server =
            crate::objects::server_in(std::sync::Arc::new(MemoryStore::new()), World::simulated(start, 1)).await;
        let client = Client::in_process(server.service(), Identity::system("test"));
        let namespace = json!({"metadata": {"name": "default"}});
        client.create(&crate::objects::namespaces(), &namespace).await.expect("a namespace");
        let registry = metrics::Registry::default();
        let limits = Limits { stall: STALL, budgets: Arc::new(Budgets::new(budget, &registry)), ..Limits::default() };
        Self { server, client, limits, shutdown: CancellationToken::new(), registry }
    }

    /// Writes config maps of about a size.
    async fn fill(&self, count: usize, size: usize) {
        for n in 0..count {
            let object = config_map(n, &"x".repeat(size));
            self.client.create(&crate::objects::config_maps(), &object).await.expect("a config map");
        }
    }

    /// A connection with this many bytes in its pipe.
    fn pipe(&self, size: usize) -> DuplexStream {
        let (near, far) = tokio::io::duplex(size);
        let peer = Peer::new(([127, 0, 0, 1], 1).into(), []);
        let service = named(self.server.service());
        tokio::spawn(serve::serve_stream(far, peer, service, self.limits.clone(), self.shutdown.clone()));
        near
    }

    /// An HTTP/2 client that takes this many bytes of each response without reading.
    async fn http2(&self, window: u32) -> SendRequest<Empty<Data>> {
        let (sender, connection) = Builder::new(TokioExecutor::new())
            .initial_stream_window_size(window)
            .initial_connection_window_size(1 << 30)
            .handshake(TokioIo::new(self.pipe(1 << 20)))
            .await
            .expect("HTTP/2");
        tokio::spawn(connection);
        sender
    }

    fn in_flight(&self) -> usize {
        self.limits.budgets.in_flight()
    }

    fn cut(&self, kind: &str) -> u64 {
        self.registry.counters(&apiserver::metrics::CUT).value(&[kind])
    }
}

/// The user of a request is in a header.
fn named(service: ApiService) -> ApiService {
    ApiService::new(service.map_request(|mut request: transport::Request| {
        let name = request.headers().get("user").and_then(|name| name.to_str().ok()).unwrap_or("test").to_owned();
        let identity = Identity { user: name, ..Identity::system("test") };
        request.extensions_mut().insert(identity);
        request
    }))
}

fn config_map(n: usize, data: &str) -> Value {
    let metadata = json!({"name": format!("c{n:06}"), "namespace": "default", "labels": {"n": n.to_string()}});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": data}})
}

fn request(path: &str, headers: &[(&str, &str)]) -> http::Request<Empty<Data>> {
    let mut request = http::Request::get(format!("http://server{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Empty::new()).expect("a request")
}

/// Sends a request on a connection with many.
async fn send(sender: &SendRequest<Empty<Data>>, path: &str, headers: &[(&str, &str)]) -> http::Response<Incoming> {
    let mut sender = sender.clone();
    sender.ready().await.expect("the connection is open");
    sender.send_request(request(path, headers)).await.expect("an answer")
}

/// Lets everything happen that can without time passing.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

/// The time until a response is aborted; bytes sent before are ignored.
async fn until_cut(response: http::Response<Incoming>, begun: Instant) -> Duration {
    let error = response.into_body().collect().await.err();
    assert!(error.is_some(), "the response ended as if it were whole");
    begun.elapsed()
}
