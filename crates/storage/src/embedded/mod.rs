//! The store in a SQLite file: durable, in this process, no server. `docs/dependencies.md` has the figures by which
//! SQLite was chosen. Writes go through `committer`, reads run on connections of their own, recent changes wait in
//! memory for watchers and older ones are read from the file.

mod committer;
mod database;
mod housekeeping;
mod read;
mod recent;

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::Notify;
use tokio::time::Instant;

use committer::{Queue, Request, Writer};
use database::Role;
use recent::Recent;

use crate::feed::{Feed, Limits};
use crate::lease::Leases;
use crate::plan::check_size;
use crate::{
    Error, KeyRange, KeyValue, LeaseId, RangeRequest, RangeResponse, Result, Revision, Store, Txn, TxnOutcome,
    WatchStream,
};

/// What the feed keeps in memory for watchers: a second of a busy control plane, to which they listen all the time. Whoever is
/// further behind reads from the file.
const FEED: Limits = Limits { changes: 2048, bytes: 2 << 20 };

/// How the store is opened.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Keys and values of one transaction, in bytes; at most [`crate::DEFAULT_MAX_TXN_BYTES`].
    pub max_txn_bytes: usize,
    /// The file does not grow beyond this; then writes end in [`Error::NoSpace`] as they do on a full disk.
    pub quota_bytes: Option<u64>,
    /// History is kept for at least this long (and up to twice as long), as kube-apiserver has etcd do...
    pub keep_history: Duration,
    /// ...but not more than about this many revisions.
    pub keep_revisions: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_txn_bytes: crate::DEFAULT_MAX_TXN_BYTES,
            quota_bytes: None,
            keep_history: Duration::from_secs(300),
            // 100,000 x 2 KiB: 200 MiB of file.
            keep_revisions: 100_000,
        }
    }
}

/// What the store has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Revisions written.
    pub revisions: u64,
    /// Durable engine transactions; each carries one or more revisions, or the store's own bookkeeping.
    pub batches: u64,
    /// Times the disk was told to sync: once per batch, twice per checkpoint.
    pub syncs: u64,
    /// Keys and values written.
    pub bytes: u64,
    /// Revisions in the largest batch.
    pub largest_batch: u64,
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
    /// Wakes the housekeeping task: a lease is new, a checkpoint is wanted, or the store is gone.
    housekeeping: Arc<Notify>,
    checkpoint_wanted: AtomicBool,
    /// The background checkpoint has run since the committer last looked.
    checkpointed: AtomicBool,
    closed: AtomicBool,
    directory_lock: Mutex<Option<File>>,
}

/// What readers and the committer share. Changed by the committer only, after the change is durable.
#[derive(Debug)]
struct Shared {
    revision: Revision,
    /// The oldest readable revision.
    oldest: Revision,
    leases: Leases,
}

#[derive(Debug, Default)]
struct Counters {
    revisions: AtomicU64,
    batches: AtomicU64,
    syncs: AtomicU64,
    bytes: AtomicU64,
    largest_batch: AtomicU64,
}

impl EmbeddedStore {
    /// Opens the store in `dir`, creating it if need be. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// `Failed` if another process has it open, or the file is damaged or of an unknown format; the message names it.
    pub async fn open(dir: impl Into<PathBuf>, options: Options) -> Result<Self> {
        let dir = dir.into();
        let opened = tokio::task::spawn_blocking(move || Inner::open(&dir, options)).await;
        let inner = Arc::new(opened.map_err(|error| Error::Failed(error.to_string().into()))??);
        tokio::spawn(housekeeping::run(Arc::downgrade(&inner), Arc::clone(&inner.housekeeping)));
        Ok(Self(inner))
    }

    /// Finishes what is queued, ends all watches and releases the directory. Afterwards everything is `Closed`.
    pub async fn close(&self) -> Result<()> {
        self.0.ask(Request::Close).await
    }

    /// From now on commits do not wait for the disk: after a crash the newest of them may be missing, never one before
    /// another. For writes that nobody has been told of, such as those before a server begins to listen.
    pub async fn postpone_syncs(&self) -> Result<()> {
        self.0.ask(|reply| Request::SyncCommits(false, reply)).await
    }

    /// Ends [`EmbeddedStore::postpone_syncs`]: once this returns all that was written is durable, and every later commit
    /// is when it is answered.
    pub async fn sync(&self) -> Result<()> {
        self.0.ask(|reply| Request::SyncCommits(true, reply)).await
    }

    pub fn stats(&self) -> Stats {
        let counters = &self.0.counters;
        Stats {
            revisions: counters.revisions.load(Relaxed),
            batches: counters.batches.load(Relaxed),
            syncs: counters.syncs.load(Relaxed),
            bytes: counters.bytes.load(Relaxed),
            largest_batch: counters.largest_batch.load(Relaxed),
        }
    }
}

impl Inner {
    fn open(dir: &Path, mut options: Options) -> Result<Self> {
        options.max_txn_bytes = options.max_txn_bytes.min(crate::DEFAULT_MAX_TXN_BYTES);
        let lock = lock_directory(dir)?;
        let path = dir.join("store.sqlite");
        database::create_file(&path)?;
        let mut db = database::connect(&path, Role::Writer, options.quota_bytes)?;
        let found = database::recover(&mut db, &path)?;
        let mut leases = Leases::after(found.last_lease);
        // The time a lease had left is not recorded: as with etcd, a restart gives it its whole time again.
        found.leases.iter().for_each(|(id, ttl)| leases.insert(*id, *ttl, Instant::now()));
        found.leased.into_iter().for_each(|(key, lease)| leases.attach(key, lease));
        let checkpointer = database::connect(&path, Role::Checkpointer, options.quota_bytes)?;
        Ok(Self {
            options,
            queue: Mutex::default(),
            writer: Mutex::new(Some(Writer {
                db,
                recent: Recent::default(),
                swept: found.swept,
                sweep_failed: None,
                unmoved_bytes: 0,
                syncs: true,
                unsynced: false,
            })),
            readers: Mutex::default(),
            checkpointer: Mutex::new(Some(checkpointer)),
            shared: Mutex::new(Shared { revision: found.revision, oldest: found.oldest, leases }),
            feed: Arc::new(Feed::new(found.revision, FEED)),
            counters: Counters::default(),
            housekeeping: Arc::default(),
            checkpoint_wanted: AtomicBool::new(false),
            checkpointed: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            directory_lock: Mutex::new(Some(lock)),
            path,
        })
    }

    /// Lets go of the file and the directory.
    fn release(&self) {
        self.closed.store(true, Relaxed);
        self.feed.close(Error::Closed);
        self.readers.lock().clear();
        *self.checkpointer.lock() = None;
        *self.directory_lock.lock() = None;
        self.housekeeping.notify_one();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.feed.close(Error::Closed);
        self.housekeeping.notify_one();
    }
}

/// Two processes writing one store would each acknowledge what the other does not know.
fn lock_directory(dir: &Path) -> Result<File> {
    let path = dir.join("store.lock");
    let failed = |error: std::io::Error| Error::Failed(format!("cannot open {}: {error}", path.display()).into());
    fs::create_dir_all(dir).map_err(failed)?;
    let file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Failed(
            format!("{} is in use by another process: {} is locked", dir.display(), path.display()).into(),
        )),
        Err(TryLockError::Error(error)) => Err(failed(error)),
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

    fn shares(&self, range: KeyRange, parts: usize) -> BoxFuture<'_, Result<Vec<KeyRange>>> {
        async move { self.0.read(move |store| store.shares(range, parts)).await }.boxed()
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnOutcome>> {
        async move {
            check_size(&txn, self.0.options.max_txn_bytes)?;
            self.0.ask(|reply| Request::Txn(txn, reply)).await
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
        self.0.ask(move |reply| Request::Compact(revision, reply)).boxed()
    }

    fn grant_lease(&self, ttl: u64) -> BoxFuture<'_, Result<LeaseId>> {
        self.0.ask(move |reply| Request::Grant { ttl, reply }).boxed()
    }

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>> {
        async move { self.0.open_shared(|shared| shared.leases.keep_alive(lease, Instant::now()))? }.boxed()
    }

    fn revoke_lease(&self, id: LeaseId) -> BoxFuture<'_, Result<()>> {
        self.0.ask(move |reply| Request::EndLease { id, if_due: false, reply }).boxed()
    }

    fn verify(&self) -> BoxFuture<'_, Result<()>> {
        async move { self.0.read(Inner::verify).await }.boxed()
    }
}
