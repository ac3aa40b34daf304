//! Limits of response bytes in flight: produced for a client that has not read them yet. Each byte counts for its
//! connection, its user and the server. A response whose accounts are full waits before it produces more; a request
//! whose user's or server's account is full waits or is refused before anything is produced for it.
//!
//! Two kinds of bytes are counted separately. Bytes *sending* were passed to the connection and are released when the
//! client reads them. Bytes *held* were built as a whole, or belong to a response for its duration; they delay new
//! responses, but never those that have begun, which release them.

mod account;
mod reclaim;

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use apimachinery::status::StatusDetails;
use apimachinery::{Status, StatusReason};
use futures::task::AtomicWaker;
use metrics::{Counters, Gauges, Registry};
use parking_lot::Mutex;

use crate::limits::fairness::Place;
use crate::metrics::{CUT, IN_FLIGHT, REFUSED};
pub(crate) use account::{Account, Reservation, Ticket};
use reclaim::Unread;
pub(crate) use reclaim::{Enrolled, Subject};

/// Bytes a response produces or hands over at once.
pub(crate) const PIECE: usize = 64 << 10;

/// How long a request waits for its user's other responses before it is refused: a quarter of its time, as long as
/// kube-apiserver queues requests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// The same for a request that has a seat of its priority level, which others wait for. It waits only if the account has
/// been filled since it got the seat.
pub(crate) const PATIENCE_WITH_SEAT: Duration = Duration::from_millis(250);

/// Seconds after which a refused client is to try again.
const RETRY_AFTER: i32 = 1;

/// Users whose accounts are remembered before unused ones are dropped.
const REMEMBERED: usize = 64;

/// Bytes of responses in flight, each exceeded by at most one piece for each thread of the server.
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    /// Ten full windows of a Go client's stream would be more; a list flows at full speed with a tenth of it.
    pub connection: usize,
    /// For all connections of one user; and no more than the server has left.
    pub user: usize,
    /// For the whole server.
    pub server: usize,
}

impl Default for Bytes {
    fn default() -> Self {
        Self { connection: 4 << 20, user: 64 << 20, server: 256 << 20 }
    }
}

/// The accounts of a server.
pub struct Budgets {
    limits: Bytes,
    server: Arc<Account>,
    unread: Arc<Unread>,
    users: Mutex<HashMap<Arc<str>, Weak<Account>>>,
    in_flight: Gauges,
    cut: Counters,
    refused: Counters,
}

impl Default for Budgets {
    fn default() -> Self {
        Self::new(Bytes::default(), &Registry::default())
    }
}

impl std::fmt::Debug for Budgets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes in flight of {:?}", self.in_flight(), self.limits)
    }
}

impl Budgets {
    /// Accounts with these limits; the metrics are in `registry`.
    pub fn new(limits: Bytes, registry: &Registry) -> Self {
        let unread = Arc::<Unread>::default();
        Self {
            limits,
            server: Account::of_server(limits.server, Arc::clone(&unread)),
            unread,
            users: Mutex::default(),
            in_flight: registry.gauges(&IN_FLIGHT),
            cut: registry.counters(&CUT),
            refused: registry.counters(&REFUSED),
        }
    }

    /// Bytes that clients have not taken yet.
    pub fn in_flight(&self) -> usize {
        self.server.in_flight()
    }

    pub(crate) fn report(&self) {
        self.in_flight.set(&[], self.in_flight() as f64);
    }

    /// Counts a `stream` or a `connection` that was aborted because its client did not read.
    pub(crate) fn count_cut(&self, kind: &'static str) {
        self.cut.increment(&[kind]);
    }

    fn user(&self, name: &str) -> Arc<Account> {
        let mut users = self.users.lock();
        if let Some(found) = users.get(name).and_then(Weak::upgrade) {
            return found;
        }
        if users.len() >= REMEMBERED {
            users.retain(|_, account| account.strong_count() > 0);
        }
        let account = Account::of_user(self.limits.user, &self.server);
        users.insert(name.into(), Arc::downgrade(&account));
        account
    }
}

/// The accounts of a response's bytes.
#[derive(Clone, Debug)]
pub(crate) struct Accounts {
    pub connection: Arc<Account>,
    pub user: Arc<Account>,
    pub server: Arc<Account>,
}

impl Accounts {
    pub fn send(&self, size: usize, shared: bool) {
        self.connection.send(size);
        if !shared {
            self.user.send(size);
            self.server.send(size);
        }
    }

    pub fn sent(&self, size: usize, shared: bool) {
        self.connection.sent(size);
        if !shared {
            self.user.sent(size);
            self.server.sent(size);
        }
    }

    pub fn hold(&self, size: usize) {
        self.user.hold(size);
        self.server.hold(size);
    }

    pub fn release(&self, size: usize) {
        self.user.release(size);
        self.server.release(size);
    }
}

/// One response in flight.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    in_flight: AtomicUsize,
    taken: AtomicU64,
    /// It has nothing in flight because its connection accepts nothing.
    pub blocked: AtomicBool,
    /// Woken when all of it was taken.
    pub waker: AtomicWaker,
}

impl Stream {
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Relaxed)
    }

    pub fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }
}

/// Bytes handed to the connection; dropped when the client took them.
pub(crate) struct Lease {
    stream: Arc<Stream>,
    accounts: Arc<Accounts>,
    size: usize,
    shared: bool,
}

impl Lease {
    /// The accounts have counted these bytes. Those of a shared piece are counted where the piece was created.
    pub fn new(stream: &Arc<Stream>, accounts: &Arc<Accounts>, size: usize, shared: bool) -> Self {
        stream.in_flight.fetch_add(size, SeqCst);
        Self { stream: Arc::clone(stream), accounts: Arc::clone(accounts), size, shared }
    }
}

impl Lease {
    /// Notes that the client takes some of the bytes.
    pub fn take(&self, size: usize) {
        self.stream.taken.fetch_add(size as u64, Relaxed);
        self.accounts.connection.take(size);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.stream.in_flight.fetch_sub(self.size, SeqCst) == self.size {
            self.stream.waker.wake();
        }
        self.accounts.sent(self.size, self.shared);
    }
}

/// The connection a request came over; an extension of the request.
#[derive(Clone, Debug)]
pub(crate) struct Wire(Arc<Connection>);

#[derive(Debug)]
struct Connection {
    account: Arc<Account>,
    budgets: Arc<Budgets>,
    place: Arc<Place>,
    /// The first user. Most connections have no other.
    own: OnceLock<(Box<str>, Arc<Accounts>)>,
    /// The latest of the others.
    latest: Mutex<Option<(Box<str>, Arc<Accounts>)>>,
}

impl Wire {
    pub fn new(budgets: Arc<Budgets>, place: Arc<Place>) -> Self {
        let account = Account::new(budgets.limits.connection);
        Self(Arc::new(Connection { account, budgets, place, own: OnceLock::new(), latest: Mutex::default() }))
    }

    #[cfg(test)]
    pub fn alone(budgets: Budgets) -> Self {
        let turns = crate::limits::fairness::Turns::new(1, 1);
        Self::new(Arc::new(budgets), Place::new(&turns, std::net::Ipv4Addr::LOCALHOST.into()))
    }

    pub fn place(&self) -> &Arc<Place> {
        &self.0.place
    }

    pub fn account(&self) -> &Arc<Account> {
        &self.0.account
    }

    pub fn budgets(&self) -> &Arc<Budgets> {
        &self.0.budgets
    }

    /// The accounts of a response to this user.
    pub fn accounts(&self, user: &str) -> Arc<Accounts> {
        self.own(user).map_or_else(|| self.others(user), Arc::clone)
    }

    /// The accounts of a response without [`Billed`]: the first user's.
    pub fn own_accounts(&self) -> Arc<Accounts> {
        self.0.own.get().map_or_else(|| self.others(""), |(_, accounts)| Arc::clone(accounts))
    }

    /// Enters a response or the connection, which has bytes in flight, among those that may be ended.
    pub fn enrol(&self, subject: Subject) -> Enrolled {
        self.0.budgets.unread.enrol(subject, self.own_accounts())
    }

    /// The mark of a response to this user.
    pub fn billed(&self, user: &str) -> Option<Billed> {
        if self.own(user).is_some() { None } else { Some(Billed(self.others(user))) }
    }

    /// The accounts of this user, who is the first one of the connection.
    fn own(&self, user: &str) -> Option<&Arc<Accounts>> {
        let (own, accounts) = self.0.own.get_or_init(|| (user.into(), self.fresh(user)));
        (**own == *user).then_some(accounts)
    }

    fn others(&self, user: &str) -> Arc<Accounts> {
        let mut latest = self.0.latest.lock();
        if let Some((_, accounts)) = latest.as_ref().filter(|(name, _)| **name == *user) {
            return Arc::clone(accounts);
        }
        let accounts = self.fresh(user);
        *latest = Some((user.into(), Arc::clone(&accounts)));
        accounts
    }

    fn fresh(&self, user: &str) -> Arc<Accounts> {
        Arc::new(Accounts {
            connection: Arc::clone(&self.0.account),
            user: self.0.budgets.user(user),
            server: Arc::clone(&self.0.budgets.server),
        })
    }

    /// Whether a response to this user may begin without waiting, as nearly all may.
    pub fn admits(&self, user: &str) -> bool {
        let may_begin =
            |accounts: &Accounts| accounts.server.has(Reservation::ToBegin) && accounts.user.has(Reservation::ToBegin);
        self.own(user).is_some_and(|accounts| may_begin(accounts))
    }

    /// Whether the user has to read earlier responses before another one may begin.
    pub fn is_behind(&self, user: &str) -> bool {
        let is_full = |accounts: &Accounts| !accounts.user.has(Reservation::ToBegin);
        self.own(user).map_or_else(|| is_full(&self.others(user)), |accounts| is_full(accounts))
    }

    /// Waits until a response to this user may begin.
    ///
    /// # Errors
    /// 429 when the server's account or the user's does not empty.
    pub async fn admit(&self, user: &str, patience: Duration) -> Result<(), Status> {
        let accounts = self.accounts(user);
        let begun = tokio::time::Instant::now();
        for (account, scope) in [(&accounts.server, "server"), (&accounts.user, "user")] {
            if account.has(Reservation::ToBegin) {
                continue;
            }
            let mut ticket = None;
            let reserved = std::future::poll_fn(|context| account.poll(Reservation::ToBegin, &mut ticket, context));
            if tokio::time::timeout_at(begun + patience, reserved).await.is_err() {
                self.0.budgets.refused.increment(&[scope]);
                return Err(refusal(match scope {
                    "server" => "clients have not read the responses that the server holds for them".to_owned(),
                    _ => format!("user {user:?} has not read earlier responses; read or close them first"),
                }));
            }
        }
        Ok(())
    }
}

fn refusal(why: String) -> Status {
    let details = StatusDetails { retry_after_seconds: Some(RETRY_AFTER), ..Default::default() };
    Status::failure(StatusReason::TooManyRequests, format!("too many bytes of responses in flight: {why}"))
        .with_details(details)
}

/// How a response's bytes are accounted for, an extension of the response. Without it, a body of known length counts as
/// held in memory as a whole, and another one by its sent bytes.
#[derive(Clone, Debug)]
pub(crate) struct Produced {
    /// Bytes that belong to the response until it ends.
    pub held: usize,
    /// Its pieces are counted where they are created.
    pub shared: bool,
    /// Bytes that it takes to begin.
    pub to_begin: usize,
}

/// Extension of a response that is passed on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassedOn;

/// Marks a response whose body is forwarded from elsewhere: it is not in memory, even if its length is known. It is
/// sent unchanged, neither indented nor compressed.
pub fn passed_on(response: &mut transport::Response) {
    response.extensions_mut().insert(PassedOn);
    if http_body::Body::size_hint(response.body()).exact().is_some() {
        response.extensions_mut().insert(Produced { held: 0, shared: false, to_begin: 0 });
    }
}

/// The accounts of the response's user, an extension of the response where that is not the first user of the connection.
#[derive(Clone, Debug)]
pub(crate) struct Billed(pub Arc<Accounts>);

#[cfg(test)]
mod tests;
