//! The schedule, as a value: start-time fair queueing over flows.
//!
//! A flow is one user, or one address whose users are not known yet. Each flow has a tag, the service it has received
//! in units of cost; the waiting flow with the smallest tag is next. A flow that begins to wait starts at the tag of
//! the flow that was picked last, so that it neither saves up service while it is idle nor waits for a backlog of
//! another flow: of each other waiting flow at most one entry for each seat precedes it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The assumed cost of a turn until it is known: flows with several turns in progress cannot all be at the smallest
/// tag.
const ESTIMATE: u64 = 100_000;
/// How far a flow may be ahead of those that are served: a turn that took long does not lock its flow out for as long, which
/// for the flow of an address would lock out newcomers. 20 ms where the unit is a nanosecond.
const MOST_AHEAD: u64 = 20_000_000;
/// The maximum number of flows without entries; beyond it those without a debt are dropped.
const REMEMBERED: usize = 1024;

/// The order within one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// In the order of arrival.
    OldestFirst,
    /// Under a flood each entry would wait for all before it and time out; the newest ones are served in time.
    NewestFirst,
}

/// The state of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// Not served yet.
    New,
    /// Served in part; finished before new ones of its flow begin. Connections are: answers leave before requests arrive.
    Begun,
    /// In the middle of work.
    Underway,
}

#[derive(Debug)]
struct Lane<T> {
    tag: u64,
    underway: usize,
    begun: VecDeque<T>,
    new: VecDeque<T>,
}

impl<T> Lane<T> {
    fn is_waiting(&self) -> bool {
        !(self.begun.is_empty() && self.new.is_empty())
    }
}

/// `F` identifies a flow, `T` is the waiting item.
#[derive(Debug)]
pub struct Schedule<F, T> {
    lanes: BTreeMap<F, Lane<T>>,
    /// The flows with entries that wait, by tag.
    next: BTreeSet<(u64, F)>,
    underway: usize,
    waiting: usize,
    /// The tag of the flow that was picked last.
    virtual_time: u64,
    /// The largest tag so far.
    furthest: u64,
    /// Beyond this many flows those without a debt are dropped.
    remembered: usize,
}

impl<F, T> Default for Schedule<F, T> {
    fn default() -> Self {
        Self {
            lanes: BTreeMap::new(),
            next: BTreeSet::new(),
            underway: 0,
            waiting: 0,
            virtual_time: 0,
            furthest: 0,
            remembered: REMEMBERED,
        }
    }
}

impl<F: Copy + Ord, T> Schedule<F, T> {
    /// Turns that were begun and have not ended.
    pub fn underway(&self) -> usize {
        self.underway
    }

    /// Waiting entries; some may have been cancelled.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Adds an entry that waits.
    pub fn push(&mut self, flow: F, order: Order, rank: Rank, entry: T) {
        let lane = self.lane(flow);
        match (order, rank) {
            (Order::OldestFirst, Rank::New) => lane.new.push_back(entry),
            (Order::OldestFirst, Rank::Begun) => lane.begun.push_back(entry),
            (Order::NewestFirst, _) | (_, Rank::Underway) => lane.begun.push_front(entry),
        }
        let tag = lane.tag;
        self.waiting += 1;
        self.next.insert((tag, flow));
    }

    /// Begins a turn of a flow without waiting.
    pub fn begin(&mut self, flow: F) {
        let lane = self.lane(flow);
        let tag = lane.tag;
        self.start(flow, tag);
    }

    /// Begins the turn of the next entry. `accepts` reports whether an entry still waits; others are dropped.
    pub fn pick(&mut self, mut accepts: impl FnMut(&T) -> bool) -> Option<(F, T)> {
        loop {
            let (tag, flow) = *self.next.first()?;
            let lane = self.lanes.get_mut(&flow)?;
            let found = loop {
                match lane.begun.pop_front().or_else(|| lane.new.pop_front()) {
                    Some(entry) => {
                        self.waiting -= 1;
                        if accepts(&entry) {
                            break Some(entry);
                        }
                    }
                    None => break None,
                }
            };
            match found {
                Some(entry) => {
                    self.start(flow, tag);
                    return Some((flow, entry));
                }
                None => drop(self.next.remove(&(tag, flow))),
            }
        }
    }

    /// Ends a turn of a flow that cost `cost`.
    pub fn end(&mut self, flow: F, cost: u64) {
        let Some(lane) = self.lanes.get_mut(&flow) else { return };
        self.underway = self.underway.saturating_sub(1);
        lane.underway = lane.underway.saturating_sub(1);
        let old = lane.tag;
        lane.tag = (old + cost).saturating_sub(ESTIMATE).min(self.virtual_time + MOST_AHEAD);
        let new = lane.tag;
        self.furthest = self.furthest.max(new);
        self.moved(flow, old, new);
        if self.underway == 0 && self.waiting == 0 {
            // Idle: every flow begins at the same place again.
            self.virtual_time = self.furthest;
        }
        self.forget();
    }

    fn start(&mut self, flow: F, tag: u64) {
        self.underway += 1;
        self.virtual_time = self.virtual_time.max(tag);
        if let Some(lane) = self.lanes.get_mut(&flow) {
            lane.underway += 1;
            lane.tag = tag + ESTIMATE;
        }
        self.moved(flow, tag, tag + ESTIMATE);
    }

    /// Restores the order after a change of a tag.
    fn moved(&mut self, flow: F, old: u64, new: u64) {
        if self.next.remove(&(old, flow)) && self.lanes.get(&flow).is_some_and(Lane::is_waiting) {
            self.next.insert((new, flow));
        }
    }

    /// The lane of a flow that is about to have an entry or a turn.
    fn lane(&mut self, flow: F) -> &mut Lane<T> {
        let now = self.virtual_time;
        let lane = self.lanes.entry(flow).or_insert_with(|| Lane {
            tag: now,
            underway: 0,
            begun: VecDeque::new(),
            new: VecDeque::new(),
        });
        if lane.underway == 0 && !lane.is_waiting() {
            self.next.remove(&(lane.tag, flow));
            lane.tag = lane.tag.max(now);
        }
        lane
    }

    fn forget(&mut self) {
        if self.lanes.len() <= self.remembered {
            return;
        }
        let now = self.virtual_time;
        self.lanes.retain(|_, lane| lane.underway > 0 || lane.is_waiting() || lane.tag > now);
        // Walking over all of them costs one step for each flow that was added since.
        self.remembered = REMEMBERED.max(2 * self.lanes.len());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::*;

    /// Runs a script on one seat: `a3` lets flow `a` wait with three entries, `A2` has two turns of flow `a` end that cost two
    /// units each. Returns the flows that got turns, in order.
    fn played(order: Order, script: &str) -> String {
        let mut schedule = Schedule::default();
        let mut names = HashMap::<char, usize>::new();
        let mut out = String::new();
        for word in script.split_whitespace() {
            let (first, number) = word.split_at(1);
            let (first, number) = (first.chars().next().expect("a letter"), number.parse().expect("a number"));
            if first.is_ascii_lowercase() {
                for _ in 0..number {
                    let name = names.entry(first).or_default();
                    schedule.push(first, order, Rank::New, *name);
                    *name += 1;
                }
                continue;
            }
            for _ in 0..number {
                let Some((flow, entry)) = schedule.pick(|_| true) else { break };
                write!(out, "{flow}{entry} ").expect("a string takes it");
                let cost = if flow == 'x' { 10 } else { 1 };
                schedule.end(flow, cost * ESTIMATE);
            }
        }
        out.trim_end().to_owned()
    }

    #[test]
    fn flows_take_turns_and_a_newcomer_waits_for_no_backlog() {
        use Order::{NewestFirst, OldestFirst};
        for (what, order, script, expected) in [
            ("one flow in order", OldestFirst, "a3 T9", "a0 a1 a2"),
            ("the newest first", NewestFirst, "a3 T9", "a2 a1 a0"),
            ("two flows", OldestFirst, "a3 b3 T9", "a0 b0 a1 b1 a2 b2"),
            ("a newcomer beside a backlog", OldestFirst, "a9 T4 b1 T2", "a0 a1 a2 a3 b0 a4"),
            ("idleness saves up nothing", OldestFirst, "b1 a9 T6 b4 T5", "a0 b0 a1 a2 a3 a4 b1 a5 b2 a6 b3"),
            ("costly turns are rarer", OldestFirst, "x2 a12 T14", "a0 x0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 x1 a11"),
        ] {
            assert_eq!(played(order, script), expected, "{what}");
        }
    }

    #[test]
    fn started_entries_run_first_and_cancelled_ones_never() {
        let mut schedule = Schedule::default();
        let ranks = [Rank::New, Rank::Begun, Rank::New, Rank::Begun, Rank::Underway];
        for (entry, rank) in [3, 1, 4, 2, 0].into_iter().zip(ranks) {
            schedule.push('a', Order::OldestFirst, rank, entry);
        }
        let picked: Vec<_> =
            std::iter::from_fn(|| schedule.pick(|entry| *entry != 2)).map(|(_, entry)| entry).collect();
        assert_eq!(picked, [0, 1, 3, 4]);
        assert_eq!((schedule.underway(), schedule.waiting()), (4, 0));
    }

    #[test]
    fn ended_flows_are_removed() {
        let mut schedule = Schedule::default();
        for flow in 0..10 * REMEMBERED {
            schedule.push(flow, Order::OldestFirst, Rank::New, ());
            assert!(schedule.pick(|()| true).is_some());
            schedule.end(flow, 1);
        }
        assert!(schedule.lanes.len() <= REMEMBERED + 1, "{}", schedule.lanes.len());
    }

    #[test]
    fn a_long_turn_locks_its_flow_out_for_a_bounded_time() {
        let mut schedule = Schedule::default();
        for entry in 0..1000 {
            schedule.push('a', Order::OldestFirst, Rank::New, entry);
        }
        for entry in 0..2 {
            schedule.push('z', Order::OldestFirst, Rank::New, entry);
        }
        let mut turns_between = 0;
        let mut had = 0;
        while had < 2 {
            let (flow, _) = schedule.pick(|_| true).expect("both wait");
            had += usize::from(flow == 'z');
            turns_between += usize::from(flow == 'a' && had == 1);
            schedule.end(flow, if flow == 'z' { 100 * MOST_AHEAD } else { ESTIMATE });
        }
        assert_eq!(turns_between as u64, MOST_AHEAD / ESTIMATE);
    }

    proptest! {
        /// However much other flows have waiting, a flow that begins to wait is served after at most one turn more of each of
        /// them than there are seats, each of which costs at most `most`.
        #[test]
        fn a_newcomer_is_delayed_by_at_most_one_turn_of_each_flow_and_seat(
            backlogs in prop::collection::vec((1_usize..200, 1_u64..30), 1..6),
            seats in 1_usize..5,
            warm_up in 0_usize..300,
        ) {
            let mut schedule = Schedule::default();
            for (flow, (size, _)) in backlogs.iter().enumerate() {
                for entry in 0..*size {
                    schedule.push(flow, Order::OldestFirst, Rank::New, entry);
                }
            }
            let cost = |flow: usize| backlogs.get(flow).map_or(ESTIMATE, |(_, cost)| cost * ESTIMATE / 10);
            let mut held = VecDeque::new();
            let turn = |schedule: &mut Schedule<usize, usize>, held: &mut VecDeque<usize>| {
                if held.len() == seats
                    && let Some(flow) = held.pop_front()
                {
                    schedule.end(flow, cost(flow));
                }
                let picked = schedule.pick(|_| true).map(|(flow, _)| flow);
                held.extend(picked);
                picked
            };
            for _ in 0..warm_up {
                turn(&mut schedule, &mut held);
            }
            let newcomer = backlogs.len();
            schedule.push(newcomer, Order::OldestFirst, Rank::New, 0);
            let mut before = vec![0; backlogs.len()];
            while let Some(flow) = turn(&mut schedule, &mut held) {
                if flow == newcomer {
                    break;
                }
                before[flow] += 1;
            }
            for (flow, turns) in before.iter().enumerate() {
                // A flow whose turns cost less than the estimate gets as many turns as one estimate covers.
                let paid = ESTIMATE.div_ceil(cost(flow)) as usize;
                prop_assert!(*turns <= seats + paid, "flow {flow} had {turns} turns of {} first", cost(flow));
            }
        }
    }
}
