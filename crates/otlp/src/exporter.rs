//! The queue of finished spans, and the task that sends them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::{Counter, Counters, Description, Registry};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};
use trace::{Finished, Sink};

use crate::config::Endpoint;
use crate::connection::Connection;
use crate::wire;

const EXPORTED: Description = Description::counter(
    "karmada_tracing_exported_spans_total",
    &[],
    "Spans that the collector of --tracing-config-file accepted.",
);
const DROPPED: Description = Description::counter(
    "karmada_tracing_dropped_spans_total",
    &["reason"],
    "Spans that were lost: queue_full, failed (not accepted within a minute, or refused as a whole), rejected, shutdown.",
);
/// The metrics of this crate.
pub const ALL: &[Description] = &[EXPORTED, DROPPED];

/// The bounds of the export.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Spans that wait. Those beyond are dropped.
    pub queue: usize,
    /// Spans of a request.
    pub batch: usize,
    /// The longest wait of a span for a full batch.
    pub delay: Duration,
    /// The time of an attempt, the connection included.
    pub attempt: Duration,
    /// The pause after the first failed attempt; it doubles each time.
    pub pause: Duration,
    /// The time limit for all attempts to send a batch.
    pub patience: Duration,
    /// The time limit for the remaining spans at shutdown.
    pub flush: Duration,
}

impl Default for Limits {
    /// As in kube-apiserver's SDK. A span takes 1 to 2 KiB: 2048 in the queue and 512 in flight are at most 5 MiB,
    /// where no client sends the longest texts that attributes have.
    fn default() -> Self {
        Self {
            queue: 2048,
            batch: 512,
            delay: Duration::from_secs(5),
            attempt: Duration::from_secs(10),
            pause: Duration::from_secs(1),
            patience: Duration::from_secs(60),
            flush: Duration::from_secs(5),
        }
    }
}

/// The program in the spans.
#[derive(Clone, Debug)]
pub struct Source {
    /// `service.name`
    pub name: String,
    /// `service.instance.id`
    pub instance: String,
}

/// Where spans enter. Never waits.
pub struct Queue {
    spans: mpsc::Sender<Finished>,
    full: Counter,
    dropped: Arc<AtomicU64>,
}

impl Sink for Queue {
    fn take(&self, span: Finished) {
        if self.spans.try_send(span).is_err() {
            self.full.increment();
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The running export.
pub struct Exporter {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Exporter {
    /// Sends the remaining spans, within [`Limits::flush`], and ends. Called once no request is served any more.
    pub async fn close(self) {
        self.stop.cancel();
        // A task that panicked has reported it.
        let _ = self.task.await;
    }
}

/// Starts the export to a collector. The connection is opened with the first spans.
pub fn start(endpoint: Endpoint, source: &Source, limits: Limits, registry: &Registry) -> (Queue, Exporter) {
    let (sender, receiver) = mpsc::channel(limits.queue);
    let lost = registry.counters(&DROPPED);
    let dropped = Arc::new(AtomicU64::new(0));
    let queue = Queue { spans: sender, full: lost.of(&["queue_full"]), dropped: Arc::clone(&dropped) };
    let sending = Sending {
        spans: receiver,
        pending: Vec::new(),
        resource: vec![wire::text("service.name", &source.name), wire::text("service.instance.id", &source.instance)],
        place: endpoint.to_string(),
        connection: Connection::new(endpoint),
        limits,
        exported: registry.counters(&EXPORTED),
        lost,
        overflow: Overflow { dropped, seen: 0, is_reported: false },
        is_failing: false,
    };
    let stop = CancellationToken::new();
    let task = tokio::spawn(sending.run(stop.clone()));
    (queue, Exporter { stop, task })
}

struct Sending {
    spans: mpsc::Receiver<Finished>,
    /// The batch in flight.
    pending: Vec<Finished>,
    resource: Vec<wire::KeyValue>,
    /// The endpoint, for the log.
    place: String,
    connection: Connection,
    limits: Limits,
    exported: Counters,
    lost: Counters,
    overflow: Overflow,
    /// Whether the last attempt failed, which has been reported.
    is_failing: bool,
}

impl Sending {
    async fn run(mut self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.follow() => {}
        }
        // Spans of a cancelled attempt may have been delivered and are sent again: a collector identifies spans by ID.
        let _ = timeout(self.limits.flush, self.drain()).await;
        let left = self.pending.len() + self.spans.len();
        if left > 0 {
            self.lost.add(&["shutdown"], left as u64);
            tracing::warn!(endpoint = self.place, spans = left, "Spans were not exported before the shutdown");
        }
    }

    /// Runs until no further span can arrive.
    async fn follow(&mut self) {
        while self.batch().await {
            self.overflow.report();
            self.deliver().await;
        }
    }

    /// Exports all queued spans.
    async fn drain(&mut self) {
        loop {
            while self.pending.len() < self.limits.batch
                && let Ok(span) = self.spans.try_recv()
            {
                self.pending.push(span);
            }
            if self.pending.is_empty() {
                return;
            }
            self.deliver().await;
        }
    }

    /// Waits for a batch: a full one, or the spans within the delay after the first one.
    async fn batch(&mut self) -> bool {
        let (batch, delay) = (self.limits.batch, self.limits.delay);
        if self.spans.recv_many(&mut self.pending, batch).await == 0 {
            return false;
        }
        let end = Instant::now() + delay;
        while self.pending.len() < batch {
            let most = batch - self.pending.len();
            match timeout_at(end, self.spans.recv_many(&mut self.pending, most)).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
        true
    }

    /// Sends the batch, repeatedly if another attempt may succeed.
    async fn deliver(&mut self) {
        let began = Instant::now();
        let mut pause = self.limits.pause;
        loop {
            let request = wire::request(&self.resource, &self.pending);
            let attempt = timeout(self.limits.attempt, self.connection.export(request)).await;
            let failure = match attempt.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer in time"))) {
                Ok(refused) => return self.delivered(refused),
                Err(failure) => failure,
            };
            self.report(&failure);
            if !may_pass(failure.code()) || began.elapsed() + pause > self.limits.patience {
                self.lost.add(&["failed"], self.pending.len() as u64);
                self.pending.clear();
                return;
            }
            sleep(pause).await;
            pause *= 2;
        }
    }

    fn delivered(&mut self, refused: Option<wire::ExportTracePartialSuccess>) {
        let sent = self.pending.len() as u64;
        self.pending.clear();
        let refused = refused.unwrap_or_default();
        let rejected = u64::try_from(refused.rejected_spans).unwrap_or_default().min(sent);
        self.exported.add(&[], sent - rejected);
        if rejected > 0 {
            self.lost.add(&["rejected"], rejected);
            self.report(&Status::invalid_argument(refused.error_message));
        } else if std::mem::take(&mut self.is_failing) {
            tracing::info!(endpoint = self.place, "Spans are exported again");
        }
    }

    /// The first failure of a series is reported.
    fn report(&mut self, failure: &Status) {
        if !std::mem::replace(&mut self.is_failing, true) {
            let (code, message) = (failure.code(), failure.message());
            tracing::warn!(
                endpoint = self.place,
                ?code,
                err = message,
                "Spans cannot be exported; check the endpoint in --tracing-config-file"
            );
        }
    }
}

/// Whether another attempt may succeed, by OTLP's specification.
fn may_pass(code: Code) -> bool {
    use Code::{Aborted, Cancelled, DataLoss, DeadlineExceeded, OutOfRange, Unavailable, Unknown};
    // Unknown: the connection ended within the request.
    matches!(code, Aborted | Cancelled | DataLoss | DeadlineExceeded | OutOfRange | Unavailable | Unknown)
}

/// Reports that the queue was full, once until it has not been for the time of a batch.
struct Overflow {
    dropped: Arc<AtomicU64>,
    seen: u64,
    is_reported: bool,
}

impl Overflow {
    fn report(&mut self) {
        let dropped = self.dropped.load(Ordering::Relaxed);
        let is_more = dropped > std::mem::replace(&mut self.seen, dropped);
        if is_more && !self.is_reported {
            tracing::warn!(
                spans = dropped,
                "Spans are dropped: they end faster than the collector takes them; lower samplingRatePerMillion"
            );
        }
        self.is_reported = is_more;
    }
}
