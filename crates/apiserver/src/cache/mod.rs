//! The watch cache: every live object in memory, shared as `Arc`, and the recent changes for watchers.
//!
//! One task follows the store for the whole server, so an idle server costs one task for any number of resources.
//! Reads wait until the cache has caught up with the store's revision, which makes them linearizable.

mod apart;
mod committed;
pub mod keys;
mod leases;
mod load;
mod log;
mod resource;
pub mod snapshot;
mod unreadable;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use apimachinery::{Status, StatusReason};
use futures::StreamExt;
use parking_lot::{Mutex, RwLock};
use storage::{KeyRange, RangeRequest, Revision, Store};
use tokio::sync::mpsc;
use transport::Change;
use world::Level;

pub use apart::Apart;
use apart::Scope;
use leases::Leases;
use load::Lost;
use log::LAG;
pub use log::{Events, Selection};
pub use resource::{Event, ResourceCache, Subscription};
pub use unreadable::{UNREADABLE, is_unreadable};

/// How long a read waits for a revision that has not happened yet.
const FUTURE_WAIT: Duration = Duration::from_secs(3);

/// How long a write of this process takes at most to arrive in the cache, unless it has changed other keys only.
const DELIVERY: Duration = Duration::from_millis(100);

/// Objects found at the start are packed after this time, when initial lists are over.
const SETTLED: Duration = Duration::from_secs(30);

/// Objects that are packed before others have a turn: a tenth of a millisecond.
const PACKED_TOGETHER: usize = 16;

/// Between attempts to read the store again after it failed.
const RETRY: Duration = Duration::from_secs(1);

/// Receives every change, in order, before readers see it; the RBAC table follows the store through it.
pub type Observer = Box<dyn Fn(&str, &Event) + Send + Sync>;

/// The watch cache of a server.
pub struct Cache {
    store: Arc<dyn Store>,
    scope: Scope,
    resources: RwLock<HashMap<Arc<str>, Arc<ResourceCache>>>,
    progress: Arc<Level<Revision>>,
    observers: Vec<Observer>,
    /// Subscribers to all resources. Held while a change is applied, so that no subscription begins in the middle of
    /// one.
    followers: Mutex<Vec<mpsc::Sender<Change>>>,
    /// Some stored value could not be read.
    unreadable: AtomicBool,
    /// Bytes of objects that slow watchers retain.
    backlog: Arc<AtomicUsize>,
    /// For objects that end by themselves.
    pub(crate) leases: Leases,
}

impl Cache {
    /// Reads everything there is and follows the store from there.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn start(
        store: Arc<dyn Store>,
        observers: Vec<Observer>,
    ) -> Result<(Arc<Self>, Follower), storage::Error> {
        let (cache, mut followers) = Self::start_with(store, Vec::new(), observers).await?;
        Ok((cache, followers.remove(0)))
    }

    fn absorb(&self, revision: Revision, change: storage::Change) {
        let Some((place, key)) = keys::split(change.key()).filter(|(place, _)| self.has(place)) else { return };
        let mut followers = self.followers.lock();
        let resource = self.resource(place);
        let event = match resource.absorb(key, revision, &change) {
            Ok(event) => event,
            Err(error) => {
                followers.clear();
                let (storage::Change::Put { current: item, .. } | storage::Change::Delete { previous: item }) = &change;
                self.lose(Lost { key: item.key.clone(), why: load::not_an_object(&item.value, &error) });
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

    /// Records that a stored value cannot be read: until it is written again or deleted, its object is unknown.
    /// Followers of every resource must start again.
    fn lose(&self, lost: Lost) {
        let Lost { key, why } = lost;
        if keys::split(&key).is_some_and(|(place, _)| !self.has(place)) {
            return;
        }
        tracing::error!(key = %String::from_utf8_lossy(&key), %why, "a stored object cannot be read");
        if let Some((place, key)) = keys::split(&key) {
            self.unreadable.store(true, Relaxed);
            self.resource(place).lose(key, why);
        }
    }

    /// Whether every stored value could be read since the server started.
    pub fn is_sound(&self) -> bool {
        !self.unreadable.load(Relaxed) && self.others().iter().all(|other| other.is_sound())
    }

    /// The cache of `GROUP/PLURAL`, empty if no object of it was ever stored.
    pub fn resource(&self, place: &str) -> Arc<ResourceCache> {
        if let Some(other) = self.other(place) {
            return other.resource(place);
        }
        if let Some(found) = self.resources.read().get(place) {
            return Arc::clone(found);
        }
        let mut resources = self.resources.write();
        let place: Arc<str> = place.into();
        let fresh = || Arc::new(ResourceCache::new(Arc::clone(&place), self.progress.get(), Arc::clone(&self.backlog)));
        Arc::clone(resources.entry(Arc::clone(&place)).or_insert_with(fresh))
    }

    /// The cache of a resource, if there is one.
    pub(crate) fn known(&self, group: &str, plural: &str) -> Option<Arc<ResourceCache>> {
        if let Some(other) = self.other_of(group, plural) {
            return other.known(group, plural);
        }
        let place = keys::short_group_resource(group, plural);
        self.resources.read().get(std::str::from_utf8(&place).ok()?).cloned()
    }

    /// Drops the cache of a resource that is no longer served, with its history, unless the store still holds objects of it.
    /// Its watches end.
    pub fn retire(&self, place: &str) {
        // No change is taken in meanwhile.
        let _followers = self.followers.lock();
        let mut resources = self.resources.write();
        if resources.get(place).is_some_and(|resource| resource.retire()) {
            resources.remove(place);
        }
    }

    /// The resources that have a cache, in no order.
    pub fn places(&self) -> Vec<Arc<str>> {
        let others = self.others().iter().flat_map(|other| other.places());
        self.resources.read().keys().cloned().chain(others).collect()
    }

    /// The number of objects of each resource that has a cache, in no order.
    pub fn sizes(&self) -> Vec<(Arc<str>, usize)> {
        let caches: Vec<_> =
            self.resources.read().iter().map(|(place, it)| (Arc::clone(place), Arc::clone(it))).collect();
        let others = self.others().iter().flat_map(|other| other.sizes());
        caches.into_iter().map(|(place, cache)| (place, cache.state.read().objects.len())).chain(others).collect()
    }

    /// The revision up to which everything has been absorbed.
    pub fn revision(&self) -> Revision {
        self.progress.get()
    }

    /// Waits until the cache holds everything that was acknowledged before this call; answers its revision.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn catch_up(&self) -> Result<Revision, Status> {
        let newest = self.store.revision().await.map_err(crate::errors::store)?;
        if self.revision() < newest {
            // The newest revision may not change any of our keys; then only a progress report confirms it.
            self.store.request_progress().await.map_err(crate::errors::store)?;
        }
        Ok(self.reach(newest).await)
    }

    /// Waits until the cache holds this process's own writes, without a request to the store. Returns whether it holds
    /// everything that was acknowledged to anyone before this call: a write that the store accepts needs no more, because
    /// it is guarded, but an answer without a write does.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn catch_up_own(&self) -> Result<bool, Status> {
        let Some(written) = self.store.written_revision() else { return self.catch_up().await.map(|_| true) };
        if self.revision() >= written || tokio::time::timeout(DELIVERY, self.reach(written)).await.is_ok() {
            return Ok(false);
        }
        // It may have changed none of the cached keys, or the store cannot be reached.
        self.catch_up().await.map(|_| true)
    }

    /// Waits for a revision that some write is known to have got.
    pub async fn reach(&self, revision: Revision) -> Revision {
        self.progress.wait_for(|now| *now >= revision).await
    }

    /// Waits a little for a revision named by a client; it may never be reached.
    ///
    /// # Errors
    /// When the store cannot be read; 504 when the revision is not reached in time, as in kube-apiserver.
    pub async fn not_older_than(&self, revision: Revision) -> Result<Revision, Status> {
        let current = self.catch_up().await?;
        if current >= revision {
            return Ok(current);
        }
        match tokio::time::timeout(FUTURE_WAIT, self.reach(revision)).await {
            Ok(reached) => Ok(reached),
            Err(_) => Err(too_large(revision, self.revision())),
        }
    }

    /// The changes of one resource after `from`, up to and including `until`, from the store.
    pub(crate) async fn replay(&self, prefix: String, from: Revision, until: Revision) -> Result<Replay, Status> {
        let stream = self.store.watch(KeyRange::prefix(prefix), from).await.map_err(crate::errors::store)?;
        // The newest revisions may change other resources only; then only a progress report confirms completeness.
        self.store.request_progress().await.map_err(crate::errors::store)?;
        Ok(Replay { stream, until, queued: Vec::new().into_iter() })
    }

    /// The store behind the cache.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub(crate) fn progress(&self) -> Arc<Level<Revision>> {
        Arc::clone(&self.progress)
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

/// Changes that are no longer in the cache's history, read from the store.
pub struct Replay {
    stream: storage::WatchStream,
    until: Revision,
    /// Read from the store, and decoded one at a time.
    queued: std::vec::IntoIter<(Revision, storage::Change)>,
}

impl Replay {
    /// The next change; `None` when the end is reached.
    pub(crate) async fn next(&mut self) -> Option<Result<Event, Status>> {
        loop {
            if let Some((revision, change)) = self.queued.next() {
                return Some(event_of(revision, change).map_err(crate::errors::document));
            }
            if self.until == 0 {
                return None;
            }
            match self.stream.next().await? {
                Ok(batch) => {
                    let until = self.until;
                    let wanted = batch.changes.into_iter().filter(|(revision, _)| *revision <= until);
                    self.queued = wanted.collect::<Vec<_>>().into_iter();
                    if batch.revision >= until {
                        self.until = 0;
                    }
                }
                Err(error) => return Some(Err(crate::errors::store(error))),
            }
        }
    }
}

fn event_of(revision: Revision, change: storage::Change) -> Result<Event, serde_json::Error> {
    let object =
        |kv: storage::KeyValue| keys::with_revision(&kv.value, kv.mod_revision).map(apimachinery::Object::shared);
    let (current, previous) = match change {
        storage::Change::Put { current, previous } => (Some(current), previous),
        storage::Change::Delete { previous } => (None, Some(previous)),
    };
    Ok(Event { revision, current: current.map(object).transpose()?, previous: previous.map(object).transpose()? })
}

/// The task that updates a [`Cache`].
pub struct Follower {
    cache: Arc<Cache>,
    stream: storage::WatchStream,
}

impl Follower {
    /// The store that is followed.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.cache.store
    }

    /// Runs until the store is closed. When the store cuts the watch off, what is there is read again, and the
    /// difference passes to watchers as changes.
    pub async fn run(self) {
        let cache = Arc::clone(&self.cache);
        let packing = async {
            tokio::time::sleep(SETTLED).await;
            cache.pack().await;
            std::future::pending().await
        };
        tokio::select! {
            biased;
            () = self.follow() => {}
            () = packing => {}
        }
    }

    async fn follow(mut self) {
        loop {
            match self.stream.next().await {
                Some(Ok(batch)) => {
                    for (revision, change) in batch.changes {
                        self.cache.absorb(revision, change);
                    }
                    self.cache.advance(batch.revision);
                }
                Some(Err(storage::Error::Closed)) | None => return,
                Some(Err(error)) => {
                    tracing::warn!(err = %error, "Watch cache lost the store's changes and is rebuilt");
                    match self.cache.read_again().await {
                        Ok(stream) => self.stream = stream,
                        Err(storage::Error::Closed) => return,
                        Err(error) => {
                            tracing::error!(err = %error, "Watch cache cannot read the store; reads wait until it can");
                            self.stream = Box::pin(futures::stream::iter([Err(error)]));
                            tokio::time::sleep(RETRY).await;
                        }
                    }
                }
            }
        }
    }
}

impl Cache {
    /// Compresses the objects loaded at start, a few at a time.
    async fn pack(&self) {
        let resources: Vec<_> = self.resources.read().values().cloned().collect();
        for resource in resources {
            for some in resource.readable().chunks(PACKED_TOGETHER) {
                resource.pack(some);
                tokio::task::yield_now().await;
            }
        }
    }

    fn advance(&self, revision: Revision) {
        self.progress.change(|now| {
            let advanced = revision > *now;
            *now = revision.max(*now);
            advanced
        });
    }

    async fn read_again(&self) -> Result<storage::WatchStream, storage::Error> {
        let range = KeyRange::prefix(keys::ROOT);
        let everything = RangeRequest { range: range.clone(), revision: None, limit: 0 };
        let (mut loaded, damaged) = self.store.salvage(everything).await?;
        // Watchers and their history expect revisions to grow.
        loaded.items.sort_by_key(|item| item.mod_revision);
        let stream = self.store.follow(range, loaded.revision).await?;
        let places: Vec<_> =
            self.resources.read().iter().map(|(place, cache)| (place.clone(), Arc::clone(cache))).collect();
        let mut known: HashMap<bytes::Bytes, Revision> = HashMap::new();
        for (place, cache) in places {
            for (key, revision) in cache.revisions() {
                known.insert(keys::place_key(&place, &key), revision);
            }
        }
        if !damaged.is_empty() {
            self.followers.lock().clear();
        }
        for damage in damaged {
            known.remove(&damage.key);
            self.lose(damage.into());
        }
        for current in loaded.items {
            let revision = current.mod_revision;
            if known.remove(&current.key) != Some(revision) {
                self.absorb(revision, storage::Change::Put { current, previous: None });
            }
        }
        // The remaining ones were deleted meanwhile, at an unknown revision.
        for (key, revision) in known {
            let previous = storage::KeyValue {
                key,
                value: bytes::Bytes::new(),
                create_revision: revision,
                mod_revision: revision,
                lease: None,
            };
            self.absorb(loaded.revision, storage::Change::Delete { previous });
        }
        self.advance(loaded.revision);
        Ok(stream)
    }
}

#[cfg(test)]
mod tests {
    use apimachinery::{Object, ObjectKey};
    use storage::memory::MemoryStore;
    use storage::{Op, Txn};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn loaded_objects_are_packed_later_and_read_unchanged() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let text = |n: u32| {
            let data = "some text that all of them have in common ".repeat(10);
            format!(r#"{{"apiVersion":"v1","kind":"X","metadata":{{"name":"n{n}"}},"data":"{data}{n}"}}"#)
        };
        for n in 0..40 {
            let ops =
                vec![Op::Put { key: format!("/registry/core/xs/n{n}").into(), value: text(n).into(), lease: None }];
            store.txn(Txn { guards: Vec::new(), ops }).await.expect("a write");
        }
        let (cache, follower) = Cache::start(store, Vec::new()).await.expect("a cache");
        tokio::spawn(follower.run());
        let all = || {
            (0..40).filter_map(|n| {
                cache.resource("core/xs").get(&ObjectKey::cluster(format!("n{n}"))).expect("it can be read")
            })
        };
        let seen: Vec<_> = all().map(|object| object.json()).collect();
        assert_eq!((seen.len(), all().filter(|object| object.is_packed()).count()), (40, 0));
        tokio::time::sleep(2 * SETTLED).await;
        assert_eq!(all().filter(|object| object.is_packed()).count(), 40);
        assert_eq!(all().map(|object| object.json()).collect::<Vec<_>>(), seen);
    }

    #[tokio::test]
    async fn a_retired_cache_ends_its_watches_and_one_with_objects_stays() {
        let (cache, _follower) = Cache::start(Arc::new(MemoryStore::new()), Vec::new()).await.expect("a cache");
        let object = Object::parse(r#"{"metadata":{"name":"a"}}"#).expect("an object").shared();
        cache.resource("g/full").load([(ObjectKey::cluster("a"), object)].into_iter(), 1);
        let empty = cache.resource("g/empty");
        let mut before = empty.subscribe(Selection::default(), 1).expect("all can be read");
        ["g/full", "g/empty", "g/never"].into_iter().for_each(|place| cache.retire(place));
        assert_eq!(cache.places(), [Arc::from("g/full")]);
        let mut late = empty.subscribe(Selection::default(), 1).expect("all can be read");
        for watch in [&mut before, &mut late] {
            assert_eq!(watch.events.recv().await.map(|event| event.revision), None);
        }
        assert!(cache.resource("g/full").get(&ObjectKey::cluster("a")).expect("it can be read").is_some());
    }
}
