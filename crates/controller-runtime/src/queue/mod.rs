//! A queue of keys: each is queued once, processed by one worker at a time, and re-enqueued after failures with
//! back-off.

mod backlog;
#[cfg(test)]
mod model;
mod order;

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

pub use self::backlog::Backlog;
use self::order::Order;
use crate::keys::{Keys, Slot};

/// The limiter upstream's controllers use (`--rate-limiter-base-delay`, `--rate-limiter-max-delay`).
const BASE_DELAY: Duration = Duration::from_millis(5);
const MAX_DELAY: Duration = Duration::from_secs(1000);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Processed last: initial lists, and objects enqueued because of another object's change.
    Low,
    #[default]
    Normal,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueMetrics {
    pub adds: u64,
    pub retries: u64,
    pub depth: usize,
    pub in_flight: usize,
    pub delayed: usize,
    /// How long the passes under way have run, together, and the one of them that has run longest.
    pub unfinished: Duration,
    pub longest_running: Duration,
}

/// The number of keys is bounded by the number of objects they name; keys hold no objects.
pub struct WorkQueue<K> {
    state: Mutex<State<K>>,
    changed: Notify,
    /// Whether a low priority counts.
    priorities: bool,
}

struct State<K> {
    keys: Keys<K>,
    order: Order,
    /// The waiting keys of a queue that is sorted instead of first in, first out.
    sorted: Option<BTreeMap<K, Slot>>,
    closed: bool,
}

impl<K: Ord + Clone> Default for WorkQueue<K> {
    fn default() -> Self {
        let state = State { keys: Keys::default(), order: Order::default(), sorted: None, closed: false };
        Self { state: Mutex::new(state), changed: Notify::new(), priorities: true }
    }
}

impl<K: Ord + Clone> WorkQueue<K> {
    pub fn new() -> Self {
        Self::default()
    }

    /// A queue in which every key has the same priority.
    pub fn without_priorities() -> Self {
        Self { priorities: false, ..Self::default() }
    }

    /// A queue that always yields the least of the waiting keys; priorities have no effect.
    pub fn sorted() -> Self {
        let queue = Self { priorities: false, ..Self::default() };
        queue.state.lock().sorted = Some(BTreeMap::new());
        queue
    }

    /// The same queue, whose waiting keys count in the backlog. Before the first key.
    pub fn counted_in(mut self, backlog: &Backlog) -> Self {
        self.state.get_mut().order.count_in(backlog.clone());
        self
    }

    pub fn add(&self, key: K) {
        self.add_with(key, Priority::Normal);
    }

    pub fn add_with(&self, key: K, priority: Priority) {
        let priority = if self.priorities { priority } else { Priority::Normal };
        self.change(key, |order, slot| order.add(slot, priority));
    }

    /// Adds later; of several delays of one key the shortest counts.
    pub fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        let at = Instant::now() + delay;
        self.change(key, |order, slot| order.delay(slot, at));
    }

    /// Adds after a pause that doubles with each failure since [`WorkQueue::forget`]: 5 ms up to 1000 s.
    pub fn add_rate_limited(&self, key: K) {
        self.change(key, Order::retry);
    }

    fn change(&self, key: K, change: impl FnOnce(&mut Order, Slot)) {
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        let slot = state.keys.insert(key);
        change(&mut state.order, slot);
        drop(state);
        self.changed.notify_one();
    }

    pub fn forget(&self, key: &K) {
        let mut state = self.state.lock();
        if let Some(slot) = state.keys.get(key) {
            state.order.forget(slot);
            state.release();
        }
    }

    /// The next key, normal priority first, each in the order of arrival. The caller must call [`WorkQueue::done`].
    /// `None` once the queue is closed.
    pub async fn get(&self) -> Option<K> {
        self.next(true).await.map(|(key, _)| key)
    }

    /// As [`WorkQueue::get`], with the priority; without `low` only a key of normal priority. Dropping a waiting future
    /// loses no key.
    pub async fn next(&self, low: bool) -> Option<(K, Priority)> {
        loop {
            let next_due = {
                let mut state = self.state.lock();
                if state.closed {
                    return None;
                }
                state.order.promote(Instant::now());
                if let Some(next) = state.pop(low) {
                    return Some(next);
                }
                state.order.next_due()
            };
            match next_due {
                None => self.changed.notified().await,
                Some(due) => {
                    let _ = tokio::time::timeout_at(due, self.changed.notified()).await;
                }
            }
        }
    }

    /// Ends the processing of a key; it is queued again if it was added meanwhile.
    pub fn done(&self, key: &K) {
        let mut state = self.state.lock();
        let Some(slot) = state.keys.get(key) else { return };
        let is_queued = state.order.done(slot);
        state.release();
        drop(state);
        if is_queued {
            self.changed.notify_one();
        }
    }

    /// How many keys wait for a worker.
    pub fn waiting(&self) -> usize {
        self.state.lock().order.waiting()
    }

    /// How long a key that is being processed had waited for that.
    pub fn waited(&self, key: &K) -> Duration {
        let state = self.state.lock();
        state.keys.get(key).map_or(Duration::ZERO, |slot| state.order.waited(slot))
    }

    /// Lets every [`WorkQueue::get`] return `None`.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_waiters();
        self.changed.notify_one();
    }

    pub fn metrics(&self) -> QueueMetrics {
        self.state.lock().order.metrics()
    }
}

impl<K: Ord + Clone> State<K> {
    fn pop(&mut self, low: bool) -> Option<(K, Priority)> {
        let (slot, priority) = match &mut self.sorted {
            None => self.order.pop(low),
            Some(sorted) => {
                let queued = self.order.take_queued();
                sorted.extend(queued.into_iter().filter_map(|slot| Some((self.keys.key(slot)?.clone(), slot))));
                sorted.pop_first().map(|(_, slot)| {
                    self.order.process(slot);
                    (slot, Priority::Normal)
                })
            }
        }?;
        self.release();
        Some((self.keys.key(slot)?.clone(), priority))
    }

    /// Removes the keys about which nothing is left to store.
    fn release(&mut self) {
        while let Some(slot) = self.order.pop_idle() {
            self.keys.remove(slot);
            if self.keys.len() == 0 {
                self.order.shrink();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_is_queued_once_and_again_when_added_while_processed() {
        let queue = WorkQueue::new();
        queue.add_with("low", Priority::Low);
        queue.add_with("raised", Priority::Low);
        queue.add("a");
        queue.add("a");
        queue.add("raised");
        assert_eq!(queue.get().await, Some("a"));
        queue.add("a");
        assert_eq!(queue.get().await, Some("raised"));
        queue.done(&"a");
        assert_eq!(queue.get().await, Some("a"));
        assert_eq!(queue.get().await, Some("low"));
        assert_eq!(queue.metrics(), QueueMetrics { adds: 6, in_flight: 3, ..QueueMetrics::default() });
        for key in ["a", "raised", "low"] {
            queue.done(&key);
        }
        queue.close();
        assert_eq!(queue.get().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_sorted_queue_yields_the_least() {
        let queue = WorkQueue::sorted();
        queue.add_after(0, Duration::from_secs(1));
        for key in [3, 1, 2, 1] {
            queue.add(key);
        }
        assert_eq!(queue.get().await, Some(1));
        queue.add(1);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!((queue.get().await, queue.get().await), (Some(0), Some(2)));
        queue.done(&1);
        assert_eq!((queue.get().await, queue.get().await), (Some(1), Some(3)));
        assert_eq!(queue.waiting(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn without_priorities_keys_are_in_order_of_arrival() {
        for (queue, first) in [(WorkQueue::new(), 2), (WorkQueue::without_priorities(), 1)] {
            queue.add_with(1, Priority::Low);
            queue.add(2);
            assert_eq!(queue.get().await, Some(first));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_backlog_can_be_left_out() {
        let queue = WorkQueue::new();
        queue.add_with(1, Priority::Low);
        queue.add_with(2, Priority::Low);
        queue.add(2);
        assert_eq!(queue.next(false).await, Some((2, Priority::Normal)));
        let waiting = tokio::time::timeout(Duration::from_secs(9), queue.next(false)).await;
        assert!(waiting.is_err(), "{waiting:?}");
        assert_eq!(queue.waiting(), 1);
        assert_eq!(queue.next(true).await, Some((1, Priority::Low)));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_double_the_pause_until_forgotten() {
        let queue = WorkQueue::new();
        let start = Instant::now();
        let mut at = Vec::new();
        for _ in 0..3 {
            queue.add_rate_limited(1);
            let key = queue.get().await.expect("open");
            queue.done(&key);
            at.push(start.elapsed().as_millis());
        }
        assert_eq!(at, [5, 15, 35]);
        queue.forget(&1);
        queue.add_rate_limited(1);
        queue.add_after(1, Duration::from_secs(9));
        queue.get().await.expect("open");
        assert_eq!(start.elapsed().as_millis(), 40);
        assert_eq!(queue.metrics().delayed, 0, "the shortest delay counts");
    }
}
