//! Watches: one stream of etcd each, opened again where it broke.

use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use storage::{Error, KeyRange, Result, Revision, WatchBatch};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tonic::Streaming;

use crate::assemble::{Assembler, Previous, Step};
use crate::connection::Peer;
use crate::failure::{Access, Failure};
use crate::history::Anchor;
use crate::inner::Inner;
use crate::wire::{self, Watching};

/// A requested progress report is awaited this long before etcd is requested to send one: mostly a change brings it.
const PATIENCE: Duration = Duration::from_millis(10);
/// Between requests for a report: etcd drops them while a watch catches up.
const REPEAT: Duration = Duration::from_millis(100);
/// Between attempts to open the stream again.
const RETRY: Duration = Duration::from_millis(250);

struct Open {
    peer: Peer,
    requests: mpsc::Sender<wire::WatchRequest>,
    responses: Streaming<wire::WatchResponse>,
}

struct Watch {
    inner: Arc<Inner>,
    assembler: Assembler,
    /// In the store's keys.
    range: KeyRange,
    open: Option<Open>,
    after: Revision,
    /// The revision of the last batch.
    delivered: Revision,
    wanted: tokio::sync::watch::Receiver<Revision>,
    /// When a report is requested from etcd, if the watch lags behind until then.
    next_request: Option<Instant>,
    /// The stream broke, and the break was logged.
    broken: bool,
}

/// Why a stream ended.
enum End {
    /// Another one can go on where it ended.
    Broken(Failure),
    /// etcd has ended this watch alone.
    Cancelled(Failure),
    Error(Error),
}

impl Inner {
    /// Opens a watch. Returns once etcd has confirmed that no change after `after` was compacted.
    pub(crate) async fn open_watch(
        self: &Arc<Self>,
        range: KeyRange,
        after: Revision,
        previous: Previous,
    ) -> Result<impl Stream<Item = Result<WatchBatch>> + Send + use<>> {
        // A key that does not exist: only its revision is of interest.
        match self.read_one(b"\0", Some(after)).await {
            Ok(_) | Err(Error::FutureRevision { .. }) => {}
            Err(error) => return Err(error),
        }
        let mut watch = Watch {
            inner: Arc::clone(self),
            assembler: Assembler::new(range.clone(), after, previous),
            range,
            open: None,
            after,
            delivered: 0,
            wanted: self.wanted.subscribe(),
            next_request: None,
            broken: false,
        };
        match watch.connect().await {
            Ok(open) => watch.open = Some(open),
            Err(failure) if failure.is_worth_another_attempt(Access::Read) => watch.log_loss(&failure),
            Err(failure) => return Err(failure.error(Access::Read)),
        }
        Ok(futures::stream::unfold(Some(watch), async |watch| {
            let mut watch = watch?;
            match watch.next().await {
                Ok(batch) => Some((Ok(batch), Some(watch))),
                Err(error) => Some((Err(error), None)),
            }
        }))
    }
}

impl Watch {
    async fn next(&mut self) -> Result<WatchBatch> {
        let mut closed = self.inner.closed.subscribe();
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => Err(Error::Closed),
            batch = self.batch() => batch,
        }
    }

    async fn batch(&mut self) -> Result<WatchBatch> {
        loop {
            if self.open.is_none() {
                self.resume().await?;
            }
            match self.receive().await {
                Ok(Some(_)) if self.inner.connections.history.broken().is_some() => self.open = None,
                Ok(Some(batch)) => return Ok(batch),
                Ok(None) => {}
                Err(End::Broken(failure)) => {
                    if let Some(open) = self.open.take() {
                        self.inner.connections.discard(&open.peer).await;
                    }
                    self.lost(&failure).await;
                }
                Err(End::Cancelled(failure)) => {
                    self.open = None;
                    self.lost(&failure).await;
                }
                Err(End::Error(error)) => return Err(error),
            }
        }
    }

    /// The next response, or a request for a report when the watch lags behind for a while.
    async fn receive(&mut self) -> Result<Option<WatchBatch>, End> {
        let Some(Open { peer, requests, responses }) = &mut self.open else { return Ok(None) };
        let target = *self.wanted.borrow_and_update();
        let lags = self.delivered < target && self.after <= target;
        if !lags {
            self.next_request = None;
        } else if self.assembler.position() >= target {
            // The range has no changes up to there, or the watch began there.
            self.delivered = self.assembler.position();
            return Ok(Some(WatchBatch { revision: self.delivered, changes: Vec::new() }));
        }
        let due = lags.then(|| *self.next_request.get_or_insert_with(|| Instant::now() + PATIENCE));
        let ended = |message: &str| Failure { message: message.to_owned(), ..Failure::unsent(&peer.endpoint, "") };
        let message = tokio::select! {
            biased;
            message = responses.message() => message,
            () = peer.given_up() => return Err(End::Broken(ended("requests on its connection failed"))),
            () = async { match due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            } } => {
                self.next_request = Some(Instant::now() + REPEAT);
                if peer.reports_progress {
                    let report = Watching::Progress(wire::WatchProgressRequest {});
                    // A full channel has such a request already; a closed one ends the stream.
                    let _ = requests.try_send(wire::WatchRequest { request: Some(report) });
                } else {
                    self.inner.mark(target);
                }
                return Ok(None);
            }
            changed = self.wanted.changed() => {
                return changed.map(|()| None).map_err(|_| End::Error(Error::Closed));
            }
        };
        let response = match message {
            Ok(Some(response)) => response,
            Ok(None) => return Err(End::Broken(ended("the stream ended"))),
            Err(status) => return Err(End::Broken(peer.broken(&status))),
        };
        if std::mem::take(&mut self.broken) {
            self.inner.connections.note(true);
            tracing::info!(endpoint = %peer.endpoint, revision = self.assembler.position(), "watch of etcd goes on");
        }
        if let Some(anchor) = Anchor::of(&response) {
            self.inner.connections.history.note(anchor);
        }
        match self.assembler.accept(response, &self.inner.layout).map_err(End::Error)? {
            Step::Nothing => Ok(None),
            Step::Ended { compacted: Some(oldest), .. } => {
                Err(End::Error(Error::Compacted { requested: self.assembler.position(), oldest }))
            }
            Step::Ended { compacted: None, reason } => Err(End::Cancelled(ended(&reason))),
            Step::Batch(batch) => {
                self.inner.has_seen(batch.revision);
                if batch.changes.is_empty() && (self.delivered >= target || batch.revision < target) {
                    // No progress was requested: a change of other keys.
                    return Ok(None);
                }
                self.delivered = batch.revision;
                Ok(Some(batch.into()))
            }
        }
    }

    /// Opens the stream again, however long that takes; the caller's reads fail meanwhile.
    async fn resume(&mut self) -> Result<()> {
        loop {
            match self.connect().await {
                Ok(open) => {
                    self.open = Some(open);
                    return Ok(());
                }
                Err(failure) if !failure.is_an_answer() => self.log_loss(&failure),
                Err(failure) => return Err(failure.error(Access::Read)),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn connect(&mut self) -> Result<Open, Failure> {
        let peer = self.inner.connections.peer().await?;
        let ranges = self.inner.layout.ranges(&self.range);
        // Without progress reports, a marker within the watched range takes their place.
        let range = match <[KeyRange; 1]>::try_from(ranges) {
            Ok([range]) if peer.reports_progress => range,
            _ => self.inner.layout.everything(),
        };
        let create = wire::WatchCreateRequest {
            key: range.start,
            range_end: range.end,
            start_revision: self.assembler.begin(),
            progress_notify: true,
            prev_kv: self.assembler.previous() == Previous::Read,
            fragment: true,
        };
        let (requests, receiver) = mpsc::channel(2);
        // The channel is empty, and its other end is here.
        let _ = requests.try_send(wire::WatchRequest { request: Some(Watching::Create(create)) });
        let messages = futures::stream::unfold(receiver, async |mut receiver| Some((receiver.recv().await?, receiver)));
        match peer.stream(wire::WATCH, messages).await {
            Ok(responses) => Ok(Open { peer, requests, responses }),
            Err(failure) => {
                self.inner.connections.discard(&peer).await;
                Err(failure)
            }
        }
    }

    async fn lost(&mut self, failure: &Failure) {
        if self.broken {
            // The stream opened and broke again before it brought anything.
            tokio::time::sleep(RETRY).await;
        }
        self.log_loss(failure);
    }

    fn log_loss(&mut self, failure: &Failure) {
        self.inner.connections.note(false);
        if !std::mem::replace(&mut self.broken, true) {
            let Failure { endpoint, message, .. } = failure;
            let revision = self.assembler.position();
            tracing::warn!(%endpoint, %message, revision, "watch of etcd broke and is opened again");
        }
    }
}
