//! The cached objects and recent changes of one resource.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use apimachinery::object::Packer;
use apimachinery::{Object, ObjectKey, Status};
use parking_lot::{Mutex, RwLock};
use storage::{Change, Revision};
use tokio::sync::mpsc;

use super::unreadable::Unreadable;
use crate::keys;

/// Changes remembered for watches that start in the past: 4,096 pairs of pointers are 100 KiB, and cover 8 s at 500
/// writes/s. What an older start missed is read from the store.
const HISTORY: usize = 4096;
/// Bytes of objects that those changes may keep alive: 500 small objects. What history forgets is packed.
const HISTORY_BYTES: usize = 1 << 20;
/// Changes a watcher may lag behind: 10 s at 1,600 writes/s; a slower watcher is cut off and starts again.
pub(super) const LAG: usize = 16_384;

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Event {
    pub revision: Revision,
    /// `None` when the object was deleted.
    pub current: Option<Arc<Object>>,
    pub previous: Option<Arc<Object>>,
}

impl Event {
    /// What remembering it costs: the state before it is the business of the event that made that.
    fn weight(&self) -> usize {
        self.current.as_ref().map_or(0, |object| object.size())
    }
}

/// A watcher's end of the line.
pub struct Subscription {
    /// What existed when it began, if it asked for that.
    pub initial: Vec<Arc<Object>>,
    /// The state the subscription starts from.
    pub revision: Revision,
    pub events: mpsc::Receiver<Arc<Event>>,
}

pub struct ResourceCache {
    /// `GROUP/PLURAL`.
    place: Arc<str>,
    state: RwLock<State>,
    packer: Mutex<Packer>,
}

struct State {
    objects: BTreeMap<ObjectKey, Arc<Object>>,
    unreadable: Unreadable,
    history: VecDeque<Arc<Event>>,
    /// The weights of all in `history`.
    history_bytes: usize,
    /// The newest change in `objects`; it may be ahead of the server's progress and of `history` for a moment.
    newest: Revision,
    /// Every change after this revision is in `history`.
    history_from: Revision,
    watchers: Vec<mpsc::Sender<Arc<Event>>>,
}

impl ResourceCache {
    pub(super) fn new(place: Arc<str>, revision: Revision) -> Self {
        let state = State {
            objects: BTreeMap::new(),
            unreadable: Unreadable::default(),
            history: VecDeque::new(),
            history_bytes: 0,
            newest: revision,
            history_from: revision,
            watchers: Vec::new(),
        };
        Self { place, state: RwLock::new(state), packer: Mutex::default() }
    }

    /// Takes in what there is when the server starts.
    pub(super) fn load(&self, objects: impl Iterator<Item = (ObjectKey, Arc<Object>)>, revision: Revision) {
        let mut state = self.state.write();
        state.objects.extend(objects);
        state.newest = revision;
        state.history_from = revision;
    }

    pub(super) fn absorb(
        &self,
        key: ObjectKey,
        revision: Revision,
        change: &Change,
    ) -> Result<Event, serde_json::Error> {
        let current = match change {
            Change::Put { current, .. } => Some(keys::with_revision(&current.value, revision)?.shared()),
            Change::Delete { .. } => None,
        };
        let mut state = self.state.write();
        state.unreadable.remove(&key);
        state.newest = state.newest.max(revision);
        let previous = match &current {
            Some(object) => state.objects.insert(key, Arc::clone(object)),
            None => state.objects.remove(&key),
        };
        Ok(Event { revision, current, previous })
    }

    pub(super) fn deliver(&self, event: Event) {
        let event = Arc::new(event);
        let forgotten = {
            let mut state = self.state.write();
            // A full or closed channel ends the subscription; the watcher sees the end of its stream.
            state.watchers.retain(|watcher| watcher.try_send(Arc::clone(&event)).is_ok());
            state.remember(&event)
        };
        self.pack(&forgotten);
    }

    /// Has objects take less room that are seldom looked at.
    pub(super) fn pack(&self, objects: &[Arc<Object>]) {
        let mut packer = self.packer.lock();
        objects.iter().for_each(|object| packer.pack(object));
    }

    /// The stored value of this object cannot be read. Watchers begin again, and learn that they cannot.
    pub(super) fn lose(&self, key: ObjectKey, why: Arc<str>) {
        let mut state = self.state.write();
        state.objects.remove(&key);
        state.unreadable.insert(key, why);
        state.watchers.clear();
    }

    /// The object; `None` if there is none.
    ///
    /// # Errors
    /// If its stored value cannot be read: then nothing is known of it.
    pub fn get(&self, key: &ObjectKey) -> Result<Option<Arc<Object>>, Status> {
        let state = self.state.read();
        match state.objects.get(key) {
            Some(object) => Ok(Some(Arc::clone(object))),
            None => state.unreadable.check(&self.place, key).map(|()| None),
        }
    }

    /// Up to `limit` (0: all) objects of a namespace (`None`: all) after a key, in storage order, that `keep` accepts;
    /// how many accepted ones remain; and the newest change among all objects. A list is the state at that revision or at
    /// the one the caller has waited for, whichever is newer.
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
        // A token from elsewhere: nothing of this namespace comes after it.
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

    /// Begins a watch of what comes after the present state, with that state (of one namespace or all) first.
    ///
    /// # Errors
    /// If the stored value of an object in it cannot be read.
    pub fn subscribe(&self, namespace: Option<&str>, now: Revision) -> Result<Subscription, Status> {
        let (sender, events) = mpsc::channel(LAG);
        let mut state = self.state.write();
        state.unreadable.check_scope(&self.place, namespace)?;
        state.watchers.push(sender);
        let revision = state.newest.max(now);
        Ok(Subscription {
            initial: state.in_scope(namespace).map(|(_, object)| Arc::clone(object)).collect(),
            revision,
            events,
        })
    }

    /// Begins a watch of what comes after `from`. Without the changes since then the subscription begins at the
    /// present, as its revision says: what lies between is to be had from the store.
    pub fn subscribe_after(&self, from: Revision, now: Revision) -> Subscription {
        let (sender, events) = mpsc::channel(LAG);
        let mut state = self.state.write();
        if from < state.history_from {
            state.watchers.push(sender);
            return Subscription { initial: Vec::new(), revision: state.newest.max(now), events };
        }
        for event in state.history.iter().filter(|event| event.revision > from) {
            // History is shorter than the channel.
            let _ = sender.try_send(Arc::clone(event));
        }
        state.watchers.push(sender);
        Subscription { initial: Vec::new(), revision: from, events }
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
    /// Adds to the history; answers what it forgets for that and is still the state of an object.
    fn remember(&mut self, event: &Arc<Event>) -> Vec<Arc<Object>> {
        let mut forgotten = Vec::new();
        self.history_bytes += event.weight();
        self.history.push_back(Arc::clone(event));
        while self.history.len() > HISTORY || self.history_bytes > HISTORY_BYTES {
            let Some(oldest) = self.history.pop_front() else { break };
            self.history_bytes -= oldest.weight();
            self.history_from = oldest.revision;
            let is_state = |object: &&Arc<Object>| {
                self.objects.get(&object.key()).is_some_and(|current| Arc::ptr_eq(current, object))
            };
            forgotten.extend(oldest.current.as_ref().filter(is_state).cloned());
        }
        forgotten
    }

    fn in_scope(&self, namespace: Option<&str>) -> impl Iterator<Item = (&ObjectKey, &Arc<Object>)> {
        self.objects.range(bounds(namespace))
    }
}

/// Where the keys of a namespace (`None`: all) begin and end. Names of namespaces have no NUL, so that what is in another
/// one comes before or after. The bounds are never in the wrong order.
fn bounds(namespace: Option<&str>) -> (Bound<ObjectKey>, Bound<ObjectKey>) {
    let edge = |ns: String| ObjectKey::namespaced(ns, "");
    match namespace {
        None => (Bound::Unbounded, Bound::Unbounded),
        Some(ns) => (Bound::Included(edge(ns.to_owned())), Bound::Excluded(edge(format!("{ns}\0")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_stay_in_their_namespace_whatever_the_token_says() {
        let cache = ResourceCache::new("core/xs".into(), 1);
        let object = || Object::parse("{}").expect("an object").shared();
        let keys = ["a", "a-b", "b", "c"].map(|ns| ["x", "y", "z"].map(|name| ObjectKey::namespaced(ns, name)));
        cache.load(keys.iter().flatten().map(|key| (key.clone(), object())), 1);
        let page = |ns: Option<&str>, after: Option<&ObjectKey>| {
            let (items, rest, _) = cache.list(ns, after, 2, |_| true).expect("all can be read");
            (items.len(), rest)
        };
        assert_eq!(page(None, None), (2, 10));
        assert_eq!(page(Some("a"), None), (2, 1));
        assert_eq!(page(Some("a"), Some(&keys[0][1])), (1, 0));
        assert_eq!(page(Some("b"), Some(&keys[2][2])), (0, 0));
        assert_eq!(page(None, Some(&keys[1][2])), (2, 4));
        for foreign in [&keys[1][0], &keys[3][2], &ObjectKey::cluster("x"), &ObjectKey::namespaced("a\0", "")] {
            assert_eq!(page(Some("a"), Some(foreign)), (0, 0), "{foreign}");
        }
        assert_eq!(cache.subscribe(Some("a"), 1).expect("all can be read").initial.len(), 3);
        assert_eq!(cache.subscribe(None, 1).expect("all can be read").initial.len(), 12);
    }

    fn change(cache: &ResourceCache, revision: Revision, size: usize) {
        let value =
            format!(r#"{{"apiVersion":"v1","kind":"X","metadata":{{"name":"a"}},"data":"{}"}}"#, "x".repeat(size));
        let current = storage::KeyValue {
            key: "/registry/core/xs/a".into(),
            value: value.into(),
            create_revision: 1,
            mod_revision: revision,
            lease: None,
        };
        let change = Change::Put { current, previous: None };
        let event = cache.absorb(ObjectKey::cluster("a"), revision, &change).expect("an object");
        cache.deliver(event);
    }

    #[test]
    fn a_watcher_that_reads_nothing_is_cut_off_and_holds_up_nobody() {
        let cache = ResourceCache::new("core/xs".into(), 1);
        let [mut slow, mut quick] = [(); 2].map(|()| cache.subscribe(None, 1).expect("all can be read"));
        for revision in 2..LAG as u64 + 100 {
            change(&cache, revision, 1);
            assert_eq!(quick.events.try_recv().map(|event| event.revision), Ok(revision));
        }
        let mut seen = 0;
        while slow.events.try_recv().is_ok() {
            seen += 1;
        }
        assert_eq!(seen, LAG, "no more than the bound waits for a watcher");
        assert_eq!(slow.events.try_recv().err(), Some(mpsc::error::TryRecvError::Disconnected));
        assert_eq!(quick.events.try_recv().err(), Some(mpsc::error::TryRecvError::Empty));
    }

    #[test]
    fn history_is_bounded_in_number_and_in_bytes() {
        for (size, at_most) in [(1, HISTORY), (HISTORY_BYTES / 10, 10)] {
            let cache = ResourceCache::new("core/xs".into(), 1);
            let last = at_most as u64 + 100;
            (2..=last).for_each(|revision| change(&cache, revision, size));
            let state = cache.state.read();
            assert!(state.objects.values().all(|object| object.size() > size), "what is kept can be read");
            assert!(state.history.len() <= at_most && state.history.len() + 1 >= at_most, "{}", state.history.len());
            assert_eq!(state.history_bytes, state.history.iter().map(|event| event.weight()).sum::<usize>());
            // Without a gap: every change after this revision is there.
            assert_eq!(state.history.front().map(|event| event.revision), Some(state.history_from + 1));
        }
    }
}
