//! The series of one family, by the values of their labels.

use std::cmp::Ordering as Order;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;

use crate::{Description, Kind};

/// The maximum number of series per family. Labels are kinds, clusters and outcomes: 10,000 members times ten outcomes
/// fit; beyond it new series are dropped, which bounds memory.
const MAX_SERIES: usize = 100_000;

#[derive(Debug)]
pub(crate) struct Family {
    pub description: Description,
    pub bounds: Vec<f64>,
    series: RwLock<All>,
}

#[derive(Debug, Default)]
struct All {
    /// Sorted by label values.
    sorted: Vec<Series>,
    /// By a hash of the label values, the first series with that hash; others are found in `sorted`.
    hashed: HashMap<u64, Series, BuildHasherDefault<Hashed>>,
}

impl All {
    fn get(&self, hash: u64, values: &[&str]) -> Option<Arc<Cells>> {
        if let Some(series) = self.hashed.get(&hash).filter(|series| compare(series, values).is_eq()) {
            return Some(Arc::clone(&series.value));
        }
        let at = self.sorted.binary_search_by(|series| compare(series, values)).ok()?;
        Some(Arc::clone(&self.sorted[at].value))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub labels: Arc<[Box<str>]>,
    pub value: Arc<Cells>,
}

/// The numbers of a series: one, or one per bucket and a sum.
#[derive(Debug)]
pub(crate) struct Cells {
    /// Counters are integers; gauges and sums are the bits of a float; for histograms, the bits of the sum.
    pub main: AtomicU64,
    /// Observations per bucket (not cumulative); the last bucket is above all bounds.
    pub buckets: Box<[AtomicU64]>,
}

/// A hash of label values, computed several times per request. Collisions are resolved by a search, so it need not be
/// collision resistant.
fn hash(values: &[&str]) -> u64 {
    let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    let mut hash = 0;
    for value in values {
        let (words, rest) = value.as_bytes().as_chunks::<8>();
        hash = words.iter().fold(hash, |hash, word| mix(hash, u64::from_le_bytes(*word)));
        hash = mix(hash, rest.iter().fold(value.len() as u64, |word, byte| word << 8 | u64::from(*byte)));
    }
    hash ^ (hash >> 32)
}

/// A hasher that returns its input.
#[derive(Clone, Debug, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

fn compare(series: &Series, values: &[&str]) -> Order {
    series.labels.iter().map(|label| &**label).cmp(values.iter().copied())
}

impl Family {
    pub fn new(description: Description) -> Self {
        let bounds = match description.kind {
            Kind::Histogram(buckets) => buckets.bounds(),
            _ => Vec::new(),
        };
        Self { description, bounds, series: RwLock::default() }
    }

    /// The series with these values, created if absent; `None` above the maximum.
    pub fn series(&self, values: &[&str]) -> Option<Arc<Cells>> {
        debug_assert_eq!(values.len(), self.description.labels.len(), "{}", self.description.name);
        let hash = hash(values);
        if let Some(found) = self.series.read().get(hash, values) {
            return Some(found);
        }
        let mut known = self.series.write();
        match known.sorted.binary_search_by(|series| compare(series, values)) {
            Ok(at) => Some(Arc::clone(&known.sorted[at].value)),
            Err(_) if known.sorted.len() >= MAX_SERIES => None,
            Err(at) => {
                let buckets = match self.description.kind {
                    Kind::Histogram(_) => (0..=self.bounds.len()).map(|_| AtomicU64::new(0)).collect(),
                    _ => Box::default(),
                };
                let value = Arc::new(Cells { main: AtomicU64::new(0), buckets });
                let labels = values.iter().map(|value| Box::from(*value)).collect();
                let series = Series { labels, value: Arc::clone(&value) };
                known.hashed.entry(hash).or_insert_with(|| series.clone());
                known.sorted.insert(at, series);
                Some(value)
            }
        }
    }

    pub fn for_each(&self, mut show: impl FnMut(&Series)) {
        self.series.read().sorted.iter().for_each(&mut show);
    }

    fn remove(&self, labels: &[(&str, &str)]) {
        let place = |label: &str| self.description.labels.iter().position(|name| *name == label);
        let Some(selected) =
            labels.iter().map(|(label, value)| Some((place(label)?, *value))).collect::<Option<Vec<_>>>()
        else {
            return;
        };
        let stays = |series: &Series| selected.iter().any(|(at, value)| &*series.labels[*at] != *value);
        let mut known = self.series.write();
        known.sorted.retain(stays);
        known.hashed.retain(|_, series| stays(series));
        if known.sorted.len() < known.sorted.capacity() / 4 {
            known.sorted.shrink_to_fit();
            known.hashed.shrink_to_fit();
        }
    }

    fn observe(&self, cells: &Cells, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = cells.buckets.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        add_float(&cells.main, value);
    }
}

fn add_float(cell: &AtomicU64, value: f64) {
    let mut known = cell.load(Ordering::Relaxed);
    loop {
        let sum = (f64::from_bits(known) + value).to_bits();
        match cell.compare_exchange_weak(known, sum, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return,
            Err(newer) => known = newer,
        }
    }
}

/// Counters.
#[derive(Clone, Debug)]
pub struct Counters(pub(crate) Arc<Family>);

impl Counters {
    /// The counter with these values, for callers that change it often.
    pub fn of(&self, values: &[&str]) -> Counter {
        Counter(self.0.series(values))
    }

    /// `values` are those of the family's labels, in their order.
    pub fn increment(&self, values: &[&str]) {
        self.add(values, 1);
    }

    pub fn add(&self, values: &[&str], count: u64) {
        if let Some(cells) = self.0.series(values) {
            cells.main.fetch_add(count, Ordering::Relaxed);
        }
    }

    pub fn value(&self, values: &[&str]) -> u64 {
        self.0.series(values).map_or(0, |cells| cells.main.load(Ordering::Relaxed))
    }

    /// Drops every series with these label values.
    pub fn remove(&self, labels: &[(&str, &str)]) {
        self.0.remove(labels);
    }
}

/// One counter with a resolved series.
#[derive(Clone, Debug)]
pub struct Counter(Option<Arc<Cells>>);

impl Counter {
    pub fn increment(&self) {
        self.add(1);
    }

    pub fn add(&self, count: u64) {
        if let Some(cells) = &self.0 {
            cells.main.fetch_add(count, Ordering::Relaxed);
        }
    }
}

/// One gauge with a resolved series.
#[derive(Clone, Debug)]
pub struct Gauge(Option<Arc<Cells>>);

impl Gauge {
    /// A negative difference decreases the value.
    pub fn add(&self, difference: f64) {
        if let Some(cells) = &self.0 {
            add_float(&cells.main, difference);
        }
    }
}

/// One histogram with a resolved series.
#[derive(Clone, Debug)]
pub struct Histogram {
    family: Arc<Family>,
    cells: Option<Arc<Cells>>,
}

impl Histogram {
    pub fn observe(&self, value: f64) {
        if let Some(cells) = &self.cells {
            self.family.observe(cells, value);
        }
    }

    /// Observes a duration in seconds.
    pub fn took(&self, duration: Duration) {
        self.observe(duration.as_secs_f64());
    }
}

/// Gauges.
#[derive(Clone, Debug)]
pub struct Gauges(pub(crate) Arc<Family>);

impl Gauges {
    /// The gauge with these values, for callers that change it often.
    pub fn of(&self, values: &[&str]) -> Gauge {
        Gauge(self.0.series(values))
    }

    pub fn set(&self, values: &[&str], value: f64) {
        if let Some(cells) = self.0.series(values) {
            cells.main.store(value.to_bits(), Ordering::Relaxed);
        }
    }

    /// A negative difference decreases the value.
    pub fn add(&self, values: &[&str], difference: f64) {
        if let Some(cells) = self.0.series(values) {
            add_float(&cells.main, difference);
        }
    }

    pub fn value(&self, values: &[&str]) -> f64 {
        self.0.series(values).map_or(0.0, |cells| f64::from_bits(cells.main.load(Ordering::Relaxed)))
    }

    /// Drops every series with these label values.
    pub fn remove(&self, labels: &[(&str, &str)]) {
        self.0.remove(labels);
    }
}

/// Histograms.
#[derive(Clone, Debug)]
pub struct Histograms(pub(crate) Arc<Family>);

impl Histograms {
    /// The histogram with these values, for callers that observe often.
    pub fn of(&self, values: &[&str]) -> Histogram {
        Histogram { cells: self.0.series(values), family: Arc::clone(&self.0) }
    }

    pub fn observe(&self, values: &[&str], value: f64) {
        if let Some(cells) = self.0.series(values) {
            self.0.observe(&cells, value);
        }
    }

    /// Observes a duration in seconds.
    pub fn took(&self, values: &[&str], duration: Duration) {
        self.observe(values, duration.as_secs_f64());
    }

    /// The number of observations.
    pub fn count(&self, values: &[&str]) -> u64 {
        let cells = self.0.series(values);
        cells.map_or(0, |cells| cells.buckets.iter().map(|count| count.load(Ordering::Relaxed)).sum())
    }

    /// Drops every series with these label values.
    pub fn remove(&self, labels: &[(&str, &str)]) {
        self.0.remove(labels);
    }
}
