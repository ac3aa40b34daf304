//! The seats and queues of one priority level, as a value.
//!
//! A request occupies seats while it runs, and a write some for a while after it. A request without free seats waits in
//! one of the few queues of its flow; the queues share the seats fairly, regardless of the length and width of their
//! requests: each queue has a tag, the virtual time up to which it has received service, in seats times nanoseconds,
//! and the queue with the smallest tag is next. Virtual time runs as fast as each active queue could receive service. A
//! queue that becomes active starts at the current virtual time, so that idle time is neither saved nor owed.
//!
//! The first request of the next queue keeps its position until enough seats are free for it: narrow requests do not
//! overtake a wide one forever.
//!
//! A flow can hold all seats for as long as its requests wait for something: a slow disk, a webhook, other writers of the
//! same object. So a level has spare seats for flows that hold none. They do not count among its seats, and so neither
//! delay its queues nor starve a wide request.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, VecDeque};

use smallvec::SmallVec;

use crate::Nanos;
use crate::cost::Work;
use crate::deal::deal;
use crate::limits::{Demand, Observed};
use crate::objects::Queuing;

/// The assumed duration of a request until it is known.
const ESTIMATE: u128 = 3_000_000;

/// Seats for each spare one. With all of them in use, requests of a level use a quarter more memory.
const SEATS_PER_SPARE: u32 = 4;
/// Queues that are passed over in search of one without seats: as many as the suggested levels have.
const MOST_PASSED: usize = 128;

/// Seats times nanoseconds.
type Service = u128;

/// The place of a request that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    lane: u32,
    number: u64,
}

/// A request that runs; [`Level::finish`] takes it back.
#[must_use]
#[derive(Debug)]
pub struct Running {
    lane: u32,
    work: Work,
    begun: Nanos,
    is_spare: bool,
}

impl Running {
    /// The seats it holds.
    pub fn seats(&self) -> u32 {
        self.work.width()
    }
}

/// Requests whose wait has ended.
pub type Granted<T> = SmallVec<[(T, Running); 2]>;

/// The treatment of an arriving request.
#[derive(Debug)]
pub enum Arrival {
    /// It runs.
    Started(Running),
    /// It waits, or has been granted with others at this moment.
    Waits(Ticket),
    Refused(Refusal),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The level has no queues.
    ConcurrencyLimit,
    QueueFull,
}

impl Refusal {
    /// As metrics name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ConcurrencyLimit => "concurrency-limit",
            Self::QueueFull => "queue-full",
        }
    }
}

/// A request that waits.
#[derive(Debug)]
pub struct Waiting<T> {
    number: u64,
    pub work: Work,
    /// When it arrived.
    pub since: Nanos,
    pub entry: T,
}

/// A queue with waiting or running requests. Other queues are not stored.
#[derive(Debug)]
struct Lane<T> {
    tag: Service,
    /// Running requests, and those whose seats are occupied after they ended.
    running: u32,
    held: u32,
    waiting: VecDeque<Waiting<T>>,
    waiting_seats: u32,
}

/// The present numbers of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Seats that may be held at once, without spare ones.
    pub limit: u32,
    pub held: u32,
    pub running: u32,
    pub waiting: u32,
    pub waiting_seats: u32,
    /// Queues with requests that wait or run.
    pub active: u32,
}

/// The present numbers of a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queue {
    pub index: u32,
    pub waiting: u32,
    pub running: u32,
    pub held: u32,
    pub waiting_seats: u32,
    /// The widths of the waiting requests.
    pub waiting_widths: u32,
    /// The tag of the queue, in seat-seconds.
    pub tag: f64,
    /// The expected service of the waiting requests, in seat-seconds.
    pub work: f64,
}

/// One priority level. `T` is the caller's data of a waiting request.
#[derive(Debug)]
pub struct Level<T> {
    /// `None`: requests that find no seat are refused.
    queuing: Option<Queuing>,
    limit: u32,
    held: u32,
    /// Those of `held` that are spare.
    spare: u32,
    running: u32,
    waiting: u32,
    waiting_seats: u32,
    lanes: HashMap<u32, Lane<T>>,
    /// Lanes with requests that wait, by tag.
    next: BTreeSet<(Service, u32)>,
    virtual_time: Service,
    settled: Nanos,
    /// Seats occupied after the end of a request: until when, of which lane, how many, and whether they are spare.
    kept: BinaryHeap<Reverse<(Nanos, u32, u32, bool)>>,
    demand: Demand,
    numbers: u64,
}

impl<T> Level<T> {
    /// A level with so many seats; without `queuing` it refuses requests without free seats.
    pub fn new(queuing: Option<Queuing>, limit: u32) -> Self {
        Self {
            queuing,
            limit,
            held: 0,
            spare: 0,
            running: 0,
            waiting: 0,
            waiting_seats: 0,
            lanes: HashMap::new(),
            next: BTreeSet::new(),
            virtual_time: 0,
            settled: 0,
            kept: BinaryHeap::new(),
            demand: Demand::default(),
            numbers: 0,
        }
    }

    /// Changes the configuration. Waiting requests keep their positions.
    pub fn configure(&mut self, now: Nanos, queuing: Option<Queuing>, limit: u32, granted: &mut Granted<T>) {
        self.settle(now, granted);
        self.queuing = queuing;
        self.limit = limit;
        self.dispatch(now, granted);
    }

    /// A request of the flow with this hash arrives. `entry` is called if it has to wait.
    pub fn arrive(
        &mut self,
        now: Nanos,
        flow: u64,
        work: Work,
        entry: impl FnOnce(Ticket) -> T,
        granted: &mut Granted<T>,
    ) -> Arrival {
        self.settle(now, granted);
        let fits = self.waiting == 0 && self.fits(work);
        let Some(queuing) = self.queuing else {
            if !fits {
                return Arrival::Refused(Refusal::ConcurrencyLimit);
            }
            return Arrival::Started(self.start(now, 0, work, false));
        };
        let at = self.shortest(flow, queuing);
        if fits {
            return Arrival::Started(self.start(now, at, work, false));
        }
        let length = self.lanes.get(&at).map_or(0, |lane| lane.waiting.len());
        if length >= queuing.queue_length_limit as usize {
            return Arrival::Refused(Refusal::QueueFull);
        }
        self.numbers += 1;
        let ticket = Ticket { lane: at, number: self.numbers };
        let waiting = Waiting { number: self.numbers, work, since: now, entry: entry(ticket) };
        let lane = self.lane(at);
        lane.waiting.push_back(waiting);
        lane.waiting_seats += work.width();
        let tag = lane.tag;
        self.next.insert((tag, at));
        self.waiting += 1;
        self.waiting_seats += work.width();
        self.dispatch(now, granted);
        Arrival::Waits(ticket)
    }

    /// A request ends.
    pub fn finish(&mut self, now: Nanos, running: Running, granted: &mut Granted<T>) {
        self.settle(now, granted);
        let Running { lane: at, work, begun, is_spare } = running;
        self.running = self.running.saturating_sub(1);
        let took = u128::from(now.saturating_sub(begun));
        let seats = u128::from(work.seats);
        if let Some(lane) = self.lanes.get_mut(&at) {
            let old = lane.tag;
            lane.tag = (old + seats * took).saturating_sub(seats * ESTIMATE);
            let new = lane.tag;
            self.moved(at, old, new);
        }
        if work.final_seats > 0 && work.extra > 0 {
            self.give_back(at, work.width() - work.final_seats, 0, is_spare);
            self.kept.push(Reverse((now.saturating_add(work.extra), at, work.final_seats, is_spare)));
        } else {
            self.give_back(at, work.width(), 1, is_spare);
        }
        self.dispatch(now, granted);
    }

    /// Removes a waiting request. Returns its data; `None` if it has already been granted.
    pub fn cancel(&mut self, now: Nanos, ticket: Ticket, granted: &mut Granted<T>) -> Option<T> {
        self.settle(now, granted);
        let lane = self.lanes.get_mut(&ticket.lane)?;
        let place = lane.waiting.binary_search_by_key(&ticket.number, |waiting| waiting.number).ok()?;
        let waiting = lane.waiting.remove(place)?;
        self.left(ticket.lane, waiting.work);
        self.dispatch(now, granted);
        Some(waiting.entry)
    }

    /// Releases seats whose time is over.
    pub fn tick(&mut self, now: Nanos, granted: &mut Granted<T>) {
        self.settle(now, granted);
    }

    /// When [`Level::tick`] can grant seats to a waiting request; `None` without one.
    pub fn next_tick(&self) -> Option<Nanos> {
        let Reverse((at, ..)) = self.kept.peek()?;
        (self.waiting > 0).then_some(*at)
    }

    /// Ends a period of the demand.
    pub fn take_demand(&mut self, now: Nanos) -> Observed {
        self.note_demand(now);
        self.demand.take(now)
    }

    /// The present numbers.
    pub fn counts(&self) -> Counts {
        Counts {
            limit: self.limit,
            held: self.held,
            running: self.running,
            waiting: self.waiting,
            waiting_seats: self.waiting_seats,
            active: u32::try_from(self.lanes.len()).unwrap_or(u32::MAX),
        }
    }

    /// The active queues, by index.
    pub fn queues(&self) -> Vec<Queue> {
        let seconds = |service: Service| service as f64 / 1e9;
        let of = |(index, lane): (&u32, &Lane<T>)| Queue {
            index: *index,
            waiting: u32::try_from(lane.waiting.len()).unwrap_or(u32::MAX),
            running: lane.running,
            held: lane.held,
            waiting_seats: lane.waiting.iter().map(|waiting| waiting.work.seats).sum(),
            waiting_widths: lane.waiting_seats,
            tag: seconds(lane.tag),
            work: seconds(lane.waiting.iter().map(|waiting| expected(waiting.work)).sum()),
        };
        let mut queues: Vec<Queue> = self.lanes.iter().map(of).collect();
        queues.sort_by_key(|queue| queue.index);
        queues
    }

    /// The requests that wait, with the index of their queue and their place in it.
    pub fn waiting(&self) -> Vec<(u32, usize, &Waiting<T>)> {
        let in_lane = |(index, lane): (&u32, &Lane<T>)| -> Vec<(u32, usize)> {
            (0..lane.waiting.len()).map(|place| (*index, place)).collect()
        };
        let mut places: Vec<(u32, usize)> = self.lanes.iter().flat_map(in_lane).collect();
        places.sort_unstable();
        let found = |(lane, place): (u32, usize)| Some((lane, place, self.lanes.get(&lane)?.waiting.get(place)?));
        places.into_iter().filter_map(found).collect()
    }

    /// Whether seats suffice. A request that is wider than the level runs alone.
    fn fits(&self, work: Work) -> bool {
        let held = self.held.saturating_sub(self.spare);
        held == 0 || held.saturating_add(work.width()) <= self.limit
    }

    /// The next queue that holds no seats, if the spare ones suffice for its first request. Its flow then holds none
    /// either, or has more requests than queues: a request joins the least used queue of its hand.
    fn next_spare(&self) -> Option<u32> {
        let spare = self.limit / SEATS_PER_SPARE;
        // After a level has lost seats, requests may hold more than it has.
        let held = self.spare.max(self.held.saturating_sub(self.limit));
        let room = spare.checked_sub(held).filter(|room| *room > 0)?;
        let lanes = self.next.iter().take(MOST_PASSED).filter_map(|(_, at)| Some((at, self.lanes.get(at)?)));
        let (at, lane) = lanes.into_iter().find(|(_, lane)| lane.held == 0)?;
        lane.waiting.front().is_some_and(|head| head.work.width() <= room).then_some(*at)
    }

    /// The queue of the flow's hand with the least work.
    fn shortest(&self, flow: u64, queuing: Queuing) -> u32 {
        let load = |index: &u32| self.lanes.get(index).map_or(0, |lane| lane.held.saturating_add(lane.waiting_seats));
        deal(flow, queuing.queues, queuing.hand_size).into_iter().min_by_key(load).unwrap_or(0)
    }

    fn lane(&mut self, at: u32) -> &mut Lane<T> {
        let tag = self.virtual_time;
        self.lanes.entry(at).or_insert_with(|| Lane {
            tag,
            running: 0,
            held: 0,
            waiting: VecDeque::new(),
            waiting_seats: 0,
        })
    }

    fn start(&mut self, now: Nanos, at: u32, work: Work, is_spare: bool) -> Running {
        let lane = self.lane(at);
        lane.running += 1;
        lane.held += work.width();
        let old = lane.tag;
        lane.tag = old.saturating_add(expected(work));
        let new = lane.tag;
        self.moved(at, old, new);
        self.running += 1;
        self.held += work.width();
        self.spare += if is_spare { work.width() } else { 0 };
        self.note_demand(now);
        Running { lane: at, work, begun: now, is_spare }
    }

    /// Starts requests while seats suffice for the next one.
    fn dispatch(&mut self, now: Nanos, granted: &mut Granted<T>) {
        while let Some((_, at)) = self.next.first().copied() {
            let Some(head) = self.lanes.get(&at).and_then(|lane| lane.waiting.front()) else { break };
            if !self.fits(head.work) {
                break;
            }
            self.grant(now, at, false, granted);
        }
        while let Some(at) = self.next_spare() {
            self.grant(now, at, true, granted);
        }
        self.note_demand(now);
    }

    /// Starts the first request of a queue.
    fn grant(&mut self, now: Nanos, at: u32, is_spare: bool, granted: &mut Granted<T>) {
        let Some(waiting) = self.lanes.get_mut(&at).and_then(|lane| lane.waiting.pop_front()) else { return };
        let running = self.start(now, at, waiting.work, is_spare);
        self.left(at, waiting.work);
        granted.push((waiting.entry, running));
    }

    /// A request of this lane no longer waits.
    fn left(&mut self, at: u32, work: Work) {
        self.waiting = self.waiting.saturating_sub(1);
        self.waiting_seats = self.waiting_seats.saturating_sub(work.width());
        let Some(lane) = self.lanes.get_mut(&at) else { return };
        lane.waiting_seats = lane.waiting_seats.saturating_sub(work.width());
        if lane.waiting.is_empty() {
            self.next.remove(&(lane.tag, at));
            if lane.running == 0 {
                self.lanes.remove(&at);
            }
        }
    }

    /// Frees seats; `ended` requests of the lane are over.
    fn give_back(&mut self, at: u32, seats: u32, ended: u32, are_spare: bool) {
        self.held = self.held.saturating_sub(seats);
        self.spare = self.spare.saturating_sub(if are_spare { seats } else { 0 });
        let Some(lane) = self.lanes.get_mut(&at) else { return };
        lane.held = lane.held.saturating_sub(seats);
        lane.running = lane.running.saturating_sub(ended);
        if lane.running == 0 && lane.waiting.is_empty() {
            self.lanes.remove(&at);
        }
    }

    /// Restores the order after a change of a tag.
    fn moved(&mut self, at: u32, old: Service, new: Service) {
        if !self.next.is_empty() && self.next.remove(&(old, at)) {
            self.next.insert((new, at));
        }
    }

    /// Advances virtual time, and releases seats whose time is over.
    fn settle(&mut self, now: Nanos, granted: &mut Granted<T>) {
        let passed = now.saturating_sub(self.settled);
        self.settled = self.settled.max(now);
        if !self.lanes.is_empty() {
            let demanded = self.held.saturating_add(self.waiting_seats).min(self.limit.max(1));
            let service = u128::from(passed) * u128::from(demanded) / self.lanes.len() as u128;
            self.virtual_time = self.virtual_time.saturating_add(service);
        }
        let mut freed = false;
        while let Some(Reverse((until, at, seats, are_spare))) = self.kept.peek().copied()
            && until <= now
        {
            self.kept.pop();
            self.give_back(at, seats, 1, are_spare);
            freed = true;
        }
        if freed {
            self.dispatch(now, granted);
        }
    }

    fn note_demand(&mut self, now: Nanos) {
        self.demand.set(now, self.held.saturating_add(self.waiting_seats));
    }
}

/// The service that a request is expected to take.
fn expected(work: Work) -> Service {
    u128::from(work.seats) * ESTIMATE + u128::from(work.final_seats) * u128::from(work.extra)
}

#[cfg(test)]
mod tests;
