//! Earlier recommendations and changes of one FederatedHPA: they keep replicas from fluctuating.

use std::cmp::Ordering;

use jiff::{SignedDuration, Timestamp};

use crate::spec::Behavior;

/// A number at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When.
    pub at: Timestamp,
    /// The recommended replicas, or the size of the change.
    pub replicas: i32,
}

/// Earlier decisions. A new controller has none, and recommends the current replicas first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    pub(crate) recommendations: Vec<Mark>,
    pub(crate) ups: Vec<Mark>,
    pub(crate) downs: Vec<Mark>,
}

impl History {
    /// The history of a controller that has run for longer than any window without a recommendation, so no number is
    /// stabilized. For decisions outside the controller.
    pub fn outdated() -> Self {
        Self { recommendations: vec![Mark { at: Timestamp::MIN, replicas: 0 }], ..Self::default() }
    }

    /// The recommendations before stabilization, oldest first.
    pub fn recommendations(&self) -> &[Mark] {
        &self.recommendations
    }

    /// Before the first decision the current replicas are recommended. Marks after `now` are from before the clock was
    /// set back, and would count until it is there again.
    pub(crate) fn begin(&mut self, now: Timestamp, current: i32) {
        for marks in [&mut self.recommendations, &mut self.ups, &mut self.downs] {
            marks.retain(|mark| mark.at <= now);
        }
        if self.recommendations.is_empty() {
            self.recommendations.push(Mark { at: now, replicas: current });
        }
    }

    /// Records a recommendation; those before `oldest` are dropped.
    pub(crate) fn recommend(&mut self, now: Timestamp, replicas: i32, oldest: Timestamp) {
        self.recommendations.retain(|mark| mark.at >= oldest);
        self.recommendations.push(Mark { at: now, replicas });
    }

    /// Records a change that was written. Without a behavior there is no limit that needs it.
    pub fn scaled(&mut self, behavior: Option<&Behavior>, now: Timestamp, from: i32, to: i32) {
        let Some(behavior) = behavior else { return };
        let change = Mark { at: now, replicas: from.abs_diff(to).try_into().unwrap_or(i32::MAX) };
        let marks = match to.cmp(&from) {
            Ordering::Greater => &mut self.ups,
            Ordering::Less => &mut self.downs,
            Ordering::Equal => return,
        };
        // Both directions' policies count both kinds of changes.
        let policies = behavior.up.policies.iter().chain(&behavior.down.policies);
        let longest = policies.map(|policy| policy.period).max().unwrap_or(0);
        marks.retain(|mark| mark.at > before(now, longest));
        marks.push(change);
    }
}

/// The sum of changes in the last seconds.
pub(crate) fn changed(marks: &[Mark], now: Timestamp, seconds: i64) -> i32 {
    let cutoff = before(now, seconds);
    marks.iter().filter(|mark| mark.at > cutoff).fold(0, |sum, mark| sum.saturating_add(mark.replicas))
}

/// A time that many seconds earlier.
pub(crate) fn before(now: Timestamp, seconds: i64) -> Timestamp {
    now.checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN)
}
