//! The objects whose documents are out of date, by source.
//!
//! Only the fact is recorded, not the state: an object that changes often takes one entry, and its newest state is sent.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use apimachinery::{Object, ObjectKey};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::document::MAX_ID;
use super::source::{Place, Source};

/// Entries of one service: the objects of ten members with 10,000 pods each, some 20 MiB. Beyond that, the source of
/// the next change is compared as a whole later.
const MOST: usize = 100_000;
/// Entries of one source in a batch, while others wait.
const SHARE: usize = 200;

/// An object whose document is out of date.
#[derive(Clone)]
pub(super) struct Mark {
    pub source: Arc<Source>,
    pub uid: Box<str>,
    pub key: ObjectKey,
}

/// The pending changes of one service.
#[derive(Default)]
pub(super) struct Pending {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    sources: HashMap<String, Vec<Entry>>,
    /// Those with changes, the longest waiting first.
    turns: VecDeque<Place>,
    count: usize,
}

struct Entry {
    source: Arc<Source>,
    changes: HashMap<Box<str>, ObjectKey>,
    /// Everything may be out of date: single changes need no entry.
    is_unknown: bool,
}

impl State {
    fn entry(&mut self, place: &Place) -> Option<&mut Entry> {
        self.sources.get_mut(&place.cluster)?.iter_mut().find(|it| it.source.place.resource == place.resource)
    }

    fn entry_of(&mut self, source: &Arc<Source>) -> Option<&mut Entry> {
        self.entry(&source.place).filter(|entry| Arc::ptr_eq(&entry.source, source))
    }

    fn forget_changes(&mut self, source: &Arc<Source>) {
        let dropped = self.entry_of(source).map_or(0, |entry| std::mem::take(&mut entry.changes).len());
        self.count -= dropped;
    }
}

impl Pending {
    /// Adds a source, all of which is to be compared, instead of another one of the same place.
    pub fn add(&self, source: &Arc<Source>) {
        self.remove(&source.place);
        let entry = Entry { source: source.clone(), changes: HashMap::new(), is_unknown: true };
        self.state.lock().sources.entry(source.place.cluster.clone()).or_default().push(entry);
        self.wake();
    }

    pub fn remove(&self, place: &Place) {
        let mut state = self.state.lock();
        let Some(known) = state.sources.get_mut(&place.cluster) else { return };
        let Some(at) = known.iter().position(|it| it.source.place.resource == place.resource) else { return };
        let dropped = known.swap_remove(at).changes.len();
        if known.is_empty() {
            state.sources.remove(&place.cluster);
        }
        state.count -= dropped;
    }

    /// The object has changed or was deleted.
    pub fn mark(&self, source: &Arc<Source>, object: &Object) {
        if object.uid().is_empty() || object.uid().len() > MAX_ID {
            return;
        }
        let mut state = self.state.lock();
        let is_full = state.count >= MOST;
        let Some(entry) = state.entry_of(source).filter(|entry| !entry.is_unknown) else { return };
        if entry.changes.contains_key(object.uid()) {
            return;
        }
        if is_full {
            entry.is_unknown = true;
            state.forget_changes(source);
        } else {
            let is_first = entry.changes.is_empty();
            entry.changes.insert(object.uid().into(), object.key());
            state.count += 1;
            if is_first {
                state.turns.push_back(source.place.clone());
            }
        }
        drop(state);
        self.wake();
    }

    /// All documents of the source are to be compared again.
    pub fn unknown(&self, source: &Arc<Source>) {
        let mut state = self.state.lock();
        state.forget_changes(source);
        if let Some(entry) = state.entry_of(source) {
            entry.is_unknown = true;
        }
        drop(state);
        self.wake();
    }

    /// At most so many changes, of all sources in turn.
    pub fn take(&self, most: usize) -> Vec<Mark> {
        let mut state = self.state.lock();
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some(place) = state.turns.pop_front()
        {
            let Some(entry) = state.entry(&place) else { continue };
            let share = SHARE.min(most - taken.len());
            let uids: Vec<Box<str>> = entry.changes.keys().take(share).cloned().collect();
            let source = entry.source.clone();
            let marks = uids.into_iter().filter_map(|uid| entry.changes.remove_entry(&uid));
            let before = taken.len();
            taken.extend(marks.map(|(uid, key)| Mark { source: source.clone(), uid, key }));
            let has_more = !entry.changes.is_empty();
            state.count -= taken.len() - before;
            if has_more {
                state.turns.push_back(place);
            }
        }
        taken
    }

    /// A source that is to be compared and whose cache is complete. From now on, its changes are recorded.
    pub fn take_unknown(&self) -> Option<Arc<Source>> {
        let mut state = self.state.lock();
        let mut entries = state.sources.values_mut().flatten();
        let entry = entries.find(|entry| entry.is_unknown && entry.source.known.is_complete())?;
        entry.is_unknown = false;
        Some(entry.source.clone())
    }

    /// Whether [`Pending::take_unknown`] returns one.
    pub fn has_comparable(&self) -> bool {
        let state = self.state.lock();
        state.sources.values().flatten().any(|entry| entry.is_unknown && entry.source.known.is_complete())
    }

    pub fn has_unknown(&self) -> bool {
        self.state.lock().sources.values().flatten().any(|entry| entry.is_unknown)
    }

    /// Whether the source still belongs to the service.
    pub fn has(&self, source: &Arc<Source>) -> bool {
        self.state.lock().entry_of(source).is_some()
    }

    pub fn len(&self) -> usize {
        self.state.lock().count
    }

    pub fn wake(&self) {
        self.changed.notify_one();
    }

    /// Returns after the next change; at once if there was one since the last call.
    pub fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Member, object, source};
    use super::*;

    fn known(pending: &Pending, cluster: &str, member: &Member) -> Arc<Source> {
        let source = Arc::new(source(cluster, member));
        pending.add(&source);
        assert!(pending.take_unknown().is_some_and(|it| Arc::ptr_eq(&it, &source)));
        source
    }

    #[test]
    fn an_object_takes_one_entry() {
        let (pending, member) = (Pending::default(), Member::default());
        let source = known(&pending, "m1", &member);
        (1..=5).for_each(|version| pending.mark(&source, &object("a", version)));
        pending.mark(&source, &object("b", 1));
        pending.mark(&source, &object("", 1));
        assert_eq!((pending.len(), pending.take(10).len(), pending.len()), (2, 2, 0));
    }

    #[test]
    fn sources_take_turns() {
        let (pending, member) = (Pending::default(), Member::default());
        let (busy, calm) = (known(&pending, "m1", &member), known(&pending, "m2", &member));
        (0..1000).for_each(|n| pending.mark(&busy, &object(&format!("o{n}"), 1)));
        pending.mark(&calm, &object("x", 1));
        let first = pending.take(SHARE + 1);
        assert_eq!(first.iter().filter(|mark| mark.source.place.cluster == "m2").count(), 1);
        let mut rest = 0;
        while let taken = pending.take(77)
            && !taken.is_empty()
        {
            rest += taken.len();
        }
        assert_eq!((first.len() + rest, pending.len()), (1001, 0));
    }

    #[test]
    fn a_full_queue_keeps_no_changes_of_the_source() {
        let (pending, member) = (Pending::default(), Member::default());
        let (first, second) = (known(&pending, "m1", &member), known(&pending, "m2", &member));
        (0..MOST).for_each(|n| pending.mark(&first, &object(&format!("o{n}"), 1)));
        assert!(!pending.has_unknown());
        pending.mark(&second, &object("x", 1));
        assert_eq!((pending.len(), pending.has_unknown()), (MOST, true));
        pending.mark(&first, &object("y", 1));
        assert_eq!(pending.len(), 0);
    }

    #[test]
    fn an_incomplete_cache_is_not_compared_and_a_removed_source_is_forgotten() {
        let (pending, member) = (Pending::default(), Member::default());
        member.lose();
        let source = Arc::new(source("m1", &member));
        pending.add(&source);
        pending.mark(&source, &object("a", 1));
        assert!(pending.take_unknown().is_none() && pending.has_unknown() && pending.len() == 0);
        member.find();
        assert!(pending.take_unknown().is_some());
        pending.mark(&source, &object("a", 1));
        pending.remove(&source.place);
        assert!(pending.len() == 0 && pending.take(1).is_empty() && !pending.has(&source));
        pending.mark(&source, &object("a", 1));
        assert_eq!(pending.len(), 0);
    }
}
