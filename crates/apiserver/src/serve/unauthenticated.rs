//! Connections that have not authenticated a request: their limits, and which one is closed to make room.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use futures::future::AbortHandle;
use parking_lot::Mutex;

use crate::limits::fairness::Place;

/// Connections that are searched for an idle one; if all of them are busy, the oldest is closed.
const LOOKED_AT: usize = 64;

/// The unauthenticated connections of one listener.
#[derive(Debug)]
pub(super) struct Unauthenticated(Mutex<Table<UnauthenticatedConnection>>);

#[derive(Debug)]
struct UnauthenticatedConnection {
    place: Arc<Place>,
    close: AbortHandle,
}

/// The entry of an unauthenticated connection; it ends with the connection, or when its user is known.
pub(super) struct Entry {
    unauthenticated: Arc<Unauthenticated>,
    number: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.unauthenticated.0.lock().leave(self.number);
    }
}

impl Unauthenticated {
    /// `most` in all, and `most_per_address` of one address.
    pub(super) fn new(most: usize, most_per_address: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Table::new(most, most_per_address))))
    }

    /// Takes in a new connection, which `close` ends. The oldest idle one makes room for it.
    pub(super) fn arrive(self: &Arc<Self>, address: IpAddr, place: &Arc<Place>, close: AbortHandle) -> Entry {
        let newcomer = UnauthenticatedConnection { place: Arc::clone(place), close };
        let (number, closed) = self.0.lock().arrive(address, newcomer, |newcomer| newcomer.place.is_idle());
        close_all(closed, "a newer connection needs its place");
        let entry = Entry { unauthenticated: Arc::clone(self), number };
        let known = Arc::clone(self);
        place.when_acquainted(move || known.0.lock().leave(number));
        entry
    }

    /// Closes up to `count` of the oldest; answers whether there was one.
    pub(super) fn shed(&self, count: usize) -> bool {
        let mut table = self.0.lock();
        let closed: Vec<_> = (0..count).map_while(|_| table.close_one(|newcomer| newcomer.place.is_idle())).collect();
        drop(table);
        let any = !closed.is_empty();
        close_all(closed, "the server has no room for more connections");
        any
    }
}

fn close_all(closed: Vec<(IpAddr, UnauthenticatedConnection)>, why: &str) {
    for (address, newcomer) in closed {
        tracing::debug!(%address, why, "Connection without an authenticated request closed");
        newcomer.close.abort();
    }
}

/// The unauthenticated connections, in the order of their arrival.
#[derive(Debug)]
struct Table<C> {
    most: usize,
    most_per_address: usize,
    next: u64,
    all: BTreeMap<u64, (IpAddr, C)>,
    by_address: HashMap<IpAddr, BTreeSet<u64>>,
}

impl<C> Table<C> {
    fn new(most: usize, most_per_address: usize) -> Self {
        Self { most, most_per_address, next: 0, all: BTreeMap::new(), by_address: HashMap::new() }
    }

    /// Adds one; answers its number and those that make room.
    fn arrive(&mut self, address: IpAddr, one: C, is_idle: impl Fn(&C) -> bool) -> (u64, Vec<(IpAddr, C)>) {
        let mut closed = Vec::new();
        let same = self.by_address.get(&address);
        if same.is_some_and(|same| same.len() >= self.most_per_address) {
            let numbers = same.into_iter().flatten().copied();
            closed.extend(self.oldest(numbers, &is_idle).and_then(|number| self.take(number)));
        }
        if self.all.len() >= self.most {
            closed.extend(self.close_one(&is_idle));
        }
        let number = self.next;
        self.next += 1;
        self.all.insert(number, (address, one));
        self.by_address.entry(address).or_default().insert(number);
        (number, closed)
    }

    fn leave(&mut self, number: u64) {
        self.take(number);
    }

    fn close_one(&mut self, is_idle: impl Fn(&C) -> bool) -> Option<(IpAddr, C)> {
        let number = self.oldest(self.all.keys().copied(), is_idle)?;
        self.take(number)
    }

    fn oldest(&self, mut numbers: impl Iterator<Item = u64> + Clone, is_idle: impl Fn(&C) -> bool) -> Option<u64> {
        let idle = |number: &u64| self.all.get(number).is_some_and(|(_, one)| is_idle(one));
        numbers.clone().take(LOOKED_AT).find(idle).or_else(|| numbers.next())
    }

    fn take(&mut self, number: u64) -> Option<(IpAddr, C)> {
        let (address, one) = self.all.remove(&number)?;
        if let Some(same) = self.by_address.get_mut(&address) {
            same.remove(&number);
            if same.is_empty() {
                self.by_address.remove(&address);
            }
        }
        Some((address, one))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a` arrives from address `a`, `A` arrives from it and is busy, `-3` is the fourth arrival leaving. Answers which
    /// arrivals were closed, and by which.
    fn closed(most: usize, most_per_address: usize, script: &str) -> String {
        let mut table = Table::new(most, most_per_address);
        let mut out = Vec::new();
        for word in script.split_whitespace() {
            if let Some(number) = word.strip_prefix('-') {
                table.leave(number.parse().expect("a number"));
                continue;
            }
            let letter = word.as_bytes()[0];
            let address = IpAddr::from([10, 0, 0, letter.to_ascii_lowercase()]);
            let (this, idle) = (table.next, letter.is_ascii_lowercase());
            let (number, closed) = table.arrive(address, (this, idle), |(_, idle)| *idle);
            assert_eq!(number, this);
            out.extend(closed.into_iter().map(|(_, (number, _))| format!("{number}<{this}")));
        }
        assert_eq!(table.all.len(), table.by_address.values().map(BTreeSet::len).sum::<usize>());
        out.join(" ")
    }

    #[test]
    fn the_oldest_idle_connection_is_closed() {
        for (what, script, expected) in [
            ("room for all", "a b c d", ""),
            ("too many in all", "a b c d e f", "0<4 1<5"),
            ("too many of an address", "a b a a", "0<3"),
            ("of an address that is not the oldest", "b a a a", "1<3"),
            ("a busy one stays", "A b c d e", "1<4"),
            ("unless all are busy", "A B C D e", "0<4"),
            ("those who left count no more", "a b c d -1 -2 e f", ""),
            ("both bounds at once", "b a c a a d", "1<4 0<5"),
        ] {
            assert_eq!(closed(4, 2, script), expected, "{what}");
        }
    }
}
