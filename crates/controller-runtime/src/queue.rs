//! A queue of keys: each is queued once, processed by one worker at a time, and re-enqueued after failures with
//! back-off.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backoff::exponential;

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
    normal: VecDeque<K>,
    low: VecDeque<K>,
    /// A key found in a list at another priority than here is a leftover of a raise. With the time since when it waits.
    queued: BTreeMap<K, (Priority, Instant)>,
    processing: BTreeMap<K, Processing>,
    failures: BTreeMap<K, u32>,
    delayed: BTreeSet<(Instant, K)>,
    due: BTreeMap<K, Instant>,
    adds: u64,
    retries: u64,
    closed: bool,
    /// Whether keys are sorted instead of first in, first out. The lists are then empty.
    sorted: bool,
}

struct Processing {
    since: Instant,
    waited: Duration,
    /// The priority of an add that came meanwhile.
    again: Option<Priority>,
}

impl<K: Ord + Clone> Default for WorkQueue<K> {
    fn default() -> Self {
        let state = State {
            normal: VecDeque::new(),
            low: VecDeque::new(),
            queued: BTreeMap::new(),
            processing: BTreeMap::new(),
            failures: BTreeMap::new(),
            delayed: BTreeSet::new(),
            due: BTreeMap::new(),
            adds: 0,
            retries: 0,
            closed: false,
            sorted: false,
        };
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
        queue.state.lock().sorted = true;
        queue
    }

    pub fn add(&self, key: K) {
        self.add_with(key, Priority::Normal);
    }

    pub fn add_with(&self, key: K, priority: Priority) {
        let priority = if self.priorities { priority } else { Priority::Normal };
        self.state.lock().add(key, priority);
        self.changed.notify_one();
    }

    /// Adds later; of several delays of one key the shortest counts.
    pub fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        self.state.lock().delay(key, Instant::now() + delay);
        self.changed.notify_one();
    }

    /// Adds after a pause that doubles with each failure since [`WorkQueue::forget`]: 5 ms up to 1000 s.
    pub fn add_rate_limited(&self, key: K) {
        let mut state = self.state.lock();
        let failures = state.failures.entry(key.clone()).or_default();
        let pause = exponential(BASE_DELAY, MAX_DELAY, *failures);
        *failures = failures.saturating_add(1);
        state.retries += 1;
        state.delay(key, Instant::now() + pause);
        drop(state);
        self.changed.notify_one();
    }

    pub fn forget(&self, key: &K) {
        self.state.lock().failures.remove(key);
    }

    /// The next key, normal priority first, each in the order of arrival. The caller must call [`WorkQueue::done`].
    /// `None`
    /// once the queue is closed.
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
                state.promote(Instant::now());
                if let Some(next) = state.pop(low) {
                    return Some(next);
                }
                state.delayed.first().map(|(due, _)| *due)
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
        if let Some(Processing { again: Some(priority), .. }) = state.processing.remove(key) {
            state.enqueue(key.clone(), priority);
            drop(state);
            self.changed.notify_one();
        }
    }

    /// How many keys wait for a worker.
    pub fn waiting(&self) -> usize {
        self.state.lock().queued.len()
    }

    /// How long a key that is being processed had waited for that.
    pub fn waited(&self, key: &K) -> Duration {
        self.state.lock().processing.get(key).map_or(Duration::ZERO, |processing| processing.waited)
    }

    /// Lets every [`WorkQueue::get`] return `None`.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_waiters();
        self.changed.notify_one();
    }

    pub fn metrics(&self) -> QueueMetrics {
        let state = self.state.lock();
        let now = Instant::now();
        let running = || state.processing.values().map(|processing| now - processing.since);
        QueueMetrics {
            unfinished: running().sum(),
            longest_running: running().max().unwrap_or_default(),
            adds: state.adds,
            retries: state.retries,
            depth: state.queued.len(),
            in_flight: state.processing.len(),
            delayed: state.delayed.len(),
        }
    }
}

impl<K: Ord + Clone> State<K> {
    fn add(&mut self, key: K, priority: Priority) {
        if self.closed {
            return;
        }
        self.adds += 1;
        if let Some(processing) = self.processing.get_mut(&key) {
            processing.again = processing.again.max(Some(priority));
            return;
        }
        self.enqueue(key, priority);
    }

    fn enqueue(&mut self, key: K, priority: Priority) {
        let queued = self.queued.get(&key).copied();
        if queued.is_some_and(|(at, _)| at >= priority) {
            return;
        }
        let since = queued.map_or_else(Instant::now, |(_, since)| since);
        self.queued.insert(key.clone(), (priority, since));
        match priority {
            _ if self.sorted => {}
            Priority::Normal => self.normal.push_back(key),
            Priority::Low => self.low.push_back(key),
        }
    }

    fn pop(&mut self, low: bool) -> Option<(K, Priority)> {
        let least = if self.sorted { self.queued.keys().next().cloned() } else { None };
        let (key, priority) = match least.or_else(|| self.normal.pop_front()) {
            Some(key) => (key, Priority::Normal),
            None if !low => return None,
            None => {
                let is_low = |key: &K| self.queued.get(key).is_some_and(|(priority, _)| *priority == Priority::Low);
                (std::iter::from_fn(|| self.low.pop_front()).find(is_low)?, Priority::Low)
            }
        };
        let now = Instant::now();
        let waited = self.queued.remove(&key).map_or(Duration::ZERO, |(_, since)| now - since);
        self.processing.insert(key.clone(), Processing { since: now, waited, again: None });
        Some((key, priority))
    }

    fn delay(&mut self, key: K, at: Instant) {
        if self.closed {
            return;
        }
        match self.due.get(&key).copied() {
            Some(due) if due <= at => return,
            Some(due) => {
                self.delayed.remove(&(due, key.clone()));
            }
            None => {}
        }
        self.due.insert(key.clone(), at);
        self.delayed.insert((at, key));
    }

    fn promote(&mut self, now: Instant) {
        while self.delayed.first().is_some_and(|(due, _)| *due <= now) {
            if let Some((_, key)) = self.delayed.pop_first() {
                self.due.remove(&key);
                self.add(key, Priority::Normal);
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
    async fn without_priorities_the_order_of_arrival_counts() {
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
