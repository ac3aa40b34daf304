//! Counts of each FlowSchema, and the metrics that report them.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use metrics::{Buckets, Description, Samples};

use super::plan::Plan;

const BOTH: &[&str] = &["priority_level", "flow_schema"];
const ONE: &[&str] = &["priority_level"];

const REJECTED: Description = Description::counter(
    "apiserver_flowcontrol_rejected_requests_total",
    &["priority_level", "flow_schema", "reason"],
    "Requests rejected by API priority and fairness: concurrency-limit, queue-full, time-out, cancelled.",
);
const DISPATCHED: Description = Description::counter(
    "apiserver_flowcontrol_dispatched_requests_total",
    BOTH,
    "Requests executed by API priority and fairness.",
);
const WAITING: Description = Description::gauge(
    "apiserver_flowcontrol_current_inqueue_requests",
    BOTH,
    "Requests that wait in queues of API priority and fairness.",
);
const EXECUTING: Description = Description::gauge(
    "apiserver_flowcontrol_current_executing_requests",
    BOTH,
    "Requests that execute, and watches that begin.",
);
const SEATS: Description =
    Description::gauge("apiserver_flowcontrol_current_executing_seats", BOTH, "Seats that executing requests hold.");
pub(super) const WAITED: Description = Description::histogram(
    "apiserver_flowcontrol_request_wait_duration_seconds",
    &["priority_level", "flow_schema", "execute"],
    Buckets::Listed(&[0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0]),
    "How long requests waited in a queue; those that found a seat are not counted.",
);
const NOMINAL: Description =
    Description::gauge("apiserver_flowcontrol_nominal_limit_seats", ONE, "Seats of a priority level by its shares.");
const LEAST: Description = Description::gauge(
    "apiserver_flowcontrol_lower_limit_seats",
    ONE,
    "Seats of a priority level that it never lends.",
);
const MOST: Description = Description::gauge(
    "apiserver_flowcontrol_upper_limit_seats",
    ONE,
    "Seats of a priority level with all that it may borrow.",
);
const CURRENT: Description = Description::gauge(
    "apiserver_flowcontrol_current_limit_seats",
    ONE,
    "Seats of a priority level with what it lends and borrows now.",
);

/// The metrics of flow control.
pub const METRICS: &[Description] =
    &[REJECTED, DISPATCHED, WAITING, EXECUTING, SEATS, WAITED, NOMINAL, LEAST, MOST, CURRENT];

pub(super) const TIME_OUT: &str = "time-out";
pub(super) const CANCELLED: &str = "cancelled";
const REASONS: [&str; 4] = ["concurrency-limit", "queue-full", TIME_OUT, CANCELLED];

/// The requests of one FlowSchema in one priority level.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub dispatched: AtomicU64,
    pub executing: AtomicU64,
    pub seats: AtomicU64,
    pub waiting: AtomicU64,
    refused: [AtomicU64; REASONS.len()],
}

impl Stats {
    /// A request begins to execute.
    pub fn begun(&self, seats: u32) {
        self.dispatched.fetch_add(1, Relaxed);
        self.executing.fetch_add(1, Relaxed);
        self.seats.fetch_add(u64::from(seats), Relaxed);
    }

    pub fn ended(&self, seats: u32) {
        self.executing.fetch_sub(1, Relaxed);
        self.seats.fetch_sub(u64::from(seats), Relaxed);
    }

    pub fn refused(&self, reason: &str) {
        if let Some(count) = REASONS.iter().position(|known| *known == reason).and_then(|at| self.refused.get(at)) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Requests refused because of a full level, because of a timeout in a queue, and because their clients
    /// disconnected.
    pub fn refusals(&self) -> [u64; 3] {
        let [limit, full, time, left] = self.refused.each_ref().map(|count| count.load(Relaxed));
        [limit + full, time, left]
    }
}

/// Reports the counts when metrics are read.
pub(super) fn report(plan: &Plan, samples: &mut Samples) {
    for schema in &plan.schemas {
        let (labels, stats) = ([schema.level.name(), schema.name.as_str()], &schema.stats);
        samples.counter(&DISPATCHED, &labels, stats.dispatched.load(Relaxed));
        samples.gauge(&WAITING, &labels, stats.waiting.load(Relaxed) as f64);
        samples.gauge(&EXECUTING, &labels, stats.executing.load(Relaxed) as f64);
        samples.gauge(&SEATS, &labels, stats.seats.load(Relaxed) as f64);
        for (reason, count) in REASONS.iter().zip(&stats.refused) {
            let count = count.load(Relaxed);
            if count > 0 {
                samples.counter(&REJECTED, &[labels[0], labels[1], reason], count);
            }
        }
    }
    for (name, level) in &plan.levels {
        let (limits, current) = (level.limits(), level.counts().limit);
        let values = [(&NOMINAL, limits.nominal), (&LEAST, limits.least), (&MOST, limits.most), (&CURRENT, current)];
        for (description, value) in values {
            samples.gauge(description, &[name], f64::from(value));
        }
    }
}
