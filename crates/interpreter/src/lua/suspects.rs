//! Scripts that exhausted their budget. They would do so again for every object and every retry, and take processor
//! time from all others: together they share one slot, for a fraction of the time.

use std::collections::HashSet;
use std::ops::Range;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// After a run that exhausts its budget, no such script runs for this many times its duration: at most a fifth of one
/// core is used.
const REST: i32 = 4;
/// The maximum number of remembered scripts; a changed customization is a new script.
const MOST: usize = 1024;

#[derive(Default)]
pub struct Suspects(Mutex<State>);

#[derive(Default)]
struct State {
    scripts: HashSet<u64>,
    running: bool,
    /// From the end of a run; before it, the clock was set back.
    rest: Range<Timestamp>,
}

/// How a script runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    Trusted,
    Watched,
}

impl Suspects {
    /// `None` for a script that has to wait.
    pub fn enter(&self, script: u64, now: Timestamp) -> Option<Run> {
        let mut state = self.0.lock();
        if !state.scripts.contains(&script) {
            return Some(Run::Trusted);
        }
        if state.running || state.rest.contains(&now) {
            return None;
        }
        state.running = true;
        Some(Run::Watched)
    }

    pub fn leave(&self, script: u64, run: Run, exhausted: bool, from: Timestamp, to: Timestamp) {
        let mut state = self.0.lock();
        if run == Run::Watched {
            state.running = false;
        }
        if exhausted {
            if state.scripts.len() >= MOST {
                state.scripts.clear();
            }
            state.scripts.insert(script);
            let rest = to.duration_since(from).max(SignedDuration::ZERO).saturating_mul(REST);
            let until = to.checked_add(rest).unwrap_or(Timestamp::MAX);
            let earlier = if state.rest.contains(&to) { state.rest.end } else { until };
            state.rest = to..earlier.max(until);
        } else if run == Run::Watched {
            state.scripts.remove(&script);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_rests_by_the_clock_unless_it_is_set_back() {
        let at = |second: i64| Timestamp::from_second(second).expect("a time");
        let suspects = Suspects::default();
        suspects.leave(1, Run::Trusted, true, at(1000), at(1010));
        for (second, expected) in [(1010, None), (1049, None), (1050, Some(Run::Watched))] {
            assert_eq!(suspects.enter(1, at(second)), expected, "{second}");
        }
        suspects.leave(1, Run::Watched, true, at(1050), at(1060));
        assert_eq!(suspects.enter(1, at(1070)), None);
        assert_eq!(suspects.enter(1, at(10)), Some(Run::Watched));
    }
}
