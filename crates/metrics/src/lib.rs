//! Counters, gauges and histograms for Prometheus.
//!
//! A family is described once, as a constant with its labels; a [`Registry`] has the numbers. An observation looks up
//! its series by borrowed label values and changes one atomic, without allocation once a series exists. A registry is a
//! value: one per process, or one per server in a test. There is no global registry and no clock: callers pass
//! durations.

mod family;
mod registry;
mod text;

pub use family::{Counter, Counters, Gauge, Gauges, Histogram, Histograms};
pub use registry::{Collector, Registry, Samples};

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Counter,
    /// A counter of a fractional sum, such as seconds.
    Sum,
    Gauge,
    /// Upper bounds of the buckets, ascending.
    Histogram(Buckets),
}

/// Upper bounds of a histogram's buckets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Buckets {
    /// 5 ms to 10 s in eleven steps.
    Default,
    /// `count` bounds: `start`, `start * factor`, ...
    Exponential {
        start: f64,
        factor: f64,
        count: u32,
    },
    Listed(&'static [f64]),
}

impl Buckets {
    pub fn bounds(self) -> Vec<f64> {
        match self {
            Self::Default => vec![0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0],
            Self::Exponential { start, factor, count } => {
                std::iter::successors(Some(start), |bound| Some(bound * factor)).take(count as usize).collect()
            }
            Self::Listed(bounds) => bounds.to_vec(),
        }
    }
}

/// A family of series: its name, type, labels and help text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Description {
    pub name: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

impl Description {
    pub const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self { name, kind: Kind::Counter, labels, help }
    }

    pub const fn sum(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self { name, kind: Kind::Sum, labels, help }
    }

    pub const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self { name, kind: Kind::Gauge, labels, help }
    }

    pub const fn histogram(
        name: &'static str,
        labels: &'static [&'static str],
        buckets: Buckets,
        help: &'static str,
    ) -> Self {
        Self { name, kind: Kind::Histogram(buckets), labels, help }
    }

    /// The type in the `# TYPE` line.
    pub fn type_name(&self) -> &'static str {
        match self.kind {
            Kind::Counter | Kind::Sum => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        }
    }
}
