//! Which pods count for a metric: ready ones do, others are counted with an assumed value, or are ignored.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::Settings;
use crate::reading::{Answer, Phase, Pod, Sample};

/// How a pod counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// With its sample.
    Counted,
    /// With 0 when the workload grows, not at all otherwise; and why.
    Unready(&'static str),
    /// Without a sample: with 0 when the workload grows, with its request or target when it shrinks.
    Missing,
    /// Not at all; and why.
    Ignored(&'static str),
}

/// A pod with its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodValue<'a> {
    pub cluster: &'a str,
    pub pod: &'a Pod,
    pub group: Group,
    pub value: Option<i64>,
}

/// The pods of a member, grouped for a metric. `is_cpu`: samples of a starting pod are ignored.
pub(crate) fn of_member<'a>(
    cluster: &'a str,
    answer: &'a Answer,
    samples: &BTreeMap<&str, Sample>,
    is_cpu: bool,
    settings: &Settings,
    now: Timestamp,
) -> Vec<PodValue<'a>> {
    let values = answer.pods.iter().map(|pod| {
        let sample = samples.get(pod.name.as_str());
        let group = group(pod, sample, is_cpu, settings, now);
        PodValue { cluster, pod, group, value: sample.map(|sample| sample.value) }
    });
    values.collect()
}

fn group(pod: &Pod, sample: Option<&Sample>, is_cpu: bool, settings: &Settings, now: Timestamp) -> Group {
    if pod.is_deleting {
        return Group::Ignored("is being deleted");
    }
    if pod.phase == Phase::Failed {
        return Group::Ignored("has failed");
    }
    if pod.phase == Phase::Pending {
        return Group::Unready("is pending");
    }
    let Some(sample) = sample else { return Group::Missing };
    match is_cpu.then(|| unready(pod, sample, settings, now)).flatten() {
        Some(why) => Group::Unready(why),
        None => Group::Counted,
    }
}

/// Why the cpu sample of a running pod is not representative.
fn unready(pod: &Pod, sample: &Sample, settings: &Settings, now: Timestamp) -> Option<&'static str> {
    let Some(started) = pod.started else { return Some("has no start time") };
    let Some(ready) = pod.ready else { return Some("has no condition Ready") };
    let is_unready = ready.status == Some(false);
    if started + settings.cpu_initialization > now {
        if is_unready {
            return Some("is not ready yet");
        }
        return (sample.at < ready.since + sample.window).then_some("was measured before it was ready");
    }
    let never_ready = started + settings.initial_readiness_delay > ready.since;
    (is_unready && never_ready).then_some("has never been ready")
}

/// The request of a pod, or of one of its containers, in thousandths.
pub(crate) fn request(pod: &Pod, resource: &str, container: Option<&str>) -> Result<i64, String> {
    if container.is_none()
        && let Some(request) = pod.requests.get(resource)
    {
        return Ok(*request);
    }
    let mut sum = 0i64;
    for (name, requests) in pod.containers.iter().filter(|(name, _)| container.is_none_or(|it| it == name)) {
        let Some(request) = requests.get(resource) else {
            return Err(format!("missing request for {resource} in container {name} of Pod {}", pod.name));
        };
        sum = sum.saturating_add(*request);
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::reading::Ready;

    const NOW: i64 = 1_000_000;

    fn at(seconds_ago: i64) -> Timestamp {
        Timestamp::from_second(NOW - seconds_ago).expect("a time")
    }

    /// Started, the condition Ready (status, changed), measured, each in seconds before now.
    fn check(started: i64, ready: Option<(Option<bool>, i64)>, measured: i64) -> Group {
        let ready = ready.map(|(status, since)| Ready { status, since: at(since) });
        let pod = Pod { phase: Phase::Running, started: Some(at(started)), ready, ..Pod::default() };
        let sample = Sample { value: 1, at: at(measured), window: SignedDuration::from_secs(30) };
        group(&pod, Some(&sample), true, &Settings::default(), at(0))
    }

    #[test]
    fn cpu_samples_of_starting_pods() {
        use Group::{Counted, Unready};
        let rows = [
            // Within the initialization period of 5 minutes.
            (100, Some((Some(true), 90)), 0, Counted),
            (100, Some((Some(true), 90)), 60, Counted),
            (100, Some((Some(true), 90)), 61, Unready("was measured before it was ready")),
            (100, Some((Some(false), 90)), 0, Unready("is not ready yet")),
            (100, Some((None, 90)), 0, Counted),
            (299, Some((Some(false), 0)), 0, Unready("is not ready yet")),
            (100, None, 0, Unready("has no condition Ready")),
            // After it: the readiness delay of 30 seconds decides.
            (300, Some((Some(false), 271)), 0, Unready("has never been ready")),
            (300, Some((Some(false), 270)), 0, Counted),
            (300, Some((Some(true), 299)), 299, Counted),
        ];
        for (started, ready, measured, expected) in rows {
            assert_eq!(check(started, ready, measured), expected, "{started} {ready:?} {measured}");
        }
    }

    #[test]
    fn pods_that_do_not_run() {
        let sample = Sample { value: 1, at: at(0), window: SignedDuration::ZERO };
        let grouped = |pod: &Pod, sample| group(pod, sample, false, &Settings::default(), at(0));
        let pod = |phase| Pod { phase, ..Pod::default() };
        assert_eq!(grouped(&pod(Phase::Pending), Some(&sample)), Group::Unready("is pending"));
        assert_eq!(grouped(&pod(Phase::Failed), Some(&sample)), Group::Ignored("has failed"));
        assert_eq!(grouped(&pod(Phase::Running), None), Group::Missing);
        assert_eq!(grouped(&pod(Phase::Running), Some(&sample)), Group::Counted, "readiness counts for cpu only");
        let deleted = Pod { is_deleting: true, ..pod(Phase::Pending) };
        assert_eq!(grouped(&deleted, None), Group::Ignored("is being deleted"));
    }

    #[test]
    fn requests() {
        let container = |name: &str, cpu: Option<i64>| {
            (name.to_owned(), cpu.map(|cpu| ("cpu".to_owned(), cpu)).into_iter().collect::<BTreeMap<_, _>>())
        };
        let mut pod = Pod {
            name: "p".into(),
            containers: vec![container("a", Some(25)), container("b", None)],
            ..Pod::default()
        };
        assert_eq!(request(&pod, "cpu", Some("a")), Ok(25));
        assert_eq!(request(&pod, "cpu", None), Err("missing request for cpu in container b of Pod p".to_owned()));
        pod.requests.insert("cpu".to_owned(), 100);
        assert_eq!(request(&pod, "cpu", None), Ok(100), "of the whole pod");
    }
}
