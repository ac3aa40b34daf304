//! Metrics of both controllers, with upstream's names, labels and buckets.

use metrics::{Buckets, Counters, Description, Histograms, Registry};

const CENTISECONDS: Buckets = Buckets::Exponential { start: 0.01, factor: 2.0, count: 12 };
const MILLISECONDS: Buckets = Buckets::Exponential { start: 0.001, factor: 2.0, count: 12 };

const PROCESS: Description = Description::histogram(
    "federatedhpa_process_duration_seconds",
    &["result"],
    CENTISECONDS,
    "Duration of a pass over a FederatedHPA.",
);
const PULL: Description = Description::histogram(
    "federatedhpa_pull_metrics_duration_seconds",
    &["result", "metricType"],
    CENTISECONDS,
    "Duration of reading the metrics of a FederatedHPA in all its clusters.",
);
const RECONCILIATIONS: Description = Description::counter(
    "horizontal_pod_autoscaler_controller_reconciliations_total",
    &["action", "error"],
    "Passes over FederatedHPAs; action is scale_up, scale_down or none, error is spec, internal or none.",
);
const DURATIONS: Description = Description::histogram(
    "horizontal_pod_autoscaler_controller_reconciliation_duration_seconds",
    &["action", "error"],
    Buckets::Exponential { start: 0.001, factor: 2.0, count: 15 },
    "Duration of a pass over a FederatedHPA.",
);
const CRON: Description = Description::histogram(
    "cronfederatedhpa_process_duration_seconds",
    &["result"],
    MILLISECONDS,
    "Duration of a pass over a CronFederatedHPA.",
);
const RULE: Description = Description::histogram(
    "cronfederatedhpa_rule_process_duration_seconds",
    &["result"],
    MILLISECONDS,
    "Duration of a run of a rule of a CronFederatedHPA.",
);

/// Every family of these controllers.
pub const DESCRIPTIONS: &[Description] = &[PROCESS, PULL, RECONCILIATIONS, DURATIONS, CRON, RULE];

/// Those of FederatedHPA.
pub(super) struct OfFederated {
    pub process: Histograms,
    pub pull: Histograms,
    pub reconciliations: Counters,
    pub durations: Histograms,
}

impl OfFederated {
    pub fn new(registry: &Registry) -> Self {
        Self {
            process: registry.histograms(&PROCESS),
            pull: registry.histograms(&PULL),
            reconciliations: registry.counters(&RECONCILIATIONS),
            durations: registry.histograms(&DURATIONS),
        }
    }
}

/// Those of CronFederatedHPA.
pub(super) struct OfCron {
    pub process: Histograms,
    pub rule: Histograms,
}

impl OfCron {
    pub fn new(registry: &Registry) -> Self {
        Self { process: registry.histograms(&CRON), rule: registry.histograms(&RULE) }
    }
}
