//! What an estimator counts, with upstream's names, labels and buckets.

use std::time::Duration;

use metrics::{Buckets, Counters, Description, Histograms, Registry};

pub const REQUESTS: Description = Description::counter(
    "karmada_scheduler_estimator_estimating_request_total",
    &["result", "type"],
    "Questions answered: success or error, by method.",
);
pub const ALGORITHM: Description = Description::histogram(
    "karmada_scheduler_estimator_estimating_algorithm_duration_seconds",
    &["result", "type", "step"],
    Buckets::Exponential { start: 0.001, factor: 2.0, count: 10 },
    "How long an answer took; the step is Total.",
);
pub const ALL: &[Description] = &[REQUESTS, ALGORITHM];

/// The families at hand.
#[derive(Clone, Debug)]
pub struct Counted {
    requests: Counters,
    algorithm: Histograms,
}

impl Counted {
    pub fn new(registry: &Registry) -> Self {
        Self { requests: registry.counters(&REQUESTS), algorithm: registry.histograms(&ALGORITHM) }
    }

    pub(crate) fn request(&self, kind: &'static str, succeeded: bool, took: Duration) {
        let result = if succeeded { "success" } else { "error" };
        self.requests.increment(&[result, kind]);
        self.algorithm.took(&[result, kind, "Total"], took);
    }
}
