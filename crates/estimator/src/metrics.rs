//! An estimator's metrics, with upstream's names, labels and buckets.

use std::cell::Cell;
use std::time::Duration;

use metrics::{Buckets, Counters, Description, Histograms, Registry};
use scheduling::accurate::Observer;
use tokio::time::Instant;

pub const REQUESTS: Description = Description::counter(
    "karmada_scheduler_estimator_estimating_request_total",
    &["result", "type"],
    "Estimates by result (success or error) and method.",
);
pub const ALGORITHM: Description = Description::histogram(
    "karmada_scheduler_estimator_estimating_algorithm_duration_seconds",
    &["result", "type", "step"],
    Buckets::Exponential { start: 0.001, factor: 2.0, count: 10 },
    "Duration of an estimate: Total, and for unschedulable replicas GetObjectFromCache and GetWorkloadUnschedulablePods.",
);
pub const EXTENSION_POINTS: Description = Description::histogram(
    "karmada_scheduler_estimator_estimating_plugin_extension_point_duration_seconds",
    &["estimating_plugin_extension_point"],
    Buckets::Exponential { start: 0.0001, factor: 2.0, count: 12 },
    "Duration of all plugins: estimate_replicas, estimate_components.",
);
pub const PLUGINS: Description = Description::histogram(
    "karmada_scheduler_estimator_estimating_plugin_execution_duration_seconds",
    &["estimating_plugin", "estimating_plugin_extension_point"],
    Buckets::Exponential { start: 0.00001, factor: 1.5, count: 20 },
    "Duration of a plugin: NodeResourceEstimator, ResourceQuotaEstimator.",
);
pub const ALL: &[Description] = &[REQUESTS, ALGORITHM, EXTENSION_POINTS, PLUGINS];

/// The metric families.
#[derive(Clone, Debug)]
pub struct Counted {
    requests: Counters,
    algorithm: Histograms,
    extension_points: Histograms,
    plugins: Histograms,
}

impl Counted {
    pub fn new(registry: &Registry) -> Self {
        Self {
            requests: registry.counters(&REQUESTS),
            algorithm: registry.histograms(&ALGORITHM),
            extension_points: registry.histograms(&EXTENSION_POINTS),
            plugins: registry.histograms(&PLUGINS),
        }
    }

    pub(crate) fn request(&self, kind: &'static str, succeeded: bool, took: Duration) {
        let result = if succeeded { "success" } else { "error" };
        self.requests.increment(&[result, kind]);
        self.algorithm.took(&[result, kind, "Total"], took);
    }

    /// The stopwatch for one estimate by this method.
    pub(crate) fn stopwatch(&self, kind: &'static str) -> Stopwatch<'_> {
        let point = match kind {
            "MaxAvailableReplicas" => Some("estimate_replicas"),
            "MaxAvailableComponentSets" => Some("estimate_components"),
            _ => None,
        };
        let now = Instant::now();
        Stopwatch { counted: self, kind, point, began: now, last: Cell::new(now) }
    }
}

/// Measures the plugins and the steps of one estimate.
pub(crate) struct Stopwatch<'a> {
    counted: &'a Counted,
    kind: &'static str,
    point: Option<&'static str>,
    began: Instant,
    last: Cell<Instant>,
}

impl Stopwatch<'_> {
    fn lap(&self) -> Duration {
        let now = Instant::now();
        now - self.last.replace(now)
    }

    /// All plugins finished.
    pub fn ended(&self) {
        if let Some(point) = self.point {
            self.counted.extension_points.took(&[point], self.began.elapsed());
        }
    }
}

impl Observer for Stopwatch<'_> {
    fn plugin_finished(&self, plugin: &'static str) {
        if let Some(point) = self.point {
            self.counted.plugins.took(&[plugin, point], self.lap());
        }
    }

    fn step_finished(&self, part: &'static str) {
        self.counted.algorithm.took(&["success", self.kind, part], self.lap());
    }
}
