//! One user, or one address whose users are not known, and how much it has used lately.

use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use super::schedule::Order;

/// A flow is light while it uses at most one part in this many of one core.
const SHARE: u64 = 8;
/// The initial credit, in nanoseconds of that part: 2.5 ms of work, a few handshakes or a dozen requests.
const BURST: u64 = SHARE * 2_500_000;

/// The maximum debt, so that any load is paid off within a second.
const DEBT: u64 = 1_000_000_000;

/// The user or the address of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// An authenticated user.
    User(Box<str>),
    /// Connections that have not authenticated a request.
    Address(IpAddr),
}

/// A user or an address that shares the processor.
#[derive(Debug)]
pub struct Flow {
    pub(super) id: u64,
    pub(super) key: Key,
    /// When the usage so far will be compensated at the rate of [`SHARE`], in nanoseconds of the clock.
    paid_at: AtomicU64,
    pub(super) in_flight: AtomicUsize,
}

impl Flow {
    pub(super) fn new(id: u64, key: Key) -> Self {
        Self { id, key, paid_at: AtomicU64::new(0), in_flight: AtomicUsize::new(0) }
    }

    pub(super) fn is_of(&self, user: &str) -> bool {
        matches!(&self.key, Key::User(known) if **known == *user)
    }

    /// Unauthenticated connections are served newest first: during a flood each of them would otherwise time out.
    pub(super) fn order(&self) -> Order {
        match self.key {
            Key::User(_) => Order::OldestFirst,
            Key::Address(_) => Order::NewestFirst,
        }
    }

    /// Whether it has used so little lately that it need not wait.
    pub(super) fn is_light(&self, now: u64) -> bool {
        self.paid_at.load(Relaxed) <= now.saturating_add(BURST)
    }

    pub(super) fn charge(&self, now: u64, nanoseconds: u64) {
        let due = nanoseconds.saturating_mul(SHARE);
        let later = |paid: u64| paid.max(now).saturating_add(due).min(now.saturating_add(DEBT));
        let _ = self.paid_at.fetch_update(Relaxed, Relaxed, |paid| Some(later(paid)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_light_at_an_eighth_of_a_core_and_for_a_burst() {
        const MS: u64 = 1_000_000;
        // (milliseconds of work, every so many milliseconds, for so many times) and how often it was light before.
        for (work, every, times, light) in
            [(1, 8, 100, 100), (1, 20, 100, 100), (1, 2, 100, 4), (1, 0, 100, 3), (500, 990, 9, 9)]
        {
            let flow = Flow::new(1, Key::User("a".into()));
            let counted = (0..times).filter(|n| {
                let now = 1000 * MS + n * every * MS;
                let was = flow.is_light(now);
                flow.charge(now, work * MS);
                was
            });
            assert_eq!(counted.count(), light, "{work} ms of work every {every} ms");
        }
    }
}
