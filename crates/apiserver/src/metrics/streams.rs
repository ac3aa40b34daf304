//! Long-running requests and the events of watches.

use metrics::{Buckets, Counter, Counters, Description, Gauge, Gauges, Histogram, Histograms, Registry};

use super::labels;
use crate::request::RequestInfo;

pub const LONG_RUNNING: Description = Description::gauge(
    "apiserver_longrunning_requests",
    &["verb", "group", "version", "resource", "subresource", "scope", "component"],
    "Open watches of clients.",
);
const EVENT_LABELS: &[&str] = &["group", "version", "resource"];
pub const EVENTS: Description =
    Description::counter("apiserver_watch_events_total", EVENT_LABELS, "Events sent to watches of clients.");
pub const EVENT_SIZES: Description = Description::histogram(
    "apiserver_watch_events_sizes",
    EVENT_LABELS,
    Buckets::Exponential { start: 1024.0, factor: 2.0, count: 8 },
    "Bytes of the events sent to watches of clients.",
);

/// The families.
#[derive(Debug)]
pub(crate) struct Streams {
    open: Gauges,
    events: Counters,
    sizes: Histograms,
}

/// An open watch: counted until it is dropped.
pub(crate) struct Watched {
    open: Gauge,
    events: Counter,
    sizes: Histogram,
}

impl Streams {
    pub fn new(registry: &Registry) -> Self {
        Self {
            open: registry.gauges(&LONG_RUNNING),
            events: registry.counters(&EVENTS),
            sizes: registry.histograms(&EVENT_SIZES),
        }
    }

    /// Counts a watch of a known resource.
    pub fn watched(&self, info: &RequestInfo) -> Watched {
        let [verb, _, group, version, resource, subresource, scope, component] = labels(info, true);
        let open = self.open.of(&[verb, group, version, resource, subresource, scope, component]);
        open.add(1.0);
        let named = [group, version, resource];
        Watched { open, events: self.events.of(&named), sizes: self.sizes.of(&named) }
    }

    pub fn forget(&self, labels: &[(&str, &str)]) {
        self.open.remove(labels);
        self.events.remove(labels);
        self.sizes.remove(labels);
    }
}

impl Watched {
    /// Counts an event of this many bytes.
    pub fn sent(&self, bytes: usize) {
        self.events.increment();
        self.sizes.observe(bytes as f64);
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.open.add(-1.0);
    }
}
