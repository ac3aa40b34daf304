//! The audit webhook: events are sent as an EventList to the server of a kubeconfig.

use std::path::PathBuf;
use std::time::Duration;

use ::audit::event_list;
use anyhow::Context as _;
use client::Client;
use client::kubeconfig::Places;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, StatusCode};
use http_body_util::{BodyExt as _, Limited};

use super::Writer;

/// As upstream: five attempts, each after one and a half times the pause before.
const ATTEMPTS: u32 = 5;
const FACTOR: f64 = 1.5;
/// The timeout of one attempt.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Requests in flight.
const MAX_CALLS: usize = 32;
/// The body of a response, and the time for it, which the next request on its connection waits for.
const MAX_RESPONSE: usize = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(1);

/// The flags `--audit-webhook-*`.
#[derive(Clone, Debug)]
pub struct Webhook {
    pub config_file: PathBuf,
    /// The pause after the first failed attempt.
    pub initial_backoff: Duration,
}

impl Webhook {
    pub(super) async fn open(&self) -> anyhow::Result<WebhookWriter> {
        let places = Places::file(&self.config_file);
        let connected = places.connect_to_webhook().await;
        let (client, path) =
            connected.with_context(|| format!("--audit-webhook-config-file {}", self.config_file.display()))?;
        Ok(WebhookWriter { client, path, initial_backoff: self.initial_backoff })
    }
}

pub(super) struct WebhookWriter {
    client: Client,
    path: String,
    initial_backoff: Duration,
}

/// A failed attempt, and whether another one may succeed.
struct Failed {
    why: String,
    may_pass: bool,
}

impl WebhookWriter {
    async fn send(&self, body: &str) -> Result<(), Failed> {
        let request = http::Request::builder()
            .method(Method::POST)
            .uri(&self.path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(transport::full(body.to_owned()))
            .map_err(|error| Failed { why: error.to_string(), may_pass: false })?;
        let response = match tokio::time::timeout(TIMEOUT, self.client.send(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(Failed { why: error.to_string(), may_pass: true }),
            Err(_) => return Err(Failed { why: format!("no answer within {} s", TIMEOUT.as_secs()), may_pass: true }),
        };
        let status = response.status();
        if status.is_success() {
            // The connection can be reused once the body is read; only the status matters.
            let _ = tokio::time::timeout(PATIENCE, drained(response.into_body())).await;
            return Ok(());
        }
        let may_pass = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
        Err(Failed { why: format!("the webhook answered {status}"), may_pass })
    }
}

/// Not an `async fn`: the compiler could not prove its callers `Send`.
fn drained(body: transport::Body) -> BoxFuture<'static, ()> {
    Limited::new(body, MAX_RESPONSE).collect().map(drop).boxed()
}

impl Writer for WebhookWriter {
    fn name(&self) -> &'static str {
        "webhook"
    }

    fn concurrency(&self) -> usize {
        MAX_CALLS
    }

    fn write(&self, events: Vec<String>) -> BoxFuture<'_, Result<(), String>> {
        async move {
            let body = event_list(events.iter().map(String::as_str));
            let mut pause = self.initial_backoff;
            for attempt in 1.. {
                match self.send(&body).await {
                    Ok(()) => return Ok(()),
                    Err(failed) if !failed.may_pass || attempt == ATTEMPTS => return Err(failed.why),
                    Err(_) => tokio::time::sleep(pause).await,
                }
                pause = pause.mul_f64(FACTOR);
            }
            Ok(())
        }
        .boxed()
    }
}
