//! Steps of the clock: how much time has passed since a stamp, although the clock was set forward or back in between.
//!
//! A process sees its clock step because the monotonic clock does not. Each step ends an era, in which both clocks ran
//! equally. A stamp belongs to the era that contains it; if several do, to the latest one, so that too little time has
//! passed rather than too much: what waits for a time then waits longer.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// Smaller differences between the clocks are adjustments.
const STEP: SignedDuration = SignedDuration::from_secs(2);
/// The remembered eras: a clock that steps more often is wrong all the time.
const ERAS: usize = 16;

/// Both clocks, read together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks {
    pub(crate) wall: Timestamp,
    /// Since any fixed point.
    pub(crate) monotonic: Duration,
}

/// A time between two steps.
#[derive(Clone, Copy, Debug)]
struct Era {
    begins: Timestamp,
    /// Its last stamp, and the monotonic time of that stamp.
    ends: Clocks,
}

impl Era {
    fn contains(&self, at: Timestamp) -> bool {
        self.begins <= at && at <= self.ends.wall
    }

    /// The time since a stamp of this era, or from before it. Later stamps count as its last one.
    fn since(&self, at: Timestamp, monotonic: Duration) -> SignedDuration {
        let until_end = self.ends.wall.duration_since(at.min(self.ends.wall));
        signed(monotonic.saturating_sub(self.ends.monotonic)).saturating_add(until_end)
    }
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

/// The observed steps.
#[derive(Debug)]
pub(crate) struct Steps(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Ended by steps, the oldest first.
    earlier: Arc<[Era]>,
    /// When the present era began.
    began: Timestamp,
    last: Clocks,
    count: u64,
}

impl Steps {
    pub(crate) fn new(first: Clocks) -> Self {
        let state = State { earlier: Arc::from([]), began: first.wall, last: first, count: 0 };
        Self(Mutex::new(state))
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.lock().count
    }

    /// Compares the clocks with their last reading.
    pub(crate) fn observe(&self, now: Clocks) -> Moment {
        let mut state = self.0.lock();
        // Another thread may have read the clocks after this one.
        let passed = now.monotonic.checked_sub(state.last.monotonic);
        if let Some(passed) = passed.map(signed) {
            let expected = state.last.wall.saturating_add(passed).unwrap_or(Timestamp::MAX);
            if now.wall.duration_since(expected).abs() > STEP {
                // The step was at any time since the last reading: the eras may overlap by that much.
                let ended = Clocks { wall: expected, monotonic: now.monotonic };
                let kept = state.earlier.len().saturating_sub(ERAS - 1);
                let era = Era { begins: state.began, ends: ended };
                state.earlier = state.earlier[kept..].iter().copied().chain([era]).collect();
                state.began = now.wall.saturating_sub(passed).unwrap_or(Timestamp::MIN);
                state.count += 1;
            }
            state.last = now;
        }
        Moment { now, began: state.began, earlier: Arc::clone(&state.earlier) }
    }
}

/// The time, and the time that has passed since others.
#[derive(Clone, Debug)]
pub struct Moment {
    now: Clocks,
    began: Timestamp,
    earlier: Arc<[Era]>,
}

impl Moment {
    pub fn now(&self) -> Timestamp {
        self.now.wall
    }

    /// The time that has passed since `at`, without steps of the clock that this process observed in between. Negative
    /// for a time of the future.
    pub fn since(&self, at: Timestamp) -> SignedDuration {
        let by_wall = self.now.wall.duration_since(at);
        if self.earlier.is_empty() || (self.began <= at && !by_wall.is_negative()) {
            return by_wall;
        }
        let of = |era: &Era| era.since(at, self.now.monotonic);
        let latest = |is_of: &dyn Fn(&Era) -> bool| self.earlier.iter().rev().find(|era| is_of(era)).map(of);
        if let Some(since) = latest(&|era| era.contains(at)) {
            return since;
        }
        // From before this process, or by another clock.
        match by_wall.is_negative() {
            true => latest(&|era| at <= era.ends.wall).unwrap_or(by_wall),
            false => self.earlier.iter().map(of).fold(by_wall, SignedDuration::min),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    /// Readings of `monotonic@wall` in seconds; then the seconds since each stamp, at the last reading.
    fn check(readings: &[(u64, i64)], stamps: &[(i64, i64)]) {
        let clocks =
            |(monotonic, wall): (u64, i64)| Clocks { wall: at(wall), monotonic: Duration::from_secs(monotonic) };
        let steps = Steps::new(clocks(readings[0]));
        let mut moment = steps.observe(clocks(readings[0]));
        for reading in &readings[1..] {
            moment = steps.observe(clocks(*reading));
        }
        for (stamp, expected) in stamps {
            assert_eq!(moment.since(at(*stamp)).as_secs(), *expected, "{readings:?} {stamp}");
        }
    }

    #[test]
    fn steps_pass_no_time() {
        // Without a step; a slow adjustment does not count as one.
        check(&[(0, 1000), (50, 1051), (100, 1102)], &[(900, 202), (1050, 52), (1102, 0), (1110, -8)]);
        // Forward by an hour, after second 20.
        let forward = [(0, 1000), (20, 1020), (25, 4625), (60, 4660)];
        check(
            &forward,
            &[(900, 160), (1000, 60), (1020, 40), (1025, 35), (2000, 35), (4621, 39), (4660, 0), (4700, -40)],
        );
        // Back by an hour.
        let back = [(0, 10_000), (20, 10_020), (25, 6_425), (60, 6_460)];
        check(
            &back,
            &[(6_430, 30), (6_420, 40), (10_000, 60), (10_020, 40), (9_000, 1060), (6_000, 460), (20_000, -13_540)],
        );
        // Forward by a day and back again.
        let both = [(0, 1000), (20, 1020), (25, 87_425), (40, 87_440), (45, 1045), (60, 1060)];
        check(&both, &[(1010, 50), (87_430, 30), (1050, 10), (900, 160), (40_000, 47_460), (90_000, -88_940)]);
        // The clock was a year behind until then: stamps from before this process count from the step.
        check(&[(0, 1000), (5, 31_000_005), (60, 31_000_060)], &[(30_000_000, 55), (900, 160)]);
    }

    #[test]
    fn steps_are_bounded_and_readings_may_be_late() {
        let clocks = |monotonic: u64, wall: i64| Clocks { wall: at(wall), monotonic: Duration::from_secs(monotonic) };
        let steps = Steps::new(clocks(0, 0));
        for n in 1..100_u64 {
            steps.observe(clocks(n, i64::try_from(n).expect("small") * 1000));
        }
        let moment = steps.observe(clocks(98, 98_000));
        assert_eq!((steps.count(), moment.earlier.len(), moment.since(at(98_000)).as_secs()), (99, ERAS, 1));
    }
}
