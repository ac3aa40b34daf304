//! The [`Queue`] shared by tasks: pops wait until there is something.

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::pacing::{Moment, Pacing};
use crate::queue::{Depths, KeyState, Outcome, Queue, Taken};

/// Dropping a waiting future loses no key.
pub struct WaitingQueue<K> {
    state: Mutex<Queue<K>>,
    origin: Instant,
    changed: Notify,
}

impl<K: Ord + Clone> WaitingQueue<K> {
    pub fn new(pacing: Pacing) -> Self {
        Self { state: Mutex::new(Queue::paced(pacing)), origin: Instant::now(), changed: Notify::new() }
    }

    pub fn now(&self) -> Moment {
        Instant::now().saturating_duration_since(self.origin)
    }

    pub fn push(&self, key: K, priority: i32, version: u64) {
        let now = self.now();
        self.state.lock().push(key, priority, version, now);
        self.changed.notify_one();
    }

    pub fn recheck(&self, key: K, priority: i32, version: u64) {
        let now = self.now();
        self.state.lock().recheck(key, priority, version, now);
        self.changed.notify_one();
    }

    pub fn wake<'a>(&self, keys: impl IntoIterator<Item = &'a K>)
    where
        K: 'a,
    {
        let now = self.now();
        let mut state = self.state.lock();
        keys.into_iter().for_each(|key| state.wake(key, now));
        drop(state);
        self.changed.notify_one();
    }

    pub fn remove(&self, key: &K) {
        self.state.lock().remove(key);
    }

    pub fn done(&self, key: &K, outcome: Outcome, version: u64) {
        let now = self.now();
        self.state.lock().done(key, outcome, version, now);
        self.changed.notify_one();
    }

    /// With the times counted from now.
    pub fn key_state(&self, key: &K) -> KeyState {
        let now = self.now();
        let left = |until: Moment| until.saturating_sub(now);
        match self.state.lock().key_state(key) {
            KeyState::Backoff { until } => KeyState::Backoff { until: left(until) },
            KeyState::Waiting { until } => KeyState::Waiting { until: left(until) },
            other => other,
        }
    }

    pub fn depths(&self) -> Depths {
        self.state.lock().depths()
    }

    /// The next key; the caller must call [`WaitingQueue::done`]. One task at a time waits here.
    pub async fn next(&self) -> Taken<K> {
        loop {
            let due = {
                let now = self.now();
                let mut state = self.state.lock();
                if let Some(taken) = state.pop(now) {
                    return taken;
                }
                state.next_due()
            };
            match due {
                None => self.changed.notified().await,
                Some(due) => {
                    let _ = tokio::time::timeout_at(self.origin + due, self.changed.notified()).await;
                }
            }
        }
    }
}

impl<K: Ord + Clone> Default for WaitingQueue<K> {
    fn default() -> Self {
        Self::new(Pacing::default())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_waiting_task_sees_pushes_pauses_and_wake_ups() {
        let queue = Arc::new(WaitingQueue::default());
        let pushed = queue.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(3)).await;
            pushed.push("a", 0, 1);
        });
        let start = Instant::now();
        assert_eq!(queue.next().await.key, "a");
        assert_eq!(start.elapsed().as_secs(), 3);
        queue.done(&"a", Outcome::Retry, 1);
        assert_eq!(queue.next().await.attempts, 2);
        assert_eq!(start.elapsed().as_secs(), 4);
        queue.done(&"a", Outcome::Unschedulable, 1);
        let woken = queue.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(30)).await;
            woken.wake([&"a"]);
        });
        assert_eq!(queue.next().await.attempts, 3);
        assert_eq!(start.elapsed().as_secs(), 34);
    }
}
