//! The division of the server's seats among its priority levels by their shares. Levels lend unused seats; every
//! [`PERIOD`] the seats are divided again, by the levels' demands.

use crate::Nanos;
use crate::objects::{PriorityLevel, SHARES};

/// Seats are divided again this often.
pub const PERIOD: Nanos = 10_000_000_000;
/// The part of an earlier need that counts in the next period: half of it is forgotten after five minutes.
const MEMORY: f64 = 0.977;
/// A level that lends everything and has no demand still has a claim, of this part of its seats.
const LEAST_CLAIM: f64 = 1e-3;

/// The seats of one level by its configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Its part by shares.
    pub nominal: u32,
    /// The seats that it never lends.
    pub least: u32,
    /// With all that it may borrow.
    pub most: u32,
    /// It does not wait, and takes its seats from the others.
    pub is_exempt: bool,
}

/// The limits of levels on a server with `total` seats, in the given order.
pub fn limits<'l>(total: u32, levels: impl IntoIterator<Item = &'l PriorityLevel>) -> Vec<Limits> {
    let levels: Vec<_> = levels.into_iter().collect();
    let sum: u64 = levels.iter().map(|level| u64::from(shares(level))).sum();
    let of = |level: &&PriorityLevel| {
        let nominal = (u64::from(total) * u64::from(shares(level))).div_ceil(sum.max(1));
        let nominal = u32::try_from(nominal).unwrap_or(u32::MAX);
        let (lends, borrows, is_exempt) = match level {
            PriorityLevel::Exempt { exempt } => (exempt.lendable_percent, None, true),
            PriorityLevel::Limited { limited } => (limited.lendable_percent, limited.borrowing_limit_percent, false),
        };
        let lent = percent(nominal, lends.unwrap_or(0).min(100));
        let borrowed = borrows.map_or(total, |borrows| percent(nominal, borrows));
        Limits { nominal, least: nominal - lent.min(nominal), most: nominal.saturating_add(borrowed), is_exempt }
    };
    levels.iter().map(of).collect()
}

fn shares(level: &PriorityLevel) -> u32 {
    match level {
        PriorityLevel::Exempt { exempt } => exempt.nominal_concurrency_shares.unwrap_or(0),
        PriorityLevel::Limited { limited } => limited.nominal_concurrency_shares.unwrap_or(SHARES),
    }
}

/// Rounded to the nearest.
fn percent(of: u32, percent: u32) -> u32 {
    u32::try_from((u64::from(of) * u64::from(percent) + 50) / 100).unwrap_or(u32::MAX)
}

/// The seats that requests of a level wanted over a time: those they had and those they waited for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Demand {
    now: u32,
    peak: u32,
    since: Nanos,
    /// Seconds, seats times seconds, squared seats times seconds.
    sums: [f64; 3],
}

/// The demand of one period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observed {
    pub average: f64,
    pub deviation: f64,
    pub peak: u32,
}

impl Demand {
    /// The demand from now on.
    pub fn set(&mut self, now: Nanos, seats: u32) {
        self.settle(now);
        self.now = seats;
        self.peak = self.peak.max(seats);
    }

    /// The seats that are wanted.
    pub fn seats(&self) -> u32 {
        self.now
    }

    /// Ends a period.
    pub fn take(&mut self, now: Nanos) -> Observed {
        self.settle(now);
        let [time, sum, squares] = std::mem::take(&mut self.sums);
        let peak = std::mem::replace(&mut self.peak, self.now);
        if time <= 0.0 {
            let average = f64::from(self.now);
            return Observed { average, deviation: 0.0, peak };
        }
        let average = sum / time;
        let deviation = (squares / time - average * average).max(0.0).sqrt();
        Observed { average, deviation, peak }
    }

    fn settle(&mut self, now: Nanos) {
        let time = now.saturating_sub(self.since) as f64 / 1e9;
        self.since = self.since.max(now);
        let seats = f64::from(self.now);
        self.sums = [self.sums[0] + time, self.sums[1] + seats * time, self.sums[2] + seats * seats * time];
    }
}

/// The expected demand of a level: it follows an increase at once and a decrease slowly.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Need {
    /// The highest demand of the last period.
    pub peak: u32,
    pub smoothed: f64,
}

impl Need {
    /// With another period.
    pub fn update(&mut self, observed: Observed) {
        let envelope = observed.average + observed.deviation;
        self.peak = observed.peak;
        self.smoothed = envelope.max(MEMORY * self.smoothed + (1.0 - MEMORY) * envelope);
    }
}

/// The seats of each level for the next period.
///
/// A level keeps its peak usage of the last period, up to its nominal seats, and never has less than it does not lend.
/// The remaining seats are divided in proportion to the demands, within the limits of borrowing.
pub fn divide(levels: &[(Limits, Need)]) -> Vec<u32> {
    let kept = |(limits, need): &(Limits, Need)| limits.least.max(limits.nominal.min(need.peak));
    let sum = |of: &dyn Fn(&(Limits, Need)) -> u32| levels.iter().map(|level| u64::from(of(level))).sum::<u64>();
    let exempt = sum(&|level| if level.0.is_exempt { kept(level) } else { 0 });
    let total = sum(&|level| level.0.nominal).saturating_sub(exempt);
    let least = sum(&|level| if level.0.is_exempt { 0 } else { level.0.least });
    let needed = sum(&|level| if level.0.is_exempt { 0 } else { kept(level) });
    let limited = |of: &dyn Fn(&(Limits, Need)) -> f64| -> Vec<u32> {
        let seats = |level: (Limits, Need)| if level.0.is_exempt { kept(&level) } else { of(&level).round() as u32 };
        levels.iter().copied().map(seats).collect()
    };
    if total <= least {
        return limited(&|level| f64::from(level.0.least));
    }
    if total <= needed {
        let part = (total - least) as f64 / (needed - least).max(1) as f64;
        return limited(&|level| f64::from(level.0.least) + part * f64::from(kept(level) - level.0.least));
    }
    let claim = |level: &(Limits, Need)| {
        let floor = f64::from(level.0.nominal) * LEAST_CLAIM;
        f64::from(kept(level)).max(level.1.smoothed).max(floor)
    };
    let share = |level: &(Limits, Need), factor: f64| {
        let (low, high) = (f64::from(kept(level)), f64::from(level.0.most.max(kept(level))));
        (claim(level) * factor).clamp(low, high)
    };
    let all = |factor: f64| -> f64 {
        levels.iter().filter(|level| !level.0.is_exempt).map(|level| share(level, factor)).sum()
    };
    let factor = solve(all, total as f64);
    limited(&|level| share(level, factor))
}

/// The factor at which an increasing function has this value, or the largest factor if it stays below.
fn solve(value: impl Fn(f64) -> f64, goal: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while value(high) < goal && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if value(middle) < goal { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Name, shares, percent lent.
    const SUGGESTED: [(&str, u32, u32); 7] = [
        ("catch-all", 5, 0),
        ("global-default", 20, 50),
        ("leader-election", 10, 0),
        ("node-high", 40, 25),
        ("system", 30, 33),
        ("workload-high", 40, 50),
        ("workload-low", 100, 90),
    ];

    fn suggested() -> Vec<Limits> {
        let levels = SUGGESTED.map(|(_, shares, lent)| {
            let level =
                json!({"type": "Limited", "limited": {"nominalConcurrencyShares": shares, "lendablePercent": lent}});
            serde_json::from_value::<PriorityLevel>(level).expect("a level")
        });
        limits(600, &levels)
    }

    #[test]
    fn seats_are_divided_by_shares() {
        let shown: Vec<String> =
            suggested().iter().map(|it| format!("{} {} {}", it.least, it.nominal, it.most)).collect();
        // As kube-apiserver reports them in apiserver_flowcontrol_nominal_limit_seats and its neighbours.
        let expected = ["13 13 613", "24 49 649", "25 25 625", "73 98 698", "50 74 674", "49 98 698", "24 245 845"];
        assert_eq!(shown, expected);
        let borrows: PriorityLevel = serde_json::from_value(
            json!({"type": "Limited", "limited": {"nominalConcurrencyShares": 10, "borrowingLimitPercent": 20}}),
        )
        .expect("a level");
        let expected = Limits { nominal: 100, least: 100, most: 120, is_exempt: false };
        assert_eq!(limits(100, [&borrows]), [expected]);
        let none = PriorityLevel::Exempt { exempt: Default::default() };
        assert_eq!(limits(100, [&none])[0].nominal, 0);
    }

    #[test]
    fn a_busy_level_borrows_unused_seats() {
        let limits = suggested();
        let divided = |needs: [(u32, f64); 7]| -> Vec<u32> {
            let needs = needs.map(|(peak, smoothed)| Need { peak, smoothed });
            divide(&limits.iter().copied().zip(needs).collect::<Vec<_>>())
        };
        let idle = divided([(0, 0.0); 7]);
        assert_eq!(idle, [30, 56, 58, 170, 117, 114, 56], "without demand in proportion to what they do not lend");
        let nominal: Vec<u32> = limits.iter().map(|it| it.nominal).collect();
        let mut needs = [(0, 0.0); 7];
        needs[1] = (900, 900.0);
        let least: Vec<u32> = limits.iter().map(|it| it.least).collect();
        let busy = divided(needs);
        assert_eq!((busy[0], busy[2], busy[6]), (least[0], least[2], least[6]));
        assert_eq!(busy[1], nominal.iter().sum::<u32>() - (least.iter().sum::<u32>() - least[1]));
        needs[6] = (900, 900.0);
        let both = divided(needs);
        assert!(both[6] >= nominal[6] && both[1] >= nominal[1], "{both:?}: both have at least their nominal seats");
    }

    #[test]
    fn exempt_requests_take_seats_from_the_others() {
        let of = |nominal, least, is_exempt, peak| {
            (Limits { nominal, least, most: 2 * nominal, is_exempt }, Need { peak, smoothed: f64::from(peak) })
        };
        assert_eq!(divide(&[of(20, 0, true, 0), of(80, 80, false, 0)]), [0, 100]);
        assert_eq!(divide(&[of(20, 0, true, 50), of(80, 80, false, 90)]), [20, 80]);
        assert_eq!(divide(&[of(20, 0, true, 50), of(80, 90, false, 90)]), [20, 90]);
    }

    #[test]
    fn demand_is_averaged_over_time() {
        let mut demand = Demand::default();
        demand.set(0, 4);
        demand.set(5_000_000_000, 0);
        let observed = demand.take(PERIOD);
        assert_eq!(observed, Observed { average: 2.0, deviation: 2.0, peak: 4 });
        assert_eq!(demand.take(2 * PERIOD), Observed::default());
        let mut need = Need::default();
        need.update(observed);
        assert_eq!(need, Need { peak: 4, smoothed: 4.0 });
        need.update(Observed::default());
        assert!(need.smoothed > 3.9 && need.smoothed < 4.0, "{need:?}");
    }

    proptest! {
        #[test]
        fn every_division_keeps_the_limits(levels in proptest::collection::vec((0u32..200, 0u32..=100, 0u32..300, 0u32..500, 0.0f64..500.0, proptest::bool::weighted(0.1)), 1..10)) {
            let levels: Vec<_> = levels
                .into_iter()
                .map(|(nominal, lends, borrows, peak, smoothed, is_exempt)| {
                    let least = nominal - percent(nominal, lends);
                    (Limits { nominal, least, most: nominal + percent(nominal, borrows), is_exempt }, Need { peak, smoothed })
                })
                .collect();
            let divided = divide(&levels);
            let total: u32 = levels.iter().map(|(limits, _)| limits.nominal).sum();
            for ((limits, _), seats) in levels.iter().zip(&divided) {
                prop_assert!(limits.least <= *seats && *seats <= limits.most.max(limits.nominal), "{limits:?} {seats}");
            }
            // Each is rounded by less than one; the sum is higher only if the seats that are never lent exceed it.
            let least: u32 = levels.iter().map(|(limits, _)| limits.least).sum();
            let peaks: u32 = levels.iter().filter(|(it, _)| it.is_exempt).map(|(it, need)| it.nominal.min(need.peak).max(it.least)).sum();
            let bound = total.max(least + peaks) + levels.len() as u32;
            prop_assert!(divided.iter().sum::<u32>() <= bound, "{levels:?} {divided:?}");
        }
    }
}
