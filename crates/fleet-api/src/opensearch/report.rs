//! What users learn about a service: log lines, Events of its registries, and metrics.

use std::sync::{Arc, Weak};

use client::Client;
use controller_runtime::{EventRecorder, Involved};
use metrics::{Counter, Counters, Registry};
use parking_lot::{Mutex, RwLock};
use tokio_util::sync::CancellationToken;
use world::World;

use super::pending::Pending;
use super::{DOCUMENTS, FAILURES, PENDING};

/// Shared by all services.
#[derive(Clone)]
pub(super) struct Reports {
    recorder: EventRecorder,
    documents: Counters,
    failures: Counter,
    queues: Arc<Mutex<Vec<Weak<Pending>>>>,
}

impl Reports {
    pub fn start(control: Client, world: World, registry: &Registry, stop: &CancellationToken) -> Self {
        let recorder = EventRecorder::start(control, world, "karmada-search", stop.clone());
        let queues = Arc::<Mutex<Vec<Weak<Pending>>>>::default();
        let (counted, ended) = (Arc::downgrade(&queues), stop.clone());
        registry.collect(move |samples| {
            let Some(queues) = counted.upgrade().filter(|_| !ended.is_cancelled()) else { return false };
            let count: usize = queues.lock().iter().filter_map(Weak::upgrade).map(|it| it.len()).sum();
            samples.gauge(&PENDING, &[], count as f64);
            true
        });
        let failures = registry.counters(&FAILURES).of(&[]);
        Self { recorder, documents: registry.counters(&DOCUMENTS), failures, queues }
    }

    /// A warning about registries.
    pub fn warn(&self, registries: &[Involved], reason: &'static str, message: &str) {
        for registry in registries {
            tracing::warn!(registry = registry.name, reason, "{message}");
            self.recorder.warning(registry, reason, message);
        }
    }

    /// The report of a service.
    pub fn of(&self, pending: &Arc<Pending>, registries: Vec<Involved>) -> Report {
        let mut queues = self.queues.lock();
        queues.retain(|it| it.strong_count() > 0);
        queues.push(Arc::downgrade(pending));
        drop(queues);
        Report(Arc::new(Inner {
            reports: self.clone(),
            registries: RwLock::new(registries),
            failing: Mutex::default(),
        }))
    }
}

/// The report of one service. Cheap to clone.
#[derive(Clone)]
pub(super) struct Report(Arc<Inner>);

struct Inner {
    reports: Reports,
    registries: RwLock<Vec<Involved>>,
    /// Why documents are not written at present.
    failing: Mutex<Option<String>>,
}

impl Report {
    pub fn registries_are(&self, registries: Vec<Involved>) {
        *self.0.registries.write() = registries;
    }

    pub fn warn(&self, reason: &'static str, message: &str) {
        self.0.reports.warn(&self.0.registries.read(), reason, message);
    }

    fn normal(&self, reason: &'static str, message: &str) {
        for registry in &*self.0.registries.read() {
            tracing::info!(registry = registry.name, reason, "{message}");
            self.0.reports.recorder.normal(registry, reason, message);
        }
    }

    /// A request failed and is retried. Only a new reason is reported.
    pub fn failed(&self, why: &str) {
        self.0.reports.failures.increment();
        let mut failing = self.0.failing.lock();
        if failing.as_deref() == Some(why) {
            return;
        }
        *failing = Some(why.to_owned());
        drop(failing);
        let message = format!("OpenSearch does not accept documents; they are sent again: {why}");
        self.warn("OpenSearchUnavailable", &message);
    }

    /// Documents are accepted.
    pub fn succeeded(&self) {
        if self.0.failing.lock().take().is_some() {
            self.normal("OpenSearchAvailable", "OpenSearch accepts documents again");
        }
    }

    /// Documents that are not sent again before their objects change; the first is described.
    pub fn rejected(&self, count: usize, first: &str) {
        self.count("rejected", count);
        let message = format!(
            "OpenSearch rejects {count} documents, the first: {first}; they are sent again when their objects change, \
             or when the process restarts"
        );
        self.warn("OpenSearchRejected", &message);
    }

    /// Counts documents by result.
    pub fn count(&self, result: &str, count: usize) {
        if count > 0 {
            self.0.reports.documents.add(&[result], count as u64);
        }
    }
}
