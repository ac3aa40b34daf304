//! Serializes the writers of one object. A write reads the object, changes it, and is refused by the store if another
//! one was stored meanwhile; of many concurrent writers all but one would work in vain.
//!
//! This saves work and guards nothing: only the store decides whether a write is valid. So a blocked writer does not
//! block others for longer than [`PATIENCE`], even if it waits for one of them (a webhook that writes the object it is
//! called for).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::time::Duration;

use apimachinery::ObjectKey;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::schedule::{Order, Rank, Schedule};

/// The maximum wait for another writer: a hundred times the duration of a write.
const PATIENCE: Duration = Duration::from_secs(1);

/// The objects that are being written. Objects whose hashes are the same follow each other too.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    hasher: RandomState,
    lines: Mutex<HashMap<u64, Line>>,
}

/// The writers of one object, fair to their users.
#[derive(Debug)]
struct Line {
    /// The number of admitted writers.
    entered: u64,
    writing: usize,
    /// The user of the first writer. Most are alone, so the schedule begins with the second one.
    first: u64,
    schedule: Option<Box<Schedule<u64, oneshot::Sender<()>>>>,
}

/// The permission to write, or a position in the line; dropped when the write ends or is cancelled.
#[derive(Debug)]
pub(crate) struct Writing<'a> {
    writers: &'a Writers,
    line: u64,
    user: u64,
    /// While it waits.
    turn: Option<oneshot::Receiver<()>>,
}

impl Writers {
    /// Waits for the writers of the object before this one. Users take turns: each user's writer waits for at most one
    /// writer of another user.
    pub(crate) async fn follow(&self, place: impl Hash, key: &ObjectKey, user: &str) -> Writing<'_> {
        let (line, user) = (self.hasher.hash_one((place, key)), self.hasher.hash_one(user));
        let (turn, mut seen) = self.enter(line, user);
        let mut writing = Writing { writers: self, line, user, turn };
        while let Some(turn) = &mut writing.turn {
            if tokio::time::timeout(PATIENCE, &mut *turn).await.is_ok() {
                writing.turn = None;
            } else if let Some(entered) = self.progress(line, seen) {
                seen = entered;
            } else {
                // Continues beside a writer that does not end.
                turn.close();
                if turn.try_recv().is_err() {
                    self.begin(line, user);
                }
                writing.turn = None;
            }
        }
        writing
    }

    /// The turn to wait for, unless no write is in flight, and the number of admitted writers.
    fn enter(&self, line: u64, user: u64) -> (Option<oneshot::Receiver<()>>, u64) {
        let mut lines = self.lines.lock();
        match lines.entry(line) {
            Entry::Vacant(line) => (None, line.insert(Line::of(user)).entered),
            Entry::Occupied(line) => {
                let (line, (sender, turn)) = (line.into_mut(), oneshot::channel());
                line.schedule().push(user, Order::OldestFirst, Rank::New, sender);
                (Some(turn), line.entered)
            }
        }
    }

    /// Admits a writer beside others.
    fn begin(&self, line: u64, user: u64) {
        match self.lines.lock().entry(line) {
            Entry::Vacant(line) => drop(line.insert(Line::of(user))),
            Entry::Occupied(mut line) => line.get_mut().begin(user),
        }
    }

    /// The number of admitted writers, if it has grown.
    fn progress(&self, line: u64, seen: u64) -> Option<u64> {
        self.lines.lock().get(&line).map(|line| line.entered).filter(|entered| *entered != seen)
    }

    fn leave(&self, place: u64, user: u64) {
        let mut lines = self.lines.lock();
        let Some(line) = lines.get_mut(&place) else { return };
        line.writing = line.writing.saturating_sub(1);
        if let Some(schedule) = &mut line.schedule {
            schedule.end(user, 1);
            while line.writing == 0 {
                let Some((user, turn)) = schedule.pick(|turn| !turn.is_closed()) else { break };
                if turn.send(()).is_ok() {
                    line.writing += 1;
                    line.entered += 1;
                } else {
                    schedule.end(user, 0);
                }
            }
        }
        if line.writing == 0 {
            lines.remove(&place);
        }
    }
}

impl Line {
    fn of(first: u64) -> Self {
        Self { entered: 1, writing: 1, first, schedule: None }
    }

    fn schedule(&mut self) -> &mut Schedule<u64, oneshot::Sender<()>> {
        let first = self.first;
        self.schedule.get_or_insert_with(|| {
            let mut schedule = Box::<Schedule<_, _>>::default();
            schedule.begin(first);
            schedule
        })
    }

    fn begin(&mut self, user: u64) {
        self.schedule().begin(user);
        self.writing += 1;
        self.entered += 1;
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let let_in = self.turn.as_mut().is_none_or(|turn| {
            turn.close();
            turn.try_recv().is_ok()
        });
        if let_in {
            self.writers.leave(self.line, self.user);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn key() -> ObjectKey {
        ObjectKey::namespaced("ns", "a")
    }

    /// Writers that each take a second, in the order in which they were let in.
    async fn order(arrivals: Vec<&'static str>) -> Vec<&'static str> {
        let (writers, order) = (Arc::new(Writers::default()), Arc::new(Mutex::new(Vec::new())));
        let tasks: Vec<_> = arrivals
            .into_iter()
            .map(|user| {
                let (writers, order) = (Arc::clone(&writers), Arc::clone(&order));
                tokio::spawn(async move {
                    let _writing = writers.follow("core/xs", &key(), user).await;
                    order.lock().push(user);
                    tokio::time::sleep(PATIENCE / 2).await;
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
        assert!(writers.lines.lock().is_empty(), "nothing is left of a line without writers");
        order.lock().clone()
    }

    #[tokio::test(start_paused = true)]
    async fn writers_of_one_object_alternate_between_users() {
        assert_eq!(order(vec!["a", "a", "a", "a", "b"]).await, ["a", "b", "a", "a", "a"]);
        let crowd: Vec<_> = [vec!["a"; 100], vec!["b", "c"]].concat();
        let order = order(crowd).await;
        for user in ["b", "c"] {
            assert!(order.iter().position(|known| *known == user) < Some(5), "{user} waits for a crowd: {order:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn other_objects_are_written_meanwhile() {
        let writers = Writers::default();
        let begun = tokio::time::Instant::now();
        let _one = writers.follow("core/xs", &key(), "a").await;
        let _other = writers.follow("core/xs", &ObjectKey::namespaced("ns", "b"), "a").await;
        let _elsewhere = writers.follow("core/ys", &key(), "a").await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_writer_waits_for_another_for_a_bounded_time() {
        let writers = Writers::default();
        let begun = tokio::time::Instant::now();
        let outer = writers.follow("core/xs", &key(), "a").await;
        let inner = writers.follow("core/xs", &key(), "b").await;
        assert_eq!(begun.elapsed(), PATIENCE);
        drop((inner, outer));
        assert!(writers.lines.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_writer_passes_its_turn_on() {
        let writers = Writers::default();
        let first = writers.follow("core/xs", &key(), "a").await;
        let key = key();
        let mut gives_up = Box::pin(writers.follow("core/xs", &key, "b"));
        let mut waits = Box::pin(writers.follow("core/xs", &key, "c"));
        assert!(futures::poll!(gives_up.as_mut()).is_pending());
        assert!(futures::poll!(waits.as_mut()).is_pending());
        drop(first);
        // It got its turn and was never polled.
        drop(gives_up);
        assert!(futures::poll!(waits.as_mut()).is_ready());
    }
}
