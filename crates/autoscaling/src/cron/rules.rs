//! The rules of a CronFederatedHPA: the due ones, the next due time, and the history in the status.
//!
//! A due time that passed while no controller ran is not repeated: a rule is scheduled from the moment it is first
//! observed or changed.

use std::collections::BTreeMap;

use apimachinery::meta::Time;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use karmada_api::autoscaling::v1alpha1::{
    CronFederatedHPARule, CronFederatedHPASpec, CronFederatedHPAStatus, CrossVersionObjectReference, ExecutionHistory,
    FailedExecution, SuccessfulExecution,
};

use super::{Schedule, ScheduleError, zone};

/// The number of executions in the status if the rule does not define it.
const DEFAULT_HISTORY: i32 = 3;

/// A clock that is set back by more than this was wrong before, as in cron(8) of Debian.
const CORRECTION: SignedDuration = SignedDuration::from_hours(3);

/// The scheduled rules of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Jobs {
    target: CrossVersionObjectReference,
    rules: BTreeMap<String, Job>,
}

#[derive(Clone, Debug, PartialEq)]
struct Job {
    /// The rule as it was scheduled; a change schedules it again.
    text: String,
    zone: Option<String>,
    state: Result<Running, ScheduleError>,
}

#[derive(Clone, Debug, PartialEq)]
struct Running {
    schedule: Schedule,
    /// The time after which `next` is the first.
    from: Timestamp,
    /// `None`: never again.
    next: Option<Timestamp>,
}

/// A due rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Due {
    /// The rule.
    pub rule: CronFederatedHPARule,
    /// The time for which it was scheduled; the last one if several have passed.
    pub at: Timestamp,
}

/// The actions that are due.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// Rules to run, in the order of their times.
    pub due: Vec<Due>,
    /// Rules that cannot be scheduled, each reported once: the name and the error.
    pub failed: Vec<(String, ScheduleError)>,
}

impl Jobs {
    /// Schedules new and changed rules, removes deleted and suspended ones, and returns the due ones. `local` is the
    /// zone of rules without one.
    pub fn turn(&mut self, spec: &CronFederatedHPASpec, now: Timestamp, local: &TimeZone) -> Turn {
        if self.target != spec.scale_target_ref {
            // As upstream: a rule for another target starts from now.
            *self = Self { target: spec.scale_target_ref.clone(), rules: BTreeMap::new() };
        }
        let mut turn = Turn::default();
        let active = |rule: &&CronFederatedHPARule| rule.suspend != Some(true);
        self.rules.retain(|name, _| spec.rules.iter().filter(active).any(|rule| rule.name == *name));
        for rule in spec.rules.iter().filter(active) {
            let job = self.rules.get(&rule.name);
            if job.is_none_or(|job| job.text != rule.schedule || job.zone != rule.time_zone) {
                let job = Job::new(rule, now, local);
                if let Err(error) = &job.state {
                    turn.failed.push((rule.name.clone(), error.clone()));
                }
                self.rules.insert(rule.name.clone(), job);
            }
            let Some(Job { state: Ok(running), .. }) = self.rules.get_mut(&rule.name) else { continue };
            running.follow_clock(now);
            if let Some(first) = running.next.filter(|next| *next <= now) {
                let at = running.schedule.latest(first, now);
                *running = Running::new(running.schedule.clone(), now);
                turn.due.push(Due { rule: rule.clone(), at });
            }
        }
        turn.due.sort_by_key(|due| due.at);
        turn
    }

    /// When the next rule is due.
    pub fn next(&self) -> Option<Timestamp> {
        self.rules.values().filter_map(|job| job.state.as_ref().ok()?.next).min()
    }

    fn next_of(&self, rule: &str) -> Option<Timestamp> {
        self.rules.get(rule)?.state.as_ref().ok()?.next
    }
}

impl Job {
    fn new(rule: &CronFederatedHPARule, now: Timestamp, local: &TimeZone) -> Self {
        let zone = rule.time_zone.as_ref().map_or(Ok(local.clone()), |name| zone(name, local));
        let schedule = zone.and_then(|zone| Schedule::parse(&rule.schedule, zone));
        let state = schedule.map(|schedule| Running::new(schedule, now));
        Self { text: rule.schedule.clone(), zone: rule.time_zone.clone(), state }
    }
}

impl Running {
    fn new(schedule: Schedule, now: Timestamp) -> Self {
        Self { next: schedule.next(now), from: now, schedule }
    }

    /// After the clock was set back far, the rule is scheduled by the corrected time: it would not run until then
    /// otherwise. After less, it does not run again for times that have passed once.
    fn follow_clock(&mut self, now: Timestamp) {
        if self.from.duration_since(now) > CORRECTION {
            *self = Self::new(self.schedule.clone(), now);
        }
    }
}

/// The numbers that a run sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// Replicas of a workload.
    Replicas(i32),
    /// The bounds of a FederatedHPA; absent ones stay.
    Bounds {
        /// `spec.minReplicas`
        min: Option<i32>,
        /// `spec.maxReplicas`
        max: Option<i32>,
    },
}

/// Whether a target is a FederatedHPA.
pub fn is_federated_hpa(target: &CrossVersionObjectReference) -> bool {
    target.api_version == "autoscaling.karmada.io/v1alpha1" && target.kind == "FederatedHPA"
}

/// The values that a rule sets.
///
/// # Errors
/// When the rule does not define them; admission refuses such rules.
pub fn applied(target: &CrossVersionObjectReference, rule: &CronFederatedHPARule) -> Result<Applied, String> {
    if is_federated_hpa(target) {
        let (min, max) = (rule.target_min_replicas, rule.target_max_replicas);
        return match (min, max) {
            (None, None) => Err(format!("rule {} has neither targetMinReplicas nor targetMaxReplicas", rule.name)),
            _ => Ok(Applied::Bounds { min, max }),
        };
    }
    let replicas = rule.target_replicas.ok_or_else(|| format!("rule {} has no targetReplicas", rule.name))?;
    Ok(Applied::Replicas(replicas))
}

/// The merge patch of a FederatedHPA's bounds; `None` when they are as requested. `min` and `max` are its present
/// bounds.
///
/// # Errors
/// When the bounds would contradict each other.
pub fn bounds_patch(
    min: Option<i32>,
    max: i32,
    bounds: (Option<i32>, Option<i32>),
) -> Result<Option<serde_json::Value>, String> {
    let new = (bounds.0.or(min), bounds.1.unwrap_or(max));
    if new == (min, max) {
        return Ok(None);
    }
    if new.0.unwrap_or(1) > new.1 {
        let (min, max) = (new.0.unwrap_or(1), new.1);
        return Err(format!("minReplicas would be {min} and maxReplicas {max}; set both in the rule"));
    }
    let mut spec = serde_json::Map::new();
    if new.0 != min {
        spec.insert("minReplicas".to_owned(), new.0.into());
    }
    if new.1 != max {
        spec.insert("maxReplicas".to_owned(), new.1.into());
    }
    Ok(Some(serde_json::json!({ "spec": spec })))
}

/// A run and its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The name of the rule.
    pub rule: String,
    /// When it was due.
    pub scheduled: Timestamp,
    /// When it ended.
    pub executed: Timestamp,
    /// The values that it set, or the error.
    pub result: Result<Applied, String>,
}

/// The status after some runs, oldest first: the rules of the spec in its order, newest executions first, no more than
/// the limits.
pub fn status(
    spec: &CronFederatedHPASpec,
    old: &CronFederatedHPAStatus,
    jobs: &Jobs,
    runs: &[Run],
) -> CronFederatedHPAStatus {
    let history = |rule: &CronFederatedHPARule| {
        let known = old.execution_histories.iter().find(|it| it.rule_name == rule.name);
        let mut history = known
            .cloned()
            .unwrap_or_else(|| ExecutionHistory { rule_name: rule.name.clone(), ..ExecutionHistory::default() });
        history.next_execution_time = jobs.next_of(&rule.name).map(Time::new);
        for run in runs.iter().filter(|run| run.rule == rule.name) {
            record(&mut history, run);
        }
        let limit = |limit: Option<i32>| usize::try_from(limit.unwrap_or(DEFAULT_HISTORY)).unwrap_or(0);
        history.successful_executions.truncate(limit(rule.successful_history_limit));
        history.failed_executions.truncate(limit(rule.failed_history_limit));
        history
    };
    CronFederatedHPAStatus { execution_histories: spec.rules.iter().map(history).collect() }
}

fn record(history: &mut ExecutionHistory, run: &Run) {
    let schedule_time = Some(Time::new(run.scheduled));
    let execution_time = Some(Time::new(run.executed));
    match &run.result {
        Ok(applied) => {
            let (replicas, min, max) = match *applied {
                Applied::Replicas(replicas) => (Some(replicas), None, None),
                Applied::Bounds { min, max } => (None, min, max),
            };
            let execution = SuccessfulExecution {
                applied_replicas: replicas,
                applied_min_replicas: min,
                applied_max_replicas: max,
                schedule_time,
                execution_time,
            };
            history.successful_executions.insert(0, execution);
        }
        Err(message) => {
            let execution = FailedExecution { message: message.clone(), schedule_time, execution_time };
            history.failed_executions.insert(0, execution);
        }
    }
}
