//! One count of bytes in flight, and those that wait for room in it.
//!
//! A user may have as many bytes in flight as the server has left of three quarters of its limit, and no more than the user's limit:
//! four users with their full limit would otherwise be all of the server. The last quarter is for users with few bytes in
//! flight, as those who read have: however many users do not read their responses, something is left for another one.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::PIECE;
use super::reclaim::Unread;

/// One count of bytes in flight, with those that wait for room in it.
#[derive(Debug)]
pub(crate) struct Account {
    limit: usize,
    sending: AtomicUsize,
    held: AtomicUsize,
    /// Bytes that were taken since it began.
    taken: AtomicU64,
    waiting: Mutex<BTreeMap<u64, Waker>>,
    waits: AtomicBool,
    tickets: AtomicU64,
    /// The server's account, if this is a user's.
    server: Option<Arc<Account>>,
    /// In the server's account: what is ended when it is short.
    unread: Option<Short>,
    /// Bytes from which on it is short.
    tight_at: usize,
    /// The accounts of users whose waiters the server's room may help.
    users: Mutex<Vec<Weak<Account>>>,
    /// Whether it is among the `users` of the server's account; in that, whether there are any.
    is_short: AtomicBool,
}

#[derive(Debug)]
struct Short {
    unread: Arc<Unread>,
    account: Weak<Account>,
}

/// A user with fewer bytes in flight than this part of the server's limit may use the last quarter: 256 KiB of 256 MiB.
const SMALL: usize = 1024;

/// The size to reserve.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reservation {
    /// More of a response that has begun.
    ToSend,
    /// A response that begins.
    ToBegin,
}

impl Account {
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self::within(limit, None))
    }

    /// The account of a server, with the responses to end when it is short.
    pub fn of_server(limit: usize, unread: Arc<Unread>) -> Arc<Self> {
        Arc::new_cyclic(|account| Self {
            tight_at: limit / 2,
            unread: Some(Short { unread, account: Weak::clone(account) }),
            ..Self::within(limit, None)
        })
    }

    /// The account of a user of a server.
    pub fn of_user(limit: usize, server: &Arc<Self>) -> Arc<Self> {
        Arc::new(Self::within(limit, Some(Arc::clone(server))))
    }

    fn within(limit: usize, server: Option<Arc<Self>>) -> Self {
        Self {
            limit,
            sending: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            taken: AtomicU64::new(0),
            waiting: Mutex::default(),
            waits: AtomicBool::new(false),
            tickets: AtomicU64::new(0),
            server,
            unread: None,
            tight_at: usize::MAX,
            users: Mutex::default(),
            is_short: AtomicBool::new(false),
        }
    }

    pub fn has(&self, reservation: Reservation) -> bool {
        self.used(reservation) < self.limit(reservation)
    }

    fn used(&self, reservation: Reservation) -> usize {
        let held = if reservation == Reservation::ToBegin { self.held.load(SeqCst) } else { 0 };
        self.sending.load(SeqCst) + held
    }

    /// Bytes that it may have.
    fn limit(&self, reservation: Reservation) -> usize {
        let Some(server) = &self.server else { return self.limit };
        let (all, used) = (server.limit, server.used(reservation));
        let left = (all - all / 4).saturating_sub(used);
        let small = (all / SMALL).min(all.saturating_sub(used));
        left.max(small).min(self.limit)
    }

    /// Bytes in flight from which on unread responses are ended earlier.
    pub fn tight_at(&self) -> usize {
        self.tight_at
    }

    /// Begins to end unread responses if it is short.
    pub fn check(&self) {
        if self.in_flight() >= self.tight_at
            && let Some(short) = &self.unread
        {
            short.unread.watch(Weak::clone(&short.account));
        }
    }

    pub fn in_flight(&self) -> usize {
        self.used(Reservation::ToBegin)
    }

    pub fn sending(&self) -> usize {
        self.sending.load(Relaxed)
    }

    pub fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    pub fn send(&self, size: usize) {
        let before = self.sending.fetch_add(size, SeqCst);
        if before.saturating_add(size) >= self.tight_at {
            self.check();
        }
    }

    pub fn hold(&self, size: usize) {
        self.held.fetch_add(size, SeqCst);
        self.check();
    }

    /// The client takes these bytes; they count as sending until all of their piece is taken.
    pub fn take(&self, size: usize) {
        self.taken.fetch_add(size as u64, Relaxed);
    }

    /// These bytes were taken, or never will be.
    pub fn sent(&self, size: usize) {
        self.sending.fetch_sub(size, SeqCst);
        self.wake();
    }

    pub fn release(&self, size: usize) {
        if size > 0 {
            self.held.fetch_sub(size, SeqCst);
            self.wake();
        }
    }

    /// Wakes those there is room for, first come first served.
    fn wake(&self) {
        if self.server.is_none() && self.is_short.load(SeqCst) {
            self.wake_users();
        }
        if !self.waits.load(SeqCst) {
            return;
        }
        let (sending, limit) = (self.sending.load(SeqCst), self.limit(Reservation::ToSend));
        if sending >= limit {
            return;
        }
        // One that was woken may not come any more, so the last release wakes all.
        let most = if sending == 0 { usize::MAX } else { (limit - sending).div_ceil(PIECE) };
        let mut waiting = self.waiting.lock();
        for _ in 0..most {
            let Some((_, waker)) = waiting.pop_first() else {
                self.waits.store(false, SeqCst);
                return;
            };
            waker.wake();
        }
    }

    /// Wakes those whose users have room now that the server has more.
    fn wake_users(&self) {
        let mut users = self.users.lock();
        users.retain(|user| {
            let Some(user) = user.upgrade() else { return false };
            user.wake();
            let stays = user.waits.load(SeqCst);
            user.is_short.store(stays, SeqCst);
            stays
        });
        self.is_short.store(!users.is_empty(), SeqCst);
    }

    /// The server wakes its waiters too.
    fn note_shortage(self: &Arc<Self>) {
        let Some(server) = &self.server else { return };
        let mut users = server.users.lock();
        if !self.is_short.swap(true, SeqCst) {
            users.push(Arc::downgrade(self));
        }
        server.is_short.store(true, SeqCst);
    }

    /// Waits for room; a ticket keeps the place in the queue.
    pub fn poll(
        self: &Arc<Self>,
        reservation: Reservation,
        ticket: &mut Option<Ticket>,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        if self.has(reservation) {
            *ticket = None;
            return Poll::Ready(());
        }
        if !ticket.as_ref().is_some_and(|ticket| Arc::ptr_eq(&ticket.account, self)) {
            *ticket = Some(Ticket { account: Arc::clone(self), number: self.tickets.fetch_add(1, Relaxed) });
        }
        if let Some(ticket) = ticket {
            let mut waiting = self.waiting.lock();
            waiting.insert(ticket.number, context.waker().clone());
            self.waits.store(true, SeqCst);
        }
        if self.used(reservation) < self.limit {
            self.note_shortage();
        }
        // Some may have been freed before the waker was there to be woken.
        if self.has(reservation) {
            *ticket = None;
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

/// A place in the queue of an account.
pub(crate) struct Ticket {
    account: Arc<Account>,
    number: u64,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.account.waiting.lock().remove(&self.number);
    }
}
