//! The conformance suite of engines: `run` it in a paused runtime (`start_paused = true`, current thread) with a
//! function that creates an empty store. It panics at the first deviation, as tests do. Not for production code.

mod leases;
pub mod model;
mod reads;
mod transactions;
mod watches;

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;

use crate::{
    Change, Guard, KeyRange, KeyValue, LeaseId, Op, RangeRequest, Revision, Store, Txn, TxnOutcome, WatchBatch,
    WatchStream,
};

/// A store under test, with shorthands that fail the test on any error.
#[derive(Clone)]
struct Subject(Arc<dyn Store>);

/// Runs the listed cases, each on a separate store, followed by the store's `verify`.
macro_rules! cases {
    ($open:ident: $($case:path),* $(,)?) => {$(
        tracing::debug!(case = stringify!($case));
        let subject = Subject($open().await);
        $case(&subject).await;
        if let Err(error) = subject.0.verify().await {
            panic!("after {}: {error}", stringify!($case));
        }
    )*};
}

/// Runs every case.
pub async fn run(open: impl AsyncFn() -> Arc<dyn Store>) {
    run_without_expiry(&open).await;
    cases![open:
        leases::expiry_deletes_the_keys,
        leases::a_renewed_lease_does_not_expire,
        leases::a_key_follows_its_last_write,
    ];
}

/// Runs the cases in which no lease expires: for an engine in another process, whose time is real. The runtime is not
/// paused.
pub async fn run_without_expiry(open: impl AsyncFn() -> Arc<dyn Store>) {
    cases![open:
        transactions::revisions_start_at_one_and_grow_by_one,
        transactions::guards_decide,
        transactions::a_failed_transaction_shows_the_present_state,
        transactions::several_ops_share_a_revision,
        transactions::joint_transactions_commit_in_order_or_not_at_all,
        transactions::a_recreated_key_is_new,
        transactions::large_values_are_kept_and_larger_ones_rejected,
        transactions::concurrent_writers_each_win_once,
        reads::old_revisions_stay_readable,
        reads::ranges_are_ordered_limited_and_counted,
        reads::prefixes_end_where_they_should,
        reads::shares_cover_the_range_once,
        reads::compaction_removes_history_but_no_key,
        watches::from_the_past_now_and_the_future,
        watches::only_the_range_is_seen,
        watches::long_history_is_delivered_whole,
        watches::progress_on_request,
        watches::compacted_history_is_refused,
        watches::no_gaps_under_concurrency,
        leases::revoking_deletes_at_once,
    ];
}

impl Subject {
    async fn commit(&self, guards: Vec<Guard>, ops: Vec<Op>) -> TxnOutcome {
        self.0.txn(Txn { guards, ops }).await.expect("a transaction succeeds")
    }

    async fn put(&self, key: &str, value: &str) -> Revision {
        committed(&self.commit(vec![], vec![put(key, value)]).await)
    }

    async fn delete(&self, key: &str) -> Revision {
        committed(&self.commit(vec![], vec![delete(key)]).await)
    }

    async fn get(&self, key: &str) -> Option<KeyValue> {
        self.0.get(bytes(key), None).await.expect("a read succeeds")
    }

    async fn get_at(&self, key: &str, revision: Revision) -> Option<KeyValue> {
        self.0.get(bytes(key), Some(revision)).await.expect("a read of an old revision succeeds")
    }

    async fn revision(&self) -> Revision {
        self.0.revision().await.expect("the revision is known")
    }

    /// The keys of a range, the count, and the revision.
    async fn keys(&self, range: KeyRange, revision: Option<Revision>, limit: usize) -> (Vec<String>, usize, Revision) {
        let response = self.0.range(RangeRequest { range, revision, limit }).await.expect("a range read succeeds");
        (response.items.iter().map(|kv| text(&kv.key)).collect(), response.count, response.revision)
    }

    async fn watch(&self, prefix: &str, after: Revision) -> WatchStream {
        self.0.watch(KeyRange::prefix(bytes(prefix)), after).await.expect("a watch begins")
    }

    async fn put_leased(&self, key: &str, lease: LeaseId) -> Revision {
        let op = Op::Put { key: bytes(key), value: bytes("leased"), lease: Some(lease) };
        committed(&self.commit(vec![], vec![op]).await)
    }
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn put(key: &str, value: &str) -> Op {
    Op::Put { key: bytes(key), value: bytes(value), lease: None }
}

fn delete(key: &str) -> Op {
    Op::Delete { key: bytes(key) }
}

fn committed(outcome: &TxnOutcome) -> Revision {
    match outcome {
        TxnOutcome::Committed { revision } => *revision,
        TxnOutcome::Failed { .. } => panic!("expected a commit, got {outcome:?}"),
    }
}

async fn next(stream: &mut WatchStream) -> WatchBatch {
    let batch = tokio::time::timeout(std::time::Duration::from_secs(3600), stream.next()).await;
    batch.expect("the watch delivers").expect("the watch goes on").expect("the watch has no error")
}

/// The next `count` changes as `revision+key=value<previous` or `revision-key<previous`, progress skipped.
async fn changes(stream: &mut WatchStream, count: usize) -> Vec<String> {
    let mut seen = Vec::new();
    while seen.len() < count {
        let batch = next(stream).await;
        assert!(batch.changes.iter().all(|(revision, _)| *revision <= batch.revision), "a batch covers its changes");
        seen.extend(batch.changes.iter().map(|(revision, change)| describe(*revision, change)));
    }
    seen
}

fn describe(revision: Revision, change: &Change) -> String {
    match change {
        Change::Put { current, previous } => {
            assert_eq!(current.mod_revision, revision, "a put happened at the revision it names");
            let previous = previous.as_ref().map_or(String::new(), |kv| text(&kv.value));
            format!("{revision}+{}={}<{previous}", text(&current.key), text(&current.value))
        }
        Change::Delete { previous } => format!("{revision}-{}<{}", text(&previous.key), text(&previous.value)),
    }
}
