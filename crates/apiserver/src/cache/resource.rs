//! The cached objects and recent changes of one resource.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use apimachinery::{Object, ObjectKey};
use parking_lot::RwLock;
use storage::{Change, Revision};
use tokio::sync::mpsc;

use crate::keys;

/// Changes remembered for watches that start in the past: 4,096 pointers pairs are 100 KiB plus the objects they keep
/// alive, and cover 8 s at 500 writes/s; an older start gets 410 Expired and lists again.
const HISTORY: usize = 4096;
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

/// A watcher's end of the line.
pub struct Subscription {
    /// What existed when it began, if it asked for that.
    pub initial: Vec<Arc<Object>>,
    /// The state the subscription starts from.
    pub revision: Revision,
    pub events: mpsc::Receiver<Arc<Event>>,
}

pub struct ResourceCache(RwLock<State>);

struct State {
    objects: BTreeMap<ObjectKey, Arc<Object>>,
    history: VecDeque<Arc<Event>>,
    /// The newest change in `objects`; it may be ahead of the server's progress and of `history` for a moment.
    newest: Revision,
    /// Every change after this revision is in `history`.
    history_from: Revision,
    watchers: Vec<mpsc::Sender<Arc<Event>>>,
}

impl ResourceCache {
    pub(super) fn new(revision: Revision) -> Self {
        Self(RwLock::new(State {
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            newest: revision,
            history_from: revision,
            watchers: Vec::new(),
        }))
    }

    pub(super) fn forget_history(&self, revision: Revision) {
        let mut state = self.0.write();
        state.history.clear();
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
        let mut state = self.0.write();
        state.newest = state.newest.max(revision);
        let previous = match &current {
            Some(object) => state.objects.insert(key, Arc::clone(object)),
            None => state.objects.remove(&key),
        };
        Ok(Event { revision, current, previous })
    }

    pub(super) fn deliver(&self, event: Event) {
        let event = Arc::new(event);
        let mut state = self.0.write();
        if state.history.len() == HISTORY
            && let Some(oldest) = state.history.pop_front()
        {
            state.history_from = oldest.revision;
        }
        state.history.push_back(Arc::clone(&event));
        // A full or closed channel ends the subscription; the watcher sees the end of its stream.
        state.watchers.retain(|watcher| watcher.try_send(Arc::clone(&event)).is_ok());
    }

    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.0.read().objects.get(key).cloned()
    }

    /// Up to `limit` (0: all) objects of a namespace (`None`: all) after a key, in storage order, that `keep` accepts;
    /// how many accepted ones remain; and the newest change among all objects. A list is the state at that revision or at
    /// the one the caller has waited for, whichever is newer.
    pub fn list(
        &self,
        namespace: Option<&str>,
        after: Option<&ObjectKey>,
        limit: usize,
        keep: impl Fn(&Object) -> bool,
    ) -> (Vec<Arc<Object>>, usize, Revision) {
        let state = self.0.read();
        let start = match (after, namespace) {
            (Some(key), _) => Bound::Excluded(key.clone()),
            (None, Some(ns)) => Bound::Included(ObjectKey::namespaced(ns, "")),
            (None, None) => Bound::Unbounded,
        };
        let in_scope = state
            .objects
            .range((start, Bound::Unbounded))
            .take_while(|(key, _)| namespace.is_none_or(|ns| key.namespace() == Some(ns)));
        let mut kept = in_scope.map(|(_, object)| object).filter(|object| keep(object));
        if limit == 0 {
            return (kept.cloned().collect(), 0, state.newest);
        }
        let page = kept.by_ref().take(limit).cloned().collect();
        (page, kept.count(), state.newest)
    }

    /// Begins a watch of what comes after the present state, with that state (of one namespace or all) first.
    pub fn subscribe(&self, namespace: Option<&str>, now: Revision) -> Subscription {
        let (sender, events) = mpsc::channel(LAG);
        let mut state = self.0.write();
        state.watchers.push(sender);
        let revision = state.newest.max(now);
        Subscription {
            initial: state.in_scope(namespace).map(|(_, object)| Arc::clone(object)).collect(),
            revision,
            events,
        }
    }

    /// Begins a watch of what comes after `from`. Without the changes since then the subscription begins at the
    /// present, as its revision says: what lies between is to be had from the store.
    pub fn subscribe_after(&self, from: Revision, now: Revision) -> Subscription {
        let (sender, events) = mpsc::channel(LAG);
        let mut state = self.0.write();
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

    /// Every object with the revision of its last write.
    pub(super) fn revisions(&self) -> Vec<(ObjectKey, Revision)> {
        let state = self.0.read();
        let revision = |object: &Object| object.resource_version().parse().unwrap_or(0);
        state.objects.iter().map(|(key, object)| (key.clone(), revision(object))).collect()
    }
}

impl State {
    fn in_scope<'s>(&'s self, namespace: Option<&'s str>) -> impl Iterator<Item = (&'s ObjectKey, &'s Arc<Object>)> {
        let start = namespace.map_or(Bound::Unbounded, |ns| Bound::Included(ObjectKey::namespaced(ns, "")));
        self.objects
            .range((start, Bound::Unbounded))
            .take_while(move |(key, _)| namespace.is_none_or(|ns| key.namespace() == Some(ns)))
    }
}
