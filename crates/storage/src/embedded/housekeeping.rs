//! Background work: leases expire, old history is compacted, the log file is moved into the main file, the
//! acknowledgement mark is synced. One task per store; it ends with the store.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::Inner;
use super::committer::Request;
use crate::{Error, Revision};

/// A power failure may take the notes of this long: acknowledged commits that the log has lost are then not missed.
const MARK_LAG: Duration = Duration::from_secs(1);
/// After a failure (a full disk, usually) to end a lease or compact.
const RETRY: Duration = Duration::from_secs(1);

pub(super) async fn run(store: Weak<Inner>, wake: Arc<Notify>) {
    let mut history = match store.upgrade() {
        Some(store) => History::new(&store),
        None => return,
    };
    let mut mark_due = None;
    loop {
        let Some(deadline) = turn(&store, &mut history, &mut mark_due).await else { return };
        tokio::select! {
            biased;
            () = sleep_until(deadline) => {}
            () = wake.notified() => {}
        }
    }
}

/// Does all due work and returns the time of the next run; `None` when the store is closed.
async fn turn(store: &Weak<Inner>, history: &mut History, mark_due: &mut Option<Instant>) -> Option<Instant> {
    let store = store.upgrade()?;
    if store.closed.load(Relaxed) {
        return None;
    }
    if store.checkpoint_wanted.load(Relaxed) {
        checkpoint(&store).await;
    }
    sync_mark(&store, mark_due).await;
    let done = async {
        end_leases(&store).await?;
        history.compact(&store).await
    };
    let retry = match done.await {
        Ok(()) => None,
        Err(Error::Closed | Error::Failed(_)) => return None,
        Err(error) => {
            tracing::warn!(err = %error, "Housekeeping of the store fails and is retried");
            Some(Instant::now() + RETRY)
        }
    };
    let lease = store.shared.lock().leases.next_deadline();
    let next = retry.unwrap_or_else(|| lease.map_or(history.due, |lease| lease.min(history.due)));
    Some(mark_due.map_or(next, |due| due.min(next)))
}

/// Syncs the mark a while after the first commit that it does not hold durably.
async fn sync_mark(store: &Arc<Inner>, due: &mut Option<Instant>) {
    match *due {
        None if store.mark_unsynced.load(Relaxed) => *due = Some(Instant::now() + MARK_LAG),
        Some(at) if at <= Instant::now() => {
            *due = None;
            let synced = |store: &Inner| {
                store.sync_mark();
                Ok(())
            };
            // Fails only when the runtime ends, and the store with it.
            drop(store.read(synced).await);
        }
        _ => {}
    }
}

impl Inner {
    /// Failure is no harm to the data: the next commit has the mark synced again.
    pub(super) fn sync_mark(&self) {
        if !self.mark_unsynced.swap(false, Relaxed) {
            return;
        }
        let synced = self.mark.lock().as_ref().map_or(Ok(()), std::fs::File::sync_data);
        self.counters.mark_syncs.fetch_add(1, Relaxed);
        if let Err(error) = synced {
            tracing::warn!(path = %self.path.display(), %error, "cannot sync the mark of what was acknowledged");
        }
    }
}

async fn end_leases(store: &Arc<Inner>) -> crate::Result<()> {
    let expired = store.shared.lock().leases.expired(Instant::now());
    for id in expired {
        match store.request(|reply| Request::EndLease { id, if_due: true, reply }).await {
            Ok(()) | Err(Error::LeaseNotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn checkpoint(store: &Arc<Inner>) {
    let run = |store: &Inner| {
        if let Some(db) = &*store.checkpointer.lock() {
            store.checkpoint(db);
        }
        store.checkpointed.store(true, Relaxed);
        store.checkpoint_wanted.store(false, Relaxed);
        Ok(())
    };
    // Fails only when the runtime ends, and the store with it.
    drop(store.read(run).await);
}

/// Compacts, at every tick, to where the store was at the tick before: kube-apiserver's way with etcd.
struct History {
    due: Instant,
    previous: Revision,
}

impl History {
    fn new(store: &Inner) -> Self {
        Self { due: Instant::now() + store.options.keep_history, previous: store.shared.lock().revision }
    }

    async fn compact(&mut self, store: &Arc<Inner>) -> crate::Result<()> {
        if Instant::now() < self.due {
            return Ok(());
        }
        let (newest, oldest) = {
            let shared = store.shared.lock();
            (shared.revision, shared.oldest)
        };
        let target = self.previous;
        if target > oldest {
            match store.request(|reply| Request::Compact(target, reply)).await {
                Ok(()) | Err(Error::Compacted { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        *self = Self { due: Instant::now() + store.options.keep_history, previous: newest };
        Ok(())
    }
}
