//! `/metrics`, `/healthz`, `/statusz` and `/flagz` over plain HTTP, by the flags of upstream's components.

use std::convert::Infallible;
use std::net::SocketAddr;

use apiserver::health::Health;
use apiserver::serve::{self, Limits};
use bytes::Bytes;
use http::StatusCode;
use metrics::Registry;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use transport::{ApiService, Request, Response, full};
use world::World;

use crate::operation;
use crate::sockets::Bound;

/// The addresses; `None` is off. The same address twice is one server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Addresses {
    pub metrics: Option<SocketAddr>,
    pub health: Option<SocketAddr>,
}

/// The servers and their addresses.
pub struct Probes {
    pub at: Addresses,
    tasks: Vec<JoinHandle<()>>,
}

/// Addresses that are bound and do not accept yet.
pub struct BoundProbes {
    metrics: Option<Bound>,
    health: Option<Bound>,
    /// Health and metrics share an address.
    shared: bool,
}

impl Addresses {
    /// Binds the addresses.
    ///
    /// # Errors
    /// An address that cannot be bound, with its flag.
    pub fn bind(&self) -> anyhow::Result<BoundProbes> {
        let metrics = self.metrics.map(|address| Bound::new(address, "--metrics-bind-address")).transpose()?;
        // Port 0 is another port each time.
        let shared = self.metrics.is_some_and(|address| self.health == Some(address) && address.port() != 0);
        let health = self.health.filter(|_| !shared);
        let health = health.map(|address| Bound::new(address, "--health-probe-bind-address")).transpose()?;
        Ok(BoundProbes { metrics, health, shared })
    }
}

impl BoundProbes {
    /// Serves until `stop`.
    pub fn open(self, registry: &Registry, stop: &CancellationToken) -> anyhow::Result<Probes> {
        let mut probes = Probes { at: Addresses::default(), tasks: Vec::new() };
        probes.at.metrics = self.metrics.map(|bound| probes.serve(registry, bound, stop)).transpose()?;
        probes.at.health = self.health.map(|bound| probes.serve(registry, bound, stop)).transpose()?;
        if self.shared {
            probes.at.health = probes.at.metrics;
        }
        Ok(probes)
    }
}

impl Probes {
    fn serve(&mut self, registry: &Registry, bound: Bound, stop: &CancellationToken) -> anyhow::Result<SocketAddr> {
        let address = bound.address();
        let listener = bound.listen()?;
        let (registry, world) = (registry.clone(), World::system());
        let service = ApiService::new(tower::service_fn(move |request: Request| {
            let answer = answered(&registry, &request, &world);
            async move { Ok::<_, Infallible>(answer) }
        }));
        self.tasks.push(tokio::spawn(serve::serve(listener, None, service, Limits::default(), stop.clone())));
        Ok(address)
    }

    /// After `stop`: waits for requests in flight.
    pub async fn ended(self) {
        for task in self.tasks {
            // The panic of a listener has been logged.
            let _ = task.await;
        }
    }
}

/// `/healthz`, `/readyz`, `/livez` with their checks, `/metrics`, `/statusz` and `/flagz`, with and without a slash at
/// the end.
pub fn answered(registry: &Registry, request: &Request, world: &World) -> Response {
    let path = request.uri().path();
    let path = path.strip_suffix('/').unwrap_or(path);
    if let Some(health) = Health::default().answer(path, request.uri().query().unwrap_or_default()) {
        return health;
    }
    if let Some(page) = operation::process().and_then(|process| process.answer(path, request.headers(), world.now())) {
        return page;
    }
    match path {
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
