//! The status of a Deployment: counts, and the conditions Available and Progressing.

use std::time::Duration;

use apimachinery::meta::Time;
use serde_json::{Value, json};

use super::deployment::{Deployment, Owned, REVISION, REVISION_HISTORY, Sets};
use super::replica_set::ReplicaSet;
use super::{Action, Kind, Plan};

const DEFAULT_DEADLINE: i64 = 600;

/// Creation times are whole seconds, so this waits for at least one second.
const FIRST_COUNT: Duration = Duration::from_secs(2);

/// The numbers of a status.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counts {
    replicas: i64,
    updated: i64,
    ready: i64,
    available: i64,
    unavailable: i64,
}

impl Counts {
    fn of(sets: &Sets<'_>) -> Self {
        let sum = |count: fn(&Owned) -> i64| sets.all().map(count).sum::<i64>();
        let available = sum(|owned| owned.set.status.available_replicas);
        Self {
            replicas: sum(|owned| owned.set.status.replicas),
            updated: sets.new.map_or(0, |new| new.set.status.replicas),
            ready: sum(|owned| owned.set.status.ready_replicas),
            available,
            unavailable: (sum(|owned| owned.set.replicas()) - available).max(0),
        }
    }

    fn read(status: &Value) -> Self {
        let number = |field: &str| status[field].as_i64().unwrap_or(0);
        Self {
            replicas: number("replicas"),
            updated: number("updatedReplicas"),
            ready: number("readyReplicas"),
            available: number("availableReplicas"),
            unavailable: number("unavailableReplicas"),
        }
    }

    fn complete(self, desired: i64) -> bool {
        self.updated == desired && self.replicas == desired && self.available >= desired
    }

    fn progressed_from(self, before: Self) -> bool {
        self.updated > before.updated
            || self.replicas - self.updated < before.replicas - before.updated
            || self.ready > before.ready
            || self.available > before.available
    }
}

pub(crate) fn is_complete(deployment: &Deployment, sets: &Sets<'_>) -> bool {
    Counts::of(sets).complete(deployment.replicas())
}

/// Status, reason and message of a condition.
#[derive(Clone, Debug, PartialEq)]
struct NewCondition {
    status: &'static str,
    reason: &'static str,
    message: String,
    /// Sets the update time even without other changes.
    renewed: bool,
}

/// Plans a status write if the status changes.
pub(crate) fn plan(deployment: &Deployment, sets: &Sets<'_>, now: jiff::Timestamp) -> Plan {
    if let Some(fresh) = sets.all().find_map(|owned| fresh(&owned.set, now)) {
        return Plan::after(fresh);
    }
    let counts = Counts::of(sets);
    let time = Time::new(now);
    let (progressing, again) = progressing(deployment, sets, counts, now);
    let mut conditions: Vec<Value> = deployment.status["conditions"].as_array().cloned().unwrap_or_default();
    set(&mut conditions, "Available", &available(deployment, counts), time);
    if let Some(new_condition) = &progressing {
        set(&mut conditions, "Progressing", new_condition, time);
    }
    let mut status = json!({"observedGeneration": deployment.metadata.generation, "conditions": conditions});
    for (field, count) in [
        ("replicas", counts.replicas),
        ("updatedReplicas", counts.updated),
        ("readyReplicas", counts.ready),
        ("availableReplicas", counts.available),
        ("unavailableReplicas", counts.unavailable),
    ] {
        if count > 0 {
            status[field] = count.into();
        }
    }
    let revision = sets.new.and_then(|new| new.set.metadata.annotations.get(REVISION));
    let revised = revision.is_some() && deployment.metadata.annotations.get(REVISION) != revision;
    if status == deployment.status && !revised {
        return again.map_or_else(Plan::nothing, Plan::after);
    }
    let mut body = deployment.metadata.with_status(status);
    if let (true, Some(revision)) = (revised, revision) {
        // The status subresource of built-in kinds accepts annotations as well, which saves a write.
        body["metadata"]["annotations"][REVISION] = revision.as_str().into();
    }
    Plan { actions: vec![Action::Status(Kind::Deployment, body)], again }
}

/// How long to wait for a ReplicaSet's first count. Just after its creation it counts nothing, and a status write with
/// that would be wasted; a set that still counts nothing later has a problem, which is reported.
fn fresh(set: &ReplicaSet, now: jiff::Timestamp) -> Option<Duration> {
    let created = set.metadata.creation_timestamp?.timestamp();
    let age = Duration::try_from(now.duration_since(created)).unwrap_or_default();
    let left = FIRST_COUNT.checked_sub(age).filter(|left| !left.is_zero())?;
    (set.status.observed_generation == 0).then_some(left)
}

fn available(deployment: &Deployment, counts: Counts) -> NewCondition {
    let (_, unavailable) = deployment.slack();
    let (status, reason, message) = if counts.available >= deployment.replicas() - unavailable {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    NewCondition { status, reason, message: message.to_owned(), renewed: false }
}

/// The desired condition, `None` if it is unchanged; and the deadline for progress.
fn progressing(
    deployment: &Deployment,
    sets: &Sets<'_>,
    counts: Counts,
    now: jiff::Timestamp,
) -> (Option<NewCondition>, Option<Duration>) {
    let new_condition =
        |status, reason, message: String| Some(NewCondition { status, reason, message, renewed: false });
    let before = condition(&deployment.status, "Progressing");
    let reason = before.and_then(|before| before["reason"].as_str()).unwrap_or_default();
    if deployment.spec.paused {
        return (new_condition("Unknown", "DeploymentPaused", "Deployment is paused".to_owned()), None);
    }
    if reason == "DeploymentPaused" {
        return (new_condition("Unknown", "DeploymentResumed", "Deployment is resumed".to_owned()), None);
    }
    let name = sets.new.map_or(&deployment.metadata.name, |new| &new.set.metadata.name);
    let kind = if sets.new.is_some() { "ReplicaSet" } else { "Deployment" };
    if counts.complete(deployment.replicas()) {
        let text = format!("{kind} {name:?} has successfully progressed.");
        return (new_condition("True", "NewReplicaSetAvailable", text), None);
    }
    let previous = before.and_then(|before| before["message"].as_str()).unwrap_or_default();
    let is_news = sets.new.is_some() && !previous.contains(&format!("{name:?}"));
    if reason == "NewReplicaSetAvailable" && counts.replicas == counts.updated && !is_news {
        // Pods were lost, or the Deployment was scaled, after the rollout; this is not a rollout.
        return (None, None);
    }
    if is_news {
        let back = sets.new.is_some_and(|new| new.set.metadata.annotations.contains_key(REVISION_HISTORY));
        let (reason, verb) = if back { ("FoundNewReplicaSet", "Found") } else { ("NewReplicaSetCreated", "Created") };
        let news =
            NewCondition { status: "True", reason, message: format!("{verb} new replica set {name:?}"), renewed: true };
        return (Some(news), Some(deadline(deployment)));
    }
    if before.is_none() {
        return (None, None);
    }
    if counts.progressed_from(Counts::read(&deployment.status)) {
        let message = format!("{kind} {name:?} is progressing.");
        let news = NewCondition { status: "True", reason: "ReplicaSetUpdated", message, renewed: true };
        return (Some(news), Some(deadline(deployment)));
    }
    if reason == "ProgressDeadlineExceeded" {
        return (None, None);
    }
    match left(deployment, before, now) {
        Some(left) => (None, Some(left)),
        None => {
            let text = format!("{kind} {name:?} has timed out progressing.");
            (new_condition("False", "ProgressDeadlineExceeded", text), None)
        }
    }
}

fn deadline(deployment: &Deployment) -> Duration {
    let seconds = deployment.spec.progress_deadline_seconds.unwrap_or(DEFAULT_DEADLINE);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// The remaining progress deadline; `None` if it is exceeded.
fn left(deployment: &Deployment, condition: Option<&Value>, now: jiff::Timestamp) -> Option<Duration> {
    let updated: Option<jiff::Timestamp> = condition?["lastUpdateTime"].as_str().and_then(|text| text.parse().ok());
    let passed = Duration::try_from(now.duration_since(updated?)).unwrap_or_default();
    deadline(deployment).checked_sub(passed).filter(|left| !left.is_zero())
}

fn condition<'s>(status: &'s Value, type_: &str) -> Option<&'s Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == type_)
}

/// Sets a condition; an unchanged one keeps its times.
fn set(conditions: &mut Vec<Value>, type_: &str, new_condition: &NewCondition, now: Time) {
    let position = conditions.iter().position(|condition| condition["type"] == type_);
    let before = position.map(|position| &conditions[position]);
    let same_status = before.filter(|before| before["status"] == new_condition.status);
    let unchanged = same_status
        .is_some_and(|b| b["reason"] == new_condition.reason && b["message"] == new_condition.message.as_str());
    if unchanged && !new_condition.renewed {
        return;
    }
    let since = same_status.map_or_else(|| json!(now), |before| before["lastTransitionTime"].clone());
    let news = json!({"type": type_, "status": new_condition.status, "reason": new_condition.reason, "message": new_condition.message,
        "lastUpdateTime": now, "lastTransitionTime": since});
    match position {
        Some(position) => conditions[position] = news,
        None => conditions.push(news),
    }
}
