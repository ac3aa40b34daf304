//! API priority and fairness: the shell around the crate `flow-control`. A request from a socket is classified by the
//! FlowSchemas in the store, and occupies seats of its priority level until its response begins.
//!
//! A request that finds free seats locks its level twice, briefly, and allocates nothing. Requests of exempt levels
//! lock nothing, and callers in this process are not classified. `fairness` shares the processor among running
//! requests; this module bounds how many run and wait, and their order.

pub mod bootstrap;
mod dump;
mod in_flight;
mod plan;
mod seats;
mod stats;
mod watches;

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use apimachinery::status::StatusDetails;
use apimachinery::{Object, Status, StatusReason};
use arc_swap::{ArcSwap, Guard};
use flow_control::classify::{Request, Target};
use flow_control::cost::{self, Listing, Work};
use flow_control::limits::{Limits, Need, PERIOD};
use flow_control::{Nanos, classify, limits};
use futures::future::BoxFuture;
use http::header::{HeaderName, HeaderValue};
use metrics::{Histograms, Registry};
use parking_lot::Mutex;
use transport::Identity;

use crate::cache::{Cache, Event};
use crate::request::RequestInfo;
use in_flight::{InFlight, Underway};
use plan::{Configuration, Plan};
use seats::{Clock, Details, Waiter};
use watches::Watches;

pub(crate) use plan::Schema;
pub(crate) use seats::Seat;
pub use stats::METRICS;
pub(crate) use watches::Watching;

/// The headers that name the objects a request was classified by.
const SCHEMA: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const LEVEL: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// Seconds after which a refused client may try again.
const RETRY_AFTER: i32 = 1;
/// The part of a request's time that it may wait, and the most.
const WAITS: u32 = 4;
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// How requests are bounded, by the flags of kube-apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `--max-requests-inflight`; with fairness a part of the server's seats.
    pub reads: u32,
    /// `--max-mutating-requests-inflight`.
    pub writes: u32,
    /// `--enable-priority-and-fairness`; otherwise reads and writes have one limit each, and 0 means no limit.
    pub is_fair: bool,
    /// `--request-timeout`: the longest time of requests that are not long-running.
    pub request_timeout: Duration,
    /// `--min-request-timeout`: watches without a timeout end after one to two times this duration.
    pub min_request_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            reads: 400,
            writes: 200,
            is_fair: true,
            request_timeout: Duration::from_secs(60),
            min_request_timeout: Duration::from_secs(1800),
        }
    }
}

impl Settings {
    /// # Errors
    /// The flag whose value cannot be used.
    pub fn check(&self) -> Result<(), String> {
        if self.is_fair && self.reads.checked_add(self.writes).is_none_or(|seats| seats == 0) {
            return Err("--max-requests-inflight and --max-mutating-requests-inflight: with \
                        --enable-priority-and-fairness their sum is the number of seats and must be positive; with \
                        --enable-priority-and-fairness=false 0 is no limit"
                .to_owned());
        }
        if self.request_timeout.is_zero() {
            return Err("--request-timeout must be greater than 0".to_owned());
        }
        Ok(())
    }
}

/// The flow control of one server. It sets no bounds until it has settings.
pub(crate) struct FlowControl {
    settings: OnceLock<Settings>,
    configuration: Mutex<Configuration>,
    plan: ArcSwap<Plan>,
    clock: Clock,
    division: Arc<Division>,
    plain: Arc<InFlight>,
    waited: Histograms,
    watches: Arc<Watches>,
}

/// The admission of a request.
pub(crate) enum Entry {
    /// It runs; the seat is held until it is dropped.
    Runs(Option<Seat>),
    Waits(BoxFuture<'static, Result<Seat, Status>>),
    Refused(Status),
}

impl FlowControl {
    /// `seed` makes the queues of a flow unpredictable.
    pub fn new(registry: &Registry, seed: u64) -> Arc<Self> {
        let clock = Clock::default();
        let configuration = Configuration::new(seed);
        let flow = Arc::new(Self {
            settings: OnceLock::new(),
            plan: ArcSwap::from_pointee(Plan::default()),
            configuration: Mutex::new(configuration),
            clock,
            division: Arc::new(Division(AtomicU64::new(PERIOD))),
            plain: Arc::default(),
            waited: registry.histograms(&stats::WAITED),
            watches: Arc::default(),
        });
        let weak = Arc::downgrade(&flow);
        registry.collect(move |samples| {
            let Some(flow) = weak.upgrade() else { return false };
            stats::report(&flow.plan.load(), samples);
            true
        });
        flow
    }

    /// Bounds requests from now on; the first settings count.
    pub fn set(&self, settings: Settings) {
        if self.settings.set(settings).is_ok() {
            self.rebuild(&mut self.configuration.lock());
        }
    }

    /// The longest time of a request that is not long-running.
    pub fn request_timeout(&self) -> Duration {
        self.settings.get().map_or(Settings::default().request_timeout, |settings| settings.request_timeout)
    }

    /// The minimum duration of a watch without a timeout.
    pub fn min_request_timeout(&self) -> Duration {
        self.settings.get().map_or(Settings::default().min_request_timeout, |settings| settings.min_request_timeout)
    }

    /// Takes over a change in the store at once.
    pub fn observe(&self, place: &str, event: &Event) {
        let Some(kind) = plan::kind_of(place) else { return };
        let mut configuration = self.configuration.lock();
        let changed = match (&event.current, &event.previous) {
            (Some(object), _) => configuration.put(kind, object),
            (None, Some(object)) => configuration.remove(kind, Object::name(object)),
            (None, None) => false,
        };
        if changed {
            self.rebuild(&mut configuration);
        }
    }

    fn rebuild(&self, configuration: &mut Configuration) {
        let Some(settings) = self.settings.get().filter(|settings| settings.is_fair) else { return };
        let total = settings.reads.saturating_add(settings.writes);
        self.plan.store(Arc::new(configuration.plan(total, &self.clock)));
    }

    /// Begins a request, whose time is limited to `limit`. `classified` gets its schema.
    pub fn enter(
        &self,
        cache: &Cache,
        info: &RequestInfo,
        user: &Identity,
        limit: Duration,
        classified: &OnceLock<Arc<Schema>>,
    ) -> Entry {
        let Some(settings) = self.settings.get() else { return Entry::Runs(None) };
        let is_watch = info.verb == "watch";
        if info.is_long_running() && !is_watch {
            return Entry::Runs(None);
        }
        if !settings.is_fair {
            return if is_watch { Entry::Runs(None) } else { self.plainly(settings, info, user) };
        }
        let plan = self.plan.load();
        let request = Request { verb: info.verb, target: target(info) };
        let Some((index, schema)) = plan.classify(user, &request) else { return Entry::Runs(None) };
        let _ = classified.set(Arc::clone(schema));
        if schema.level.is_exempt() {
            return Entry::Runs(Some(Seat::exempt(Arc::clone(schema))));
        }
        let now = self.clock.now();
        self.division.divide(&plan, now);
        let work = self.work(cache, info, schema.level.most_seats());
        let by = plan.classifier.distinguisher(index, &user.user, &request.target);
        let hash = classify::flow_hash(plan.seed, &schema.name, by);
        let details = || Details::new(info, user, by);
        match Seat::take(schema, hash, work, now, details) {
            seats::Taken::Seat(seat) => Entry::Runs(Some(seat)),
            seats::Taken::Refused(refusal) => {
                schema.stats.refused(refusal.name());
                Entry::Refused(too_many())
            }
            seats::Taken::Waits(waiter) => self.wait(&plan, waiter, limit),
        }
    }

    /// Counts a watch of a client, which makes the writes that it receives dearer.
    pub fn watching(&self, info: &RequestInfo) -> Watching {
        self.watches.begin(info)
    }

    /// The seats of a request, of `most`.
    fn work(&self, cache: &Cache, info: &RequestInfo, most: u32) -> Work {
        if !info.is_resource {
            return Work::ONE;
        }
        match info.verb {
            "list" | "watch" => cost::of_list(&listing(cache, info), most),
            // Tokens are not stored.
            "create" if info.subresource == "token" => Work::ONE,
            "create" | "update" | "patch" | "delete" => cost::of_write(self.watches.reached(info), most),
            _ => Work::ONE,
        }
    }

    fn plainly(&self, settings: &Settings, info: &RequestInfo, user: &Identity) -> Entry {
        let is_write = !matches!(info.verb, "get" | "list" | "head" | "options");
        let most = if is_write { settings.writes } else { settings.reads };
        match Underway::begin(&self.plain, is_write, most) {
            Some(underway) => Entry::Runs(Some(Seat::plain(underway))),
            // The administrator can still inspect and repair the server.
            None if user.groups.iter().any(|group| group == "system:masters") => Entry::Runs(None),
            None => Entry::Refused(too_many()),
        }
    }

    fn wait(&self, plan: &Guard<Arc<Plan>>, waiter: Waiter, limit: Duration) -> Entry {
        let (plan, waited) = (Arc::clone(plan), self.waited.clone());
        let patience = (limit / WAITS).min(LONGEST_WAIT);
        let (division, clock) = (Arc::clone(&self.division), self.clock);
        Entry::Waits(Box::pin(async move {
            let deadline = tokio::time::Instant::now() + patience;
            let mut waiter = waiter;
            let seat = loop {
                let until = deadline.min(clock.at(division.due()));
                if let Some(seat) = waiter.granted_until(until).await {
                    break Some(seat);
                }
                if until == deadline {
                    break waiter.give_up();
                }
                // There may be no other request that divides the seats.
                division.divide(&plan, clock.now());
            };
            let schema = Arc::clone(waiter.schema());
            let labels = [schema.level.name(), schema.name.as_str(), if seat.is_some() { "true" } else { "false" }];
            waited.took(&labels, clock.since(waiter.begun()));
            seat.ok_or_else(|| {
                schema.stats.refused(stats::TIME_OUT);
                too_many()
            })
        }))
    }
}

/// When the seats of the server are divided again.
struct Division(AtomicU64);

impl Division {
    fn due(&self) -> Nanos {
        self.0.load(Relaxed)
    }

    /// Divides the seats among the levels by the demand of each since the last division, once a period.
    fn divide(&self, plan: &Plan, now: Nanos) {
        let due = self.due();
        if now < due || self.0.compare_exchange(due, now + PERIOD, Relaxed, Relaxed).is_err() {
            return;
        }
        let claims: Vec<(Limits, Need)> = plan.levels.values().map(|level| level.claim(now)).collect();
        for (level, seats) in plan.levels.values().zip(limits::divide(&claims)) {
            level.set_limit(now, seats);
        }
    }
}

/// Adds the headers that name the objects by which a request was classified.
pub(crate) fn mark(headers: &mut http::HeaderMap<HeaderValue>, classified: &OnceLock<Arc<Schema>>) {
    if let Some(schema) = classified.get() {
        headers.insert(SCHEMA, schema.uid.clone());
        headers.insert(LEVEL, schema.level_uid.clone());
    }
}

fn too_many() -> Status {
    let details = StatusDetails { retry_after_seconds: Some(RETRY_AFTER), ..StatusDetails::default() };
    let message = "Too many requests, please try again later.".to_owned();
    Status::failure(StatusReason::TooManyRequests, message).with_details(details)
}

fn target(info: &RequestInfo) -> Target<'_> {
    if info.is_resource {
        Target::Resource {
            group: &info.group,
            resource: &info.resource,
            subresource: &info.subresource,
            namespace: &info.namespace,
        }
    } else {
        Target::Path(&info.path)
    }
}

fn listing(cache: &Cache, info: &RequestInfo) -> Listing {
    let query = &info.query;
    let version = query.get("resourceVersion").unwrap_or_default();
    let is_watch = info.verb == "watch";
    let sends_none = is_watch
        && match query.text("sendInitialEvents") {
            Some(text) => text != "true" && text != "1",
            None => !matches!(version, "" | "0"),
        };
    let field_selector = query.get("fieldSelector").unwrap_or_default();
    let is_one = !info.name.is_empty() || field_selector.starts_with("metadata.name=");
    if sends_none || is_one {
        return Listing::default();
    }
    let limit = if is_watch { 0 } else { query.text("limit").and_then(|text| text.parse().ok()).unwrap_or(0) };
    Listing {
        stored: cache.known(&info.group, &info.resource).map(|resource| resource.len() as u64),
        limit,
        has_selector: !field_selector.is_empty() || query.text("labelSelector").is_some(),
        is_cached: is_watch || (query.text("continue").is_none() && (limit == 0 || version == "0")),
    }
}

#[cfg(test)]
mod tests;
