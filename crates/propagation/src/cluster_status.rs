//! What is known of a cluster: readiness from probes, what it serves, its nodes and what is left on them.

use apimachinery::meta::{Condition, Time};
use karmada_api::cluster::v1alpha1::{ApiEnablement, NodeSummary};
use karmada_api::constants::{conditions, reasons};
use serde_json::Value;

use crate::identity::Refusal;

/// What a probe of a member's API server found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// No client could be built; the text is the reason.
    NoClient(String),
    Offline,
    /// It answered, but not that it is well.
    Unhealthy,
    Healthy,
    /// It answered, and its ID could not be written into its Cluster; the text is the reason.
    Unrecorded(String),
    /// It answered, and is not the cluster it should be.
    Refused {
        cluster: String,
        refusal: Refusal,
    },
}

impl Probe {
    /// The Ready condition this probe speaks for.
    pub fn condition(&self) -> Condition {
        let (status, reason, message) = match self {
            Self::NoClient(error) => {
                ("False", reasons::STATUS_COLLECTION_FAILED, format!("failed to create a ClusterClient: {error}"))
            }
            Self::Offline => ("False", reasons::CLUSTER_NOT_REACHABLE, "cluster is not reachable".to_owned()),
            Self::Unhealthy => (
                "False",
                reasons::CLUSTER_NOT_READY,
                "cluster is reachable but health endpoint responded without ok".to_owned(),
            ),
            Self::Healthy => {
                ("True", reasons::CLUSTER_READY, "cluster is healthy and ready to accept workloads".to_owned())
            }
            Self::Unrecorded(error) => {
                ("False", reasons::STATUS_COLLECTION_FAILED, format!("failed to record the ID in spec.id: {error}"))
            }
            Self::Refused { cluster, refusal } => ("False", refusal.reason(), refusal.message(cluster)),
        };
        Condition {
            type_: conditions::READY.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            ..Condition::default()
        }
    }
}

/// What is remembered of a cluster between probes, so that a single lost probe changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Whether the last probe found the cluster ready.
    pub ready: bool,
    /// Since when probes have found that.
    pub since: Time,
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

/// The Ready condition to report, and what to remember. `current` is the condition that stands.
pub fn settle(
    probe: &Probe,
    current: Option<&Condition>,
    remembered: Option<&Observation>,
    thresholds: Thresholds,
    now: Time,
) -> (Condition, Observation) {
    let observed = probe.condition();
    let ready = observed.status == "True";
    let (Some(current), Some(remembered)) = (current, remembered) else {
        return (observed, Observation { ready, since: now });
    };
    let since = if remembered.ready == ready { remembered.since } else { now };
    let lasted = now.timestamp().as_second() - since.timestamp().as_second();
    let needed = if ready { thresholds.success } else { thresholds.failure };
    let turns = ready != (current.status == "True");
    // Which cluster it is does not fluctuate as its health does.
    let is_certain = matches!(probe, Probe::Refused { .. }) || is_refusal(&current.reason);
    let reported = if turns && lasted < needed && !is_certain { current.clone() } else { observed };
    (reported, Observation { ready, since })
}

fn is_refusal(reason: &str) -> bool {
    [reasons::CLUSTER_IS_CONTROL_PLANE, reasons::CLUSTER_JOINED_TWICE, reasons::CLUSTER_REPLACED].contains(&reason)
}

/// When an agent was last heard of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The status and reason of the Ready condition it reported.
    ready: Option<(String, String)>,
    /// When it renewed its Lease, in the Lease's words.
    renewed: Option<String>,
    at: Time,
}

/// How long an agent may be silent, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Graces {
    pub usual: i64,
    /// Since a Cluster was made of which nothing was ever reported.
    pub startup: i64,
}

impl Default for Graces {
    fn default() -> Self {
        Self { usual: 40, startup: 60 }
    }
}

/// What an agent shows of itself.
#[derive(Clone, Copy, Debug)]
pub struct Signs<'a> {
    /// When its Cluster was made.
    pub created: Time,
    pub ready: Option<&'a Condition>,
    /// `spec.renewTime` of its Lease.
    pub renewed: Option<&'a str>,
}

/// The Ready condition of a cluster whose agent has been silent for too long, and what to remember. What changed since
/// the last look was heard now, and so is everything at the first look: before that nothing is known.
pub fn silence(signs: Signs<'_>, before: Option<&Heard>, graces: Graces, now: Time) -> (Option<Condition>, Heard) {
    let ready = signs.ready.map(|it| (it.status.clone(), it.reason.clone()));
    let renewed = signs.renewed.map(str::to_owned);
    let at = match before {
        Some(before) if before.ready == ready && before.renewed == renewed => before.at,
        Some(_) => now,
        None if ready.is_none() => signs.created,
        None => now,
    };
    let heard = Heard { ready, renewed, at };
    let grace = if signs.ready.is_some() { graces.usual } else { graces.startup };
    if now.timestamp().as_second() - at.timestamp().as_second() <= grace {
        return (None, heard);
    }
    let (reason, message) = match signs.ready {
        Some(_) => (reasons::CLUSTER_STATUS_UNKNOWN, "Cluster status controller stopped posting cluster status."),
        None => (reasons::CLUSTER_STATUS_NEVER_UPDATED, "Cluster status controller never posted cluster status."),
    };
    let unknown = Condition {
        type_: conditions::READY.to_owned(),
        status: "Unknown".to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        ..Condition::default()
    };
    if signs.ready.is_some_and(|it| it.status == unknown.status) {
        return (None, heard);
    }
    // What an agent that comes back reports is a change, be it what it reported last.
    let told = Some((unknown.status.clone(), unknown.reason.clone()));
    (Some(unknown), Heard { ready: told, ..heard })
}

/// Sorts what a member serves as it is stored, and says whether it is all. `failed` tells that some group could not be
/// asked.
pub fn api_enablements(mut found: Vec<ApiEnablement>, failed: bool) -> (Vec<ApiEnablement>, Condition) {
    for enablement in &mut found {
        enablement.resources.retain(|resource| !resource.name.contains('/'));
        enablement.resources.sort_by(|left, right| left.name.cmp(&right.name));
    }
    found.retain(|enablement| !enablement.resources.is_empty());
    found.sort_by(|left, right| left.group_version.cmp(&right.group_version));
    let (status, reason, message) = if found.is_empty() {
        let message = "collected empty APIEnablements from the cluster".to_owned();
        ("False", reasons::API_ENABLEMENTS_EMPTY, message)
    } else if failed {
        let message = format!("might collect partial APIEnablements({}) from the cluster", found.len());
        ("False", reasons::API_ENABLEMENTS_PARTIAL, message)
    } else {
        let message = "collected complete APIEnablements from the cluster".to_owned();
        ("True", reasons::API_ENABLEMENTS_COMPLETE, message)
    };
    let condition = Condition {
        type_: conditions::COMPLETE_API_ENABLEMENTS.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        ..Condition::default()
    };
    (found, condition)
}

/// How many nodes there are, and how many are ready.
pub fn node_summary<'a>(nodes: impl IntoIterator<Item = &'a Value>) -> NodeSummary {
    let mut summary = NodeSummary::default();
    for node in nodes {
        summary.total_num += 1;
        let conditions = node["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
        if conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True") {
            summary.ready_num += 1;
        }
    }
    summary
}

#[cfg(test)]
mod tests {
    use karmada_api::cluster::v1alpha1::EnabledResource;
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Time {
        Time::new(apimachinery_timestamp(second))
    }

    fn apimachinery_timestamp(second: i64) -> jiff::Timestamp {
        jiff::Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_silent_agent() {
        let ready =
            |status: &str| Condition { status: status.to_owned(), reason: "r".to_owned(), ..Condition::default() };
        let (up, unknown) = (ready("True"), ready("Unknown"));
        let mut before = None;
        for (second, ready, renewed, expected) in [
            // Nothing was ever reported: the Cluster is from second 0.
            (50, None, None, None),
            (61, None, None, Some("ClusterStatusNeverUpdated")),
            (62, Some(&unknown), None, None),
            (200, Some(&unknown), None, None),
            // The agent came.
            (210, Some(&up), Some("a"), None),
            (250, Some(&up), Some("a"), None),
            (251, Some(&up), Some("a"), Some("ClusterStatusUnknown")),
            // The Lease alone says that it lives.
            (252, Some(&up), Some("b"), None),
            (292, Some(&up), Some("b"), None),
            (293, Some(&up), Some("b"), Some("ClusterStatusUnknown")),
        ] {
            let signs = Signs { created: at(0), ready, renewed };
            let (condition, heard) = silence(signs, before.as_ref(), Graces::default(), at(second));
            assert_eq!(condition.map(|it| it.reason).as_deref(), expected, "{second}");
            before = Some(heard);
        }
        // Who has just begun to look knows nothing of the time before.
        let signs = Signs { created: at(0), ready: Some(&up), renewed: Some("b") };
        assert_eq!(silence(signs, None, Graces::default(), at(1000)).0, None);
    }

    #[test]
    fn a_change_must_last() {
        let (mut current, mut memory) = (None, None);
        let mut seen = Vec::new();
        for (second, probe) in [
            (0, Probe::Healthy),
            (10, Probe::Offline),
            (20, Probe::Healthy),
            (30, Probe::Offline),
            (50, Probe::Offline),
            (60, Probe::Offline),
            (70, Probe::Healthy),
            (99, Probe::Healthy),
            (100, Probe::Healthy),
        ] {
            let (condition, observation) =
                settle(&probe, current.as_ref(), memory.as_ref(), Thresholds::default(), at(second));
            seen.push(format!("{second}:{}", condition.status));
            (current, memory) = (Some(condition), Some(observation));
        }
        assert_eq!(seen.join(" "), "0:True 10:True 20:True 30:True 50:True 60:False 70:False 99:False 100:True");
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
            let (condition, observation) =
                settle(&probe, current.as_ref(), memory.as_ref(), Thresholds::default(), at(second));
            seen.push(format!("{second}:{}:{}", condition.status, condition.reason));
            (current, memory) = (Some(condition), Some(observation));
        }
        let expected = "0:True:ClusterReady 10:False:ClusterIsControlPlane 20:True:ClusterReady 30:True:ClusterReady \
                        40:False:ClusterIsControlPlane";
        assert_eq!(seen.join(" "), expected);
    }

    #[test]
    fn the_first_probe_counts() {
        let (condition, _) = settle(&Probe::Offline, None, None, Thresholds::default(), at(0));
        assert_eq!(condition.reason, "ClusterNotReachable");
    }

    #[test]
    fn enablements() {
        let of = |group_version: &str, names: &[&str]| ApiEnablement {
            group_version: group_version.to_owned(),
            resources: names
                .iter()
                .map(|name| EnabledResource { name: (*name).to_owned(), kind: "K".to_owned() })
                .collect(),
        };
        let (sorted, condition) = api_enablements(
            vec![of("v1", &["pods", "pods/log", "events"]), of("apps/v1", &["x"]), of("y/v1", &[])],
            false,
        );
        assert_eq!(sorted, [of("apps/v1", &["x"]), of("v1", &["events", "pods"])]);
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("True", "Complete"));
        let message = "might collect partial APIEnablements(1) from the cluster";
        assert_eq!(api_enablements(vec![of("v1", &["x"])], true).1.message, message);
        assert_eq!(api_enablements(vec![], true).1.reason, "Empty");
    }

    #[test]
    fn nodes() {
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let summary = node_summary(&[ready, json!({})]);
        assert_eq!((summary.total_num, summary.ready_num), (2, 1));
    }
}
