//! Kubernetes Events about objects, written in the background. Recording never waits and never fails a reconcile:
//! what cannot be written is dropped and counted.

mod content;
mod memory;
mod turns;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use apimachinery::meta::Time;
use apimachinery::{ApiResource, Object, ObjectKey, names};
use client::{Client, Patch, PatchOptions};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
pub use transport::EventType;
use transport::{EventDraft, EventPart, NewEvent, NewObject};
use world::World;

use self::content::{cut, home};
use self::memory::{Correlated, Digest, Memory, Pending, Seen};
use self::turns::Turns;

/// Events that wait to be written: a burst of a thousand templates with some ten events each, 4 MiB.
const PENDING: usize = 10_000;

/// Recording events must not slow down reconciliation: they are collected for this long and written together, so that
/// the store syncs once for all of them. Written one by one they cost several times as much.
const GATHER: Duration = Duration::from_millis(500);
/// Written at once at most: those of some ten objects. A flood is written over minutes, 100 a second.
const BATCH: usize = 50;

/// Repeats are counted in memory and written this often. Those that reverse an outcome are written at once: until then
/// the last event states what is no longer true.
const FLUSH: Duration = Duration::from_secs(30);

/// The object an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Involved {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub resource_version: String,
}

impl From<&Object> for Involved {
    fn from(object: &Object) -> Self {
        Self {
            api_version: object.api_version().to_owned(),
            kind: object.kind().to_owned(),
            namespace: object.namespace().unwrap_or_default().to_owned(),
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
            resource_version: object.resource_version().to_owned(),
        }
    }
}

/// The place of the UID in an identity.
const UID: usize = 4;

/// What an event can be about: an object, or its identity where the object is not at hand.
pub trait EventSubject {
    /// Its API version, kind, namespace, name, UID and resource version.
    fn identity(&self) -> [&str; 6];
}

impl EventSubject for Involved {
    fn identity(&self) -> [&str; 6] {
        let Self { api_version, kind, namespace, name, uid, resource_version } = self;
        [api_version, kind, namespace, name, uid, resource_version]
    }
}

impl EventSubject for Object {
    fn identity(&self) -> [&str; 6] {
        let namespace = self.namespace().unwrap_or_default();
        [self.api_version(), self.kind(), namespace, self.name(), self.uid(), self.resource_version()]
    }
}

impl<S: EventSubject> EventSubject for &S {
    fn identity(&self) -> [&str; 6] {
        (*self).identity()
    }
}

/// Cheap to clone; one task writes for all clones.
#[derive(Clone)]
pub struct EventRecorder {
    component: Arc<str>,
    world: World,
    pending: mpsc::Sender<Pending>,
    dropped: Arc<AtomicU64>,
    turns: Arc<Turns>,
}

impl EventRecorder {
    /// Starts the writing task, which runs until `stop`.
    pub fn start(client: Client, world: World, component: impl Into<Arc<str>>, stop: CancellationToken) -> Self {
        let (pending, entries) = mpsc::channel(PENDING);
        let dropped = Arc::new(AtomicU64::new(0));
        let writer = Writer { client, world: world.clone(), memory: Memory::default() };
        tokio::spawn(async move { stop.run_until_cancelled(writer.run(entries)).await });
        Self { component: component.into(), world, pending, dropped, turns: Arc::default() }
    }

    /// The same writer under another component's name.
    #[must_use]
    pub fn for_component(&self, component: impl Into<Arc<str>>) -> Self {
        Self { component: component.into(), ..self.clone() }
    }

    pub fn normal(&self, subject: impl EventSubject, reason: &'static str, message: impl Into<String>) {
        self.record(subject.identity(), EventType::Normal, reason, message.into());
    }

    pub fn warning(&self, subject: impl EventSubject, reason: &'static str, message: impl Into<String>) {
        self.record(subject.identity(), EventType::Warning, reason, message.into());
    }

    /// Whether no attempt failed last, so that a success that wrote nothing is not recorded.
    pub fn is_quiet(&self) -> bool {
        self.turns.is_quiet()
    }

    /// Records a success that wrote something, or that follows a failure: otherwise the attempt would seem to fail until
    /// the event of the failure expires.
    pub fn succeeded(
        &self,
        subject: impl EventSubject,
        reason: &'static str,
        wrote: bool,
        message: impl FnOnce() -> String,
    ) {
        let subject = subject.identity();
        if wrote || self.turns.is_failing(subject[UID], &self.component, reason) {
            self.record(subject, EventType::Normal, reason, message());
        }
    }

    fn record(&self, subject: [&str; 6], type_: EventType, reason: &'static str, message: String) {
        let (component, now) = (self.component.clone(), self.world.now());
        let is_turn = self.turns.note(subject[UID], &component, reason);
        let draft = draft(subject, type_, reason, &cut(message), component, now);
        if self.pending.try_send(Pending { draft, is_turn }).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many events found the queue full.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// An event that is to be written, with the name it gets.
struct Chosen {
    event: Arc<EventDraft>,
    digest: Digest,
    name: String,
}

impl Chosen {
    fn to_new(&self) -> NewObject {
        NewObject::Event(NewEvent { name: self.name.clone(), draft: Arc::clone(&self.event) })
    }
}

struct Writer {
    client: Client,
    world: World,
    memory: Memory,
}

impl Writer {
    async fn run(mut self, mut entries: mpsc::Receiver<Pending>) {
        let mut flush = tokio::time::interval(FLUSH);
        flush.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            tokio::select! {
                biased;
                // First, for it is due seldom: a flood of events would leave it no turn.
                _ = flush.tick() => {
                    self.flush().await;
                    continue;
                }
                entry = entries.recv() => match entry {
                    Some(entry) => batch.push(entry),
                    None => return,
                },
            }
            tokio::time::sleep(GATHER).await;
            while batch.len() < BATCH
                && let Ok(entry) = entries.try_recv()
            {
                batch.push(entry);
            }
            self.write(batch.drain(..)).await;
        }
    }

    async fn write(&mut self, events: impl Iterator<Item = Pending>) {
        // Those that repeat one of the same batch wait until it is written.
        let (mut chosen, mut repeats) = (BTreeMap::<String, Vec<Chosen>>::new(), Vec::<Correlated>::new());
        let mut in_batch = HashSet::new();
        for event in events {
            let correlated = self.memory.correlate(event);
            let (digest, source) = (correlated.digest, self.memory.source(&correlated.event));
            if in_batch.contains(&digest) {
                repeats.push(correlated);
            } else if !self.memory.repeat(&correlated) && self.memory.allow(source, Instant::now()) {
                in_batch.insert(digest);
                let event = correlated.event;
                let name = self.name_for(&event);
                let namespace = home(&event).to_owned();
                chosen.entry(namespace).or_default().push(Chosen { event: Arc::new(event), digest, name });
            }
        }
        let (resource, client) = (resource(), &self.client);
        let writes = chosen.into_iter().map(|(namespace, chosen)| {
            let events = chosen.iter().map(Chosen::to_new).collect();
            let resource = &resource;
            async move { (client.create_all(resource, Some(&namespace), events).await, namespace, chosen) }
        });
        for (written, namespace, chosen) in futures::future::join_all(writes).await {
            let written = match written {
                Ok(written) => written,
                Err(error) => {
                    tracing::debug!(namespace, err = %error, "Events cannot be written");
                    continue;
                }
            };
            for (Chosen { event, digest, name }, written) in chosen.into_iter().zip(written) {
                match written {
                    Ok(_) => {
                        let key = ObjectKey::namespaced(namespace.as_str(), name);
                        self.memory.remember(digest, event.at, key);
                    }
                    // A terminating namespace accepts no events; this is expected.
                    Err(error) => tracing::debug!(reason = event.reason, err = %error, "Event cannot be written"),
                }
            }
        }
        for repeat in repeats {
            self.memory.repeat(&repeat);
        }
        for seen in self.memory.turned() {
            write_count(&self.client, seen).await;
        }
    }

    /// As client-go names events. Some names of objects cannot begin that of an event: a role's may have colons, and any
    /// may be too long.
    fn name_for(&self, event: &EventDraft) -> String {
        let name = format!("{}.{:x}", event.text(EventPart::Name), self.world.random_u64());
        if names::is_dns1123_subdomain(&name).is_empty() { name } else { self.world.uuid() }
    }

    async fn flush(&mut self) {
        for seen in self.memory.unwritten() {
            write_count(&self.client, seen).await;
        }
    }
}

async fn write_count(client: &Client, seen: &Seen) {
    let mut patch = json!({"count": seen.count, "lastTimestamp": Time::new(seen.last)});
    if let Some(message) = &seen.message {
        patch["message"] = message.as_str().into();
    }
    if let Err(error) = client.patch(&resource(), &seen.key, &Patch::Merge(patch), &PatchOptions::default()).await {
        tracing::debug!(object = %seen.key, err = %error, "Count of an event cannot be written");
    }
}

fn resource() -> ApiResource {
    ApiResource::namespaced("", "v1", "Event", "events")
}

/// `subject` as in [`EventSubject`].
fn draft(
    subject: [&str; 6],
    type_: EventType,
    reason: &'static str,
    message: &str,
    component: Arc<str>,
    at: jiff::Timestamp,
) -> EventDraft {
    let [api_version, kind, namespace, name, uid, resource_version] = subject;
    let texts = [api_version, kind, namespace, name, uid, message, resource_version];
    EventDraft::new(texts, type_, reason, component, at)
}
