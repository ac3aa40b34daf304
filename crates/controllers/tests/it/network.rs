//! The network between the controllers and the servers: it can cut a server off, delay requests, fail them or lose
//! their responses, and passes every write to a guard before it arrives.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::convert::Infallible;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use http::{Method, StatusCode};
use parking_lot::Mutex;
use tokio::time::Instant;
use transport::{ApiService, Payload, Request, Response, Together};
use world::Level;

/// The server that the members are joined to.
pub const CONTROL: &str = "control";

/// Virtual time advances only when all tasks are idle. Two processes that revert each other's writes until their caches
/// agree would otherwise never receive the events in flight.
const REQUESTS_PER_MILLISECOND: u64 = 64;

/// A write in flight.
#[derive(Clone, Debug)]
pub struct Sent {
    pub server: String,
    pub method: Method,
    pub path: String,
}

/// Inspects a write before the server receives it.
pub type Guard = Arc<dyn Fn(Sent) -> BoxFuture<'static, ()> + Send + Sync>;

/// The response in place of the server's, if any.
pub type Answers = Arc<dyn Fn(&Sent) -> Option<StatusCode> + Send + Sync>;

/// Seeded failures: the same request at the same position of a history has the same fate.
#[derive(Clone, Copy, Debug)]
pub struct NetworkFaults {
    pub seed: u64,
    /// Of a thousand requests, how many fail; as many are executed and their responses lost.
    pub lost: u64,
    /// The delay of each event of a watch: caches are at least that old.
    pub lag: Duration,
}

type Answer = BoxFuture<'static, Result<Response, Infallible>>;

#[derive(Default)]
pub struct Network {
    cut: Level<BTreeSet<String>>,
    /// Resources of the control plane whose events are withheld.
    paused: Level<BTreeSet<String>>,
    faults: Mutex<Option<NetworkFaults>>,
    repeats: Mutex<HashMap<u64, u64>>,
    guard: Mutex<Option<Guard>>,
    answers: Mutex<Option<Answers>>,
    /// Servers besides the control plane and the members, by host name.
    services: Mutex<HashMap<String, ApiService>>,
    writes: Mutex<BTreeMap<String, u64>>,
    transactions: AtomicU64,
    mute: AtomicBool,
    sent: AtomicU64,
    record: Mutex<Option<Record>>,
}

/// All requests, and their times.
struct Record {
    since: Instant,
    lines: Vec<String>,
    shown: bool,
}

enum Delivery {
    Arrives,
    Refused,
    ResponseLost,
}

impl Network {
    /// Cuts a server off: requests fail, and watches end.
    pub fn cut(&self, server: &str) {
        self.cut.change(|cut| cut.insert(server.to_owned()));
    }

    pub fn heal(&self, server: &str) {
        self.cut.change(|cut| cut.remove(server));
    }

    pub fn is_cut(&self, server: &str) -> bool {
        self.cut.get().contains(server)
    }

    /// Withholds events of a resource of the control plane, until [`Network::release`]: caches are not updated.
    pub fn hold(&self, plural: &str) {
        self.paused.change(|paused| paused.insert(plural.to_owned()));
    }

    pub fn release(&self, plural: &str) {
        self.paused.change(|paused| paused.remove(plural));
    }

    pub fn set_faults(&self, faults: Option<NetworkFaults>) {
        *self.faults.lock() = faults;
        self.repeats.lock().clear();
    }

    /// Registers a service as `https://NAME`; a member of that name is replaced, also for open connections.
    pub fn serve(&self, name: &str, service: ApiService) {
        self.services.lock().insert(name.to_owned(), service);
    }

    pub fn service(&self, name: &str) -> Option<ApiService> {
        self.services.lock().get(name).cloned()
    }

    /// Accepts events and drops them: they are a large part of all writes, and have no effects.
    pub fn mute_events(&self) {
        self.mute.store(true, Ordering::Relaxed);
    }

    /// From now on records, or prints, every request and the status of its response.
    pub fn record(&self, shown: bool) {
        *self.record.lock() = Some(Record { since: Instant::now(), lines: Vec::new(), shown });
    }

    pub fn recorded(&self) -> Vec<String> {
        self.record.lock().take().map(|record| record.lines).unwrap_or_default()
    }

    /// Adds a step to the printed record.
    pub fn note(&self, step: &impl std::fmt::Debug) {
        if let Some(record) = &*self.record.lock()
            && record.shown
        {
            eprintln!("{:?} {step:?}", record.since.elapsed());
        }
    }

    fn write_down(&self, sent: &Sent, what: &str) {
        if let Some(record) = &mut *self.record.lock() {
            let Sent { server, method, path } = sent;
            let line = format!("{:?} {server} {method} {path} {what}", record.since.elapsed());
            if record.shown {
                eprintln!("{line}");
            } else {
                record.lines.push(line);
            }
        }
    }

    pub fn set_guard(&self, guard: Guard) {
        *self.guard.lock() = Some(guard);
    }

    /// Responds to some requests in their servers' place.
    pub fn set_answers(&self, answers: Option<Answers>) {
        *self.answers.lock() = answers;
    }

    /// Writes that arrived, by server, method and path, except periodic ones: events, leases and the status of
    /// clusters.
    pub fn writes(&self) -> BTreeMap<String, u64> {
        self.writes.lock().clone()
    }

    /// How many transactions of the control plane's store those writes were.
    pub fn transactions(&self) -> u64 {
        self.transactions.load(Ordering::Relaxed)
    }

    pub fn wrap(self: &Arc<Self>, server: &str, service: ApiService) -> ApiService {
        let (network, server) = (self.clone(), server.to_owned());
        ApiService::new(tower::service_fn(move |request: Request| {
            let target = |(method, path)| Sent { server: server.clone(), method, path };
            let sent = target((request.method().clone(), request.uri().path().to_owned()));
            let together = request.extensions().get::<Together>().map(Together::targets);
            let parts = together.map(|targets| targets.into_iter().map(target).collect());
            if network.mute.load(Ordering::Relaxed) && sent.path.contains("/events") && sent.method != Method::GET {
                let mut echo = Response::new(request.into_body());
                *echo.status_mut() = StatusCode::CREATED;
                return Box::pin(std::future::ready(Ok(echo))) as Answer;
            }
            let service = network.service(&server).unwrap_or_else(|| service.clone());
            let answer: Answer = Box::pin(tower::ServiceExt::oneshot(service, request));
            let network = network.clone();
            let carried: Answer = Box::pin(async move { Ok(network.carry(sent, parts, answer).await) });
            carried
        }))
    }

    /// `answer` is not executed before it is awaited. `parts`: the writes that the request stores together.
    async fn carry(self: &Arc<Self>, sent: Sent, parts: Option<Vec<Sent>>, answer: Answer) -> Response {
        let server = &sent.server;
        let (is_joint, parts) = (parts.is_some(), parts.unwrap_or_else(|| vec![sent.clone()]));
        for part in &parts {
            self.write_down(part, "sent");
        }
        let delivery = self.delay(&sent).await;
        if self.is_cut(server) || matches!(delivery, Delivery::Refused) {
            return unavailable();
        }
        let answers = self.answers.lock().clone();
        if let Some(code) = answers.and_then(|answers| parts.iter().find_map(|part| answers(part))) {
            // Sent one by one, each has its own response.
            return empty(if is_joint { StatusCode::CONFLICT } else { code });
        }
        let guard = self.guard.lock().clone();
        for part in parts.iter().filter(|part| part.method != Method::GET) {
            if let Some(guard) = &guard {
                guard(part.clone()).await;
            }
        }
        let Ok(mut response) = answer.await;
        let mut counts = false;
        for part in &parts {
            self.write_down(part, response.status().as_str());
            let Sent { method, path, .. } = part;
            let beats = path.ends_with("/status") && path.contains("/clusters/");
            let is_write = *method != Method::GET && response.status().is_success();
            let counts_starts = sent.server == CONTROL && path.contains("/karmada-system/configmaps");
            if is_write && !beats && !counts_starts && !path.contains("/events") && !path.contains("/leases") {
                *self.writes.lock().entry(format!("{server} {method} {path}")).or_default() += 1;
                counts = true;
            }
        }
        if counts && sent.server == CONTROL {
            self.transactions.fetch_add(1, Ordering::Relaxed);
        }
        if matches!(delivery, Delivery::ResponseLost) {
            return unavailable();
        }
        if let Some(Payload::Watch(stream)) = response.extensions().get::<Payload>() {
            let stream = stream.lock().take();
            if let Some(stream) = stream {
                let (network, server) = (self.clone(), server.to_owned());
                let end = async move { drop(network.cut.wait_for(|cut| cut.contains(&server)).await) };
                let network = self.clone();
                let plural = sent.path.rsplit('/').next().filter(|_| sent.server == CONTROL).unwrap_or_default();
                let plural: Arc<str> = plural.into();
                let stream = stream.then(move |event| {
                    let (network, plural) = (network.clone(), plural.clone());
                    async move {
                        let lag = network.faults.lock().map(|faults| faults.lag).filter(|lag| !lag.is_zero());
                        if let Some(lag) = lag {
                            tokio::time::sleep(lag).await;
                        }
                        network.paused.wait_for(|paused| !paused.contains(&*plural)).await;
                        event
                    }
                });
                response.extensions_mut().insert(Payload::watch(Box::pin(stream.take_until(Box::pin(end)))));
            }
        }
        response
    }

    async fn delay(&self, sent: &Sent) -> Delivery {
        if self.sent.fetch_add(1, Ordering::Relaxed).is_multiple_of(REQUESTS_PER_MILLISECOND) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let Some(faults) = *self.faults.lock() else { return Delivery::Arrives };
        let request = hash(&(faults.seed, &sent.server, sent.method.as_str(), &sent.path));
        let repeat = {
            let mut repeats = self.repeats.lock();
            let count = repeats.entry(request).or_default();
            *count += 1;
            *count
        };
        let luck = hash(&(request, repeat));
        if luck % 4 != 0 {
            tokio::time::sleep(Duration::from_millis(luck / 4 % 60)).await;
        }
        match luck / 1_000 % 1_000 {
            n if n < faults.lost => Delivery::Refused,
            n if n < 2 * faults.lost => Delivery::ResponseLost,
            _ => Delivery::Arrives,
        }
    }
}

fn unavailable() -> Response {
    empty(StatusCode::SERVICE_UNAVAILABLE)
}

fn empty(code: StatusCode) -> Response {
    let mut response = Response::new(transport::empty());
    *response.status_mut() = code;
    response
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
