//! Informers: a cache updated by list and watch, and handlers that run on every change.
//!
//! An unreachable server removes nothing from a cache: it keeps the last known state, and only a successful list or a
//! watch event removes an object.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use apimachinery::object::Cooling;
use apimachinery::{ApiResource, Object, Status};
use client::{Client, ListOptions, WatchOptions};
use futures::StreamExt;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use transport::WatchEvent;
use world::{Level, World};

use crate::{Backoff, Cache, Caller, Reach};

/// One change of the cache, delivered after the cache was updated.
#[derive(Clone, Debug)]
pub enum Event {
    /// `initial`: it was there before the handler or the informer was.
    Added {
        object: Arc<Object>,
        initial: bool,
    },
    Updated {
        old: Arc<Object>,
        new: Arc<Object>,
    },
    /// The last observed state.
    Deleted(Arc<Object>),
}

impl Event {
    /// The newest state in the event.
    pub fn object(&self) -> &Arc<Object> {
        match self {
            Self::Added { object, .. } | Self::Deleted(object) | Self::Updated { new: object, .. } => object,
        }
    }

    /// False for an update that changes neither `metadata.generation` nor the deletion time stamp, true otherwise.
    pub fn changes_generation(&self) -> bool {
        match self {
            Self::Updated { old, new } => {
                old.generation() != new.generation() || old.uid() != new.uid() || old.is_deleting() != new.is_deleting()
            }
            _ => true,
        }
    }
}

type Handler = Box<dyn Fn(&Event) + Send + Sync>;

/// Up to which revision a cache holds everything that it selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The history of the server: a new one begins when a list is older than the cache, as after a restore of a backup.
    pub history: u64,
    pub revision: u64,
}

/// The selection of a resource's objects for an informer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Selection {
    pub namespace: Option<String>,
    pub label_selector: Option<String>,
    pub field_selector: Option<String>,
    /// Whether only the metadata of objects of a remote server is kept.
    pub metadata_only: bool,
}

/// Cheap to clone; all clones are the same informer.
#[derive(Clone)]
pub struct Informer(Arc<Inner>);

struct Inner {
    resource: ApiResource,
    selection: Selection,
    client: Client,
    world: World,
    cache: Cache,
    /// For objects that only this informer has; those of a server in this process are compressed by the server.
    cooling: Option<Mutex<Cooling>>,
    /// Also serialises changes: a handler receives each change once, in order, regardless of when it subscribed.
    handlers: Mutex<Vec<Handler>>,
    /// Called before a list or a watch follows another one.
    reconnecting: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
    synced: Level<bool>,
    progress: Mutex<Progress>,
    latest_first: AtomicBool,
    /// Why the server cannot be listed or watched at present.
    trouble: Mutex<Option<String>>,
    /// Logs when the server does not let this informer list or watch, and when it does again.
    caller: Caller,
    /// Ends the pause between two attempts.
    again: Notify,
    /// Ends a watch, so that a list follows.
    outdated: Notify,
    stop: CancellationToken,
}

/// client-go's reflector pauses from 0.8 s to 30 s. Ours starts lower: the usual cause is a server that restarts.
const MIN_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// A watch that lasted this long shows a healthy server; shorter ones count as failures and back off.
const HEALTHY_WATCH: Duration = Duration::from_secs(5);

/// kube-apiserver and our server send a bookmark each minute. A watch over a socket that delivers nothing for longer may
/// have lost its server behind an intermediary that keeps the connection: it is resumed, at the rate of client-go's
/// watches, which end after five to ten minutes.
const SILENCE: Duration = Duration::from_secs(300);

/// Objects in one page of a list over a socket.
const PAGE: usize = 500;

/// A server that lists more objects of one kind is broken or malicious: Kubernetes supports 150,000 pods.
const MOST: usize = 1_000_000;

impl Informer {
    /// Starts a task that runs until `stop`.
    pub fn start(
        client: Client,
        resource: ApiResource,
        selection: Selection,
        world: World,
        stop: CancellationToken,
    ) -> Self {
        Self::start_over(client, resource, selection, world, stop, &Reach::api_server())
    }

    pub(crate) fn start_over(
        client: Client,
        resource: ApiResource,
        selection: Selection,
        world: World,
        stop: CancellationToken,
        reach: &Arc<Reach>,
    ) -> Self {
        let informer = Self(Arc::new(Inner {
            caller: reach.caller(format!("watch {}", group_resource(&resource))),
            cooling: (!client.is_in_process()).then(Mutex::default),
            resource,
            selection,
            client,
            world,
            cache: Cache::default(),
            handlers: Mutex::default(),
            reconnecting: Mutex::default(),
            synced: Level::new(false),
            progress: Mutex::default(),
            latest_first: AtomicBool::new(false),
            trouble: Mutex::default(),
            again: Notify::new(),
            outdated: Notify::new(),
            stop: stop.clone(),
        }));
        let running = Running(informer.clone());
        tokio::spawn(async move { stop.run_until_cancelled(running.0.run()).await });
        informer
    }

    pub fn resource(&self) -> &ApiResource {
        &self.0.resource
    }

    pub fn cache(&self) -> &Cache {
        &self.0.cache
    }

    /// Whether the cache has held everything at least once.
    pub fn has_synced(&self) -> bool {
        self.0.synced.get()
    }

    pub(crate) fn progress(&self) -> Progress {
        *self.0.progress.lock()
    }

    /// The revision of the server up to which the cache has every change.
    pub fn revision(&self) -> u64 {
        self.progress().revision
    }

    /// Waits for the first complete list; returns false when the informer was stopped before.
    pub async fn synced(&self) -> bool {
        tokio::select! {
            biased;
            _ = self.0.synced.wait_for(|synced| *synced) => true,
            () = self.0.stop.cancelled() => self.has_synced(),
        }
    }

    /// Why the server cannot be reached at present, if so.
    pub fn trouble(&self) -> Option<String> {
        self.0.trouble.lock().clone()
    }

    /// Retries at once after failures; for callers that have found the server reachable again.
    pub fn try_again(&self) {
        if self.0.trouble.lock().is_some() {
            self.0.again.notify_one();
        }
    }

    /// Lists again, because the server has another history than the cache although its revision is not older.
    pub(crate) fn list_again(&self) {
        self.0.outdated.notify_one();
    }

    /// Delivers the existing objects and every change to `handler`, on the informer's own task: a handler only enqueues
    /// keys.
    /// It may read this cache but must not subscribe to this informer.
    pub fn subscribe(&self, handler: impl Fn(&Event) + Send + Sync + 'static) {
        let mut handlers = self.0.handlers.lock();
        for object in self.ordered(self.0.cache.list(None)) {
            handler(&Event::Added { object, initial: true });
        }
        if !self.0.stop.is_cancelled() {
            handlers.push(Box::new(handler));
        }
    }

    /// As [`Informer::subscribe`], but existing objects are delivered from the most recently changed to the oldest.
    /// Users may be waiting for objects that changed shortly before the start.
    pub fn subscribe_latest_first(&self, handler: impl Fn(&Event) + Send + Sync + 'static) {
        self.0.latest_first.store(true, Ordering::Relaxed);
        self.subscribe(handler);
    }

    /// Calls `handler` before the cache follows the server over another watch than before: the server may have another
    /// history now. The first time does not count.
    pub fn on_reconnect(&self, handler: impl Fn() + Send + Sync + 'static) {
        self.0.reconnecting.lock().push(Box::new(handler));
    }

    pub fn stop(&self) {
        self.0.stop.cancel();
    }

    fn ordered(&self, mut objects: Vec<Arc<Object>>) -> Vec<Arc<Object>> {
        if self.0.latest_first.load(Ordering::Relaxed) {
            objects.sort_by_cached_key(|object| std::cmp::Reverse(object.revision()));
        }
        objects
    }

    async fn run(&self) {
        let mut backoff = Backoff::new(MIN_PAUSE, MAX_PAUSE);
        let mut revision = None;
        loop {
            let started = Instant::now();
            let mut established = false;
            let error = match self.follow(&mut revision, &mut established).await {
                Ok(()) => None,
                Err(error) if error.is_expired() => {
                    revision = None;
                    Some(error)
                }
                Err(error) => {
                    // A watch that breaks is set up again, which takes 0.1 s and is worth no line. Failing to do so is.
                    if !established {
                        self.0.caller.failed(&error);
                    }
                    Some(error)
                }
            };
            if started.elapsed() >= HEALTHY_WATCH {
                backoff.reset();
            }
            if let Some(error) = &error {
                tracing::debug!(resource = %self.0.resource.plural, err = %error, "Watch ended; it is set up again");
            }
            *self.0.trouble.lock() = error.map(|error| error.to_string());
            let pause = backoff.next(&self.0.world);
            if tokio::time::timeout(pause, self.0.again.notified()).await.is_ok() {
                backoff.reset();
            }
        }
    }

    /// Lists if there is no revision to go on from, then watches until the server ends it.
    async fn follow(&self, revision: &mut Option<u64>, established: &mut bool) -> Result<(), client::Error> {
        if self.has_synced() {
            self.0.reconnecting.lock().iter().for_each(|handler| handler());
        }
        let at = match *revision {
            Some(at) if !self.went_back(at).await? => at,
            _ => {
                let at = self.list().await?;
                *revision = Some(at);
                at
            }
        };
        let watched = self.watch(at, revision, established).await;
        if let Err(client::Error::Status(status)) = &watched
            && *revision == Some(at)
            && (*established || !is_momentary(status))
        {
            // The server cannot continue from this revision, and would answer the same again.
            *revision = None;
        }
        watched
    }

    /// Watches from a revision until the server ends it, or is silent.
    async fn watch(&self, at: u64, revision: &mut Option<u64>, established: &mut bool) -> Result<(), client::Error> {
        let selection = &self.0.selection;
        let options = WatchOptions {
            label_selector: selection.label_selector.clone(),
            field_selector: selection.field_selector.clone(),
            resource_version: Some(at.to_string()),
            metadata_only: selection.metadata_only,
            ..WatchOptions::default()
        };
        let mut events = self.0.client.watch(&self.0.resource, selection.namespace.as_deref(), &options).await?;
        *self.0.trouble.lock() = None;
        *established = true;
        self.0.caller.succeeded();
        let silence = SILENCE.mul_f64(1.0 + self.0.world.random_fraction());
        let mut outdated = std::pin::pin!(self.0.outdated.notified());
        loop {
            let event = tokio::select! {
                biased;
                event = self.within(silence, events.next()) => event,
                () = &mut outdated => {
                    self.0.progress.lock().history += 1;
                    *revision = None;
                    None
                }
            };
            let Some(event) = event else { return Ok(()) };
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    *revision = Some(revision_of(&object)?);
                    self.put(object, false);
                }
                WatchEvent::Deleted(object) => {
                    *revision = Some(revision_of(&object)?);
                    self.remove(&object);
                }
                // A watch from revision 0 would begin with the present objects, without the deletions since.
                WatchEvent::Bookmark { resource_version: 0, .. } => {
                    let why = format!("a bookmark of {} has no resourceVersion", self.0.resource.plural);
                    return Err(client::Error::Status(Box::new(Status::internal(why))));
                }
                WatchEvent::Bookmark { resource_version, .. } => *revision = Some(resource_version),
                WatchEvent::Error(status) => return Err(client::Error::Status(status)),
            }
            self.reached(*revision);
        }
    }

    /// The next event; `None` after a silence of a server over a socket.
    async fn within<T>(&self, silence: Duration, next: impl Future<Output = Option<T>>) -> Option<T> {
        match self.0.client.is_in_process() {
            true => next.await,
            false => tokio::time::timeout(silence, next).await.ok().flatten(),
        }
    }

    /// Whether the server is at an older revision than this cache, as after a restore from a backup. A watch from a
    /// future revision delivers no event before the server reaches it.
    async fn went_back(&self, seen: u64) -> Result<bool, client::Error> {
        let Selection { namespace, metadata_only, .. } = &self.0.selection;
        // Without selectors the server need not search for the one object.
        let options = ListOptions { limit: 1, metadata_only: *metadata_only, ..ListOptions::default() };
        let now = self.0.client.list(&self.0.resource, namespace.as_deref(), &options).await?.resource_version;
        // Zero: a server behind an aggregated API may not count.
        Ok((1..seen).contains(&now))
    }

    async fn list(&self) -> Result<u64, client::Error> {
        let selection = &self.0.selection;
        let mut options = ListOptions {
            label_selector: selection.label_selector.clone(),
            field_selector: selection.field_selector.clone(),
            limit: if self.0.client.is_in_process() { 0 } else { PAGE },
            metadata_only: selection.metadata_only,
            ..ListOptions::default()
        };
        let mut items = Vec::new();
        loop {
            let page = self.0.client.list(&self.0.resource, selection.namespace.as_deref(), &options).await?;
            let more = page.items.len();
            items.extend(page.items);
            let ends = page.continue_token.is_empty();
            if !ends && (more == 0 || items.len() > MOST) {
                let why = format!("a list of {} has no end", self.0.resource.plural);
                return Err(client::Error::Status(Box::new(Status::internal(why))));
            }
            if ends {
                self.replace(items);
                self.listed(page.resource_version);
                return Ok(page.resource_version);
            }
            options.continue_token = Some(page.continue_token);
        }
    }

    /// Replaces the cache by a complete list: differences are delivered as events, and objects missing from the list as
    /// deletions.
    fn replace(&self, items: Vec<Arc<Object>>) {
        let initial = !self.has_synced();
        let known = self.0.cache.keys();
        let listed: HashSet<_> =
            if known.is_empty() { HashSet::new() } else { items.iter().map(|object| object.key()).collect() };
        for key in known {
            if !listed.contains(&key)
                && let Some(object) = self.0.cache.get(&key)
            {
                self.remove(&object);
            }
        }
        for object in if initial { self.ordered(items) } else { items } {
            self.put(object, initial);
        }
        self.0.synced.set(true);
    }

    /// The cache has every change up to this revision.
    fn reached(&self, revision: Option<u64>) {
        let mut progress = self.0.progress.lock();
        progress.revision = progress.revision.max(revision.unwrap_or_default());
    }

    /// The cache is a complete list of this revision.
    fn listed(&self, revision: u64) {
        let mut progress = self.0.progress.lock();
        if revision < progress.revision {
            progress.history += 1;
        }
        progress.revision = revision;
    }

    fn put(&self, object: Arc<Object>, initial: bool) {
        let handlers = self.0.handlers.lock();
        if let Some(cooling) = &self.0.cooling {
            cooling.lock().note(&object);
        }
        let event = match self.0.cache.insert(object.clone()) {
            None => Event::Added { object, initial },
            Some(old) if old.resource_version() == object.resource_version() && old.uid() == object.uid() => return,
            Some(old) => Event::Updated { old, new: object },
        };
        handlers.iter().for_each(|handler| handler(&event));
    }

    fn remove(&self, object: &Arc<Object>) {
        let handlers = self.0.handlers.lock();
        if self.0.cache.remove(&object.key()).is_some() {
            let event = Event::Deleted(object.clone());
            handlers.iter().for_each(|handler| handler(&event));
        }
    }
}

/// The task of an informer. Handlers hold references to the informer's owner: the end of the task drops them.
struct Running(Informer);

impl Drop for Running {
    fn drop(&mut self) {
        let Inner { handlers, reconnecting, .. } = &*self.0.0;
        // Dropped after the locks are released.
        let (handlers, reconnecting) =
            (std::mem::take(&mut *handlers.lock()), std::mem::take(&mut *reconnecting.lock()));
        drop((handlers, reconnecting));
    }
}

/// `PLURAL.GROUP`, as kubectl names resources.
fn group_resource(resource: &ApiResource) -> String {
    match resource.group.as_str() {
        "" => resource.plural.clone(),
        group => format!("{}.{group}", resource.plural),
    }
}

/// A refusal of a watch that says nothing about its revision.
fn is_momentary(status: &Status) -> bool {
    status.code == 429 || status.code >= 500
}

/// An event with an invalid resource version cannot be ordered: the watch is treated as broken.
fn revision_of(object: &Object) -> Result<u64, client::Error> {
    let version = object.resource_version();
    version.parse().map_err(|_| {
        let why = format!("an event about {} has the resourceVersion {version:?}, which is no number", object.key());
        client::Error::Status(Box::new(Status::internal(why)))
    })
}
