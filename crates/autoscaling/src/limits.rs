//! From the recommendation of the metrics to the number that is written: stabilization, rates and bounds.

use jiff::Timestamp;

use crate::Settings;
use crate::conditions::{ABLE_TO_SCALE, Condition, SCALING_LIMITED};
use crate::history::{self, History};
use crate::spec::{Behavior, Change, Rules, Select, Spec};

/// The replicas after each step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limited {
    /// After stabilization.
    pub stabilized: i32,
    /// After rates and bounds.
    pub desired: i32,
    /// AbleToScale and ScalingLimited.
    pub conditions: [Condition; 2],
}

/// A bound or a rate: the number, the reason and its message.
type Limit = (i32, &'static str, &'static str);

const TOO_FEW: (&str, &str) = ("TooFewReplicas", "the desired replica count is less than the minimum replica count");
const TOO_MANY: (&str, &str) = ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const UP_LIMIT: (&str, &str) =
    ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const DOWN_LIMIT: (&str, &str) =
    ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate");
const IN_RANGE: (&str, &str) = ("DesiredWithinRange", "the desired count is within the acceptable range");

const LOWER_BEFORE: (&str, &str) = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const HIGHER_BEFORE: (&str, &str) = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);

/// Applies all limits to a recommendation and records it.
pub(crate) fn apply(
    spec: &Spec,
    settings: &Settings,
    history: &mut History,
    now: Timestamp,
    current: i32,
    recommended: i32,
) -> Limited {
    let (stabilized, why) = match &spec.behavior {
        None => (highest(settings, history, now, recommended), HIGHER_BEFORE),
        Some(behavior) => {
            let why = if recommended >= current { LOWER_BEFORE } else { HIGHER_BEFORE };
            (within_windows(behavior, settings, history, now, (current, recommended)), why)
        }
    };
    let able = match stabilized == recommended {
        true => ("ReadyForNewScale", "recommended size matches current size"),
        false => why,
    };
    let (desired, reason, message) = match &spec.behavior {
        None => by_default(spec, current, stabilized),
        Some(behavior) => by_rates(spec, behavior, history, now, (current, stabilized)),
    };
    let conditions = [
        Condition::new(ABLE_TO_SCALE, true, able.0, able.1),
        Condition::new(SCALING_LIMITED, desired != stabilized, reason, message),
    ];
    Limited { stabilized, desired, conditions }
}

/// The highest recommendation of the window of the flag.
fn highest(settings: &Settings, history: &mut History, now: Timestamp, recommended: i32) -> i32 {
    let cutoff = history::before(now, settings.downscale_stabilization.as_secs());
    let recent = history.recommendations.iter().filter(|mark| mark.at >= cutoff).map(|mark| mark.replicas);
    let highest = recent.fold(recommended, i32::max);
    history.recommend(now, recommended, cutoff);
    highest
}

/// The number nearest to the current one, between the lowest recommendation of the window of growth and the highest of
/// the window of shrinkage.
fn within_windows(
    behavior: &Behavior,
    settings: &Settings,
    history: &mut History,
    now: Timestamp,
    (current, recommended): (i32, i32),
) -> i32 {
    let up = history::before(now, behavior.up.window.unwrap_or(0));
    let down = behavior.down.window.unwrap_or(settings.downscale_stabilization.as_secs());
    let down = history::before(now, down);
    let recent = |cutoff| history.recommendations.iter().filter(move |mark| mark.at > cutoff).map(|mark| mark.replicas);
    let lowest = recent(up).fold(recommended, i32::min);
    let highest = recent(down).fold(recommended, i32::max);
    history.recommend(now, recommended, up.min(down));
    current.max(lowest).min(highest)
}

/// Without a behavior: to twice the size or 4 at a time.
fn by_default(spec: &Spec, current: i32, proposed: i32) -> Limit {
    let rate = current.saturating_mul(2).max(4);
    let (most, why) = if spec.max > rate { (rate, UP_LIMIT) } else { (spec.max, TOO_MANY) };
    if proposed < spec.min {
        (spec.min, TOO_FEW.0, TOO_FEW.1)
    } else if proposed > most {
        (most, why.0, why.1)
    } else {
        (proposed, IN_RANGE.0, IN_RANGE.1)
    }
}

/// By the policies of a behavior.
fn by_rates(
    spec: &Spec,
    behavior: &Behavior,
    history: &History,
    now: Timestamp,
    (current, proposed): (i32, i32),
) -> Limit {
    let limit = if proposed > current {
        let rate = highest_by(&behavior.up, history, now, current).max(current);
        let (most, why) = if spec.max > rate { (rate, UP_LIMIT) } else { (spec.max, TOO_MANY) };
        (proposed > most).then_some((most, why))
    } else if proposed < current {
        let rate = lowest_by(&behavior.down, history, now, current).min(current);
        let (least, why) = if spec.min < rate { (rate, DOWN_LIMIT) } else { (spec.min, TOO_FEW) };
        (proposed < least).then_some((least, why))
    } else {
        None
    };
    let (replicas, why) = limit.unwrap_or((proposed, IN_RANGE));
    (replicas, why.0, why.1)
}

/// The replicas at the begin of a policy's period.
fn at_start(history: &History, now: Timestamp, current: i32, period: i64) -> i32 {
    let added = history::changed(&history.ups, now, period);
    let removed = history::changed(&history.downs, now, period);
    current.saturating_sub(added).saturating_add(removed)
}

fn highest_by(rules: &Rules, history: &History, now: Timestamp, current: i32) -> i32 {
    let limits = rules.policies.iter().map(|policy| {
        let start = at_start(history, now, current, policy.period);
        match policy.change {
            Change::Pods(count) => start.saturating_add(count),
            // Rounded up: growth by a part of a replica would never begin.
            Change::Percent(percent) => (f64::from(start) * (1.0 + f64::from(percent) / 100.0)).ceil() as i32,
        }
    });
    match rules.select {
        Select::Disabled => current,
        Select::Min => limits.min().unwrap_or(i32::MAX),
        Select::Max => limits.max().unwrap_or(i32::MIN),
    }
}

fn lowest_by(rules: &Rules, history: &History, now: Timestamp, current: i32) -> i32 {
    let limits = rules.policies.iter().map(|policy| {
        let start = at_start(history, now, current, policy.period);
        match policy.change {
            Change::Pods(count) => start.saturating_sub(count),
            Change::Percent(percent) => (f64::from(start) * (1.0 - f64::from(percent) / 100.0)) as i32,
        }
    });
    match rules.select {
        Select::Disabled => current,
        // The smallest change leaves the most replicas.
        Select::Min => limits.max().unwrap_or(i32::MIN),
        Select::Max => limits.min().unwrap_or(i32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::history::Mark;
    use crate::spec::Policy;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn spec(min: i32, max: i32, behavior: Option<Behavior>) -> Spec {
        Spec { min, max, metrics: Vec::new(), behavior }
    }

    fn rules(window: i64, select: Select, policies: &[(Change, i64)]) -> Rules {
        let policies = policies.iter().map(|(change, period)| Policy { change: *change, period: *period }).collect();
        Rules { window: Some(window), select, policies, tolerance: None }
    }

    fn marks(list: &[(i64, i32)]) -> Vec<Mark> {
        list.iter().map(|(second, replicas)| Mark { at: at(*second), replicas: *replicas }).collect()
    }

    type Marks = &'static [(i64, i32)];

    fn shown(it: &Limited) -> String {
        format!("{} {} {} {}", it.stabilized, it.conditions[0].reason, it.desired, it.conditions[1].reason)
    }

    #[test]
    fn without_a_behavior() {
        let rows: [(Marks, i32, i32, i32, &str); 8] = [
            (&[], 4, 6, 10, "6 ReadyForNewScale 6 DesiredWithinRange"),
            (&[], 4, 9, 10, "9 ReadyForNewScale 8 ScaleUpLimit"),
            (&[], 1, 9, 10, "9 ReadyForNewScale 4 ScaleUpLimit"),
            (&[], 4, 9, 8, "9 ReadyForNewScale 8 TooManyReplicas"),
            (&[], 4, 1, 8, "1 ReadyForNewScale 2 TooFewReplicas"),
            (&[(700, 5)], 6, 3, 8, "5 ScaleDownStabilized 5 DesiredWithinRange"),
            (&[(699, 5)], 6, 3, 8, "3 ReadyForNewScale 3 DesiredWithinRange"),
            (&[(800, 7), (900, 1)], 6, 3, 8, "7 ScaleDownStabilized 7 DesiredWithinRange"),
        ];
        for (recommendations, current, recommended, max, expected) in rows {
            let mut history = History { recommendations: marks(recommendations), ..History::default() };
            let settings = Settings { downscale_stabilization: SignedDuration::from_secs(300), ..Settings::default() };
            let limited = apply(&spec(2, max, None), &settings, &mut history, at(1000), current, recommended);
            assert_eq!(shown(&limited), expected, "{recommendations:?} {current} {recommended}");
            assert_eq!(history.recommendations.last(), Some(&Mark { at: at(1000), replicas: recommended }));
        }
    }

    #[test]
    fn windows() {
        let rows: [(Marks, i32, i32, &str); 6] = [
            (&[(950, 5)], 4, 8, "5 ScaleUpStabilized"),
            (&[(950, 2)], 4, 8, "4 ScaleUpStabilized"),
            (&[(940, 5)], 4, 8, "8 ReadyForNewScale"),
            (&[(900, 5)], 8, 2, "5 ScaleDownStabilized"),
            (&[(880, 5)], 8, 2, "2 ReadyForNewScale"),
            (&[(950, 9)], 8, 2, "8 ScaleDownStabilized"),
        ];
        let free = [(Change::Percent(10000), 15)];
        let behavior = Behavior { up: rules(60, Select::Max, &free), down: rules(120, Select::Max, &free) };
        let spec = spec(1, 100, Some(behavior));
        for (recommendations, current, recommended, expected) in rows {
            let mut history = History { recommendations: marks(recommendations), ..History::default() };
            let limited = apply(&spec, &Settings::default(), &mut history, at(1000), current, recommended);
            let shown = format!("{} {}", limited.stabilized, limited.conditions[0].reason);
            assert_eq!(shown, expected, "{recommendations:?} {current} {recommended}");
        }
    }

    /// Changes of the last minute, and the limits of one direction.
    fn rate(rules_: Rules, ups: &[(i64, i32)], downs: &[(i64, i32)], current: i32, proposed: i32) -> String {
        let behavior = Behavior { up: rules_.clone(), down: rules_ };
        let mut history = History { ups: marks(ups), downs: marks(downs), ..History::default() };
        let spec = spec(2, 50, Some(behavior));
        let limited = apply(&spec, &Settings::default(), &mut history, at(1000), current, proposed);
        format!("{} {}", limited.desired, limited.conditions[1].reason)
    }

    #[test]
    fn rates() {
        use Change::{Percent, Pods};
        use Select::{Disabled, Max, Min};
        let both = [(Pods(4), 60), (Percent(100), 60)];
        let with = |select| rules(0, select, &both);
        assert_eq!(rate(with(Max), &[], &[], 10, 40), "20 ScaleUpLimit");
        assert_eq!(rate(with(Max), &[], &[], 3, 40), "7 ScaleUpLimit");
        assert_eq!(rate(with(Min), &[], &[], 10, 40), "14 ScaleUpLimit");
        assert_eq!(rate(with(Disabled), &[], &[], 10, 40), "10 ScaleUpLimit");
        assert_eq!(rate(with(Max), &[(950, 5)], &[], 10, 40), "10 ScaleUpLimit", "5 at the start of the minute");
        assert_eq!(rate(with(Max), &[(940, 5)], &[], 10, 40), "20 ScaleUpLimit", "a minute ago");
        assert_eq!(rate(with(Max), &[], &[(950, 5)], 10, 40), "30 ScaleUpLimit", "15 at the start");
        assert_eq!(rate(with(Max), &[], &[], 30, 70), "50 TooManyReplicas");
        assert_eq!(rate(with(Max), &[], &[], 30, 31), "31 DesiredWithinRange");
        assert_eq!(rate(rules(0, Max, &[(Percent(10), 60)]), &[], &[], 1, 9), "2 ScaleUpLimit", "rounded up");
        // Down.
        assert_eq!(rate(with(Max), &[], &[], 10, 1), "2 TooFewReplicas");
        assert_eq!(rate(with(Min), &[], &[], 10, 1), "6 ScaleDownLimit");
        assert_eq!(rate(with(Disabled), &[], &[], 10, 1), "10 ScaleDownLimit");
        assert_eq!(rate(with(Min), &[], &[(950, 4)], 10, 1), "10 ScaleDownLimit");
        assert_eq!(rate(rules(0, Max, &[(Percent(10), 60)]), &[], &[], 15, 3), "13 ScaleDownLimit");
    }

    #[test]
    fn marks_from_before_the_clock_was_set_back_do_not_count() {
        let (future, past) = (marks(&[(2000, 9)]), marks(&[(950, 3)]));
        let both = [&past[..], &future[..]].concat();
        let mut history = History { recommendations: both.clone(), ups: both.clone(), downs: both };
        history.begin(at(1000), 4);
        assert_eq!(history, History { recommendations: past.clone(), ups: past.clone(), downs: past });
        let mut history = History { recommendations: future, ..History::default() };
        history.begin(at(1000), 4);
        assert_eq!(history.recommendations, marks(&[(1000, 4)]));
    }

    #[test]
    fn changes_are_recorded_for_the_longest_period() {
        let behavior = Behavior {
            up: rules(0, Select::Max, &[(Change::Pods(1), 30)]),
            down: rules(0, Select::Max, &[(Change::Pods(1), 60)]),
        };
        let mut history = History::default();
        history.scaled(Some(&behavior), at(100), 1, 3);
        history.scaled(Some(&behavior), at(130), 3, 4);
        history.scaled(Some(&behavior), at(130), 4, 4);
        assert_eq!(history.ups, marks(&[(100, 2), (130, 1)]));
        history.scaled(Some(&behavior), at(160), 4, 5);
        assert_eq!(history.ups, marks(&[(130, 1), (160, 1)]));
        history.scaled(Some(&behavior), at(160), 5, 1);
        assert_eq!(history.downs, marks(&[(160, 4)]));
        history.scaled(None, at(160), 1, 5);
        assert_eq!(history.ups.len(), 2);
    }
}
