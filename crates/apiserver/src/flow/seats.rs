//! The seats of one priority level, shared by requests: a lock around the value that decides.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use flow_control::Nanos;
use flow_control::cost::{Work, most_seats};
use flow_control::level::{Arrival, Counts, Granted, Level, Refusal, Running, Ticket};
use flow_control::limits::{Limits, Need};
use flow_control::objects::{LimitResponse, PriorityLevel, Queuing};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;
use transport::Identity;

use super::in_flight::Underway;
use super::plan::Schema;
use super::stats::CANCELLED;
use crate::request::RequestInfo;

/// Nanoseconds since the server began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Default for Clock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock {
    pub fn now(&self) -> Nanos {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(Nanos::MAX)
    }

    pub fn at(&self, at: Nanos) -> Instant {
        self.0 + Duration::from_nanos(at)
    }

    pub fn since(&self, at: Nanos) -> Duration {
        Duration::from_nanos(self.now().saturating_sub(at))
    }
}

/// A request that waits, for the dumps.
#[derive(Debug)]
pub(super) struct Details {
    pub distinguisher: String,
    pub user: String,
    pub verb: &'static str,
    pub path: String,
    pub namespace: String,
    pub name: String,
    pub api_version: String,
    pub resource: String,
    pub subresource: String,
}

impl Details {
    pub fn new(info: &RequestInfo, user: &Identity, distinguisher: &str) -> Self {
        let api_version =
            if info.group.is_empty() { info.version.clone() } else { format!("{}/{}", info.group, info.version) };
        Self {
            distinguisher: distinguisher.to_owned(),
            user: user.user.clone(),
            verb: info.verb,
            path: info.path.clone(),
            namespace: info.namespace.clone(),
            name: info.name.clone(),
            api_version,
            resource: info.resource.clone(),
            subresource: info.subresource.clone(),
        }
    }
}

/// The data of a waiting request.
#[derive(Debug)]
pub(super) struct Entry {
    grant: oneshot::Sender<Running>,
    pub schema: Arc<Schema>,
    pub details: Box<Details>,
}

/// One priority level.
#[derive(Debug)]
pub(crate) struct Seats {
    name: String,
    is_exempt: bool,
    clock: Clock,
    /// Seats of one request.
    most: AtomicU32,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    level: Level<Entry>,
    queuing: Option<Queuing>,
    limits: Limits,
    need: Need,
    /// A task releases seats that are occupied after the end of writes.
    is_ticking: bool,
}

impl Seats {
    pub(super) fn new(name: &str, spec: &PriorityLevel, limits: Limits, clock: Clock) -> Arc<Self> {
        let queuing = queuing(spec);
        Arc::new(Self {
            name: name.to_owned(),
            is_exempt: limits.is_exempt,
            clock,
            most: AtomicU32::new(most_seats(limits.nominal)),
            state: Mutex::new(State {
                level: Level::new(queuing, limits.nominal),
                queuing,
                limits,
                need: Need::default(),
                is_ticking: false,
            }),
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn is_exempt(&self) -> bool {
        self.is_exempt
    }

    pub fn most_seats(&self) -> u32 {
        self.most.load(Relaxed)
    }

    pub fn limits(&self) -> Limits {
        self.state.lock().limits
    }

    pub fn counts(&self) -> Counts {
        self.state.lock().level.counts()
    }

    /// Reads the level.
    pub(super) fn read<R>(&self, reading: impl FnOnce(&Level<Entry>) -> R) -> R {
        reading(&self.state.lock().level)
    }

    /// Changes the level to its new configuration. It begins with the seats of its shares.
    pub fn configure(self: &Arc<Self>, spec: &PriorityLevel, limits: Limits) {
        let queuing = queuing(spec);
        self.most.store(most_seats(limits.nominal), Relaxed);
        self.change(|state, granted| {
            if (state.queuing, state.limits) != (queuing, limits) {
                (state.queuing, state.limits) = (queuing, limits);
                state.level.configure(self.clock.now(), queuing, limits.nominal, granted);
            }
        });
    }

    /// Its demand for the next period, from the last one.
    pub fn claim(&self, now: Nanos) -> (Limits, Need) {
        let mut state = self.state.lock();
        let observed = state.level.take_demand(now);
        state.need.update(observed);
        (state.limits, state.need)
    }

    /// Lends or borrows seats.
    pub fn set_limit(self: &Arc<Self>, now: Nanos, seats: u32) {
        self.change(|state, granted| {
            if state.level.counts().limit != seats {
                state.level.configure(now, state.queuing, seats, granted);
            }
        });
    }

    /// Changes the level, and lets the requests go on whose wait ends.
    fn change<R>(self: &Arc<Self>, change: impl FnOnce(&mut State, &mut Granted<Entry>) -> R) -> R {
        let mut state = self.state.lock();
        let mut granted = Granted::new();
        let outcome = change(&mut state, &mut granted);
        while !granted.is_empty() {
            let (entry, running) = granted.remove(0);
            let stats = &entry.schema.stats;
            stats.waiting.fetch_sub(1, Relaxed);
            stats.begun(running.seats());
            // Sent under the lock, so that a request that gives up later finds it.
            if let Err(running) = entry.grant.send(running) {
                stats.ended(running.seats());
                state.level.finish(self.clock.now(), running, &mut granted);
            }
        }
        if let Some(at) = state.level.next_tick().filter(|_| !state.is_ticking)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            state.is_ticking = true;
            runtime.spawn(tick(Arc::clone(self), at));
        }
        outcome
    }
}

/// Releases seats that writes occupied after their end, while requests wait for them.
async fn tick(seats: Arc<Seats>, at: Nanos) {
    let mut next = Some(at);
    while let Some(at) = next {
        tokio::time::sleep_until(seats.clock.at(at)).await;
        next = seats.change(|state, granted| {
            // The timer has a resolution of a millisecond, and may be early.
            state.level.tick(seats.clock.now().max(at), granted);
            let next = state.level.next_tick();
            state.is_ticking = next.is_some();
            next
        });
    }
}

fn queuing(spec: &PriorityLevel) -> Option<Queuing> {
    match spec {
        PriorityLevel::Limited { limited } => match limited.limit_response {
            LimitResponse::Queue { queuing } => Some(queuing),
            LimitResponse::Reject => None,
        },
        PriorityLevel::Exempt { .. } => None,
    }
}

/// The seats of a running request.
#[must_use]
#[derive(Debug)]
pub(crate) struct Seat(Held);

#[derive(Debug)]
enum Held {
    Exempt(Arc<Schema>),
    /// `None` after the release.
    Seats(Arc<Schema>, Option<Running>),
    /// Without priority and fairness.
    Plain(#[expect(dead_code, reason = "counted until it is dropped")] Underway),
}

/// The result of requesting seats.
pub(super) enum Taken {
    Seat(Seat),
    Waits(Waiter),
    Refused(Refusal),
}

impl Seat {
    /// The request is executed without a limit.
    pub fn exempt(schema: Arc<Schema>) -> Self {
        schema.stats.begun(1);
        Self(Held::Exempt(schema))
    }

    pub fn plain(underway: Underway) -> Self {
        Self(Held::Plain(underway))
    }

    /// Takes seats of the schema's level, or a place in one of its queues.
    pub(super) fn take(
        schema: &Arc<Schema>,
        hash: u64,
        work: Work,
        now: Nanos,
        details: impl FnOnce() -> Details,
    ) -> Taken {
        let mut receiver = None;
        let arrival = schema.level.change(|state, granted| {
            let entry = |_| {
                let (grant, granted) = oneshot::channel();
                receiver = Some(granted);
                schema.stats.waiting.fetch_add(1, Relaxed);
                Entry { grant, schema: Arc::clone(schema), details: Box::new(details()) }
            };
            state.level.arrive(now, hash, work, entry, granted)
        });
        match arrival {
            Arrival::Started(running) => {
                schema.stats.begun(running.seats());
                Taken::Seat(Self::granted(Arc::clone(schema), running))
            }
            Arrival::Waits(ticket) => Taken::Waits(Waiter { schema: Arc::clone(schema), ticket, receiver, begun: now }),
            Arrival::Refused(refusal) => Taken::Refused(refusal),
        }
    }

    fn granted(schema: Arc<Schema>, running: Running) -> Self {
        Self(Held::Seats(schema, Some(running)))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        match &mut self.0 {
            Held::Exempt(schema) => schema.stats.ended(1),
            Held::Seats(schema, running) => {
                let Some(running) = running.take() else { return };
                schema.stats.ended(running.seats());
                let level = &schema.level;
                level.change(|state, granted| state.level.finish(level.clock.now(), running, granted));
            }
            Held::Plain(_) => {}
        }
    }
}

/// A request that waits. Dropped, it leaves its queue.
pub(super) struct Waiter {
    schema: Arc<Schema>,
    ticket: Ticket,
    /// `None` when it no longer waits.
    receiver: Option<oneshot::Receiver<Running>>,
    begun: Nanos,
}

impl Waiter {
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    pub fn begun(&self) -> Nanos {
        self.begun
    }

    /// Its seat, if it gets one by then.
    pub async fn granted_until(&mut self, until: Instant) -> Option<Seat> {
        let receiver = self.receiver.as_mut()?;
        let running = tokio::time::timeout_at(until, receiver).await.ok()?.ok()?;
        self.receiver = None;
        Some(Seat::granted(Arc::clone(&self.schema), running))
    }

    /// Leaves the queue; returns the seat if it was granted at the last moment.
    pub fn give_up(&mut self) -> Option<Seat> {
        let mut receiver = self.receiver.take()?;
        let level = &self.schema.level;
        let left = level.change(|state, granted| state.level.cancel(level.clock.now(), self.ticket, granted));
        if left.is_some() {
            self.schema.stats.waiting.fetch_sub(1, Relaxed);
            return None;
        }
        let running = receiver.try_recv().ok()?;
        Some(Seat::granted(Arc::clone(&self.schema), running))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if self.receiver.is_some() {
            // Its client has disconnected, or the request has timed out.
            drop(self.give_up());
            self.schema.stats.refused(CANCELLED);
        }
    }
}
