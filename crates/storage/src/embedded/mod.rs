//! The store in a SQLite file: durable, in this process, without a server. `docs/dependencies.md` has the figures for
//! the choice of SQLite. Writes go through `committer`, each read has a separate connection, and recent changes are
//! kept in memory for watchers; older ones are read from the file.
//!
//! Damaged data is never treated as absent. `wal` and `mark` detect acknowledged commits that the log has lost,
//! `schema` verifies the index of keys when the store opens, `database` verifies each row that it reads, and `scrub`
//! verifies everything in the background. docs/data-integrity.md describes the behavior of a damaged store. `backup`
//! writes and restores backups, and `inspect` verifies a store without opening it for writes.

mod acknowledgement;
pub mod backup;
mod breaks;
mod checksum;
mod committer;
mod connection;
mod database;
mod directory;
mod full;
mod housekeeping;
pub mod import;
pub mod inspect;
mod mark;
mod opened;
mod opening;
mod read;
mod recent;
mod schema;
mod scrub;
mod upgrade;
mod wal;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::Notify;
use tokio::time::Instant;

pub use breaks::{Break, BreakKind};
use committer::{Queue, Request, Writer};
use directory::Claim;
use opened::Opened;
use scrub::Found;

use crate::feed::{Feed, Limits};
use crate::lease::Leases;
use crate::plan::check_size;
use crate::{
    Damage, Error, KeyRange, KeyValue, LeaseId, RangeRequest, RangeResponse, Result, Revision, Store, Txn, TxnOutcome,
    WatchStream,
};

/// The feed's memory for watchers: a second of changes in a busy control plane. Watchers further behind read from the
/// file.
const FEED: Limits = Limits { changes: 2048, bytes: 2 << 20 };

/// How the store is opened.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Keys and values of one transaction, in bytes; at most [`crate::DEFAULT_MAX_TXN_BYTES`].
    pub max_txn_bytes: usize,
    /// The file does not grow beyond this; then writes end in [`Error::NoSpace`] as they do on a full disk.
    pub quota_bytes: Option<u64>,
    /// History is kept for at least this long (and up to twice as long), as with kube-apiserver and etcd.
    pub keep_history: Duration,
    /// ...but not more than about this many revisions.
    pub keep_revisions: u64,
    /// There was a store in the directory: a missing one is refused, not created.
    pub must_exist: bool,
    /// The time that is noted if history is lost now ([`Break::when`]).
    pub now: Option<SystemTime>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_txn_bytes: crate::DEFAULT_MAX_TXN_BYTES,
            quota_bytes: None,
            keep_history: Duration::from_secs(300),
            // 100,000 x 2 KiB: 200 MiB of file.
            keep_revisions: 100_000,
            must_exist: false,
            now: None,
        }
    }
}

/// Counters of the store since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Revisions written.
    pub revisions: u64,
    /// Durable engine transactions; each carries one or more revisions, or the store's own bookkeeping.
    pub batches: u64,
    /// Syncs of the database and its log: one per batch, two per checkpoint.
    pub syncs: u64,
    /// Syncs of the mark of acknowledged commits: at most one a second.
    pub mark_syncs: u64,
    /// Keys and values written.
    pub bytes: u64,
    /// Revisions in the largest batch.
    pub largest_batch: u64,
    /// Damaged places that were found.
    pub damaged: u64,
}

/// The store in a file. Clones share it. Call [`EmbeddedStore::close`] before opening the directory again.
#[derive(Clone, Debug)]
pub struct EmbeddedStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    options: Options,
    queue: Mutex<Queue>,
    writer: Mutex<Option<Writer>>,
    readers: Mutex<Vec<Connection>>,
    checkpointer: Mutex<Option<Connection>>,
    shared: Mutex<Shared>,
    feed: Arc<Feed>,
    counters: Counters,
    /// Wakes the housekeeping task for a new lease, a requested checkpoint, or the end of the store.
    housekeeping: Arc<Notify>,
    /// Wakes the scrubbing task at the end of the store.
    scrubbing: Arc<Notify>,
    checkpoint_wanted: AtomicBool,
    /// Whether the background checkpoint has run since the committer's last check.
    checkpointed: AtomicBool,
    closed: AtomicBool,
    /// Whether the mark has unsynced content.
    mark_unsynced: AtomicBool,
    mark: Mutex<Option<File>>,
    opened: Opened,
    found: Arc<Found>,
    claim: Mutex<Option<Claim>>,
    /// Identifies the store.
    store: i64,
    breaks: Vec<Break>,
}

/// The shared state of readers and the committer. Only the committer changes it, after a change is durable.
#[derive(Debug)]
struct Shared {
    revision: Revision,
    /// The oldest readable revision.
    oldest: Revision,
    leases: Leases,
    /// The revisions from which history is retained, with the number of backups for each.
    holds: BTreeMap<Revision, usize>,
}

#[derive(Debug, Default)]
struct Counters {
    revisions: AtomicU64,
    batches: AtomicU64,
    syncs: AtomicU64,
    mark_syncs: AtomicU64,
    bytes: AtomicU64,
    largest_batch: AtomicU64,
}

impl EmbeddedStore {
    /// Opens the store in `dir`, creating it if necessary. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// `Failed` if another process has it open, if acknowledged data is missing or damaged, or if the file has an
    /// unknown format. The message names the file, the position and the next step.
    pub async fn open(dir: impl Into<PathBuf>, options: Options) -> Result<Self> {
        let dir = dir.into();
        let opened = tokio::task::spawn_blocking(move || Inner::open(&dir, options)).await;
        let inner = Arc::new(opened.map_err(|error| Error::Failed(error.to_string().into()))??);
        tokio::spawn(housekeeping::run(Arc::downgrade(&inner), Arc::clone(&inner.housekeeping)));
        tokio::spawn(scrub::run(Arc::downgrade(&inner), Arc::clone(&inner.scrubbing)));
        Ok(Self(inner))
    }

    /// Finishes queued requests, ends all watches and releases the directory. Afterwards every call returns `Closed`.
    ///
    /// # Errors
    /// `Closed` if it is already closed, `Failed` if the last writes cannot be synced.
    pub async fn close(&self) -> Result<()> {
        self.0.request(Request::Close).await
    }

    /// From now on commits do not wait for the disk: after a crash the newest of them may be missing, never one before
    /// another. For writes that are not acknowledged to a client, such as those before a server listens.
    ///
    /// # Errors
    /// `Closed` or `Failed`, as for writes.
    pub async fn postpone_syncs(&self) -> Result<()> {
        self.0.request(|reply| Request::SyncCommits(false, reply)).await
    }

    /// Ends [`EmbeddedStore::postpone_syncs`]: once this returns all that was written is durable, and every later commit
    /// is when it is answered.
    ///
    /// # Errors
    /// `Failed` if the disk refuses; the store then takes no more writes.
    pub async fn sync(&self) -> Result<()> {
        self.0.request(|reply| Request::SyncCommits(true, reply)).await
    }

    /// The points where the revision was raised because history was lost, oldest first.
    pub fn breaks(&self) -> &[Break] {
        &self.0.breaks
    }

    /// The damaged values that were found since the store was opened.
    pub fn damages(&self) -> Vec<Damage> {
        self.0.found.all()
    }

    /// Waits until something damaged is found; false when the store was closed before.
    pub fn damage_found(&self) -> impl Future<Output = bool> + Send + use<> {
        let found = Arc::clone(&self.0.found);
        async move { found.some().await }
    }

    /// Waits until the store refuses writes, because one failed, until it is opened again; false when it was dropped
    /// before.
    pub fn writing_stopped(&self) -> impl Future<Output = bool> + Send + use<> {
        self.0.writing_stopped()
    }

    /// Verifies everything in the file, as happens in the background a minute after the store is opened and then daily.
    ///
    /// # Errors
    /// The first damage, if any.
    pub async fn scrub(&self) -> Result<()> {
        scrub::scrub(&self.0).await
    }

    /// Counters of the work since the store was opened.
    pub fn stats(&self) -> Stats {
        let counters = &self.0.counters;
        Stats {
            revisions: counters.revisions.load(Relaxed),
            batches: counters.batches.load(Relaxed),
            syncs: counters.syncs.load(Relaxed),
            bytes: counters.bytes.load(Relaxed),
            largest_batch: counters.largest_batch.load(Relaxed),
            mark_syncs: counters.mark_syncs.load(Relaxed),
            damaged: self.0.found.count(),
        }
    }
}

impl Inner {
    /// Releases the file and the directory.
    fn release(&self) {
        self.closed.store(true, Relaxed);
        self.feed.close(Error::Closed);
        self.found.close();
        self.readers.lock().clear();
        *self.checkpointer.lock() = None;
        self.sync_mark();
        *self.mark.lock() = None;
        *self.claim.lock() = None;
        self.housekeeping.notify_one();
        self.scrubbing.notify_one();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.feed.close(Error::Closed);
        self.found.close();
        self.housekeeping.notify_one();
        self.scrubbing.notify_one();
    }
}

impl Store for EmbeddedStore {
    fn revision(&self) -> BoxFuture<'_, Result<Revision>> {
        async move { self.0.open_shared(|shared| shared.revision) }.boxed()
    }

    fn get(&self, key: Bytes, revision: Option<Revision>) -> BoxFuture<'_, Result<Option<KeyValue>>> {
        async move { self.0.read(move |store| store.get(&key, revision)).await }.boxed()
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse>> {
        async move { self.0.read(move |store| store.range(&request)).await }.boxed()
    }

    fn salvage(&self, request: RangeRequest) -> BoxFuture<'_, Result<(RangeResponse, Vec<Damage>)>> {
        async move { self.0.read(move |store| store.salvage(&request)).await }.boxed()
    }

    fn shares(&self, range: KeyRange, parts: usize) -> BoxFuture<'_, Result<Vec<KeyRange>>> {
        async move { self.0.read(move |store| store.shares(range, parts)).await }.boxed()
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnOutcome>> {
        async move { self.txn_all(vec![txn]).await?.pop().ok_or(Error::Closed) }.boxed()
    }

    fn txn_all(&self, txns: Vec<Txn>) -> BoxFuture<'_, Result<Vec<TxnOutcome>>> {
        async move {
            check_size(&txns, self.0.options.max_txn_bytes)?;
            self.0.request(|reply| Request::Txns(txns, reply)).await
        }
        .boxed()
    }

    fn watch(&self, range: KeyRange, after: Revision) -> BoxFuture<'_, Result<WatchStream>> {
        async move { read::watch(&self.0, range, after) }.boxed()
    }

    fn request_progress(&self) -> BoxFuture<'_, Result<()>> {
        async move { self.0.open_shared(|_| self.0.feed.request_progress()) }.boxed()
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<()>> {
        self.0.request(move |reply| Request::Compact(revision, reply)).boxed()
    }

    fn grant_lease(&self, ttl: u64) -> BoxFuture<'_, Result<LeaseId>> {
        self.0.request(move |reply| Request::Grant { ttl, reply }).boxed()
    }

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>> {
        async move { self.0.open_shared(|shared| shared.leases.keep_alive(lease, Instant::now()))? }.boxed()
    }

    fn revoke_lease(&self, id: LeaseId) -> BoxFuture<'_, Result<()>> {
        self.0.request(move |reply| Request::EndLease { id, if_due: false, reply }).boxed()
    }

    fn verify(&self) -> BoxFuture<'_, Result<()>> {
        async move { self.0.read(Inner::verify).await }.boxed()
    }
}
