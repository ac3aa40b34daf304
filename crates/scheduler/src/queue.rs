//! The scheduling queue as a state machine with the time as an argument; [`waiting`] makes it wait.
//!
//! A key is in one state: active (ready), in back-off after a failure, waiting (for a change, at most five minutes), or
//! being processed. Higher priority is first, then longer waiting time. The states, the back-off of 1 s to 10 s and the
//! five minutes are those of upstream's scheduling queue; unlike upstream, a changed priority takes effect at once,
//! back-off starts at the failure, and changes that a pass has already processed do not re-enqueue its key.
//!
//! [`waiting`]: crate::waiting

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::pacing::{Moment, Pacing};

/// Unschedulable bindings are retried after this time even without a known change.
const UNSCHEDULABLE: Duration = Duration::from_secs(300);

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The pass is complete.
    Done,
    /// Try again after a pause.
    Retry,
    /// Wait for a wake-up, or five minutes.
    Unschedulable,
}

/// A key handed out for processing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken<K> {
    pub key: K,
    pub priority: i32,
    /// This one included; starts again at 1 when something happened to the key.
    pub attempts: u32,
    /// How long it was active.
    pub waited: Moment,
}

/// How many keys are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depths {
    pub active: usize,
    pub backoff: usize,
    pub unschedulable: usize,
    pub processing: usize,
}

/// The state of a key in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// The change needs no further pass.
    Settled,
    Active,
    Processing,
    /// It is tried again at this time.
    Backoff {
        until: Moment,
    },
    /// It is tried again when something changes, at the latest at this time.
    Waiting {
        until: Moment,
    },
}

/// The priority of a key that is only rechecked: below that of every key with a change of its own, in the same order.
pub fn backlog(priority: i32) -> i32 {
    priority.saturating_sub(i32::MAX)
}

/// Bounded by the number of bindings: a key is held once, and [`Queue::remove`]d with its binding.
#[derive(Debug)]
pub struct Queue<K> {
    items: BTreeMap<K, Item>,
    /// Highest priority first, then in the order of arrival.
    active: BTreeSet<(Reverse<i32>, u64, K)>,
    /// When waiting keys become active without a change.
    due: BTreeSet<(Moment, K)>,
    arrivals: u64,
    pacing: Pacing,
}

#[derive(Clone, Debug)]
struct Item {
    priority: i32,
    attempts: u32,
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    Active { arrival: u64, since: Moment },
    Backoff { until: Moment },
    Waiting { until: Moment, backoff: Moment },
    Processing { again: Option<Again>, woken: bool, gone: bool },
}

/// The changes of a key while it was processed.
#[derive(Clone, Copy, Debug)]
struct Again {
    priority: i32,
    version: u64,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self::paced(Pacing::default())
    }
}

impl<K> Queue<K> {
    /// With custom back-off after failures.
    pub fn paced(pacing: Pacing) -> Self {
        Self { items: BTreeMap::new(), active: BTreeSet::new(), due: BTreeSet::new(), arrivals: 0, pacing }
    }
}

impl<K: Ord + Clone> Queue<K> {
    /// A change of the key must be processed; `version` is the binding's version with that change.
    pub fn push(&mut self, key: K, priority: i32, version: u64, now: Moment) {
        let attempts = match self.items.get_mut(&key) {
            Some(Item { place: Place::Processing { again, gone, .. }, .. }) => {
                *gone = false;
                let version = again.map_or(version, |earlier| earlier.version.max(version));
                *again = Some(Again { priority, version });
                return;
            }
            Some(item) if matches!(item.place, Place::Active { .. }) => {
                let Place::Active { arrival, .. } = item.place else { return };
                let before = std::mem::replace(&mut item.priority, priority);
                if before != priority {
                    self.active.remove(&(Reverse(before), arrival, key.clone()));
                    self.active.insert((Reverse(priority), arrival, key));
                }
                return;
            }
            _ => 0,
        };
        self.activate(key, priority, attempts, now);
    }

    /// Another object changed, and the key must be rechecked: as [`Queue::push`], after every key of the same priority
    /// whose own change is waiting. The key keeps a higher place if it has one.
    pub fn recheck(&mut self, key: K, priority: i32, version: u64, now: Moment) {
        let waits_for_itself = match self.items.get(&key).map(|item| &item.place) {
            Some(Place::Active { .. }) => return,
            Some(Place::Processing { again: Some(again), .. }) => Some(again.priority),
            _ => None,
        };
        self.push(key, waits_for_itself.unwrap_or_else(|| backlog(priority)), version, now);
    }

    /// Something changed that may let a failed key succeed. A key that did not fail is left alone; pauses between
    /// failures are kept, so that a change a second does not mean an attempt a second.
    pub fn wake(&mut self, key: &K, now: Moment) {
        let Some(item) = self.items.get_mut(key) else { return };
        match &mut item.place {
            Place::Processing { woken, .. } => *woken = true,
            Place::Waiting { until, backoff } => {
                let (until, backoff, priority, attempts) = (*until, *backoff, item.priority, item.attempts);
                self.due.remove(&(until, key.clone()));
                if backoff <= now {
                    self.activate(key.clone(), priority, attempts, now);
                } else {
                    item.place = Place::Backoff { until: backoff };
                    self.due.insert((backoff, key.clone()));
                }
            }
            Place::Active { .. } | Place::Backoff { .. } => {}
        }
    }

    /// The next key; the caller must call [`Queue::done`].
    pub fn pop(&mut self, now: Moment) -> Option<Taken<K>> {
        self.promote(now);
        let (_, _, key) = self.active.pop_first()?;
        let item = self.items.get_mut(&key)?;
        item.attempts = item.attempts.saturating_add(1);
        let waited = match item.place {
            Place::Active { since, .. } => now.saturating_sub(since),
            _ => Moment::ZERO,
        };
        item.place = Place::Processing { again: None, woken: false, gone: false };
        Some(Taken { priority: item.priority, attempts: item.attempts, key, waited })
    }

    /// Ends a pass that has processed everything up to `version`. Later changes re-enqueue the key at once.
    pub fn done(&mut self, key: &K, outcome: Outcome, version: u64, now: Moment) {
        let Some(item) = self.items.get_mut(key) else { return };
        let Place::Processing { again, woken, gone } = item.place else { return };
        if gone {
            self.items.remove(key);
            return;
        }
        if let Some(again) = again.filter(|again| again.version > version) {
            return self.activate(key.clone(), again.priority, 0, now);
        }
        let backoff = now + self.pacing.pause(item.attempts);
        let outcome = match outcome {
            Outcome::Unschedulable if woken => Outcome::Retry,
            other => other,
        };
        let (place, due) = match outcome {
            Outcome::Done => {
                self.items.remove(key);
                return;
            }
            Outcome::Retry => {
                let until = now + self.pacing.retry(item.attempts, now);
                (Place::Backoff { until }, until)
            }
            Outcome::Unschedulable => {
                let until = now + UNSCHEDULABLE;
                (Place::Waiting { until, backoff }, until)
            }
        };
        item.place = place;
        self.due.insert((due, key.clone()));
    }

    /// The binding was deleted. A running pass completes, and does not re-enqueue the key.
    pub fn remove(&mut self, key: &K) {
        let Some(item) = self.items.get_mut(key) else { return };
        if let Place::Processing { again, gone, .. } = &mut item.place {
            (*again, *gone) = (None, true);
            return;
        }
        self.take_out(key);
        self.items.remove(key);
    }

    /// When [`Queue::pop`] may return something it does not return now.
    pub fn next_due(&self) -> Option<Moment> {
        self.due.first().map(|(at, _)| *at)
    }

    pub fn key_state(&self, key: &K) -> KeyState {
        match self.items.get(key).map(|item| &item.place) {
            None => KeyState::Settled,
            Some(Place::Active { .. }) => KeyState::Active,
            Some(Place::Processing { .. }) => KeyState::Processing,
            Some(Place::Backoff { until }) => KeyState::Backoff { until: *until },
            Some(Place::Waiting { until, .. }) => KeyState::Waiting { until: *until },
        }
    }

    pub fn depths(&self) -> Depths {
        let mut depths = Depths { active: self.active.len(), ..Depths::default() };
        for item in self.items.values() {
            match item.place {
                Place::Active { .. } => {}
                Place::Backoff { .. } => depths.backoff += 1,
                Place::Waiting { .. } => depths.unschedulable += 1,
                Place::Processing { .. } => depths.processing += 1,
            }
        }
        depths
    }

    /// Activates the keys whose wait is over, higher priorities first.
    fn promote(&mut self, now: Moment) {
        let mut ready = Vec::new();
        while self.due.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((at, key)) = self.due.pop_first()
                && let Some(item) = self.items.get(&key)
            {
                ready.push((Reverse(item.priority), at, item.attempts, key));
            }
        }
        ready.sort();
        for (Reverse(priority), at, attempts, key) in ready {
            self.activate(key, priority, attempts, at);
        }
    }

    fn activate(&mut self, key: K, priority: i32, attempts: u32, since: Moment) {
        self.take_out(&key);
        self.arrivals += 1;
        let arrival = self.arrivals;
        self.active.insert((Reverse(priority), arrival, key.clone()));
        self.items.insert(key, Item { priority, attempts, place: Place::Active { arrival, since } });
    }

    /// Removes a key from the ordered sets.
    fn take_out(&mut self, key: &K) {
        let Some(item) = self.items.get(key) else { return };
        match item.place {
            Place::Active { arrival, .. } => {
                self.active.remove(&(Reverse(item.priority), arrival, key.clone()));
            }
            Place::Backoff { until } | Place::Waiting { until, .. } => {
                self.due.remove(&(until, key.clone()));
            }
            Place::Processing { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs one command; `pop` answers with the key and its attempts.
    fn run(queue: &mut Queue<String>, now: Moment, command: &str) -> String {
        let words: Vec<&str> = command.split(' ').collect();
        let number = |at: usize| words.get(at).map_or(0, |word| word.parse().expect("a number"));
        match words[0] {
            "push" => queue.push(words[1].into(), number(2), u64::try_from(number(3)).expect("a version"), now),
            "recheck" => queue.recheck(words[1].into(), number(2), u64::try_from(number(3)).expect("a version"), now),
            "wake" => queue.wake(&words[1].into(), now),
            "remove" => queue.remove(&words[1].into()),
            "pop" => {
                return match queue.pop(now) {
                    Some(taken) => format!("{}#{}", taken.key, taken.attempts),
                    None => "-".into(),
                };
            }
            outcome => {
                let outcome = match outcome {
                    "done" => Outcome::Done,
                    "retry" => Outcome::Retry,
                    "unschedulable" => Outcome::Unschedulable,
                    other => panic!("{other}"),
                };
                queue.done(&words[1].into(), outcome, u64::try_from(number(2)).expect("a version"), now);
            }
        }
        String::new()
    }

    /// `at: command, command` lines; the answers of all pops in order.
    fn check(what: &str, script: &str, answers: &str) {
        let mut queue = Queue::default();
        let mut got = Vec::new();
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (at, commands) = line.split_once(": ").expect("a time");
            let now = Duration::from_millis(at.parse().expect("milliseconds"));
            got.extend(commands.split(", ").map(|command| run(&mut queue, now, command)).filter(|it| !it.is_empty()));
        }
        assert_eq!(got.join(" "), answers, "{what}");
    }

    #[test]
    fn order() {
        check(
            "higher priority first, then arrival",
            "0: push a 0, push b 5, push c 5, pop, pop, pop, pop",
            "b#1 c#1 a#1 -",
        );
        check("a key is queued once", "0: push a 0, push a 0, pop, pop", "a#1 -");
        check("a changed priority counts", "0: push a 1, push b 2, push a 3, pop, pop", "a#1 b#1");
        check("a lowered one too", "0: push a 3, push b 2, push a 1, pop, pop", "b#1 a#1");
        check(
            "those whose pause ended at once come by priority",
            "0: push a 0, push b 9, pop, pop, retry a 0, retry b 0\n1000: push c 5, pop, pop, pop",
            "b#1 a#1 b#2 c#1 a#2",
        );
    }

    #[test]
    fn rechecks() {
        check("a change of its own goes first", "0: recheck a 0, recheck b 0, push c 0, pop, pop, pop", "c#1 a#1 b#1");
        check("priorities order rechecks, too", "0: recheck a 1, recheck b 2, push c 0, pop, pop, pop", "c#1 b#1 a#1");
        check("a waiting change keeps its place", "0: push a 0, push b 0, recheck a 0, pop, pop, pop", "a#1 b#1 -");
        check("a change raises a recheck", "0: recheck a 0, recheck b 0, push b 0, pop, pop, pop", "b#1 a#1 -");
        check(
            "a change during the pass keeps its place",
            "0: push a 0 1, pop, push a 0 2, recheck a 0 3, push b 0, done a 1, pop, pop",
            "a#1 b#1 a#1",
        );
        check(
            "a recheck during the pass is a recheck",
            "0: push a 0 1, pop, recheck a 0 3, done a 1, push b 0, pop, pop",
            "a#1 b#1 a#1",
        );
    }

    #[test]
    fn processing() {
        check("never twice at once", "0: push a 0 1, pop, push a 0 2, pop, done a 1, pop", "a#1 - a#1");
        check("several keys at once", "0: push a 0, push b 0, pop, pop", "a#1 b#1");
        check(
            "what the pass has seen does not bring it back",
            "0: push a 0 1, pop, push a 0 2, done a 2, pop",
            "a#1 -",
        );
        check(
            "a newer priority is used",
            "0: push a 0 1, push b 1 1, pop, push b 0 2, done b 1, pop, pop",
            "b#1 a#1 b#1",
        );
        check("a failed pass is not held back by news", "0: push a 0 1, pop, push a 0 2, retry a 1, pop", "a#1 a#1");
        check(
            "a binding that is gone does not come back",
            "0: push a 0 1, pop, push a 0 2, remove a, retry a 1, pop\n9000: pop",
            "a#1 - -",
        );
        check("unless it is recreated", "0: push a 0 1, pop, remove a, push a 0 3, done a 1, pop", "a#1 a#1");
        check(
            "removed while it waits",
            "0: push a 0, remove a, pop\n0: push b 0, pop, retry b 0, remove b\n9000: pop",
            "- b#1 -",
        );
    }

    #[test]
    fn failures() {
        let retries =
            "0: push a 0, pop, retry a 0, pop\n999: pop\n1000: pop, retry a 0\n2999: pop\n3000: pop, retry a 0
            7000: pop, retry a 0\n15000: pop, retry a 0\n24999: pop\n25000: pop";
        check("pauses double up to ten seconds", retries, "a#1 - - a#2 - a#3 a#4 a#5 - a#6");
        check("an event ends the pause", "0: push a 0, pop, retry a 0\n10: push a 0 2, pop", "a#1 a#1");
        check(
            "unschedulable comes back after five minutes",
            "0: push a 0, pop, unschedulable a 0\n299999: pop\n300000: pop",
            "a#1 - a#2",
        );
        check(
            "something that happens to the key ends the wait",
            "0: push a 0, pop, unschedulable a 0\n10: push a 0 2, pop\n300000: pop",
            "a#1 a#1 -",
        );
    }

    #[test]
    fn waking() {
        check(
            "a wake-up within the pause waits for its end",
            "0: push a 0, pop, unschedulable a 0\n10: wake a, pop\n1000: pop",
            "a#1 - a#2",
        );
        check("one after it counts at once", "0: push a 0, pop, unschedulable a 0\n5000: wake a, pop", "a#1 a#2");
        check("one during the pass too", "0: push a 0, pop, wake a, unschedulable a 0, pop\n1000: pop", "a#1 - a#2");
        check(
            "who did not fail sleeps on",
            "0: wake a, pop, push a 0, pop, wake a, done a 0, pop\n5000: pop",
            "- a#1 - -",
        );
    }

    #[test]
    fn depths_and_due_times() {
        let mut queue = Queue::default();
        let now = Duration::ZERO;
        for key in ["a", "b", "c", "d"] {
            queue.push(key, 0, 1, Moment::ZERO);
        }
        for outcome in [Outcome::Retry, Outcome::Unschedulable] {
            let key = queue.pop(now).expect("a key").key;
            queue.done(&key, outcome, 1, now);
        }
        queue.pop(now).expect("a key");
        assert_eq!(queue.depths(), Depths { active: 1, backoff: 1, unschedulable: 1, processing: 1 });
        assert_eq!(queue.next_due(), Some(Duration::from_secs(1)));
        let states = ["a", "b", "c", "d", "e"].map(|key| queue.key_state(&key));
        let waiting = KeyState::Waiting { until: Duration::from_secs(300) };
        let backoff = KeyState::Backoff { until: Duration::from_secs(1) };
        assert_eq!(states, [backoff, waiting, KeyState::Processing, KeyState::Active, KeyState::Settled]);
    }
}
