//! Telling at a glance that two clusters are alike in something. Fleets mostly are, and what was worked out for one
//! then holds for all.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Equal for equal content; for different content equal by chance only, once in 2^128.
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
