//! The recent changes in memory, and the watchers that follow them.
//!
//! Watchers pull: each holds a position in the one log, so a slow watcher costs no memory and cannot hold up a commit.
//! A commit wakes only the watchers whose range it touches and moves the idle others along.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::{Change, Error, KeyRange, Result, Revision, WatchBatch};

/// A batch ends with the revision in which it reaches this many changes: 256 x 2 KiB objects are half a megabyte.
pub(crate) const BATCH_CHANGES: usize = 256;
/// A batch that is read from disk also ends with the revision in which it reaches this many bytes, which belong to its
/// watcher alone.
pub(crate) const BATCH_BYTES: usize = 512 << 10;

/// How much the feed remembers; the oldest whole revisions go first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub changes: usize,
    pub bytes: usize,
}

/// Recent changes and the watchers following them.
#[derive(Debug)]
pub(crate) struct Feed(Mutex<State>);

#[derive(Debug)]
struct State {
    limits: Limits,
    log: VecDeque<(Revision, Change)>,
    bytes: usize,
    /// Every change after this revision is in `log`.
    oldest: Revision,
    newest: Revision,
    watchers: BTreeMap<u64, Watcher>,
    next_watcher: u64,
    closed: Option<Error>,
}

#[derive(Debug)]
struct Watcher {
    range: KeyRange,
    /// Everything up to here is delivered or does not concern the watcher.
    position: Revision,
    /// The log may hold something for it after `position`.
    behind: bool,
    /// It receives the newest revision even without a matching change.
    wants_progress: bool,
    waker: Option<Waker>,
}

/// The next item of a watcher.
#[derive(Debug)]
pub(crate) enum Next {
    Batch(WatchBatch),
    /// The log no longer reaches back to the watcher's position, the given revision.
    Lagging(Revision),
    Closed(Error),
}

impl Feed {
    /// Sets the first revision, of a store that does not begin at 1; before anything is published.
    pub fn begin_at(&self, revision: Revision) {
        let mut state = self.0.lock();
        (state.oldest, state.newest) = (revision, revision);
    }

    pub fn new(newest: Revision, limits: Limits) -> Self {
        Self(Mutex::new(State {
            limits,
            log: VecDeque::new(),
            bytes: 0,
            oldest: newest,
            newest,
            watchers: BTreeMap::new(),
            next_watcher: 0,
            closed: None,
        }))
    }

    /// Appends a revision; called in revision order. Returns the changes that fell out at the old end.
    pub fn publish(&self, revision: Revision, changes: Vec<Change>) -> Vec<(Revision, Change)> {
        let mut state = self.0.lock();
        debug_assert_eq!(revision, state.newest + 1, "revisions have no gaps");
        state.newest = revision;
        for watcher in state.watchers.values_mut() {
            watcher.notice(revision, &changes);
        }
        for change in changes {
            state.bytes += weight(&change);
            state.log.push_back((revision, change));
        }
        state.trim()
    }

    /// Drops and returns all changes up to `revision`.
    pub fn forget(&self, revision: Revision) -> Vec<(Revision, Change)> {
        let mut state = self.0.lock();
        let mut dropped = Vec::new();
        while state.log.front().is_some_and(|(at, _)| *at <= revision) {
            dropped.extend(state.pop());
        }
        state.oldest = state.oldest.max(revision.min(state.newest));
        dropped
    }

    /// Every open watcher soon receives the present revision as progress.
    pub fn request_progress(&self) {
        for watcher in self.0.lock().watchers.values_mut() {
            watcher.wants_progress = true;
            watcher.wake();
        }
    }

    /// Ends all current and future watches with `error`.
    pub fn close(&self, error: Error) {
        let mut state = self.0.lock();
        state.closed = Some(error);
        state.watchers.values_mut().for_each(Watcher::wake);
    }

    /// Revisions in the log must ascend and lie within its bounds.
    pub fn verify(&self) -> std::result::Result<(), String> {
        let state = self.0.lock();
        let mut last = state.oldest;
        for (revision, change) in &state.log {
            if *revision < last || *revision <= state.oldest || *revision > state.newest {
                return Err(format!("the log holds {revision} after {last} (change of {:?})", change.key()));
            }
            last = *revision;
        }
        Ok(())
    }
}

impl State {
    fn trim(&mut self) -> Vec<(Revision, Change)> {
        let mut dropped = Vec::new();
        while self.log.len() > self.limits.changes || self.bytes > self.limits.bytes {
            let Some(revision) = self.log.front().map(|(revision, _)| *revision) else { break };
            while self.log.front().is_some_and(|(at, _)| *at == revision) {
                dropped.extend(self.pop());
            }
            self.oldest = revision;
        }
        dropped
    }

    fn pop(&mut self) -> Option<(Revision, Change)> {
        let entry = self.log.pop_front()?;
        self.bytes -= weight(&entry.1);
        Some(entry)
    }

    fn next(&mut self, id: u64, context: &Context<'_>) -> Poll<Next> {
        let Self { log, watchers, oldest, newest, closed, .. } = self;
        let watcher = watchers.get_mut(&id).expect("a cursor's watcher lives as long as the cursor");
        if let Some(error) = closed {
            return Poll::Ready(Next::Closed(error.clone()));
        }
        if watcher.position < *oldest && watcher.behind {
            return Poll::Ready(Next::Lagging(watcher.position));
        }
        let changes = if watcher.behind { watcher.collect(log, *newest) } else { Vec::new() };
        if changes.is_empty() && !(watcher.wants_progress && watcher.position <= *newest) {
            watcher.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        if !watcher.behind {
            watcher.wants_progress = false;
        }
        Poll::Ready(Next::Batch(WatchBatch { revision: watcher.position, changes }))
    }
}

impl Watcher {
    fn notice(&mut self, revision: Revision, changes: &[Change]) {
        if revision <= self.position || self.behind {
            return;
        }
        if changes.iter().any(|change| self.range.contains(change.key())) {
            self.behind = true;
            self.wake();
        } else {
            self.position = revision;
        }
    }

    fn collect(&mut self, log: &VecDeque<(Revision, Change)>, newest: Revision) -> Vec<(Revision, Change)> {
        let from = log.partition_point(|(revision, _)| *revision <= self.position);
        let mut changes = Vec::new();
        for (revision, change) in log.range(from..) {
            if changes.len() >= BATCH_CHANGES && *revision > self.position {
                return changes;
            }
            self.position = *revision;
            if self.range.contains(change.key()) {
                changes.push((*revision, change.clone()));
            }
        }
        self.position = self.position.max(newest);
        self.behind = false;
        changes
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// A watcher's place in the feed; dropping it ends the watch.
#[derive(Debug)]
pub(crate) struct Cursor {
    feed: Arc<Feed>,
    id: u64,
}

impl Cursor {
    pub fn new(feed: &Arc<Feed>, range: KeyRange, after: Revision) -> Self {
        let mut state = feed.0.lock();
        let id = state.next_watcher;
        state.next_watcher += 1;
        let behind = after < state.newest;
        // Revision 1 is the empty store, without changes.
        let watcher = Watcher { range, position: after.max(1), behind, wants_progress: false, waker: None };
        state.watchers.insert(id, watcher);
        Self { feed: Arc::clone(feed), id }
    }

    pub fn poll_next(&mut self, context: &Context<'_>) -> Poll<Next> {
        self.feed.0.lock().next(self.id, context)
    }

    /// Continues after `revision`: earlier changes were read elsewhere.
    pub fn skip_to(&mut self, revision: Revision) {
        if let Some(watcher) = self.feed.0.lock().watchers.get_mut(&self.id) {
            watcher.position = watcher.position.max(revision);
        }
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.feed.0.lock().watchers.remove(&self.id);
    }
}

/// The batches of a watch whose history is all in the feed.
pub(crate) fn stream(cursor: Cursor) -> impl futures::Stream<Item = Result<WatchBatch>> + Send {
    futures::stream::unfold(Some(cursor), async |cursor| {
        let mut cursor = cursor?;
        match std::future::poll_fn(|context| cursor.poll_next(context)).await {
            Next::Batch(batch) => Some((Ok(batch), Some(cursor))),
            Next::Lagging(_) => Some((Err(Error::SlowWatcher), None)),
            Next::Closed(error) => Some((Err(error), None)),
        }
    })
}

/// The memory of a change: its keys, values and fields.
fn weight(change: &Change) -> usize {
    let of = |kv: &crate::KeyValue| kv.key.len() + kv.value.len() + size_of::<crate::KeyValue>();
    match change {
        Change::Put { current, previous } => of(current) + previous.as_ref().map_or(0, of),
        Change::Delete { previous } => of(previous),
    }
}
