//! Fingerprints of parts of a cluster. Most clusters of a fleet are alike, so a result for one fingerprint is reused
//! for the others.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Equal content has equal fingerprints; different content collides with a probability of 2^-128.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint(u64, u64);

impl Fingerprint {
    pub fn of(content: &impl Hash) -> Self {
        let half = |start: u8| {
            let mut hasher = DefaultHasher::new();
            start.hash(&mut hasher);
            content.hash(&mut hasher);
            hasher.finish()
        };
        Self(half(0), half(1))
    }
}
