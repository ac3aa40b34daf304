//! How many keys wait in several queues together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of keys that wait in the queues that were created with it. It is counted and not summed: a fleet has a
/// queue for each member, and the number is read for each change in one.
#[derive(Clone, Debug, Default)]
pub struct Backlog(Arc<AtomicUsize>);

impl Backlog {
    pub fn waiting(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The part of one queue, which leaves the sum with it.
#[derive(Debug, Default)]
pub(super) struct Share {
    own: usize,
    all: Backlog,
}

impl Share {
    pub(super) fn of(all: Backlog) -> Self {
        Self { own: 0, all }
    }

    pub(super) fn waiting(&self) -> usize {
        self.own
    }

    pub(super) fn increase(&mut self) {
        self.own += 1;
        self.all.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn decrease(&mut self) {
        self.own -= 1;
        self.all.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.own, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Priority, WorkQueue};

    #[tokio::test(start_paused = true)]
    async fn a_backlog_is_the_sum_of_its_queues() {
        let backlog = Backlog::default();
        let queues = [(); 2].map(|()| WorkQueue::new().counted_in(&backlog));
        queues[0].add_with("a", Priority::Low);
        queues[0].add("a");
        queues[1].add("a");
        queues[1].add_after("later", Duration::from_secs(1));
        assert_eq!(backlog.waiting(), 2, "a raised key counts once, a delayed one not yet");
        assert_eq!(queues[0].get().await, Some("a"));
        queues[0].add("a");
        assert_eq!(backlog.waiting(), 1, "a key that is processed waits only after that");
        queues[0].done(&"a");
        assert_eq!(backlog.waiting(), 2);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(queues[1].get().await, Some("a"));
        assert_eq!(backlog.waiting(), 2, "the delayed one is due");
        drop(queues);
        assert_eq!(backlog.waiting(), 0);
    }
}
