//! A cache of verified signatures. Verification costs as much as the rest of a small request, and clients send the same
//! credential repeatedly; changeable properties (expiry, deletion of the account) are never cached here.

use std::collections::HashMap;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

/// An entry is a digest and the authenticated identity, about 1 KiB: 4 MiB in all.
const CAPACITY: usize = 4096;

pub(super) struct Recent<T>(Mutex<HashMap<[u8; 32], T>>);

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Recent<T> {
    pub fn clear(&self) {
        self.0.lock().clear();
    }

    /// The cached result for the credential, or that of `check`. Failures are not cached, so that they cannot evict
    /// valid entries.
    pub fn get_or_check(&self, credential: &[u8], check: impl FnOnce() -> Option<T>) -> Option<T> {
        self.get_or_check_digest(Sha256::digest(credential).into(), check)
    }

    /// The same by the SHA-256 of the credential, for credentials that are sent once per connection and used by many
    /// requests.
    pub fn get_or_check_digest(&self, digest: [u8; 32], check: impl FnOnce() -> Option<T>) -> Option<T> {
        if let Some(known) = self.0.lock().get(&digest) {
            return Some(known.clone());
        }
        let checked = check()?;
        let mut entries = self.0.lock();
        if entries.len() >= CAPACITY {
            entries.clear();
        }
        entries.insert(digest, checked.clone());
        Some(checked)
    }
}
