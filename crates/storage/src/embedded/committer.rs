//! The one place where the store is written. Requests queue; while there are any, one blocking task takes all that
//! wait, carries them out in order in one SQLite transaction with one sync, and answers them together. A lone client
//! waits for no timer, many share a sync.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::checksum::lease_digest;
use super::connection;
use super::database::{self, Fault};
use super::full::Full;
use super::mark::Mark;
use super::recent::Recent;
use super::schema::Number;
use super::{Inner, Shared};
use crate::plan::{Plan, plan_all};
use crate::{Change, Error, LeaseId, Op, Result, Revision, Txn, TxnOutcome};

/// Transactions of one commit. 1024 x 2 KiB objects sync about as fast as one does.
const BATCH_REQUESTS: usize = 1024;
/// Rows whose superseded ones are deleted between two batches: a millisecond or two.
const SWEEP_ROWS: usize = 256;
/// The log file is moved into the main file in the background after this many bytes...
const CHECKPOINT_BYTES: u64 = 8 << 20;
/// ...and by the committer itself after this many, which bounds the log file under any load.
const CHECKPOINT_NOW_BYTES: u64 = 64 << 20;

pub(super) type Reply<T> = oneshot::Sender<Result<T>>;

#[derive(Debug)]
pub(super) enum Request {
    /// All of them, or none.
    Txns(Vec<Txn>, Reply<Vec<TxnOutcome>>),
    Grant {
        ttl: u64,
        reply: Reply<LeaseId>,
    },
    EndLease {
        id: LeaseId,
        /// Only if it is past its deadline: it may have been renewed since the request was queued.
        if_due: bool,
        reply: Reply<()>,
    },
    Compact(Revision, Reply<()>),
    /// Whether each commit waits for the disk; earlier commits are durable when the reply arrives.
    SyncCommits(bool, Reply<()>),
    Close(Reply<()>),
}

/// Each caller awaits its one request, so the queue is bounded by the number of callers (the API server's limit on
/// requests in flight), times the limit on a transaction.
#[derive(Debug, Default)]
pub(super) struct Queue {
    requests: VecDeque<Request>,
    /// A blocking task works on the queue.
    running: bool,
    /// The reason for which further requests are refused.
    refuses: Option<Error>,
    /// Those who wait until a failure stops writing.
    stopping: Vec<oneshot::Sender<()>>,
    full: Full,
}

/// The state of the writing side, owned by the task that processes the queue.
#[derive(Debug)]
pub(super) struct Writer {
    pub db: Connection,
    pub recent: Recent,
    pub ledger: Ledger,
    pub mark: Mark,
    /// Row up to which the log is free of superseded rows.
    pub swept: i64,
    /// The sweep towards this revision failed; the next compaction tries again.
    pub sweep_failed: Option<Revision>,
    /// Bytes written since the log file was last known to be moved into the main file.
    pub unmoved_bytes: u64,
    /// Commits wait for the disk, as they do except while a new control plane's own objects are written.
    pub syncs: bool,
    /// Something was committed that did not wait.
    pub unsynced: bool,
    /// The log may hold parts of a commit that failed, behind the last one that did not.
    pub leftovers: bool,
}

/// The digests of the file's content.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ledger {
    /// Of all rows ever appended.
    pub digest: u64,
    /// Of all removed rows.
    pub removed: u64,
    /// Of all leases.
    pub leases: u64,
    /// Commits of the store's own bookkeeping.
    pub asides: u64,
}

/// The right to process the queue. If it is dropped unused, the runtime is shutting down or the worker panicked; queued
/// requests are then refused, so that they do not wait.
struct Turn {
    store: Arc<Inner>,
    ended: bool,
}

impl Inner {
    /// Queues a request and starts a task for the queue if none runs. Must be called within a tokio runtime.
    pub(super) fn submit(self: &Arc<Self>, request: Request) -> Result<()> {
        let mut queue = self.queue.lock();
        match (&queue.refuses, &request) {
            // A store that failed can still be closed.
            (None, _) | (Some(Error::Failed(_)), Request::Close(_)) => {}
            (Some(error), _) => return Err(error.clone()),
        }
        queue.requests.push_back(request);
        let idle = !std::mem::replace(&mut queue.running, true);
        drop(queue);
        if idle {
            let turn = Turn { store: Arc::clone(self), ended: false };
            tokio::task::spawn_blocking(move || turn.work());
        }
        Ok(())
    }

    /// Queues a request and awaits its answer.
    pub(super) async fn request<T>(self: &Arc<Self>, request: impl FnOnce(Reply<T>) -> Request) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.submit(request(reply))?;
        answer.await.unwrap_or(Err(Error::Closed))
    }

    fn refuse(&self, error: Error) {
        let mut queue = self.queue.lock();
        if !matches!(queue.refuses, Some(Error::Closed)) {
            queue.refuses = Some(error);
        }
    }

    /// Until writes are refused because one failed; false when the store is dropped before.
    pub(super) fn writing_stopped(&self) -> impl Future<Output = bool> + Send + use<> {
        let (stop, stopped) = oneshot::channel();
        let mut queue = self.queue.lock();
        match &queue.refuses {
            Some(Error::Failed(_)) => _ = stop.send(()),
            _ => queue.stopping.push(stop),
        }
        async move { stopped.await.is_ok() }
    }

    /// After a failed sync the content of the disk is unknown, and a later success would prove nothing: writes are
    /// refused until the file is reopened, and thereby recovered.
    fn stop_on_failure(&self, error: &Error) {
        match error {
            Error::Failed(_) => {
                tracing::error!(err = %error, "Store refuses writes until the process is restarted");
                self.refuse(error.clone());
                let stopping = std::mem::take(&mut self.queue.lock().stopping);
                stopping.into_iter().for_each(|stop| _ = stop.send(()));
            }
            Error::NoSpace if self.queue.lock().full.is_due(Instant::now()) => {
                tracing::error!(err = %error, "Store refuses writes until there is space");
            }
            _ => {}
        }
    }

    fn may_write(&self) -> Result<()> {
        self.queue.lock().refuses.clone().map_or(Ok(()), Err)
    }

    /// Up to [`BATCH_REQUESTS`] transactions, or one other request; `None` if the queue is empty.
    fn take(&self, may_end: bool) -> Option<Vec<Request>> {
        let mut queue = self.queue.lock();
        let transactions =
            queue.requests.iter().take(BATCH_REQUESTS).take_while(|r| matches!(r, Request::Txns(..))).count();
        let count = transactions.max(1).min(queue.requests.len());
        if count == 0 && may_end {
            queue.running = false;
            return None;
        }
        Some(queue.requests.drain(..count).collect())
    }
}

impl Turn {
    fn work(mut self) {
        let store = Arc::clone(&self.store);
        let mut slot = store.writer.lock();
        loop {
            let sweeping = slot.as_ref().is_some_and(|writer| store.must_sweep(writer));
            let Some(requests) = store.take(!sweeping) else { break };
            execute(&store, &mut slot, requests);
            if let Some(writer) = slot.as_mut() {
                store.tidy(writer);
            }
        }
        self.ended = true;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.ended {
            let mut queue = self.store.queue.lock();
            queue.running = false;
            queue.requests.clear();
        }
    }
}

fn execute(store: &Inner, slot: &mut Option<Writer>, requests: Vec<Request>) {
    let mut transactions = Vec::new();
    for request in requests {
        let Some(writer) = slot.as_mut() else { return };
        match request {
            Request::Txns(txns, reply) => transactions.push((txns, reply)),
            Request::Grant { ttl, reply } => drop(reply.send(store.grant(writer, ttl))),
            Request::EndLease { id, if_due, reply } => drop(reply.send(store.end_lease(writer, id, if_due))),
            Request::Compact(revision, reply) => drop(reply.send(store.compact(writer, revision))),
            Request::SyncCommits(wanted, reply) => drop(reply.send(store.sync_commits(writer, wanted))),
            Request::Close(reply) => {
                store.refuse(Error::Closed);
                if let Some(writer) = slot.take() {
                    store.empty_log(&writer.db);
                }
                store.release();
                drop(reply.send(Ok(())));
            }
        }
    }
    if let Some(writer) = slot.as_mut()
        && !transactions.is_empty()
    {
        store.commit(writer, transactions);
    }
}

/// The results of a batch: the outcomes of each request, and the written revisions.
type Written = (Vec<Result<Vec<TxnOutcome>>>, Vec<(Revision, Vec<Change>)>);

/// A backup that is slower than this many writes loses its history: at 2 KiB each it is 2 GiB of file.
const HELD_REVISIONS: Revision = 1_000_000;

impl Shared {
    /// The revision up to which history may be compacted, if it advances: a backup in progress retains history.
    fn compactable(&self, wanted: Revision) -> Option<Revision> {
        let first = self.holds.keys().find(|held| held.saturating_add(HELD_REVISIONS) > self.revision);
        let revision = first.map_or(wanted, |held| wanted.min(*held));
        (revision > self.oldest).then_some(revision)
    }
}

impl Inner {
    fn commit(&self, writer: &mut Writer, transactions: Vec<(Vec<Txn>, Reply<Vec<TxnOutcome>>)>) {
        let (transactions, replies): (Vec<_>, Vec<_>) = transactions.into_iter().unzip();
        match self.write(writer, &transactions, None) {
            Ok(outcomes) => outcomes.into_iter().zip(replies).for_each(|(outcome, reply)| drop(reply.send(outcome))),
            Err(error) => replies.into_iter().for_each(|reply| drop(reply.send(Err(error.clone())))),
        }
    }

    /// Commits the transactions durably and makes them visible. On an error none of them is applied.
    fn write(
        &self,
        writer: &mut Writer,
        transactions: &[Vec<Txn>],
        ended: Option<LeaseId>,
    ) -> Result<Vec<Result<Vec<TxnOutcome>>>> {
        self.may_write()?;
        let written = self.note_leftovers(writer).and_then(|()| self.write_durably(writer, transactions, ended));
        let (outcomes, revisions) = written.inspect_err(|error| {
            // The batch was not applied, so its records are dropped.
            writer.recent.clear();
            writer.leftovers = true;
            self.stop_on_failure(error);
        })?;
        for (revision, changes) in revisions {
            let mut shared = self.shared.lock();
            changes.iter().for_each(|change| shared.leases.follow(change));
            self.feed.publish(revision, changes);
            shared.revision = revision;
        }
        Ok(outcomes)
    }

    fn write_durably(&self, writer: &mut Writer, transactions: &[Vec<Txn>], ended: Option<LeaseId>) -> Result<Written> {
        let (failed, broken) = (database::failed(&self.path), database::failed::<Fault>(&self.path));
        let mut revision = self.shared.lock().revision;
        let (mut outcomes, mut revisions, mut bytes) = (Vec::new(), Vec::new(), 0);
        let Writer { db, recent, ledger, .. } = writer;
        let mut ledger = *ledger;
        let db = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&failed)?;
        for txns in transactions {
            let lookup = |key: &Bytes| recent.get(key, || database::get(&db, key, Revision::MAX).map_err(&broken));
            let plans = match plan_all(txns, revision + 1, lookup, |id| self.shared.lock().leases.contains(id)) {
                Err(error @ (Error::Failed(_) | Error::NoSpace)) => return Err(error),
                Err(error) => {
                    outcomes.push(Err(self.noted(error)));
                    continue;
                }
                Ok(plans) => plans,
            };
            let mut done = Vec::with_capacity(plans.len());
            for plan in plans {
                done.push(match plan {
                    Plan::Refuse(current) => TxnOutcome::Failed { current, revision },
                    Plan::Nothing => TxnOutcome::Committed { revision },
                    Plan::Write(changes) => {
                        revision += 1;
                        database::append(&db, revision, &changes, &mut ledger.digest).map_err(&failed)?;
                        changes.iter().for_each(|change| recent.follow(change));
                        bytes += changes.iter().map(stored_bytes).sum::<u64>();
                        revisions.push((revision, changes));
                        TxnOutcome::Committed { revision }
                    }
                });
            }
            outcomes.push(Ok(done));
        }
        if let Some(id) = ended {
            end_lease(&db, id, &mut ledger).map_err(&broken)?;
        }
        if revisions.is_empty() && ended.is_none() {
            return Ok((outcomes, revisions));
        }
        self.opened.check()?;
        db.commit().map_err(&failed)?;
        self.note_commit(writer, ledger, revision, (revisions.len() as u64, bytes))?;
        Ok((outcomes, revisions))
    }

    /// Runs `statements` in a separate durable transaction.
    fn aside(
        &self,
        writer: &mut Writer,
        statements: impl FnOnce(&Connection, &mut Ledger) -> Result<(), Fault>,
    ) -> Result<()> {
        self.may_write()?;
        let revision = self.shared.lock().revision;
        let mut ledger = writer.ledger;
        ledger.asides += 1;
        let noted = self.note_leftovers(writer).and_then(|()| self.opened.check());
        let attempt = || -> Result<(), Fault> {
            let db = writer.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            statements(&db, &mut ledger)?;
            Number::Asides.set(&db, ledger.asides.cast_signed())?;
            Ok(db.commit()?)
        };
        let done = noted.and_then(|()| attempt().map_err(database::failed(&self.path)));
        writer.leftovers |= done.is_err();
        done.and_then(|()| self.note_commit(writer, ledger, revision, (0, 0))).map_err(|error| {
            self.stop_on_failure(&error);
            self.noted(error)
        })
    }

    fn sync_commits(&self, writer: &mut Writer, wanted: bool) -> Result<()> {
        self.may_write()?;
        let changed = self.change_syncs(writer, wanted);
        changed.inspect_err(|error| self.stop_on_failure(error))
    }

    fn grant(&self, writer: &mut Writer, ttl: u64) -> Result<LeaseId> {
        let id = self.shared.lock().leases.next_id();
        self.aside(writer, |db, ledger| {
            let (id, ttl) = (id.0.cast_signed(), ttl.min(1 << 40).cast_signed());
            db.execute("INSERT INTO leases VALUES (?1, ?2)", (id, ttl))?;
            ledger.leases = ledger.leases.wrapping_add(lease_digest(id, ttl));
            Number::Leases.set(db, ledger.leases.cast_signed())?;
            Ok(Number::LastLease.set(db, id)?)
        })?;
        self.shared.lock().leases.insert(id, ttl, Instant::now());
        self.housekeeping.notify_one();
        Ok(id)
    }

    fn end_lease(&self, writer: &mut Writer, id: LeaseId, if_due: bool) -> Result<()> {
        let keys = {
            let shared = self.shared.lock();
            if if_due && !shared.leases.expired(Instant::now()).contains(&id) {
                return Ok(());
            }
            shared.leases.keys(id)?
        };
        let delete = |key| vec![Txn { guards: vec![], ops: vec![Op::Delete { key }] }];
        self.write(writer, &keys.into_iter().map(delete).collect::<Vec<_>>(), Some(id))?;
        self.shared.lock().leases.remove(id).map(drop)
    }

    fn compact(&self, writer: &mut Writer, revision: Revision) -> Result<()> {
        self.readable(Some(revision))?;
        let Some(revision) = self.shared.lock().compactable(revision) else { return Ok(()) };
        self.aside(writer, |db, _| Ok(Number::Oldest.set(db, revision.cast_signed())?))?;
        self.shared.lock().oldest = revision;
        Ok(())
    }

    fn must_sweep(&self, writer: &Writer) -> bool {
        let oldest = self.shared.lock().oldest;
        oldest > 0 && writer.sweep_failed != Some(oldest) && writer.swept < database::last_row(oldest)
    }

    /// The work between batches: bounded history, a part of the sweep, the checkpoint.
    fn tidy(&self, writer: &mut Writer) {
        let (revision, oldest) = {
            let shared = self.shared.lock();
            (shared.revision, shared.oldest)
        };
        let keep = self.options.keep_revisions;
        // Not with every write: up to a fifth more than configured is retained.
        if revision.saturating_sub(oldest) > keep + keep / 5
            && let Err(error) = self.compact(writer, revision - keep)
        {
            tracing::warn!(err = %error, "History of the store cannot be compacted; retrying");
        }
        if self.must_sweep(writer) {
            self.sweep(writer);
        }
        if writer.unmoved_bytes > CHECKPOINT_NOW_BYTES || self.checkpointed.swap(false, Relaxed) {
            // After the background checkpoint few pages remain to move, and none are added meanwhile.
            self.checkpoint(&writer.db);
            writer.unmoved_bytes = 0;
        } else if writer.unmoved_bytes > CHECKPOINT_BYTES && !self.checkpoint_wanted.swap(true, Relaxed) {
            self.housekeeping.notify_one();
        }
    }

    fn sweep(&self, writer: &mut Writer) {
        let (swept, (oldest, revision)) = (writer.swept, {
            let shared = self.shared.lock();
            (shared.oldest, shared.revision)
        });
        let mut done = swept;
        let swept = self.aside(writer, |db, ledger| {
            let swept = database::sweep(db, swept, oldest, SWEEP_ROWS)?;
            done = swept.row;
            ledger.removed = ledger.removed.wrapping_add(swept.removed);
            Number::Removed.set(db, ledger.removed.cast_signed())?;
            // The newest row may be among those that went.
            Number::Appended.set(db, ledger.digest.cast_signed())?;
            Ok(Number::AppendedAt.set(db, revision.cast_signed())?)
        });
        match swept {
            Ok(()) => writer.swept = done,
            Err(error) => {
                tracing::warn!(err = %error, "Compacted history cannot be removed; the next compaction retries");
                writer.sweep_failed = Some(oldest);
            }
        }
    }

    /// When the store closes: a log that is empty cannot be damaged. Others may still read; then it stays.
    fn empty_log(&self, db: &Connection) {
        *self.checkpointer.lock() = None;
        self.readers.lock().clear();
        let quiet = db.execute_batch("PRAGMA busy_timeout=0;");
        if let Err(error) = quiet.and_then(|()| connection::empty_log(db).map(drop)) {
            tracing::debug!(path = %self.path.display(), %error, "the log stays as it is");
        }
    }

    /// Failure is no harm to the data: it stays in the log file, and the next checkpoint tries again.
    pub(super) fn checkpoint(&self, db: &Connection) {
        match connection::checkpoint(db) {
            // The main file, and the log file's header when it is reset.
            Ok(_) => drop(self.counters.syncs.fetch_add(2, Relaxed)),
            Err(error) => {
                tracing::warn!(path = %self.path.display(), err = %error, "Store cannot be checkpointed; the next checkpoint retries")
            }
        }
    }
}

fn end_lease(db: &Connection, id: LeaseId, ledger: &mut Ledger) -> Result<(), Fault> {
    use rusqlite::OptionalExtension;
    let id = id.0.cast_signed();
    let ttl: Option<i64> =
        db.query_row("DELETE FROM leases WHERE id = ?1 RETURNING ttl", (id,), |row| row.get(0)).optional()?;
    ledger.leases = ledger.leases.wrapping_sub(ttl.map_or(0, |ttl| lease_digest(id, ttl)));
    ledger.asides += 1;
    Number::Leases.set(db, ledger.leases.cast_signed())?;
    Ok(Number::Asides.set(db, ledger.asides.cast_signed())?)
}

fn stored_bytes(change: &Change) -> u64 {
    match change {
        Change::Put { current, .. } => (current.key.len() + current.value.len()) as u64,
        Change::Delete { previous } => previous.key.len() as u64,
    }
}

#[cfg(test)]
mod tests;
