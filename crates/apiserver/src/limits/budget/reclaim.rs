//! The end of unread responses while the server is short of bytes in flight. A response may go unread for a minute as long
//! as the server has plenty left. Once half of its bytes are unread, those that make no progress are ended earlier: first
//! of the users with most unread bytes. So clients that read nothing, with however many identities, never keep the
//! server's bytes from clients that read.

use std::collections::HashMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Account, Accounts, PIECE, Stream};

/// Between two checks of the unread responses.
const PERIOD: Duration = Duration::from_millis(250);

/// A response that makes no progress for this long is ended while half of the server's bytes are in flight. Longer than
/// the pauses of a client that reads: garbage collection, a retransmission.
const PATIENCE: Duration = Duration::from_secs(1);

/// The same while three quarters are in flight.
const PATIENCE_IF_SHORT: Duration = PERIOD;

/// A connection of HTTP/2 is ended as a whole only if ending its responses did not help.
const CONNECTION_FACTOR: u32 = 4;

/// Bytes that are progress: a client on a line of 128 kbit/s takes as many in a second.
const PROGRESS: u64 = (PIECE / 4) as u64;

/// The responses and connections that have bytes in flight, with how far they were at the last check.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    all: Mutex<HashMap<u64, (Arc<Entry>, Mark)>>,
    next: AtomicU64,
    /// Whether a task checks them.
    is_watched: AtomicBool,
}

/// A response or a connection with bytes in flight.
#[derive(Debug)]
pub(crate) struct Entry {
    subject: Subject,
    accounts: Arc<Accounts>,
    is_ended: AtomicBool,
    waker: AtomicWaker,
}

/// What is ended.
#[derive(Debug)]
pub(crate) enum Subject {
    /// A response over HTTP/2.
    Stream(Arc<Stream>),
    /// A connection; one of HTTP/1 has one response.
    Connection { http2: bool },
}

/// The progress of an entry.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// The series of checks in which it was made.
    series: u64,
    at: Instant,
    taken: u64,
    in_flight: usize,
}

/// Keeps an entry among the [`Unread`].
#[derive(Debug)]
pub(crate) struct Enrolled {
    unread: Arc<Unread>,
    number: u64,
    entry: Arc<Entry>,
}

impl Enrolled {
    /// Whether the subject is to end; otherwise the task is woken for it.
    pub fn poll_end(&self, context: &std::task::Context<'_>) -> bool {
        if self.entry.is_ended.load(Acquire) {
            return true;
        }
        self.entry.waker.register(context.waker());
        self.entry.is_ended.load(Acquire)
    }
}

impl Drop for Enrolled {
    fn drop(&mut self) {
        self.unread.all.lock().remove(&self.number);
    }
}

impl Entry {
    fn in_flight(&self) -> usize {
        match &self.subject {
            Subject::Stream(stream) => stream.in_flight(),
            Subject::Connection { .. } => self.accounts.connection.sending(),
        }
    }

    fn taken(&self) -> u64 {
        match &self.subject {
            Subject::Stream(stream) => stream.taken(),
            Subject::Connection { .. } => self.accounts.connection.taken(),
        }
    }

    fn mark(&self, series: u64, at: Instant) -> Mark {
        Mark { series, at, taken: self.taken(), in_flight: self.in_flight() }
    }

    fn end(&self) {
        self.is_ended.store(true, Release);
        self.waker.wake();
    }
}

impl Unread {
    /// Adds a subject that has bytes in flight, until the guard is dropped.
    pub fn enrol(self: &Arc<Self>, subject: Subject, accounts: Arc<Accounts>) -> Enrolled {
        let entry = Arc::new(Entry { subject, accounts, is_ended: AtomicBool::new(false), waker: AtomicWaker::new() });
        let number = self.next.fetch_add(1, Relaxed);
        let mark = entry.mark(0, Instant::now());
        self.all.lock().insert(number, (Arc::clone(&entry), mark));
        Enrolled { unread: Arc::clone(self), number, entry }
    }

    /// Checks the responses until the server has enough left again.
    #[cold]
    pub fn watch(self: &Arc<Self>, server: Weak<Account>) {
        if self.is_watched.swap(true, Relaxed) {
            return;
        }
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(look(Arc::clone(self), server))),
            Err(_) => self.is_watched.store(false, Relaxed),
        }
    }

    /// Ends responses without progress until `excess` bytes are released; returns the number of bytes and of subjects.
    fn end_some(&self, series: u64, excess: usize, patience: Duration) -> (usize, usize) {
        let now = Instant::now();
        let mut still = Vec::new();
        for (entry, mark) in self.all.lock().values_mut() {
            let in_flight = entry.in_flight();
            let progress = entry.taken().saturating_sub(mark.taken);
            let needed = PROGRESS.min(mark.in_flight as u64).max(1);
            if mark.series != series || in_flight == 0 || progress >= needed {
                *mark = entry.mark(series, now);
                continue;
            }
            let factor = match entry.subject {
                Subject::Connection { http2: true } => CONNECTION_FACTOR,
                _ => 1,
            };
            if now - mark.at >= patience * factor && !entry.is_ended.load(Relaxed) {
                still.push((entry.accounts.user.in_flight(), now - mark.at, in_flight, Arc::clone(entry)));
            }
        }
        still.sort_unstable_by_key(|(of_user, since, ..)| std::cmp::Reverse((*of_user, *since)));
        let mut freed = (0, 0);
        for (_, _, in_flight, entry) in still {
            if freed.0 >= excess {
                break;
            }
            entry.end();
            freed = (freed.0 + in_flight, freed.1 + 1);
        }
        freed
    }
}

async fn look(unread: Arc<Unread>, server: Weak<Account>) {
    let series = unread.next.fetch_add(1, Relaxed) + 1;
    loop {
        tokio::time::sleep(PERIOD).await;
        let Some(server) = server.upgrade() else { return };
        let used = server.in_flight();
        let Some(excess) = used.checked_sub(server.tight_at()) else { break };
        let is_short = excess >= server.tight_at() / 2;
        let patience = if is_short { PATIENCE_IF_SHORT } else { PATIENCE };
        let (bytes, count) = unread.end_some(series, excess.max(1), patience);
        if count > 0 {
            tracing::warn!(count, bytes, used, "Responses were ended because their clients do not read them");
        }
    }
    unread.is_watched.store(false, Release);
    // It may have become short again since.
    if let Some(server) = server.upgrade() {
        server.check();
    }
}
