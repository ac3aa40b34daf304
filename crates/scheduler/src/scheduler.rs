//! Runs the scheduler: follows bindings and clusters, and makes a pass for each queued binding.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use apimachinery::Object;
use client::Client;
use controller_runtime::metrics::Steps;
use controller_runtime::{Event, EventRecorder, InformerSet, Origin, Overlay};
use futures::FutureExt;
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::identity::BindingKey;
use karmada_api::scope::{Binding, Scope};
use karmada_api::work::v1alpha2::ResourceHealth;
use parking_lot::Mutex;
use propagation::Since;
use scheduling::Problem;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use world::World;

use crate::explain::{self, Explanation};
use crate::journal::Journal;
use crate::metrics::{Counted, PENDING};
use crate::pass::{self, Ended};
use crate::peers;
use crate::queue::{self, Depths, Outcome};
use crate::roster::{Roster, Step};
use crate::shared::{Followed, Options, Shared};
use crate::triggers::{self, Change};
use crate::waiting::WaitingQueue;

/// The queue's name in upstream's metrics.
const QUEUE: &str = "scheduler-queue";

/// A change of a cluster enqueues the binding at any version.
const ANY_VERSION: u64 = u64::MAX;

/// Cheap to clone.
#[derive(Clone)]
pub struct Scheduler(pub(crate) Arc<Shared>);

/// Starts a scheduler over informers that others share. The task ends after `stop`, when the running passes have ended.
/// Must be called inside a tokio runtime.
pub fn start(
    informers: &InformerSet,
    client: &Client,
    world: World,
    options: Options,
    stop: CancellationToken,
) -> (Scheduler, JoinHandle<()>) {
    let clusters = informers.informer(&Cluster::api_resource());
    let shared = Arc::new(Shared {
        recorder: EventRecorder::start(client.clone(), world.clone(), options.name.as_str(), stop.clone()),
        client: client.clone(),
        counted: Counted::new(&options.metrics),
        journal: Journal::default(),
        steps: OnceLock::new(),
        world,
        roster: Mutex::new(Roster::new(options.name.as_str(), options.by_priority)),
        clusters: Mutex::default(),
        assumptions: Mutex::default(),
        queue: WaitingQueue::new(options.pacing.clone()),
        turn: tokio::sync::Mutex::default(),
        bindings: Scope::ALL.map(|scope| {
            let informer = informers.informer(&Binding::api_resource(scope));
            Followed { scope, written: Overlay::new(&informer), informer }
        }),
        cluster_objects: clusters.clone(),
        deciding: AtomicBool::new(false),
        options,
    });
    let counted = Arc::downgrade(&shared);
    shared.options.metrics.collect(move |samples| {
        let Some(shared) = counted.upgrade() else { return false };
        let depths = shared.queue.depths();
        let queues = [("active", depths.active), ("backoff", depths.backoff), ("unschedulable", depths.unschedulable)];
        for (queue, depth) in queues {
            samples.gauge(&PENDING, &[queue], f64::from(u32::try_from(depth).unwrap_or(u32::MAX)));
        }
        true
    });
    let counted = Arc::downgrade(&shared);
    let depth = move || counted.upgrade().map(|shared| shared.queue.depths().active);
    let _ = shared.steps.set(Steps::new(&shared.options.metrics, QUEUE, depth));
    if shared.options.gates.workload_affinity {
        for followed in &shared.bindings {
            peers::index(followed.informer.cache());
        }
    }
    // Clusters first, so that they are known when a binding is processed.
    let follower = shared.clone();
    clusters.subscribe(move |event| follower.cluster_changed(event));
    for followed in &shared.bindings {
        let (follower, written) = (shared.clone(), followed.written.clone());
        followed.informer.subscribe(move |event| {
            follower.binding_changed(event, written.observe(event, true));
            follower.peer_changed(event);
            follower.arrivals(event);
        });
    }
    let task = tokio::spawn(shared.clone().run(stop));
    (Scheduler(shared), task)
}

impl Scheduler {
    /// Waits until all bindings and clusters are known; false when stopped before.
    pub async fn synced(&self) -> bool {
        self.0.synced().await
    }

    /// Explains the placement of a binding: the decision that would be made now, cluster by cluster, and the pending
    /// action of the scheduler. `None` if the binding does not exist.
    pub fn explain(&self, key: &BindingKey) -> Option<Explanation> {
        let object = self.0.newest(key)?;
        let binding = Binding::decode(&object).ok()?;
        let (key_state, neighbours) = (self.0.queue.key_state(key), self.0.neighbours(&binding));
        let others = self.0.assumptions.lock().others(key, self.0.queue.now());
        let (peers, moment) = (neighbours.peers(), self.0.world.moment());
        let since = |at| moment.since(at);
        let problem = Problem::of(&binding);
        let problem = problem.map(|problem| {
            let since: Since<'_> = &since;
            Problem { peers: Some(&peers), estimates: &others, since: Some(since), ..problem }
        });
        let (snapshot, options) = (self.0.snapshot(), &self.0.options);
        Some(explain::explain(&object, &binding, key_state, problem.as_ref(), &snapshot, options))
    }

    /// How many bindings wait where.
    pub fn depths(&self) -> Depths {
        self.0.queue.depths()
    }
}

impl Shared {
    /// No decision is made before all clusters and all bindings are known.
    async fn run(self: Arc<Self>, stop: CancellationToken) {
        if !self.synced().await {
            return;
        }
        self.deciding.store(true, Ordering::Relaxed);
        tokio::spawn(self.world.clone().observe_steps(stop.clone().cancelled_owned()));
        let slots = Arc::new(Semaphore::new(self.options.workers));
        loop {
            // A slot is acquired first, so that the binding with the highest priority at that moment is taken from the
            // queue.
            let Ok(slot) = slots.clone().acquire_owned().await else { break };
            let Some(taken) = stop.run_until_cancelled(self.queue.next()).await else { break };
            let shared = self.clone();
            tokio::spawn(async move {
                let turn = shared.steps.get().map(|steps| steps.begin(taken.waited));
                shared.pass(&taken.key).await;
                if let (Some(steps), Some(turn)) = (shared.steps.get(), turn) {
                    steps.end(turn);
                }
                drop(slot);
            });
        }
        self.deciding.store(false, Ordering::Relaxed);
        // Every slot is free again once the last running pass has ended.
        let all = u32::try_from(self.options.workers).unwrap_or(u32::MAX);
        let _ = slots.acquire_many(all).await;
    }

    async fn pass(&self, key: &BindingKey) {
        let ended = AssertUnwindSafe(pass::run(self, key)).catch_unwind().await.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            self.journal.panicked(key, &text);
            Ended::retry()
        });
        self.roster.lock().handled(key, ended.version, ended.missing);
        if ended.outcome != Outcome::Done {
            self.counted.queued("ScheduleAttemptFailure");
            self.steps.get().iter().for_each(|steps| steps.retried());
        }
        self.queue.done(key, ended.outcome, ended.version);
    }

    fn binding_changed(&self, event: &Event, origin: Origin) {
        let (old, new) = match event {
            Event::Added { object, .. } => (None, object),
            Event::Updated { old, new } => (Some(&**old), new),
            Event::Deleted(object) => {
                let key = BindingKey::of(object);
                self.roster.lock().removed(&key);
                self.queue.remove(&key);
                self.journal.forget(&key);
                return;
            }
        };
        let step = self.roster.lock().changed(old, new, origin == Origin::Own);
        match step {
            Step::Push { priority, version } => {
                self.counted.queued(if old.is_some() { "BindingUpdate" } else { "BindingAdd" });
                if old.is_none() && self.is_decided(new) {
                    return;
                }
                // Placed bindings are a backlog at the start; current changes go first.
                let is_backlog = matches!(event, Event::Added { initial: true, .. }) && triggers::was_placed(new);
                let priority = if is_backlog { queue::backlog(priority) } else { priority };
                self.steps.get().iter().for_each(|steps| steps.added());
                self.queue.push(BindingKey::of(new), priority, version);
            }
            Step::Remove => {
                let key = BindingKey::of(new);
                self.queue.remove(&key);
                self.journal.forget(&key);
            }
            Step::Nothing => {}
        }
    }

    /// Whether a pass over a new binding would repeat the decision that it was created with: over the same clusters. A
    /// later change of a cluster finds the binding in the roster.
    fn is_decided(&self, new: &Object) -> bool {
        let (key, version) = (BindingKey::of(new), new.revision());
        let Some(snapshot) = self.roster.lock().decided_over(&key, version) else { return false };
        let is_current = Arc::ptr_eq(&snapshot, &self.snapshot());
        if is_current {
            self.roster.lock().handled(&key, version, None);
        }
        is_current
    }

    fn peer_changed(&self, event: &Event) {
        if self.options.gates.workload_affinity
            && let Some(bindings) = self.informer(Scope::of(&event.object().key()))
        {
            self.queue.wake(&peers::affected(bindings.cache(), event));
        }
    }

    /// Replicas that became healthy are no longer assumed.
    fn arrivals(&self, event: &Event) {
        if !self.options.overcommit_protection {
            return;
        }
        let (old, new) = match event {
            Event::Added { .. } => return,
            Event::Updated { old, new } => (old, new),
            Event::Deleted(object) => return self.assumptions.lock().forget(&BindingKey::of(object)),
        };
        let (Ok(old), Ok(new)) = (Binding::decode(old), Binding::decode(new)) else { return };
        let healthy = |binding: &Binding| -> BTreeSet<String> {
            let items = binding.status.aggregated_status.iter();
            let healthy = items.filter(|item| item.health == Some(ResourceHealth::Healthy));
            healthy.map(|item| item.cluster_name.clone()).collect()
        };
        let mut assumptions = self.assumptions.lock();
        for cluster in healthy(&new).difference(&healthy(&old)) {
            assumptions.arrived(&new.key(), cluster);
        }
    }

    fn cluster_changed(&self, event: &Event) {
        let object = event.object();
        if matches!(event, Event::Deleted(_)) {
            if let Some(estimators) = &self.options.estimators {
                estimators.forget(object.name());
            }
            return self.clusters.lock().remove(object.name(), |change| self.spread(change));
        }
        match Cluster::from_object(object) {
            Ok(cluster) => self.clusters.lock().put(Arc::new(cluster), |change| self.spread(change)),
            Err(error) => {
                let cluster = object.name();
                tracing::warn!(cluster, err = %error, "Cluster cannot be decoded; its last valid state is used");
            }
        }
    }

    /// Called while the clusters are locked, so that a pass that starts now waits for them.
    fn spread(&self, change: &Change<'_>) {
        let affected = self.roster.lock().cluster(change);
        for (key, priority) in affected.push {
            self.counted.queued("ClusterChanged");
            self.queue.push(key, priority, ANY_VERSION);
        }
        // A cluster may concern each of a million bindings; changes of users must not wait for all of them.
        for (key, priority) in affected.recheck {
            self.counted.queued("ClusterChanged");
            self.queue.recheck(key, priority, ANY_VERSION);
        }
        self.queue.wake(&affected.wake);
    }
}
