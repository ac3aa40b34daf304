//! Random histories of two writers, a server and a cache, against a slow model: complete logs that are searched for
//! every answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::{Object, ObjectKey};
use world::World;

use super::Origin;
use super::assumed::{Assumed, Outcome};
use crate::informer::{Event, Progress};

const KEYS: u64 = 4;

/// A change on the server. `None`: deleted; the last state is that of the entry before.
#[derive(Clone)]
struct Change {
    revision: u64,
    key: ObjectKey,
    object: Option<Arc<Object>>,
}

/// A sent write: `change` is the server's change, if it executed the write.
struct Sent {
    key: ObjectKey,
    change: Option<Change>,
    /// Events of this object that the cache reported since.
    reported: Vec<u64>,
}

struct Run {
    world: World,
    assumed: Assumed,
    /// The current history of the server.
    log: Vec<Change>,
    /// How much of `log` the cache has, and the number of the history.
    progress: Progress,
    cache: BTreeMap<ObjectKey, Arc<Object>>,
    sent: Vec<Sent>,
    /// Acknowledged writes with the history in which the answer came.
    acknowledged: Vec<(u64, Change)>,
    unsure: BTreeMap<ObjectKey, bool>,
    revision: u64,
}

impl Run {
    fn new(seed: u64) -> Self {
        Self {
            world: World::simulated("2026-01-01T00:00:00Z".parse().expect("a time"), seed),
            assumed: Assumed::default(),
            log: Vec::new(),
            progress: Progress::default(),
            cache: BTreeMap::new(),
            sent: Vec::new(),
            acknowledged: Vec::new(),
            unsure: BTreeMap::new(),
            revision: 0,
        }
    }

    fn draw(&self, below: u64) -> u64 {
        self.world.random_u64() % below
    }

    fn any_key(&self) -> ObjectKey {
        ObjectKey::cluster(format!("o{}", self.draw(KEYS)))
    }

    fn live(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.log.iter().rfind(|change| change.key == *key)?.object.clone()
    }

    /// A write that the server executes: a create, an update, or a deletion.
    fn execute(&mut self, key: &ObjectKey, deletes: bool) -> Option<Change> {
        let before = self.live(key);
        if deletes && before.is_none() {
            return None;
        }
        self.revision += 1 + self.draw(3);
        let revision = self.revision;
        let uid = before.map_or_else(|| revision.to_string(), |before| before.uid().to_owned());
        let name = key.name();
        let text = format!(r#"{{"metadata":{{"name":"{name}","uid":"{uid}","resourceVersion":"{revision}"}}}}"#);
        let object = (!deletes).then(|| Arc::new(Object::parse(text).expect("an object")));
        let change = Change { revision, key: key.clone(), object };
        self.log.push(change.clone());
        Some(change)
    }

    fn send(&mut self) {
        let key = self.any_key();
        if self.sent.iter().any(|sent| sent.key == key) {
            return;
        }
        self.assumed.begin(&key);
        let change = if self.draw(8) == 0 { None } else { self.execute(&key, false) };
        self.sent.push(Sent { key, change, reported: Vec::new() });
    }

    fn answer(&mut self) {
        if self.sent.is_empty() {
            return;
        }
        let at = usize::try_from(self.draw(self.sent.len() as u64)).expect("an index");
        let Sent { key, change, reported } = self.sent.swap_remove(at);
        let cached = self.cache.get(&key).map_or(0, |cached| cached.revision());
        self.assumed.advance(self.progress);
        let is_lost = self.draw(6) == 0;
        match change.filter(|_| !is_lost) {
            Some(change) => {
                let object = change.object.clone().expect("a write");
                let overwritten = self.assumed.end(&key, Outcome::Acknowledged(object), cached);
                assert_eq!(overwritten, reported.iter().any(|seen| *seen > change.revision), "overwritten {key}");
                self.unsure.remove(&key);
                self.acknowledged.push((self.progress.history, change));
            }
            None => {
                self.assumed.end(&key, Outcome::Refused, cached);
                self.unsure.insert(key, true);
            }
        }
    }

    /// The cache receives the next change over its watch.
    fn watch(&mut self) {
        let Some(change) = self.log.iter().find(|change| change.revision > self.progress.revision).cloned() else {
            return;
        };
        self.apply(&change);
        self.progress.revision = change.revision;
    }

    fn apply(&mut self, change: &Change) {
        let Change { key, object, revision, .. } = change;
        let old = match object {
            Some(object) => self.cache.insert(key.clone(), object.clone()),
            None => self.cache.remove(key),
        };
        let event = match (old, object) {
            (None, Some(object)) => Event::Added { object: object.clone(), initial: false },
            (Some(old), Some(new)) if old.revision() == new.revision() => return,
            (Some(old), Some(new)) => Event::Updated { old, new: new.clone() },
            (Some(old), None) => Event::Deleted(old),
            (None, None) => return,
        };
        let expected = self.expected_origin(&event);
        self.assumed.advance(self.progress);
        assert_eq!(self.assumed.observe(&event, true), expected, "{event:?}");
        for sent in self.sent.iter_mut().filter(|sent| sent.key == *key) {
            sent.reported.push(if object.is_some() { *revision } else { event.object().revision() });
        }
        if object.is_none() {
            self.unsure.remove(key);
            // A later state of this object, which the server lost, is dropped too.
            let (uid, revision) = (event.object().uid(), event.object().revision());
            self.acknowledged.retain(|(_, own)| {
                let is_same = own.object.as_ref().is_some_and(|object| object.uid() == uid);
                own.key != *key || (!is_same && own.revision > revision)
            });
        }
    }

    fn expected_origin(&self, event: &Event) -> Origin {
        let (key, revision) = (event.object().key(), event.object().revision());
        if matches!(event, Event::Deleted(_)) {
            return Origin::Other;
        }
        if self.sent.iter().any(|sent| sent.key == key) {
            return Origin::Pending;
        }
        match self.newest_acknowledged(&key) {
            Some(own) if own.revision == revision => Origin::Own,
            Some(own) if own.revision > revision => Origin::Older,
            _ => Origin::Other,
        }
    }

    /// The newest write that was acknowledged in this history and that the cache does not have.
    fn newest_acknowledged(&self, key: &ObjectKey) -> Option<&Change> {
        let known = self.acknowledged.iter().filter(|(history, change)| {
            *history == self.progress.history && change.key == *key && change.revision > self.progress.revision
        });
        known.map(|(_, change)| change).max_by_key(|change| change.revision)
    }

    /// The watch breaks, and a list follows: deletions and intermediate states in between are not reported.
    fn list(&mut self) {
        for key in (0..KEYS).map(|n| ObjectKey::cluster(format!("o{n}"))) {
            let (live, cached) = (self.live(&key), self.cache.get(&key).cloned());
            if live.is_none() && cached.is_none() {
                continue;
            }
            let revision = live.as_ref().map_or(0, |live| live.revision());
            // A state missing from the model: the deletion of an object is observed with its last known state.
            self.apply(&Change { revision, key, object: live });
        }
        let newest = self.log.last().map_or(0, |change| change.revision);
        if newest < self.progress.revision {
            self.progress.history += 1;
        }
        self.progress.revision = newest;
    }

    /// The server loses its newest changes and the requests in flight.
    fn restore(&mut self) {
        if self.log.is_empty() || !self.sent.is_empty() {
            return;
        }
        let kept = usize::try_from(self.draw(self.log.len() as u64)).expect("a length");
        self.log.truncate(kept);
        // Revisions are used again.
        self.revision = self.log.last().map_or(0, |change| change.revision);
        self.list();
    }

    fn step(&mut self) {
        match self.draw(40) {
            0..=9 => self.send(),
            10..=17 => self.answer(),
            18..=22 => drop(self.execute(&self.any_key(), false)),
            23..=24 => drop(self.execute(&self.any_key(), true)),
            25..=36 => self.watch(),
            37 => self.list(),
            38 => self.restore(),
            _ => {
                let key = self.any_key();
                self.assumed.confirm(&key);
                self.unsure.remove(&key);
            }
        }
        self.compare();
    }

    fn compare(&mut self) {
        self.assumed.advance(self.progress);
        for key in (0..KEYS).map(|n| ObjectKey::cluster(format!("o{n}"))) {
            let written = self.assumed.written(&key).map(|object| object.revision());
            let expected = self.newest_acknowledged(&key).map(|change| change.revision);
            assert_eq!(written, expected, "{key}");
            assert_eq!(self.assumed.is_unsure(&key), self.unsure.contains_key(&key), "{key}");
        }
        let known = |key: &ObjectKey| {
            self.sent.iter().any(|sent| sent.key == *key)
                || self.unsure.contains_key(key)
                || self.newest_acknowledged(key).is_some()
        };
        let expected = (0..KEYS).map(|n| ObjectKey::cluster(format!("o{n}"))).filter(known).count();
        assert_eq!(self.assumed.len(), expected, "nothing is kept beside what is needed");
    }
}

#[test]
fn random_histories_equal_the_model() {
    let seeds = std::env::var("OVERLAYS").ok().and_then(|text| text.parse().ok()).unwrap_or(500);
    for seed in 0..seeds {
        let mut run = Run::new(seed);
        for step in 0..200 {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.step()));
            assert!(outcome.is_ok(), "seed {seed}, step {step}");
        }
    }
}
