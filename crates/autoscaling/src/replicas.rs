//! From values to replicas. Usage is compared with the target as a ratio, and the ratio scales the ready pods.
//!
//! The pods of all members are one set. The template has fewer replicas than its members together where each of them
//! gets all replicas; `calibration` is the members' sum divided by the template's replicas.

use crate::pods::{Group, PodValue};

/// The input of every calculation except the values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// Replicas of the template.
    pub current: i32,
    /// `status.replicas` of all members.
    pub observed: i32,
    /// Replicas of the members for each replica of the template.
    pub calibration: f64,
    pub tolerance: Tolerance,
}

/// The deviations of the ratio from 1 without effect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tolerance {
    pub up: f64,
    pub down: f64,
}

impl Tolerance {
    fn covers(self, ratio: f64) -> bool {
        if ratio < 1.0 { 1.0 - ratio <= self.down } else { ratio - 1.0 <= self.up }
    }
}

/// The target of a metric of pods.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Aim {
    /// Percent of the request.
    Utilization(i32),
    /// The average, in thousandths.
    Average(i64),
}

/// The level of a metric over some pods.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Level {
    pub ratio: f64,
    pub utilization: Option<i32>,
    pub average: i64,
}

/// A pod's value and its request.
type Entry = (i64, i64);

impl Aim {
    fn level(self, entries: &[Entry]) -> Result<Level, String> {
        let values: i128 = entries.iter().map(|(value, _)| i128::from(*value)).sum();
        let count = i128::try_from(entries.len()).unwrap_or(i128::MAX).max(1);
        let average = saturated(values / count);
        match self {
            Self::Average(target) => Ok(Level { ratio: average as f64 / target as f64, utilization: None, average }),
            Self::Utilization(target) => {
                let requests: i128 = entries.iter().map(|(_, request)| i128::from(*request)).sum();
                if requests == 0 {
                    return Err("no metrics returned matched known pods".to_owned());
                }
                let utilization = i32::try_from(values * 100 / requests).unwrap_or(i32::MAX);
                let ratio = f64::from(utilization) / f64::from(target);
                Ok(Level { ratio, utilization: Some(utilization), average })
            }
        }
    }

    /// The value of a pod without a sample when the workload would shrink.
    fn assumed(self, request: i64) -> i64 {
        match self {
            Self::Average(target) => target,
            Self::Utilization(target) => saturated(i128::from(request) * i128::from(target.max(100)) / 100),
        }
    }
}

fn saturated(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

/// Rounded up, within the range of replicas.
pub(crate) fn ceil(value: f64) -> i32 {
    // The cast saturates; not a number becomes 0.
    value.ceil() as i32
}

/// The proposal for the template, and the level it is based on.
pub(crate) struct Proposed {
    pub replicas: i32,
    pub level: Level,
    /// The reason for the result, other than the ratio.
    pub note: Option<&'static str>,
}

/// The replicas by a metric of pods. `requests` are in the order of `pods`.
pub(crate) fn of_pods(pods: &[PodValue<'_>], requests: &[i64], aim: Aim, frame: Frame) -> Result<Proposed, String> {
    let of_group = |is_in_group: fn(Group) -> bool| {
        pods.iter().zip(requests).filter(move |(pod, _)| is_in_group(pod.group)).map(|(pod, request)| (pod, *request))
    };
    let counted: Vec<Entry> =
        of_group(|it| it == Group::Counted).filter_map(|(pod, request)| Some((pod.value?, request))).collect();
    if counted.is_empty() {
        return Err("did not receive metrics for any ready pods".to_owned());
    }
    let level = aim.level(&counted)?;
    let stays = |note| Ok(Proposed { replicas: frame.current, level, note: Some(note) });
    let missing: Vec<i64> = of_group(|it| it == Group::Missing).map(|(_, request)| request).collect();
    let unready: Vec<i64> = of_group(|it| matches!(it, Group::Unready(_))).map(|(_, request)| request).collect();
    let grows = level.ratio > 1.0;
    let counts_unready = grows && !unready.is_empty();
    if missing.is_empty() && !counts_unready {
        if frame.tolerance.covers(level.ratio) {
            return stays("within the tolerance");
        }
        let replicas = ceil(level.ratio * counted.len() as f64 / frame.calibration);
        return Ok(Proposed { replicas, level, note: None });
    }
    let mut entries = counted;
    if level.ratio < 1.0 {
        entries.extend(missing.iter().map(|request| (aim.assumed(*request), *request)));
    } else if grows {
        entries.extend(missing.iter().map(|request| (0, *request)));
    }
    if counts_unready {
        entries.extend(unready.iter().map(|request| (0, *request)));
    }
    let assumed = aim.level(&entries)?.ratio;
    if frame.tolerance.covers(assumed) {
        return stays("within the tolerance, with assumed values for pods without a sample");
    }
    if (level.ratio < 1.0 && assumed > 1.0) || (grows && assumed < 1.0) {
        return stays("pods without a sample may turn the direction");
    }
    let replicas = ceil(assumed * entries.len() as f64 / frame.calibration);
    if (assumed < 1.0 && replicas > frame.current) || (assumed > 1.0 && replicas < frame.current) {
        return stays("the pods without a sample turn the direction");
    }
    Ok(Proposed { replicas, level, note: Some("with assumed values for pods without a sample") })
}

/// The replicas by one value and its target, for all ready pods together.
pub(crate) fn of_value(value: i64, target: i64, ready: usize, pods: usize, frame: Frame) -> Result<Proposed, String> {
    let ratio = value as f64 / target as f64;
    let level = Level { ratio, utilization: None, average: value };
    if frame.current == 0 {
        // From zero there are no pods to scale.
        return Ok(Proposed { replicas: ceil(ratio), level, note: Some("from zero") });
    }
    if frame.tolerance.covers(ratio) {
        return Ok(Proposed { replicas: frame.current, level, note: Some("within the tolerance") });
    }
    if pods == 0 {
        return Err(format!("unable to calculate ready pods: {NO_PODS}"));
    }
    // While no pod is ready, a value above zero must not scale a started workload back to zero.
    let least = i32::from(value > 0);
    let replicas = ceil(ratio * ready as f64 / frame.calibration).max(least);
    Ok(Proposed { replicas, level, note: None })
}

/// The replicas by one value and its target for each pod.
pub(crate) fn of_average(value: i64, target: i64, frame: Frame) -> Proposed {
    let observed = f64::from(frame.observed);
    let ratio = value as f64 / (target as f64 * observed);
    let average = (value as f64 / observed).ceil() as i64;
    let level = Level { ratio, utilization: None, average };
    if frame.observed > 0 && frame.tolerance.covers(ratio) {
        return Proposed { replicas: frame.current, level, note: Some("within the tolerance") };
    }
    let level = Level { average: if frame.observed > 0 { average } else { value }, ..level };
    Proposed { replicas: ceil(value as f64 / target as f64 / frame.calibration), level, note: None }
}

/// The workload has no pods in any member.
pub(crate) const NO_PODS: &str = "no pods returned by selector while calculating replica count";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Pod;

    /// Pods as `10` (counted with this value), `?` (missing), `u` (unready), `-` (ignored).
    fn check(pods: &str, request: i64, aim: Aim, current: i32, calibration: f64) -> String {
        let pod = Pod::default();
        let value = |text: &str| match text {
            "?" => (Group::Missing, None),
            "u" => (Group::Unready("is pending"), None),
            "-" => (Group::Ignored("has failed"), Some(9999)),
            number => (Group::Counted, Some(number.parse().expect("a number"))),
        };
        let values = pods.split_whitespace().map(value);
        let pods: Vec<_> = values.map(|(group, value)| PodValue { cluster: "m", pod: &pod, group, value }).collect();
        let tolerance = Tolerance { up: 0.1, down: 0.1 };
        let frame = Frame { current, observed: current, calibration, tolerance };
        match of_pods(&pods, &vec![request; pods.len()], aim, frame) {
            Ok(it) => match it.level.utilization {
                Some(percent) => format!("{} at {percent}% {}", it.replicas, it.level.average),
                None => format!("{} at {}", it.replicas, it.level.average),
            },
            Err(error) => error,
        }
    }

    #[test]
    fn utilization() {
        use Aim::Utilization;
        let rows = [
            ("500 500 500", 1000, 50, 3, 1.0, "3 at 50% 500"),
            ("549 549", 1000, 50, 2, 1.0, "2 at 54% 549"),
            ("560 560", 1000, 50, 2, 1.0, "3 at 56% 560"),
            ("300 500 700", 1000, 30, 3, 1.0, "5 at 50% 500"),
            ("100 300 500 250 250", 1000, 50, 5, 1.0, "3 at 28% 280"),
            // Two members with all replicas each.
            ("800 800 800 800", 1000, 40, 2, 2.0, "4 at 80% 800"),
            // A member of two does not answer: half of the replicas are known.
            ("800 800", 1000, 40, 4, 0.5, "8 at 80% 800"),
            // Unready pods count as 0 when it grows, and not when it shrinks.
            ("u 500 700", 1000, 30, 3, 1.0, "4 at 60% 600"),
            ("400 500 700 u u", 1000, 50, 3, 1.0, "3 at 53% 533"),
            ("100 100 u", 1000, 50, 3, 1.0, "1 at 10% 100"),
            // Missing ones as 0, or as all of their request.
            ("? 950", 1000, 100, 2, 1.0, "2 at 95% 950"),
            ("? 2000", 1000, 100, 2, 1.0, "2 at 200% 2000"),
            ("? 3000", 1000, 100, 2, 1.0, "3 at 300% 3000"),
            ("? 100 100 100", 1000, 50, 4, 1.0, "3 at 10% 100"),
            ("? 100 u", 1000, 50, 3, 1.0, "3 at 10% 100"),
            // With a target above the request, this is the usage.
            ("? 100 100 100", 1000, 300, 4, 1.0, "2 at 10% 100"),
            ("- 100 100", 1000, 50, 2, 1.0, "1 at 10% 100"),
            ("? u -", 1000, 50, 3, 1.0, "did not receive metrics for any ready pods"),
            ("100", 0, 50, 1, 1.0, "no metrics returned matched known pods"),
        ];
        for (pods, request, target, current, calibration, expected) in rows {
            assert_eq!(check(pods, request, Utilization(target), current, calibration), expected, "{pods}");
        }
    }

    #[test]
    fn averages() {
        let rows = [
            ("20000 10000 30000", 15000, 3, "4 at 20000"),
            ("10000 10000", 20000, 2, "1 at 10000"),
            ("? 10000", 20000, 2, "2 at 10000"),
            ("? 30000 30000", 20000, 3, "3 at 30000"),
            ("u 50000", 20000, 2, "3 at 50000"),
        ];
        for (pods, target, current, expected) in rows {
            assert_eq!(check(pods, 0, Aim::Average(target), current, 1.0), expected, "{pods}");
        }
    }

    #[test]
    fn values() {
        let tolerance = Tolerance { up: 0.1, down: 0.1 };
        let frame = |current, calibration| Frame { current, observed: current, calibration, tolerance };
        let value = |value, target, ready, frame| of_value(value, target, ready, ready, frame).map(|it| it.replicas);
        assert_eq!(value(20000, 15000, 3, frame(3, 1.0)), Ok(4));
        assert_eq!(value(15000, 15000, 0, frame(3, 1.0)), Ok(3));
        assert_eq!(value(20000, 15000, 6, frame(3, 2.0)), Ok(4));
        assert_eq!(value(2500, 1000, 0, frame(0, 1.0)), Ok(3), "from zero");
        assert_eq!(value(0, 1000, 0, frame(0, 1.0)), Ok(0), "at zero");
        assert_eq!(value(0, 1000, 2, frame(2, 1.0)), Ok(0), "to zero");
        assert!(value(20000, 15000, 0, frame(3, 1.0)).is_err());
        let starting = of_value(20000, 1000, 0, 1, frame(1, 1.0)).map(|it| it.replicas);
        assert_eq!(starting, Ok(1), "its only pod is not ready yet");
        let average = |value, target, frame| of_average(value, target, frame).replicas;
        assert_eq!(average(60000, 15000, frame(3, 1.0)), 4);
        assert_eq!(average(46000, 15000, frame(3, 1.0)), 3, "within the tolerance");
        assert_eq!(average(4000, 2000, frame(0, 1.0)), 2, "from zero");
        assert_eq!(average(0, 2000, frame(0, 1.0)), 0, "at zero");
        assert_eq!(average(0, 2000, frame(3, 1.0)), 0, "to zero");
    }

    #[test]
    fn extreme_values_saturate() {
        let max = i64::MAX.to_string();
        assert_eq!(check(&max, 1, Aim::Utilization(1), 1, 1.0), format!("{} at {}% {max}", i32::MAX, i32::MAX));
        assert_eq!(check("0", 1, Aim::Average(i64::MAX), 1, 1.0), "0 at 0");
    }
}
