//! Mode `batch`: events wait in a buffer, bounded in number and in bytes, and are written together in the background.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use ::audit::Event;
use apiserver::audit::{Sink, SinkError};
use client::TokenBucket;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::{Encoder, Losses, Writer};

/// Upstream's name of events that the buffer did not take.
const BUFFERED: &str = "buffered";

/// Bytes of the events that wait for one backend or are being written. Policies of the level RequestResponse record
/// whole lists: upstream's 10,000 events would be as large as clients choose.
const MAX_BYTES: usize = 64 << 20;

/// The flags `--audit-*-batch-*`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batching {
    /// Events that may wait; more are lost.
    pub buffer: usize,
    /// Events that are written together, at most.
    pub size: usize,
    /// How long a batch waits until it is full; zero: not at all.
    pub wait: Duration,
    /// Batches a second on average, and at once; `None`: any number.
    pub throttle: Option<(f64, u32)>,
}

impl Batching {
    /// The next batch; `None` when the server ends.
    async fn next(self, events: &mut Receiver<Waiting>, stop: &CancellationToken) -> Option<Vec<Waiting>> {
        let mut batch = vec![stop.run_until_cancelled(events.recv()).await??];
        let full = async {
            while batch.len() < self.size {
                match events.recv().await {
                    Some(event) => batch.push(event),
                    None => break,
                }
            }
        };
        // A batch that the end interrupts is written like every other.
        let _ = stop.run_until_cancelled(tokio::time::timeout(self.wait, full)).await;
        Some(batch)
    }
}

/// An encoded event, whose bytes count until it is dropped.
struct Waiting {
    event: String,
    size: usize,
    bytes: Arc<AtomicUsize>,
}

impl Waiting {
    /// `None` if it is one too much.
    fn new(event: String, bytes: &Arc<AtomicUsize>) -> Option<Self> {
        let size = event.len();
        let waiting = Self { event, size, bytes: Arc::clone(bytes) };
        let before = bytes.fetch_add(size, Relaxed);
        (before == 0 || before + size <= MAX_BYTES).then_some(waiting)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.bytes.fetch_sub(self.size, Relaxed);
    }
}

pub(super) struct Batched {
    events: Sender<Waiting>,
    bytes: Arc<AtomicUsize>,
    encoder: Encoder,
    losses: Losses,
}

pub(super) fn start(
    writer: Arc<dyn Writer>,
    batching: Batching,
    encoder: Encoder,
    losses: Losses,
    stop: CancellationToken,
) -> (Batched, JoinHandle<()>) {
    let (events, receiver) = mpsc::channel(batching.buffer.max(1));
    let task = Task { writes: Writes::new(writer, encoder, losses.clone()), batching };
    (Batched { events, bytes: Arc::default(), encoder, losses }, tokio::spawn(task.run(receiver, stop)))
}

impl Sink for Batched {
    fn take<'a>(&'a self, event: &'a Event) -> BoxFuture<'a, Result<(), SinkError>> {
        let taken = match self.encoder.encode(event) {
            None => Err("the event is too large"),
            Some(encoded) => Waiting::new(encoded, &self.bytes)
                .and_then(|waiting| self.events.try_send(waiting).ok())
                .ok_or("the buffer is full"),
        };
        let taken = taken.inspect(|()| self.losses.none(BUFFERED)).map_err(|why| {
            self.losses.add(BUFFERED, 1, why);
            SinkError { message: why.to_owned(), is_strict: false }
        });
        std::future::ready(taken).boxed()
    }
}

struct Task {
    writes: Writes,
    batching: Batching,
}

impl Task {
    async fn run(mut self, mut events: Receiver<Waiting>, stop: CancellationToken) {
        let throttle = self.batching.throttle.and_then(|(rate, burst)| TokenBucket::new(rate, burst));
        while let Some(batch) = self.batching.next(&mut events, &stop).await {
            if let Some(throttle) = &throttle {
                stop.run_until_cancelled(throttle.acquire()).await;
            }
            self.writes.begin(batch).await;
        }
        // The queued events at shutdown.
        events.close();
        let mut rest = Vec::new();
        while let Ok(event) = events.try_recv() {
            rest.push(event);
        }
        while !rest.is_empty() {
            let left = rest.split_off(self.batching.size.max(1).min(rest.len()));
            self.writes.begin(std::mem::replace(&mut rest, left)).await;
        }
        self.writes.end().await;
    }
}

/// The batches that are being written. They end with it.
struct Writes {
    backend: Arc<Backend>,
    free: Arc<Semaphore>,
    running: JoinSet<()>,
}

struct Backend {
    writer: Arc<dyn Writer>,
    encoder: Encoder,
    losses: Losses,
}

impl Writes {
    fn new(writer: Arc<dyn Writer>, encoder: Encoder, losses: Losses) -> Self {
        let free = Arc::new(Semaphore::new(writer.concurrency()));
        Self { backend: Arc::new(Backend { writer, encoder, losses }), free, running: JoinSet::new() }
    }

    /// Begins to write a batch, as soon as few enough are being written.
    async fn begin(&mut self, batch: Vec<Waiting>) {
        while self.running.try_join_next().is_some() {}
        let (backend, slot) = (Arc::clone(&self.backend), Arc::clone(&self.free).acquire_owned().await);
        self.running.spawn(async move {
            let _slot = slot;
            backend.write(batch).await;
        });
    }

    async fn end(&mut self) {
        while self.running.join_next().await.is_some() {}
    }
}

impl Backend {
    async fn write(&self, mut waiting: Vec<Waiting>) {
        let batch = waiting.iter_mut().map(|waiting| std::mem::take(&mut waiting.event)).collect();
        let batches = match self.encoder.limits {
            Some(limits) => limits.batches(batch),
            None => vec![batch],
        };
        let name = self.writer.name();
        for batch in batches {
            let count = batch.len();
            match self.writer.write(batch).await {
                Ok(()) => self.losses.none(name),
                Err(why) => self.losses.add(name, count, &why),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_wait_are_bounded_in_bytes() {
        let bytes = Arc::<AtomicUsize>::default();
        let event = |size: usize| Waiting::new("x".repeat(size), &bytes);
        let whole = event(MAX_BYTES + 1).expect("one event waits, whatever its size");
        assert!(event(1).is_none());
        drop(whole);
        let half: Vec<_> = (0..2).map(|_| event(MAX_BYTES / 2).expect("room")).collect();
        assert!(event(1).is_none());
        drop(half);
        assert_eq!(bytes.load(Relaxed), 0, "refused ones do not count");
    }
}
