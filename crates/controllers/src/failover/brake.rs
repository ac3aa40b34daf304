//! The global brake on evictions by taints. `propagation::failover::brake` decides; this module follows the fleet, and
//! updates the condition `EvictionsPaused` of each Cluster, its event and the metric.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use apimachinery::ObjectKey;
use apimachinery::meta::Time;
use controller_runtime::{Controller, Event, Next, WorkQueue, run_workers};
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::{annotations, conditions, events};
use karmada_api::identity::ClusterName;
use parking_lot::Mutex;
use propagation::failover::brake::{self, Fleet, Member, Recovery, Sign};
use propagation::failover::by_taint;
use world::Moment;

use crate::Context;
use crate::cluster_status;
use crate::error::{During, Result};

/// One a process. It rests until evictions by taints run.
#[derive(Default)]
pub(crate) struct Brake(Mutex<State>);

#[derive(Default)]
struct State {
    signs: BTreeMap<ClusterName, Sign>,
    /// Clusters without evictions because they are about to recover.
    recovering: BTreeSet<ClusterName>,
    /// Since when the fleet is watched.
    since: Option<Time>,
    /// Once all Clusters are known.
    acting: Option<Acting>,
    engaged: Option<Time>,
    fleet: Fleet,
}

#[derive(Clone)]
struct Acting {
    /// Clusters whose condition may change.
    reports: Arc<WorkQueue<ClusterName>>,
    /// Clusters whose bindings are to be evicted now.
    scans: Arc<WorkQueue<ClusterName>>,
}

impl Brake {
    pub(crate) fn note(&self, context: &Context, cluster: &str, sign: Sign) {
        let mut state = self.0.lock();
        if state.signs.get(cluster) == Some(&sign) {
            return;
        }
        state.signs.insert(ClusterName::from(cluster), sign);
        drop(state);
        self.evaluate(context);
    }

    pub(crate) fn forget(&self, cluster: &str) {
        let mut state = self.0.lock();
        state.signs.remove(cluster);
        state.recovering.remove(cluster);
    }

    /// Whether evictions from a cluster are paused.
    pub(super) fn hold(&self, cluster: &Cluster, moment: &Moment) -> Hold {
        let mut state = self.0.lock();
        if state.engaged.is_some_and(|since| !brake::is_released(cluster, since)) {
            return Hold::Engaged;
        }
        match state.recovery(cluster, moment) {
            Recovery::No => Hold::Free,
            Recovery::Settles(time) => Hold::For(time),
            Recovery::Awaited(time) => {
                state.recovering.insert(ClusterName::of(cluster));
                Hold::For(time)
            }
        }
    }

    /// Evaluates the current state of the fleet.
    fn evaluate(&self, context: &Context) {
        let mut state = self.0.lock();
        let Some(acting) = state.acting.clone() else { return };
        let clusters = context.clusters.all();
        let members = clusters.iter().map(|it| Member { cluster: it, suspect: state.sign(it) == Some(Sign::Missing) });
        let (before, moment) = (state.engaged, context.world.moment());
        let now = Time::new(moment.now());
        let since = |at| moment.since(at);
        let (engaged, fleet) = brake::engaged(members, before, context.settings.eviction.brake, (now, &since));
        (state.engaged, state.fleet) = (engaged, fleet);
        let over = |name: &ClusterName| {
            let cluster = clusters.iter().find(|it| it.metadata.name == *name);
            cluster.is_none_or(|cluster| !matches!(state.recovery(cluster, &moment), Recovery::Awaited(_)))
        };
        let over: Vec<ClusterName> = state.recovering.iter().filter(|name| over(name)).cloned().collect();
        for name in over {
            state.recovering.remove(&name);
            acting.scans.add(name);
        }
        drop(state);
        if engaged != before {
            let Fleet { clusters: all, unhealthy } = fleet;
            match engaged {
                Some(_) => tracing::warn!(
                    unhealthy,
                    clusters = all,
                    "Too much of the fleet is unhealthy; evictions by taints are paused"
                ),
                None => tracing::info!(unhealthy, clusters = all, "The fleet has recovered; evictions by taints go on"),
            }
        }
        let paused_clusters = clusters.iter().filter(|it| engaged.is_some_and(|since| !brake::is_released(it, since)));
        context.metrics.evictions_paused.set(&[], u32::try_from(paused_clusters.count()).map_or(f64::MAX, f64::from));
        for cluster in &clusters {
            if brake::condition(cluster, engaged, fleet, now).is_some() {
                acting.reports.add(ClusterName::of(cluster));
            }
            let may_leave = |since: Option<Time>| since.is_none_or(|since| brake::is_released(cluster, since));
            let was_paused = before.is_some() || brake::paused_since(cluster).is_some();
            if was_paused && may_leave(engaged) && by_taint::evicting(&cluster.spec.taints).next().is_some() {
                acting.scans.add(ClusterName::of(cluster));
            }
        }
    }
}

impl State {
    fn sign(&self, cluster: &Cluster) -> Option<Sign> {
        self.signs.get(cluster.metadata.name.as_str()).copied()
    }

    fn recovery(&self, cluster: &Cluster, moment: &Moment) -> Recovery {
        let running = self.since.map(|since| moment.since(since.timestamp()));
        let running = running.and_then(|running| Duration::try_from(running).ok()).unwrap_or_default();
        brake::recovery(cluster, self.sign(cluster), running, &|at| moment.since(at))
    }
}

/// Whether evictions from a cluster wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    Free,
    /// Until the brake releases the cluster; its bindings are queued again then.
    Engaged,
    /// The cluster is about to recover.
    For(Duration),
}

/// The fields of a Cluster that the brake reads.
#[derive(PartialEq)]
struct Seen {
    ready: Option<(String, Option<Time>)>,
    evicts: bool,
    leaving: bool,
    paused: Option<Time>,
    released: Option<String>,
}

impl Seen {
    fn of(cluster: &Cluster) -> Self {
        let ready = cluster.condition(conditions::READY).map(|it| (it.status.clone(), it.last_transition_time));
        Self {
            ready,
            evicts: by_taint::evicting(&cluster.spec.taints).next().is_some(),
            leaving: cluster.metadata.deletion_timestamp.is_some(),
            paused: brake::paused_since(cluster),
            released: cluster.metadata.annotations.get(annotations::EVICTIONS_RELEASED).cloned(),
        }
    }
}

/// Follows the Clusters. Others that follow them later find the brake already set.
pub(super) fn follow(context: &Context) {
    let evaluating = context.clone();
    let seen: Mutex<BTreeMap<ClusterName, Seen>> = Mutex::default();
    context.cluster_informer.subscribe(move |event| {
        let name = event.object().name();
        let now = match event {
            Event::Deleted(_) => None,
            _ => evaluating.clusters.get(name).map(|cluster| Seen::of(&cluster)),
        };
        let changed = match now {
            None => {
                evaluating.brake.forget(name);
                seen.lock().remove(name).is_some()
            }
            Some(now) => {
                let mut seen = seen.lock();
                let changed = seen.get(name) != Some(&now);
                seen.insert(ClusterName::from(name), now);
                changed
            }
        };
        if changed {
            evaluating.brake.evaluate(&evaluating);
        }
    });
}

/// Runs once all Clusters are known; a pause that an earlier process reported continues. `scans` receives the released
/// clusters.
pub(super) async fn run(context: Context, scans: Arc<WorkQueue<ClusterName>>) {
    let reports: Arc<WorkQueue<ClusterName>> = context.queue();
    {
        let mut state = context.brake.0.lock();
        state.since = Some(context.now());
        state.engaged = context.clusters.all().iter().filter_map(|cluster| brake::paused_since(cluster)).min();
        state.acting = Some(Acting { reports: reports.clone(), scans });
    }
    context.brake.evaluate(&context);
    let stop = context.stop.clone();
    run_workers(Controller::of_clusters("failover-brake"), reports, 4, stop, move |name| {
        let context = context.clone();
        async move { report(&context, &name).await }
    })
    .await;
}

async fn report(context: &Context, name: &ClusterName) -> Result<Next> {
    let key = ObjectKey::cluster(name.as_str());
    let Some(cluster) = context.clusters.get(name) else { return Ok(Next::Done) };
    let (engaged, fleet) = {
        let state = context.brake.0.lock();
        (state.engaged, state.fleet)
    };
    let Some(condition) = brake::condition(&cluster, engaged, fleet, context.now()) else { return Ok(Next::Done) };
    let (pauses, message) = (condition.status == "True", condition.message.clone());
    let mut all = cluster.status.conditions.clone();
    all.retain(|it| it.type_ != condition.type_);
    all.push(condition);
    let written = cluster_status::write_conditions(context, &cluster, &all).await;
    if !written.during(|| format!("writing the status of cluster {key}"))? {
        return Ok(Next::Done);
    }
    if let Some(object) = context.cluster_informer.cache().get(&key) {
        let recorder = context.recorder.for_component("failover-brake");
        if pauses {
            recorder.warning(&*object, events::EVICTIONS_PAUSED, message);
        } else {
            recorder.normal(&*object, events::EVICTIONS_RESUMED, message);
        }
    }
    Ok(Next::Done)
}
