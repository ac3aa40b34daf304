//! The watch cache: every live object in memory, shared as `Arc`, and the recent changes for watchers.
//!
//! One task follows the store for the whole server, so an idle server costs one task whatever the number of its
//! resources. Reads wait until the cache has caught up with the store's revision, which makes them linearizable.

mod resource;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::{Status, StatusReason};
use futures::StreamExt;
use parking_lot::{Mutex, RwLock};
use storage::{KeyRange, RangeRequest, Revision, Store};
use tokio::sync::{mpsc, watch};
use transport::Change;

use crate::keys;
use resource::LAG;
pub use resource::{Event, ResourceCache, Subscription};

/// How long a read waits for a revision that has not happened yet.
const FUTURE_WAIT: Duration = Duration::from_secs(3);

/// Sees every change, in order, before readers do; the RBAC table follows the store through it.
pub type Observer = Box<dyn Fn(&str, &Event) + Send + Sync>;

pub struct Cache {
    store: Arc<dyn Store>,
    resources: RwLock<HashMap<Arc<str>, Arc<ResourceCache>>>,
    progress: watch::Sender<Revision>,
    observers: Vec<Observer>,
    /// Those who follow every resource. Held while a change is taken in, so that nobody begins in the middle of one.
    followers: Mutex<Vec<mpsc::Sender<Change>>>,
}

impl Cache {
    /// Reads everything there is and follows the store from there.
    pub async fn start(
        store: Arc<dyn Store>,
        observers: Vec<Observer>,
    ) -> Result<(Arc<Self>, Follower), storage::Error> {
        let cache = Arc::new(Self {
            store: Arc::clone(&store),
            resources: RwLock::default(),
            progress: watch::Sender::new(0),
            observers,
            followers: Mutex::default(),
        });
        let range = KeyRange::prefix(keys::ROOT);
        let loaded = store.range(RangeRequest { range: range.clone(), revision: None, limit: 0 }).await?;
        let stream = store.watch(range, loaded.revision).await?;
        for current in loaded.items {
            let revision = current.mod_revision;
            cache.absorb(revision, storage::Change::Put { current, previous: None });
        }
        cache.resources.write().values().for_each(|resource| resource.forget_history(loaded.revision));
        cache.progress.send_replace(loaded.revision);
        Ok((Arc::clone(&cache), Follower { cache, stream }))
    }

    fn absorb(&self, revision: Revision, change: storage::Change) {
        let Some((place, key)) = keys::split(change.key()) else { return };
        let mut followers = self.followers.lock();
        let resource = self.resource(place);
        let event = match resource.absorb(key, revision, &change) {
            Ok(event) => event,
            Err(error) => {
                tracing::error!(key = %String::from_utf8_lossy(change.key()), %error, "the store holds a value that is no object");
                return;
            }
        };
        for observer in &self.observers {
            observer(place, &event);
        }
        if !followers.is_empty()
            && let Some((place, _)) = self.resources.read().get_key_value(place)
        {
            let (current, previous) = (event.current.clone(), event.previous.clone());
            let change = Change { resource: Arc::clone(place), current, previous };
            // A full or closed channel ends the subscription.
            followers.retain(|follower| follower.try_send(change.clone()).is_ok());
        }
        resource.deliver(event);
    }

    /// Every object there is, and from there on every change.
    pub fn follow(&self) -> (Vec<Change>, mpsc::Receiver<Change>) {
        let (sender, receiver) = mpsc::channel(LAG);
        let mut followers = self.followers.lock();
        let mut initial = Vec::new();
        for (place, resource) in self.resources.read().iter() {
            let (objects, ..) = resource.list(None, None, 0, |_| true);
            let known = |object| Change { resource: Arc::clone(place), current: Some(object), previous: None };
            initial.extend(objects.into_iter().map(known));
        }
        followers.push(sender);
        (initial, receiver)
    }

    /// The cache of `GROUP/PLURAL`, empty if nothing of it was ever stored.
    pub fn resource(&self, place: &str) -> Arc<ResourceCache> {
        if let Some(found) = self.resources.read().get(place) {
            return Arc::clone(found);
        }
        let mut resources = self.resources.write();
        let fresh = || Arc::new(ResourceCache::new(*self.progress.borrow()));
        Arc::clone(resources.entry(place.into()).or_insert_with(fresh))
    }

    /// The revision up to which everything has been absorbed.
    pub fn revision(&self) -> Revision {
        *self.progress.borrow()
    }

    /// Waits until the cache holds everything that was acknowledged before this call; answers its revision.
    pub async fn catch_up(&self) -> Result<Revision, Status> {
        let newest = self.store.revision().await.map_err(crate::errors::store)?;
        if self.revision() < newest {
            // The newest revision may concern none of our keys; then only a progress report tells.
            self.store.request_progress().await.map_err(crate::errors::store)?;
        }
        self.reach(newest).await
    }

    /// Waits for a revision that some write is known to have got.
    pub async fn reach(&self, revision: Revision) -> Result<Revision, Status> {
        let mut progress = self.progress.subscribe();
        let reached = progress.wait_for(|now| *now >= revision).await;
        reached.map(|now| *now).map_err(|_| crate::errors::store(storage::Error::Closed))
    }

    /// Waits a little for a revision a client named; it may never come.
    pub async fn not_older_than(&self, revision: Revision) -> Result<Revision, Status> {
        let current = self.catch_up().await?;
        if current >= revision {
            return Ok(current);
        }
        match tokio::time::timeout(FUTURE_WAIT, self.reach(revision)).await {
            Ok(reached) => reached,
            Err(_) => Err(too_large(revision, self.revision())),
        }
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub(crate) fn progress(&self) -> watch::Receiver<Revision> {
        self.progress.subscribe()
    }
}

fn too_large(requested: Revision, current: Revision) -> Status {
    let message = format!("Too large resource version: {requested}, current: {current}");
    Status::failure(StatusReason::Timeout, format!("Timeout: {message}")).with_details(
        apimachinery::status::StatusDetails {
            causes: vec![apimachinery::status::StatusCause {
                reason: "ResourceVersionTooLarge".into(),
                message: "Too large resource version".into(),
                field: String::new(),
            }],
            retry_after_seconds: Some(1),
            ..Default::default()
        },
    )
}

/// The task that keeps a [`Cache`] up to date.
pub struct Follower {
    cache: Arc<Cache>,
    stream: storage::WatchStream,
}

impl Follower {
    /// Runs until the store ends the watch.
    pub async fn run(mut self) {
        while let Some(batch) = self.stream.next().await {
            match batch {
                Ok(batch) => {
                    for (revision, change) in batch.changes {
                        self.cache.absorb(revision, change);
                    }
                    self.cache.progress.send_if_modified(|now| {
                        let advanced = batch.revision > *now;
                        *now = batch.revision.max(*now);
                        advanced
                    });
                }
                Err(storage::Error::Closed) => return,
                Err(error) => {
                    // Readers wait for a revision that never comes and get time-outs: refusing beats lying.
                    tracing::error!(%error, "the watch cache lost the store");
                    return;
                }
            }
        }
    }
}
