//! What the scheduler counts, with upstream's names, labels and buckets.

use std::time::Duration;

use metrics::{Buckets, Counters, Description, Histograms, Registry};

pub const ATTEMPTS: Description = Description::counter(
    "karmada_scheduler_schedule_attempts_total",
    &["result", "schedule_type"],
    "Attempts to schedule a binding: scheduled or error.",
);
pub const E2E: Description = Description::histogram(
    "karmada_scheduler_e2e_scheduling_duration_seconds",
    &["result", "schedule_type"],
    Buckets::Exponential { start: 0.001, factor: 2.0, count: 15 },
    "How long an attempt took, its writes included.",
);
pub const INCOMING: Description = Description::counter(
    "karmada_scheduler_queue_incoming_bindings_total",
    &["event"],
    "Bindings queued: BindingAdd, BindingUpdate, ClusterChanged, ScheduleAttemptFailure.",
);
pub const PENDING: Description =
    Description::gauge("scheduler_pending_bindings", &["queue"], "Bindings that wait: active, backoff, unschedulable.");
pub const UNANSWERED: Description = Description::counter(
    "karmada_rs_scheduler_estimates_missing_total",
    &[],
    "Estimators that were asked and did not know or did not answer; the cluster's own summary was used alone.",
);
pub const ALL: &[Description] = &[ATTEMPTS, E2E, INCOMING, PENDING, UNANSWERED];

/// The families at hand, so that an observation looks up its series only.
#[derive(Debug)]
pub(crate) struct Counted {
    attempts: Counters,
    e2e: Histograms,
    incoming: Counters,
    unanswered: Counters,
}

impl Counted {
    pub fn new(registry: &Registry) -> Self {
        Self {
            attempts: registry.counters(&ATTEMPTS),
            e2e: registry.histograms(&E2E),
            incoming: registry.counters(&INCOMING),
            unanswered: registry.counters(&UNANSWERED),
        }
    }

    pub fn attempt(&self, result: &'static str, schedule_type: &'static str, took: Duration) {
        self.attempts.increment(&[result, schedule_type]);
        self.e2e.took(&[result, schedule_type], took);
    }

    pub fn unanswered(&self) {
        self.unanswered.increment(&[]);
    }

    pub fn queued(&self, event: &'static str) {
        self.incoming.increment(&[event]);
    }
}
