//! Moves workloads out of clusters with NoExecute taints that their policy does not tolerate, or not any longer.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::{Object, ObjectKey, raw_json};
use controller_runtime::{Controller, Event, Next, WorkQueue, run_workers};
use karmada_api::constants::{annotations, evictions};
use karmada_api::scope::{Binding, Scope};
use parking_lot::Mutex;
use propagation::failover::by_taint::{self, Options, Verdict};
use serde::Deserialize;
use tokio::time::Instant;

use super::{record_failed, subjects, write};
use crate::Context;
use crate::error::{Error, Result};
use crate::metrics::{EVICTION_DEPTH, EVICTION_KINDS, result};

/// Workers of each of the two queues, each with the pause of `--resource-eviction-rate` (upstream's number).
const WORKERS: usize = 3;
/// The pause with a rate of 0 (upstream's).
const LONGEST_PAUSE: Duration = Duration::from_secs(30 * 60);
/// Bindings that are compared with a cluster before other tasks get their turn: about a millisecond.
const BATCH: usize = 256;

/// A binding that may have to leave a cluster.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Eviction {
    binding: ObjectKey,
    cluster: String,
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
    /// What waits for a worker, by cluster.
    waiting: Mutex<BTreeMap<String, BTreeSet<ObjectKey>>>,
}

impl Evictions {
    fn new(context: &Context, scope: Scope) -> Arc<Self> {
        let name = match scope {
            Scope::Namespaced => "binding-eviction",
            Scope::Cluster => "cluster-binding-eviction",
        };
        let evictions = Arc::new(Self { scope, name, queue: context.queue(), waiting: Mutex::default() });
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

    fn add(&self, binding: ObjectKey, cluster: &str) {
        self.waiting.lock().entry(cluster.to_owned()).or_default().insert(binding.clone());
        self.queue.add(Eviction { binding, cluster: cluster.to_owned() });
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

/// The clusters with NoExecute taints.
type Tainted = Arc<Mutex<BTreeSet<String>>>;

pub(crate) async fn run(context: Context) {
    if !context.settings.gates.failover || !context.settings.eviction.by_taints {
        return;
    }
    let both = Scope::ALL.map(|scope| Evictions::new(&context, scope));
    let clusters: Arc<WorkQueue<String>> = context.queue();
    let tainted = follow_clusters(&context, &clusters);
    for evictions in &both {
        follow_bindings(&context, evictions, &tainted);
    }
    if !context.synced().await {
        return;
    }
    let stop = &context.stop;
    let (here, queues) = (context.clone(), both.clone());
    let scanning = run_workers(Controller::of_clusters("taint-manager"), clusters, 1, stop.clone(), move |cluster| {
        let (context, queues) = (here.clone(), queues.clone());
        async move { Ok::<_, Error>(scan(&context, &queues, &cluster).await) }
    });
    let evicting = both.map(|evictions| {
        let (here, queue) = (context.clone(), evictions.queue.clone());
        run_workers(evictions.name, queue, WORKERS, stop.clone(), move |eviction| {
            let (context, evictions) = (here.clone(), evictions.clone());
            async move { pass(&context, &evictions, &eviction).await }
        })
    });
    futures::join!(scanning, futures::future::join_all(evicting));
}

fn follow_clusters(context: &Context, queue: &Arc<WorkQueue<String>>) -> Tainted {
    let tainted = Tainted::default();
    let (known, keys, clusters) = (tainted.clone(), queue.clone(), context.clusters.clone());
    context.cluster_informer.subscribe(move |event| {
        let key = event.object().key();
        let evicts = clusters.get(&key).is_some_and(|it| by_taint::evicting(&it.spec.taints).next().is_some());
        if !evicts {
            known.lock().remove(&key.name);
        } else if known.lock().insert(key.name.clone()) || event.changes_generation() {
            keys.add(key.name);
        }
    });
    tainted
}

/// A binding that comes to a tainted cluster, or is scheduled with other tolerations.
fn follow_bindings(context: &Context, evictions: &Arc<Evictions>, tainted: &Tainted) {
    let (evictions, tainted) = (evictions.clone(), tainted.clone());
    context.bindings(evictions.scope).subscribe(move |event| {
        let tainted = tainted.lock();
        if tainted.is_empty() || matches!(event, Event::Deleted(_)) {
            return;
        }
        let placement = |binding: &Object| binding.annotation(annotations::APPLIED_PLACEMENT);
        let rescheduled = matches!(event, Event::Updated { old, new } if placement(old) != placement(new));
        if event.changes_generation() || rescheduled {
            for cluster in targets(event.object()).iter().filter(|cluster| tainted.contains(*cluster)) {
                evictions.add(event.object().key(), cluster);
            }
        }
    });
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
async fn scan(context: &Context, both: &[Arc<Evictions>], cluster: &str) -> Next {
    for evictions in both {
        let bindings = context.bindings(evictions.scope).cache().list(None);
        for batch in bindings.chunks(BATCH) {
            for binding in batch.iter().filter(|binding| targets(binding).iter().any(|name| name == cluster)) {
                evictions.add(binding.key(), cluster);
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
    /// The binding stays, or has left already.
    Stays,
}

/// One eviction, and the pause after it.
async fn pass(context: &Context, evictions: &Evictions, eviction: &Eviction) -> Result<Next> {
    evictions.taken(eviction);
    let started = Instant::now();
    let outcome = evict(context, evictions.scope, eviction).await;
    if !matches!(outcome, Ok(Outcome::Later(_) | Outcome::Stays)) {
        context.metrics.eviction_latency.took(&[evictions.name], started.elapsed());
        context.metrics.evictions.increment(&[evictions.name, result(&outcome)]);
    }
    match outcome? {
        Outcome::Evicted => {
            let pause = tokio::time::sleep(pause(context.settings.eviction.rate));
            context.stop.run_until_cancelled(pause).await;
            Ok(Next::Done)
        }
        Outcome::Later(time) => Ok(Next::After(time)),
        Outcome::Stays => Ok(Next::Done),
    }
}

fn pause(rate: f64) -> Duration {
    if rate > 0.0 { Duration::try_from_secs_f64(1.0 / rate).unwrap_or(LONGEST_PAUSE) } else { LONGEST_PAUSE }
}

async fn evict(context: &Context, scope: Scope, eviction: &Eviction) -> Result<Outcome> {
    let Eviction { binding: key, cluster: name } = eviction;
    let cached = context.bindings(scope).cache().get(key);
    let Some(object) = cached.filter(|it| !it.is_deleting()) else { return Ok(Outcome::Stays) };
    let Some(cluster) = context.clusters.get(&ObjectKey::cluster(name.as_str())) else { return Ok(Outcome::Stays) };
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
    let taint = match by_taint::verdict(taints, &placement.cluster_tolerations, context.world.now()) {
        Verdict::Stays => return Ok(Outcome::Stays),
        Verdict::StaysFor(time) => return Ok(Outcome::Later(time)),
        Verdict::Leaves(taint) => taint,
    };
    let (purge_mode, keeps_state) = (context.settings.eviction.purge_mode, context.settings.gates.stateful_failover);
    let spec = match by_taint::evicted(&binding, name, taint, Options { purge_mode, keeps_state }) {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pauses() {
        for (rate, seconds) in [(0.5, 2.0), (4.0, 0.25), (0.0, 1800.0), (-1.0, 1800.0), (1e-300, 1800.0)] {
            assert!((pause(rate).as_secs_f64() - seconds).abs() < 1e-9, "{rate}");
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
