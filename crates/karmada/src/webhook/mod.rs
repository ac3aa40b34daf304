//! `karmada webhook`: the admission rules and the conversion of bindings for another API server.

mod certificate;
pub mod difference;
pub mod review;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use apiserver::serve::{self, Limits};
use futures::FutureExt;
use http::StatusCode;
use http_body_util::BodyExt;
use karmada_api::admission::webhooks;
use metrics::{Buckets, Description, Registry};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use transport::{ApiService, Request, Response};

use world::World;

use crate::probes::{Addresses, Probes, answer, answered};
use crate::rules::Rules;
use crate::sockets::Bound;

/// A review carries an object twice; the API server's bound on an object is 3 MiB.
const MAX_BODY: usize = 7 * 1024 * 1024;

const NO_REQUEST: &str = "the review has no request";

/// The metrics, with controller-runtime's names.
pub const REQUESTS: Description =
    Description::counter("controller_runtime_webhook_requests_total", &["webhook", "code"], "Reviews answered.");
pub const LATENCY: Description = Description::histogram(
    "controller_runtime_webhook_latency_seconds",
    &["webhook"],
    Buckets::Default,
    "Duration of a review.",
);
pub const IN_FLIGHT: Description =
    Description::gauge("controller_runtime_webhook_requests_in_flight", &["webhook"], "Reviews in progress.");
pub const PANICS: Description =
    Description::counter("controller_runtime_webhook_panics_total", &[], "Reviews that panicked.");
pub const CONVERSION_PANICS: Description =
    Description::counter("controller_runtime_conversion_webhook_panics_total", &[], "Conversions that panicked.");
pub const METRICS: &[Description] =
    &[REQUESTS, LATENCY, IN_FLIGHT, PANICS, CONVERSION_PANICS, certificate::READS, certificate::READ_ERRORS];

#[derive(Clone, Debug)]
pub struct Options {
    pub listen: SocketAddr,
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Refuse TLS 1.2.
    pub tls_13_only: bool,
    pub probes: Addresses,
}

/// A running webhook server.
pub struct Running {
    pub address: SocketAddr,
    pub probes: Probes,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

/// Starts serving.
pub async fn start(rules: Arc<Rules>, registry: Registry, options: &Options) -> anyhow::Result<Running> {
    let (files, tls) = certificate::open(options, &registry)?;
    let stop = CancellationToken::new();
    let bound = Bound::new(options.listen, "--bind-address, --secure-port")?;
    let probes = options.probes.bind()?.open(&registry, &stop)?;
    let address = bound.address();
    let listener = bound.listen()?;
    let service = service(rules, registry.clone());
    let serving = serve::serve(listener, Some(tls), service, Limits::default(), stop.clone());
    let tasks = vec![tokio::spawn(serving), tokio::spawn(files.follow(stop.clone()))];
    Ok(Running { address, probes, stop, tasks })
}

impl Running {
    /// Waits for reviews in flight.
    pub async fn stop(self) {
        self.stop.cancel();
        for task in self.tasks {
            // The panic of a listener has been logged.
            let _ = task.await;
        }
        self.probes.ended().await;
    }
}

/// The HTTPS side as a value.
pub fn service(rules: Arc<Rules>, registry: Registry) -> ApiService {
    ApiService::new(tower::service_fn(move |request: Request| {
        let (rules, registry) = (Arc::clone(&rules), registry.clone());
        let panics = if request.uri().path() == "/convert" { &CONVERSION_PANICS } else { &PANICS };
        async move {
            let handled = std::panic::AssertUnwindSafe(handle(&rules, &registry, request)).catch_unwind().await;
            Ok::<_, Infallible>(handled.unwrap_or_else(|_panic| {
                registry.counters(panics).increment(&[]);
                answer(StatusCode::INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", "the review failed unexpectedly")
            }))
        }
    }))
}

async fn handle(rules: &Rules, registry: &Registry, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let webhook = webhooks::served_at(&path);
    if webhook.is_none() && path != "/convert" {
        return answered(registry, &request, &World::system());
    }
    let read = read(request).await;
    let Some(webhook) = webhook else {
        return match read {
            Ok(review) => json(&review::conversion(&review)),
            // As upstream, an unreadable review is a server error; one without a request is not.
            Err((_, why)) if why == NO_REQUEST => answer(StatusCode::BAD_REQUEST, "text/plain; charset=utf-8", why),
            Err((_, why)) => answer(StatusCode::INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", why),
        };
    };
    let started = tokio::time::Instant::now();
    registry.gauges(&IN_FLIGHT).add(&[webhook.path], 1.0);
    let (answer, code) = match read {
        Ok(review) => review::answer(rules, webhook, &review).await,
        Err((code, why)) => (review::unread(code, &why), code),
    };
    registry.gauges(&IN_FLIGHT).add(&[webhook.path], -1.0);
    registry.histograms(&LATENCY).took(&[webhook.path], started.elapsed());
    registry.counters(&REQUESTS).increment(&[webhook.path, &code.to_string()]);
    json(&answer)
}

fn json(value: &Value) -> Response {
    answer(StatusCode::OK, "application/json", value.to_string())
}

/// The review in the body of a request, or the code and text of the response to another body.
async fn read(request: Request) -> Result<Value, (u16, String)> {
    let content_type = request.headers().get(http::header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let content_type = content_type.unwrap_or_default().to_owned();
    let (mut body, mut whole) = (request.into_body(), Vec::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| (400, format!("reading the review: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + data.len() >= MAX_BODY {
            return Err((413, format!("request entity is too large; limit is {MAX_BODY} bytes")));
        }
        whole.extend_from_slice(&data);
    }
    if whole.is_empty() {
        return Err((400, "request body is empty".to_owned()));
    }
    if content_type != "application/json" {
        return Err((400, format!("contentType={content_type}, expected application/json")));
    }
    let review: Value =
        serde_json::from_slice(&whole).map_err(|error| (400, format!("decoding the review: {error}")))?;
    match (&review["kind"], review["request"].is_object()) {
        (Value::String(_), true) => Ok(review),
        (Value::String(_), false) => Err((400, NO_REQUEST.to_owned())),
        _ => Err((400, format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(&whole)))),
    }
}
