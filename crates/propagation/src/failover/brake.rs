//! The global brake: when a large share of the fleet turns unhealthy within a short time, the fault is more likely in
//! the control plane or its network than in that many clusters. Evictions by taints then stop, until all but half that
//! share have recovered or an administrator releases them cluster by cluster.
//!
//! The only state is in the conditions on the Clusters, so that it survives restarts.

use std::time::Duration;

use apimachinery::meta::{Condition, Time};
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::{annotations, conditions, reasons};

use super::by_taint;
use crate::Since;

/// When the brake engages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// `--failover-brake-share`: it engages when more than this share of the fleet turns unhealthy; 1 turns it off.
    pub share: f64,
    /// `--failover-brake-window`: within this time.
    pub window: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { share: 0.5, window: Duration::from_secs(300) }
    }
}

/// A single cluster never engages the brake: in a fleet of one or two its death is a death.
const FEWEST: usize = 2;

/// A member of the fleet.
#[derive(Clone, Copy)]
pub struct Member<'a> {
    /// The Cluster object.
    pub cluster: &'a Cluster,
    /// Its last probe failed, or its agent is late. It may still be Ready.
    pub suspect: bool,
}

impl Member<'_> {
    /// A cluster that has never been ready is not part of the fleet: it cannot turn unhealthy.
    fn counts(&self) -> bool {
        let cluster = self.cluster;
        cluster.metadata.deletion_timestamp.is_none()
            && (cluster.is_ready() || !cluster.status.kubernetes_version.is_empty())
    }

    fn is_down(&self) -> bool {
        self.suspect || !self.cluster.is_ready()
    }

    /// Whether it turned not ready within the window.
    fn turned(&self, window: Duration, since: Since<'_>) -> bool {
        let ready = self.cluster.condition(conditions::READY).filter(|ready| ready.status != "True");
        let turned = ready.and_then(|ready| ready.last_transition_time);
        turned.is_some_and(|at| {
            // A stamp of the future, by another clock, is recent.
            Duration::try_from(since(at.timestamp())).map_or(true, |since| since <= window)
        })
    }
}

/// How the fleet is, as far as the brake is concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    /// The number of clusters.
    pub clusters: usize,
    /// Not ready now, or suspect.
    pub unhealthy: usize,
}

/// Since when the brake is engaged; `None` when it is not. `before` is since when it was.
pub fn engaged<'a>(
    fleet: impl IntoIterator<Item = Member<'a>>,
    before: Option<Time>,
    limits: Limits,
    (now, since): (Time, Since<'_>),
) -> (Option<Time>, Fleet) {
    let (mut counted, mut recent, mut evidence) = (Fleet::default(), 0, false);
    for member in fleet.into_iter().filter(Member::counts) {
        counted.clusters += 1;
        let turned = member.turned(limits.window, since);
        evidence |= turned;
        counted.unhealthy += usize::from(member.is_down());
        // A suspect member is about to turn.
        recent += usize::from(turned || (member.suspect && member.cluster.is_ready()));
    }
    let exceeds = |count: usize, share: f64| {
        let number = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        count >= FEWEST && limits.share < 1.0 && number(count) > share * number(counted.clusters)
    };
    let since = match before {
        // While a fleet recovers cluster by cluster, the remaining half must not be evicted.
        Some(since) => exceeds(counted.unhealthy, limits.share / 2.0).then_some(since),
        None => (evidence && exceeds(recent, limits.share)).then_some(now),
    };
    (since, counted)
}

/// The newest sign of life of a cluster, which its Ready condition follows with a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// Its last probe failed, or its agent is late.
    Missing,
    /// Its last probe succeeded, or its agent is back.
    Present,
}

/// Whether a cluster is about to recover, so that evictions from it wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// It is not recovering.
    No,
    /// Until its sign of life or its readiness changes, and for this time at most.
    Awaited(Duration),
    /// It is ready: for this time.
    Settles(Duration),
}

/// After a cluster turned ready, the taints of its conditions are removed within a moment.
const SETTLE: Duration = Duration::from_secs(10);
/// The first sign of life is known by then: a probe that is not answered takes 32 s.
const FIRST_SIGN: Duration = Duration::from_secs(120);
/// The longest success threshold by default (4 min) is over by then.
const LONGEST: Duration = Duration::from_secs(600);

/// `running` is for how long this process has watched the fleet.
pub fn recovery(cluster: &Cluster, sign: Option<Sign>, running: Duration, since: Since<'_>) -> Recovery {
    let within = |limit: Duration, passed: Duration| limit.checked_sub(passed).filter(|left| !left.is_zero());
    if cluster.is_ready() {
        let turned = cluster.condition(conditions::READY).and_then(|ready| ready.last_transition_time);
        // A taint that was added since does not follow from the time before.
        let is_old = |at: &Time| {
            by_taint::evicting(&cluster.spec.taints).all(|taint| taint.time_added.is_some_and(|added| added < *at))
        };
        let turned = turned.filter(is_old);
        let passed = turned.and_then(|at| Duration::try_from(since(at.timestamp())).ok());
        return passed.and_then(|passed| within(SETTLE, passed)).map_or(Recovery::No, Recovery::Settles);
    }
    match sign {
        Some(Sign::Missing) => Recovery::No,
        Some(Sign::Present) => Recovery::Awaited(LONGEST),
        None => within(FIRST_SIGN, running).map_or(Recovery::No, Recovery::Awaited),
    }
}

/// Since when a Cluster reports that evictions from it are paused.
pub fn paused_since(cluster: &Cluster) -> Option<Time> {
    let condition = cluster.condition(conditions::EVICTIONS_PAUSED)?;
    (condition.status == "True").then_some(condition.last_transition_time).flatten()
}

/// Whether a person released evictions from the cluster, of the pause that began at `since`.
pub fn is_released(cluster: &Cluster, since: Time) -> bool {
    let released = cluster.metadata.annotations.get(annotations::EVICTIONS_RELEASED);
    released.and_then(|text| text.parse().ok()).is_some_and(|time| Time::new(time) == since)
}

/// The condition `EvictionsPaused` to set on a Cluster; `None` if it is unchanged. `engaged` is the time since when the
/// brake is engaged.
pub fn condition(cluster: &Cluster, engaged: Option<Time>, fleet: Fleet, now: Time) -> Option<Condition> {
    let name = cluster.metadata.name.as_str();
    let evicts = by_taint::evicting(&cluster.spec.taints).next().is_some();
    let concerned = !cluster.is_ready() || evicts;
    let released = engaged.is_some_and(|since| is_released(cluster, since));
    let reported = paused_since(cluster);
    let (status, reason, since, message) = match engaged {
        Some(since) if concerned && !released => {
            if reported == Some(since) {
                return None;
            }
            let Fleet { clusters, unhealthy } = fleet;
            let message = format!(
                "{unhealthy} of {clusters} clusters turned unhealthy at about the same time, so the fault may be on the side \
                 of the control plane. No workload leaves this cluster by its taints until the fleet has recovered. If the \
                 cluster is lost, run \"karmadactl failover release {name}\" or \"kubectl annotate cluster {name} \
                 --overwrite {}={since}\"",
                annotations::EVICTIONS_RELEASED
            );
            ("True", reasons::FLEET_UNHEALTHY, since, message)
        }
        _ if reported.is_none() => return None,
        Some(_) if released => ("False", reasons::EVICTIONS_RELEASED, now, "A person released evictions".to_owned()),
        Some(_) => ("False", reasons::CLUSTER_RECOVERED, now, "The cluster has recovered".to_owned()),
        None => ("False", reasons::FLEET_RECOVERED, now, "The fleet has recovered".to_owned()),
    };
    Some(Condition {
        type_: conditions::EVICTIONS_PAUSED.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: Some(since),
        ..Condition::default()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Time {
        Time::new(jiff::Timestamp::from_second(second).unwrap())
    }

    fn since_1000(stamp: jiff::Timestamp) -> jiff::SignedDuration {
        at(1000).timestamp().duration_since(stamp)
    }

    /// `up`, `down@N` for one that turned at second N, `suspect`, `new` for one that never was ready, `leaving@N`.
    fn cluster(word: &str) -> (Cluster, bool) {
        let (kind, turned) = word.split_once('@').unwrap_or((word, "0"));
        let status = if ["up", "suspect"].contains(&kind) { "True" } else { "False" };
        let version = if kind == "new" { "" } else { "v1.30.0" };
        let mut metadata = json!({"name": "m1"});
        if kind == "leaving" {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let ready = json!({"type": "Ready", "status": status, "lastTransitionTime": at(turned.parse().unwrap())});
        let cluster = json!({"metadata": metadata, "spec": {"syncMode": "Push"},
            "status": {"kubernetesVersion": version, "conditions": [ready]}});
        (serde_json::from_value(cluster).unwrap(), kind == "suspect")
    }

    #[test]
    fn the_brake_engages_and_releases() {
        for (words, before, share, engaged) in [
            // Small fleets: one death is a death.
            ("down@990", None, 0.5, false),
            ("down@990 up", None, 0.5, false),
            ("down@990 down@990", None, 0.5, true),
            ("down@990 up up", None, 0.5, false),
            ("down@990 down@990 up", None, 0.5, true),
            ("down@990 down@990 up up", None, 0.5, false),
            ("down@990 down@990 down@990 up up", None, 0.5, true),
            // Spread over more time than the window of 300 s.
            ("down@990 down@600 up", None, 0.5, false),
            ("down@990 down@700 up", None, 0.5, true),
            // By another clock.
            ("down@1010 down@990 up", None, 0.5, true),
            // Probes of the others already fail, though none is reported yet.
            ("down@1000 suspect suspect up", None, 0.5, true),
            ("suspect suspect suspect up", None, 0.5, false),
            ("down@100 suspect suspect up", None, 0.5, false),
            // Those that were never ready, or leave, are not of the fleet.
            ("new new new up up", None, 0.5, false),
            ("down@990 new new up", None, 0.5, false),
            ("leaving@990 down@990 up up", None, 0.5, false),
            ("down@990 down@990 leaving@990 up", None, 0.5, true),
            // Other shares.
            ("down@990 down@990 up up up", None, 0.3, true),
            ("down@990 down@990", None, 1.0, false),
            ("down@990 up up up up up", None, 0.0, false),
            ("", None, 0.5, false),
            // It stays however long they are away, and releases once they are back.
            ("down@100 down@100 up", Some(100), 0.5, true),
            ("down@100 up up", Some(100), 0.5, false),
            ("down@100 down@100 up up", Some(100), 0.5, true),
            ("down@100 down@100 up up up up up", Some(100), 0.5, true),
            ("down@100 down@100 up up up up up up", Some(100), 0.5, false),
            ("down@100 suspect up", Some(100), 0.5, true),
        ] {
            let fleet: Vec<(Cluster, bool)> = words.split_whitespace().map(cluster).collect();
            let members = fleet.iter().map(|(cluster, suspect)| Member { cluster, suspect: *suspect });
            let limits = Limits { share, ..Limits::default() };
            let (since, _) = super::engaged(members, before.map(at), limits, (at(1000), &since_1000));
            let expected = engaged.then(|| before.map_or(at(1000), at));
            assert_eq!(since, expected, "{words}, {before:?}, {share}");
        }
    }

    #[test]
    fn no_workload_leaves_a_recovering_cluster() {
        let (missing, present) = (Some(Sign::Missing), Some(Sign::Present));
        let awaited = |seconds: u64| Recovery::Awaited(Duration::from_secs(seconds));
        for (word, sign, running, expected) in [
            // The taint is of second 994.
            ("down@900", missing, 1, Recovery::No),
            ("down@900", present, 1, awaited(600)),
            ("down@900", None, 1, awaited(119)),
            ("down@900", None, 120, Recovery::No),
            ("up@900", present, 1, Recovery::No),
            ("up@996", present, 1, Recovery::Settles(Duration::from_secs(6))),
            ("up@995", present, 1, Recovery::Settles(Duration::from_secs(5))),
            ("up@994", present, 1, Recovery::No),
            ("up@1100", present, 1, Recovery::No),
        ] {
            let (mut cluster, _) = cluster(word);
            let taint = json!([{"key": "a", "effect": "NoExecute", "timeAdded": at(994)}]);
            cluster.spec.taints = serde_json::from_value(taint).unwrap();
            let found = recovery(&cluster, sign, Duration::from_secs(running), &since_1000);
            assert_eq!(found, expected, "{word} {sign:?} {running}");
        }
    }

    #[test]
    fn conditions_report_paused_evictions() {
        let fleet = Fleet { clusters: 3, unhealthy: 2 };
        let paused = |since: i64| json!({"type": "EvictionsPaused", "status": "True", "lastTransitionTime": at(since)});
        let over = json!({"type": "EvictionsPaused", "status": "False", "lastTransitionTime": at(5)});
        let taint = json!([{"key": "a", "effect": "NoExecute"}]);
        let none = json!([]);
        for (word, taints, reported, released, engaged, expected) in [
            ("down", &none, None, None, Some(9), "True FleetUnhealthy 9"),
            ("down", &none, Some(paused(9)), None, Some(9), ""),
            ("up", &none, None, None, Some(9), ""),
            ("up", &taint, None, None, Some(9), "True FleetUnhealthy 9"),
            ("up", &none, Some(paused(9)), None, Some(9), "False ClusterRecovered 1000"),
            ("down", &none, Some(paused(9)), None, None, "False FleetRecovered 1000"),
            ("down", &none, Some(over.clone()), None, None, ""),
            ("down", &none, Some(over), None, Some(9), "True FleetUnhealthy 9"),
            ("down", &none, Some(paused(9)), Some(9), Some(9), "False EvictionsReleased 1000"),
            ("down", &none, None, Some(9), Some(9), ""),
            // That was for an earlier pause.
            ("down", &none, None, Some(8), Some(9), "True FleetUnhealthy 9"),
            ("down", &none, Some(paused(8)), None, Some(9), "True FleetUnhealthy 9"),
        ] {
            let (mut cluster, _) = cluster(word);
            cluster.spec.taints = serde_json::from_value(taints.clone()).unwrap();
            cluster.status.conditions.extend(reported.clone().map(|it| serde_json::from_value(it).unwrap()));
            let annotation = released.map(|since| (annotations::EVICTIONS_RELEASED.to_owned(), at(since).to_string()));
            cluster.metadata.annotations.extend(annotation);
            let found = condition(&cluster, engaged.map(at), fleet, at(1000));
            let shown = found.as_ref().map_or_else(String::new, |it| {
                let since = it.last_transition_time.map_or(0, |since| since.timestamp().as_second());
                format!("{} {} {since}", it.status, it.reason)
            });
            assert_eq!(shown, expected, "{word} {taints} {reported:?} {released:?} {engaged:?}");
        }
        let (down, _) = cluster("down");
        let message = condition(&down, Some(at(9)), fleet, at(1000)).expect("a condition").message;
        for part in [
            "2 of 3 clusters",
            "\"karmadactl failover release m1\"",
            "\"kubectl annotate cluster m1 --overwrite failover.karmada.io/evictions-released=1970-01-01T00:00:09Z\"",
        ] {
            assert!(message.contains(part), "{message}");
        }
    }
}
