//! Turns: the shell around [`Schedule`]. A task polls its future when it has one.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt::Debug;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize};
use std::task::{Context, Poll};

use arc_swap::ArcSwap;
use futures::task::AtomicWaker;
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use smallvec::SmallVec;

use super::flow::{Flow, Key};
use super::schedule::{Order, Rank, Schedule};

/// Nanoseconds since some moment; the processor time of a turn is the difference of two readings.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The cost of a turn besides the time it takes: waking and queueing.
const OVERHEAD: u64 = 500;
/// For this long after another user was served, a heavy user leaves a core free.
const COMPANY: u64 = 10_000_000_000;
/// Requests in flight on a connection with an unknown user: a client's initial limit.
const UNKNOWN: usize = 256;
/// The number of flows above which those without connections and debts are dropped.
const KEPT: usize = 1024;

/// The turns of one server.
pub struct Turns {
    clock: Clock,
    /// Concurrent turns of heavy users: alone, and beside others.
    seats: (usize, usize),
    schedule: Mutex<Schedule<u64, Arc<Slot>>>,
    /// Whether `schedule` has waiting or running entries. Set before the seats taken without it are counted, and read
    /// after one of these is taken or released, so that one of both sides sees the other.
    in_use: AtomicBool,
    /// Running turns that began without the schedule: there are no waiters and no other user.
    alone: AtomicUsize,
    flows: Mutex<Flows>,
    next_id: AtomicU64,
    /// The user served last, and until when there is another one.
    last: AtomicU64,
    company_until: AtomicU64,
    /// Requests of one user in flight.
    most_in_flight: usize,
}

/// The flows by name.
#[derive(Debug)]
struct Flows {
    by_key: HashMap<Key, Arc<Flow>>,
    /// The number of flows above which they are cleaned up.
    kept: usize,
}

impl Debug for Turns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Turns(..)")
    }
}

/// A task that waits.
#[derive(Debug, Default)]
struct Slot {
    state: AtomicU8,
    waker: AtomicWaker,
}

const WAITING: u8 = 0;
const GRANTED: u8 = 1;
const GIVEN_UP: u8 = 2;

type Granted = SmallVec<[Arc<Slot>; 4]>;

impl Turns {
    /// For a machine of so many cores. The runtime needs one thread more than cores: it serves light users while the
    /// others run turns.
    pub fn new(cores: usize, most_in_flight: usize) -> Arc<Self> {
        let origin = tokio::time::Instant::now();
        Self::with_clock(cores, most_in_flight, Arc::new(move || origin.elapsed().as_nanos() as u64))
    }

    /// With a clock of the caller's.
    pub fn with_clock(cores: usize, most_in_flight: usize, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            clock,
            seats: (cores.max(1), cores.saturating_sub(1).max(1)),
            schedule: Mutex::default(),
            in_use: AtomicBool::new(false),
            alone: AtomicUsize::new(0),
            flows: Mutex::new(Flows { by_key: HashMap::new(), kept: KEPT }),
            next_id: AtomicU64::new(1),
            last: AtomicU64::new(0),
            company_until: AtomicU64::new(0),
            most_in_flight,
        })
    }

    /// The flow of a user or address: the same one while it has a connection or a debt.
    pub fn flow(&self, key: Key) -> Arc<Flow> {
        let now = (self.clock)();
        let mut flows = self.flows.lock();
        if let Some(known) = flows.by_key.get(&key) {
            return Arc::clone(known);
        }
        if flows.by_key.len() >= flows.kept {
            flows.by_key.retain(|_, flow| Arc::strong_count(flow) > 1 || !flow.is_light(now));
            flows.kept = KEPT.max(2 * flows.by_key.len());
        }
        let flow = Arc::new(Flow::new(self.next_id.fetch_add(1, Relaxed), key.clone()));
        flows.by_key.insert(key, Arc::clone(&flow));
        flow
    }

    fn has_company(&self, now: u64) -> bool {
        self.company_until.load(Relaxed) > now
    }

    /// Records the cost of a turn.
    fn charge(&self, flow: &Flow, now: u64, spent: u64) {
        flow.charge(now, spent);
        if matches!(flow.key, Key::User(_)) && self.last.load(Relaxed) != flow.id {
            let first = self.last.swap(flow.id, Relaxed) == 0;
            if !first {
                self.company_until.store(now + COMPANY, Relaxed);
            }
        }
    }

    /// Takes a seat without a queue, if one is free and nothing waits.
    fn begin_alone(&self) -> bool {
        if self.in_use.load(Relaxed) {
            return false;
        }
        if self.alone.fetch_add(1, SeqCst) < self.seats.0 && !self.in_use.load(SeqCst) {
            return true;
        }
        // The caller locks the schedule next and grants the seats withheld at this moment.
        self.alone.fetch_sub(1, SeqCst);
        false
    }

    fn end_alone(&self, now: u64) {
        self.alone.fetch_sub(1, SeqCst);
        if self.in_use.load(SeqCst) {
            let granted = {
                let mut schedule = self.schedule.lock();
                let granted = self.grant(&mut schedule, now);
                self.note_use(&schedule);
                granted
            };
            granted.iter().for_each(|slot| slot.waker.wake());
        }
    }

    /// Turns underway.
    fn taken(&self, schedule: &Schedule<u64, Arc<Slot>>) -> usize {
        schedule.underway() + self.alone.load(SeqCst)
    }

    fn note_use(&self, schedule: &Schedule<u64, Arc<Slot>>) {
        if schedule.underway() == 0 && schedule.waiting() == 0 {
            self.in_use.store(false, SeqCst);
        }
    }

    /// Grants the free seats to the next waiters.
    fn grant(&self, schedule: &mut Schedule<u64, Arc<Slot>>, now: u64) -> Granted {
        let seats = if self.has_company(now) { self.seats.1 } else { self.seats.0 };
        let mut granted = Granted::new();
        while self.taken(schedule) < seats {
            let claims = |slot: &Arc<Slot>| slot.state.compare_exchange(WAITING, GRANTED, AcqRel, Acquire).is_ok();
            let Some((_, slot)) = schedule.pick(claims) else { break };
            granted.push(slot);
        }
        granted
    }

    /// Ends a turn that had a seat; `again` waits for the next one.
    fn end(&self, flow: &Flow, spent: u64, now: u64, again: Option<Arc<Slot>>) {
        let granted = {
            let mut schedule = self.schedule.lock();
            schedule.end(flow.id, spent);
            if let Some(slot) = again {
                schedule.push(flow.id, flow.order(), Rank::Underway, slot);
            }
            let granted = self.grant(&mut schedule, now);
            self.note_use(&schedule);
            granted
        };
        granted.iter().for_each(|slot| slot.waker.wake());
    }
}

/// One connection: its user, and its requests in flight.
pub struct Place {
    turns: Arc<Turns>,
    flow: ArcSwap<Flow>,
    /// Counts the changes of `flow`.
    changes: AtomicUsize,
    requests: AtomicUsize,
    /// Called once, when its user is known.
    acquainted: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place").field("flow", &self.flow).finish_non_exhaustive()
    }
}

impl Place {
    /// The place of a connection from this address, until its user is known.
    pub fn new(turns: &Arc<Turns>, address: IpAddr) -> Arc<Self> {
        let flow = ArcSwap::new(turns.flow(Key::Address(address)));
        Arc::new(Self {
            turns: Arc::clone(turns),
            flow,
            changes: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
            acquainted: Mutex::default(),
        })
    }

    /// `then` is called when a request on the connection was authenticated.
    pub(crate) fn when_acquainted(&self, then: impl FnOnce() + Send + 'static) {
        *self.acquainted.lock() = Some(Box::new(then));
    }

    /// Whether no request is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.requests.load(Relaxed) == 0
    }

    /// The flow that the connection counts for.
    pub fn flow(&self) -> Arc<Flow> {
        self.flow.load_full()
    }

    /// From now on the connection counts for this user.
    pub fn identify(&self, user: &str) {
        if self.flow.load().is_of(user) {
            return;
        }
        self.flow.store(self.turns.flow(Key::User(user.into())));
        self.changes.fetch_add(1, Release);
        let then = self.acquainted.lock().take();
        if let Some(then) = then {
            then();
        }
    }
}

/// A request that counts as in flight.
#[derive(Debug)]
pub struct InFlight {
    place: Arc<Place>,
    flow: Arc<Flow>,
}

impl InFlight {
    /// # Errors
    /// The number its user, or its connection, may have, if there are that many.
    pub(super) fn begin(place: &Arc<Place>) -> Result<Self, usize> {
        let flow = place.flow();
        let most = place.turns.most_in_flight;
        let (count, most) = match flow.key {
            Key::User(_) => (&flow.in_flight, most),
            // Newcomers from one address do not take each other's place.
            Key::Address(_) => (&place.requests, most.min(UNKNOWN)),
        };
        if count.load(Relaxed) >= most {
            return Err(most);
        }
        place.requests.fetch_add(1, Relaxed);
        flow.in_flight.fetch_add(1, Relaxed);
        Ok(Self { place: Arc::clone(place), flow })
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.place.requests.fetch_sub(1, Relaxed);
        self.flow.in_flight.fetch_sub(1, Relaxed);
    }
}

thread_local! {
    /// Whether the future being polled has yielded.
    static GAVE_WAY: Cell<bool> = const { Cell::new(false) };
}

/// Lets others have a turn in the middle of long work.
pub async fn give_way() {
    GAVE_WAY.set(true);
    tokio::task::yield_now().await;
}

pin_project! {
    /// A future that runs in turns of the connection's user.
    pub struct InTurns<F> {
        task: Task,
        #[pin]
        future: F,
    }
}

/// Runs a future in turns of the connection's user.
pub fn in_turns<F: Future>(place: Arc<Place>, future: F) -> InTurns<F> {
    InTurns { task: Task::new(place), future }
}

impl<F: Future> Future for InTurns<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        this.task.poll(context, this.future)
    }
}

/// One task that takes turns.
struct Task {
    place: Arc<Place>,
    /// The flow whose turns it takes, and the number of the place's change of flow at that time.
    flow: Arc<Flow>,
    changes: usize,
    /// It waits in the queue of its flow.
    waits: bool,
    slot: Option<Arc<Slot>>,
    /// Its position.
    rank: Rank,
}

/// How a turn is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seat {
    /// Its flow uses little.
    Light,
    /// There is no other user to share with.
    Alone,
    Scheduled,
}

impl Task {
    fn new(place: Arc<Place>) -> Self {
        let (changes, flow) = (place.changes.load(Acquire), place.flow());
        Self { place, flow, changes, waits: false, slot: None, rank: Rank::New }
    }

    fn poll<F: Future>(&mut self, context: &mut Context<'_>, future: Pin<&mut F>) -> Poll<F::Output> {
        let begun = (self.place.turns.clock)();
        let Some(seat) = self.turn(context, begun) else { return Poll::Pending };
        self.rank = Rank::Begun;
        let mut turn = Turn { turns: &self.place.turns, flow: &self.flow, seat, begun, again: None };
        GAVE_WAY.set(false);
        let polled = future.poll(context);
        if GAVE_WAY.replace(false) {
            self.rank = Rank::Underway;
            if seat == Seat::Scheduled && polled.is_pending() {
                // It has more to do: back into the queue before another one is chosen.
                let slot = self.slot.get_or_insert_default();
                slot.waker.register(context.waker());
                slot.state.store(WAITING, Release);
                turn.again = Some(Arc::clone(slot));
                self.waits = true;
            }
        }
        drop(turn);
        polled
    }

    /// How it takes its turn; `None` while it waits.
    fn turn(&mut self, context: &Context<'_>, now: u64) -> Option<Seat> {
        if self.waits {
            let slot = self.slot.get_or_insert_default();
            slot.waker.register(context.waker());
            if slot.state.load(Acquire) != GRANTED {
                return None;
            }
            self.waits = false;
            return Some(Seat::Scheduled);
        }
        let changes = self.place.changes.load(Acquire);
        if changes != self.changes {
            (self.changes, self.flow) = (changes, self.place.flow());
        }
        let (turns, flow) = (&self.place.turns, &self.flow);
        if flow.is_light(now) {
            return Some(Seat::Light);
        }
        // Alone, a user need not step aside.
        let is_alone = !turns.has_company(now) && flow.order() == Order::OldestFirst;
        if is_alone && turns.begin_alone() {
            return Some(Seat::Alone);
        }
        let mut schedule = turns.schedule.lock();
        turns.in_use.store(true, SeqCst);
        if is_alone && schedule.waiting() == 0 && turns.taken(&schedule) < turns.seats.0 {
            schedule.begin(flow.id);
            return Some(Seat::Scheduled);
        }
        let slot = self.slot.get_or_insert_default();
        slot.waker.register(context.waker());
        slot.state.store(WAITING, Release);
        schedule.push(flow.id, flow.order(), self.rank, Arc::clone(slot));
        self.waits = true;
        let granted = turns.grant(&mut schedule, now);
        drop(schedule);
        granted.iter().for_each(|slot| slot.waker.wake());
        None
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let Some(slot) = self.slot.as_ref().filter(|_| self.waits) else { return };
        if slot.state.swap(GIVEN_UP, AcqRel) == GRANTED {
            let turns = &self.place.turns;
            turns.end(&self.flow, 0, (turns.clock)(), None);
        }
    }
}

/// A turn that is taken; dropped when it is over, even by a panic.
struct Turn<'a> {
    turns: &'a Turns,
    flow: &'a Flow,
    seat: Seat,
    begun: u64,
    /// Waits for the next turn at once.
    again: Option<Arc<Slot>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let now = (self.turns.clock)();
        let spent = now.saturating_sub(self.begun) + OVERHEAD;
        self.turns.charge(self.flow, now, spent);
        match self.seat {
            Seat::Light => {}
            Seat::Alone => self.turns.end_alone(now),
            Seat::Scheduled => self.turns.end(self.flow, spent, now, self.again.take()),
        }
    }
}
