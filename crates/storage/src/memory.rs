//! A store in memory, for tests, simulated members, and objects that need not survive a restart, such as Events. It keeps
//! nothing across a restart; everything else is as the embedded engine does it.

mod bound;

use std::collections::BTreeMap;
use std::ops::Bound as End;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use packing::{Packed, Packer, SamplePolicy};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use self::bound::Ages;
use crate::feed::{Cursor, Feed, Limits};
use crate::lease::Leases;
use crate::plan::{Plan, check_size, plan_all};
use crate::{
    Change, Error, KeyRange, KeyValue, LeaseId, Op, RangeRequest, RangeResponse, Result, Revision, Store, Txn,
    TxnOutcome, WatchStream,
};

/// The revision of an empty store, as etcd's.
const EMPTY: Revision = 1;

/// Values of a bounded store are alike: a sample has the size of some four Events.
const SAMPLES: SamplePolicy = SamplePolicy { small: 4 << 10, large: 4 << 10, alike: 3, share: 64 };

/// How much a [`MemoryStore`] takes and remembers.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Keys and values of one transaction, in bytes.
    pub max_txn_bytes: usize,
    /// History is compacted away beyond this many changes...
    pub history_changes: usize,
    /// ...or this many bytes of keys and values.
    pub history_bytes: usize,
    /// The revision of the empty store. Reads and watches of earlier revisions are refused as compacted: those are of a
    /// store before this one.
    pub first_revision: Revision,
    /// Beyond this, the keys that were written the longest time ago are deleted, as if their leases had ended.
    pub bound: Option<Bound>,
}

/// The size of a store that deletes its oldest keys.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// The number of keys.
    pub keys: usize,
    /// Bytes of keys and values.
    pub bytes: usize,
}

impl Default for Options {
    /// Hundreds of simulated members share a process: 300 x 4 MiB of history at the very most.
    fn default() -> Self {
        Self {
            max_txn_bytes: crate::DEFAULT_MAX_TXN_BYTES,
            history_changes: 2_000,
            history_bytes: 4 << 20,
            first_revision: EMPTY,
            bound: None,
        }
    }
}

/// The store in memory. Clones share it; it ends when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct MemoryStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: Options,
    state: Mutex<State>,
    feed: Arc<Feed>,
    /// Wakes the task that ends leases.
    leases_changed: Arc<Notify>,
    /// Keys that were deleted because of the bound.
    evicted: AtomicU64,
}

#[derive(Debug)]
struct State {
    keys: BTreeMap<Bytes, Vec<Version>>,
    revision: Revision,
    /// The oldest readable revision.
    oldest: Revision,
    leases: Leases,
    /// The task that ends leases runs.
    expiring: bool,
    /// The keys by age, where there is a bound.
    ages: Option<Ages>,
    /// Compresses values that have left the history, where there is a bound: such a store is meant to be full.
    packer: Option<Packer>,
}

#[derive(Debug)]
struct Version {
    /// Of the write or the deletion.
    revision: Revision,
    /// `None` is a deletion.
    kept: Option<Kept>,
}

#[derive(Debug)]
struct Kept {
    value: Value,
    create_revision: Revision,
    lease: Option<LeaseId>,
}

#[derive(Debug)]
enum Value {
    Whole(Bytes),
    Cold(Packed),
}

impl Version {
    fn put(kv: &KeyValue) -> Self {
        let value = Value::Whole(kv.value.clone());
        let kept = Kept { value, create_revision: kv.create_revision, lease: kv.lease };
        Self { revision: kv.mod_revision, kept: Some(kept) }
    }

    /// The state of the key in this version; `None` if it was deleted.
    fn read(&self, key: &Bytes) -> Option<KeyValue> {
        let Kept { value, create_revision, lease } = self.kept.as_ref()?;
        let value = match value {
            Value::Whole(value) => value.clone(),
            Value::Cold(cold) => cold.unpack().into(),
        };
        let (create_revision, lease) = (*create_revision, *lease);
        Some(KeyValue { key: key.clone(), value, create_revision, mod_revision: self.revision, lease })
    }

    #[cfg(test)]
    fn is_cold(&self) -> bool {
        matches!(&self.kept, Some(Kept { value: Value::Cold(_), .. }))
    }

    fn pack(&mut self, packer: &mut Packer) {
        if let Some(Kept { value, .. }) = &mut self.kept
            && let Value::Whole(whole) = value
            && let Some(cold) = packer.pack(whole)
        {
            *value = Value::Cold(cold);
        }
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty store with the default options.
    pub fn new() -> Self {
        Self::with_options(Options::default())
    }

    /// An empty store.
    pub fn with_options(options: Options) -> Self {
        let limits = Limits { changes: options.history_changes, bytes: options.history_bytes };
        let first = options.first_revision.max(EMPTY);
        let state = State {
            keys: BTreeMap::new(),
            revision: first,
            oldest: if first == EMPTY { 0 } else { first },
            leases: Leases::default(),
            expiring: false,
            ages: options.bound.map(|_| Ages::default()),
            packer: options.bound.map(|_| Packer::new(SAMPLES)),
        };
        Self(Arc::new(Inner {
            options,
            state: Mutex::new(state),
            feed: Arc::new(Feed::new(first, limits)),
            leases_changed: Arc::default(),
            evicted: AtomicU64::new(0),
        }))
    }
}

impl MemoryStore {
    /// The number of keys that were deleted because of the bound.
    pub fn evicted(&self) -> u64 {
        self.0.evicted.load(Relaxed)
    }

    /// Another store with what this one has now, as a restored backup: without history, leases and watchers. It goes
    /// on from `raised`, or from the revision that this store has.
    pub fn copied(&self, raised: Option<Revision>) -> Self {
        let copy = Self::with_options(self.0.options);
        {
            let (from, mut to) = (self.0.state.lock(), copy.0.state.lock());
            to.revision = raised.map_or(from.revision, |raised| raised.max(from.revision));
            to.oldest = to.revision;
            for (key, versions) in &from.keys {
                let Some(kv) = versions.last().and_then(|newest| newest.read(key)) else { continue };
                let kv = KeyValue { lease: None, ..kv };
                to.keys.insert(key.clone(), vec![Version::put(&kv)]);
                if let Some(ages) = &mut to.ages {
                    ages.follow(&Change::Put { current: kv, previous: None });
                }
            }
        }
        let revision = copy.0.state.lock().revision;
        copy.0.feed.begin_at(revision);
        copy
    }
}

impl Inner {
    fn txn_all(&self, txns: &[Txn]) -> Result<Vec<TxnOutcome>> {
        check_size(txns, self.options.max_txn_bytes)?;
        self.apply(&mut self.state.lock(), txns)
    }

    fn apply(&self, state: &mut State, txns: &[Txn]) -> Result<Vec<TxnOutcome>> {
        let lookup = |key: &Bytes| Ok(state.newest(key));
        let plans = plan_all(txns, state.revision + 1, lookup, |id| state.leases.contains(id))?;
        let mut outcomes = Vec::with_capacity(plans.len());
        for plan in plans {
            outcomes.push(match plan {
                Plan::Refuse(current) => TxnOutcome::Failed { current, revision: state.revision },
                Plan::Nothing => TxnOutcome::Committed { revision: state.revision },
                Plan::Write(changes) => TxnOutcome::Committed { revision: self.write(state, changes) },
            });
        }
        self.evict(state);
        Ok(outcomes)
    }

    fn write(&self, state: &mut State, changes: Vec<Change>) -> Revision {
        let revision = state.revision + 1;
        changes.iter().for_each(|change| state.record(revision, change));
        state.revision = revision;
        let dropped = self.feed.publish(revision, changes);
        state.prune(&dropped);
        revision
    }

    /// Deletes what exceeds the bound, each key at a revision of its own.
    fn evict(&self, state: &mut State) {
        let Some(bound) = self.options.bound else { return };
        while let Some(key) = state.ages.as_ref().and_then(|ages| ages.excess(bound)) {
            if let Some(previous) = state.newest(&key) {
                self.write(state, vec![Change::Delete { previous }]);
                self.evicted.fetch_add(1, Relaxed);
            }
        }
    }

    fn compact(&self, revision: Revision) -> Result<()> {
        let mut state = self.state.lock();
        state.check_revision(revision)?;
        let dropped = self.feed.forget(revision);
        state.prune(&dropped);
        state.oldest = revision;
        Ok(())
    }

    fn watch(&self, range: KeyRange, after: Revision) -> Result<WatchStream> {
        // Held so that history cannot move between the check and the start of the watch.
        let state = self.state.lock();
        if after < state.oldest {
            return Err(Error::Compacted { requested: after, oldest: state.oldest });
        }
        Ok(Box::pin(crate::feed::stream(Cursor::new(&self.feed, range, after))))
    }

    fn grant(self: &Arc<Self>, ttl: u64) -> LeaseId {
        let mut state = self.state.lock();
        let id = state.leases.next_id();
        state.leases.insert(id, ttl, Instant::now());
        if state.expiring {
            self.leases_changed.notify_one();
        } else {
            state.expiring = true;
            tokio::spawn(expire(Arc::downgrade(self), Arc::clone(&self.leases_changed)));
        }
        id
    }

    /// Deletes the keys of a lease, each at a separate revision, and the lease.
    fn end_lease(&self, state: &mut State, id: LeaseId) -> Result<()> {
        for key in state.leases.remove(id)? {
            self.apply(state, &[Txn { guards: vec![], ops: vec![Op::Delete { key }] }])?;
        }
        Ok(())
    }

    /// Ends all due leases and returns the time of the next run.
    fn end_expired(&self) -> Option<Instant> {
        let mut state = self.state.lock();
        for id in state.leases.expired(Instant::now()) {
            if let Err(error) = self.end_lease(&mut state, id) {
                tracing::error!(?id, err = %error, "Lease cannot be ended");
            }
        }
        let next = state.leases.next_deadline();
        state.expiring = next.is_some();
        next
    }

    fn verify(&self) -> Result<()> {
        let state = self.state.lock();
        state.verify().and_then(|()| self.feed.verify()).map_err(|message| Error::Failed(message.into()))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.feed.close(Error::Closed);
        self.leases_changed.notify_one();
    }
}

/// Ends leases when they expire; ends with the store or the last lease.
async fn expire(store: Weak<Inner>, changed: Arc<Notify>) {
    loop {
        let Some(deadline) = store.upgrade().and_then(|store| store.end_expired()) else { return };
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(deadline) => {}
            () = changed.notified() => {}
        }
    }
}

impl State {
    fn newest(&self, key: &Bytes) -> Option<KeyValue> {
        self.keys.get(key)?.last()?.read(key)
    }

    fn record(&mut self, revision: Revision, change: &Change) {
        self.leases.follow(change);
        if let Some(ages) = &mut self.ages {
            ages.follow(change);
        }
        let version = match change {
            Change::Put { current, .. } => Version::put(current),
            Change::Delete { .. } => Version { revision, kept: None },
        };
        // Most keys have one version.
        self.keys.entry(change.key().clone()).or_insert_with(|| Vec::with_capacity(1)).push(version);
    }

    /// After changes fell out of the history, the values they replaced cannot be read any more.
    fn prune(&mut self, dropped: &[(Revision, Change)]) {
        for (revision, change) in dropped {
            self.oldest = self.oldest.max(*revision);
            let Some(versions) = self.keys.get_mut(change.key()) else { continue };
            let readable = versions.partition_point(|version| version.revision <= *revision);
            let gone = match versions.get(readable.wrapping_sub(1)) {
                Some(Version { kept: Some(_), .. }) => readable - 1,
                Some(Version { kept: None, .. }) | None => readable,
            };
            versions.drain(..gone);
            if versions.is_empty() {
                self.keys.remove(change.key());
            } else if let (Some(packer), [only]) = (&mut self.packer, &mut versions[..]) {
                only.pack(packer);
            }
        }
    }

    fn check_revision(&self, revision: Revision) -> Result<()> {
        if revision < self.oldest {
            Err(Error::Compacted { requested: revision, oldest: self.oldest })
        } else if revision > self.revision {
            Err(Error::FutureRevision { requested: revision, newest: self.revision })
        } else {
            Ok(())
        }
    }

    fn readable(&self, revision: Option<Revision>) -> Result<Revision> {
        let revision = revision.unwrap_or(self.revision);
        self.check_revision(revision).map(|()| revision)
    }

    fn get(&self, key: &Bytes, revision: Option<Revision>) -> Result<Option<KeyValue>> {
        let revision = self.readable(revision)?;
        Ok(self.keys.get(key).and_then(|versions| as_of(versions, revision)?.read(key)))
    }

    fn range(&self, request: &RangeRequest) -> Result<RangeResponse> {
        let revision = self.readable(request.revision)?;
        let (mut items, mut count) = (Vec::new(), 0);
        if let Some(bounds) = bounds(&request.range) {
            let there = self.keys.range::<Bytes, _>(bounds);
            for (key, version) in there.filter_map(|(key, versions)| Some((key, as_of(versions, revision)?))) {
                count += 1;
                if request.limit == 0 || count <= request.limit {
                    items.extend(version.read(key));
                }
            }
        }
        Ok(RangeResponse { items, count, revision: self.revision })
    }

    fn verify(&self) -> std::result::Result<(), String> {
        if let Some(ages) = &self.ages {
            ages.verify(self.keys.iter().filter_map(|(key, versions)| versions.last()?.read(key)))?;
        }
        for (key, versions) in &self.keys {
            let ascending = versions.windows(2).all(|pair| pair[0].revision < pair[1].revision);
            if versions.is_empty() || !ascending || versions.iter().any(|version| version.revision > self.revision) {
                return Err(format!("versions of key {key:?} are not in order"));
            }
        }
        Ok(())
    }
}

/// `None` if the key does not exist at the revision.
fn as_of(versions: &[Version], revision: Revision) -> Option<&Version> {
    let newer = versions.partition_point(|version| version.revision <= revision);
    versions.get(newer.checked_sub(1)?).filter(|version| version.kept.is_some())
}

/// `None` for an empty range, which a map would refuse.
fn bounds(range: &KeyRange) -> Option<(End<&Bytes>, End<&Bytes>)> {
    let end = if range.end.is_empty() { End::Unbounded } else { End::Excluded(&range.end) };
    (range.end.is_empty() || range.start < range.end).then_some((End::Included(&range.start), end))
}

impl Store for MemoryStore {
    fn revision(&self) -> BoxFuture<'_, Result<Revision>> {
        ready(Ok(self.0.state.lock().revision)).boxed()
    }

    fn get(&self, key: Bytes, revision: Option<Revision>) -> BoxFuture<'_, Result<Option<KeyValue>>> {
        ready(self.0.state.lock().get(&key, revision)).boxed()
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse>> {
        ready(self.0.state.lock().range(&request)).boxed()
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnOutcome>> {
        async move { self.0.txn_all(&[txn])?.pop().ok_or(Error::Closed) }.boxed()
    }

    fn txn_all(&self, txns: Vec<Txn>) -> BoxFuture<'_, Result<Vec<TxnOutcome>>> {
        async move { self.0.txn_all(&txns) }.boxed()
    }

    fn watch(&self, range: KeyRange, after: Revision) -> BoxFuture<'_, Result<WatchStream>> {
        ready(self.0.watch(range, after)).boxed()
    }

    fn request_progress(&self) -> BoxFuture<'_, Result<()>> {
        self.0.feed.request_progress();
        ready(Ok(())).boxed()
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<()>> {
        ready(self.0.compact(revision)).boxed()
    }

    fn grant_lease(&self, ttl: u64) -> BoxFuture<'_, Result<LeaseId>> {
        async move { Ok(self.0.grant(ttl)) }.boxed()
    }

    fn keep_alive(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>> {
        ready(self.0.state.lock().leases.keep_alive(lease, Instant::now())).boxed()
    }

    fn revoke_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>> {
        ready(self.0.end_lease(&mut self.0.state.lock(), lease)).boxed()
    }

    fn verify(&self) -> BoxFuture<'_, Result<()>> {
        ready(self.0.verify()).boxed()
    }
}
