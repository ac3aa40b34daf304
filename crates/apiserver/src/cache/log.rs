//! The recent changes of one resource, stored once for all its watchers. A watcher is a position in the log, so a
//! client that reads nothing costs a few pointers instead of a queue; the log's size for slow watchers is bounded in
//! number and in bytes. A watcher whose next change has been dropped ends, and its client resumes from the store.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::task::{Context, Poll};

use futures::task::AtomicWaker;
use storage::Revision;

use super::resource::{Event, ResourceCache};

/// Changes kept for watches that start in the past: 4,096 pairs of pointers are 100 KiB, and cover 8 s at 500 writes/s.
/// Older starts read from the store.
pub(super) const HISTORY: usize = 4096;
/// Bytes of objects that those changes may retain: 500 small objects. Objects that leave the history are compressed.
pub(super) const HISTORY_BYTES: usize = 1 << 20;
/// Changes a watcher may lag behind: 10 s at 1,600 writes/s; a slower watcher ends and starts again.
pub(super) const LAG: usize = 16_384;
/// Bytes of objects that the slowest watcher of a resource may retain: 16,384 changes of 4 KiB.
pub(super) const LAG_BYTES: usize = 64 << 20;
/// Bytes of objects that slow watchers of all resources may retain together. Beyond that each resource retains only its
/// [`HISTORY_BYTES`].
pub(super) const BACKLOG_BYTES: usize = 128 << 20;

/// Changes a watcher takes out of the log at once, and the bytes after which it takes no more.
const TOGETHER: usize = 32;
const TOGETHER_BYTES: usize = 32 << 10;

/// The changes, oldest first.
pub(super) struct Log {
    events: VecDeque<Arc<Event>>,
    /// The weights of all in `events`.
    bytes: usize,
    /// The position of the first in `events`; each change has the next position.
    first: u64,
    /// Every change after this revision is in `events`.
    pub from: Revision,
    /// Bytes that the logs of all resources hold beyond their history.
    backlog: Arc<AtomicUsize>,
}

impl Log {
    pub fn new(from: Revision, backlog: Arc<AtomicUsize>) -> Self {
        Self { events: VecDeque::new(), bytes: 0, first: 0, from, backlog }
    }

    /// The position of the next change.
    pub fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// The position of the first change after a revision that the log still covers.
    pub fn after(&self, revision: Revision) -> u64 {
        self.first + self.events.partition_point(|event| event.revision <= revision) as u64
    }

    pub fn push(&mut self, event: Arc<Event>) {
        let before = self.excess();
        self.bytes += event.weight();
        self.events.push_back(event);
        self.account(before);
    }

    /// Drops changes that neither history nor a watcher within the bounds needs; `needed` is the position of the
    /// slowest watcher. Returns the dropped changes.
    pub fn trim(&mut self, needed: u64) -> Vec<Arc<Event>> {
        let before = self.excess();
        let most = if self.backlog.load(Relaxed) > BACKLOG_BYTES { HISTORY_BYTES } else { LAG_BYTES };
        let mut dropped = Vec::new();
        while self.exceeds(HISTORY, HISTORY_BYTES) {
            if self.first >= needed && !self.exceeds(LAG, most) {
                break;
            }
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.weight();
            self.first += 1;
            self.from = oldest.revision;
            dropped.push(oldest);
        }
        self.account(before);
        dropped
    }

    pub fn exceeds(&self, events: usize, bytes: usize) -> bool {
        self.events.len() > events || self.bytes > bytes
    }

    fn excess(&self) -> usize {
        self.bytes.saturating_sub(HISTORY_BYTES)
    }

    fn account(&self, before: usize) {
        let after = self.excess();
        if after > before {
            self.backlog.fetch_add(after - before, Relaxed);
        } else if before > after {
            self.backlog.fetch_sub(before - after, Relaxed);
        }
    }

    /// Moves the next changes of a watcher into `out`; `false` when some of them have been dropped.
    fn read(&self, cursor: &Cursor, out: &mut VecDeque<Arc<Event>>) -> bool {
        let at = cursor.at.load(Relaxed);
        let Some(start) = at.checked_sub(self.first).and_then(|start| usize::try_from(start).ok()) else {
            return false;
        };
        let left = usize::try_from(cursor.ends_at.load(Acquire).saturating_sub(at)).unwrap_or(usize::MAX);
        let mut bytes = 0;
        for event in self.events.range(start.min(self.events.len())..).take(left) {
            if out.len() == TOGETHER || bytes > TOGETHER_BYTES {
                break;
            }
            bytes += event.weight();
            out.push_back(Arc::clone(event));
        }
        cursor.at.store(at + out.len() as u64, Relaxed);
        true
    }

    #[cfg(test)]
    pub fn held(&self) -> (usize, usize) {
        assert_eq!(self.bytes, self.events.iter().map(|event| event.weight()).sum::<usize>());
        // Without a gap: every change after `from` is present.
        let oldest = self.events.front().map(|event| event.revision);
        assert!(oldest.is_none_or(|oldest| oldest > self.from));
        (self.events.len(), self.bytes)
    }
}

/// The position of one watcher.
pub(super) struct Cursor {
    at: AtomicU64,
    /// Its index in [`Cursors`].
    index: AtomicUsize,
    /// The position at which it ends.
    ends_at: AtomicU64,
    waker: AtomicWaker,
}

impl Cursor {
    fn has_ended(&self) -> bool {
        self.at.load(Relaxed) >= self.ends_at.load(Acquire)
    }
}

/// The watchers of a resource.
#[derive(Default)]
pub(super) struct Cursors {
    all: Vec<Arc<Cursor>>,
    /// No further change is delivered.
    retired: bool,
}

impl Cursors {
    pub fn add(&mut self, at: u64) -> Arc<Cursor> {
        let cursor = Arc::new(Cursor {
            at: AtomicU64::new(at),
            index: AtomicUsize::new(self.all.len()),
            ends_at: AtomicU64::new(if self.retired { 0 } else { u64::MAX }),
            waker: AtomicWaker::new(),
        });
        if !self.retired {
            self.all.push(Arc::clone(&cursor));
        }
        cursor
    }

    fn remove(&mut self, cursor: &Arc<Cursor>) {
        let index = cursor.index.load(Relaxed);
        if self.all.get(index).is_some_and(|found| Arc::ptr_eq(found, cursor)) {
            self.all.swap_remove(index);
            if let Some(moved) = self.all.get(index) {
                moved.index.store(index, Relaxed);
            }
        }
    }

    /// The position of the slowest.
    pub fn slowest(&self) -> u64 {
        self.all.iter().map(|cursor| cursor.at.load(Relaxed)).min().unwrap_or(u64::MAX)
    }

    pub fn wake(&self) {
        self.all.iter().for_each(|cursor| cursor.waker.wake());
    }

    /// Ends every watcher at this position, and at once those that are still added.
    pub fn retire(&mut self, position: u64) {
        self.retired = true;
        self.end(position);
    }

    /// Ends every watcher at this position, after it has received the earlier changes.
    pub fn end(&mut self, position: u64) {
        for cursor in self.all.drain(..) {
            cursor.ends_at.store(position, Release);
            cursor.waker.wake();
        }
    }
}

/// The changes of a resource as one watcher receives them.
pub struct Events {
    resource: Arc<ResourceCache>,
    cursor: Arc<Cursor>,
    /// Taken out of the log and not received yet.
    taken: VecDeque<Arc<Event>>,
}

impl Events {
    pub(super) fn new(resource: Arc<ResourceCache>, cursor: Arc<Cursor>) -> Self {
        Self { resource, cursor, taken: VecDeque::new() }
    }

    /// The next change; `None` when the watcher fell too far behind or the log ended.
    pub async fn recv(&mut self) -> Option<Arc<Event>> {
        std::future::poll_fn(|context| self.poll_recv(context)).await
    }

    fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<Arc<Event>>> {
        if let Some(found) = self.now() {
            return Poll::Ready(found);
        }
        self.cursor.waker.register(context.waker());
        // A change may have arrived before the registration.
        self.now().map_or(Poll::Pending, Poll::Ready)
    }

    /// The next change, if there is one; `Some(None)` at the end.
    pub fn now(&mut self) -> Option<Option<Arc<Event>>> {
        if self.taken.is_empty() {
            if self.cursor.at.load(Relaxed) == self.resource.end() && !self.cursor.has_ended() {
                return None;
            }
            let has_all = self.resource.log().read(&self.cursor, &mut self.taken);
            if !has_all || (self.taken.is_empty() && self.cursor.has_ended()) {
                return Some(None);
            }
        }
        self.taken.pop_front().map(Some)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.resource.leave(|cursors| cursors.remove(&self.cursor));
    }
}
