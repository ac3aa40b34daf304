//! Transitions of a cluster's Ready condition: from probes of its API server, and from the signs of life of an agent
//! (Lease and reports).
//!
//! A single failed probe changes nothing, and a cluster that relapses must be healthy for longer each time. The message
//! of the condition contains the evidence and its time.

use apimachinery::meta::{Condition, Time};
use karmada_api::constants::{conditions, reasons};

use crate::Since;
use crate::cluster_status::Probe;

/// A cluster that turns not ready this soon after it became ready has relapsed, in seconds.
const RELAPSE: i64 = 600;
/// The success threshold doubles with each relapse, at most this often: from 30 s to 4 min. That is less than the
/// toleration of 300 s that workloads usually have.
const MOST_DOUBLINGS: u32 = 3;

/// The state of a cluster kept between probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Whether the last probe found the cluster ready.
    pub ready: bool,
    /// Since when probes have found that.
    since: Time,
    /// The last probe that found the cluster ready.
    healthy_at: Option<Time>,
    /// The time since when this process observes a Ready condition that is not True.
    down_since: Option<Time>,
    /// When the condition last became True again.
    recovered: Option<Time>,
    /// The number of times that the cluster turned not ready soon after it had recovered.
    relapses: u32,
}

/// How long a change must last before it is reported, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Towards ready.
    pub success: i64,
    /// Away from ready.
    pub failure: i64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { success: 30, failure: 30 }
    }
}

fn seconds(from: Time, to: Time) -> i64 {
    to.timestamp().as_second() - from.timestamp().as_second()
}

/// Whole seconds, as conditions have them.
fn passed(at: Time, since: Since<'_>) -> i64 {
    since(at.timestamp()).as_secs()
}

impl Observation {
    fn first(ready: bool, now: Time) -> Self {
        let healthy_at = ready.then_some(now);
        Self { ready, since: now, healthy_at, down_since: None, recovered: None, relapses: 0 }
    }

    fn update(&mut self, ready: bool, stands: bool, now: Time) {
        if self.ready != ready {
            (self.ready, self.since) = (ready, now);
        }
        if ready {
            self.healthy_at = Some(now);
        }
        self.down_since = if stands { None } else { self.down_since.or(Some(now)) };
    }

    /// The condition turns.
    fn turn(&mut self, ready: bool, now: Time, since: Since<'_>) {
        if ready {
            (self.recovered, self.down_since) = (Some(now), None);
        } else {
            let relapsed = self.recovered.is_some_and(|recovered| passed(recovered, since) < RELAPSE);
            self.relapses = if relapsed { self.relapses.saturating_add(1) } else { 0 };
            self.down_since = Some(now);
        }
    }

    /// For how many seconds the cluster must be ready.
    fn needed(&self, thresholds: Thresholds) -> i64 {
        thresholds.success.saturating_mul(1 << self.relapses.min(MOST_DOUBLINGS))
    }

    /// The time since when the cluster is observed ready while the condition is not True. Observations of an agent that
    /// could not reach the control plane do not count.
    fn ready_since(&self, since: Since<'_>) -> Time {
        let is_later = |down: &Time| since(down.timestamp()) < since(self.since.timestamp());
        self.down_since.filter(is_later).unwrap_or(self.since)
    }
}

/// The Ready condition to report, and the state to keep. `current` is the existing condition.
///
/// A process that has just started keeps a True condition at first: one failed probe after the start is no more
/// evidence than a later one.
pub fn settle(
    probe: &Probe,
    current: Option<&Condition>,
    remembered: Option<&Observation>,
    thresholds: Thresholds,
    (now, since): (Time, Since<'_>),
) -> (Condition, Observation) {
    let observed = probe.condition();
    let ready = observed.status == "True";
    let Some(current) = current else {
        return (evidenced(observed, None, now), Observation::first(ready, now));
    };
    let stands = current.status == "True";
    let mut observation = remembered.cloned().unwrap_or_else(|| Observation::first(ready, now));
    observation.update(ready, stands, now);
    let lasted = match ready {
        // An agent or a control plane that starts reports a healthy cluster at once.
        true if remembered.is_none() => i64::MAX,
        true => passed(observation.ready_since(since), since),
        false => passed(observation.since, since),
    };
    let needed = if ready { observation.needed(thresholds) } else { thresholds.failure };
    // The identity of a cluster does not fluctuate as its health does.
    let is_certain = matches!(probe, Probe::Refused { .. }) || is_refusal(&current.reason);
    let turns = ready != stands;
    if turns && lasted < needed && !is_certain {
        return (unchanged(current, ready, needed, &observation, since), observation);
    }
    if turns {
        observation.turn(ready, now, since);
    }
    let is_known = !ready && current.reason == observed.reason && reports(&current.message, &observed.message);
    let reported =
        if is_known { current.clone() } else { evidenced(observed, observation.healthy_at, observation.since) };
    (reported, observation)
}

fn is_refusal(reason: &str) -> bool {
    [reasons::CLUSTER_IS_CONTROL_PLANE, reasons::CLUSTER_JOINED_TWICE, reasons::CLUSTER_REPLACED].contains(&reason)
}

/// Whether a message of the condition is `observed`, with or without evidence.
fn reports(message: &str, observed: &str) -> bool {
    message.strip_prefix(observed).is_some_and(|rest| rest.is_empty() || rest.starts_with(" (since "))
}

/// Adds the evidence and its time, which stay the same from probe to probe.
fn evidenced(mut condition: Condition, healthy_at: Option<Time>, since: Time) -> Condition {
    if [reasons::CLUSTER_NOT_REACHABLE, reasons::CLUSTER_NOT_READY].contains(&condition.reason.as_str()) {
        let before = healthy_at.map(|at| format!(", last healthy at {at}")).unwrap_or_default();
        condition.message = format!("{} (since {since}{before})", condition.message);
    }
    condition
}

/// The existing condition until the change has lasted long enough. If it is held for longer than the threshold, the
/// message gives the reason.
fn unchanged(current: &Condition, ready: bool, needed: i64, observation: &Observation, since: Since<'_>) -> Condition {
    let mut condition = current.clone();
    let observed = [Probe::Offline, Probe::Unhealthy].map(|probe| probe.condition());
    let cause = observed.into_iter().find(|it| it.reason == current.reason);
    if let Some(cause) = cause.filter(|_| ready && observation.relapses > 0) {
        let (since, relapses) = (observation.ready_since(since), observation.relapses);
        let times = if relapses == 1 { "once" } else { "repeatedly" };
        condition.message = format!(
            "{}; healthy since {since}, and ready after {needed} s because it relapsed {times} within {} min of its recovery",
            cause.message,
            RELAPSE / 60
        );
    }
    condition
}

/// When an agent last renewed its Lease or changed its Cluster's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastSign {
    /// The status and reason of the Ready condition it reported.
    ready: Option<(String, String)>,
    /// `spec.renewTime` of its Lease.
    renewed: Option<String>,
    at: Time,
}

impl LastSign {
    /// Whether the agent has been silent for so long that it may be lost: two renewals of its Lease are missing.
    pub fn is_suspect(&self, graces: Graces, now: Time) -> bool {
        self.ready.is_some() && seconds(self.at, now) * 2 > graces.usual
    }
}

/// How long an agent may be silent, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Graces {
    /// After the last sign of life.
    pub usual: i64,
    /// For a Cluster without any report, since its creation.
    pub startup: i64,
}

impl Default for Graces {
    fn default() -> Self {
        Self { usual: 40, startup: 60 }
    }
}

/// The signs of life of an agent.
#[derive(Clone, Copy, Debug)]
pub struct Signs<'a> {
    /// When its Cluster was created.
    pub created: Time,
    /// The Ready condition of its Cluster.
    pub ready: Option<&'a Condition>,
    /// `spec.renewTime` of its Lease.
    pub renewed: Option<&'a str>,
}

/// The Ready condition of a cluster whose agent has stopped renewing, and the state to keep. A sign of life counts from
/// the time it is first observed, and at the first observation everything counts as new. The deletion of a Lease is not
/// a sign of life.
pub fn silence(
    signs: Signs<'_>,
    before: Option<&LastSign>,
    graces: Graces,
    now: Time,
) -> (Option<Condition>, LastSign) {
    let ready = signs.ready.map(|it| (it.status.clone(), it.reason.clone()));
    let renewed = signs.renewed.map(str::to_owned);
    let at = match before {
        Some(before) if before.ready == ready && (before.renewed == renewed || renewed.is_none()) => {
            // The clock may have been set back since.
            before.at.min(now)
        }
        Some(_) => now,
        None if ready.is_none() => signs.created.min(now),
        None => now,
    };
    let last_sign = LastSign { ready, renewed, at };
    let grace = if signs.ready.is_some() { graces.usual } else { graces.startup };
    if seconds(at, now) <= grace {
        return (None, last_sign);
    }
    let unknown = unknown(signs, at);
    if signs.ready.is_some_and(|it| it.status == unknown.status) {
        return (None, last_sign);
    }
    // The first report of a returning agent counts as a change, even with the same content.
    let reported = Some((unknown.status.clone(), unknown.reason.clone()));
    (Some(unknown), LastSign { ready: reported, ..last_sign })
}

fn unknown(signs: Signs<'_>, last_sign: Time) -> Condition {
    let (reason, message) = match signs.ready {
        Some(last) => {
            let renewed = match signs.renewed {
                Some(renewed) => format!("its Lease was renewed at {renewed}"),
                None => "it has no Lease".to_owned(),
            };
            let evidence =
                format!("The last sign of the agent was observed at {last_sign}: {renewed}, Ready was {}", last.status);
            let stopped = "Cluster status controller stopped posting cluster status.";
            (reasons::CLUSTER_STATUS_UNKNOWN, format!("{stopped} {evidence} ({}).", last.reason))
        }
        None => {
            let message = "Cluster status controller never posted cluster status.".to_owned();
            (reasons::CLUSTER_STATUS_NEVER_UPDATED, message)
        }
    };
    Condition {
        type_: conditions::READY.to_owned(),
        status: "Unknown".to_owned(),
        reason: reason.to_owned(),
        message,
        ..Condition::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Refusal;

    fn at(second: i64) -> Time {
        Time::new(jiff::Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn an_agent_without_heartbeats() {
        let ready =
            |status: &str| Condition { status: status.to_owned(), reason: "r".to_owned(), ..Condition::default() };
        let (up, unknown) = (ready("True"), ready("Unknown"));
        let mut before = None;
        for (second, ready, renewed, expected) in [
            // Nothing was ever reported: the Cluster was created at second 0.
            (50, None, None, None),
            (61, None, None, Some("Cluster status controller never posted cluster status.")),
            (62, Some(&unknown), None, None),
            (200, Some(&unknown), None, None),
            // The agent came.
            (210, Some(&up), Some("a"), None),
            (250, Some(&up), Some("a"), None),
            (251, Some(&up), Some("a"), Some("1970-01-01T00:03:30Z: its Lease was renewed at a, Ready was True (r).")),
            // A renewed Lease alone is a sign of life.
            (252, Some(&up), Some("b"), None),
            // A deleted one is not.
            (260, Some(&up), None, None),
            (292, Some(&up), None, None),
            (293, Some(&up), None, Some("1970-01-01T00:04:12Z: it has no Lease, Ready was True (r).")),
        ] {
            let signs = Signs { created: at(0), ready, renewed };
            let (condition, last_sign) = silence(signs, before.as_ref(), Graces::default(), at(second));
            let message = condition.map(|it| it.message).unwrap_or_default();
            assert_eq!(message.is_empty(), expected.is_none(), "{second} {message}");
            assert!(message.ends_with(expected.unwrap_or_default()), "{second} {message}");
            before = Some(last_sign);
        }
        // The time before the first observation is unknown.
        let signs = Signs { created: at(0), ready: Some(&up), renewed: Some("b") };
        let (condition, last_sign) = silence(signs, None, Graces::default(), at(1000));
        assert_eq!(condition, None);
        for (second, expected) in [(1000, false), (1020, false), (1021, true)] {
            assert_eq!(last_sign.is_suspect(Graces::default(), at(second)), expected, "{second}");
        }
    }

    fn settled(
        probe: &Probe,
        current: Option<&Condition>,
        remembered: Option<&Observation>,
        second: i64,
    ) -> (Condition, Observation) {
        let since = |stamp: jiff::Timestamp| at(second).timestamp().duration_since(stamp);
        settle(probe, current, remembered, Thresholds::default(), (at(second), &since))
    }

    /// Probes over time; the condition is written each time, with its transitions.
    fn outcome_of(start: Option<&str>, probes: &[(i64, Probe)]) -> (String, Condition) {
        let (mut memory, mut seen) = (None, Vec::new());
        let mut current = start.map(|status| Condition { status: status.to_owned(), ..Condition::default() });
        for (second, probe) in probes {
            let (condition, observation) = settled(probe, current.as_ref(), memory.as_ref(), *second);
            seen.push(format!("{second}:{}", condition.status));
            (current, memory) = (Some(condition), Some(observation));
        }
        (seen.join(" "), current.expect("a condition"))
    }

    #[test]
    fn a_change_must_last() {
        let (up, down) = (Probe::Healthy, Probe::Offline);
        for (start, probes, expected) in [
            (
                None,
                vec![
                    (0, &up),
                    (10, &down),
                    (20, &up),
                    (30, &down),
                    (50, &down),
                    (60, &down),
                    (70, &up),
                    (99, &up),
                    (100, &up),
                ],
                "0:True 10:True 20:True 30:True 50:True 60:False 70:False 99:False 100:True",
            ),
            // The first probe of a new Cluster counts.
            (None, vec![(0, &down)], "0:False"),
            // That of a process that has just started does not when it failed.
            (Some("True"), vec![(0, &down), (29, &down), (30, &down)], "0:True 29:True 30:False"),
            (Some("False"), vec![(0, &up)], "0:True"),
        ] {
            let probes: Vec<(i64, Probe)> = probes.into_iter().map(|(second, probe)| (second, probe.clone())).collect();
            assert_eq!(outcome_of(start, &probes).0, expected);
        }
    }

    #[test]
    fn a_cluster_that_relapses_must_be_healthy_for_longer() {
        // Down for 40 s, up for 40 s, again and again: a probe each 10 s.
        let flapping = (0..120).map(|n| (n * 10, if (n / 4) % 2 == 1 { Probe::Offline } else { Probe::Healthy }));
        let probes: Vec<(i64, Probe)> = flapping.collect();
        let (seen, last) = outcome_of(None, &probes);
        let statuses: Vec<&str> = seen.split(' ').filter_map(|it| it.split(':').nth(1)).collect();
        let turns = statuses.windows(2).filter(|pair| pair[0] != pair[1]).count();
        // It fails, recovers, and then fails permanently.
        assert_eq!((turns, last.status.as_str()), (3, "False"), "{seen}");

        // Once it stays up for a minute it is ready, and a failure long after that is no relapse.
        let steady: Vec<(i64, Probe)> = (120..160).map(|n| (n * 10, Probe::Healthy)).collect();
        let (seen, _) = outcome_of(None, &[&probes[..], &steady[..]].concat());
        assert!(seen.contains("1250:False 1260:True"), "{seen}");
        let (_, last) = outcome_of(None, &[&probes[..], &steady[..5]].concat());
        assert_eq!(
            last.message,
            "cluster is not reachable; healthy since 1970-01-01T00:20:00Z, and ready after 60 s because it relapsed once \
             within 10 min of its recovery"
        );
        let later = (160..240).map(|n| (n * 10, if n % 95 < 10 { Probe::Offline } else { Probe::Healthy }));
        let (seen, _) = outcome_of(None, &[&probes[..], &steady[..], &later.collect::<Vec<_>>()[..]].concat());
        assert!(seen.contains("2020:False 2030:True"), "{seen}");
    }

    #[test]
    fn messages_name_the_observed_times() {
        let (_, last) =
            outcome_of(None, &[(0, Probe::Healthy), (10, Probe::Offline), (40, Probe::Offline), (50, Probe::Offline)]);
        assert_eq!(
            last.message,
            "cluster is not reachable (since 1970-01-01T00:00:10Z, last healthy at 1970-01-01T00:00:00Z)"
        );
        let (_, last) = outcome_of(None, &[(0, Probe::Unhealthy)]);
        assert_eq!(
            last.message,
            "cluster is reachable but health endpoint responded without ok (since 1970-01-01T00:00:00Z)"
        );
        let probes = [Probe::Offline, Probe::Denied(401), Probe::Denied(401), Probe::Offline, Probe::Offline];
        let messages = |count: usize| {
            let probes: Vec<_> = (0..).map(|n| n * 10).zip(probes[..count].iter().cloned()).collect();
            outcome_of(None, &probes).1.message
        };
        let denied = "cluster is not reachable: its API server answers 401 to Karmada's credentials";
        let since = "(since 1970-01-01T00:00:00Z)";
        assert_eq!([2, 3].map(messages), [1, 2].map(|_| format!("{denied} {since}")));
        assert_eq!([1, 4, 5].map(messages), [1, 2, 3].map(|_| format!("cluster is not reachable {since}")));
        // Another process continues with the condition.
        let (again, _) = settled(&Probe::Unhealthy, Some(&last), None, 100);
        assert_eq!(again, last);
    }

    #[test]
    fn a_clock_that_is_set_back_delays_nothing() {
        let day = 86400;
        let up = Condition { status: "True".to_owned(), ..Condition::default() };
        let signs = Signs { created: at(0), ready: Some(&up), renewed: Some("a") };
        let mut last = None;
        for (second, expected) in [(day, false), (60, false), (100, false), (101, true)] {
            let (condition, known) = silence(signs, last.as_ref(), Graces::default(), at(second));
            assert_eq!(condition.is_some(), expected, "{second}");
            last = Some(known);
        }
    }

    #[test]
    fn an_agent_that_was_cut_off_is_ready_after_the_threshold() {
        let condition = |status: &str| Condition { status: status.to_owned(), ..Condition::default() };
        let (up, unknown) = (condition("True"), condition("Unknown"));
        let mut memory = None;
        for (second, current, expected) in [
            (0, &up, "True"),
            (10, &up, "True"),
            // Here it sees the control plane's own observation.
            (100, &unknown, "Unknown"),
            (129, &unknown, "Unknown"),
            (130, &unknown, "True"),
        ] {
            let (condition, observation) = settled(&Probe::Healthy, Some(current), memory.as_ref(), second);
            assert_eq!(condition.status, expected, "{second}");
            memory = Some(observation);
        }
    }

    #[test]
    fn another_cluster_is_reported_at_once() {
        let refusal = Refusal::ControlPlane { uid: "u".to_owned() };
        let refused = Probe::Refused { cluster: "m1".to_owned(), refusal };
        let (mut current, mut memory) = (None, None);
        let mut seen = Vec::new();
        let steps =
            [(0, Probe::Healthy), (10, refused.clone()), (20, Probe::Healthy), (30, Probe::Offline), (40, refused)];
        for (second, probe) in steps {
            let (condition, observation) = settled(&probe, current.as_ref(), memory.as_ref(), second);
            seen.push(format!("{second}:{}:{}", condition.status, condition.reason));
            (current, memory) = (Some(condition), Some(observation));
        }
        let expected = "0:True:ClusterReady 10:False:ClusterIsControlPlane 20:True:ClusterReady 30:True:ClusterReady \
                        40:False:ClusterIsControlPlane";
        assert_eq!(seen.join(" "), expected);
    }
}
