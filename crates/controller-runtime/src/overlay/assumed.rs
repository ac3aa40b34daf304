//! The core of [`super::Overlay`]: which acknowledged writes a cache does not have yet. Pure.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use apimachinery::{Object, ObjectKey};

use super::Origin;
use crate::informer::{Event, Progress};

/// 2,000 acknowledged writes a second, on a watch that stalls for 30 s. Beyond that the oldest are dropped: their
/// writer then reads an older state, and the version in its next write is refused.
const MOST: usize = 60_000;

#[derive(Debug, Default)]
pub(super) struct Assumed {
    entries: HashMap<ObjectKey, Entry>,
    /// The written objects of all entries.
    by_revision: BTreeSet<(u64, ObjectKey)>,
    reached: Progress,
}

/// The state of one object. An empty entry is removed.
#[derive(Debug, Default)]
struct Entry {
    /// As the server acknowledged it.
    written: Option<Arc<Object>>,
    in_flight: u32,
    /// The newest revision that the cache reported during a write.
    seen: u64,
    /// The last write failed; the server may have executed it.
    unsure: bool,
}

impl Entry {
    fn is_empty(&self) -> bool {
        self.written.is_none() && self.in_flight == 0 && !self.unsure
    }
}

/// How a write ended.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Acknowledged(Arc<Object>),
    /// The server refused it, and the cache may lag behind the reason.
    Refused,
    /// The object does not exist, or already exists for a create.
    Void,
    /// It was not executed, and is sent again in another way.
    Withdrawn,
}

impl Assumed {
    /// Drops entries that the cache has caught up with. After a restore of the server from a backup, its former history
    /// is ignored.
    pub(super) fn advance(&mut self, progress: Progress) {
        if progress == self.reached {
            return;
        }
        let other_history = progress.history != self.reached.history;
        self.reached = progress;
        while let Some((revision, key)) = self.by_revision.first().cloned() {
            if revision > progress.revision && !other_history {
                return;
            }
            self.drop_written(&key);
            self.prune(&key);
        }
    }

    /// The written object, unless the cache has it.
    pub(super) fn written(&self, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.entries.get(key)?.written.as_ref()
    }

    /// All written objects that the cache does not have.
    pub(super) fn all_written(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.by_revision.iter().filter_map(|(_, key)| self.written(key))
    }

    pub(super) fn is_unsure(&self, key: &ObjectKey) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.unsure)
    }

    /// The state of the server was read after a write failed.
    pub(super) fn confirm(&mut self, key: &ObjectKey) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.unsure = false;
        }
        self.prune(key);
    }

    pub(super) fn begin(&mut self, key: &ObjectKey) {
        let entry = self.entries.entry(key.clone()).or_default();
        if entry.in_flight == 0 {
            entry.seen = 0;
        }
        entry.in_flight += 1;
    }

    /// `cached`: the revision of the object in the cache, 0 without one. Returns whether the cache reported a newer
    /// change during the write.
    pub(super) fn end(&mut self, key: &ObjectKey, outcome: Outcome, cached: u64) -> bool {
        let reached = self.reached.revision;
        let Some(entry) = self.entries.get_mut(key) else { return false };
        entry.in_flight = entry.in_flight.saturating_sub(1);
        let mut overwritten = false;
        match outcome {
            Outcome::Acknowledged(object) => {
                let revision = object.revision();
                entry.unsure = false;
                overwritten = entry.seen > revision;
                let known = entry.written.as_ref().map_or(0, |known| known.revision());
                if revision > reached.max(cached).max(known) {
                    self.drop_written(key);
                    self.insert(key, object);
                }
            }
            Outcome::Refused => entry.unsure = true,
            Outcome::Withdrawn => {}
            Outcome::Void => {
                entry.unsure = false;
                self.drop_written(key);
            }
        }
        self.prune(key);
        overwritten
    }

    /// Records an event of the cache. `counts`: whether the change is relevant to this writer if another one made it.
    pub(super) fn observe(&mut self, event: &Event, counts: bool) -> Origin {
        let (seen, is_gone) = (event.object(), matches!(event, Event::Deleted(_)));
        let (key, revision) = (seen.key(), seen.revision());
        let Some(entry) = self.entries.get_mut(&key) else { return Origin::Other };
        let written = entry.written.as_ref().map(|written| (written.revision(), written.uid() == seen.uid()));
        if entry.in_flight > 0 && counts {
            entry.seen = entry.seen.max(revision);
        }
        let origin = match written {
            _ if is_gone => Origin::Other,
            _ if entry.in_flight > 0 => Origin::Pending,
            Some((own_revision, true)) if revision == own_revision => Origin::Own,
            Some((own_revision, _)) if revision < own_revision => Origin::Older,
            _ => Origin::Other,
        };
        // The last state before a deletion may be older than the write.
        if written.is_some_and(|(own_revision, same)| own_revision <= revision || (is_gone && same)) {
            self.drop_written(&key);
        }
        if is_gone && let Some(entry) = self.entries.get_mut(&key) {
            entry.unsure = false;
        }
        self.prune(&key);
        origin
    }

    /// How many objects are known here and not in the cache.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    fn insert(&mut self, key: &ObjectKey, object: Arc<Object>) {
        self.by_revision.insert((object.revision(), key.clone()));
        self.entries.entry(key.clone()).or_default().written = Some(object);
        if self.by_revision.len() > MOST
            && let Some((_, oldest)) = self.by_revision.first().cloned()
        {
            self.drop_written(&oldest);
            self.prune(&oldest);
        }
    }

    fn drop_written(&mut self, key: &ObjectKey) {
        if let Some(written) = self.entries.get_mut(key).and_then(|entry| entry.written.take()) {
            self.by_revision.remove(&(written.revision(), key.clone()));
        }
    }

    fn prune(&mut self, key: &ObjectKey) {
        if self.entries.get(key).is_some_and(Entry::is_empty) {
            self.entries.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(uid: &str, revision: u64) -> Arc<Object> {
        let text = format!(r#"{{"metadata":{{"name":"a","uid":"{uid}","resourceVersion":"{revision}"}}}}"#);
        Arc::new(Object::parse(text).expect("an object"))
    }

    fn key() -> ObjectKey {
        ObjectKey::cluster("a")
    }

    /// A write that the server acknowledged as revision 5 of object `u`.
    fn written() -> Assumed {
        let mut assumed = Assumed::default();
        assumed.begin(&key());
        assert!(!assumed.end(&key(), Outcome::Acknowledged(object("u", 5)), 3));
        assumed
    }

    fn updated(uid: &str, revision: u64) -> Event {
        Event::Updated { old: object(uid, 1), new: object(uid, revision) }
    }

    #[test]
    fn an_entry_lasts_until_the_cache_has_it() {
        let added = |object| Event::Added { object, initial: false };
        for (event, origin, is_known) in [
            (added(object("u", 4)), Origin::Older, true),
            (added(object("u", 5)), Origin::Own, false),
            (updated("u", 4), Origin::Older, true),
            (updated("u", 6), Origin::Other, false),
            (added(object("v", 6)), Origin::Other, false),
            (Event::Deleted(object("u", 4)), Origin::Other, false),
            (Event::Deleted(object("u", 9)), Origin::Other, false),
            (Event::Deleted(object("former", 4)), Origin::Other, true),
        ] {
            let mut assumed = written();
            assert_eq!(assumed.observe(&event, true), origin, "{event:?}");
            assert_eq!(
                (assumed.len(), assumed.written(&key()).is_some()),
                (usize::from(is_known), is_known),
                "{event:?}"
            );
        }
    }

    #[test]
    fn an_entry_lasts_no_longer_than_the_progress_of_the_cache() {
        for (history, revision, is_known) in [(0, 4, true), (0, 5, false), (0, 9, false), (1, 2, false)] {
            let mut assumed = written();
            assumed.advance(Progress { history, revision });
            assert_eq!(assumed.len(), usize::from(is_known), "{history} {revision}");
        }
        // The cache was faster than the answer.
        for (progress, cached) in [(5, 0), (7, 0), (0, 5), (0, 6)] {
            let mut assumed = Assumed::default();
            assumed.advance(Progress { history: 0, revision: progress });
            assumed.begin(&key());
            assumed.end(&key(), Outcome::Acknowledged(object("u", 5)), cached);
            assert_eq!(assumed.len(), 0, "{progress} {cached}");
        }
    }

    #[test]
    fn events_during_a_write() {
        for (events, overwritten) in [(&[][..], false), (&[4], false), (&[5], false), (&[4, 5, 6], true), (&[7], true)]
        {
            let mut assumed = Assumed::default();
            assumed.begin(&key());
            for revision in events {
                assert_eq!(assumed.observe(&updated("u", *revision), true), Origin::Pending);
            }
            let cached = events.last().copied().unwrap_or(3);
            assert_eq!(assumed.end(&key(), Outcome::Acknowledged(object("u", 5)), cached), overwritten, "{events:?}");
        }
        // A change that does not count is no overwriting.
        let mut assumed = Assumed::default();
        assumed.begin(&key());
        assumed.observe(&updated("u", 6), false);
        assert!(!assumed.end(&key(), Outcome::Acknowledged(object("u", 5)), 6));
    }

    #[test]
    fn failed_writes() {
        for (outcome, unsure, keeps) in [(Outcome::Refused, true, true), (Outcome::Void, false, false)] {
            let mut assumed = written();
            assumed.begin(&key());
            assumed.end(&key(), outcome.clone(), 3);
            assert_eq!(assumed.is_unsure(&key()), unsure, "{outcome:?}");
            assert_eq!(assumed.written(&key()).is_some(), keeps, "{outcome:?}");
        }
        let mut assumed = Assumed::default();
        assumed.begin(&key());
        assumed.end(&key(), Outcome::Refused, 0);
        assert_eq!(assumed.observe(&updated("u", 4), true), Origin::Other, "a failed write explains no change");
        assumed.confirm(&key());
        assert_eq!((assumed.is_unsure(&key()), assumed.len()), (false, 0));
        assumed.begin(&key());
        assumed.end(&key(), Outcome::Refused, 0);
        assumed.observe(&Event::Deleted(object("u", 6)), true);
        assert_eq!(assumed.len(), 0, "a deleted object needs no further attempt");
    }

    #[test]
    fn the_number_of_entries_is_bounded() {
        let mut assumed = Assumed::default();
        let named = |n: u64| {
            let text = format!(r#"{{"metadata":{{"name":"o{n}","uid":"{n}","resourceVersion":"{n}"}}}}"#);
            Arc::new(Object::parse(text).expect("an object"))
        };
        let most = u64::try_from(MOST).expect("a number");
        for n in 1..=most + 10 {
            let object = named(n);
            assumed.begin(&object.key());
            assumed.end(&object.key(), Outcome::Acknowledged(object.clone()), 0);
        }
        assert_eq!(assumed.len(), MOST);
        assert!(assumed.written(&ObjectKey::cluster("o10")).is_none(), "the oldest are dropped");
        assert!(assumed.written(&ObjectKey::cluster("o11")).is_some());
    }
}
