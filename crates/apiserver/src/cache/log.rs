//! The recent changes of one resource, stored once for all its watchers. A watcher is a position in the log, so a
//! client that reads nothing costs a few pointers instead of a queue; the log's size for slow watchers is bounded in
//! number and in bytes. A watcher whose next change has been dropped ends, and its client resumes from the store.

use std::collections::{HashMap, VecDeque};
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
/// Changes that a watcher reads before it lets go of the log.
const SCANNED: usize = 1024;
/// Changes between two scans of all watchers while one of them is slow.
const AGAIN: u64 = 64;

/// No position.
const NONE: u64 = u64::MAX;

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

    /// The position of the first change.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Drops changes that neither history nor a watcher within the bounds needs; no watcher needs one before the position
    /// `needed`. Returns the dropped changes.
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

    /// Moves the next changes that a watcher selects into `out`; `false` when some of them have been dropped.
    ///
    /// Called with the log locked: no change is added between the last one that is read and the note that none is left.
    fn read(&self, cursor: &Cursor, ends_at: u64, out: &mut VecDeque<Arc<Event>>) -> bool {
        let at = cursor.next.load(Relaxed);
        let Some(start) = at.checked_sub(self.first).and_then(|start| usize::try_from(start).ok()) else {
            return false;
        };
        let left = usize::try_from(ends_at.saturating_sub(at)).unwrap_or(usize::MAX);
        let (mut bytes, mut seen) = (0, 0);
        for event in self.events.range(start.min(self.events.len())..).take(left.min(SCANNED)) {
            if out.len() == TOGETHER || bytes > TOGETHER_BYTES {
                break;
            }
            seen += 1;
            if cursor.place.selects(event) {
                bytes += event.weight();
                out.push_back(Arc::clone(event));
            }
        }
        let next = at + seen;
        cursor.next.store(if next >= self.end() { NONE } else { next }, Relaxed);
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

/// The objects whose changes a watcher receives, as far as they can be looked up; its selectors may exclude some of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection<'a> {
    /// `None` for all namespaces.
    pub namespace: Option<&'a str>,
    /// `None` for all names.
    pub name: Option<&'a str>,
}

/// A [`Selection`] that is kept.
struct Place {
    namespace: Option<Box<str>>,
    name: Option<Box<str>>,
}

impl Place {
    fn selects(&self, event: &Event) -> bool {
        if self.namespace.is_none() && self.name.is_none() {
            return true;
        }
        let (namespace, name) = event.place();
        self.namespace.as_deref().is_none_or(|only| only == namespace)
            && self.name.as_deref().is_none_or(|only| only == name)
    }
}

/// The position of one watcher.
pub(super) struct Cursor {
    place: Place,
    /// The position of the first change that it may select and has not read; [`NONE`] if there is no such change.
    next: AtomicU64,
    /// Its index in its list of [`Cursors`].
    index: AtomicUsize,
    /// The position at which it ends.
    ends_at: AtomicU64,
    waker: AtomicWaker,
}

impl Cursor {
    /// A change that it may select has this position.
    fn note(&self, position: u64) {
        if self.next.load(Relaxed) == NONE {
            self.next.store(position, Release);
        }
    }
}

/// The watchers of a namespace, or of all.
#[derive(Default)]
struct Watchers {
    of_all: Vec<Arc<Cursor>>,
    of_names: HashMap<Box<str>, Vec<Arc<Cursor>>>,
}

impl Watchers {
    fn all(&self) -> impl Iterator<Item = &Arc<Cursor>> {
        self.of_all.iter().chain(self.of_names.values().flatten())
    }

    fn of(&self, name: &str) -> impl Iterator<Item = &Arc<Cursor>> {
        let named = if self.of_names.is_empty() { None } else { self.of_names.get(name) };
        self.of_all.iter().chain(named.into_iter().flatten())
    }

    fn list(&mut self, name: Option<&str>) -> &mut Vec<Arc<Cursor>> {
        match name {
            None => &mut self.of_all,
            Some(name) => self.of_names.entry(name.into()).or_default(),
        }
    }

    fn is_empty(&self) -> bool {
        self.of_all.is_empty() && self.of_names.is_empty()
    }

    fn remove(&mut self, cursor: &Arc<Cursor>) {
        let name = cursor.place.name.as_deref();
        let list = self.list(name);
        let index = cursor.index.load(Relaxed);
        if list.get(index).is_some_and(|found| Arc::ptr_eq(found, cursor)) {
            list.swap_remove(index);
            if let Some(moved) = list.get(index) {
                moved.index.store(index, Relaxed);
            }
        }
        if let Some(name) = name.filter(|_| list.is_empty()) {
            self.of_names.remove(name);
        }
    }
}

/// The watchers of a resource, by what they select: a change costs nothing for those that it does not concern.
#[derive(Default)]
pub(super) struct Cursors {
    everywhere: Watchers,
    of_namespaces: HashMap<Box<str>, Watchers>,
    /// No watcher needs a change before this position.
    floor: u64,
    /// The log's end at which the slowest watcher is determined again, if that did not help last time.
    again_at: u64,
    /// No further change is delivered.
    retired: bool,
}

impl Cursors {
    /// A watcher of changes from `at` on, in a log with this end.
    pub fn add(&mut self, selection: Selection<'_>, at: u64, end: u64) -> Arc<Cursor> {
        let place = Place { namespace: selection.namespace.map(Box::from), name: selection.name.map(Box::from) };
        let cursor = Arc::new(Cursor {
            place,
            next: AtomicU64::new(if at < end { at } else { NONE }),
            index: AtomicUsize::new(0),
            ends_at: AtomicU64::new(if self.retired { 0 } else { NONE }),
            waker: AtomicWaker::new(),
        });
        if !self.retired {
            self.floor = self.floor.min(at);
            let watchers = match selection.namespace {
                None => &mut self.everywhere,
                Some(namespace) => self.of_namespaces.entry(namespace.into()).or_default(),
            };
            let list = watchers.list(selection.name);
            cursor.index.store(list.len(), Relaxed);
            list.push(Arc::clone(&cursor));
        }
        cursor
    }

    fn remove(&mut self, cursor: &Arc<Cursor>) {
        match cursor.place.namespace.as_deref() {
            None => self.everywhere.remove(cursor),
            Some(namespace) => {
                let Some(watchers) = self.of_namespaces.get_mut(namespace) else { return };
                watchers.remove(cursor);
                if watchers.is_empty() {
                    self.of_namespaces.remove(namespace);
                }
            }
        }
        if cursor.next.load(Relaxed) <= self.floor {
            self.again_at = 0;
        }
    }

    /// The watchers that may select the object of a change.
    fn of(&self, event: &Event) -> impl Iterator<Item = &Arc<Cursor>> {
        let (namespace, name) = event.place();
        let there = if self.of_namespaces.is_empty() { None } else { self.of_namespaces.get(namespace) };
        self.everywhere.of(name).chain(there.into_iter().flat_map(move |watchers| watchers.of(name)))
    }

    /// Notes the position of a change for the watchers that may select it.
    pub fn note(&self, event: &Event, position: u64) {
        self.of(event).for_each(|cursor| cursor.note(position));
    }

    /// Wakes the watchers that may select the object of a change.
    pub fn wake(&self, event: &Event) {
        self.of(event).for_each(|cursor| cursor.waker.wake());
    }

    /// No watcher needs a change before this position, in a log from `first` to `end`. It may be lower than necessary: all
    /// watchers are scanned once in as many changes as the log keeps, and while one of them is slow once in a few.
    pub fn needed(&mut self, first: u64, end: u64) -> u64 {
        if self.floor <= first && end >= self.again_at {
            let all = self.everywhere.all().chain(self.of_namespaces.values().flat_map(Watchers::all));
            self.floor = all.map(|cursor| cursor.next.load(Relaxed)).min().unwrap_or(NONE).min(end);
            self.again_at = if self.floor <= first { end + AGAIN } else { 0 };
        }
        self.floor
    }

    /// Ends every watcher at this position, and at once those that are still added.
    pub fn retire(&mut self, position: u64) {
        self.retired = true;
        self.end(position);
    }

    /// Ends every watcher at this position, after it has received the earlier changes.
    pub fn end(&mut self, position: u64) {
        let everywhere = std::mem::take(&mut self.everywhere);
        let elsewhere = std::mem::take(&mut self.of_namespaces);
        for cursor in everywhere.all().chain(elsewhere.values().flat_map(Watchers::all)) {
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
        while self.taken.is_empty() {
            // Read first: changes before the end are noted before it is set.
            let ends_at = self.cursor.ends_at.load(Acquire);
            let next = self.cursor.next.load(Acquire);
            if next == NONE || next >= ends_at {
                return if ends_at == NONE { None } else { Some(None) };
            }
            if !self.resource.log().read(&self.cursor, ends_at, &mut self.taken) {
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
