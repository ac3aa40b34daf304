//! Metrics of queues and reconciliations, with the names of controller-runtime and client-go.
//!
//! [`observed`] sets the registry for the workers that start inside its future; other workers have no metrics. So
//! controllers need not pass a registry from function to function.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::{Buckets, Counters, Description, Gauges, Histograms, Registry};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::WorkQueue;

/// client-go's buckets for queues: 10 ns to 1000 s... limited to plausible durations.
const WORK: Buckets = Buckets::Exponential { start: 0.000_001, factor: 10.0, count: 10 };

pub const DEPTH: Description =
    Description::gauge("workqueue_depth", &["name", "controller", "priority"], "Keys waiting in the queue.");
pub const ADDS: Description = Description::counter("workqueue_adds_total", &["name", "controller"], "Keys added.");
pub const RETRIES: Description =
    Description::counter("workqueue_retries_total", &["name", "controller"], "Keys requeued after a failure.");
pub const WORK_DURATION: Description = Description::histogram(
    "workqueue_work_duration_seconds",
    &["name", "controller"],
    WORK,
    "Duration of processing a key.",
);
pub const QUEUE_DURATION: Description = Description::histogram(
    "workqueue_queue_duration_seconds",
    &["name", "controller"],
    WORK,
    "Time from adding a key to its processing.",
);
pub const UNFINISHED: Description = Description::gauge(
    "workqueue_unfinished_work_seconds",
    &["name", "controller"],
    "Sum of the time that keys in processing have taken so far.",
);
pub const LONGEST: Description = Description::gauge(
    "workqueue_longest_running_processor_seconds",
    &["name", "controller"],
    "Time that the longest-running key in processing has taken so far.",
);
pub const RECONCILES: Description = Description::counter(
    "controller_runtime_reconcile_total",
    &["controller", "result"],
    "Reconciliations by result: success, error, requeue_after.",
);
pub const ERRORS: Description =
    Description::counter("controller_runtime_reconcile_errors_total", &["controller"], "Failed reconciliations.");
pub const TERMINAL_ERRORS: Description = Description::counter(
    "controller_runtime_terminal_reconcile_errors_total",
    &["controller"],
    "Reconciliations that failed without a retry; always 0, since every failure is retried.",
);
pub const TIMEOUTS: Description = Description::counter(
    "controller_runtime_reconcile_timeouts_total",
    &["controller"],
    "Reconciliations that timed out; always 0, since only requests have a timeout.",
);
pub const PANICS: Description = Description::counter(
    "controller_runtime_reconcile_panics_total",
    &["controller"],
    "Reconciliations that panicked.",
);
pub const TIME: Description = Description::histogram(
    "controller_runtime_reconcile_time_seconds",
    &["controller"],
    Buckets::Listed(&[
        0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
        1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
    ]),
    "Duration of a reconciliation.",
);
pub const MAX_WORKERS: Description = Description::gauge(
    "controller_runtime_max_concurrent_reconciles",
    &["controller"],
    "Maximum number of concurrent reconciliations.",
);
pub const ACTIVE: Description =
    Description::gauge("controller_runtime_active_workers", &["controller"], "Running reconciliations.");
pub const ALL: &[Description] = &[
    RECONCILES,
    ERRORS,
    TERMINAL_ERRORS,
    TIMEOUTS,
    PANICS,
    TIME,
    MAX_WORKERS,
    ACTIVE,
    DEPTH,
    ADDS,
    RETRIES,
    QUEUE_DURATION,
    WORK_DURATION,
    UNFINISHED,
    LONGEST,
];

tokio::task_local! {
    static REGISTRY: Registry;
}

/// Runs `future`; workers it starts count in `registry`.
pub async fn observed<F: Future>(registry: Registry, future: F) -> F::Output {
    REGISTRY.scope(registry, future).await
}

/// The metrics of a queue that is not a [`WorkQueue`]; its owner records each step.
pub struct Steps {
    name: &'static str,
    adds: Counters,
    retries: Counters,
    waited: Histograms,
    work: Histograms,
    running: Arc<Mutex<BTreeMap<u64, Instant>>>,
    begun: AtomicU64,
}

impl Steps {
    /// `depth` returns the number of waiting keys, `None` after the queue was dropped.
    pub fn new(
        registry: &Registry,
        name: &'static str,
        depth: impl Fn() -> Option<usize> + Send + Sync + 'static,
    ) -> Self {
        let running: Arc<Mutex<BTreeMap<u64, Instant>>> = Arc::default();
        let seen = running.clone();
        registry.collect(move |samples| {
            let Some(depth) = depth() else { return false };
            samples.gauge(&DEPTH, &[name, name, ""], f64::from(u32::try_from(depth).unwrap_or(u32::MAX)));
            let lasted: Vec<f64> = seen.lock().values().map(|begun| begun.elapsed().as_secs_f64()).collect();
            samples.gauge(&UNFINISHED, &[name, name], lasted.iter().sum());
            samples.gauge(&LONGEST, &[name, name], lasted.into_iter().fold(0.0, f64::max));
            true
        });
        let (adds, retries) = (registry.counters(&ADDS), registry.counters(&RETRIES));
        for family in [&adds, &retries] {
            family.add(&[name, name], 0);
        }
        let (waited, work) = (registry.histograms(&QUEUE_DURATION), registry.histograms(&WORK_DURATION));
        Self { name, adds, retries, waited, work, running, begun: AtomicU64::new(0) }
    }

    pub fn added(&self) {
        self.adds.increment(&[self.name, self.name]);
    }

    pub fn retried(&self) {
        self.retries.increment(&[self.name, self.name]);
    }

    /// Records that a key was dequeued after this wait. The caller must call [`Steps::end`] with the returned value.
    pub fn begin(&self, waited: Duration) -> u64 {
        self.waited.took(&[self.name, self.name], waited);
        let turn = self.begun.fetch_add(1, Ordering::Relaxed);
        self.running.lock().insert(turn, Instant::now());
        turn
    }

    pub fn end(&self, turn: u64) {
        if let Some(begun) = self.running.lock().remove(&turn) {
            self.work.took(&[self.name, self.name], begun.elapsed());
        }
    }
}

/// The metrics of one controller's reconciliations, inside [`observed`].
pub(crate) struct Counted {
    name: &'static str,
    reconciles: Counters,
    errors: Counters,
    panics: Counters,
    time: Histograms,
    waited: Histograms,
    work: Histograms,
    active: Gauges,
}

/// How a pass ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ending {
    Success,
    After,
    Error,
    Panic,
}

impl Counted {
    /// For the queue of a controller; `None` outside [`observed`].
    pub fn here<K: Ord + Clone + Send + Sync + 'static>(
        name: &'static str,
        queue: &Arc<WorkQueue<K>>,
        workers: usize,
    ) -> Option<Arc<Self>> {
        let registry = REGISTRY.try_with(Clone::clone).ok()?;
        let queue = Arc::downgrade(queue);
        registry.collect(move |samples| {
            let Some(queue) = queue.upgrade() else { return false };
            let numbers = queue.metrics();
            let depth = f64::from(u32::try_from(numbers.depth).unwrap_or(u32::MAX));
            samples.gauge(&DEPTH, &[name, name, ""], depth);
            samples.counter(&ADDS, &[name, name], numbers.adds);
            samples.counter(&RETRIES, &[name, name], numbers.retries);
            samples.gauge(&UNFINISHED, &[name, name], numbers.unfinished.as_secs_f64());
            samples.gauge(&LONGEST, &[name, name], numbers.longest_running.as_secs_f64());
            true
        });
        let most = f64::from(u32::try_from(workers).unwrap_or(u32::MAX));
        registry.gauges(&MAX_WORKERS).set(&[name], most);
        // Dashboards and alerts need a 0 from the beginning, as upstream exports it.
        for family in [&ERRORS, &TERMINAL_ERRORS, &TIMEOUTS, &PANICS] {
            registry.counters(family).add(&[name], 0);
        }
        Some(Arc::new(Self {
            name,
            reconciles: registry.counters(&RECONCILES),
            errors: registry.counters(&ERRORS),
            panics: registry.counters(&PANICS),
            time: registry.histograms(&TIME),
            waited: registry.histograms(&QUEUE_DURATION),
            work: registry.histograms(&WORK_DURATION),
            active: registry.gauges(&ACTIVE),
        }))
    }

    /// `waited`: how long the key was in the queue.
    pub fn begin(&self, waited: Duration) {
        self.waited.took(&[self.name, self.name], waited);
        self.active.add(&[self.name], 1.0);
    }

    pub fn end(&self, ending: Ending, took: Duration) {
        self.active.add(&[self.name], -1.0);
        self.time.took(&[self.name], took);
        self.work.took(&[self.name, self.name], took);
        let result = match ending {
            Ending::Success => "success",
            Ending::After => "requeue_after",
            Ending::Error | Ending::Panic => {
                self.errors.increment(&[self.name]);
                "error"
            }
        };
        self.reconciles.increment(&[self.name, result]);
        if let Ending::Panic = ending {
            self.panics.increment(&[self.name]);
        }
    }
}
