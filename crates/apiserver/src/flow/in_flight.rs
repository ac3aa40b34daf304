//! Without priority and fairness: one limit for reads and one for writes.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// Requests that run: reads, writes.
#[derive(Debug, Default)]
pub(super) struct InFlight([AtomicU32; 2]);

/// A request that runs.
#[derive(Debug)]
pub(crate) struct Underway {
    counts: Arc<InFlight>,
    is_write: bool,
}

impl Underway {
    /// `None` if `most` run already; 0 is no limit.
    pub(super) fn begin(counts: &Arc<InFlight>, is_write: bool, most: u32) -> Option<Self> {
        let before = counts.0[usize::from(is_write)].fetch_add(1, Relaxed);
        // Dropped, and so counted back, where it is refused.
        let underway = Self { counts: Arc::clone(counts), is_write };
        (most == 0 || before < most).then_some(underway)
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.counts.0[usize::from(self.is_write)].fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_have_limits_of_their_own() {
        let counts = Arc::default();
        let begin = |is_write, most| Underway::begin(&counts, is_write, most);
        let reads = [begin(false, 2), begin(false, 2)];
        assert!(reads.iter().all(Option::is_some) && begin(false, 2).is_none());
        assert!(begin(true, 1).is_some(), "a write");
        assert!(begin(false, 0).is_some(), "no limit");
        drop(reads);
        assert!(begin(false, 1).is_some(), "all have ended");
    }
}
