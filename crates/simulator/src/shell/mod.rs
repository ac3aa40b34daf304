//! Runs the caches and the plans, and executes their actions. A member has one queue; an idle member has a task for
//! each watched kind and one for the queue, and none of them polls.

mod events;
mod passes;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apimachinery::ObjectKey;
use client::Client;
use controller_runtime::{Informer, InformerSet, WorkQueue, run_workers};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use world::World;

use crate::plan::Kind;
use crate::plan::kubelet::Pace;
use crate::plan::ledger::Ledger;
use crate::plan::service::{SERVICE_NAME, Service};

/// Concurrent reconciles. In memory two suffice; with a durable store they share its group commits.
const WORKERS: usize = 16;

/// The index of ReplicaSets and ControllerRevisions by the uid of their controller.
const OWNER: &str = "owner";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Object(Kind, ObjectKey),
    /// All pods that fit no node.
    Waiting,
}

/// The state that reconciles share.
struct Engine {
    client: Client,
    world: World,
    pace: Pace,
    queue: Arc<WorkQueue<Key>>,
    watched: Vec<Watched>,
    ledger: Mutex<Ledger>,
    /// The pods that fit no node. They are retried when there may be capacity.
    waiting: Mutex<BTreeSet<ObjectKey>>,
    /// All services with a selector: each change of a pod looks up those that select it.
    services: Mutex<BTreeMap<ObjectKey, Service>>,
}

/// One kind's cache, in the order of [`Kind::WATCHED`].
struct Watched {
    informer: Informer,
    /// The latest revision that the handlers have processed.
    seen: watch::Sender<u64>,
}

impl Engine {
    fn watched(&self, kind: Kind) -> &Watched {
        &self.watched[kind as usize]
    }
}

/// A running shell.
pub(crate) struct Shell(JoinHandle<()>);

impl Shell {
    /// Returns when the caches are synced; then the reconciles start.
    pub async fn start(informers: &InformerSet, world: World, pace: Pace, stop: CancellationToken) -> Self {
        let watched = Kind::WATCHED
            .into_iter()
            .map(|kind| Watched { informer: informers.informer(kind.resource()), seen: watch::Sender::new(0) })
            .collect();
        let engine = Arc::new(Engine {
            client: informers.client().clone(),
            world,
            pace,
            queue: Arc::new(WorkQueue::new()),
            watched,
            ledger: Mutex::default(),
            waiting: Mutex::default(),
            services: Mutex::default(),
        });
        for kind in [Kind::ReplicaSet, Kind::ControllerRevision] {
            engine.watched(kind).informer.cache().add_index(OWNER, passes::owner);
        }
        engine.watched(Kind::EndpointSlice).informer.cache().add_label_index(SERVICE_NAME);
        for kind in Kind::WATCHED {
            let weak = Arc::downgrade(&engine);
            engine.watched(kind).informer.subscribe(move |event| {
                if let Some(engine) = weak.upgrade() {
                    engine.on_event(kind, event);
                }
            });
        }
        for watched in &engine.watched {
            watched.informer.synced().await;
        }
        let queue = Arc::clone(&engine.queue);
        let reconcile = move |key| {
            let engine = Arc::clone(&engine);
            async move { engine.pass(key).await }
        };
        Self(tokio::spawn(run_workers("member", queue, WORKERS, stop, reconcile)))
    }

    /// Waits for the running reconciles, after the token was cancelled.
    pub async fn ended(self) {
        // The worker has reported a panic of a reconcile; the task has no other result.
        let _ = self.0.await;
    }
}
