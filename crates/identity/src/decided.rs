//! Decisions of other programs that are valid for a while, bounded in number.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

/// An entry is a digest and an identity or a reason, about 1 KiB: 8 MiB in all.
const CAPACITY: usize = 8192;

/// The hash of a decision's input.
pub(crate) type Key = [u8; 32];

/// The key of a question, from its parts.
pub(crate) fn key<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Key {
    let mut hash = Sha256::new();
    for part in parts {
        // The length separates the parts.
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// Decisions by their question.
pub(crate) struct Decided<T>(Mutex<HashMap<Key, (Instant, T)>>);

impl<T> Default for Decided<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Decided<T> {
    /// The decision, while it is valid.
    pub fn get(&self, key: &Key) -> Option<T> {
        let entries = self.0.lock();
        let (until, decision) = entries.get(key)?;
        (Instant::now() < *until).then(|| decision.clone())
    }

    /// Caches a decision. At the limit, expired ones are removed, or all of them if none has expired.
    pub fn put(&self, key: Key, decision: T, lifetime: Duration) {
        if lifetime.is_zero() {
            return;
        }
        let now = Instant::now();
        let mut entries = self.0.lock();
        if entries.len() >= CAPACITY {
            entries.retain(|_, (until, _)| now < *until);
        }
        if entries.len() >= CAPACITY {
            entries.clear();
        }
        entries.insert(key, (now + lifetime, decision));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn decisions_expire_and_are_bounded() {
        let decided = Decided::default();
        decided.put(key([&b"a"[..]]), 1, Duration::from_secs(10));
        decided.put(key([&b"b"[..]]), 2, Duration::ZERO);
        assert_eq!((decided.get(&key([&b"a"[..]])), decided.get(&key([&b"b"[..]]))), (Some(1), None));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(decided.get(&key([&b"a"[..]])), None);
        for number in 0..2 * CAPACITY as u64 {
            decided.put(key([&number.to_be_bytes()[..]]), 3, Duration::from_secs(10));
        }
        assert!(decided.0.lock().len() <= CAPACITY);
        assert_ne!(key([&b"ab"[..], b"c"]), key([&b"a"[..], b"bc"]));
    }
}
