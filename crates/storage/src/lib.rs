//! The watchable multi-version store under the API server.
//!
//! It knows bytes and revisions, not kinds. The model is etcd's: every successful transaction that writes gets the
//! next global revision; a key's value can be read as of any revision that has not been compacted; a watch delivers
//! every change after a revision, in order, without gaps. An etcd cluster can stand behind [`Store`] as well as the
//! embedded engine.

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

/// What engines take in one transaction unless told otherwise. An API request has at most 3 MiB (kube-apiserver's limit);
/// a megabyte is left for what the server adds.
pub const DEFAULT_MAX_TXN_BYTES: usize = 4 << 20;

/// Position in the global order of writes. An empty store is at 1, as etcd is.
pub type Revision = u64;

/// Identifies a lease; keys attached to it vanish when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseId(pub u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    pub key: Bytes,
    pub value: Bytes,
    pub create_revision: Revision,
    /// The revision of the last write of this key.
    pub mod_revision: Revision,
    pub lease: Option<LeaseId>,
}

/// Keys from `start` (inclusive) to `end` (exclusive), in byte order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    pub start: Bytes,
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

    pub fn contains(&self, key: &[u8]) -> bool {
        self.start.as_ref() <= key && (self.end.is_empty() || key < self.end.as_ref())
    }
}

#[derive(Clone, Debug)]
pub struct RangeRequest {
    pub range: KeyRange,
    /// `None` reads the newest state.
    pub revision: Option<Revision>,
    /// 0 means no limit.
    pub limit: usize,
}

#[derive(Clone, Debug)]
pub struct RangeResponse {
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
    /// Where it is and how it was found.
    pub place: Arc<str>,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the stored value of {} is damaged ({})", String::from_utf8_lossy(&self.key), self.place)
    }
}

/// What must hold of a key for a transaction to commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    Absent(Bytes),
    /// The key exists and its last write was this revision.
    ModRevision(Bytes, Revision),
}

impl Guard {
    pub fn key(&self) -> &Bytes {
        match self {
            Self::Absent(key) | Self::ModRevision(key, _) => key,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Put { key: Bytes, value: Bytes, lease: Option<LeaseId> },
    Delete { key: Bytes },
}

/// All ops at one new revision if every guard holds, nothing otherwise. Of several ops on one key the last counts.
/// Deleting an absent key is no change, and a transaction without a change takes no revision.
#[derive(Clone, Debug, Default)]
pub struct Txn {
    pub guards: Vec<Guard>,
    pub ops: Vec<Op>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxnOutcome {
    /// Durable: no crash after this answer loses it.
    Committed { revision: Revision },
    /// Some guard failed; the present state of each guarded key, in the order of the guards.
    Failed { current: Vec<Option<KeyValue>>, revision: Revision },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Put { current: KeyValue, previous: Option<KeyValue> },
    Delete { previous: KeyValue },
}

impl Change {
    pub fn key(&self) -> &Bytes {
        match self {
            Self::Put { current, .. } => &current.key,
            Self::Delete { previous } => &previous.key,
        }
    }
}

/// The changes of one or more whole revisions, in order. The watcher has now seen everything up to and including
/// `revision` that concerns it. A batch without changes says only that (progress).
#[derive(Clone, Debug)]
pub struct WatchBatch {
    pub revision: Revision,
    /// Each with the revision it happened at.
    pub changes: Vec<(Revision, Change)>,
}

pub type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchBatch>> + Send>>;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The revision has been compacted; the oldest one still readable is given.
    #[error("revision {requested} has been compacted, the oldest is {oldest}")]
    Compacted { requested: Revision, oldest: Revision },
    #[error("revision {requested} is in the future, the newest is {newest}")]
    FutureRevision { requested: Revision, newest: Revision },
    /// A watcher fell further behind than the store is willing to remember; it must read again.
    #[error("the watcher was too slow")]
    SlowWatcher,
    #[error("lease {0:?} does not exist")]
    LeaseNotFound(LeaseId),
    /// The value or the transaction is larger than the store takes.
    #[error("request of {size} bytes is larger than the limit of {limit}")]
    TooLarge { size: usize, limit: usize },
    /// The value is there and cannot be trusted: it is unknown, not absent. Everything else goes on.
    #[error("{0}")]
    Damaged(Damage),
    /// The disk is full. Nothing was written; reads go on.
    #[error("no space left on the store's device")]
    NoSpace,
    /// The engine cannot go on (I/O error, corruption). Writes are refused until restart.
    #[error("the store failed: {0}")]
    Failed(Arc<str>),
    #[error("the store is shut down")]
    Closed,
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The contract every engine keeps; `conformance` checks it.
pub trait Store: Send + Sync + 'static {
    /// The newest revision that is readable.
    fn revision(&self) -> BoxFuture<'_, Result<Revision>>;

    fn get(&self, key: Bytes, revision: Option<Revision>) -> BoxFuture<'_, Result<Option<KeyValue>>>;

    /// [`Error::Damaged`] if a value of the range is damaged: a list without it would be wrong.
    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse>>;

    /// As [`Store::range`], and goes on past damaged values, which it names: for a cache that must know which keys it
    /// does not know.
    fn salvage(&self, request: RangeRequest) -> BoxFuture<'_, Result<(RangeResponse, Vec<Damage>)>> {
        Box::pin(async move { Ok((self.range(request).await?, Vec::new())) })
    }

    /// Divides a range into at most `parts` that follow one another, of about as many keys each, for readers that work side
    /// by side. One part is the range itself: there is little in it, or the engine cannot tell.
    fn shares(&self, range: KeyRange, parts: usize) -> BoxFuture<'_, Result<Vec<KeyRange>>> {
        let _ = parts;
        Box::pin(std::future::ready(Ok(vec![range])))
    }

    /// Once this returns `Committed`, the write is durable, visible to reads, and delivered (or about to be) to
    /// watchers in revision order.
    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnOutcome>>;

    /// Changes with a revision greater than `after`, in order and without gaps; later ones as they happen.
    /// `Compacted` if history that old is gone; a revision in the future skips what happens until then.
    fn watch(&self, range: KeyRange, after: Revision) -> BoxFuture<'_, Result<WatchStream>>;

    /// Every watch that is open now delivers, soon, a batch whose revision is at least the present one. Without it, a
    /// watcher hears nothing of revisions that do not concern it.
    fn request_progress(&self) -> BoxFuture<'_, Result<()>>;

    /// Forgets history before `revision`; the newest value of every key stays.
    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<()>>;

    /// `ttl` in seconds. Keys attached to the lease are deleted, each by an ordinary revision, after it ends.
    fn grant_lease(&self, ttl: u64) -> BoxFuture<'_, Result<LeaseId>>;

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>>;

    fn revoke_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>>;

    /// Checks the engine's own invariants at rest and names the first that does not hold. Tests run it after every
    /// store they stop.
    fn verify(&self) -> BoxFuture<'_, Result<()>>;
}
