//! Applies Works to members, and reports the result in the Works' status.
//!
//! Upstream has two controllers for this; here they share one pass for each Work, so that "applied" and the first
//! status are one write. Each member has its own queue and workers.

mod apply;
mod contest;
mod end;
mod pass;
mod prerequisites;
mod server_side;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use apimachinery::meta::Condition;
use apimachinery::{ApiResource, Object, ObjectKey};
use controller_runtime::{Controller, Event, Informer, Origin, Priority, Selection, Subject, WorkQueue, run_workers};
use futures::future::BoxFuture;
use karmada_api::constants::{annotations, labels};
use karmada_api::identity::{ClusterName, WorkKey};
use parking_lot::Mutex;
use propagation::contest::Contests;
use propagation::server_side::Mode;
use propagation::{compare, status};

use self::prerequisites::Prerequisites;
use crate::members::Member;
use crate::{Context, reinterpreting};

/// The state both controllers share.
#[derive(Default)]
pub(crate) struct Engine {
    dispatches: AtomicBool,
    reports: AtomicBool,
    started: AtomicBool,
    queues: Mutex<HashMap<ClusterName, Arc<WorkQueue<WorkKey>>>>,
    records: Mutex<HashMap<WorkKey, Record>>,
    ready: Mutex<HashMap<ClusterName, bool>>,
    parked: Mutex<HashMap<(ClusterName, ApiResource), Parked>>,
    prerequisites: Prerequisites,
    /// How many Works were dispatched whose first status is not written yet.
    unreported: AtomicUsize,
}

/// For each multiple of this number per member, status is collected for the usual time once more: a member that
/// receives 40 Works a second has as many within the usual 100 ms.
const UNREPORTED_SHARE: usize = 4;

impl Engine {
    /// The number of dispatched Works without a status, as the share of each member, large enough that status waits for
    /// the rest of a rollout.
    pub(crate) fn rollouts(&self) -> usize {
        let members = self.queues.lock().len().max(1);
        self.unreported.load(Ordering::Relaxed) / (members * UNREPORTED_SHARE)
    }

    fn count_unreported(&self, record: &mut Record, unreported: bool) {
        match (std::mem::replace(&mut record.unreported, unreported), unreported) {
            (false, true) => drop(self.unreported.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(self.unreported.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
    }
}

/// Works that an earlier process had applied, waiting to be verified against the member's cache: they must not delay
/// new Works.
enum Parked {
    Waiting(Vec<WorkKey>),
    /// They have been queued again, whether the cache was complete or not.
    Over,
}

/// How long they wait; then each reads its object from the member.
const PARKED_FOR: Duration = Duration::from_secs(10);

/// The state of a dispatched Work in this process; lost on restart, and then determined again.
#[derive(Clone, Default)]
struct Record {
    uid: Box<str>,
    /// The Work's generation that the member has.
    generation: i64,
    /// The UID of each of the member's objects, with the version we wrote or found right. Few: a Work has one manifest as a rule.
    versions: Box<[(Box<str>, Box<str>)]>,
    /// Another client changed an object.
    dirty: bool,
    /// How it was applied.
    mode: Option<Mode>,
    /// Fields that others in the member write too.
    contests: Contests,
    /// All of its manifests were applied, which the next status reports.
    applied: bool,
    /// Other conditions of the next status.
    others: Vec<Condition>,
    /// Attempts in a row that failed because the namespace was not there yet.
    misses: u32,
    /// It was dispatched, and no status was written since.
    unreported: bool,
}

impl Record {
    /// The conditions of the next status.
    fn pending(&self) -> Vec<Condition> {
        let applied = || Condition { observed_generation: Some(self.generation), ..status::applied(0, 0, &[]) };
        self.applied.then(applied).into_iter().chain(self.others.iter().cloned()).collect()
    }

    /// The version of the member's object that we wrote or found right.
    fn version_of(&self, uid: &str) -> Option<&str> {
        self.versions.iter().find(|(known, _)| **known == *uid).map(|(_, version)| &**version)
    }
}

/// Delay before a status written by another process is checked: two processes with different observations would
/// otherwise overwrite each other as fast as they can.
pub(crate) const SECOND_LOOK: Duration = Duration::from_secs(1);

/// The role is known when this returns, before the future is polled: a pass must not begin while only one of the two
/// controllers has started, because nothing would queue its Work for the other.
pub(crate) fn run_dispatch(context: Context) -> BoxFuture<'static, ()> {
    context.engine.dispatches.store(true, Ordering::Relaxed);
    context.works.cache().add_index(end::PRESERVING, end::preserving);
    Box::pin(async move {
        let (stop, recording) = (context.stop.clone(), crate::resume::run(context.clone()));
        tokio::spawn(async move { stop.run_until_cancelled(recording).await });
        run(context).await;
    })
}

/// As [`run_dispatch`].
pub(crate) fn run_status(context: Context) -> BoxFuture<'static, ()> {
    context.engine.reports.store(true, Ordering::Relaxed);
    Box::pin(run(context))
}

async fn run(context: Context) {
    if !context.synced().await || context.engine.started.swap(true, Ordering::Relaxed) {
        return context.stop.cancelled().await;
    }
    // Clusters first: the Works known by now are queued once, by their own events.
    let on_clusters = context.clone();
    context.cluster_informer.subscribe(move |event| note_cluster(&on_clusters, event));
    let on_works = context.clone();
    context.works.subscribe(move |event| note_work(&on_works, event));
    let on_connections = context.downgrade();
    context.members.on_reconnect(move |member, resources| {
        if let Some(context) = Context::upgrade(&on_connections) {
            subscribe_again(&context, member, &resources);
        }
    });
    let works = || context.works.cache().list(None);
    reinterpreting::run(&context, works, reinterpreting::concern_work, |work, delay| {
        if let Some(key) = WorkKey::of(work).filter(|_| context.engine.reports.load(Ordering::Relaxed)) {
            queue_of(&context, &key).add_after(key, delay);
        }
    })
    .await;
}

/// Changes between two connections were received over neither: once the new caches are complete, every Work of the
/// member is compared with them.
fn subscribe_again(context: &Context, member: &Arc<Member>, resources: &[ApiResource]) {
    let informers: Vec<Informer> = resources.iter().map(|resource| watch(context, member, resource)).collect();
    let (context, cluster) = (context.clone(), member.name.clone());
    tokio::spawn(async move {
        for informer in informers {
            if !informer.synced().await {
                return;
            }
        }
        dispatch_all(&context, &cluster);
    });
}

/// Dispatches every Work of a member again.
pub(crate) fn dispatch_all(context: &Context, cluster: &ClusterName) {
    for key in works_of(context, cluster) {
        if let Some(record) = context.engine.records.lock().get_mut(&key) {
            record.dirty = true;
        }
        enqueue(context, key, Priority::Low);
    }
}

/// The Works of a member, as the cache has them.
fn works_of(context: &Context, cluster: &ClusterName) -> Vec<WorkKey> {
    let works = context.works.cache().list(Some(&cluster.execution_namespace()));
    works.iter().filter_map(|work| WorkKey::of(work)).collect()
}

fn note_work(context: &Context, event: &Event) {
    context.resume.saw(event.object().revision());
    let changed = changes_status(event);
    let origin = context.reported_works.observe(event, changed);
    let (is_desired, is_reported) = (changes_desired_state(event), changed && origin == Origin::Other);
    if !is_desired && !is_reported && !matches!(event, Event::Deleted(_)) {
        return;
    }
    // A Work outside the execution namespaces is for no member.
    let Some(key) = WorkKey::of(event.object()) else { return };
    if let Event::Deleted(_) = event {
        context.journal.forget_work(&key);
        context.resume.forget(event.object());
        context.engine.prerequisites.forget(&key);
        if let Some(mut record) = context.engine.records.lock().remove(&key) {
            context.engine.count_unreported(&mut record, false);
        }
        return;
    }
    if is_desired {
        let initial = matches!(event, Event::Added { initial: true, .. });
        enqueue(context, key, if initial { Priority::Low } else { Priority::Normal });
    // Before the first pass there is no state to compare with; that pass compares anyway.
    } else if context.engine.records.lock().contains_key(&key) {
        recheck_later(context, key);
    }
}

fn changes_status(event: &Event) -> bool {
    matches!(event, Event::Updated { old, new } if old.member("status") != new.member("status"))
}

/// Compares the status of a Work with the expected one after a delay.
fn recheck_later(context: &Context, key: WorkKey) {
    queue_of(context, &key).add_after(key, SECOND_LOOK);
}

/// Whether the desired state changed: the spec, or the annotation that selects how it is applied.
pub(crate) fn changes_desired_state(event: &Event) -> bool {
    let mode = |object: &Object| object.annotation(propagation::server_side::ANNOTATION);
    event.changes_generation() || matches!(event, Event::Updated { old, new } if mode(old) != mode(new))
}

/// Works wait for their cluster without polling: they are queued when it becomes ready or leaves. Those of a leaving
/// cluster end without it when it is not ready any more; until then their deletions fail, with growing delays.
fn note_cluster(context: &Context, event: &Event) {
    let name = event.object().name();
    if let Event::Deleted(_) = event {
        context.engine.ready.lock().remove(name);
        context.engine.prerequisites.forget_cluster(name);
        if let Some(queue) = context.engine.queues.lock().remove(name) {
            queue.close();
        }
        return;
    }
    let Some(cluster) = context.clusters.get(name) else { return };
    let ready = cluster.is_ready();
    let name = ClusterName::from(name);
    let was = context.engine.ready.lock().insert(name.clone(), ready).unwrap_or(false);
    let leaves = matches!(event, Event::Updated { old, new } if old.is_deleting() != new.is_deleting());
    let is_known = matches!(event, Event::Added { initial: true, .. });
    let is_lost = was && !ready && cluster.metadata.deletion_timestamp.is_some();
    if !is_known && ((ready && !was) || leaves || is_lost) {
        works_of(context, &name).into_iter().for_each(|work| enqueue(context, work, Priority::Low));
    }
}

fn enqueue(context: &Context, key: WorkKey, priority: Priority) {
    queue_of(context, &key).add_with(key, priority);
}

/// The queue of a Work's member, with its workers.
fn queue_of(context: &Context, key: &WorkKey) -> Arc<WorkQueue<WorkKey>> {
    let mut queues = context.engine.queues.lock();
    if let Some(queue) = queues.get(key.cluster()) {
        return queue.clone();
    }
    let queue = context.dispatch_queue();
    queues.insert(ClusterName::from(key.cluster()), queue.clone());
    let (stop, workers, context) = (context.stop.clone(), context.settings.workers, context.clone());
    let metrics = context.metrics.registry.clone();
    let controller = Controller { name: "execution-controller", subject: Subject::Own };
    let working = run_workers(controller, queue.clone(), workers, stop, move |key| {
        let context = context.clone();
        async move {
            let outcome = pass::reconcile(&context, &key).await;
            context.journal.work(&context, &key, &outcome);
            outcome
        }
    });
    tokio::spawn(controller_runtime::metrics::observed(metrics, working));
    queue
}

/// How long the pass over a Work of the same member takes that has run longest.
pub(crate) fn longest_pass(context: &Context, work: &WorkKey) -> Duration {
    let queue = context.engine.queues.lock().get(work.cluster()).cloned();
    queue.map(|queue| queue.metrics().longest_running).unwrap_or_default()
}

/// The cache of a member's objects that are ours; changes of them lead back to their Works.
fn watch(context: &Context, member: &Arc<Member>, resource: &ApiResource) -> Informer {
    let selection = Selection { label_selector: Some(format!("{}=true", labels::MANAGED)), ..Selection::default() };
    let informer = member.managed.selected(resource, selection);
    if member.start_watching(resource) {
        let (context, cluster) = (context.clone(), member.name.clone());
        let prerequisite = prerequisites::Kind::of(resource);
        informer.subscribe(move |event| {
            if let Some(kind) = prerequisite {
                note_prerequisite(&context, &cluster, kind, event);
            }
            note_member(&context, &cluster, event);
        });
    }
    informer
}

/// The Works that waited for this object are applied at once, and soon again: a member serves a kind or accepts objects in
/// a namespace some milliseconds after it shows them.
fn note_prerequisite(context: &Context, cluster: &ClusterName, kind: prerequisites::Kind, event: &Event) {
    if kind == prerequisites::Kind::Definition
        && let Some(known) = context.clusters.get(cluster)
    {
        context.definitions.note(cluster, event, &known.status.api_enablements);
    }
    if matches!(event, Event::Deleted(_)) {
        return;
    }
    for work in context.engine.prerequisites.waiting_for(cluster, kind, event.object().name()) {
        let queue = queue_of(context, &work);
        queue.forget(&work);
        queue.add(work);
    }
}

/// Whether the Work waits for the cache of a resource in its member.
fn park(context: &Context, member: &Arc<Member>, resource: &ApiResource, key: &WorkKey) -> bool {
    let informer = watch(context, member, resource);
    if informer.has_synced() {
        return false;
    }
    let place = (member.name.clone(), resource.clone());
    let mut parked = context.engine.parked.lock();
    match parked.get_mut(&place) {
        Some(Parked::Waiting(keys)) => keys.push(key.clone()),
        Some(Parked::Over) => return false,
        None => {
            parked.insert(place.clone(), Parked::Waiting(vec![key.clone()]));
            let context = context.clone();
            tokio::spawn(async move {
                let _ = tokio::time::timeout(PARKED_FOR, informer.synced()).await;
                let keys = context.engine.parked.lock().insert(place, Parked::Over);
                if let Some(Parked::Waiting(keys)) = keys {
                    keys.into_iter().for_each(|key| enqueue(&context, key, Priority::Low));
                }
            });
        }
    }
    true
}

fn note_member(context: &Context, cluster: &ClusterName, event: &Event) {
    let object = event.object();
    let Some(key) = work_behind(context, cluster, event) else { return };
    let (queue, settle) = (queue_of(context, &key), context.settle());
    let ours = {
        let mut records = context.engine.records.lock();
        let record = records.get_mut(&key);
        let known = record.as_ref().and_then(|record| record.version_of(object.uid()));
        let ours = known.is_some_and(|version| version == object.resource_version());
        let foreign = match event {
            Event::Deleted(_) => true,
            // Before the first pass there is no state to compare with; that pass compares anyway.
            Event::Added { .. } => known.is_some() && !ours,
            Event::Updated { old, new } => !ours && !is_status_only(old, new),
        };
        if let (true, Some(record)) = (foreign, record) {
            record.dirty = true;
        }
        !foreign
    };
    match event {
        // A backlog: current changes go first.
        Event::Added { initial: true, .. } if ours => queue.add_with(key, Priority::Low),
        _ if ours => queue.add_after(key, settle),
        _ => queue.add(key),
    }
}

/// For a kind with generations, the generation is unchanged; labels and our annotations are the other managed fields.
fn is_status_only(old: &Object, new: &Object) -> bool {
    new.generation() > 0
        && old.generation() == new.generation()
        && old.uid() == new.uid()
        && old.labels() == new.labels()
        && old.is_deleting() == new.is_deleting()
        && has_our_annotations(old, new)
}

fn has_our_annotations(old: &Object, new: &Object) -> bool {
    let (old, new) = (old.annotations(), new.annotations());
    let listed = old.get(annotations::MANAGED_ANNOTATIONS).map(String::as_str).unwrap_or_default();
    let mut ours = listed.split(',').chain([annotations::WORK_NAMESPACE, annotations::WORK_NAME]);
    old == new || ours.all(|key| old.get(key) == new.get(key))
}

/// Changing or removing the annotations of an object in the member does not detach it from its Work; only another Work
/// that wrote it does.
fn work_behind(context: &Context, cluster: &ClusterName, event: &Event) -> Option<WorkKey> {
    let named = work_of(event.object(), cluster);
    let Event::Updated { old, new } = event else { return named };
    let before = work_of(old, cluster);
    let taken_over = before != named && {
        let records = context.engine.records.lock();
        let record = named.as_ref().and_then(|named| records.get(named));
        record.and_then(|record| record.version_of(new.uid())).is_some_and(|it| it == new.resource_version())
    };
    if taken_over { named } else { before.or(named) }
}

/// The Work an object in a member belongs to, by its annotations; only Works of that member count.
fn work_of(object: &Object, cluster: &ClusterName) -> Option<WorkKey> {
    let namespace = object.annotation(annotations::WORK_NAMESPACE)?;
    let name = object.annotation(annotations::WORK_NAME)?;
    let key = WorkKey::try_from(ObjectKey::namespaced(namespace, name)).ok()?;
    (key.cluster() == cluster.as_str()).then_some(key)
}
