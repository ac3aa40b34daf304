//! Which key is next, by the numbers of keys.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::backlog::{Backlog, Share};
use super::{BASE_DELAY, MAX_DELAY, Priority, QueueMetrics};
use crate::backoff::exponential;
use crate::keys::{RETAINED, Slot};

#[derive(Default)]
pub(super) struct Order {
    entries: Vec<Entry>,
    normal: VecDeque<Slot>,
    /// With the number of the add: an entry with another number than its key's is a leftover of a raised priority.
    low: VecDeque<(u64, Slot)>,
    /// Of keys that are due at the same time, the first delayed is first.
    delayed: BTreeSet<(Instant, u64, Slot)>,
    processing: BTreeMap<Slot, Processing>,
    queued: Share,
    /// How many delays and adds of low priority there were.
    numbers: u64,
    adds: u64,
    retries: u64,
    /// Keys about which nothing is left to store. The owner of the numbers takes them.
    idle: Vec<Slot>,
}

#[derive(Clone, Default)]
struct Entry {
    /// With the time since when the key waits.
    queued: Option<(Priority, Instant)>,
    due: Option<(Instant, u64)>,
    failures: u32,
    /// The number of the last add of low priority.
    low: u64,
    is_processed: bool,
}

impl Entry {
    fn is_idle(&self) -> bool {
        self.queued.is_none() && self.due.is_none() && self.failures == 0 && !self.is_processed
    }
}

struct Processing {
    since: Instant,
    waited: Duration,
    /// The priority of an add that came meanwhile.
    again: Option<Priority>,
}

impl Order {
    pub(super) fn count_in(&mut self, backlog: Backlog) {
        self.queued = Share::of(backlog);
    }

    pub(super) fn add(&mut self, slot: Slot, priority: Priority) {
        self.adds += 1;
        match self.processing.get_mut(&slot) {
            Some(processing) => processing.again = processing.again.max(Some(priority)),
            None => self.enqueue(slot, priority),
        }
    }

    fn entry(&mut self, slot: Slot) -> &mut Entry {
        if slot >= self.entries.len() {
            self.entries.resize(slot + 1, Entry::default());
        }
        &mut self.entries[slot]
    }

    fn enqueue(&mut self, slot: Slot, priority: Priority) {
        let number = self.numbers + 1;
        let entry = self.entry(slot);
        let queued = entry.queued;
        if queued.is_some_and(|(at, _)| at >= priority) {
            return;
        }
        let since = queued.map_or_else(Instant::now, |(_, since)| since);
        entry.queued = Some((priority, since));
        match priority {
            Priority::Normal => self.normal.push_back(slot),
            Priority::Low => {
                entry.low = number;
                self.numbers = number;
                self.low.push_back((number, slot));
            }
        }
        if queued.is_none() {
            self.queued.increase();
        }
    }

    /// The next key, which is being processed from now on.
    pub(super) fn pop(&mut self, low: bool) -> Option<(Slot, Priority)> {
        if let Some(slot) = self.normal.pop_front() {
            self.process(slot);
            return Some((slot, Priority::Normal));
        }
        if !low {
            return None;
        }
        while let Some((number, slot)) = self.low.pop_front() {
            let entry = self.entry(slot);
            if entry.low == number && matches!(entry.queued, Some((Priority::Low, _))) {
                self.process(slot);
                return Some((slot, Priority::Low));
            }
        }
        None
    }

    /// The keys of normal priority, for a caller that chooses among them and calls [`Order::process`].
    pub(super) fn take_queued(&mut self) -> VecDeque<Slot> {
        std::mem::take(&mut self.normal)
    }

    pub(super) fn process(&mut self, slot: Slot) {
        let now = Instant::now();
        let entry = self.entry(slot);
        entry.is_processed = true;
        let queued = entry.queued.take();
        if queued.is_some() {
            self.queued.decrease();
        }
        let waited = queued.map_or(Duration::ZERO, |(_, since)| now - since);
        self.processing.insert(slot, Processing { since: now, waited, again: None });
    }

    /// Ends the processing of a key; whether it is queued again.
    pub(super) fn done(&mut self, slot: Slot) -> bool {
        let Some(processing) = self.processing.remove(&slot) else { return false };
        self.entry(slot).is_processed = false;
        if let Some(priority) = processing.again {
            self.enqueue(slot, priority);
        }
        self.settle(slot);
        processing.again.is_some()
    }

    pub(super) fn waited(&self, slot: Slot) -> Duration {
        self.processing.get(&slot).map_or(Duration::ZERO, |processing| processing.waited)
    }

    pub(super) fn delay(&mut self, slot: Slot, at: Instant) {
        self.numbers += 1;
        let due = (at, self.numbers);
        let entry = self.entry(slot);
        let before = entry.due;
        if before.is_some_and(|(before, _)| before <= at) {
            return;
        }
        entry.due = Some(due);
        if let Some((at, number)) = before {
            self.delayed.remove(&(at, number, slot));
        }
        self.delayed.insert((due.0, due.1, slot));
    }

    /// Delays a key that failed once more.
    pub(super) fn retry(&mut self, slot: Slot) {
        self.retries += 1;
        let entry = self.entry(slot);
        let pause = exponential(BASE_DELAY, MAX_DELAY, entry.failures);
        entry.failures = entry.failures.saturating_add(1);
        self.delay(slot, Instant::now() + pause);
    }

    pub(super) fn forget(&mut self, slot: Slot) {
        let entry = self.entry(slot);
        if entry.failures > 0 {
            entry.failures = 0;
            self.settle(slot);
        }
    }

    /// Adds the keys that are due.
    pub(super) fn promote(&mut self, now: Instant) {
        while let Some((_, _, slot)) = self.delayed.first().copied().filter(|(due, ..)| *due <= now) {
            self.delayed.pop_first();
            self.entry(slot).due = None;
            self.add(slot, Priority::Normal);
        }
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.delayed.first().map(|(due, ..)| *due)
    }

    fn settle(&mut self, slot: Slot) {
        if self.entry(slot).is_idle() {
            self.idle.push(slot);
        }
    }

    pub(super) fn pop_idle(&mut self) -> Option<Slot> {
        self.idle.pop()
    }

    /// Returns the memory of a burst, once no key is left.
    pub(super) fn shrink(&mut self) {
        if self.entries.capacity() > RETAINED {
            self.entries = Vec::new();
            self.normal = VecDeque::new();
            self.low = VecDeque::new();
        }
    }

    /// How many keys wait for a worker.
    pub(super) fn waiting(&self) -> usize {
        self.queued.waiting()
    }

    pub(super) fn metrics(&self) -> QueueMetrics {
        let now = Instant::now();
        let running = || self.processing.values().map(|processing| now - processing.since);
        QueueMetrics {
            unfinished: running().sum(),
            longest_running: running().max().unwrap_or_default(),
            adds: self.adds,
            retries: self.retries,
            depth: self.queued.waiting(),
            in_flight: self.processing.len(),
            delayed: self.delayed.len(),
        }
    }
}
