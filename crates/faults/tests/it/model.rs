//! The expected content of a store, given what it acknowledged.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use futures::StreamExt;
use storage::embedded::EmbeddedStore;
use storage::{Change, Error, KeyRange, LeaseId, RangeRequest, RangeResponse, Store};

/// A read of the current content.
pub fn everything() -> RangeRequest {
    RangeRequest { range: KeyRange::prefix("/"), revision: None, limit: 0 }
}

/// The operations of one transaction: each key with its new value.
pub type Ops = Vec<(Bytes, Option<Bytes>)>;

/// Transactions whose changes are compared with those that a watch delivers.
const REMEMBERED: usize = 12;

/// A state of the store.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub revision: u64,
    pub keys: BTreeMap<Bytes, (u64, Bytes)>,
    newest: VecDeque<(u64, Ops)>,
}

impl State {
    pub fn apply(&mut self, ops: &Ops) {
        self.revision += 1;
        for (key, value) in ops {
            match value {
                Some(value) => drop(self.keys.insert(key.clone(), (self.revision, value.clone()))),
                None => drop(self.keys.remove(key)),
            }
        }
        self.newest.push_back((self.revision, ops.clone()));
        if self.newest.len() > REMEMBERED {
            self.newest.pop_front();
        }
    }
}

/// The knowledge about a store from its responses.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// Acknowledged changes.
    pub state: State,
    /// Later requests without acknowledgement: some of them, one after another, may be stored.
    pub doubtful: Vec<Ops>,
    /// While commits are not synced: the content even after a power failure, and the changes acknowledged since.
    pub synced: Option<(State, Vec<Ops>)>,
    pub leases: Vec<LeaseId>,
    pub compacted: u64,
    /// A compaction that may have happened.
    pub perhaps_compacted: u64,
}

impl Model {
    /// An empty store.
    pub fn empty() -> Self {
        Self { state: State { revision: 1, ..State::default() }, ..Self::default() }
    }

    pub fn acknowledged(&mut self, ops: Ops, revision: u64) {
        self.doubtful.clear();
        self.state.apply(&ops);
        assert_eq!(revision, self.state.revision, "revisions have no gaps and do not go back");
        if let Some((_, since)) = &mut self.synced {
            since.push(ops);
        }
    }

    /// The certain content after a power failure.
    pub fn after_power_failure(&self) -> Self {
        let Some((state, since)) = &self.synced else { return self.clone() };
        let doubtful = since.iter().chain(&self.doubtful).cloned().collect();
        Self { state: state.clone(), doubtful, synced: None, ..self.clone() }
    }

    /// Compares an opened store with the model, and settles doubtful transactions.
    pub async fn settle(&mut self, store: &EmbeddedStore, what: &str) {
        let revision = store.revision().await.unwrap_or_else(|error| panic!("{what}: {error}"));
        self.settle_doubtful(store, revision, what).await;
        self.synced = None;
        self.check(store, what).await;
        store.verify().await.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(store.damages(), [], "{what}");
        for lease in &self.leases {
            store.keep_alive(*lease).await.unwrap_or_else(|error| panic!("{what}: {lease:?}: {error}"));
        }
        let past = RangeRequest { range: KeyRange::prefix("/"), revision: Some(self.compacted.max(1)), limit: 1 };
        match store.range(past).await {
            Ok(_) | Err(Error::Compacted { .. }) => {}
            Err(error) => panic!("{what}: {error}"),
        }
        if self.compacted > 1 {
            let before = store.get("/".into(), Some(self.compacted - 1)).await;
            assert!(matches!(before, Err(Error::Compacted { .. })), "{what}: {before:?}");
        }
        self.check_watch(store, what).await;
    }

    /// Applies the doubtful transactions that the store has. A failed one is rolled back when the next is executed, so they
    /// follow each other; the content shows which is the first.
    pub async fn settle_doubtful(&mut self, store: &EmbeddedStore, revision: u64, what: &str) {
        let last = self.state.revision;
        let more = revision.checked_sub(last).unwrap_or_else(|| panic!("{what}: revision {revision} after {last}"));
        let (more, doubtful) = (more as usize, std::mem::take(&mut self.doubtful));
        assert!(more <= doubtful.len(), "{what}: revision {revision} after {last}");
        let states = (0..=doubtful.len() - more).map(|first| {
            let mut state = self.state.clone();
            doubtful[first..first + more].iter().for_each(|ops| state.apply(ops));
            state
        });
        let mut states: Vec<State> = states.take(if more == 0 { 1 } else { usize::MAX }).collect();
        if states.len() > 1
            && let Ok(found) = store.range(everything()).await
        {
            let found = found.items.into_iter().map(|kv| (kv.key, (kv.mod_revision, kv.value))).collect();
            // None of them: the comparison that follows reports it.
            let fitting = states.iter().position(|state| state.keys == found);
            states.swap(0, fitting.unwrap_or_default());
        }
        self.state = states.swap_remove(0);
    }

    /// Compares the current content.
    pub async fn check(&self, store: &EmbeddedStore, what: &str) {
        let found = store.range(everything()).await.unwrap_or_else(|error| panic!("{what}: {error}"));
        self.compare(&found, what);
    }

    pub fn compare(&self, found: &RangeResponse, what: &str) {
        assert_eq!(found.revision, self.state.revision, "{what}");
        let found: Vec<_> = found.items.iter().map(|kv| (&kv.key, kv.mod_revision, &kv.value)).collect();
        let expected: Vec<_> = self.state.keys.iter().map(|(key, (revision, value))| (key, *revision, value)).collect();
        let short = |list: &[(&Bytes, u64, &Bytes)]| -> Vec<_> {
            list.iter().map(|(key, revision, value)| ((*key).clone(), *revision, value.len())).collect()
        };
        assert!(found == expected, "{what}: found {:?}, expected {:?}", short(&found), short(&expected));
    }

    /// A watch from an acknowledged revision continues without a gap.
    async fn check_watch(&self, store: &EmbeddedStore, what: &str) {
        let oldest = self.compacted.max(self.perhaps_compacted);
        let expected: Vec<(u64, Bytes)> = self
            .state
            .newest
            .iter()
            .filter(|(revision, _)| *revision > oldest)
            .flat_map(|(revision, ops)| ops.iter().map(|(key, _)| (*revision, key.clone())))
            .collect();
        let Some((first, _)) = expected.first() else { return };
        let mut watch = store.watch(KeyRange::prefix("/"), first - 1).await.unwrap_or_else(|e| panic!("{what}: {e}"));
        let mut found = Vec::new();
        while found.len() < expected.len() {
            let batch = watch.next().await.unwrap().unwrap_or_else(|error| panic!("{what}: {error}"));
            found.extend(
                batch.changes.into_iter().map(|(revision, change): (u64, Change)| (revision, change.key().clone())),
            );
        }
        assert_eq!(found, expected, "{what}");
    }
}
