//! Random histories of a queue against a slow model: a list of what each key waits for.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;
use world::World;

use super::{Priority, WorkQueue};

#[derive(Default)]
struct Key {
    queued: Option<Priority>,
    /// The priority of an add during the pass, once there is one.
    processed: Option<Option<Priority>>,
    /// With the number of the call.
    due: Option<(Instant, u64)>,
    failures: u32,
}

#[derive(Default)]
struct Model {
    keys: BTreeMap<u64, Key>,
    /// Waiting keys in the order in which each came to its priority.
    waiting: Vec<(Priority, u64)>,
    delays: u64,
}

impl Model {
    fn add(&mut self, key: u64, priority: Priority) {
        let entry = self.keys.entry(key).or_default();
        if let Some(again) = &mut entry.processed {
            *again = (*again).max(Some(priority));
        } else if entry.queued < Some(priority) {
            entry.queued = Some(priority);
            self.waiting.retain(|(_, other)| *other != key);
            self.waiting.push((priority, key));
        }
    }

    fn delay(&mut self, key: u64, at: Instant) {
        self.delays += 1;
        let due = &mut self.keys.entry(key).or_default().due;
        *due = Some(due.map_or((at, self.delays), |due| due.min((at, self.delays))));
    }

    fn promote(&mut self) {
        let mut due: Vec<_> = self.keys.iter().filter_map(|(key, entry)| Some((entry.due?, *key))).collect();
        due.sort();
        for (_, key) in due.into_iter().filter(|((at, _), _)| *at <= Instant::now()) {
            self.keys.entry(key).or_default().due = None;
            self.add(key, Priority::Normal);
        }
    }

    fn pop(&mut self, low: bool, sorted: bool) -> Option<(u64, Priority)> {
        self.promote();
        let mut waiting: Vec<_> = self.waiting.clone();
        match sorted {
            true => waiting.sort_by_key(|(_, key)| *key),
            false => waiting.sort_by_key(|(priority, _)| std::cmp::Reverse(*priority)),
        }
        let (priority, key) = waiting.into_iter().find(|(priority, _)| low || *priority == Priority::Normal)?;
        self.waiting.retain(|(_, other)| *other != key);
        let entry = self.keys.get_mut(&key)?;
        (entry.queued, entry.processed) = (None, Some(None));
        Some((key, priority))
    }
}

#[tokio::test(start_paused = true)]
async fn random_histories_equal_the_model() {
    for seed in 0..400 {
        let world = World::simulated("2026-01-01T00:00:00Z".parse().expect("a time"), seed);
        let sorted = seed % 4 == 0;
        let (queue, mut model) = (if sorted { WorkQueue::sorted() } else { WorkQueue::new() }, Model::default());
        let mut running = Vec::new();
        for step in 0..300_u64 {
            let key = world.random_u64() % 6;
            match world.random_u64() % 8 {
                0 | 1 => {
                    let low = !sorted && world.random_u64().is_multiple_of(2);
                    let priority = if low { Priority::Low } else { Priority::Normal };
                    queue.add_with(key, priority);
                    model.add(key, priority);
                }
                2 => {
                    let delay = Duration::from_millis(1 + world.random_u64() % 20);
                    queue.add_after(key, delay);
                    model.delay(key, Instant::now() + delay);
                }
                3 => {
                    queue.add_rate_limited(key);
                    let entry = model.keys.entry(key).or_default();
                    let pause = Duration::from_millis(5) * 2_u32.pow(entry.failures.min(16));
                    entry.failures += 1;
                    model.delay(key, Instant::now() + pause);
                }
                4 => {
                    queue.forget(&key);
                    model.keys.entry(key).or_default().failures = 0;
                }
                5 => tokio::time::advance(Duration::from_micros(world.random_u64() % 20_000)).await,
                6 if !running.is_empty() => {
                    let key = running.swap_remove(usize::try_from(key).expect("small") % running.len());
                    queue.done(&key);
                    let again = model.keys.get_mut(&key).and_then(|entry| entry.processed.take()).flatten();
                    again.into_iter().for_each(|priority| model.add(key, priority));
                }
                _ => {
                    let low = world.random_u64().is_multiple_of(2);
                    let next = queue.next(low).now_or_never().flatten();
                    assert_eq!(next, model.pop(low || sorted, sorted), "seed {seed}, step {step}");
                    running.extend(next.map(|(key, _)| key));
                }
            }
            assert_eq!(queue.waiting(), model.waiting.len(), "seed {seed}, step {step}");
        }
        for key in 0..6 {
            queue.forget(&key);
        }
        loop {
            tokio::time::advance(Duration::from_secs(2000)).await;
            running.drain(..).for_each(|key| queue.done(&key));
            let Some(key) = queue.get().now_or_never().flatten() else { break };
            running.push(key);
        }
        let state = queue.state.lock();
        assert_eq!((state.keys.len(), state.order.waiting()), (0, 0), "seed {seed}: a key outlives its work");
    }
}
