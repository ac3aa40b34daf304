//! The socket in front of an [`ApiService`]: TLS with ALPN, HTTP/1.1 and HTTP/2, client certificates, limits, and an
//! end that waits for requests in flight.
//!
//! Client certificates are requested and optional. The handshake accepts any certificate whose key the peer holds; the
//! authenticator verifies its issuer, so that an expired one yields a readable 401 and not a failed handshake.

mod connection;
mod cork;
mod metered;
mod reads;
mod stalled;
mod tls;
mod unauthenticated;
mod unread;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{AbortHandle, Abortable, BoxFuture};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use transport::ApiService;
use world::World;

use crate::limits::budget::Budgets;
use crate::limits::fairness::{Place, Turns, in_turns};
use crate::request::peer::Peer;
use connection::Connection;
use unauthenticated::Unauthenticated;

pub use tls::{Certificate, Named, Protocol, Suite, TlsConfig, TlsError};

/// Connections closed at once when the process has no file descriptors left.
const SHED: usize = 64;

/// The limits of a listener.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections beyond this wait in the kernel's accept queue. One costs about 50 KiB (TLS buffers, HTTP/2 window
    /// state), so 10,000 of them stay within half a gigabyte.
    pub connections: usize,
    /// The part of connections that have not authenticated a request; beyond this the oldest idle one is closed. A
    /// client authenticates within a round trip of its handshake, so this is a second of new clients.
    pub unauthenticated: usize,
    /// The part of these from one address, which may be that of a proxy or gateway.
    pub unauthenticated_per_address: usize,
    /// Requests of one user in flight, without watches; further ones are answered 429. kube-apiserver's defaults allow
    /// 600 for all users together.
    pub requests_per_user: usize,
    /// kube-apiserver's default; Go clients use one connection for all their watches.
    pub streams_per_connection: u32,
    /// For the TLS handshake, and for the head of an HTTP/1.1 request.
    pub head_timeout: Duration,
    /// After this much silence an HTTP/2 peer is pinged; one that does not answer in `ping_timeout` is disconnected.
    pub ping_interval: Duration,
    /// How long a ping may be unanswered.
    pub ping_timeout: Duration,
    /// How long requests in flight may continue after a shutdown was requested. Watches are ended at that moment.
    pub drain: Duration,
    /// A response that its client does not read for this long is aborted: the stream of HTTP/2, the connection of
    /// HTTP/1. A connection without progress on any stream for twice this long is closed.
    pub stall: Duration,
    /// Bytes of responses in flight; the sockets of one server share them.
    pub budgets: Arc<Budgets>,
    /// The share of HTTP/2 requests after which their client is sent elsewhere (`--goaway-chance`).
    pub goaway: Option<Goaway>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            unauthenticated: 2_000,
            unauthenticated_per_address: 1_000,
            requests_per_user: 1_000,
            streams_per_connection: 1000,
            head_timeout: Duration::from_secs(30),
            ping_interval: Duration::from_secs(30),
            ping_timeout: Duration::from_secs(15),
            drain: Duration::from_secs(10),
            stall: Duration::from_secs(60),
            budgets: Arc::default(),
            goaway: None,
        }
    }
}

/// The chance that a request over HTTP/2 closes its connection to new requests. Those in flight, watches included, go on; the
/// client opens another connection, which a load balancer can give to another server.
#[derive(Clone, Debug)]
pub struct Goaway {
    /// From 0 to 0.02.
    pub chance: f64,
    /// Its randomness decides.
    pub world: World,
}

impl Goaway {
    fn is_due(&self) -> bool {
        self.world.random_fraction() < self.chance
    }
}

/// Serves until `shutdown` is cancelled, then stops accepting, lets requests in flight end for at most
/// [`Limits::drain`], and returns when every connection is closed.
pub fn serve(
    listener: TcpListener,
    tls: Option<TlsConfig>,
    service: ApiService,
    limits: Limits,
    shutdown: CancellationToken,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let acceptor = tls.map(|config| TlsAcceptor::from(config.config));
        let slots = Arc::new(Semaphore::new(limits.connections));
        let unauthenticated = Unauthenticated::new(limits.unauthenticated, limits.unauthenticated_per_address);
        let turns = turns(&limits);
        let (cut, cut_seen) = watch::channel(false);
        let limits = Arc::new(limits);
        let mut refuses = false;
        loop {
            if slots.available_permits() == 0 {
                unauthenticated.shed(1);
            }
            let slot = tokio::select! {
                slot = Arc::clone(&slots).acquire_owned() => slot,
                () = shutdown.cancelled() => break,
            };
            let Ok(slot) = slot else { break };
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = shutdown.cancelled() => break,
            };
            let (stream, address) = match accepted {
                Ok(accepted) => {
                    if std::mem::take(&mut refuses) {
                        tracing::info!("Connections are accepted again");
                    }
                    accepted
                }
                Err(error) => {
                    // Out of file descriptors, usually.
                    if !std::mem::replace(&mut refuses, true) {
                        tracing::warn!(err = %error, "Connections cannot be accepted; retrying");
                    }
                    // Those that are closed need a moment to give theirs back.
                    let pause = if unauthenticated.shed(SHED) { 1 } else { 50 };
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                    continue;
                }
            };
            let place = Place::new(&turns, address.ip());
            let (close, closed) = AbortHandle::new_pair();
            let newcomer = unauthenticated.arrive(address.ip(), &place, close);
            let connection = Connection {
                service: service.clone(),
                limits: Arc::clone(&limits),
                shutdown: shutdown.clone(),
                cut: cut_seen.clone(),
                place: Arc::clone(&place),
            };
            let running = in_turns(place, connection.run(stream, address, acceptor.clone()));
            tokio::spawn(Abortable::new(running.map(move |()| drop((newcomer, slot))), closed).map(drop));
        }
        drop(listener);
        // Every connection holds a slot, so holding all slots means that no connection remains.
        let all = u32::try_from(limits.connections).unwrap_or(u32::MAX);
        if tokio::time::timeout(limits.drain, slots.acquire_many(all)).await.is_err() {
            // Receivers are in the connections, so a failed send means that no connection remains.
            let _ = cut.send(true);
            let _closed = slots.acquire_many(all).await;
        }
    })
}

fn turns(limits: &Limits) -> Arc<Turns> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Turns::new(cores, limits.requests_per_user)
}

/// Serves one connection over a stream of the caller's, until it ends.
pub fn serve_stream<S>(
    stream: S,
    peer: Peer,
    service: ApiService,
    limits: Limits,
    shutdown: CancellationToken,
) -> BoxFuture<'static, ()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    Box::pin(async move {
        let (_cut, cut) = watch::channel(false);
        let place = Place::new(&turns(&limits), peer.address.ip());
        Connection { service, limits: Arc::new(limits), shutdown, cut, place }.speak(stream, peer).await;
    })
}
