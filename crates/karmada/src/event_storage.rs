//! `--event-storage`: Events in a bounded store in memory, beside the embedded store.
//!
//! A template that reaches two clusters has some 17 Events. In the embedded store each of them is written to the log,
//! to the database and later deleted there, for an hour of life.

use std::sync::Arc;
use std::time::Duration;

use apiserver::cache::{Apart, keys};
use metrics::{Description, Registry};
use storage::memory::{Bound, MemoryStore, Options};
use storage::{KeyRange, Op, RangeRequest, Store, Txn};
use world::World;

/// Where Events are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventStorage {
    /// In memory: they end with the process.
    #[default]
    Memory,
    /// In the store of all other objects.
    Store,
}

/// Events of the last thousand templates, at 17 for each. One takes a KiB as JSON; when it has left the history, the
/// store and the watch cache keep it compressed, and both take about as much for it: some 20 MiB for all.
const BOUND: Bound = Bound { keys: 16_384, bytes: 16 << 20 };

/// Changes that the watch cache may lag behind, and their size: those of 5 s while 100 Events a second are written, which
/// is as many as the controllers write. Watches resume from the history of the watch cache, which is longer.
const HISTORY: usize = 512;
const HISTORY_BYTES: usize = 512 << 10;

/// `GROUP/PLURAL` of Events in the store.
fn place() -> String {
    keys::group_resource("", "events")
}

impl EventStorage {
    /// The store of Events, unless it is that of all other objects.
    pub fn open(self, world: &World) -> Option<MemoryStore> {
        (self == Self::Memory).then(|| {
            MemoryStore::with_options(Options {
                history_changes: HISTORY,
                history_bytes: HISTORY_BYTES,
                first_revision: first_revision(world),
                bound: Some(BOUND),
                ..Options::default()
            })
        })
    }
}

/// The resources that are in a store of Events.
pub fn apart(store: &MemoryStore) -> Apart {
    Apart { resources: vec![(String::new(), "events".to_owned())], store: Arc::new(store.clone()) }
}

pub const EVICTED: Description = Description::counter(
    "karmada_events_evicted_total",
    &[],
    "Events in memory that were deleted before they expired, because newer ones needed their space.",
);

pub const METRICS: &[Description] = &[EVICTED];

/// Reports the Events that were deleted early, for as long as the server runs.
pub fn count_in(registry: &Registry, store: &MemoryStore) {
    let store = store.clone();
    registry.collect(move |samples| {
        samples.counter(&EVICTED, &[], store.evicted());
        true
    });
}

/// Microseconds since 1970. A process writes fewer than a million Events a second, so its last revision is below the
/// first one of the next process unless the clock is set back before the start of this one. A client that resumes a
/// watch from an earlier process is therefore refused with 410, and none misses an Event unknowingly.
fn first_revision(world: &World) -> u64 {
    u64::try_from(world.now().as_microsecond()).unwrap_or_default()
}

/// Events that an earlier version left in the store are hidden; so many are deleted at once.
const TOGETHER: usize = 256;

/// Events that are read at once, about 8 MiB. Each read counts all that remain, so small reads of many Events would take
/// quadratic time.
const PAGE: usize = 8192;

/// Between two deletions: the store has other work.
const PAUSE: Duration = Duration::from_millis(100);

/// Deletes the Events that an earlier version, or a process with `--event-storage=store`, left in the main store. They
/// are hidden meanwhile.
pub async fn delete_stored(store: Arc<dyn Store>) {
    let mut range = KeyRange::prefix(format!("{}{}/", keys::ROOT, place()));
    let mut deleted = 0;
    loop {
        match delete_page(&*store, &mut range).await {
            Ok(0) => break,
            Ok(some) => deleted += some,
            // Those with a lease end with it, within an hour. The next start tries again.
            Err(storage::Error::Closed) => return,
            Err(error) => {
                tracing::warn!(err = %error, "Events of an earlier version cannot be deleted from the store");
                return;
            }
        }
    }
    if deleted > 0 {
        tracing::info!(deleted, "Events of an earlier version were deleted from the store; Events are in memory now");
    }
}

/// Deletes the first Events of the range, and removes them from it.
async fn delete_page(store: &dyn Store, range: &mut KeyRange) -> storage::Result<usize> {
    let request = RangeRequest { range: range.clone(), revision: None, limit: PAGE };
    let found: Vec<_> = store.range(request).await?.items.into_iter().map(|kv| kv.key).collect();
    for some in found.chunks(TOGETHER) {
        let ops = some.iter().map(|key| Op::Delete { key: key.clone() }).collect();
        store.txn(Txn { guards: Vec::new(), ops }).await?;
        tokio::time::sleep(PAUSE).await;
    }
    if let Some(last) = found.last() {
        range.start = [&last[..], b"\0"].concat().into();
    }
    Ok(found.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn put(store: &dyn Store, key: String) -> u64 {
        let ops = vec![Op::Put { key: key.into(), value: "{}".into(), lease: None }];
        store.txn(Txn { guards: Vec::new(), ops }).await.expect("a write");
        store.revision().await.expect("a revision")
    }

    #[tokio::test(start_paused = true)]
    async fn only_stored_events_are_deleted() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        for n in 0..PAGE + 2 * TOGETHER {
            put(&*store, format!("/registry/core/events/default/e{n}")).await;
        }
        for key in ["core/events2/default/a", "core/eventsource/a", "core/pods/default/events"] {
            put(&*store, format!("/registry/{key}")).await;
        }
        delete_stored(Arc::clone(&store)).await;
        let all = RangeRequest { range: KeyRange::prefix(keys::ROOT), revision: None, limit: 0 };
        assert_eq!(store.range(all).await.expect("a range").count, 3);
    }

    #[tokio::test]
    async fn revisions_of_the_next_process_follow_those_of_the_last() {
        let start: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        let store = |at| EventStorage::Memory.open(&World::simulated(at, 1)).expect("a store");
        let first = store(start);
        let last = put(&first, "/registry/core/events/default/e".to_owned()).await;
        let next = store(start + Duration::from_millis(1));
        assert!(next.revision().await.expect("a revision") > last);
        let range = KeyRange::prefix(keys::ROOT);
        let resumed = next.watch(range, last).await;
        assert!(matches!(resumed, Err(storage::Error::Compacted { .. })), "it would miss Events");
        assert!(EventStorage::Store.open(&World::system()).is_none());
    }
}
