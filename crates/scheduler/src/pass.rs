//! One pass over a binding: reads it, decides, writes the differences.

use std::sync::Arc;

use apimachinery::Object;
use apimachinery::meta::Time;
use client::{Patch, PatchOptions};
use karmada_api::constants::events;
use karmada_api::identity::BindingKey;
use karmada_api::scope::Binding;
use scheduling::outcome::{self, WriteError};
use scheduling::record::Record;
use scheduling::{Decision, Estimates, Gates, Problem, ScheduleError, ScheduleType, Snapshot};
use serde_json::Value;
use world::Moment;

use crate::assumptions::{AssumedReplicas, OtherAssumptions};
use crate::estimates::{Answers, Known, Source};
use crate::metrics::{Counted, Stopwatch};
use crate::peers::{self, Neighbours};
use crate::queue::Outcome;
use crate::roster::MissingResource;
use crate::shared::{Shared, involved};
use crate::triggers::{self, IgnoreReason};
use crate::writes;

/// How often a binding is read again after a conflict. Others write a binding a few times after each change; after this
/// many attempts it is requeued.
const ATTEMPTS: u32 = 5;

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub outcome: Outcome,
    /// The version of the binding up to which everything was dealt with.
    pub version: u64,
    pub missing: Option<MissingResource>,
}

impl Ended {
    fn done(version: u64) -> Self {
        Self { outcome: Outcome::Done, version, missing: None }
    }

    pub(crate) fn retry() -> Self {
        Self { outcome: Outcome::Retry, version: 0, missing: None }
    }
}

/// Why an attempt did not get to its end.
enum Interrupted {
    /// Another client wrote the binding.
    Conflict,
    /// The binding was deleted.
    Gone,
    Failed(client::Error),
}

impl From<client::Error> for Interrupted {
    fn from(error: client::Error) -> Self {
        match error {
            error if error.is_conflict() => Self::Conflict,
            error if error.is_not_found() => Self::Gone,
            error => Self::Failed(error),
        }
    }
}

pub(crate) async fn run(shared: &Shared, key: &BindingKey) -> Ended {
    let mut object = shared.newest(key);
    for _ in 0..ATTEMPTS {
        let Some(current) = object else { return Ended::done(0) };
        let error = match attempt(shared, &current).await {
            Ok(ended) => {
                if ended.outcome == Outcome::Done {
                    shared.journal.settled(key);
                }
                return ended;
            }
            Err(Interrupted::Gone) => return Ended::done(current.revision()),
            Err(Interrupted::Failed(error)) => error,
            Err(Interrupted::Conflict) => match shared.client.get_opt(&key.resource(), key).await {
                Ok(live) => {
                    object = live;
                    continue;
                }
                Err(error) => error,
            },
        };
        if error.is_namespace_terminating() {
            return Ended::done(current.revision());
        }
        shared.journal.failed(key, &error);
        return Ended::retry();
    }
    Ended::retry()
}

async fn attempt(shared: &Shared, object: &Arc<Object>) -> Result<Ended, Interrupted> {
    let started = tokio::time::Instant::now();
    let done = Ended::done(object.revision());
    let Ok(binding) = Binding::decode(object) else { return Ok(done) };
    // It may have changed hands while it waited.
    match triggers::ignore_reason(object, &binding, &shared.options.name) {
        // As upstream, changes of clusters also apply to bindings without a claim: a cluster in deletion stays until no
        // replicas are assigned to it.
        None | Some(IgnoreReason::Unclaimed) => {}
        Some(IgnoreReason::Deleting) => {
            let metadata = &binding.metadata;
            let text = outcome::deleting_event(binding.scope, &metadata.namespace, &metadata.name);
            shared.warn(object, &binding, text);
            return Ok(done);
        }
        Some(_) => return Ok(done),
    }
    // Bindings of one affinity group depend on each other's results, so they are decided one after the other.
    let grouped = shared.options.gates.workload_affinity && peers::is_grouped(&binding);
    // Assumed replicas are part of an estimator's request, so no other result may be added before the response is used.
    let grouped = grouped || (shared.options.overcommit_protection && shared.options.estimators.is_some());
    let _turn = if grouped { Some(shared.turn.lock().await) } else { None };
    let neighbours = if grouped { shared.neighbours(&binding) } else { Neighbours::default() };
    // Before anything is locked: answers take up to the estimators' time-out.
    let answers = match &shared.options.estimators {
        Some(estimators) => {
            let others = match shared.options.overcommit_protection {
                true => shared.assumptions.lock().others(&binding.key(), shared.queue.now()),
                false => OtherAssumptions::default(),
            };
            let spare_pull = shared.options.spare_pull_estimators;
            let source = Source { estimators, spare_pull, counted: &shared.counted };
            source.about(&binding, &neighbours, &others, &shared.snapshot(), &shared.options.gates).await
        }
        None => Answers::default(),
    };
    let (plan, before) = reserve(shared, &binding, &neighbours, &answers);
    let verdict = plan.verdict();
    let ended = execute(shared, object, &binding, plan).await;
    if let Some((result, why)) = verdict {
        shared.counted.attempt(if ended.is_ok() { result } else { "error" }, why.as_str(), started.elapsed());
    }
    // A result that was not written is not assumed.
    if shared.options.overcommit_protection && !matches!(ended, Ok(Ended { outcome: Outcome::Done, .. })) {
        shared.assumptions.lock().restore(&BindingKey::of(object), before);
    }
    ended
}

/// Decides and assumes the result in one step, so that no other pass takes the same room.
fn reserve(
    shared: &Shared,
    binding: &Binding,
    neighbours: &Neighbours,
    answers: &Answers,
) -> (Plan, Option<AssumedReplicas>) {
    let (snapshot, gates, time) = (shared.snapshot(), &shared.options.gates, shared.world.moment());
    if !shared.options.overcommit_protection {
        return (
            plan(binding, neighbours, &Known { answers, others: None }, &snapshot, gates, &shared.counted, &time),
            None,
        );
    }
    let (key, now) = (binding.key(), shared.queue.now());
    let mut assumptions = shared.assumptions.lock();
    let known = Known { answers, others: Some(assumptions.others(&key, now)) };
    let plan = plan(binding, neighbours, &known, &snapshot, gates, &shared.counted, &time);
    let before = match &plan {
        Plan::Decided { decision: Decision { clusters: Ok(clusters), .. }, .. } if binding.is_workload() => {
            assumptions.assume(&key, &binding.spec, clusters, now)
        }
        _ => assumptions.known(&key),
    };
    (plan, before)
}

async fn execute(shared: &Shared, object: &Arc<Object>, binding: &Binding, plan: Plan) -> Result<Ended, Interrupted> {
    match plan {
        Plan::Nothing => Ok(Ended::done(object.revision())),
        Plan::Observed(patch) => {
            let written = write(shared, &BindingKey::of(object), patch, &PatchOptions::status()).await?;
            Ok(Ended::done(written.revision()))
        }
        Plan::Decided { decision, record, fresh, why: _ } => {
            commit(shared, object, binding, &decision, record.as_deref(), fresh).await
        }
    }
}

/// The planned writes of a binding.
pub(crate) enum Plan {
    Nothing,
    /// The last result is kept; this patch records the observed generation.
    Observed(Value),
    Decided {
        decision: Decision,
        /// The reasons, for the annotation; `None` if they are unchanged.
        record: Option<String>,
        /// Whether a reschedule was triggered after the last result.
        fresh: bool,
        why: ScheduleType,
    },
}

impl Plan {
    /// The result and the type of an attempt, for metrics. A pass without a decision is not an attempt.
    fn verdict(&self) -> Option<(&'static str, ScheduleType)> {
        match self {
            Self::Decided { decision, why, .. } => {
                Some((if decision.error().is_none() { "scheduled" } else { "error" }, *why))
            }
            Self::Nothing | Self::Observed(_) => None,
        }
    }
}

/// A failed binding is decided again in any case: the condition must not outlive its cause.
pub(crate) fn plan(
    binding: &Binding,
    neighbours: &Neighbours,
    estimates: &dyn Estimates,
    snapshot: &Snapshot,
    gates: &Gates,
    counted: &Counted,
    moment: &Moment,
) -> Plan {
    let peers = neighbours.peers();
    let Some(problem) = Problem::of(binding) else { return Plan::Nothing };
    let since = |at| moment.since(at);
    let problem = Problem { peers: Some(&peers), estimates, since: Some(&since), ..problem };
    let needed = scheduling::needed(binding, snapshot, gates);
    if needed.is_none() && !writes::failed(binding) {
        return writes::observed(binding).map_or(Plan::Nothing, Plan::Observed);
    }
    let why = needed.unwrap_or(ScheduleType::Reconcile);
    let stopwatch = Stopwatch::start(counted);
    let decision = scheduling::decide(&Problem { steps: Some(&stopwatch), ..problem }, snapshot, gates);
    let record = writes::is_news(binding, &decision).then(|| {
        // Decides again with explanations: most decisions yield no event and need none.
        let (_, verdicts) = scheduling::explain(&problem, snapshot, gates);
        Record::of(&decision, &verdicts, writes::decided_generation(binding, &decision), Time::new(moment.now()))
            .to_text()
    });
    Plan::Decided { decision, record, fresh: problem.is_fresh(), why }
}

/// Writes a decision. A conflict before anything is written makes it void.
async fn commit(
    shared: &Shared,
    object: &Arc<Object>,
    binding: &Binding,
    decision: &Decision,
    record: Option<&str>,
    fresh: bool,
) -> Result<Ended, Interrupted> {
    let key = BindingKey::of(object);
    let mut live = binding.clone();
    let (mut current, mut refused, mut written) = (object.clone(), Vec::new(), false);
    let mut with_result = None;
    let placement = binding.spec.placement.as_ref();
    let result = decision.result().zip(placement);
    let result = result.and_then(|(clusters, placement)| writes::result(binding, placement, clusters, record));
    let is_result = result.is_some();
    let reasons = || record.filter(|_| decision.error().is_some()).map(|record| writes::reasons(binding, record));
    if let Some(mut patch) = result.or_else(reasons) {
        // A server in this process takes the result and the status as one write.
        let (with_status, now) = (shared.client.is_in_process(), Time::new(shared.world.now()));
        let mut turned = false;
        if with_status {
            let outcome = outcome::outcome_of_writes(decision.error(), &[]);
            let generation = writes::generation_after(&live, &patch);
            let status = writes::status(&live, generation, &verdict(&outcome, decision, is_result, fresh), now);
            if let Some(mut status) = status {
                turned = status["status"].get("conditions").is_some();
                patch["status"] = status["status"].take();
            }
        }
        let options = PatchOptions { with_status, ..PatchOptions::default() };
        match write(shared, &key, patch, &options).await.map_err(Interrupted::from) {
            Ok(now) => {
                live.metadata.generation = now.generation();
                live.metadata.resource_version = now.resource_version().to_owned();
                with_result = with_status.then(|| (turned, now.revision()));
                (current, written) = (now, is_result);
            }
            Err(Interrupted::Failed(error)) if error.is_namespace_terminating() => {
                return Err(Interrupted::Failed(error));
            }
            Err(Interrupted::Failed(error)) => refused.push(write_error(&error)),
            Err(interrupted) => return Err(interrupted),
        }
    }
    let outcome = outcome::outcome_of_writes(decision.error(), &refused);
    let (turned, end) = match with_result {
        Some(with_result) => with_result,
        None => settle(shared, &key, live, &verdict(&outcome, decision, written, fresh), current.revision()).await?,
    };
    if !outcome.scheduled {
        shared.journal.unschedulable(&key, outcome.reason, &outcome.message);
    } else if written {
        shared.journal.scheduled(&key, decision.result().unwrap_or_default());
    }
    if written || turned || fresh {
        record_events(shared, object, binding, decision, &outcome.message);
    }
    let (outcome, missing) = next(decision.error(), !refused.is_empty());
    Ok(Ended { outcome, version: end, missing })
}

pub(crate) fn verdict<'a>(
    outcome: &'a outcome::Outcome,
    decision: &'a Decision,
    written: bool,
    fresh: bool,
) -> writes::Verdict<'a> {
    writes::Verdict {
        scheduled: outcome.scheduled,
        reason: outcome.reason,
        message: &outcome.message,
        affinity_name: decision.affinity_term.as_deref().unwrap_or_default(),
        written,
        fresh,
    }
}

/// Writes the status; returns whether the condition changed, and the new version. If the binding's spec was changed
/// meanwhile, the status is left to the pass that this change triggers.
async fn settle(
    shared: &Shared,
    key: &BindingKey,
    mut live: Binding,
    verdict: &writes::Verdict<'_>,
    mut end: u64,
) -> Result<(bool, u64), Interrupted> {
    for _ in 0..ATTEMPTS {
        let now = Time::new(shared.world.now());
        let Some(patch) = writes::status(&live, live.metadata.generation, verdict, now) else {
            return Ok((false, end));
        };
        let turned = patch["status"].get("conditions").is_some();
        match write(shared, key, patch, &PatchOptions::status()).await.map_err(Interrupted::from) {
            Ok(now) => return Ok((turned, now.revision())),
            Err(Interrupted::Conflict) if verdict.written => {}
            Err(interrupted) => return Err(interrupted),
        }
        let Some(newer) = shared.client.get_opt(&key.resource(), key).await? else { return Err(Interrupted::Gone) };
        if newer.generation() != live.metadata.generation {
            return Ok((false, end));
        }
        let Ok(decoded) = Binding::decode(&newer) else { return Ok((false, end)) };
        end = newer.revision();
        live = decoded;
    }
    Err(Interrupted::Conflict)
}

async fn write(shared: &Shared, key: &BindingKey, patch: Value, options: &PatchOptions) -> client::Result<Arc<Object>> {
    let resource = key.resource();
    let request = shared.client.patch_draft(&resource, key, Patch::Merge(patch), options);
    match shared.written(key.scope()) {
        Some(overlay) => Ok(overlay.write(key, request).await?.object),
        None => request.await,
    }
}

fn write_error(error: &client::Error) -> WriteError {
    let quota_exceeded = error.status().is_some_and(|status| status.code == 403 && status.reason == "QuotaExceeded");
    WriteError { message: error.to_string(), quota_exceeded }
}

/// Only failed writes are retried. A decision does not change until its inputs do, so an unschedulable binding waits
/// for such a change, and is retried after five minutes in case one was missed.
fn next(error: Option<&ScheduleError>, refused: bool) -> (Outcome, Option<MissingResource>) {
    match error {
        _ if refused => (Outcome::Retry, None),
        None => (Outcome::Done, None),
        Some(error) if error.waits_for_capacity() => (Outcome::Unschedulable, Some(MissingResource::Capacity)),
        Some(_) => (Outcome::Unschedulable, Some(MissingResource::Clusters)),
    }
}

pub(crate) fn record_events(shared: &Shared, object: &Object, binding: &Binding, decision: &Decision, message: &str) {
    let metadata = &binding.metadata;
    for failure in &decision.failures {
        let text = outcome::term_failure_event(binding.scope, &metadata.namespace, &metadata.name, failure);
        shared.warn(object, binding, text);
    }
    match &decision.clusters {
        Ok(clusters) if message == outcome::SUCCESS => {
            for involved in involved(object, binding) {
                let text = outcome::success_event(binding.scope, clusters);
                shared.recorder.normal(involved, events::SCHEDULE_BINDING_SUCCEED, text);
            }
        }
        _ => shared.warn(object, binding, message.to_owned()),
    }
}
