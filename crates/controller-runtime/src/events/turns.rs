//! The attempts whose last event is a failure.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// An outage of a webhook makes the templates of a fleet fail; half a megabyte. Beyond that, failures are forgotten.
const KEPT: usize = 65_536;

/// Reasons end in `Succeed` or `Failed`; other events are no outcomes.
#[derive(Default)]
pub(super) struct Turns {
    hasher: RandomState,
    /// Hashes of an object's UID, a component and a reason without its outcome.
    failing: Mutex<HashSet<u64>>,
    /// The number of them. While it is zero, a success takes no lock.
    count: AtomicUsize,
}

impl Turns {
    fn attempt(&self, uid: &str, component: &str, reason: &str) -> Option<u64> {
        let stem = reason.strip_suffix("Succeed").or_else(|| reason.strip_suffix("Failed"))?;
        Some(self.hasher.hash_one((uid, component, stem)))
    }

    pub fn is_quiet(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Whether the last noted outcome is a failure.
    pub fn is_failing(&self, uid: &str, component: &str, reason: &str) -> bool {
        !self.is_quiet()
            && self.attempt(uid, component, reason).is_some_and(|attempt| self.failing.lock().contains(&attempt))
    }

    /// Notes an outcome. Returns whether it reverses the last one.
    pub fn note(&self, uid: &str, component: &str, reason: &str) -> bool {
        let is_failure = reason.ends_with("Failed");
        if !is_failure && self.is_quiet() {
            return false;
        }
        let Some(attempt) = self.attempt(uid, component, reason) else { return false };
        let mut failing = self.failing.lock();
        if is_failure && failing.len() >= KEPT {
            failing.clear();
        }
        let is_turn = if is_failure { failing.insert(attempt) } else { failing.remove(&attempt) };
        self.count.store(failing.len(), Ordering::Relaxed);
        is_turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_alternate_per_object_component_and_attempt() {
        let turns = Turns::default();
        for (reason, expected) in [
            ("SyncWorkSucceed", false),
            ("SyncWorkFailed", true),
            ("SyncWorkFailed", false),
            ("GetReplicasSucceed", false),
            ("SyncWorkSucceed", true),
            ("SyncWorkSucceed", false),
            ("Evicted", false),
        ] {
            assert_eq!(turns.note("u", "c", reason), expected, "{reason}");
        }
        turns.note("u", "c", "SyncWorkFailed");
        for (uid, component, reason, expected) in [
            ("u", "c", "SyncWorkSucceed", true),
            ("v", "c", "SyncWorkSucceed", false),
            ("u", "d", "SyncWorkSucceed", false),
            ("u", "c", "GetReplicasSucceed", false),
            ("u", "c", "Evicted", false),
        ] {
            assert_eq!(turns.is_failing(uid, component, reason), expected, "{uid} {component} {reason}");
        }
        for object in 0..KEPT {
            turns.note(&object.to_string(), "c", "SyncWorkFailed");
        }
        assert!(turns.count.load(Ordering::Relaxed) <= KEPT);
    }
}
