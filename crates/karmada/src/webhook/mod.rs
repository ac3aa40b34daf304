//! `karmada webhook`: the admission rules and the conversion of bindings for an API server that is not ours.

pub mod difference;
pub mod review;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use apiserver::serve::{self, Limits, TlsConfig};
use bytes::Bytes;
use futures::FutureExt;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use karmada_api::admission::webhooks;
use metrics::{Buckets, Description, Registry};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use transport::{ApiService, Request, Response, full};

use crate::rules::Rules;

/// A review carries an object twice; the API server's bound on an object is 3 MiB.
const MAX_BODY: usize = 7 * 1024 * 1024;

/// What is counted, with controller-runtime's names.
pub const REQUESTS: Description =
    Description::counter("controller_runtime_webhook_requests_total", &["webhook", "code"], "Reviews answered.");
pub const LATENCY: Description = Description::histogram(
    "controller_runtime_webhook_latency_seconds",
    &["webhook"],
    Buckets::Default,
    "How long a review took.",
);
pub const IN_FLIGHT: Description =
    Description::gauge("controller_runtime_webhook_requests_in_flight", &["webhook"], "Reviews under way.");
pub const PANICS: Description =
    Description::counter("controller_runtime_webhook_panics_total", &[], "Reviews that ended in a panic.");
pub const METRICS: &[Description] = &[REQUESTS, LATENCY, IN_FLIGHT, PANICS];

#[derive(Clone, Debug)]
pub struct Options {
    pub listen: SocketAddr,
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Refuse TLS 1.2.
    pub tls_13_only: bool,
    /// Plain HTTP for `/metrics`; `None` is off.
    pub metrics: Option<SocketAddr>,
    /// Plain HTTP for `/healthz` and `/readyz`; `None` is off.
    pub health: Option<SocketAddr>,
}

/// A webhook server at work.
pub struct Running {
    pub address: SocketAddr,
    pub metrics: Option<SocketAddr>,
    pub health: Option<SocketAddr>,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

/// Starts serving.
pub async fn start(rules: Arc<Rules>, registry: Registry, options: &Options) -> anyhow::Result<Running> {
    let read = |path: &PathBuf| std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()));
    let (certificate, key) = (read(&options.certificate)?, read(&options.key)?);
    let tls = TlsConfig::without_client_certificates(&certificate, &key, options.tls_13_only)
        .context("setting up TLS with the files of --cert-dir")?;
    let stop = CancellationToken::new();
    let mut tasks = Vec::new();
    let mut open = async |address: SocketAddr, tls: Option<TlsConfig>, service: ApiService| {
        let listener = TcpListener::bind(address).await.with_context(|| format!("listening on {address}"))?;
        let address = listener.local_addr().context("reading the listener's address")?;
        tasks.push(tokio::spawn(serve::serve(listener, tls, service, Limits::default(), stop.clone())));
        anyhow::Ok(address)
    };
    let address = open(options.listen, Some(tls), service(rules, registry.clone())).await?;
    let plain = |registry: Registry| {
        ApiService::new(tower::service_fn(move |request: Request| {
            let answer = plain(&registry, request.uri().path());
            async move { Ok::<_, Infallible>(answer) }
        }))
    };
    let mut metrics = None;
    if let Some(at) = options.metrics {
        metrics = Some(open(at, None, plain(registry.clone())).await?);
    }
    let mut health = None;
    if let Some(at) = options.health {
        health = Some(open(at, None, plain(registry.clone())).await?);
    }
    Ok(Running { address, metrics, health, stop, tasks })
}

impl Running {
    /// Lets reviews under way end.
    pub async fn stop(self) {
        self.stop.cancel();
        for task in self.tasks {
            // A listener that panicked has said so already.
            let _ = task.await;
        }
    }
}

fn answer(code: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(full(body));
    *response.status_mut() = code;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}

/// `/healthz`, `/readyz`, `/livez` and `/metrics`, with and without a slash at the end.
fn plain(registry: &Registry, path: &str) -> Response {
    match path.strip_suffix('/').unwrap_or(path) {
        "/healthz" | "/readyz" | "/livez" => answer(StatusCode::OK, "text/plain; charset=utf-8", "ok"),
        "/metrics" => answer(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", registry.text()),
        _ => answer(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "404 page not found\n"),
    }
}

/// The HTTPS side as a value.
pub fn service(rules: Arc<Rules>, registry: Registry) -> ApiService {
    ApiService::new(tower::service_fn(move |request: Request| {
        let (rules, registry) = (Arc::clone(&rules), registry.clone());
        async move {
            let handled = std::panic::AssertUnwindSafe(handle(&rules, &registry, request)).catch_unwind().await;
            Ok::<_, Infallible>(handled.unwrap_or_else(|_panic| {
                registry.counters(&PANICS).increment(&[]);
                answer(StatusCode::INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", "the review failed unexpectedly")
            }))
        }
    }))
}

async fn handle(rules: &Rules, registry: &Registry, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let webhook = webhooks::served_at(&path);
    if webhook.is_none() && path != "/convert" {
        return plain(registry, &path);
    }
    if request.method() != Method::POST {
        return answer(StatusCode::METHOD_NOT_ALLOWED, "text/plain; charset=utf-8", "POST a review here\n");
    }
    let review = match read(request).await {
        Ok(review) => review,
        Err((code, why)) => return answer(code, "text/plain; charset=utf-8", why),
    };
    let Some(webhook) = webhook else { return json(&review::conversion(&review)) };
    let started = tokio::time::Instant::now();
    registry.gauges(&IN_FLIGHT).add(&[webhook.path], 1.0);
    let (answer, code) = review::admission(rules, webhook, &review).await;
    registry.gauges(&IN_FLIGHT).add(&[webhook.path], -1.0);
    registry.histograms(&LATENCY).took(&[webhook.path], started.elapsed());
    registry.counters(&REQUESTS).increment(&[webhook.path, &code.to_string()]);
    json(&answer)
}

fn json(value: &Value) -> Response {
    answer(StatusCode::OK, "application/json", value.to_string())
}

/// The review in a request's body.
async fn read(request: Request) -> Result<Value, (StatusCode, String)> {
    let (mut body, mut whole) = (request.into_body(), Vec::new());
    let refuse = |why: String| (StatusCode::BAD_REQUEST, why);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| refuse(format!("reading the review: {error}\n")))?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + data.len() > MAX_BODY {
            return Err((StatusCode::PAYLOAD_TOO_LARGE, format!("the review is longer than {MAX_BODY} bytes\n")));
        }
        whole.extend_from_slice(&data);
    }
    let review: Value =
        serde_json::from_slice(&whole).map_err(|error| refuse(format!("decoding the review: {error}\n")))?;
    if review["request"].is_object() {
        Ok(review)
    } else {
        Err(refuse("decoding the review: it has no request\n".to_owned()))
    }
}
