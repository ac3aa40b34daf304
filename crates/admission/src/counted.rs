//! Metrics of webhooks, with kube-apiserver's names.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Buckets, Counters, Description, Histograms, Registry};
use tokio::time::Instant;

use crate::matching::operation_name;
use crate::request::{Facts, Phase};

const DURATION: Description = Description::histogram(
    "apiserver_admission_webhook_admission_duration_seconds",
    &["name", "type", "operation", "rejected"],
    Buckets::Listed(&[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0]),
    "How long calls of admission webhooks took.",
);
const REQUESTS: Description = Description::counter(
    "apiserver_admission_webhook_request_total",
    &["name", "type", "operation", "code", "rejected"],
    "Calls of admission webhooks. The code is 0 without a response.",
);
const REJECTIONS: Description = Description::counter(
    "apiserver_admission_webhook_rejection_count",
    &["name", "type", "operation", "error_type", "rejection_code"],
    "Requests that admission webhooks rejected, or that failed because a webhook could not be called.",
);
const FAIL_OPEN: Description = Description::counter(
    "apiserver_admission_webhook_fail_open_count",
    &["name", "type"],
    "Calls of admission webhooks that failed and were ignored.",
);

/// All families, for the reference of metrics.
pub const ALL: &[Description] = &[DURATION, REQUESTS, REJECTIONS, FAIL_OPEN];

/// The metric families of a server; nothing is counted before they are registered.
#[derive(Default)]
pub struct Counted(OnceLock<Families>);

struct Families {
    duration: Histograms,
    requests: Counters,
    rejections: Counters,
    fail_open: Counters,
}

impl Counted {
    pub fn register(&self, registry: &Registry) {
        self.0.get_or_init(|| Families {
            duration: registry.histograms(&DURATION),
            requests: registry.counters(&REQUESTS),
            rejections: registry.counters(&REJECTIONS),
            fail_open: registry.counters(&FAIL_OPEN),
        });
    }

    pub fn begin<'c>(&'c self, webhook: &'c str, phase: Phase, facts: &Facts) -> Timed<'c> {
        let type_ = type_of(phase);
        Timed {
            families: self.0.get(),
            webhook,
            type_,
            operation: operation_name(facts.operation),
            began: Instant::now(),
        }
    }

    pub fn rejected(&self, webhook: &str, phase: Phase, facts: &Facts, (error, code): (&str, u16)) {
        if let Some(families) = self.0.get() {
            let operation = operation_name(facts.operation);
            families.rejections.increment(&[webhook, type_of(phase), operation, error, &code.to_string()]);
        }
    }

    pub fn failed_open(&self, webhook: &str, phase: Phase) {
        if let Some(families) = self.0.get() {
            families.fail_open.increment(&[webhook, type_of(phase)]);
        }
    }
}

fn type_of(phase: Phase) -> &'static str {
    if phase == Phase::Mutation { "admit" } else { "validating" }
}

/// A call in flight.
pub struct Timed<'c> {
    families: Option<&'c Families>,
    webhook: &'c str,
    type_: &'static str,
    operation: &'static str,
    began: Instant,
}

impl Timed<'_> {
    /// `code` is 200 for a request that was allowed, that of the refusal otherwise; `None` without a valid response.
    pub fn end(self, code: Option<u16>) {
        let Some(families) = self.families else { return };
        let rejected = if code.is_some_and(|code| code != 200) { "true" } else { "false" };
        let took: Duration = self.began.elapsed();
        families.duration.took(&[self.webhook, self.type_, self.operation, rejected], took);
        let code = code.unwrap_or(0).to_string();
        families.requests.increment(&[self.webhook, self.type_, self.operation, &code, rejected]);
    }
}
