//! Updates the graph: from the server's change stream if it is in this process (and from [`aggregated`]), else from a
//! metadata watch of each deletable resource.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::ApiResource;
use client::{DiscoveredResource, Discovery};
use controller_runtime::{Backoff, Event, Failures, Informer, Selection};
use futures::StreamExt;
use transport::{Change, ChangeStream, Changes};

use super::graph::Graph;
use super::{Collector, aggregated};
use crate::context::Context;
use crate::running::Starting;

/// Events are many and short-lived, and have no dependents.
const IGNORED: [&str; 2] = ["core/events", "events.k8s.io/events"];

const MIN_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// How often a remote server's discovery is read, as upstream.
pub(super) const REDISCOVERY: Duration = Duration::from_secs(30);

pub(super) async fn run(context: Context, collector: Arc<Collector>, starting: Starting) {
    let stop = context.stop.clone();
    let follow = async {
        if context.client.is_in_process() {
            // Neither ends.
            tokio::join!(follow_changes(&context, &collector, starting), aggregated::follow(&context, &collector));
        } else {
            follow_resources(&context, &collector, starting).await;
        }
    };
    stop.run_until_cancelled(follow).await;
    // Their handlers hold the collector, which holds them.
    collector.aggregated.stop();
}

async fn follow_changes(context: &Context, collector: &Collector, starting: Starting) {
    let mut backoff = Backoff::new(MIN_PAUSE, MAX_PAUSE);
    let mut starting = Some(starting);
    loop {
        match context.client.watch_everything().await {
            Ok(Some(changes)) => {
                let mut following = collector.begin(changes);
                starting.take();
                while let Some(change) = following.next().await {
                    collector.take(&change);
                }
            }
            Ok(None) => {}
            Err(error) => tracing::debug!(err = %error, "Garbage collector cannot follow the server"),
        }
        tokio::time::sleep(backoff.next(context.informers.world())).await;
    }
}

/// No object is processed before every resource is listed: otherwise an owner could be released before its dependents.
async fn follow_resources(context: &Context, collector: &Arc<Collector>, starting: Starting) {
    let mut informers: BTreeMap<Arc<str>, Informer> = BTreeMap::new();
    let mut backoff = Backoff::new(MIN_PAUSE, MAX_PAUSE);
    let mut starting = Some(starting);
    let failures = Failures::lasting(Duration::ZERO);
    loop {
        match context.mapper.refresh().await {
            Ok(discovery) => match_informers(context, collector, &discovery, &mut informers),
            Err(error) => {
                let err = error.to_string();
                if failures.failed(&(), &err) {
                    tracing::warn!(err, "Garbage collector cannot discover the served kinds; retrying");
                }
                tokio::time::sleep(backoff.next(context.informers.world())).await;
                continue;
            }
        }
        backoff.reset();
        if let Some(lasted) = failures.succeeded(&()) {
            tracing::info!(duration = ?lasted, "Garbage collector discovers the served kinds again");
        }
        if starting.is_some() && !informers.is_empty() {
            let known = futures::future::join_all(informers.values().map(Informer::synced));
            // A resource that cannot be watched may be missing from the next discovery.
            if tokio::time::timeout(REDISCOVERY, known).await.is_err() {
                let missing = informers.iter().filter(|(_, informer)| !informer.has_synced()).map(|(place, _)| place);
                let missing = missing.map(|place| &**place).collect::<Vec<_>>().join(" ");
                if failures.failed(&(), &missing) {
                    tracing::warn!(resources = missing, "Garbage collection waits for caches");
                }
                continue;
            }
            collector.open();
            starting.take();
        }
        tokio::time::sleep(REDISCOVERY).await;
    }
}

/// Starts an informer for each served resource, and stops those of resources that are no longer served. Resources of a
/// group whose discovery failed are kept.
fn match_informers(
    context: &Context,
    collector: &Arc<Collector>,
    discovery: &Discovery,
    informers: &mut BTreeMap<Arc<str>, Informer>,
) {
    let found: Vec<_> = discovery.preferred().into_iter().filter(|found| is_followed(found)).collect();
    if discovery.failed.is_empty() {
        informers.retain(|_, informer| {
            let served = found.iter().any(|found| found.resource == *informer.resource());
            if !served {
                informer.stop();
            }
            served
        });
    }
    for found in found {
        informers.entry(place(&found.resource)).or_insert_with(|| watch_one(context, collector, &found.resource));
    }
}

pub(super) fn is_followed(found: &DiscoveredResource) -> bool {
    ["list", "watch", "delete"].iter().all(|verb| found.can(verb)) && !IGNORED.contains(&&*place(&found.resource))
}

/// `GROUP/PLURAL`.
pub(super) fn place(resource: &ApiResource) -> Arc<str> {
    let group = if resource.group.is_empty() { "core" } else { &resource.group };
    format!("{group}/{}", resource.plural).into()
}

pub(super) fn watch_one(context: &Context, collector: &Arc<Collector>, resource: &ApiResource) -> Informer {
    let metadata = Selection { metadata_only: true, ..Selection::default() };
    let (client, world, stop) = (context.client.clone(), context.informers.world().clone(), context.stop.child_token());
    let informer = Informer::start(client, resource.clone(), metadata, world, stop);
    let (collector, place) = (collector.clone(), place(resource));
    informer.subscribe(move |event| {
        collector.take(&match event {
            Event::Added { object, .. } | Event::Updated { new: object, .. } => {
                Change { resource: place.clone(), current: Some(object.clone()), previous: None }
            }
            Event::Deleted(object) => Change { resource: place.clone(), current: None, previous: Some(object.clone()) },
        });
    });
    informer
}

impl Collector {
    /// Replaces the graph by the current state.
    fn begin(&self, changes: Changes) -> ChangeStream {
        let mut graph = Graph::default();
        for change in changes.initial.iter().filter(|change| !IGNORED.contains(&&*change.resource)) {
            if let Some(object) = &change.current {
                graph.put(&change.resource, object);
            }
        }
        *self.graph.lock() = graph;
        self.aggregated.begin(&changes.initial);
        self.aggregated.put_all(&self.graph);
        self.open();
        changes.following
    }

    /// Marks the graph as complete.
    fn open(&self) {
        let pending = self.graph.lock().pending();
        self.complete.set(true);
        pending.into_iter().for_each(|uid| self.queue.add(uid));
    }

    fn take(&self, change: &Change) {
        self.aggregated.note(change);
        if IGNORED.contains(&&*change.resource) {
            return;
        }
        let concerned = match (&change.current, &change.previous) {
            (Some(object), _) => self.graph.lock().put(&change.resource, object),
            (None, Some(object)) => self.graph.lock().remove(object),
            (None, None) => return,
        };
        if self.complete.get() {
            concerned.into_iter().for_each(|uid| self.queue.add(uid));
        }
    }
}
