//! Random operations, compared after every step with the most naive store there is: a list of all states. The test
//! chooses the operations (proptest, or a seed).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Subject, bytes, changes, delete, describe, put, text};
use crate::{Change, Error, Guard, KeyRange, KeyValue, Op, Revision, Store, TxnOutcome};

/// One step. Keys are small numbers, so that steps use the same keys; `pick`s are taken modulo the number of choices.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the steps are those of the store's methods")]
pub enum Step {
    Put {
        key: u8,
        value: u8,
    },
    Delete {
        key: u8,
    },
    /// Several ops under a guard on the first one's key: absent, or the revision picked.
    Guarded {
        puts: Vec<(u8, u8)>,
        deletes: Vec<u8>,
        absent: bool,
        pick: u64,
    },
    ReadAt {
        pick: u64,
        limit: usize,
    },
    Compact {
        pick: u64,
    },
    WatchAfter {
        pick: u64,
    },
}

type State = BTreeMap<String, KeyValue>;

struct Model {
    /// By revision; the first two are the empty store's.
    states: Vec<State>,
    changes: Vec<(Revision, Change)>,
    oldest: Revision,
}

/// Panics where `store`, which must be empty, and the model disagree.
pub async fn check(store: Arc<dyn Store>, steps: &[Step]) {
    let store = Subject(store);
    let mut model = Model { states: vec![State::new(), State::new()], changes: Vec::new(), oldest: 0 };
    for step in steps {
        model.step(&store, step).await;
        assert_eq!(store.revision().await, model.newest(), "after {step:?}");
    }
    let all = store.keys(KeyRange::prefix(bytes("/")), None, 0).await.0;
    assert_eq!(all, model.now().keys().cloned().collect::<Vec<_>>(), "the keys at the end");
    store.0.verify().await.expect("the store is sound");
}

fn name(key: u8) -> String {
    format!("/{}", key % 8)
}

impl Model {
    fn newest(&self) -> Revision {
        self.states.len() as Revision - 1
    }

    fn now(&self) -> &State {
        self.states.last().expect("there is always a state")
    }

    fn picked(&self, pick: u64) -> Revision {
        // One beyond the newest as well. Not 0, the empty store as well as 1: to etcd that is the newest revision.
        1 + pick % (self.newest() + 1)
    }

    /// The error that a read at `revision` must end in, if any.
    fn refusal(&self, requested: Revision) -> Option<Error> {
        let (oldest, newest) = (self.oldest, self.newest());
        if requested < oldest {
            Some(Error::Compacted { requested, oldest })
        } else {
            (requested > newest).then_some(Error::FutureRevision { requested, newest })
        }
    }

    async fn step(&mut self, store: &Subject, step: &Step) {
        match step {
            Step::Put { key, value } => self.write(store, vec![], vec![put(&name(*key), &value.to_string())]).await,
            Step::Delete { key } => self.write(store, vec![], vec![delete(&name(*key))]).await,
            Step::Guarded { puts, deletes, absent, pick } => {
                let key = bytes(&name(puts.first().map_or(0, |(key, _)| *key)));
                let guard = if *absent { Guard::Absent(key) } else { Guard::ModRevision(key, self.guess(pick, puts)) };
                let puts = puts.iter().map(|(key, value)| put(&name(*key), &value.to_string()));
                let ops = puts.chain(deletes.iter().map(|key| delete(&name(*key)))).collect();
                self.write(store, vec![guard], ops).await;
            }
            Step::ReadAt { pick, limit } => self.read(store, self.picked(*pick), *limit).await,
            Step::Compact { pick } => {
                let revision = self.picked(*pick);
                let refusal = self.refusal(revision);
                assert_eq!(store.0.compact(revision).await.err(), refusal, "compact {revision}");
                if refusal.is_none() {
                    self.oldest = revision;
                }
            }
            Step::WatchAfter { pick } => self.watch(store, self.picked(*pick)).await,
        }
    }

    /// Mostly the right revision for the guard, so that both outcomes are frequent.
    fn guess(&self, pick: &u64, puts: &[(u8, u8)]) -> Revision {
        let right = puts.first().and_then(|(key, _)| self.now().get(&name(*key))).map(|kv| kv.mod_revision);
        right.filter(|_| !pick.is_multiple_of(4)).unwrap_or_else(|| self.picked(*pick))
    }

    async fn write(&mut self, store: &Subject, guards: Vec<Guard>, ops: Vec<Op>) {
        let outcome = store.commit(guards.clone(), ops.clone()).await;
        let state = |guard: &Guard| self.now().get(&text(guard.key()));
        let holds = guards.iter().all(|guard| match guard {
            Guard::Absent(_) => state(guard).is_none(),
            Guard::ModRevision(_, revision) => state(guard).is_some_and(|kv| kv.mod_revision == *revision),
        });
        if !holds {
            let current = guards.iter().map(|guard| state(guard).cloned()).collect();
            assert_eq!(outcome, TxnOutcome::Failed { current, revision: self.newest() });
            return;
        }
        self.apply(ops);
        assert_eq!(outcome, TxnOutcome::Committed { revision: self.newest() });
    }

    fn apply(&mut self, ops: Vec<Op>) {
        let (before, next) = (self.now().clone(), self.newest() + 1);
        let mut after = before.clone();
        for op in ops {
            match op {
                Op::Put { key, value, lease } => {
                    let create_revision = before.get(&text(&key)).map_or(next, |kv| kv.create_revision);
                    after.insert(text(&key), KeyValue { key, value, create_revision, mod_revision: next, lease });
                }
                Op::Delete { key } => drop(after.remove(&text(&key))),
            }
        }
        if before == after {
            return;
        }
        let keys = before.keys().chain(after.keys()).cloned().collect::<std::collections::BTreeSet<_>>();
        for key in keys {
            match (before.get(&key).cloned(), after.get(&key).cloned()) {
                (Some(previous), None) => self.changes.push((next, Change::Delete { previous })),
                (previous, Some(current)) if current.mod_revision == next => {
                    self.changes.push((next, Change::Put { current, previous }));
                }
                _ => {}
            }
        }
        self.states.push(after);
    }

    async fn read(&self, store: &Subject, revision: Revision, limit: usize) {
        let request = crate::RangeRequest { range: KeyRange::prefix(bytes("/")), revision: Some(revision), limit };
        let found = store.0.range(request).await;
        if let Some(refusal) = self.refusal(revision) {
            assert_eq!(found.err(), Some(refusal), "read at {revision}");
            return;
        }
        let found = found.expect("readable");
        let state = &self.states[usize::try_from(revision).expect("small")];
        let limit = if limit == 0 { usize::MAX } else { limit };
        assert_eq!(found.items, state.values().take(limit).cloned().collect::<Vec<_>>(), "read at {revision}");
        assert_eq!((found.count, found.revision), (state.len(), self.newest()), "read at {revision}");
        for key in (0..8).map(name) {
            assert_eq!(store.get_at(&key, revision).await.as_ref(), state.get(&key), "{key} at {revision}");
        }
    }

    async fn watch(&self, store: &Subject, after: Revision) {
        let watch = store.0.watch(KeyRange::prefix(bytes("/")), after).await;
        if after < self.oldest {
            let compacted = Error::Compacted { requested: after, oldest: self.oldest };
            assert_eq!(watch.err(), Some(compacted), "watch after {after}");
            return;
        }
        let expected: Vec<_> = self.changes.iter().filter(|(revision, _)| *revision > after).collect();
        let expected: Vec<_> = expected.into_iter().map(|(revision, change)| describe(*revision, change)).collect();
        let mut watch = watch.expect("the watch begins");
        assert_eq!(changes(&mut watch, expected.len()).await, expected, "watch after {after}");
    }
}
