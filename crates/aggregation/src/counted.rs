//! Metrics of aggregated API servers, with upstream's names.

use std::sync::OnceLock;

use metrics::{Counters, Description, Gauges, Registry};

const UNAVAILABLE: Description = Description::gauge(
    "aggregator_unavailable_apiservice",
    &["name"],
    "Whether an APIService is unavailable: 1 if it is, 0 otherwise.",
);
const FAILURES: Description = Description::counter(
    "aggregator_unavailable_apiservice_total",
    &["name", "reason"],
    "How often an APIService became unavailable, by the reason.",
);

/// All families, for the reference of metrics.
pub const ALL: &[Description] = &[UNAVAILABLE, FAILURES];

/// The metric families of a server; nothing is counted before they are registered.
#[derive(Default)]
pub(crate) struct Counted(OnceLock<(Gauges, Counters)>);

impl Counted {
    pub fn register(&self, registry: &Registry) {
        self.0.get_or_init(|| (registry.gauges(&UNAVAILABLE), registry.counters(&FAILURES)));
    }

    /// `reason` is set when the APIService has become unavailable.
    pub fn checked(&self, name: &str, is_available: bool, reason: Option<&str>) {
        let Some((unavailable, failures)) = self.0.get() else { return };
        unavailable.set(&[name], if is_available { 0.0 } else { 1.0 });
        if let Some(reason) = reason {
            failures.increment(&[name, reason]);
        }
    }

    pub fn forget(&self, name: &str) {
        if let Some((unavailable, failures)) = self.0.get() {
            unavailable.remove(&[("name", name)]);
            failures.remove(&[("name", name)]);
        }
    }
}
