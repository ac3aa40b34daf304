//! Whether a recorded history is linearizable, given the order of all changes in the store.
//!
//! The store's own log is the order of the writes, so the search for an order, which is expensive in general, is one
//! pass here: each request needs a position in the log between its call and its response at which its result is
//! correct. Requests take the earliest correct position, in the order of their calls; a later position would only
//! restrict others.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::record::{Call, Entry, Outcome, Request};

/// The states of the store, by position: position 0 is before the first change, position n after the nth.
struct States<'a> {
    log: &'a [Entry],
    /// The changes of each key: position and revision (`None` once it is deleted).
    keys: BTreeMap<&'a str, Vec<(usize, Option<u64>)>>,
    /// The place in the log of each value, and of each deletion by the revision that it deleted.
    values: BTreeMap<&'a str, usize>,
    deleted: BTreeMap<u64, usize>,
}

impl<'a> States<'a> {
    fn new(log: &'a [Entry]) -> Self {
        let (mut keys, mut values, mut deleted) = (BTreeMap::<&str, Vec<_>>::new(), BTreeMap::new(), BTreeMap::new());
        for (at, entry) in log.iter().enumerate() {
            let state = entry.value.is_some().then_some(entry.revision);
            keys.entry(&entry.key).or_default().push((at + 1, state));
            match (&entry.value, entry.previous) {
                (Some(value), _) => drop(values.insert(value.as_str(), at)),
                (None, Some(previous)) => drop(deleted.insert(previous, at)),
                (None, None) => {}
            }
        }
        Self { log, keys, values, deleted }
    }

    /// The first position from `from` on at which the state of the key fits.
    fn first(&self, key: &str, from: usize, fits: impl Fn(Option<u64>) -> bool) -> Option<usize> {
        let changes = self.keys.get(key).map_or(&[][..], Vec::as_slice);
        let (before, after) = changes.split_at(changes.partition_point(|(at, _)| *at <= from));
        if fits(before.last().and_then(|(_, state)| *state)) {
            return Some(from);
        }
        after.iter().find(|(_, state)| fits(*state)).map(|(at, _)| *at)
    }

    /// All keys at a revision of the store.
    fn at(&self, revision: u64) -> (usize, BTreeMap<&'a str, u64>) {
        let position = self.log.partition_point(|entry| entry.revision <= revision);
        let of = |changes: &[(usize, Option<u64>)]| {
            let before = changes.partition_point(|(at, _)| *at <= position).checked_sub(1)?;
            changes[before].1
        };
        let state = self.keys.iter().filter_map(|(key, changes)| Some((*key, of(changes)?)));
        (position, state.collect())
    }

    /// The position of a write whose answer is unknown, if it was stored.
    fn of_unknown(&self, request: &Request) -> Option<usize> {
        let (Request::Create { value, .. } | Request::Update { value, .. }) = request else { return None };
        self.values.get(value.as_str()).map(|at| at + 1)
    }

    /// The position of an acknowledged write.
    fn written(&self, request: &Request, revision: u64) -> Result<usize, String> {
        let matches_request = |entry: &Entry| match request {
            Request::Create { key, value } | Request::Update { key, value, .. } => {
                entry.revision == revision && entry.key == *key && entry.value.as_ref() == Some(value)
            }
            Request::Delete { key, base } => {
                entry.key == *key && entry.value.is_none() && entry.previous == Some(*base)
            }
            Request::Get { .. } | Request::List => false,
        };
        let found = match request {
            Request::Create { value, .. } | Request::Update { value, .. } => self.values.get(value.as_str()),
            Request::Delete { base, .. } => self.deleted.get(base),
            Request::Get { .. } | Request::List => None,
        };
        found
            .filter(|at| matches_request(&self.log[**at]))
            .map(|at| at + 1)
            .ok_or_else(|| format!("an acknowledged write is lost: {request:?} at {revision}"))
    }
}

/// # Errors
/// The violation in the history.
pub(super) fn linearizable(calls: &[Call], log: &[Entry]) -> Result<(), String> {
    well_formed(calls, log)?;
    let states = States::new(log);
    let mut calls: Vec<&Call> = calls.iter().collect();
    calls.sort_by_key(|call| call.called);
    // The places of answered calls, by the time of the answer, the first one on top; and the highest place of those
    // before.
    let (mut answered, mut floor) = (BinaryHeap::new(), 0);
    for call in calls {
        while let Some(Reverse((at, place))) = answered.peek().copied()
            && at < call.called
        {
            answered.pop();
            floor = floor.max(place);
        }
        let Some(place) = place(&states, call, floor)? else {
            if states.of_unknown(&call.request).is_some_and(|place| place <= floor) {
                return Err(format!("{call:?} was seen before it was called"));
            }
            continue;
        };
        if place < floor || call.request.is_write() && matches!(call.outcome, Outcome::Written(_)) && place == floor {
            return Err(format!("{call:?} is at position {place}, and an earlier call has seen position {floor}"));
        }
        answered.push(Reverse((call.answered, place)));
    }
    Ok(())
}

/// The place of a call; `None` if its outcome is unknown.
fn place(states: &States<'_>, call: &Call, floor: usize) -> Result<Option<usize>, String> {
    let nowhere = || format!("no state after position {floor} explains {call:?}");
    let key = call.request.key();
    Ok(Some(match &call.outcome {
        Outcome::Unknown => return Ok(None),
        Outcome::Written(revision) => states.written(&call.request, *revision)?,
        Outcome::Exists => states.first(key, floor, |state| state.is_some()).ok_or_else(nowhere)?,
        Outcome::Absent => states.first(key, floor, |state| state.is_none()).ok_or_else(nowhere)?,
        Outcome::Conflict => {
            let base = call.request.base();
            states.first(key, floor, |state| state != base).ok_or_else(nowhere)?
        }
        Outcome::Read(revision) => states.first(key, floor, |state| state == Some(*revision)).ok_or_else(nowhere)?,
        Outcome::Listed(revision, items) => {
            let (position, state) = states.at(*revision);
            let items: BTreeMap<&str, u64> = items.iter().map(|(key, at)| (key.as_str(), *at)).collect();
            if items != state {
                return Err(format!("the list at {revision} is {items:?}, the store had {state:?}"));
            }
            position
        }
    }))
}

/// Revisions increase, and each change has one request that made it.
fn well_formed(calls: &[Call], log: &[Entry]) -> Result<(), String> {
    if let Some(pair) = log.windows(2).find(|pair| pair[0].revision >= pair[1].revision) {
        return Err(format!("{:?} is before {:?}", pair[0], pair[1]));
    }
    let mut requested: BTreeMap<&str, &Call> = BTreeMap::new();
    for call in calls {
        if let Request::Create { value, .. } | Request::Update { value, .. } = &call.request {
            requested.insert(value, call);
        }
    }
    for value in log.iter().filter_map(|entry| entry.value.as_deref()) {
        match requested.remove(value).map(|call| &call.outcome) {
            Some(Outcome::Written(_) | Outcome::Unknown) => {}
            Some(other) => return Err(format!("{value} was refused ({other:?}) and is stored")),
            None => return Err(format!("{value} is stored twice, or no call wrote it")),
        }
    }
    Ok(())
}

/// Whether a watch after `start` has delivered each change once and in order, up to its last one.
///
/// # Errors
/// The first difference.
pub(super) fn watched(start: u64, seen: &[(u64, String)], log: &[Entry]) -> Result<(), String> {
    let expected = log.iter().filter(|entry| entry.revision > start).map(|entry| (entry.revision, entry.key.clone()));
    for (number, (seen, expected)) in seen.iter().zip(expected.clone()).enumerate() {
        if *seen != expected {
            return Err(format!("event {number} is {seen:?}, the change is {expected:?}"));
        }
    }
    if seen.len() > expected.count() { Err("events without a change".to_owned()) } else { Ok(()) }
}

mod tests {
    use super::*;

    fn call(called: u64, answered: u64, request: Request, outcome: Outcome) -> Call {
        Call { called, answered, request, outcome }
    }

    fn create(value: &str) -> Request {
        Request::Create { key: "k".to_owned(), value: value.to_owned() }
    }

    fn update(value: &str, base: u64) -> Request {
        Request::Update { key: "k".to_owned(), value: value.to_owned(), base }
    }

    fn delete(base: u64) -> Request {
        Request::Delete { key: "k".to_owned(), base }
    }

    fn get() -> Request {
        Request::Get { key: "k".to_owned() }
    }

    fn listed(revision: u64, at: &[u64]) -> Outcome {
        Outcome::Listed(revision, at.iter().map(|at| ("k".to_owned(), *at)).collect())
    }

    /// `k` is created at 2, updated at 4, deleted at 6.
    fn log() -> Vec<Entry> {
        let entry = |revision, value: Option<&str>, previous| Entry {
            revision,
            key: "k".to_owned(),
            value: value.map(str::to_owned),
            previous,
        };
        vec![entry(2, Some("a"), None), entry(4, Some("b"), Some(2)), entry(6, None, Some(4))]
    }

    fn writes() -> Vec<Call> {
        vec![
            call(10, 20, create("a"), Outcome::Written(2)),
            call(30, 40, update("b", 2), Outcome::Written(4)),
            call(50, 60, delete(4), Outcome::Written(0)),
        ]
    }

    #[test]
    fn reads_are_explained_by_a_state_between_call_and_answer() {
        for (what, extra, is_right) in [
            ("before everything", call(1, 2, get(), Outcome::Absent), true),
            ("beside the create, before it", call(15, 16, get(), Outcome::Absent), true),
            ("beside the create, after it", call(15, 16, get(), Outcome::Read(2)), true),
            ("before the create was called", call(1, 2, get(), Outcome::Read(2)), false),
            ("after the create was answered", call(25, 26, get(), Outcome::Absent), false),
            ("an older state", call(45, 46, get(), Outcome::Read(2)), false),
            ("a list of an older state", call(45, 46, Request::List, listed(3, &[2])), false),
            ("a list that lacks the object", call(45, 46, Request::List, listed(5, &[])), false),
            ("a list", call(45, 46, Request::List, listed(5, &[4])), true),
            ("a list at the end", call(70, 71, Request::List, listed(6, &[])), true),
            ("a refused create", call(45, 46, create("c"), Outcome::Exists), true),
            ("a create refused although it was deleted", call(70, 71, create("c"), Outcome::Exists), false),
            ("a conflict", call(45, 46, update("c", 2), Outcome::Conflict), true),
            ("a conflict with the present state", call(45, 46, update("c", 4), Outcome::Conflict), false),
            ("an update of what is there", call(45, 46, update("c", 4), Outcome::Absent), false),
            ("an unknown write that was not stored", call(45, 46, create("c"), Outcome::Unknown), true),
            ("a lost write", call(45, 46, update("c", 4), Outcome::Written(5)), false),
        ] {
            let calls: Vec<Call> = writes().into_iter().chain([extra]).collect();
            let found = linearizable(&calls, &log());
            assert_eq!(found.is_ok(), is_right, "{what}: {found:?}");
        }
    }

    #[test]
    fn two_reads_see_no_state_twice_in_the_wrong_order() {
        let beside = |first, second| vec![call(31, 33, get(), first), call(34, 36, get(), second)];
        for (reads, is_right) in [
            (beside(Outcome::Read(2), Outcome::Read(4)), true),
            (beside(Outcome::Read(4), Outcome::Read(4)), true),
            (beside(Outcome::Read(4), Outcome::Read(2)), false),
        ] {
            let calls: Vec<Call> = writes().into_iter().chain(reads.clone()).collect();
            assert_eq!(linearizable(&calls, &log()).is_ok(), is_right, "{reads:?}");
        }
    }

    #[test]
    fn stored_writes_were_requested_once_and_not_rejected() {
        let mut calls = writes();
        calls[1].outcome = Outcome::Unknown;
        assert_eq!(linearizable(&calls, &log()), Ok(()), "an unknown write may be stored");
        calls.push(call(21, 22, get(), Outcome::Read(4)));
        assert!(linearizable(&calls, &log()).is_err_and(|why| why.contains("before it was called")));
        calls.pop();
        calls[1].outcome = Outcome::Conflict;
        assert!(linearizable(&calls, &log()).is_err_and(|why| why.contains("refused")));
        let mut twice = log();
        twice.push(Entry { revision: 8, ..twice[0].clone() });
        assert!(linearizable(&writes(), &twice).is_err_and(|why| why.contains("twice")));
        let mut reordered = log();
        reordered.swap(0, 1);
        assert!(linearizable(&writes(), &reordered).is_err_and(|why| why.contains("before")));
    }

    #[test]
    fn watches_deliver_each_change_once_and_in_order() {
        for (what, start, seen, is_right) in [
            ("all", 1, &[2, 4, 6][..], true),
            ("a part", 2, &[4], true),
            ("nothing yet", 2, &[], true),
            ("one is missing", 1, &[2, 6], false),
            ("one comes twice", 1, &[2, 2, 4], false),
            ("reordered", 1, &[4, 2], false),
            ("too much", 4, &[6, 8], false),
        ] {
            let seen: Vec<(u64, String)> = seen.iter().map(|at| (*at, "k".to_owned())).collect();
            assert_eq!(watched(start, &seen, &log()).is_ok(), is_right, "{what}");
        }
    }
}
