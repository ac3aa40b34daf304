//! Decides which failures are logged: one when a key begins to fail or fails for another reason, one when it recovers,
//! none for the retries in between.
//!
//! The decision is level-based: it compares the current cause with the causes logged since the key last succeeded.
//! Callers write the line themselves, because they define the field names.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::keys::Keys;

/// The maximum number of keys. An entry is a key of some 100 bytes and 64 further bytes, so all of them take less than
/// 2 MiB including the map's overhead. Failures of further keys are not logged until others recover.
const REMEMBERED: usize = 10_000;

/// Causes logged for one key before it recovers. Some messages differ with every retry (counters, versions); a fifth
/// cause is most likely such a message.
const CAUSES: usize = 4;

/// Lines at once, and the time after which one more is allowed: a member that refuses 10,000 objects writes 100 lines
/// and then one a second. A key whose line is held back gets it with a later retry.
const BURST: u32 = 100;
const REFILL: Duration = Duration::from_secs(1);

/// Failing keys, with the causes logged for each.
pub struct Failures<K> {
    patience: Duration,
    known: Mutex<Known<K>>,
    /// The number of failing keys. While it is zero, a success takes no lock.
    count: AtomicUsize,
}

impl<K: Ord + Clone> Failures<K> {
    /// A failure is worth a line once it has lasted for `patience`: conflicts and other races heal with the first
    /// retries.
    pub fn lasting(patience: Duration) -> Self {
        Self { patience, known: Mutex::new(Known::default()), count: AtomicUsize::new(0) }
    }

    /// Notes a failed attempt; whether to log it.
    pub fn failed(&self, key: &K, cause: &str) -> bool {
        let mut known = self.known.lock();
        let is_due = known.failed(key, cause, self.patience, Instant::now());
        self.count.store(known.keys.len(), Ordering::Relaxed);
        is_due
    }

    /// Notes a successful attempt. Returns for how long the key failed, in whole milliseconds, if a line reported that.
    pub fn succeeded(&self, key: &K) -> Option<Duration> {
        if self.is_quiet() {
            return None;
        }
        let mut known = self.known.lock();
        let lasted = known.succeeded(key, Instant::now());
        self.count.store(known.keys.len(), Ordering::Relaxed);
        lasted.map(|it| Duration::from_millis(u64::try_from(it.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Whether no key is failing.
    pub fn is_quiet(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Drops a key that no longer exists.
    pub fn forget(&self, key: &K) {
        let _ = self.succeeded(key);
    }
}

/// The pure part: the stored state, and the result of an attempt at a time.
struct Known<K> {
    keys: Keys<K>,
    failing: Vec<Failing>,
    lines: Lines,
}

impl<K> Default for Known<K> {
    fn default() -> Self {
        Self { keys: Keys::default(), failing: Vec::new(), lines: Lines { left: BURST, refilled: None } }
    }
}

struct Failing {
    since: Instant,
    /// Hashes of the causes logged, of which the first `logged` are set.
    causes: [u64; CAUSES],
    logged: usize,
}

/// How many lines may be written now.
struct Lines {
    left: u32,
    refilled: Option<Instant>,
}

impl<K: Ord + Clone> Known<K> {
    fn failed(&mut self, key: &K, cause: &str, patience: Duration, now: Instant) -> bool {
        let slot = match self.keys.get(key) {
            Some(slot) => slot,
            None if self.keys.len() >= REMEMBERED => return false,
            None => {
                let (slot, failing) =
                    (self.keys.insert(key.clone()), Failing { since: now, causes: [0; CAUSES], logged: 0 });
                match self.failing.get_mut(slot) {
                    Some(former) => *former = failing,
                    None => self.failing.push(failing),
                }
                slot
            }
        };
        self.failing.get_mut(slot).is_some_and(|failing| self.lines.is_due(failing, cause, patience, now))
    }

    fn succeeded(&mut self, key: &K, now: Instant) -> Option<Duration> {
        let slot = self.keys.get(key)?;
        self.keys.remove(slot);
        let failing = self.failing.get(slot)?;
        let lasted = (failing.logged > 0).then(|| now.saturating_duration_since(failing.since));
        if self.keys.len() == 0 {
            (self.keys, self.failing) = (Keys::default(), Vec::new());
        }
        lasted
    }
}

impl Lines {
    fn is_due(&mut self, failing: &mut Failing, cause: &str, patience: Duration, now: Instant) -> bool {
        self.refill(now);
        let cause = hash(cause);
        let is_news = failing.logged < CAUSES && !failing.causes[..failing.logged].contains(&cause);
        if !is_news || now.saturating_duration_since(failing.since) < patience || self.left == 0 {
            return false;
        }
        self.left -= 1;
        failing.causes[failing.logged] = cause;
        failing.logged += 1;
        true
    }

    fn refill(&mut self, now: Instant) {
        let refilled = *self.refilled.get_or_insert(now);
        let more = now.saturating_duration_since(refilled).as_secs() / REFILL.as_secs();
        if more > 0 {
            self.left = self.left.saturating_add(u32::try_from(more).unwrap_or(BURST)).min(BURST);
            self.refilled = Some(now);
        }
    }
}

fn hash(cause: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    cause.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays attempts at one key: `3 a` fails for reason `a` at second 3, `9 ok` succeeds.
    fn play(patience: u64, attempts: &[&str]) -> Vec<String> {
        let (mut known, begin) = (Known::default(), Instant::now());
        let attempt = |attempt: &&str| {
            let (second, outcome) = attempt.split_once(' ').expect("a second and an outcome");
            let now = begin + Duration::from_secs(second.parse().expect("a second"));
            match outcome {
                "ok" => Some(format!("{second} recovered after {}", known.succeeded(&"key", now)?.as_secs())),
                cause => {
                    known.failed(&"key", cause, Duration::from_secs(patience), now).then(|| format!("{second} {cause}"))
                }
            }
        };
        attempts.iter().filter_map(attempt).collect()
    }

    #[test]
    fn one_line_for_each_cause_and_one_for_the_recovery() {
        for (patience, attempts, lines) in [
            (0, &["0 a", "1 a", "2 a", "60 a", "61 ok", "62 ok"][..], &["0 a", "61 recovered after 61"][..]),
            (0, &["0 a", "1 b", "2 a", "3 b", "4 ok"], &["0 a", "1 b", "4 recovered after 4"]),
            (0, &["0 a", "1 ok", "2 a", "3 ok"], &["0 a", "1 recovered after 1", "2 a", "3 recovered after 1"]),
            // Messages that differ with each retry are not logged after the fourth.
            (
                0,
                &["0 1", "1 2", "2 3", "3 4", "4 5", "5 6", "6 ok"],
                &["0 1", "1 2", "2 3", "3 4", "6 recovered after 6"],
            ),
            // A race that heals at once is not mentioned at all.
            (5, &["0 a", "1 a", "4 ok"], &[]),
            (5, &["0 a", "4 b", "5 b", "9 b", "9 ok"], &["5 b", "9 recovered after 9"]),
        ] {
            assert_eq!(play(patience, attempts), lines, "{attempts:?}");
        }
    }

    #[test]
    fn memory_and_lines_are_bounded() {
        let (mut known, begin) = (Known::default(), Instant::now());
        let lines = |known: &mut Known<usize>, second: u64| {
            let now = begin + Duration::from_secs(second);
            (0..2 * REMEMBERED).filter(|key| known.failed(key, "refused", Duration::ZERO, now)).count()
        };
        assert_eq!(lines(&mut known, 0), 100);
        assert_eq!(lines(&mut known, 0), 0);
        assert_eq!(lines(&mut known, 10), 10, "one more a second");
        assert_eq!(lines(&mut known, 10_000), 100);
        assert_eq!(known.keys.len(), REMEMBERED);
        assert!(std::mem::size_of::<Failing>() <= 64);
    }

    #[tokio::test(start_paused = true)]
    async fn removed_keys_are_forgotten() {
        let failures = Failures::lasting(Duration::from_secs(1));
        assert!(!failures.failed(&"a", "refused"));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(failures.failed(&"a", "refused") && !failures.failed(&"a", "refused"));
        failures.forget(&"a");
        assert_eq!(failures.succeeded(&"a"), None);
        assert_eq!(failures.count.load(Ordering::Relaxed), 0);
    }
}
