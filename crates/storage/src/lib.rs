//! The watchable multi-version store under the API server.
//!
//! It stores bytes and revisions, independently of kinds. The model is etcd's: every successful transaction with
//! changes gets the next global revision; a key's value can be read as of any revision that has not been compacted; a
//! watch delivers every change after a revision, in order, without gaps. [`Store`] is implemented by the embedded
//! engine and by an etcd cluster.
#![warn(missing_docs, clippy::missing_errors_doc)]

pub mod conformance;
pub mod embedded;
mod feed;
mod lease;
pub mod memory;
mod plan;

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;
use futures::future::BoxFuture;

/// The default limit of one transaction in bytes. An API request has at most 3 MiB (kube-apiserver's limit); a megabyte
/// is reserved for fields that the server adds.
pub const DEFAULT_MAX_TXN_BYTES: usize = 4 << 20;

/// Position in the global order of writes. An empty store is at 1, as etcd is.
pub type Revision = u64;

/// Identifies a lease; keys attached to it vanish when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseId(pub u64);

/// A stored key, its value, and when it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
    /// The revision at which the key was created; it starts again after a deletion.
    pub create_revision: Revision,
    /// The revision of the last write of this key.
    pub mod_revision: Revision,
    /// The lease with which the key expires.
    pub lease: Option<LeaseId>,
}

/// Keys from `start` (inclusive) to `end` (exclusive), in byte order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key; included.
    pub start: Bytes,
    /// The end; excluded. Empty means without an end.
    pub end: Bytes,
}

impl KeyRange {
    /// All keys that begin with `prefix`, which must not consist of 0xff bytes only.
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        let start = prefix.into();
        let mut end = start.to_vec();
        while let Some(last) = end.pop() {
            if last < 0xff {
                end.push(last + 1);
                break;
            }
        }
        Self { start, end: end.into() }
    }

    /// Whether the range includes the key.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.start.as_ref() <= key && (self.end.is_empty() || key < self.end.as_ref())
    }
}

/// A read of a range of keys.
#[derive(Clone, Debug)]
pub struct RangeRequest {
    /// The keys to read.
    pub range: KeyRange,
    /// `None` reads the newest state.
    pub revision: Option<Revision>,
    /// 0 means no limit.
    pub limit: usize,
}

/// The result of a read, at one revision.
#[derive(Clone, Debug)]
pub struct RangeResponse {
    /// Keys and values, in the order of keys.
    pub items: Vec<KeyValue>,
    /// Number of keys in the range, the ones beyond the limit included.
    pub count: usize,
    /// The store's revision at the moment of the read.
    pub revision: Revision,
}

/// A stored value that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Damage {
    /// Empty if the damage hides even that.
    pub key: Bytes,
    /// The place of the damage, and how it was found.
    pub place: Arc<str>,
    /// The action that makes the value readable again, if that is not a backup: the value is then intact.
    pub remedy: Option<Arc<str>>,
}

impl Damage {
    /// A value that only a backup has.
    pub fn new(key: Bytes, place: impl Into<Arc<str>>) -> Self {
        Self { key, place: place.into(), remedy: None }
    }

    /// The recommended action.
    pub fn advice(&self) -> &str {
        self.remedy.as_deref().unwrap_or("restore the store from a backup")
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = if self.remedy.is_some() { "cannot be read" } else { "is damaged" };
        write!(f, "the stored value of {} {state} ({})", String::from_utf8_lossy(&self.key), self.place)
    }
}

/// A condition on a key for a transaction to commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// The key does not exist.
    Absent(Bytes),
    /// The key exists and its last write was this revision.
    ModRevision(Bytes, Revision),
}

impl Guard {
    /// The key that the guard is about.
    pub fn key(&self) -> &Bytes {
        match self {
            Self::Absent(key) | Self::ModRevision(key, _) => key,
        }
    }
}

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Writes a value, with or without a lease for the key.
    Put {
        /// The key.
        key: Bytes,
        /// The value.
        value: Bytes,
        /// The lease with which the key expires.
        lease: Option<LeaseId>,
    },
    /// Deletes a key.
    Delete {
        /// The key.
        key: Bytes,
    },
}

/// Applies all ops at one new revision if every guard holds, otherwise none. Of several ops on one key the last is
/// applied. Deleting an absent key is not a change, and a transaction without changes takes no revision.
#[derive(Clone, Debug, Default)]
pub struct Txn {
    /// The conditions of the transaction.
    pub guards: Vec<Guard>,
    /// The changes.
    pub ops: Vec<Op>,
}

/// Whether a transaction was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxnOutcome {
    /// Durable: no crash after this answer loses it.
    Committed {
        /// The revision of its changes, or the current one without changes.
        revision: Revision,
    },
    /// A guard failed; nothing was written.
    Failed {
        /// The present state of each guarded key, in the order of the guards.
        current: Vec<Option<KeyValue>>,
        /// The present revision.
        revision: Revision,
    },
}

/// A change that a watch delivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A key was created or written.
    Put {
        /// The new state.
        current: KeyValue,
        /// The state before; `None` if the key was created.
        previous: Option<KeyValue>,
    },
    /// A key was deleted.
    Delete {
        /// The state before.
        previous: KeyValue,
    },
}

impl Change {
    /// The changed key.
    pub fn key(&self) -> &Bytes {
        match self {
            Self::Put { current, .. } => &current.key,
            Self::Delete { previous } => &previous.key,
        }
    }
}

/// The changes of one or more whole revisions, in order. All matching changes up to and including `revision` have been
/// delivered. A batch without changes only reports progress.
#[derive(Clone, Debug)]
pub struct WatchBatch {
    /// All changes up to this revision have been delivered.
    pub revision: Revision,
    /// Each with the revision it happened at.
    pub changes: Vec<(Revision, Change)>,
}

/// The batches of a watch; it ends after an error.
pub type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchBatch>> + Send>>;

/// Why a request to the store failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The revision has been compacted.
    #[error("revision {requested} has been compacted, the oldest is {oldest}")]
    Compacted {
        /// The requested revision.
        requested: Revision,
        /// The oldest revision that can be read.
        oldest: Revision,
    },
    /// The store has not reached the revision.
    #[error("revision {requested} is in the future, the newest is {newest}")]
    FutureRevision {
        /// The requested revision.
        requested: Revision,
        /// The newest revision.
        newest: Revision,
    },
    /// A watcher fell further behind than the store is willing to remember; it must read again.
    #[error("the watcher was too slow")]
    SlowWatcher,
    /// The lease does not exist or has ended.
    #[error("lease {0:?} does not exist")]
    LeaseNotFound(LeaseId),
    /// The value or the transaction is larger than the store takes.
    #[error("request of {size} bytes is larger than the limit of {limit}")]
    TooLarge {
        /// The size in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The value exists but cannot be trusted: it is unknown, not absent. Other keys are not affected.
    #[error("{0}")]
    Damaged(Damage),
    /// A limit that only the engine's server knows: the size of a request, or the number of its operations. Nothing was
    /// written.
    #[error("{0}")]
    OverLimit(Arc<str>),
    /// The engine's server refuses writes until an operator has cleared its alarm. Nothing was written: the write that
    /// raised the alarm is [`Error::Uncertain`] if it may be stored.
    #[error("{0}")]
    Alarm(Arc<str>),
    /// The engine's server is currently unreachable. Nothing was written.
    #[error("{0}")]
    Unavailable(Arc<str>),
    /// The answer to a write did not arrive: the write is stored, or it is not.
    #[error("{0}")]
    Uncertain(Arc<str>),
    /// The disk is full. Nothing was written; reads succeed.
    #[error("no space left on the store's device")]
    NoSpace,
    /// The engine cannot go on (I/O error, corruption). Writes are refused until restart.
    #[error("the store failed: {0}")]
    Failed(Arc<str>),
    /// The store was closed.
    #[error("the store is shut down")]
    Closed,
}

/// A result with the store's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The contract every engine keeps; `conformance` checks it.
///
/// ```
/// use storage::memory::MemoryStore;
/// use storage::{Guard, Op, Store, Txn, TxnOutcome};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> storage::Result<()> {
/// let store = MemoryStore::new();
/// let create = Txn {
///     guards: vec![Guard::Absent("/a".into())],
///     ops: vec![Op::Put { key: "/a".into(), value: "1".into(), lease: None }],
/// };
/// assert_eq!(store.txn(create.clone()).await?, TxnOutcome::Committed { revision: 2 });
/// // The key exists now, so the guard fails and nothing is written.
/// assert!(matches!(store.txn(create).await?, TxnOutcome::Failed { revision: 2, .. }));
/// # Ok(())
/// # }
/// ```
pub trait Store: Send + Sync + 'static {
    /// The newest revision that is readable.
    fn revision(&self) -> BoxFuture<'_, Result<Revision>>;

    /// A key at a revision, or in the newest state for `None`.
    fn get(&self, key: Bytes, revision: Option<Revision>) -> BoxFuture<'_, Result<Option<KeyValue>>>;

    /// [`Error::Damaged`] if a value of the range is damaged: a list without it would be wrong.
    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse>>;

    /// As [`Store::range`], but continues after damaged values and names them: for a cache that must know the unknown
    /// keys.
    fn salvage(&self, request: RangeRequest) -> BoxFuture<'_, Result<(RangeResponse, Vec<Damage>)>> {
        Box::pin(async move { Ok((self.range(request).await?, Vec::new())) })
    }

    /// Divides a range into at most `parts` adjacent ones with about as many keys each, for concurrent readers. Returns
    /// the range itself if it is small or if the engine cannot divide it.
    fn shares(&self, range: KeyRange, parts: usize) -> BoxFuture<'_, Result<Vec<KeyRange>>> {
        let _ = parts;
        Box::pin(std::future::ready(Ok(vec![range])))
    }

    /// Whether the changes of several transactions may share a revision: the transactions of one [`Store::txn_all`], and the
    /// deletions of the keys of one lease. etcd gives a transaction one revision, however many changes it has. A client
    /// that resumes a watch at such a revision does not receive it a second time, so a caller never changes two keys
    /// that belong to one watch in one `txn_all` of such an engine.
    fn shares_revisions(&self) -> bool {
        false
    }

    /// Whether other processes write to the same store. A process's watches may then be behind, and only guards are
    /// authoritative.
    fn is_shared(&self) -> bool {
        false
    }

    /// Once this returns `Committed`, the write is durable, visible to reads, and delivered (or about to be) to
    /// watchers in revision order.
    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnOutcome>>;

    /// The revision of this process's newest acknowledged write, if [`Store::revision`] is a request to another process.
    fn written_revision(&self) -> Option<Revision> {
        None
    }

    /// Applies several transactions, one right after another, or none of them: if one is refused, none is applied, and
    /// every outcome is [`TxnOutcome::Failed`]. Each takes a separate revision, so that a watcher can continue after
    /// any of them, unless [`Store::shares_revisions`]: then all have one revision, and [`Error::OverLimit`] refuses a
    /// transaction with guards or ops on a key that an earlier one of them changes. Otherwise the rules of
    /// [`Store::txn`] apply to the whole group; it becomes durable at once.
    fn txn_all(&self, txns: Vec<Txn>) -> BoxFuture<'_, Result<Vec<TxnOutcome>>>;

    /// Changes with a revision greater than `after`, in order and without gaps; later ones as they happen. `Compacted`
    /// if history that old is compacted; a future revision skips all changes until then.
    fn watch(&self, range: KeyRange, after: Revision) -> BoxFuture<'_, Result<WatchStream>>;

    /// As [`Store::watch`], for a caller that holds the state before each change: an engine that would have to read it may
    /// omit it. Then a written key appears as created, and a deleted one has its key alone, with an empty value.
    fn follow(&self, range: KeyRange, after: Revision) -> BoxFuture<'_, Result<WatchStream>> {
        self.watch(range, after)
    }

    /// Soon delivers a batch to every open watch whose revision is at least the current one. Without it, a watcher
    /// receives nothing for revisions outside its range.
    fn request_progress(&self) -> BoxFuture<'_, Result<()>>;

    /// Drops the history before `revision`; the newest value of every key stays.
    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<()>>;

    /// `ttl` in seconds. Keys attached to the lease are deleted, each by an ordinary revision, after it ends.
    fn grant_lease(&self, ttl: u64) -> BoxFuture<'_, Result<LeaseId>>;

    /// Starts the duration of a lease again.
    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>>;

    /// Ends a lease and deletes its keys.
    fn revoke_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>>;

    /// Whether the key's value would be stored differently if it were written again, for example after a change of its
    /// encryption. An update without changes is then written.
    fn is_stale(&self, key: Bytes) -> BoxFuture<'_, bool> {
        let _ = key;
        Box::pin(std::future::ready(false))
    }

    /// Checks the engine's own invariants at rest and names the first that does not hold. Tests run it after every
    /// store they stop.
    fn verify(&self) -> BoxFuture<'_, Result<()>>;
}
