//! Moves workloads out of clusters with NoExecute taints that their policy does not tolerate, or not any longer.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::{Object, raw_json};
use controller_runtime::{Controller, Event, Next, WorkQueue, run_workers};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::{annotations, events, evictions};
use karmada_api::identity::{BindingKey, ClusterName};
use karmada_api::scope::{Binding, Scope};
use karmada_api::work::v1alpha2::BindingSchedulePriority;
use parking_lot::Mutex;
use propagation::failover::by_taint::{self, Options, Verdict};
use serde::Deserialize;
use tokio::time::Instant;

use super::brake::Hold;
use super::pacing::{self, Pace};
use super::{brake, record_failed, subjects, write};
use crate::Context;
use crate::error::{Error, Result};
use crate::metrics::{EVICTION_DEPTH, EVICTION_KINDS, result};

/// Workers of each of the two queues, each with the pause of `--resource-eviction-rate` (upstream's number).
const WORKERS: usize = 3;
/// Workers without a rate: a store over a network that takes 5 ms for a write gets 3,200 evictions a second.
const UNLIMITED_WORKERS: usize = 16;
/// Bindings that are compared with a cluster before other tasks get their turn: about a millisecond.
const BATCH: usize = 256;

/// A candidate binding for an eviction; the smallest is first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Eviction {
    /// `spec.schedulePriority` of the binding.
    priority: Reverse<i32>,
    binding: BindingKey,
    cluster: ClusterName,
}

/// As the log shows it.
impl fmt::Debug for Eviction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}", self.binding, self.cluster)
    }
}

/// The evictions of one of the two kinds of bindings.
struct Evictions {
    scope: Scope,
    name: &'static str,
    queue: Arc<WorkQueue<Eviction>>,
    /// Bindings waiting for a worker, by cluster.
    waiting: Mutex<BTreeMap<ClusterName, BTreeSet<BindingKey>>>,
}

impl Evictions {
    fn new(context: &Context, scope: Scope) -> Arc<Self> {
        let name = match scope {
            Scope::Namespaced => "binding-eviction",
            Scope::Cluster => "cluster-binding-eviction",
        };
        let evictions = Arc::new(Self { scope, name, queue: Arc::new(WorkQueue::sorted()), waiting: Mutex::default() });
        let counted = Arc::downgrade(&evictions);
        context.metrics.registry.collect(move |samples| {
            let Some(evictions) = counted.upgrade() else { return false };
            let number = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
            samples.gauge(&EVICTION_DEPTH, &[evictions.name], number(evictions.queue.waiting()));
            for (cluster, bindings) in &*evictions.waiting.lock() {
                samples.gauge(&EVICTION_KINDS, &[cluster, Binding::kind(evictions.scope)], number(bindings.len()));
            }
            true
        });
        evictions
    }

    fn add(&self, binding: &Object, cluster: ClusterName) {
        let key = BindingKey::of(binding);
        self.waiting.lock().entry(cluster.clone()).or_default().insert(key.clone());
        self.queue.add(Eviction { priority: Reverse(priority(binding)), binding: key, cluster });
    }

    fn taken(&self, eviction: &Eviction) {
        let mut waiting = self.waiting.lock();
        if let Some(bindings) = waiting.get_mut(&eviction.cluster) {
            bindings.remove(&eviction.binding);
            if bindings.is_empty() {
                waiting.remove(&eviction.cluster);
            }
        }
    }
}

/// The state shared by evictions of both kinds of bindings.
struct Shared {
    /// Clusters whose bindings are to be queued.
    scans: Arc<WorkQueue<ClusterName>>,
    /// The clusters with NoExecute taints.
    tainted: Mutex<BTreeSet<ClusterName>>,
    /// Clusters without evictions because no other cluster is ready.
    stranded: Mutex<BTreeSet<ClusterName>>,
    pace: Pace,
}

pub(crate) async fn run(context: Context) {
    if !context.settings.gates.failover || !context.settings.eviction.by_taints {
        return;
    }
    let both = Scope::ALL.map(|scope| Evictions::new(&context, scope));
    let shared = Arc::new(Shared {
        scans: context.queue(),
        tainted: Mutex::default(),
        stranded: Mutex::default(),
        pace: Pace::default(),
    });
    // Before any binding is queued, so that the brake is set by then.
    brake::follow(&context);
    follow_clusters(&context, &shared);
    for evictions in &both {
        follow_bindings(&context, evictions, &shared);
    }
    if !context.synced().await {
        return;
    }
    let stop = &context.stop;
    let braking = brake::run(context.clone(), shared.scans.clone());
    let (here, queues, scans) = (context.clone(), both.clone(), shared.scans.clone());
    let scanning = run_workers(Controller::of_clusters("taint-manager"), scans, 1, stop.clone(), move |cluster| {
        let (context, queues) = (here.clone(), queues.clone());
        async move { Ok::<_, Error>(scan(&context, &queues, &cluster).await) }
    });
    let workers = if context.settings.eviction.rate.is_some() { WORKERS } else { UNLIMITED_WORKERS };
    let evicting = both.map(|evictions| {
        let (here, shared, queue) = (context.clone(), shared.clone(), evictions.queue.clone());
        run_workers(evictions.name, queue, workers, stop.clone(), move |eviction| {
            let (context, shared, evictions) = (here.clone(), shared.clone(), evictions.clone());
            async move { pass(&context, &shared, &evictions, &eviction).await }
        })
    });
    futures::join!(braking, scanning, futures::future::join_all(evicting));
}

fn follow_clusters(context: &Context, shared: &Arc<Shared>) {
    let (shared, clusters) = (shared.clone(), context.clusters.clone());
    context.cluster_informer.subscribe(move |event| {
        let name = ClusterName::from(event.object().name());
        let cluster = clusters.get(&name);
        if cluster.as_ref().is_some_and(|cluster| pacing::is_receiver(cluster)) {
            std::mem::take(&mut *shared.stranded.lock()).into_iter().for_each(|name| shared.scans.add(name));
        }
        let evicts = cluster.is_some_and(|it| by_taint::evicting(&it.spec.taints).next().is_some());
        if !evicts {
            shared.tainted.lock().remove(&name);
        } else if shared.tainted.lock().insert(name.clone()) || event.changes_generation() {
            shared.scans.add(name);
        }
    });
}

/// A binding that is assigned to a tainted cluster, or scheduled with other tolerations.
fn follow_bindings(context: &Context, evictions: &Arc<Evictions>, shared: &Arc<Shared>) {
    let (here, evictions, shared) = (context.clone(), evictions.clone(), shared.clone());
    context.bindings(evictions.scope).subscribe(move |event| {
        let tainted = shared.tainted.lock();
        let initial = matches!(event, Event::Added { initial: true, .. });
        if here.settings.eviction.rate.is_none() && (initial || !tainted.is_empty() || !shared.pace.is_idle()) {
            shared.pace.follow(&here, event);
        }
        if tainted.is_empty() || matches!(event, Event::Deleted(_)) {
            return;
        }
        let placement = |binding: &Object| binding.annotation(annotations::APPLIED_PLACEMENT);
        let rescheduled = matches!(event, Event::Updated { old, new } if placement(old) != placement(new));
        if event.changes_generation() || rescheduled {
            let targets = targets(event.object());
            for cluster in targets.iter().filter_map(|target| tainted.get(target.as_str())) {
                evictions.add(event.object(), cluster.clone());
            }
        }
    });
}

/// The schedule priority of a binding; the rest of it is not decoded.
fn priority(binding: &Object) -> i32 {
    let Some(spec) = binding.member("spec") else { return 0 };
    let Some(priority) = raw_json::member(&spec, "schedulePriority") else { return 0 };
    let priority = serde_json::from_slice::<Option<BindingSchedulePriority>>(&spec[priority]);
    priority.ok().flatten().map_or(0, |priority| priority.priority)
}

/// The clusters of a binding; the rest of it is not decoded.
fn targets(binding: &Object) -> Vec<String> {
    #[derive(Deserialize)]
    struct Target {
        name: String,
    }
    let Some(spec) = binding.member("spec") else { return Vec::new() };
    let list = raw_json::member(&spec, "clusters").map(|span| serde_json::from_slice::<Vec<Target>>(&spec[span]));
    list.and_then(serde_json::Result::ok).into_iter().flatten().map(|target| target.name).collect()
}

/// Queues all bindings in a tainted cluster.
async fn scan(context: &Context, both: &[Arc<Evictions>], cluster: &ClusterName) -> Next {
    for evictions in both {
        let bindings = context.bindings(evictions.scope).cache().list(None);
        for batch in bindings.chunks(BATCH) {
            for binding in batch.iter().filter(|binding| targets(binding).iter().any(|name| name == cluster)) {
                evictions.add(binding, cluster.clone());
            }
            tokio::task::yield_now().await;
        }
    }
    Next::Done
}

enum Outcome {
    Evicted,
    /// It is tolerated for so long.
    Later(Duration),
    /// The binding stays, or has already left.
    Stays,
}

/// One eviction once there is room for it, or with the pause after it.
async fn pass(context: &Context, shared: &Shared, evictions: &Evictions, eviction: &Eviction) -> Result<Next> {
    let rate = context.settings.eviction.rate;
    let slot = match rate {
        Some(_) => None,
        // Decided after the wait: the taint may be removed by then.
        None => match context.stop.run_until_cancelled(shared.pace.slot(&eviction.binding)).await {
            Some(slot) => Some(slot),
            None => return Ok(Next::Done),
        },
    };
    evictions.taken(eviction);
    let started = Instant::now();
    let outcome = evict(context, shared, evictions.scope, eviction).await;
    if let (Some(slot), Ok(Outcome::Evicted)) = (slot, &outcome) {
        slot.used();
    }
    if !matches!(outcome, Ok(Outcome::Later(_) | Outcome::Stays)) {
        context.metrics.eviction_latency.took(&[evictions.name], started.elapsed());
        context.metrics.evictions.increment(&[evictions.name, result(&outcome)]);
    }
    match outcome? {
        Outcome::Evicted => {
            if let Some(rate) = rate {
                let pause = tokio::time::sleep(pacing::pause(rate));
                context.stop.run_until_cancelled(pause).await;
            }
            Ok(Next::Done)
        }
        Outcome::Later(time) => Ok(Next::After(time)),
        Outcome::Stays => Ok(Next::Done),
    }
}

async fn evict(context: &Context, shared: &Shared, scope: Scope, eviction: &Eviction) -> Result<Outcome> {
    let Eviction { binding: key, cluster: name, .. } = eviction;
    let cached = context.bindings(scope).cache().get(key);
    let Some(object) = cached.filter(|it| !it.is_deleting()) else { return Ok(Outcome::Stays) };
    let Some(cluster) = context.clusters.get(name) else { return Ok(Outcome::Stays) };
    let taints = &cluster.spec.taints;
    let binding = Binding::decode(&object)?;
    let is_target = binding.spec.clusters.iter().any(|target| target.name == *name);
    if !is_target || by_taint::evicting(taints).next().is_none() {
        return Ok(Outcome::Stays);
    }
    let failed = |why: &dyn fmt::Display| {
        record_failed(context, evictions::BY_TAINT_MANAGER, subjects(&object, &binding), name, why);
    };
    let Some(placement) = by_taint::applied_placement(&binding) else {
        // The scheduler's next result brings the binding back here.
        let annotation = annotations::APPLIED_PLACEMENT;
        failed(&format_args!("the tolerations are unknown: annotation {annotation} is missing or malformed"));
        return Ok(Outcome::Stays);
    };
    let moment = context.world.moment();
    let taint = match by_taint::verdict(taints, &placement.cluster_tolerations, &|at| moment.since(at)) {
        Verdict::Stays => return Ok(Outcome::Stays),
        Verdict::StaysFor(time) => return Ok(Outcome::Later(time)),
        Verdict::Leaves(taint) => taint,
    };
    match context.brake.hold(&cluster, &moment) {
        Hold::Free if is_stranded(context, shared, &cluster) => return Ok(Outcome::Stays),
        Hold::Free => {}
        Hold::Engaged => return Ok(Outcome::Stays),
        Hold::For(time) => return Ok(Outcome::Later(time)),
    }
    let (purge_mode, keeps_state) = (context.settings.eviction.purge_mode, context.settings.gates.stateful_failover);
    let now = moment.now();
    let spec = match by_taint::evicted(&binding, name, taint, now, Options { purge_mode, keeps_state }) {
        Ok(Some(spec)) => spec,
        Ok(None) => return Ok(Outcome::Stays),
        Err(error) => {
            failed(&error);
            return Err(Error::Wait(error.to_string()));
        }
    };
    match write(context, &binding, &spec).await {
        Ok(()) => Ok(Outcome::Evicted),
        Err(error) if error.is_not_found() => Ok(Outcome::Stays),
        Err(error) => {
            // A conflict is resolved by the next pass.
            if !error.is_conflict() {
                failed(&error);
            }
            Err(error)
        }
    }
}

/// Whether no other cluster can take over. The bindings are queued again when that ends.
fn is_stranded(context: &Context, shared: &Shared, cluster: &Cluster) -> bool {
    let name = cluster.metadata.name.as_str();
    if context.settings.eviction.rate.is_some() || pacing::has_receiver(context, name) {
        return false;
    }
    if shared.stranded.lock().insert(ClusterName::from(name)) {
        tracing::warn!(cluster = name, "No other cluster is ready; workloads stay in this one in spite of its taints");
        if let Some(object) = context.cluster_informer.cache().get(&cluster.key()) {
            let recorder = context.recorder.for_component(evictions::BY_TAINT_MANAGER);
            let message = "No workload leaves this cluster by its taints, because no other cluster is ready".to_owned();
            recorder.warning(&*object, events::EVICTIONS_PAUSED, message);
        }
    }
    // It may have become ready before this one was noted.
    let late = pacing::has_receiver(context, name);
    !(late && shared.stranded.lock().remove(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn priority_of_a_binding() {
        for (spec, expected) in [
            (json!({}), 0),
            (json!({"schedulePriority": null}), 0),
            (json!({"schedulePriority": {"priority": 7}}), 7),
            (json!({"schedulePriority": {"priority": -7}}), -7),
        ] {
            let object = Object::from_value(&json!({"metadata": {"name": "a"}, "spec": spec})).unwrap();
            assert_eq!(priority(&object), expected, "{spec}");
        }
    }

    #[test]
    fn clusters_of_a_binding() {
        for (spec, expected) in [
            (json!({"clusters": [{"name": "m1", "replicas": 1}, {"name": "m2"}]}), "m1 m2"),
            (json!({"clusters": null}), ""),
            (json!({}), ""),
        ] {
            let object = Object::from_value(&json!({"metadata": {"name": "a"}, "spec": spec})).unwrap();
            assert_eq!(targets(&object).join(" "), expected, "{spec}");
        }
    }
}
