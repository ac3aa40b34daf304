//! The families of a process.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::family::Family;
use crate::{Counters, Description, Gauges, Histograms, text};

/// Returns numbers on request, for values that are counted elsewhere; returns false when it has ended.
pub type Collector = Box<dyn Fn(&mut Samples) -> bool + Send + Sync>;

/// The metric families of a process. Cheap to clone; clones share the families.
#[derive(Clone, Default)]
pub struct Registry(Arc<Inner>);

#[derive(Default)]
struct Inner {
    families: RwLock<BTreeMap<&'static str, Arc<Family>>>,
    collectors: RwLock<Vec<Collector>>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Registry of {} families", self.0.families.read().len())
    }
}

impl Registry {
    fn family(&self, description: &Description) -> Arc<Family> {
        if let Some(known) = self.0.families.read().get(description.name) {
            return Arc::clone(known);
        }
        let mut families = self.0.families.write();
        let family = families.entry(description.name).or_insert_with(|| Arc::new(Family::new(*description)));
        Arc::clone(family)
    }

    /// The family of a description; all callers share it.
    pub fn counters(&self, description: &Description) -> Counters {
        Counters(self.family(description))
    }

    pub fn gauges(&self, description: &Description) -> Gauges {
        Gauges(self.family(description))
    }

    pub fn histograms(&self, description: &Description) -> Histograms {
        Histograms(self.family(description))
    }

    /// Calls `collector` whenever the metrics are read, until it returns false. It must not block.
    pub fn collect(&self, collector: impl Fn(&mut Samples) -> bool + Send + Sync + 'static) {
        self.0.collectors.write().push(Box::new(collector));
    }

    /// All metrics in Prometheus' text format (version 0.0.4).
    pub fn text(&self) -> String {
        let mut samples = Samples { families: self.0.families.read().values().cloned().collect() };
        let mut collected = Samples { families: Vec::new() };
        self.0.collectors.write().retain(|collector| collector(&mut collected));
        samples.families.extend(collected.families);
        samples.families.sort_by_key(|family| family.description.name);
        text::write(&samples.families)
    }
}

/// The numbers of a collector.
#[derive(Debug)]
pub struct Samples {
    families: Vec<Arc<Family>>,
}

impl Samples {
    fn family(&mut self, description: &Description) -> Arc<Family> {
        if let Some(known) = self.families.iter().find(|family| family.description.name == description.name) {
            return Arc::clone(known);
        }
        let family = Arc::new(Family::new(*description));
        self.families.push(Arc::clone(&family));
        family
    }

    pub fn counter(&mut self, description: &Description, values: &[&str], count: u64) {
        Counters(self.family(description)).add(values, count);
    }

    /// For a family of sums.
    pub fn sum(&mut self, description: &Description, values: &[&str], sum: f64) {
        Gauges(self.family(description)).add(values, sum);
    }

    pub fn gauge(&mut self, description: &Description, values: &[&str], value: f64) {
        Gauges(self.family(description)).add(values, value);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Buckets;

    const REQUESTS: Description = Description::counter("requests_total", &["verb", "code"], "Requests.");
    const READY: Description = Description::gauge("ready", &["member"], "Whether a member is ready.");
    const TOOK: Description = Description::histogram(
        "took_seconds",
        &[],
        Buckets::Exponential { start: 0.5, factor: 2.0, count: 2 },
        "How long it took.",
    );
    const DEPTH: Description = Description::gauge("depth", &["name"], "Waiting.");

    #[test]
    fn kept_and_collected_series_are_one_family() {
        let registry = Registry::default();
        registry.gauges(&DEPTH).set(&["kept"], 1.0);
        registry.collect(|samples| {
            samples.gauge(&DEPTH, &["collected"], 2.0);
            true
        });
        let expected =
            "# HELP depth Waiting.\n# TYPE depth gauge\ndepth{name=\"kept\"} 1\ndepth{name=\"collected\"} 2\n";
        assert_eq!(registry.text(), expected);
    }

    #[test]
    fn every_kind_is_in_prometheus_format() {
        let registry = Registry::default();
        let requests = registry.counters(&REQUESTS);
        requests.increment(&["get", "200"]);
        registry.counters(&REQUESTS).add(&["get", "200"], 2);
        requests.increment(&["a\"b\\c\nd", "500"]);
        registry.gauges(&READY).set(&["m1"], 1.0);
        registry.gauges(&READY).set(&["m2"], 0.5);
        registry.gauges(&READY).remove(&[("member", "m1")]);
        let took = registry.histograms(&TOOK);
        for milliseconds in [100, 500, 700, 9000] {
            took.took(&[], Duration::from_millis(milliseconds));
        }
        registry.collect(|samples| {
            samples.gauge(&DEPTH, &["q"], 3.0);
            true
        });
        assert_eq!(
            registry.text(),
            "# HELP depth Waiting.\n# TYPE depth gauge\ndepth{name=\"q\"} 3\n\
             # HELP ready Whether a member is ready.\n# TYPE ready gauge\nready{member=\"m2\"} 0.5\n\
             # HELP requests_total Requests.\n# TYPE requests_total counter\n\
             requests_total{verb=\"a\\\"b\\\\c\\nd\",code=\"500\"} 1\n\
             requests_total{verb=\"get\",code=\"200\"} 3\n\
             # HELP took_seconds How long it took.\n# TYPE took_seconds histogram\n\
             took_seconds_bucket{le=\"0.5\"} 2\ntook_seconds_bucket{le=\"1\"} 3\ntook_seconds_bucket{le=\"+Inf\"} 4\n\
             took_seconds_sum 10.3\ntook_seconds_count 4\n"
        );
        assert_eq!((requests.value(&["get", "200"]), took.count(&[])), (3, 4));
    }

    #[test]
    fn series_that_are_looked_up_once_are_those_of_their_family() {
        let registry = Registry::default();
        let (requests, ready, took) =
            (registry.counters(&REQUESTS), registry.gauges(&READY), registry.histograms(&TOOK));
        requests.of(&["get", "200"]).add(2);
        requests.of(&["get", "200"]).increment();
        ready.of(&["m1"]).add(1.5);
        took.of(&[]).took(Duration::from_secs(1));
        assert_eq!((requests.value(&["get", "200"]), ready.value(&["m1"]), took.count(&[])), (3, 1.5, 1));
    }

    #[test]
    fn observations_from_many_threads_add_up() {
        let registry = Registry::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let took = registry.histograms(&TOOK);
                    (0..1000).for_each(|_| took.observe(&[], 1.0));
                });
            }
        });
        assert!(registry.text().contains("took_seconds_sum 4000\ntook_seconds_count 4000\n"));
    }

    #[test]
    fn series_are_dropped_by_the_values_of_several_labels() {
        let registry = Registry::default();
        let requests = registry.counters(&REQUESTS);
        for verb in ["get", "put"] {
            ["200", "404"].into_iter().for_each(|code| requests.increment(&[verb, code]));
        }
        requests.remove(&[("verb", "get"), ("code", "404")]);
        requests.remove(&[("verb", "put"), ("no_such_label", "1")]);
        assert_eq!(registry.text().lines().filter(|line| !line.starts_with('#')).count(), 3);
        requests.remove(&[("verb", "put")]);
        assert_eq!(registry.text().lines().filter(|line| !line.starts_with('#')).count(), 1);
        assert_eq!((requests.value(&["get", "200"]), requests.value(&["get", "404"])), (1, 0));
    }
}
