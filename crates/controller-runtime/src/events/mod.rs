//! Kubernetes Events about objects, written in the background. Recording never waits and never fails a reconcile:
//! what cannot be written is dropped and counted.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use apimachinery::meta::Time;
use apimachinery::{ApiResource, Object, ObjectKey};
use client::{Client, Patch, PatchOptions};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use world::World;

/// Events that wait to be written: a burst of a thousand templates with some ten events each.
const PENDING: usize = 10_000;

/// Events remembered for counting repeats (client-go's cache has 4096).
const REMEMBERED: usize = 4096;

/// Recording events must not slow down reconciliation: they are collected for this long and written together, so that
/// the store syncs once for all of them. Written one by one they cost several times as much.
const GATHER: Duration = Duration::from_millis(500);
/// Written at once at most: those of some ten objects. A flood is written over minutes, 100 a second.
const BATCH: usize = 50;

/// Repeats are counted in memory and written this often.
const FLUSH: Duration = Duration::from_secs(30);

/// Per object and component, as client-go's spam filter: 25 at once, then one every five minutes.
const OBJECT_BURST: f64 = 25.0;
const OBJECT_REFILL: Duration = Duration::from_secs(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    Normal,
    Warning,
}

impl EventType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

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

#[derive(Clone, Debug)]
struct Entry {
    involved: Involved,
    type_: EventType,
    reason: &'static str,
    message: String,
    component: Arc<str>,
    at: jiff::Timestamp,
}

impl Entry {
    /// The deduplication key, the resource version of the object, and the time.
    fn split(self) -> (Content, String, jiff::Timestamp) {
        let Self { mut involved, type_, reason, message, component, at } = self;
        let resource_version = std::mem::take(&mut involved.resource_version);
        (Content { involved, type_, reason, message, component }, resource_version, at)
    }
}

/// Cheap to clone; one task writes for all clones.
#[derive(Clone)]
pub struct EventRecorder {
    component: Arc<str>,
    world: World,
    pending: mpsc::Sender<Entry>,
    dropped: Arc<AtomicU64>,
}

impl EventRecorder {
    /// Starts the writing task, which runs until `stop`.
    pub fn start(client: Client, world: World, component: impl Into<Arc<str>>, stop: CancellationToken) -> Self {
        let (pending, entries) = mpsc::channel(PENDING);
        let dropped = Arc::new(AtomicU64::new(0));
        let writer = Writer { client, world: world.clone(), memory: Memory::default() };
        tokio::spawn(async move { stop.run_until_cancelled(writer.run(entries)).await });
        Self { component: component.into(), world, pending, dropped }
    }

    /// The same writer under another component's name.
    #[must_use]
    pub fn for_component(&self, component: impl Into<Arc<str>>) -> Self {
        Self { component: component.into(), ..self.clone() }
    }

    pub fn normal(&self, involved: impl Into<Involved>, reason: &'static str, message: impl Into<String>) {
        self.record(involved.into(), EventType::Normal, reason, message.into());
    }

    pub fn warning(&self, involved: impl Into<Involved>, reason: &'static str, message: impl Into<String>) {
        self.record(involved.into(), EventType::Warning, reason, message.into());
    }

    fn record(&self, involved: Involved, type_: EventType, reason: &'static str, mut message: String) {
        // The API allows 1 KiB in `message`.
        if message.len() > 1024 {
            let cut = (0..=1021).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
            message.truncate(cut);
            message.push_str("...");
        }
        let entry = Entry { involved, type_, reason, message, component: self.component.clone(), at: self.world.now() };
        if self.pending.try_send(entry).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many events found the queue full.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// The content of an event without its time. The resource version of the object is left out: the same event for a newer
/// state is a repeat.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Content {
    involved: Involved,
    type_: EventType,
    reason: &'static str,
    message: String,
    component: Arc<str>,
}

/// An event that is to be written, with the version of its object and the name it gets.
struct Chosen {
    content: Arc<Content>,
    resource_version: String,
    at: jiff::Timestamp,
    name: String,
}

struct Seen {
    key: ObjectKey,
    count: u64,
    last: jiff::Timestamp,
    unwritten: bool,
}

/// Recently written events; pure.
#[derive(Default)]
struct Memory {
    seen: HashMap<Arc<Content>, Seen>,
    order: VecDeque<Arc<Content>>,
    tokens: HashMap<(String, Arc<str>), (f64, Instant)>,
    /// So many buckets are worth looking for full ones.
    sweep_at: usize,
}

impl Memory {
    /// Whether the event is a repeat, which is then counted.
    fn repeat(&mut self, content: &Content, at: jiff::Timestamp) -> bool {
        match self.seen.get_mut(content) {
            Some(seen) => {
                seen.count += 1;
                seen.last = at;
                seen.unwritten = true;
                true
            }
            None => false,
        }
    }

    fn remember(&mut self, content: Arc<Content>, at: jiff::Timestamp, key: ObjectKey) {
        if self.order.len() >= REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        self.order.push_back(content.clone());
        self.seen.insert(content, Seen { key, count: 1, last: at, unwritten: false });
    }

    /// Takes a token of the object's bucket.
    fn allow(&mut self, content: &Content, now: Instant) -> bool {
        // Looking through all of them costs a share of each event only: next time there are twice as many as are left. 100
        // events a second leave 30,000 within the five minutes it takes to refill one.
        if self.tokens.len() >= self.sweep_at.max(REMEMBERED) {
            self.tokens.retain(|_, (tokens, at)| refilled(*tokens, *at, now) < OBJECT_BURST);
            self.sweep_at = 2 * self.tokens.len();
        }
        let bucket =
            self.tokens.entry((content.involved.uid.clone(), content.component.clone())).or_insert((OBJECT_BURST, now));
        let tokens = refilled(bucket.0, bucket.1, now);
        let allowed = tokens >= 1.0;
        *bucket = (if allowed { tokens - 1.0 } else { tokens }, now);
        allowed
    }
}

fn refilled(tokens: f64, at: Instant, now: Instant) -> f64 {
    let more = now.saturating_duration_since(at).as_secs_f64() / OBJECT_REFILL.as_secs_f64();
    (tokens + more).min(OBJECT_BURST)
}

struct Writer {
    client: Client,
    world: World,
    memory: Memory,
}

impl Writer {
    async fn run(mut self, mut entries: mpsc::Receiver<Entry>) {
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

    async fn write(&mut self, entries: impl Iterator<Item = Entry>) {
        // Those that repeat one of the same batch wait until it is written.
        let (mut chosen, mut repeats) = (BTreeMap::<String, Vec<Chosen>>::new(), Vec::new());
        let mut in_batch = HashSet::new();
        for entry in entries {
            let (content, resource_version, at) = entry.split();
            if in_batch.contains(&content) {
                repeats.push((content, at));
            } else if !self.memory.repeat(&content, at) && self.memory.allow(&content, Instant::now()) {
                let namespace =
                    if content.involved.namespace.is_empty() { "default" } else { &content.involved.namespace };
                let namespace = namespace.to_owned();
                let name = format!("{}.{:x}", content.involved.name, self.world.random_u64());
                let content = Arc::new(content);
                in_batch.insert(content.clone());
                chosen.entry(namespace).or_default().push(Chosen { content, resource_version, at, name });
            }
        }
        let (resource, client) = (resource(), &self.client);
        let writes = chosen.into_iter().map(|(namespace, chosen)| {
            let documents = chosen.iter().map(|chosen| document(chosen, &namespace)).collect();
            let resource = &resource;
            async move { (client.create_all(resource, Some(&namespace), documents).await, namespace, chosen) }
        });
        for (written, namespace, chosen) in futures::future::join_all(writes).await {
            let written = match written {
                Ok(written) => written,
                Err(error) => {
                    tracing::debug!(namespace, err = %error, "Events cannot be written");
                    continue;
                }
            };
            for (Chosen { content, at, name, .. }, written) in chosen.into_iter().zip(written) {
                match written {
                    Ok(_) => self.memory.remember(content, at, ObjectKey::namespaced(namespace.as_str(), name)),
                    // A terminating namespace accepts no events; this is expected.
                    Err(error) => tracing::debug!(reason = content.reason, err = %error, "Event cannot be written"),
                }
            }
        }
        for (content, at) in repeats {
            self.memory.repeat(&content, at);
        }
    }

    async fn flush(&mut self) {
        let resource = resource();
        for seen in self.memory.seen.values_mut().filter(|seen| seen.unwritten) {
            seen.unwritten = false;
            let patch = Patch::Merge(json!({"count": seen.count, "lastTimestamp": Time::new(seen.last)}));
            if let Err(error) = self.client.patch(&resource, &seen.key, &patch, &PatchOptions::default()).await {
                tracing::debug!(object = %seen.key, err = %error, "Count of an event cannot be written");
            }
        }
    }
}

fn resource() -> ApiResource {
    ApiResource::namespaced("", "v1", "Event", "events")
}

fn document(chosen: &Chosen, namespace: &str) -> serde_json::Value {
    let Content { involved, type_, reason, message, component } = &*chosen.content;
    let at = Time::new(chosen.at);
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": chosen.name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": involved.api_version, "kind": involved.kind, "namespace": involved.namespace,
            "name": involved.name, "uid": involved.uid, "resourceVersion": chosen.resource_version,
        },
        "type": type_.as_str(), "reason": reason, "message": message,
        "source": {"component": &**component}, "reportingComponent": &**component, "reportingInstance": "",
        "count": 1, "firstTimestamp": at, "lastTimestamp": at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(message: &str) -> Entry {
        Entry {
            involved: Involved { uid: "u".into(), name: "n".into(), ..Involved::default() },
            type_: EventType::Normal,
            reason: "R",
            message: message.into(),
            component: "c".into(),
            at: jiff::Timestamp::UNIX_EPOCH,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn repeats_are_counted_and_a_talkative_object_is_silenced() {
        let mut memory = Memory::default();
        let content = |message| entry(message).split().0;
        let at = jiff::Timestamp::UNIX_EPOCH;
        assert!(!memory.repeat(&content("a"), at));
        memory.remember(Arc::new(content("a")), at, ObjectKey::cluster("n.1"));
        let newer = Entry { involved: Involved { resource_version: "9".into(), ..entry("a").involved }, ..entry("a") };
        assert!(memory.repeat(&newer.split().0, at) && !memory.repeat(&content("b"), at));
        let allowed = (0..40).filter(|_| memory.allow(&content("x"), Instant::now())).count();
        assert_eq!(allowed, 25);
        tokio::time::advance(Duration::from_secs(301)).await;
        assert!(memory.allow(&content("x"), Instant::now()) && !memory.allow(&content("x"), Instant::now()));
    }
}
