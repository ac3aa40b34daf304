//! Held members, which are newer than the store: their existing objects are not changed until an administrator
//! confirms.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use apimachinery::meta::{Condition, ObjectMeta, Time};
use apimachinery::{Object, ObjectKey};
use controller_runtime::{Controller, Event, Next, WorkQueue, run_workers};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::reasons;
use karmada_api::identity::ClusterName;
use parking_lot::Mutex;
use propagation::resume::{self, Evidence};

use super::{Gate, Known, marker};
use crate::Context;
use crate::cluster_status;
use crate::error::{During, Result};

#[derive(Default)]
pub(super) struct Holds {
    held: Mutex<BTreeMap<ClusterName, Hold>>,
    /// The hold of a member that was ended last: a Cluster that reports it still was read before.
    ended: Mutex<HashMap<ClusterName, Time>>,
    queue: std::sync::OnceLock<Arc<WorkQueue<ClusterName>>>,
}

#[derive(Clone)]
struct Hold {
    since: Time,
    /// `None` for one that an earlier process reported.
    evidence: Option<Evidence>,
}

impl Holds {
    fn queue(&self) -> &Arc<WorkQueue<ClusterName>> {
        self.queue.get_or_init(|| Arc::new(WorkQueue::new()))
    }
}

fn count(context: &Context) {
    let held = context.resume.holds.held.lock().len();
    context.metrics.resume_pending.set(&[], u32::try_from(held).map_or(f64::MAX, f64::from));
}

/// The time since when a member is held. A hold that an earlier process reported continues.
pub(super) fn since(context: &Context, cluster: &Cluster) -> Option<Time> {
    let name = cluster.metadata.name.as_str();
    let holds = &context.resume.holds;
    let reported = resume::pending_since(cluster).filter(|since| holds.ended.lock().get(name) != Some(since));
    let mut held = holds.held.lock();
    // Another process has ended it.
    if held.get(name).is_some_and(|hold| resume::is_ended(cluster, hold.since)) {
        held.remove(name);
        drop(held);
        count(context);
        return None;
    }
    match (held.get_mut(name), reported) {
        (Some(hold), reported) => {
            hold.since = reported.unwrap_or(hold.since);
            Some(hold.since)
        }
        (None, Some(since)) => {
            let name = ClusterName::from(name);
            held.insert(name.clone(), Hold { since, evidence: None });
            drop(held);
            holds.queue().add(name);
            count(context);
            Some(since)
        }
        (None, None) => None,
    }
}

/// Holds a member from now on.
pub(super) fn begin(context: &Context, cluster: &ClusterName, known: &Known, mark: String, carrier: String) {
    let works = context.works.cache().list(Some(&cluster.execution_namespace()));
    let created = |object: &Arc<Object>| {
        serde_json::from_slice::<ObjectMeta>(&object.metadata_json()).ok().and_then(|it| it.creation_timestamp)
    };
    // The API server's clock may be ahead of ours: everything it holds now is older than the hold.
    let newest = works.iter().filter_map(created).max();
    let ended = context.resume.holds.ended.lock().get(cluster).copied();
    let since = resume::begins(context.now(), newest, ended);
    let evidence = Evidence {
        mark,
        carrier,
        revision: context.resume.highest.load(Ordering::Relaxed).max(known.read_at),
        at: context.now(),
        works: works.len(),
    };
    let mut held = context.resume.holds.held.lock();
    if held.contains_key(cluster) {
        return;
    }
    let Evidence { mark, carrier, revision, works, .. } = &evidence;
    tracing::warn!(
        cluster = &**cluster,
        mark,
        carrier,
        revision,
        works,
        "Store is older than the cluster; nothing is changed in it until karmadactl resume"
    );
    held.insert(cluster.clone(), Hold { since, evidence: Some(evidence) });
    drop(held);
    context.resume.holds.queue().add(cluster.clone());
    count(context);
}

/// At every member that is held.
pub(super) fn recheck(context: &Context) {
    let held: Vec<ClusterName> = context.resume.holds.held.lock().keys().cloned().collect();
    held.into_iter().for_each(|name| context.resume.holds.queue().add(name));
}

pub(super) async fn run(context: Context) {
    let queue = context.resume.holds.queue().clone();
    let (keys, forgetting) = (queue.clone(), context.clone());
    context.cluster_informer.subscribe(move |event| {
        let name = event.object().name();
        if let Event::Deleted(_) = event {
            forgetting.resume.holds.held.lock().remove(name);
            forgetting.resume.holds.ended.lock().remove(name);
            count(&forgetting);
            return;
        }
        let known = forgetting.clusters.get(name);
        let is_reported = || known.is_some_and(|cluster| resume::pending_since(&cluster).is_some());
        if forgetting.resume.holds.held.lock().contains_key(name) || is_reported() {
            keys.add(ClusterName::from(name));
        }
    });
    let stop = context.stop.clone();
    run_workers(Controller::of_clusters("resume-controller"), queue, 4, stop, move |name| {
        let context = context.clone();
        async move { reconcile(&context, &name).await }
    })
    .await;
}

async fn reconcile(context: &Context, name: &ClusterName) -> Result<Next> {
    let Some(cluster) = context.clusters.get(name) else { return Ok(Next::Done) };
    if !context.serves(&cluster) {
        return Ok(Next::Done);
    }
    let reported = resume::pending_since(&cluster);
    let Some(since) = since(context, &cluster) else {
        // The last write of an end was lost, or undone by an older one.
        if reported.is_some() {
            write(context, &cluster, resume::resumed(context.now())).await?;
        }
        return Ok(Next::Done);
    };
    if reported == Some(since) {
        if resume::is_confirmed(&cluster, since) && cluster.metadata.deletion_timestamp.is_none() {
            end(context, &cluster, since).await?;
        }
        return Ok(Next::Done);
    }
    let evidence = context.resume.holds.held.lock().get(name).and_then(|hold| hold.evidence.clone());
    let Some(evidence) = evidence else { return Ok(Next::Done) };
    let condition = resume::pending(name, &evidence, since);
    let message = condition.message.clone();
    write(context, &cluster, condition).await?;
    if let Some(object) = context.cluster_informer.cache().get(&ObjectKey::cluster(name.as_str())) {
        let recorder = context.recorder.for_component("execution-controller");
        recorder.warning(&*object, reasons::RESUME_PENDING, message);
    }
    Ok(Next::Done)
}

/// Writes the marker first: after a crash before the condition is written, the next pass ends the hold again.
async fn end(context: &Context, cluster: &Cluster, since: Time) -> Result<()> {
    let name = ClusterName::of(cluster);
    let gate = context.resume.gate.wait_for(|gate| !matches!(gate, Gate::Closed)).await;
    let member = crate::identity::writable(context, cluster).await?;
    match gate {
        Gate::Open(known) => marker::accept(context, &member, &known).await?,
        Gate::Superseded => return Ok(()),
        Gate::Closed | Gate::Unmarked => {}
    }
    write(context, cluster, resume::resumed(context.now())).await?;
    context.resume.holds.ended.lock().insert(name.clone(), since);
    context.resume.holds.held.lock().remove(&name);
    count(context);
    let lasted = context.now().timestamp().duration_since(since.timestamp());
    tracing::info!(cluster = &*name, duration = ?lasted, "Resume is confirmed; the state of the store is applied to the cluster");
    crate::execution::dispatch_all(context, &name);
    Ok(())
}

async fn write(context: &Context, cluster: &Cluster, condition: Condition) -> Result<()> {
    let mut all = cluster.status.conditions.clone();
    all.retain(|it| it.type_ != condition.type_);
    all.push(condition);
    let written = cluster_status::write_conditions(context, cluster, &all).await;
    written.map(drop).during(|| format!("writing the status of cluster {}", cluster.key()))
}
