//! The shared state of a scheduler's passes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use apimachinery::Object;
use client::Client;
use controller_runtime::metrics::Steps;
use controller_runtime::{EventRecorder, Informer, Involved, Overlay};
use estimator::Estimators;
use karmada_api::constants::events;
use karmada_api::identity::BindingKey;
use karmada_api::scope::{Binding, Scope};
use metrics::Registry;
use parking_lot::Mutex;
use scheduling::{Gates, Snapshot};
use world::World;

use crate::assumptions::Assumptions;
use crate::clusters::Clusters;
use crate::journal::Journal;
use crate::metrics::Counted;
use crate::pacing::Pacing;
use crate::peers::Neighbours;
use crate::roster::Roster;
use crate::triggers::DEFAULT_SCHEDULER;
use crate::waiting::WaitingQueue;

#[derive(Clone, Debug)]
pub struct Options {
    /// `--scheduler-name`: bindings that name another scheduler are ignored. Also the component of events.
    pub name: String,
    /// Passes at once. A pass computes for microseconds and then waits for two writes to be durable, which a store
    /// makes durable together.
    pub workers: usize,
    pub gates: Gates,
    /// `PriorityBasedScheduling`: bindings of higher priority go first, and not those that came first.
    pub by_priority: bool,
    /// Between failed passes.
    pub pacing: Pacing,
    /// `SchedulingOvercommitProtection`: scheduled replicas occupy capacity in later decisions before clusters report
    /// them.
    pub overcommit_protection: bool,
    /// `--enable-scheduler-estimator`: the estimators to use besides the clusters' own summaries.
    pub estimators: Option<Estimators>,
    /// `--disable-scheduler-estimator-in-pull-mode`: not those of clusters whose agent reports them.
    pub spare_pull_estimators: bool,
    /// The registry of the scheduler's metrics.
    pub metrics: Registry,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: DEFAULT_SCHEDULER.to_owned(),
            workers: 64,
            gates: Gates::default(),
            by_priority: true,
            pacing: Pacing::default(),
            overcommit_protection: false,
            estimators: None,
            spare_pull_estimators: false,
            metrics: Registry::default(),
        }
    }
}

pub(crate) struct Shared {
    pub options: Options,
    pub client: Client,
    pub world: World,
    pub recorder: EventRecorder,
    pub counted: Counted,
    pub journal: Journal,
    /// The metrics of the queue; set once the queue exists.
    pub steps: OnceLock<Steps>,
    pub roster: Mutex<Roster>,
    pub clusters: Mutex<Clusters>,
    pub assumptions: Mutex<Assumptions>,
    pub queue: WaitingQueue<BindingKey>,
    /// Held while a binding is scheduled that has a group.
    pub turn: tokio::sync::Mutex<()>,
    pub bindings: [Followed; 2],
    pub cluster_objects: Informer,
    /// All bindings and clusters are known, and the scheduler has not been stopped.
    pub deciding: AtomicBool,
}

/// The bindings of a scope, with this scheduler's own writes.
pub(crate) struct Followed {
    pub scope: Scope,
    pub informer: Informer,
    pub written: Overlay,
}

impl Shared {
    pub async fn synced(&self) -> bool {
        for informer in self.bindings.iter().map(|it| &it.informer).chain([&self.cluster_objects]) {
            if !informer.synced().await {
                return false;
            }
        }
        true
    }

    pub fn is_deciding(&self) -> bool {
        self.deciding.load(Ordering::Relaxed)
    }

    pub fn neighbours(&self, binding: &Binding) -> Neighbours {
        match self.informer(binding.scope) {
            Some(bindings) => Neighbours::of(binding, bindings.cache(), |key| self.newest(key)),
            None => Neighbours::default(),
        }
    }

    pub fn informer(&self, scope: Scope) -> Option<&Informer> {
        self.bindings.iter().find(|it| it.scope == scope).map(|it| &it.informer)
    }

    /// An overlay of this scheduler's writes to bindings of a scope.
    pub fn written(&self, scope: Scope) -> Option<&Overlay> {
        self.bindings.iter().find(|it| it.scope == scope).map(|it| &it.written)
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.clusters.lock().snapshot()
    }

    pub fn newest(&self, key: &BindingKey) -> Option<Arc<Object>> {
        self.written(key.scope())?.get(key)
    }

    pub fn warn(&self, object: &Object, binding: &Binding, text: String) {
        for involved in involved(object, binding) {
            self.recorder.warning(involved, events::SCHEDULE_BINDING_FAILED, text.clone());
        }
    }
}

/// Events are recorded for the binding and for its template.
pub(crate) fn involved(object: &Object, binding: &Binding) -> [Involved; 2] {
    let template = &binding.spec.resource;
    let template = Involved {
        api_version: template.api_version.clone(),
        kind: template.kind.clone(),
        namespace: template.namespace.clone(),
        name: template.name.clone(),
        uid: template.uid.clone(),
        resource_version: String::new(),
    };
    [Involved::from(object), template]
}
