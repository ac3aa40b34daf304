//! The cached objects and recent changes of one resource.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Weak};

use apimachinery::object::Packer;
use apimachinery::{Object, ObjectKey, Status};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use storage::{Change, Revision};

use super::committed::Committed;
use super::log::{Cursors, Events, HISTORY, HISTORY_BYTES, Log, Selection};
use super::unreadable::Unreadable;
use crate::cache::keys;
use crate::cache::snapshot::Snapshot;

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Event {
    /// The revision of the change.
    pub revision: Revision,
    /// `None` when the object was deleted.
    pub current: Option<Arc<Object>>,
    /// The state before; `None` when the object was created.
    pub previous: Option<Arc<Object>>,
}

impl Event {
    /// Bytes of the object that it retains. The previous state belongs to the event that created it, unless there is no
    /// later one.
    pub(super) fn weight(&self) -> usize {
        self.object().map_or(0, |object| object.size())
    }

    /// Namespace and name of the object; the namespace is empty where it has none.
    pub(super) fn place(&self) -> (&str, &str) {
        self.object().map_or(("", ""), |object| (object.namespace().unwrap_or_default(), object.name()))
    }

    fn object(&self) -> Option<&Arc<Object>> {
        self.current.as_ref().or(self.previous.as_ref())
    }
}

/// A watcher's end of the line.
pub struct Subscription {
    /// The objects at its start, if it requested them.
    pub initial: Arc<Snapshot>,
    /// The state the subscription starts from.
    pub revision: Revision,
    /// The changes after that revision.
    pub events: Events,
}

/// The cached objects and the recent changes of one resource.
pub struct ResourceCache {
    /// `GROUP/PLURAL`.
    place: Arc<str>,
    /// Locked before `state` and `log`, in this order, where more than one is.
    cursors: Mutex<Cursors>,
    pub(super) state: RwLock<State>,
    log: RwLock<Log>,
    /// Lists in use, by namespace, and the state they are of.
    lists: Mutex<Lists>,
    packer: Mutex<Packer>,
    /// Objects of committed revisions that are not in `state` yet, from their writers. Locked after `state`.
    committed: Committed,
}

type Lists = HashMap<Option<Box<str>>, (u64, Weak<Snapshot>)>;

pub(super) struct State {
    pub(super) objects: BTreeMap<ObjectKey, Arc<Object>>,
    unreadable: Unreadable,
    /// The newest change in `objects`; it may be ahead of the server's progress and of the log for a moment.
    newest: Revision,
    /// Counts the changes of `objects`.
    changes: u64,
}

impl ResourceCache {
    /// `backlog` counts the bytes that slow watchers of all resources retain.
    pub(super) fn new(place: Arc<str>, revision: Revision, backlog: Arc<AtomicUsize>) -> Self {
        let state = State { objects: BTreeMap::new(), unreadable: Unreadable::default(), newest: revision, changes: 0 };
        Self {
            place,
            cursors: Mutex::default(),
            state: RwLock::new(state),
            log: RwLock::new(Log::new(revision, backlog)),
            lists: Mutex::default(),
            packer: Mutex::default(),
            committed: Committed::default(),
        }
    }

    /// Loads the objects present when the server starts.
    pub(super) fn load(&self, objects: impl Iterator<Item = (ObjectKey, Arc<Object>)>, revision: Revision) {
        let mut state = self.state.write();
        state.objects.extend(objects);
        state.changes += 1;
        state.newest = revision;
        self.log.write().from = revision;
    }

    pub(super) fn absorb(
        &self,
        key: ObjectKey,
        revision: Revision,
        change: &Change,
    ) -> Result<Event, serde_json::Error> {
        let current = match change {
            Change::Put { current, .. } => Some(match self.committed.take(&key, revision) {
                Some(object) => object,
                None => keys::with_revision(&current.value, revision)?.shared(),
            }),
            Change::Delete { .. } => None,
        };
        let mut state = self.state.write();
        state.unreadable.remove(&key);
        state.changes += 1;
        state.newest = state.newest.max(revision);
        self.committed.forget(revision);
        let previous = match &current {
            Some(object) => state.objects.insert(keys::shared(key, object), Arc::clone(object)),
            None => state.objects.remove(&key),
        };
        Ok(Event { revision, current, previous })
    }

    /// The object that a writer has committed with `revision`, from its stored form. Its writer and this cache share it: the
    /// first of them builds it, the other takes it.
    ///
    /// # Errors
    /// If `stored` is not an object.
    pub(crate) fn committed(
        &self,
        key: &ObjectKey,
        stored: &[u8],
        revision: Revision,
    ) -> Result<Arc<Object>, serde_json::Error> {
        let known = self.state.read().objects.get(key).map(Arc::clone);
        if let Some(object) = known.filter(|object| object.revision() == revision) {
            return Ok(object);
        }
        let object = keys::with_revision(stored, revision)?.shared();
        let state = self.state.read();
        // Later changes were already processed, so no reader waits for this one.
        if state.newest < revision {
            self.committed.offer(revision, Arc::clone(&object));
        }
        Ok(object)
    }

    /// Makes a change visible to watchers.
    pub(super) fn deliver(&self, event: Event) {
        let dropped = {
            let mut cursors = self.cursors.lock();
            let event = Arc::new(event);
            let dropped = {
                let mut log = self.log.write();
                cursors.note(&event, log.end());
                log.push(Arc::clone(&event));
                // The slowest watcher is determined only if changes must be dropped.
                if log.exceeds(HISTORY, HISTORY_BYTES) { trim(&mut log, &mut cursors) } else { Vec::new() }
            };
            cursors.wake(&event);
            dropped
        };
        self.forget(&dropped);
    }

    /// Removes a watcher, and the changes that the log retained only for it.
    pub(super) fn leave(&self, remove: impl FnOnce(&mut Cursors)) {
        let dropped = {
            let mut cursors = self.cursors.lock();
            remove(&mut cursors);
            if !self.log.read().exceeds(HISTORY, HISTORY_BYTES) {
                return;
            }
            trim(&mut self.log.write(), &mut cursors)
        };
        self.forget(&dropped);
    }

    pub(super) fn log(&self) -> RwLockReadGuard<'_, Log> {
        self.log.read()
    }

    /// Compresses objects that the log has dropped but that are still current.
    fn forget(&self, dropped: &[Arc<Event>]) {
        if dropped.is_empty() {
            return;
        }
        let still: Vec<Arc<Object>> = {
            let state = self.state.read();
            let is_state = |object: &&Arc<Object>| {
                state.objects.get(&object.key()).is_some_and(|current| Arc::ptr_eq(current, object))
            };
            dropped.iter().filter_map(|event| event.current.as_ref().filter(is_state).cloned()).collect()
        };
        self.pack(&still);
    }

    /// Packs objects that are rarely read.
    pub(super) fn pack(&self, objects: &[Arc<Object>]) {
        let mut packer = self.packer.lock();
        objects.iter().for_each(|object| packer.pack(object));
    }

    /// The stored value of this object cannot be read. Its watchers are ended, and their next list reports the error.
    pub(super) fn lose(&self, key: ObjectKey, why: Arc<str>) {
        {
            let mut state = self.state.write();
            state.objects.remove(&key);
            state.changes += 1;
            state.unreadable.insert(key, why);
        }
        let mut cursors = self.cursors.lock();
        let position = self.log.read().end();
        cursors.end(position);
    }

    /// The object; `None` if it does not exist.
    ///
    /// # Errors
    /// If its stored value cannot be read: then the object is unknown.
    pub fn get(&self, key: &ObjectKey) -> Result<Option<Arc<Object>>, Status> {
        let state = self.state.read();
        match state.objects.get(key) {
            Some(object) => Ok(Some(Arc::clone(object))),
            None => state.unreadable.check(&self.place, key).map(|()| None),
        }
    }

    /// Fails if the stored value of an object of a namespace (`None`: any) cannot be read.
    pub(crate) fn check_scope(&self, namespace: Option<&str>) -> Result<(), Status> {
        self.state.read().unreadable.check_scope(&self.place, namespace)
    }

    /// Up to `limit` (0: all) objects of a namespace (`None`: all) after a key, in storage order, that `keep` accepts;
    /// how many accepted ones remain; and the newest change among all objects. A list is the state at that revision or
    /// at the one the caller has waited for, the newer of the two.
    ///
    /// # Errors
    /// If the stored value of one of them cannot be read.
    pub fn list(
        &self,
        namespace: Option<&str>,
        after: Option<&ObjectKey>,
        limit: usize,
        keep: impl Fn(&Object) -> bool,
    ) -> Result<(Vec<Arc<Object>>, usize, Revision), Status> {
        let state = self.state.read();
        state.unreadable.check_scope(&self.place, namespace)?;
        // A token of another list: no object of this namespace follows it.
        let foreign = after.is_some_and(|key| namespace.is_some_and(|ns| key.namespace() != Some(ns)));
        if foreign {
            return Ok((Vec::new(), 0, state.newest));
        }
        let (first, end) = bounds(namespace);
        let start = after.map_or(first, |key| Bound::Excluded(key.clone()));
        let in_scope = state.objects.range((start, end));
        let mut kept = in_scope.map(|(_, object)| object).filter(|object| keep(object));
        if limit == 0 {
            return Ok((kept.cloned().collect(), 0, state.newest));
        }
        let page = kept.by_ref().take(limit).cloned().collect();
        Ok((page, kept.count(), state.newest))
    }

    /// Every object of a namespace (`None`: all) in storage order, and the newest change among them. Callers at the same
    /// state share the list.
    ///
    /// # Errors
    /// If the stored value of one of them cannot be read.
    pub fn all(&self, namespace: Option<&str>) -> Result<(Arc<Snapshot>, Revision), Status> {
        let state = self.state.read();
        state.unreadable.check_scope(&self.place, namespace)?;
        Ok((self.snapshot(&state, namespace), state.newest))
    }

    fn snapshot(&self, state: &State, namespace: Option<&str>) -> Arc<Snapshot> {
        let known = |lists: &Lists| {
            let (changes, list) = lists.get(&namespace.map(Box::from))?;
            list.upgrade().filter(|_| *changes == state.changes)
        };
        if let Some(found) = known(&self.lists.lock()) {
            return found;
        }
        let list =
            Arc::new(Snapshot::shared(state.in_scope(namespace).map(|(_, object)| Arc::clone(object)).collect()));
        let mut lists = self.lists.lock();
        // The namespaces of one round of lists.
        if lists.len() >= 64 {
            lists.retain(|_, (_, list)| list.strong_count() > 0);
        }
        lists.insert(namespace.map(Box::from), (state.changes, Arc::downgrade(&list)));
        list
    }

    /// Begins a watch of later changes, preceded by the current state (of the namespace or all).
    ///
    /// # Errors
    /// If the stored value of an object in it cannot be read.
    pub fn subscribe(self: &Arc<Self>, selection: Selection<'_>, now: Revision) -> Result<Subscription, Status> {
        let mut cursors = self.cursors.lock();
        let state = self.state.read();
        state.unreadable.check_scope(&self.place, selection.namespace)?;
        let end = self.log.read().end();
        let cursor = cursors.add(selection, end, end);
        Ok(Subscription {
            initial: self.snapshot(&state, selection.namespace),
            revision: state.newest.max(now),
            events: Events::new(Arc::clone(self), cursor),
        })
    }

    /// Begins a watch of changes after `from`. If earlier changes are no longer in the log, the subscription begins at
    /// the current revision, which it reports; the changes in between are read from the store.
    pub fn subscribe_after(self: &Arc<Self>, selection: Selection<'_>, from: Revision, now: Revision) -> Subscription {
        let mut cursors = self.cursors.lock();
        let newest = self.state.read().newest;
        let (at, end, revision) = {
            let log = self.log.read();
            let end = log.end();
            if from < log.from { (end, end, newest.max(now)) } else { (log.after(from), end, from) }
        };
        let events = Events::new(Arc::clone(self), cursors.add(selection, at, end));
        Subscription { initial: Arc::default(), revision, events }
    }

    /// Ends all watches of a resource without objects; false if it has some. Another cache takes the place of this one if
    /// the resource is served again, so watches that still begin here end at once.
    pub(super) fn retire(&self) -> bool {
        let mut cursors = self.cursors.lock();
        let state = self.state.read();
        let retires = state.objects.is_empty() && state.unreadable.is_empty();
        if retires {
            cursors.retire(self.log.read().end());
        }
        retires
    }

    /// The number of objects.
    pub(crate) fn len(&self) -> usize {
        self.state.read().objects.len()
    }

    /// Every readable object, for what may miss some.
    pub(super) fn readable(&self) -> Vec<Arc<Object>> {
        self.state.read().objects.values().cloned().collect()
    }

    /// Every object with the revision of its last write.
    pub(super) fn revisions(&self) -> Vec<(ObjectKey, Revision)> {
        let state = self.state.read();
        state.objects.iter().map(|(key, object)| (key.clone(), object.revision())).collect()
    }
}

impl State {
    fn in_scope(&self, namespace: Option<&str>) -> impl Iterator<Item = (&ObjectKey, &Arc<Object>)> {
        self.objects.range(bounds(namespace))
    }
}

/// Drops the changes that no watcher needs.
fn trim(log: &mut Log, cursors: &mut Cursors) -> Vec<Arc<Event>> {
    let needed = cursors.needed(log.first(), log.end());
    log.trim(needed)
}

/// The first and the last key of a namespace (`None`: all). Names of namespaces have no NUL, so the keys of another
/// namespace are before or after. The bounds are always ordered.
fn bounds(namespace: Option<&str>) -> (Bound<ObjectKey>, Bound<ObjectKey>) {
    let edge = |ns: String| ObjectKey::namespaced(ns, "");
    match namespace {
        None => (Bound::Unbounded, Bound::Unbounded),
        Some(ns) => (Bound::Included(edge(ns.to_owned())), Bound::Excluded(edge(format!("{ns}\0")))),
    }
}

#[cfg(test)]
mod tests;
