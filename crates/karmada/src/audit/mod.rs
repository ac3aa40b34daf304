//! Where audit events go: a log and a webhook, set up by kube-apiserver's flags.

mod batch;
mod log;
mod webhook;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::audit::{Event, Limits, Parsed, Policy};
use anyhow::Context as _;
use apiserver::audit::{Auditor, ERRORS, Sink, SinkError};
use controller_runtime::Failures;
use futures::FutureExt;
use futures::future::BoxFuture;
use metrics::{Counters, Registry};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use batch::Batching;
pub use log::{Format, Log};
pub use webhook::Webhook;

/// For what waits when the server ends. A webhook that does not answer has attempts of minutes for each batch.
const LONGEST_END: Duration = Duration::from_secs(30);

/// For the event of a request that waits for it (modes `blocking` and `blocking-strict`).
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The audit flags of an API server.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// `--audit-policy-file`; without it, no events are recorded.
    pub policy_file: Option<PathBuf>,
    pub log: Option<Backend<Log>>,
    pub webhook: Option<Backend<Webhook>>,
}

/// One backend and how events reach it.
#[derive(Clone, Debug)]
pub struct Backend<B> {
    pub to: B,
    pub mode: Mode,
    /// Larger events and batches are truncated; `None` without truncation.
    pub limits: Option<Limits>,
}

/// When a request continues.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// Once the event is written or lost.
    Blocking,
    /// Once the event is written. A request whose first event is lost is refused.
    BlockingStrict,
    /// At once: events are written in the background.
    Batch(Batching),
}

/// The end of a backend: writes encoded events.
trait Writer: Send + Sync + 'static {
    /// As in metrics and log lines.
    fn name(&self) -> &'static str;

    /// The maximum number of concurrent writes.
    fn concurrency(&self) -> usize;

    /// Writes all events, or none if a failure is certain.
    fn write(&self, events: Vec<String>) -> BoxFuture<'_, Result<(), String>>;
}

/// Encodes events within the limits.
#[derive(Clone, Copy)]
struct Encoder {
    encode: fn(&Event) -> String,
    limits: Option<Limits>,
}

impl Encoder {
    /// `None` if the event is too large even without its objects.
    fn encode(&self, event: &Event) -> Option<String> {
        match self.limits {
            Some(limits) => limits.encode(event, self.encode),
            None => Some((self.encode)(event)),
        }
    }
}

/// Counts lost events, and reports the first of a series.
#[derive(Clone)]
struct Losses {
    errors: Counters,
    failures: Arc<Failures<&'static str>>,
}

impl Losses {
    fn add(&self, plugin: &'static str, events: usize, why: &str) {
        (0..events).for_each(|_| self.errors.increment(&[plugin]));
        if self.failures.failed(&plugin, why) {
            tracing::error!(plugin, err = why, "Audit events are lost");
        }
    }

    fn none(&self, plugin: &'static str) {
        if self.failures.succeeded(&plugin).is_some() {
            tracing::info!(plugin, "Audit events are recorded again");
        }
    }
}

/// A sink of mode `blocking` or `blocking-strict`.
struct Direct {
    writer: Arc<dyn Writer>,
    writes: Semaphore,
    encoder: Encoder,
    is_strict: bool,
    losses: Losses,
}

impl Sink for Direct {
    fn take<'a>(&'a self, event: &'a Event) -> BoxFuture<'a, Result<(), SinkError>> {
        async move {
            let written = match self.encoder.encode(event) {
                Some(encoded) => self.written(encoded).await,
                None => Err("the event is too large".to_owned()),
            };
            let name = self.writer.name();
            written.inspect(|()| self.losses.none(name)).map_err(|message| {
                self.losses.add(name, 1, &message);
                SinkError { message, is_strict: self.is_strict }
            })
        }
        .boxed()
    }
}

impl Direct {
    async fn written(&self, encoded: String) -> Result<(), String> {
        let written = async {
            let _write = self.writes.acquire().await.map_err(|error| error.to_string())?;
            self.writer.write(vec![encoded]).await
        };
        let late = |_| format!("the backend did not take the event within {} s", LONGEST_WAIT.as_secs());
        tokio::time::timeout(LONGEST_WAIT, written).await.map_err(late)?
    }
}

/// The backends of a server that is audited.
pub struct Backends {
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Backends {
    /// Writes the queued events, then ends. Called once no request is served any more. Events that a backend does not
    /// accept in time are lost.
    pub async fn close(self) {
        self.stop.cancel();
        let end = tokio::time::Instant::now() + LONGEST_END;
        for mut task in self.tasks {
            // One that panicked has reported it.
            if tokio::time::timeout_at(end, &mut task).await.is_err() {
                let seconds = LONGEST_END.as_secs();
                tracing::error!(seconds, "Audit events are lost: a backend did not take them before the end");
                task.abort();
            }
        }
    }
}

impl Settings {
    /// Reads the policy.
    ///
    /// # Errors
    /// If it cannot be used, naming the flag and the file.
    pub fn check(&self) -> anyhow::Result<()> {
        self.policy().map(drop)
    }

    fn policy(&self) -> anyhow::Result<Option<Parsed>> {
        let Some(file) = &self.policy_file else { return Ok(None) };
        let place = || format!("--audit-policy-file {}", file.display());
        let text = std::fs::read(file).with_context(place)?;
        Policy::parse(&text).map(Some).with_context(place)
    }

    /// Opens the backends. `None` if auditing is off.
    ///
    /// # Errors
    /// If the policy, the log file or the kubeconfig of the webhook is invalid.
    pub async fn open(&self, registry: &Registry) -> anyhow::Result<Option<(Auditor, Backends)>> {
        let Some(Parsed { policy, warnings }) = self.policy()? else {
            if self.log.is_some() || self.webhook.is_some() {
                tracing::warn!("No audit event is recorded: --audit-policy-file is not set");
            }
            return Ok(None);
        };
        for warning in warnings {
            tracing::warn!(warning, "Part of the audit policy is ignored");
        }
        if self.log.is_none() && self.webhook.is_none() {
            tracing::warn!(
                "No audit event is recorded: neither --audit-log-path nor --audit-webhook-config-file is set"
            );
            return Ok(None);
        }
        let losses =
            Losses { errors: registry.counters(&ERRORS), failures: Arc::new(Failures::lasting(Duration::ZERO)) };
        let mut opened = Opened {
            sinks: Vec::new(),
            backends: Backends { stop: CancellationToken::new(), tasks: Vec::new() },
            losses,
        };
        if let Some(log) = &self.log {
            let encode = log.to.format.encoder();
            opened.add(Arc::new(log.to.open()?), log.mode, Encoder { encode, limits: log.limits });
        }
        if let Some(webhook) = &self.webhook {
            let encoder = Encoder { encode: Event::to_json, limits: webhook.limits };
            opened.add(Arc::new(webhook.to.open().await?), webhook.mode, encoder);
        }
        Ok(Some((Auditor::new(policy, opened.sinks, registry), opened.backends)))
    }
}

struct Opened {
    sinks: Vec<Arc<dyn Sink>>,
    backends: Backends,
    losses: Losses,
}

impl Opened {
    fn add(&mut self, writer: Arc<dyn Writer>, mode: Mode, encoder: Encoder) {
        let losses = self.losses.clone();
        let sink: Arc<dyn Sink> = match mode {
            Mode::Batch(batching) => {
                let (sink, task) = batch::start(writer, batching, encoder, losses, self.backends.stop.clone());
                self.backends.tasks.push(task);
                Arc::new(sink)
            }
            Mode::Blocking | Mode::BlockingStrict => {
                let (is_strict, writes) = (mode == Mode::BlockingStrict, Semaphore::new(writer.concurrency()));
                Arc::new(Direct { writer, writes, encoder, is_strict, losses })
            }
        };
        self.sinks.push(sink);
    }
}

#[cfg(test)]
mod tests;
