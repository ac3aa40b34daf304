//! Jobs: pods until enough of them have succeeded.

use std::collections::BTreeSet;
use std::time::Duration;

use apimachinery::meta::{Time, null_as_default};
use serde::Deserialize;
use serde_json::{Value, json};

use super::meta::Meta;
use super::pod::{self, Phase, PodFacts};
use super::{Action, Kind, Plan};

const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The maximum number of pods that a reconcile creates or deletes.
const BURST: usize = 500;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Job {
    pub metadata: Meta,
    pub spec: Spec,
    pub status: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spec {
    parallelism: Option<i64>,
    completions: Option<i64>,
    backoff_limit: Option<i64>,
    active_deadline_seconds: Option<i64>,
    #[serde(deserialize_with = "null_as_default")]
    completion_mode: String,
    #[serde(deserialize_with = "null_as_default")]
    suspend: bool,
    template: Value,
}

/// The pods of a Job by phase.
struct Tally<'t> {
    active: Vec<&'t PodFacts>,
    ready: usize,
    succeeded: Vec<&'t PodFacts>,
    failed: usize,
}

/// The end of a Job: condition, reason, message.
type End = (&'static str, &'static str, &'static str);

const COMPLETE: End = ("Complete", "CompletionsReached", "Reached expected number of succeeded pods");
const TOO_MANY_FAILURES: End = ("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit");
const TOO_LATE: End = ("Failed", "DeadlineExceeded", "Job was active longer than specified deadline");

pub(crate) fn plan<'p>(job: &Job, pods: impl Iterator<Item = &'p PodFacts>, now: jiff::Timestamp) -> Plan {
    if job.metadata.is_deleting() || holds(job, "Complete") || holds(job, "Failed") {
        return Plan::nothing();
    }
    let tally = tally(pods);
    let left = left(job, now);
    if job.spec.suspend {
        let mut actions: Vec<Action> =
            tally.active.iter().take(BURST).map(|pod| super::replica_set::delete(pod)).collect();
        if actions.is_empty() {
            actions = written(job, status(job, &tally, None, now));
        }
        return Plan { actions, again: None };
    }
    if let Some(end) = end(job, &tally, left) {
        let mut actions: Vec<Action> = tally.active.iter().map(|pod| super::replica_set::delete(pod)).collect();
        actions.extend(written(job, status(job, &tally, Some(end), now)));
        return Plan { actions, again: None };
    }
    let mut actions = resize(job, &tally);
    if actions.is_empty() {
        actions.extend(written(job, status(job, &tally, None, now)));
    }
    Plan { actions, again: left }
}

fn tally<'p>(pods: impl Iterator<Item = &'p PodFacts>) -> Tally<'p> {
    let mut tally = Tally { active: Vec::new(), ready: 0, succeeded: Vec::new(), failed: 0 };
    for pod in pods {
        match pod.phase {
            Phase::Succeeded => tally.succeeded.push(pod),
            Phase::Failed => tally.failed += 1,
            _ if pod.deleting => {}
            _ => {
                tally.ready += usize::from(pod.is_ready());
                tally.active.push(pod);
            }
        }
    }
    tally
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn end(job: &Job, tally: &Tally<'_>, left: Option<Duration>) -> Option<End> {
    let succeeded = count(tally.succeeded.len());
    let done = match job.spec.completions {
        Some(completions) => succeeded >= completions,
        // A work queue: the first success means that it is empty.
        None => succeeded > 0 && tally.active.is_empty(),
    };
    match () {
        () if done => Some(COMPLETE),
        () if count(tally.failed) > job.spec.backoff_limit.unwrap_or(6) => Some(TOO_MANY_FAILURES),
        () if left.is_some_and(|left| left.is_zero()) => Some(TOO_LATE),
        () => None,
    }
}

/// The time until the Job's deadline, zero when it has passed; `None` without a deadline, or before the start.
fn left(job: &Job, now: jiff::Timestamp) -> Option<Duration> {
    let start: jiff::Timestamp = job.status["startTime"].as_str()?.parse().ok()?;
    let end = start + jiff::SignedDuration::from_secs(job.spec.active_deadline_seconds?);
    Some(Duration::try_from(end.duration_since(now)).unwrap_or_default())
}

fn resize(job: &Job, tally: &Tally<'_>) -> Vec<Action> {
    let parallelism = job.spec.parallelism.unwrap_or(1).max(0);
    let active = count(tally.active.len());
    let desired = match job.spec.completions {
        Some(completions) => parallelism.min(completions - count(tally.succeeded.len())),
        None if tally.succeeded.is_empty() => parallelism,
        None => active.min(parallelism),
    };
    if active > desired {
        let mut surplus = tally.active.clone();
        surplus.sort_by_key(|pod| super::replica_set::leaves_last(pod));
        let surplus = surplus.into_iter().take(usize::try_from(active - desired).unwrap_or(0).min(BURST));
        return surplus.map(super::replica_set::delete).collect();
    }
    let missing = usize::try_from(desired - active).unwrap_or(0).min(BURST);
    if job.spec.completion_mode == "Indexed" { indexed(job, tally, missing) } else { vec![pod(job, None); missing] }
}

fn pod(job: &Job, index: Option<i64>) -> Action {
    let (uid, name) = (job.metadata.uid.as_str(), job.metadata.name.as_str());
    let labels = [
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
        ("controller-uid", uid),
        ("job-name", name),
    ];
    let mut pod = pod::from_template(&job.spec.template, &job.metadata, "batch/v1", "Job", &labels);
    if let Some(index) = index {
        pod["metadata"]["generateName"] = format!("{name}-{index}-").into();
        pod["metadata"]["annotations"][INDEX] = index.to_string().into();
        pod["metadata"]["labels"][INDEX] = index.to_string().into();
        pod["spec"]["hostname"] = format!("{name}-{index}").into();
    }
    Action::Create(Kind::Pod, pod)
}

/// Pods for the lowest indexes without an active pod.
fn indexed(job: &Job, tally: &Tally<'_>, missing: usize) -> Vec<Action> {
    let taken: BTreeSet<i64> =
        tally.active.iter().chain(&tally.succeeded).filter_map(|pod| index_of(job, pod)).collect();
    let free = (0..job.spec.completions.unwrap_or(0)).filter(|index| !taken.contains(index));
    free.take(missing).map(|index| pod(job, Some(index))).collect()
}

/// From the pod's name, `JOB-INDEX-SUFFIX`.
fn index_of(job: &Job, pod: &PodFacts) -> Option<i64> {
    let rest = pod.key.name().strip_prefix(job.metadata.name.as_str())?.strip_prefix('-')?;
    rest.split_once('-')?.0.parse().ok()
}

fn holds(job: &Job, type_: &str) -> bool {
    let conditions = job.status["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == type_ && condition["status"] == "True")
}

fn status(job: &Job, tally: &Tally<'_>, end: Option<End>, now: jiff::Timestamp) -> Value {
    let time = Time::new(now);
    let ended = end.is_some();
    let mut status =
        json!({"uncountedTerminatedPods": {}, "terminating": 0, "ready": if ended { 0 } else { tally.ready }});
    for (field, number) in [
        ("active", if ended { 0 } else { tally.active.len() }),
        ("succeeded", tally.succeeded.len()),
        ("failed", tally.failed),
    ] {
        if number > 0 {
            status[field] = number.into();
        }
    }
    if !job.spec.suspend {
        let since = &job.status["startTime"];
        status["startTime"] = if since.is_null() { json!(time) } else { since.clone() };
    }
    if job.spec.completion_mode == "Indexed" {
        let done: BTreeSet<i64> = tally.succeeded.iter().filter_map(|pod| index_of(job, pod)).collect();
        status["completedIndexes"] = ranges(&done).into();
    }
    let conditions = conditions(job, end, time);
    if !conditions.is_empty() {
        status["conditions"] = conditions.into();
    }
    if matches!(end, Some(("Complete", ..))) {
        status["completionTime"] = json!(time);
    }
    status
}

fn conditions(job: &Job, end: Option<End>, now: Time) -> Vec<Value> {
    let mut conditions = job.status["conditions"].as_array().cloned().unwrap_or_default();
    let condition = |type_: &str, status: &str, reason: &str, message: &str| {
        json!({"type": type_, "status": status, "reason": reason, "message": message,
            "lastProbeTime": now, "lastTransitionTime": now})
    };
    let suspended = conditions.iter().position(|condition| condition["type"] == "Suspended");
    let news = match (job.spec.suspend, holds(job, "Suspended"), suspended) {
        (true, false, _) => Some(condition("Suspended", "True", "JobSuspended", "Job suspended")),
        (false, true, _) => Some(condition("Suspended", "False", "JobResumed", "Job resumed")),
        _ => None,
    };
    match (news, suspended) {
        (Some(news), Some(position)) => conditions[position] = news,
        (Some(news), None) => conditions.push(news),
        (None, _) => {}
    }
    if let Some((type_, reason, message)) = end {
        let first = if type_ == "Complete" { "SuccessCriteriaMet" } else { "FailureTarget" };
        conditions.push(condition(first, "True", reason, message));
        conditions.push(condition(type_, "True", reason, message));
    }
    conditions
}

/// `0-3,5,6`: two consecutive numbers are not a range.
fn ranges(numbers: &BTreeSet<i64>) -> String {
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let text = |(first, last): (i64, i64)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    };
    ranges.into_iter().map(text).collect::<Vec<_>>().join(",")
}

fn written(job: &Job, status: Value) -> Vec<Action> {
    if status == job.status {
        return Vec::new();
    }
    vec![Action::Status(Kind::Job, job.metadata.with_status(status))]
}
