//! Clients, watchers and servers of a history.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::time::Duration;

use apimachinery::ObjectKey;
use client::{DeleteOptions, ListOptions, Preconditions, WatchOptions};
use futures::StreamExt;
use parking_lot::Mutex;
use serde_json::{Value, json};
use storage::{Change, KeyRange, RangeRequest, Store};
use tokio_util::sync::CancellationToken;
use transport::WatchEvent;
use world::World;

use super::check::{linearizable, watched};
use super::record::{Call, Entry, Outcome, Request};
use crate::Engine;
use crate::apiserver::{Server, config_maps};
use crate::several::{allocations, service, services};

const CLIENTS: u64 = 8;
const KEYS: u64 = 5;
const NAMESPACE: &str = "default";
/// After a refusal: a server or etcd is away.
const PAUSE: Duration = Duration::from_millis(20);

/// xorshift; equal seeds draw equal numbers.
pub(crate) struct Rng(u64);

impl Rng {
    pub fn of(name: &str) -> Self {
        let seed = setting("HISTORY_SEED", 1);
        Self(name.bytes().fold(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, |all, byte| {
            (all ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        }))
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

pub(crate) fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// A server until it crashes.
#[derive(Clone)]
struct Life {
    server: Arc<Server>,
    crashed: CancellationToken,
}

pub(crate) struct History {
    shared: Arc<Shared>,
    watches: Vec<tokio::task::JoinHandle<Vec<(u64, String)>>>,
    start: u64,
}

struct Shared {
    lives: Vec<Mutex<Life>>,
    /// By how many seconds the clock of each server is wrong.
    clocks: Vec<Arc<AtomicI64>>,
    clock: AtomicU64,
    calls: Mutex<Vec<Call>>,
    /// The clients may end once they have made their calls.
    enough: AtomicBool,
    /// The last revision of the history, once it is known.
    last: tokio::sync::watch::Sender<Option<u64>>,
}

impl Shared {
    fn life(&self, number: usize) -> Life {
        self.lives[number % self.lives.len()].lock().clone()
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, SeqCst)
    }
}

impl History {
    /// Starts the servers and, on each of them, two watches.
    pub async fn begin(engine: &Engine, servers: usize) -> Self {
        let mut lives = Vec::new();
        let clocks: Vec<Arc<AtomicI64>> = (0..servers).map(|_| Arc::default()).collect();
        for (number, clock) in clocks.iter().enumerate() {
            let world = World::skewed_by(Arc::clone(clock));
            let server = Arc::new(Server::with(engine.store_of(number).await, world).await);
            lives.push(Mutex::new(Life { server, crashed: CancellationToken::new() }));
        }
        let start = engine.store().await.revision().await.unwrap();
        let last = tokio::sync::watch::Sender::new(None);
        let (clock, enough) = (AtomicU64::new(1), AtomicBool::new(true));
        let shared = Arc::new(Shared { lives, clocks, clock, calls: Mutex::default(), enough, last });
        let watches = (0..2 * servers).map(|number| tokio::spawn(watch(Arc::clone(&shared), number, start))).collect();
        Self { shared, watches, start }
    }

    /// All calls of all clients.
    pub async fn calls(self) -> Self {
        self.clients(calls).await.unwrap();
        self
    }

    /// The same, while `faults` happen.
    pub async fn calls_beside(self, faults: impl AsyncFnOnce(&Self)) -> Self {
        tokio::select! {
            ended = self.clients(calls) => drop(ended.unwrap()),
            () = faults(&self) => panic!("faults have no end"),
        }
        self
    }

    /// All calls of all clients, and further ones until the last of the `faults`.
    pub async fn calls_during(self, faults: impl AsyncFnOnce(&Self)) -> Self {
        self.shared.enough.store(false, SeqCst);
        let clients = self.clients(calls);
        faults(&self).await;
        let before = self.shared.calls.lock().len();
        self.shared.enough.store(true, SeqCst);
        clients.await.unwrap();
        let calls = self.shared.calls.lock();
        let unknown = calls.iter().filter(|call| matches!(call.outcome, Outcome::Unknown)).count();
        eprintln!("{} calls, {before} of them beside faults, {unknown} without an answer", calls.len());
        drop(calls);
        self
    }

    /// Clients that create services instead, while `faults` happen. No two services may have an address or port in
    /// common.
    pub async fn services_beside(self, engine: &Engine, faults: impl AsyncFnOnce(&Self)) {
        let acknowledged = tokio::select! {
            ended = self.clients(create_services) => ended.unwrap(),
            () = faults(&self) => panic!("faults have no end"),
        };
        let range = KeyRange::prefix(format!("/registry/core/services/{NAMESPACE}/"));
        let stored = engine.store().await.range(RangeRequest { range, revision: None, limit: 0 }).await.unwrap();
        let mut allocated = BTreeMap::new();
        for service in stored.items {
            let service: Value = serde_json::from_slice(&service.value).unwrap();
            let name = service["metadata"]["name"].as_str().unwrap().to_owned();
            for allocation in allocations(&service) {
                let other = allocated.insert(allocation.clone(), name.clone());
                assert_eq!(other, None, "{name} has {allocation} as well");
            }
        }
        for (name, allocation) in acknowledged.into_iter().flatten() {
            assert_eq!(allocated.get(&allocation), Some(&name), "{allocation} was acknowledged");
        }
    }

    fn clients<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        client: fn(Arc<Shared>, u64) -> F,
    ) -> impl Future<Output = Result<Vec<T>, tokio::task::JoinError>> + use<T, F> {
        let clients = (0..CLIENTS).map(|number| tokio::spawn(client(Arc::clone(&self.shared), number)));
        futures::future::try_join_all(clients.collect::<Vec<_>>())
    }

    /// A server ends in the midst of its requests, and another one takes its place.
    pub async fn crash(&self, number: usize, engine: &Engine) {
        let world = World::skewed_by(Arc::clone(&self.shared.clocks[number]));
        let server = Arc::new(Server::with(engine.store_of(number).await, world).await);
        let life = Life { server, crashed: CancellationToken::new() };
        let old = std::mem::replace(&mut *self.shared.lives[number].lock(), life);
        old.crashed.cancel();
        old.server.crash();
    }

    /// Makes the clock of a server wrong by so many seconds.
    pub fn set_clock(&self, number: usize, skewed_by: i64) {
        self.shared.clocks[number].store(skewed_by, SeqCst);
    }

    /// A client of a server.
    pub fn client(&self, number: usize) -> client::Client {
        self.shared.life(number).server.client.clone()
    }

    /// Compares what was recorded with the store.
    pub async fn end(self, engine: &Engine) {
        if let Engine::Etcd(etcd) = engine {
            etcd.signal("-CONT");
        }
        let log = log(&*engine.store().await, self.start).await;
        let last = log.last().map_or(self.start, |entry| entry.revision);
        self.shared.last.send_replace(Some(last));
        for watch in self.watches {
            let seen = watch.await.unwrap();
            watched(self.start, &seen, &log).unwrap();
            assert_eq!(seen.len(), log.len(), "a watch has missed changes");
        }
        let calls = self.shared.calls.lock().clone();
        linearizable(&calls, &log).unwrap();
    }
}

/// Every change of the objects after a revision, from the store itself.
async fn log(store: &dyn Store, start: u64) -> Vec<Entry> {
    let prefix = format!("/registry/core/configmaps/{NAMESPACE}/");
    let last = store.revision().await.unwrap();
    let mut watch = store.watch(KeyRange::prefix(prefix.clone()), start).await.unwrap();
    store.request_progress().await.unwrap();
    let mut log = Vec::new();
    loop {
        let batch = watch.next().await.unwrap().unwrap();
        for (revision, change) in batch.changes {
            let key = String::from_utf8_lossy(&change.key()[prefix.len()..]).into_owned();
            let (value, previous) = match change {
                Change::Put { current, previous } => (Some(value_of(&current.value)), previous),
                Change::Delete { previous } => (None, Some(previous)),
            };
            log.push(Entry { revision, key, value, previous: previous.map(|it| it.mod_revision) });
        }
        if batch.revision >= last {
            return log;
        }
    }
}

fn value_of(stored: &[u8]) -> String {
    let object: Value = serde_json::from_slice(stored).unwrap();
    object["data"]["v"].as_str().unwrap().to_owned()
}

/// Watches, and resumes where a server crashed, until the last revision.
async fn watch(shared: Arc<Shared>, number: usize, start: u64) -> Vec<(u64, String)> {
    let (mut seen, mut position) = (Vec::new(), start);
    let mut last = shared.last.subscribe();
    loop {
        let Life { server, crashed } = shared.life(number);
        let options = WatchOptions { resource_version: Some(position.to_string()), ..WatchOptions::default() };
        let opened = crashed.run_until_cancelled(server.client.watch(&config_maps(), Some(NAMESPACE), &options)).await;
        let Some(Ok(mut events)) = opened else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        loop {
            let done = last.borrow_and_update().is_some_and(|last| position >= last);
            if done {
                return seen;
            }
            let event = tokio::select! {
                biased;
                () = crashed.cancelled() => break,
                event = events.next() => event,
                _ = last.changed() => continue,
            };
            match event {
                Some(WatchEvent::Added(it) | WatchEvent::Modified(it) | WatchEvent::Deleted(it)) => {
                    position = it.revision();
                    seen.push((position, it.name().to_owned()));
                }
                Some(WatchEvent::Bookmark { .. }) => {}
                Some(WatchEvent::Error(status)) => panic!("{status:?}"),
                None => break,
            }
        }
    }
}

/// One client: for each object it knows the revision that it last read or wrote.
async fn calls(shared: Arc<Shared>, client: u64) {
    let mut rng = Rng::of(&format!("client {client}"));
    let mut known = [0_u64; KEYS as usize];
    let (mut number, mut answered_calls) = (0, 0);
    while answered_calls < setting("HISTORY_CALLS", 60) || !shared.enough.load(SeqCst) {
        number += 1;
        let Life { server, crashed } = shared.life(usize::try_from(client + rng.below(2)).unwrap());
        let at = usize::try_from(rng.below(KEYS)).unwrap();
        let (key, value, base) = (format!("k{at}"), format!("{client}-{number}"), known[at]);
        let request = match rng.below(10) {
            0 | 1 => Request::Create { key, value },
            2 | 3 if base > 0 => Request::Update { key, value, base },
            4 if base > 0 => Request::Delete { key, base },
            5 | 6 => Request::List,
            _ => Request::Get { key },
        };
        let called = shared.tick();
        let outcome = crashed.run_until_cancelled(send(&server.client, &request)).await.unwrap_or(Outcome::Unknown);
        let answered = shared.tick();
        match &outcome {
            Outcome::Written(revision) | Outcome::Read(revision) => known[at] = *revision,
            Outcome::Listed(_, items) => {
                for (key, revision) in items {
                    known[key[1..].parse::<usize>().unwrap()] = *revision;
                }
            }
            _ => {}
        }
        let is_unknown = matches!(outcome, Outcome::Unknown);
        shared.calls.lock().push(Call { called, answered, request, outcome });
        if is_unknown {
            // A crashed server is replaced, or etcd recovers.
            tokio::time::sleep(PAUSE).await;
        } else {
            answered_calls += 1;
        }
    }
}

async fn send(client: &client::Client, request: &Request) -> Outcome {
    let maps = config_maps();
    let object = |key: &str, value: &str, base: Option<u64>| {
        let mut metadata = json!({"name": key, "namespace": NAMESPACE});
        if let Some(base) = base {
            metadata["resourceVersion"] = base.to_string().into();
        }
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"v": value}})
    };
    let name = ObjectKey::namespaced(NAMESPACE, request.key());
    let answer = match request {
        Request::Create { key, value } => client.create(&maps, &object(key, value, None)).await.map(|it| it.revision()),
        Request::Update { key, value, base } => {
            client.update(&maps, &object(key, value, Some(*base))).await.map(|it| it.revision())
        }
        Request::Delete { base, .. } => {
            let unchanged = Preconditions { uid: None, resource_version: Some(base.to_string()) };
            let options = DeleteOptions { preconditions: Some(unchanged), ..DeleteOptions::default() };
            client.delete(&maps, &name, &options).await.map(|_| 0)
        }
        Request::Get { .. } => match client.get(&maps, &name).await {
            Ok(found) => return Outcome::Read(found.revision()),
            Err(error) => Err(error),
        },
        Request::List => match client.list(&maps, Some(NAMESPACE), &ListOptions::default()).await {
            Ok(list) => {
                let items = list.items.iter().map(|it| (it.name().to_owned(), it.revision())).collect();
                return Outcome::Listed(list.resource_version, items);
            }
            Err(error) => Err(error),
        },
    };
    match answer {
        Ok(revision) => Outcome::Written(revision),
        Err(error) if error.is_already_exists() => Outcome::Exists,
        Err(error) if error.is_not_found() => Outcome::Absent,
        Err(error) if error.is_conflict() => Outcome::Conflict,
        Err(error) if error.status().is_some_and(|status| status.code < 500) => panic!("{request:?}: {error}"),
        Err(_) => Outcome::Unknown,
    }
}

/// The names and allocations of acknowledged services.
async fn create_services(shared: Arc<Shared>, client: u64) -> Vec<(String, String)> {
    let (mut rng, mut acknowledged) = (Rng::of(&format!("services {client}")), Vec::new());
    for number in 0..setting("HISTORY_CALLS", 60) / 4 {
        let Life { server, crashed } = shared.life(usize::try_from(client + rng.below(2)).unwrap());
        let name = format!("s{client}-{number}");
        let object = service(&name, json!({"type": "NodePort"}));
        let created = crashed.run_until_cancelled(server.client.create(&services(), &object)).await;
        match created {
            Some(Ok(created)) => {
                let created = created.to_value().unwrap();
                acknowledged.extend(allocations(&created).into_iter().map(|it| (name.clone(), it)));
            }
            _ => tokio::time::sleep(PAUSE).await,
        }
    }
    acknowledged
}
