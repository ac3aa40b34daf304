//! The consequences of a decision: the condition `Scheduled`, the queue, the events.

use karmada_api::Scope;
use karmada_api::constants::reasons;
use karmada_api::work::v1alpha2::TargetCluster;

use crate::decide::TermFailure;
use crate::error::{Class, ScheduleError};

/// The message of the condition after success.
pub const SUCCESS: &str = "Binding has been scheduled successfully.";

/// The queue that receives the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// None: the key returns with the next event.
    Forget,
    /// Until a change that may help, at most five minutes.
    Unschedulable,
    /// With exponential backoff.
    Backoff,
}

/// The condition `Scheduled` and the queue of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether the condition's status is `True`.
    pub scheduled: bool,
    /// The reason of the condition.
    pub reason: &'static str,
    /// The message of the condition.
    pub message: String,
    /// The queue of the key.
    pub queue: Queue,
}

impl Outcome {
    fn failure(reason: &'static str, message: String, queue: Queue) -> Self {
        Self { scheduled: false, reason, message, queue }
    }

    /// The wire status of the condition.
    pub fn status(&self) -> &'static str {
        if self.scheduled { "True" } else { "False" }
    }
}

/// A failed write of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteError {
    /// The error's message.
    pub message: String,
    /// Admission returned 403 with the reason QuotaExceeded.
    pub quota_exceeded: bool,
}

/// The outcome of a decision whose result is written or unchanged.
pub fn outcome(error: Option<&ScheduleError>) -> Outcome {
    let Some(error) = error else {
        return Outcome {
            scheduled: true,
            reason: reasons::SCHEDULED,
            message: SUCCESS.to_owned(),
            queue: Queue::Forget,
        };
    };
    let message = error.to_string();
    match error.class() {
        Class::Unschedulable => Outcome::failure(reasons::UNSCHEDULABLE, message, Queue::Unschedulable),
        Class::NoFit => Outcome::failure(reasons::NO_CLUSTER_FIT, message, Queue::Unschedulable),
        Class::Other => Outcome::failure(reasons::SCHEDULER_ERROR, message, Queue::Backoff),
    }
}

/// The outcome after writes of the result failed.
pub fn outcome_of_writes(error: Option<&ScheduleError>, refused: &[WriteError]) -> Outcome {
    if refused.is_empty() {
        return outcome(error);
    }
    let quota = refused.iter().find(|write| write.quota_exceeded);
    let all = error.map(ToString::to_string).into_iter().chain(refused.iter().map(|write| write.message.clone()));
    let message = aggregate(all);
    match (error.map(ScheduleError::class), quota) {
        (Some(Class::NoFit), _) => Outcome::failure(reasons::NO_CLUSTER_FIT, message, Queue::Backoff),
        (_, Some(quota)) => Outcome::failure(reasons::QUOTA_EXCEEDED, quota.message.clone(), Queue::Backoff),
        _ => Outcome::failure(reasons::SCHEDULER_ERROR, message, Queue::Backoff),
    }
}

/// Several errors as one message: `[a, b]`, each once.
fn aggregate(messages: impl Iterator<Item = String>) -> String {
    let mut once: Vec<String> = Vec::new();
    for message in messages {
        if !once.contains(&message) {
            once.push(message);
        }
    }
    if once.len() == 1 { once.remove(0) } else { format!("[{}]", once.join(", ")) }
}

/// The message of the event after success. The two scopes differ by a colon, as upstream.
pub fn success_event(scope: Scope, clusters: &[TargetCluster]) -> String {
    let items: Vec<String> = clusters.iter().map(|target| format!("{}:{}", target.name, target.replicas)).collect();
    let colon = match scope {
        Scope::Namespaced => ":",
        Scope::Cluster => "",
    };
    format!("{SUCCESS} Result{colon} {{{}}}", items.join(", "))
}

/// The message of the warning about a failed term of `clusterAffinities`; the misspelling is upstream's.
pub fn term_failure_event(scope: Scope, namespace: &str, name: &str, failure: &TermFailure) -> String {
    let TermFailure { index, error, .. } = failure;
    let subject = match scope {
        Scope::Namespaced => format!("ResourceBinding({namespace}/{name})"),
        Scope::Cluster => format!("ClusterResourceBinding({name})"),
    };
    format!("failed to schedule {subject} with clusterAffiliates index({index}): {error}")
}

/// The message of the warning about a binding that is being deleted.
pub fn deleting_event(scope: Scope, namespace: &str, name: &str) -> String {
    match scope {
        Scope::Namespaced => format!("skip schedule deleting resourceBinding: {namespace}/{name}"),
        Scope::Cluster => format!("skip schedule deleting clusterResourceBinding: {name}"),
    }
}
