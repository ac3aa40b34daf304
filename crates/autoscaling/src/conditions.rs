//! The conditions, the events and the status of a FederatedHPA, with upstream's reasons and messages.

use apimachinery::meta::Time;
use karmada_api::autoscaling::v1alpha1::{FederatedHPAStatus, HorizontalPodAutoscalerCondition};
use serde_json::Value;

/// Whether the scale can be read and written.
pub const ABLE_TO_SCALE: &str = "AbleToScale";
/// Whether the metrics yield a number of replicas.
pub const SCALING_ACTIVE: &str = "ScalingActive";
/// Whether a bound or a rate changed that number.
pub const SCALING_LIMITED: &str = "ScalingLimited";

/// A condition without its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// One of the three types.
    pub type_: &'static str,
    /// Its status.
    pub is_true: bool,
    /// In one word.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

impl Condition {
    pub(crate) fn new(type_: &'static str, is_true: bool, reason: &'static str, message: impl Into<String>) -> Self {
        Self { type_, is_true, reason, message: message.into() }
    }
}

/// An event about a FederatedHPA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Warning or Normal.
    pub is_warning: bool,
    /// In one word.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

impl Notice {
    pub(crate) fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { is_warning: true, reason, message: message.into() }
    }
}

/// Why a FederatedHPA has no decision, before any metric was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The target's kind or its scale cannot be read, in the control plane or in all members.
    Scale(String),
    /// The target itself cannot be read.
    Target(String),
    /// It has no binding.
    Binding(String),
    /// Its binding has no cluster.
    Clusters(String),
}

/// The binding was not scheduled.
const NO_CLUSTERS: &str = "binding has no schedulable clusters";
/// No binding was found.
const NO_BINDING: &str = "length of binding list is zero";
/// No policy claims the target, which has no labels at all.
const NO_LABELS: &str = "target resource has no label";
/// No policy claims the target.
const NO_POLICY: &str = "no label of policy permanent-id found";
/// No member responded, or none has replicas.
pub const NO_REPLICAS: &str =
    "failed to get replicas in any of clusters, possibly because all of clusters are not ready";

impl Obstacle {
    /// The target has no binding. The message shows whether a policy claims the target.
    pub fn unbound(has_labels: bool, is_claimed: bool) -> Self {
        let message = match (has_labels, is_claimed) {
            (_, true) => NO_BINDING,
            (true, false) => NO_POLICY,
            (false, false) => NO_LABELS,
        };
        Self::Binding(message.to_owned())
    }

    /// The binding has no cluster that is ready. `is_scheduled`: it has clusters.
    pub fn unready(is_scheduled: bool) -> Self {
        if is_scheduled { Self::Scale(NO_REPLICAS.to_owned()) } else { Self::Clusters(NO_CLUSTERS.to_owned()) }
    }

    /// The condition and the event. Their reasons differ for bindings, as upstream.
    pub fn report(&self) -> (Condition, Notice) {
        let (condition, event, attempt, error) = match self {
            Self::Scale(error) => ("FailedGetScale", "FailedGetScale", "get the target's current scale", error),
            Self::Target(error) => {
                ("FailedGetScaleTargetRef", "FailedGetScaleTargetRef", "get the target reference object", error)
            }
            Self::Binding(error) => {
                ("FailedGetBinding", "FailedGetBindings", "get the binding by scaleTargetRef", error)
            }
            Self::Clusters(error) => {
                ("FailedGetTargetClusters", "FailedGetTargetClusters", "get the target clusters from binding", error)
            }
        };
        let message = format!("the HPA controller was unable to {attempt}: {error}");
        (Condition::new(ABLE_TO_SCALE, false, condition, message), Notice::warning(event, error))
    }
}

/// Sets conditions; the time of one changes with its status only.
pub fn set(status: &mut FederatedHPAStatus, conditions: &[Condition], now: Time) {
    for condition in conditions {
        let text = if condition.is_true { "True" } else { "False" };
        let known = status.conditions.iter().position(|it| it.type_ == condition.type_);
        let position = known.unwrap_or_else(|| {
            let new = HorizontalPodAutoscalerCondition {
                type_: condition.type_.to_owned(),
                ..HorizontalPodAutoscalerCondition::default()
            };
            status.conditions.push(new);
            status.conditions.len() - 1
        });
        let Some(stored) = status.conditions.get_mut(position) else { continue };
        if stored.status != text {
            text.clone_into(&mut stored.status);
            stored.last_transition_time = Some(now);
        }
        condition.reason.clone_into(&mut stored.reason);
        stored.message.clone_from(&condition.message);
    }
}

/// The status after a decision. Without new `metrics`, the old ones are kept.
pub(crate) fn status(
    old: &FederatedHPAStatus,
    current: i32,
    desired: Option<i32>,
    metrics: Option<Vec<Value>>,
    conditions: &[Condition],
    now: Time,
) -> FederatedHPAStatus {
    let mut status = old.clone();
    status.current_replicas = current;
    status.desired_replicas = desired.unwrap_or(old.desired_replicas);
    if let Some(metrics) = metrics {
        status.current_metrics = (!metrics.is_empty()).then_some(Value::Array(metrics));
    }
    set(&mut status, conditions, now);
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_condition_follows_its_status() {
        let time = |second| Time::new(jiff::Timestamp::from_second(second).expect("a time"));
        let mut status = FederatedHPAStatus::default();
        let condition = |is_true, message: &str| Condition::new(ABLE_TO_SCALE, is_true, "R", message);
        set(&mut status, &[condition(true, "a")], time(1));
        set(&mut status, &[condition(true, "b")], time(2));
        assert_eq!(status.conditions[0].last_transition_time, Some(time(1)));
        assert_eq!(status.conditions[0].message, "b");
        set(&mut status, &[condition(false, "b")], time(3));
        assert_eq!(status.conditions[0].last_transition_time, Some(time(3)));
        assert_eq!(status.conditions.len(), 1);
    }

    #[test]
    fn failures_set_conditions_and_events() {
        let (condition, event) = Obstacle::unbound(true, true).report();
        assert_eq!((condition.reason, event.reason), ("FailedGetBinding", "FailedGetBindings"));
        assert_eq!(event.message, "length of binding list is zero");
        let message = |has_labels| Obstacle::unbound(has_labels, false).report().1.message;
        assert_eq!(message(true), "no label of policy permanent-id found");
        assert_eq!(message(false), "target resource has no label");
        let (condition, _) = Obstacle::unready(false).report();
        let expected = "the HPA controller was unable to get the target clusters from binding: binding has no schedulable clusters";
        assert_eq!((condition.reason, condition.message.as_str()), ("FailedGetTargetClusters", expected));
        assert_eq!(Obstacle::unready(true).report().0.reason, "FailedGetScale");
        let (condition, _) = Obstacle::Scale("no".to_owned()).report();
        assert_eq!(condition.message, "the HPA controller was unable to get the target's current scale: no");
    }
}
