//! The decision: how many replicas, and everything that led to it.

use jiff::Timestamp;
use karmada_api::autoscaling::v1alpha1::FederatedHPAStatus;
use serde_json::Value;

use crate::conditions::{
    self, ABLE_TO_SCALE, Condition, NO_REPLICAS, Notice, Obstacle, SCALING_ACTIVE, SCALING_LIMITED,
};
use crate::history::History;
use crate::limits;
use crate::proposal::{self, Answers, Report};
use crate::reading::Member;
use crate::replicas::Frame;

pub use crate::proposal::Input;

/// A decision and its evidence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// `spec.replicas` of the template's scale.
    pub current: i32,
    /// The replicas to write; `None` where the decision failed.
    pub desired: Option<i32>,
    /// Why the replicas change: the end of the event's message.
    pub reason: String,
    /// Each metric with its proposal. Empty where a bound alone decides.
    pub metrics: Vec<Report>,
    /// The highest proposal.
    pub recommended: Option<i32>,
    /// The recommendation after stabilization.
    pub stabilized: Option<i32>,
    /// Members that did not answer, and why.
    pub unanswered: Vec<(String, String)>,
    /// Replicas of the members for each replica of the template.
    pub calibration: f64,
    /// In the order of upstream's writes: a later one of the same type replaces an earlier one.
    pub conditions: Vec<Condition>,
    /// To be recorded whether or not replicas change.
    pub events: Vec<Notice>,
    /// The error. The replicas may change nevertheless.
    pub error: Option<String>,
}

impl Plan {
    /// Whether the scale is to be written.
    pub fn rescales(&self) -> bool {
        self.desired.is_some_and(|desired| desired != self.current)
    }

    /// Records the result of writing the scale, if it was to be written.
    pub fn wrote(&mut self, result: Result<(), String>) {
        let Some(desired) = self.desired.filter(|_| self.rescales()) else { return };
        let event = format!("New size: {desired}; reason: {}", self.reason);
        match result {
            Ok(()) => {
                let message = format!("the HPA controller was able to update the target scale to {desired}");
                self.conditions.push(Condition::new(ABLE_TO_SCALE, true, "SucceededRescale", message));
                self.events.push(Notice { is_warning: false, reason: "SuccessfulRescale", message: event });
            }
            Err(error) => {
                let message = format!("the HPA controller was unable to update the target scale: {error}");
                self.conditions.push(Condition::new(ABLE_TO_SCALE, false, "FailedUpdateScale", message));
                self.events.push(Notice::warning("FailedRescale", format!("{event}; error: {error}")));
                self.desired = None;
                self.error = Some(format!("failed to rescale: {error}"));
            }
        }
    }

    /// The status after the decision, and after [`Plan::wrote`].
    pub fn status(&self, old: &FederatedHPAStatus, generation: Option<i64>, now: Timestamp) -> FederatedHPAStatus {
        let now = apimachinery::meta::Time::new(now);
        let metrics: Vec<Value> =
            self.metrics.iter().filter_map(|it| Some(it.outcome.as_ref().ok()?.status.clone())).collect();
        // A decision without a metric keeps the previous values.
        let metrics = (self.desired.is_some() || !metrics.is_empty()).then_some(metrics);
        let mut status = conditions::status(old, self.current, self.desired, metrics, &self.conditions, now);
        status.observed_generation = generation;
        if self.rescales() {
            status.last_scale_time = Some(now);
        }
        status
    }

    fn holds(&mut self, type_: &'static str, is_true: bool, reason: &'static str, message: impl Into<String>) {
        self.conditions.push(Condition::new(type_, is_true, reason, message));
    }

    /// The decision failed before it had replicas.
    fn failed(mut self, error: String) -> Self {
        self.events.push(Notice::warning("FailedComputeMetricsReplicas", error.clone()));
        self.error = Some(error);
        self
    }
}

/// Decides the replicas and records the recommendation in the history. The caller records a written change with
/// [`History::scaled`].
///
/// # Errors
/// [`Obstacle::Scale`] when no member responded or none has replicas.
pub fn decide(input: &Input<'_>, history: &mut History) -> Result<Plan, Obstacle> {
    let spec = input.spec;
    let current = input.replicas;
    let answered = |member: &Member| member.answer.as_ref().err().map(|error| (member.cluster.clone(), error.clone()));
    let unanswered = input.members.iter().filter_map(answered).collect();
    let mut plan = Plan { current, unanswered, calibration: 1.0, ..Plan::default() };
    let answers: Answers<'_> =
        input.members.iter().filter_map(|it| Some((it.cluster.as_str(), it.answer.as_ref().ok()?))).collect();
    let sum = answers.iter().fold(0i64, |sum, (_, answer)| sum + i64::from(answer.desired));
    let from_zero = current == 0 && spec.min == 0;
    if answers.is_empty() || (sum == 0 && current != 0) {
        return Err(Obstacle::Scale(unreadable(&plan.unanswered)));
    }
    if current > 0 {
        plan.calibration = sum as f64 / f64::from(current);
    }
    plan.holds(
        ABLE_TO_SCALE,
        true,
        "SucceededGetScale",
        "the HPA controller was able to get the target's current scale",
    );
    history.begin(input.now, current);
    if current == 0 && !from_zero {
        let message = "scaling is disabled since the replica count of the target is zero";
        plan.holds(SCALING_ACTIVE, false, "ScalingDisabled", message);
        plan.desired = Some(0);
    } else if current > spec.max {
        plan.reason = "Current number of replicas above Spec.MaxReplicas".to_owned();
        plan.desired = Some(spec.max);
    } else if current < spec.min {
        plan.reason = "Current number of replicas below Spec.MinReplicas".to_owned();
        plan.desired = Some(spec.min);
    } else {
        plan = by_metrics(plan, input, &answers, history);
    }
    Ok(plan)
}

fn unreadable(unanswered: &[(String, String)]) -> String {
    let errors: Vec<String> = unanswered.iter().map(|(cluster, error)| format!("{cluster}: {error}")).collect();
    match errors.is_empty() {
        true => NO_REPLICAS.to_owned(),
        false => format!("{NO_REPLICAS} ({})", errors.join("; ")),
    }
}

fn by_metrics(mut plan: Plan, input: &Input<'_>, answers: &Answers<'_>, history: &mut History) -> Plan {
    if let Err((event, reason, message, error)) = check_selectors(answers, input.competing) {
        plan.events.push(Notice::warning(event, error.clone()));
        plan.holds(SCALING_ACTIVE, false, reason, message);
        return plan.failed(error);
    }
    let observed = answers.iter().fold(0i32, |sum, (_, answer)| sum.saturating_add(answer.observed));
    let tolerance = proposal::tolerance(input);
    let frame = Frame { current: plan.current, observed, calibration: plan.calibration, tolerance };
    let metrics = input.spec.metrics.iter().enumerate();
    plan.metrics = metrics.map(|(index, metric)| proposal::of_metric(input, answers, frame, index, metric)).collect();
    let Some((mut recommended, name)) = strongest(&mut plan) else { return plan };
    let blocked = blocking(&plan).filter(|_| recommended < plan.current);
    if blocked.is_some() {
        recommended = plan.current;
    }
    plan.holds(
        SCALING_ACTIVE,
        true,
        "ValidMetricFound",
        format!("the HPA was able to successfully calculate a replica count from {name}"),
    );
    plan.recommended = Some(recommended);
    if recommended > plan.current {
        plan.reason = format!("{name} above target");
    } else if recommended < plan.current {
        plan.reason = "All metrics below target".to_owned();
    }
    let limited = limits::apply(input.spec, input.settings, history, input.now, plan.current, recommended);
    plan.stabilized = Some(limited.stabilized);
    plan.desired = Some(limited.desired);
    plan.conditions.extend(limited.conditions);
    if let Some(message) = blocked {
        plan.holds(SCALING_LIMITED, true, "MembersUnknown", message);
    }
    plan
}

/// The event, the reason, its message and the error.
type SelectorError = (&'static str, &'static str, String, String);

fn check_selectors(answers: &Answers<'_>, competing: &[String]) -> Result<(), SelectorError> {
    let selector = answers.iter().map(|(_, answer)| answer.selector.as_str()).find(|it| !it.is_empty());
    let Some(selector) = selector else {
        let message = "the HPA target's scale is missing a selector".to_owned();
        return Err(("SelectorRequired", "InvalidSelector", message, "selector is required".to_owned()));
    };
    if competing.is_empty() {
        return Ok(());
    }
    let error = format!("pods by selector {selector} are controlled by multiple HPAs: [{}]", competing.join(" "));
    Err(("AmbiguousSelector", "AmbiguousSelector", error.clone(), error))
}

/// The highest proposal and the name of its metric. `None` when all metrics failed, or some failed and the others would
/// shrink the workload: the plan then has the reason.
fn strongest(plan: &mut Plan) -> Option<(i32, String)> {
    let mut highest: Option<(i32, String)> = None;
    let mut failures = Vec::new();
    for report in &plan.metrics {
        match &report.outcome {
            Ok(it) if highest.as_ref().is_none_or(|(replicas, _)| it.replicas > *replicas) => {
                highest = Some((it.replicas, it.name.clone()));
            }
            Ok(_) => {}
            Err(failure) => failures.push(failure.clone()),
        }
    }
    let events = failures.iter().map(|failure| Notice::warning(failure.reason, failure.error.clone()));
    plan.events.extend(events);
    let Some(first) = failures.first() else { return highest };
    let error = format!(
        "invalid metrics ({} invalid out of {}), first error is: {}",
        failures.len(),
        plan.metrics.len(),
        first.full()
    );
    if let Some(highest) = highest.filter(|(replicas, _)| *replicas >= plan.current) {
        plan.error = Some(error);
        return Some(highest);
    }
    let message = format!("the HPA was unable to compute the replica count: {}", first.error);
    plan.holds(SCALING_ACTIVE, false, first.reason, message);
    *plan = std::mem::take(plan).failed(error);
    None
}

/// Why the workload must not shrink: load that is unknown might need its replicas.
fn blocking(plan: &Plan) -> Option<String> {
    let mut clusters: Vec<&str> = plan.unanswered.iter().map(|(cluster, _)| cluster.as_str()).collect();
    let proposals = plan.metrics.iter().filter_map(|it| it.outcome.as_ref().ok());
    clusters.extend(proposals.flat_map(|it| it.unknown.iter().map(String::as_str)));
    clusters.sort_unstable();
    clusters.dedup();
    let names = clusters.join(", ");
    (!clusters.is_empty()).then(|| format!("the workload is not scaled down while the load in {names} is unknown"))
}
