//! `/metrics` and `/healthz` over plain HTTP, as the flags of upstream's components have it.

use std::convert::Infallible;
use std::net::SocketAddr;

use anyhow::Context as _;
use apiserver::serve::{self, Limits};
use bytes::Bytes;
use http::StatusCode;
use metrics::Registry;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use transport::{ApiService, Request, Response, full};

/// Where they are served; `None` is off. One address twice is one server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Addresses {
    pub metrics: Option<SocketAddr>,
    pub health: Option<SocketAddr>,
}

/// The servers, and where they listen.
pub struct Probes {
    pub at: Addresses,
    tasks: Vec<JoinHandle<()>>,
}

impl Probes {
    /// Serves until `stop`.
    pub async fn open(registry: &Registry, at: Addresses, stop: &CancellationToken) -> anyhow::Result<Self> {
        let mut probes = Self { at: Addresses::default(), tasks: Vec::new() };
        if let Some(address) = at.metrics {
            probes.at.metrics = Some(probes.listen(registry, address, stop).await?);
        }
        // Port 0 is a new one each time.
        probes.at.health = match at.health {
            Some(address) if at.metrics == Some(address) && address.port() != 0 => probes.at.metrics,
            Some(address) => Some(probes.listen(registry, address, stop).await?),
            None => None,
        };
        Ok(probes)
    }

    async fn listen(
        &mut self,
        registry: &Registry,
        address: SocketAddr,
        stop: &CancellationToken,
    ) -> anyhow::Result<SocketAddr> {
        let listener = TcpListener::bind(address).await.with_context(|| format!("listening on {address}"))?;
        let address = listener.local_addr().context("reading the listener's address")?;
        let registry = registry.clone();
        let service = ApiService::new(tower::service_fn(move |request: Request| {
            let answer = answered(&registry, request.uri().path());
            async move { Ok::<_, Infallible>(answer) }
        }));
        self.tasks.push(tokio::spawn(serve::serve(listener, None, service, Limits::default(), stop.clone())));
        Ok(address)
    }

    /// After `stop`: lets requests under way end.
    pub async fn ended(self) {
        for task in self.tasks {
            // A listener that panicked has said so already.
            let _ = task.await;
        }
    }
}

/// `/healthz`, `/readyz`, `/livez` and `/metrics`, with and without a slash at the end.
pub fn answered(registry: &Registry, path: &str) -> Response {
    match path.strip_suffix('/').unwrap_or(path) {
        "/healthz" | "/readyz" | "/livez" => answer(StatusCode::OK, "text/plain; charset=utf-8", "ok"),
        "/metrics" => answer(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", registry.text()),
        _ => answer(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "404 page not found\n"),
    }
}

pub fn answer(code: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(full(body));
    *response.status_mut() = code;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}
