//! The socket in front of an [`ApiService`]: TLS with ALPN, HTTP/1.1 and HTTP/2, client certificates, limits, and an
//! end that waits for requests in flight.
//!
//! Client certificates are requested and optional. The handshake accepts any certificate whose key the peer holds; the
//! authenticator verifies its issuer, so that an expired one yields a readable 401 and not a failed handshake.

mod cork;
mod metered;
mod reads;
mod stalled;
mod tls;
mod unauthenticated;
mod unread;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::{AbortHandle, Abortable, BoxFuture};
use futures::{FutureExt, TryFutureExt as _};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use transport::{ApiService, BoxError, Request};
use world::World;

use crate::limits::budget::{Budgets, Stream, Subject, Wire};
use crate::request::peer::Peer;
use stalled::{Stall, Streams};

pub use tls::{Certificate, Named, Protocol, Suite, TlsConfig, TlsError};

use crate::limits::fairness::{self, Place, Turns, in_turns};
use crate::wire::{negotiate, respond};
use reads::Begun;
use unauthenticated::Unauthenticated;

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

struct Connection {
    service: ApiService,
    limits: Arc<Limits>,
    shutdown: CancellationToken,
    cut: watch::Receiver<bool>,
    place: Arc<Place>,
}

impl Connection {
    async fn run(self, stream: TcpStream, address: SocketAddr, acceptor: Option<TlsAcceptor>) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%address, err = %error, "Cannot disable Nagle's algorithm");
        }
        let Some(acceptor) = acceptor else {
            let peer = Peer::new(address, []);
            return self.speak(stream, peer).await;
        };
        match tokio::time::timeout(self.limits.head_timeout, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => {
                let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
                let peer = Peer::new(address, certificates.iter().map(|one| one.clone().into_owned()));
                self.speak(stream, peer).await;
            }
            Ok(Err(error)) => tracing::debug!(%address, err = %error, "TLS handshake failed"),
            Err(_) => tracing::debug!(%address, "TLS handshake timed out"),
        }
    }

    async fn speak(mut self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: Peer) {
        let address = peer.address;
        let wire = Wire::new(Arc::clone(&self.limits.budgets), Arc::clone(&self.place));
        // The responses of HTTP/1 follow one another.
        let only = Arc::new(Stream::default());
        let is_http1 = Arc::new(AtomicBool::new(false));
        let leave = Arc::new(Notify::new());
        let begun = Begun::default();
        let handler = {
            let (service, wire, is_http1) = (self.service.clone(), wire.clone(), Arc::clone(&is_http1));
            let (goaway, leave, begun) = (self.limits.goaway.clone(), Arc::clone(&leave), begun.clone());
            service_fn(move |request: http::Request<Incoming>| {
                let (service, peer, wire) = (service.clone(), peer.clone(), wire.clone());
                let http2 = request.version() == http::Version::HTTP_2;
                let only = (!http2).then(|| Arc::clone(&only));
                is_http1.fetch_or(!http2, Relaxed);
                begun.count();
                if http2 && goaway.as_ref().is_some_and(Goaway::is_due) {
                    leave.notify_one();
                }
                let (request, left) = unread::watched(request);
                let held = match fairness::admit(wire.place(), &request) {
                    Ok(held) => held,
                    Err(status) => {
                        let encoding = negotiate::error_encoding(request.headers());
                        let refusal = respond::failure_as(&status, encoding);
                        let refusal = metered::response(refusal, only.unwrap_or_default(), &wire, http2);
                        return std::future::ready(Ok(refusal)).boxed();
                    }
                };
                let answer = service.oneshot(incoming(request, peer, wire.clone()));
                // Boxed, because otherwise the compiler cannot analyse the body's trait object.
                answer
                    .map_ok(move |mut response| {
                        drop(held);
                        unread::close_after_refusal(left.as_deref(), &mut response);
                        metered::response(response, only.unwrap_or_else(stalled::stream), &wire, http2)
                    })
                    .boxed()
            })
        };
        let mut stalls = [1, 2].map(|limits| Stall::new(self.limits.stall, limits));
        let streams = Streams { limit: self.limits.stall, wire: wire.clone() };
        let builder = self.builder(streams);
        let (stream, cork) = cork::corked(stream, begun);
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), handler);
        let mut connection = std::pin::pin!(connection);
        let (mut draining, mut sent) = (false, 0);
        loop {
            let turn = |context: &mut Context<'_>| {
                let ended = connection.as_mut().poll(context);
                let released = cork.poll_release(context);
                if let Poll::Ready(Err(error)) = released {
                    return Poll::Ready(Err(Box::new(error) as BoxError));
                }
                // Replies to pings and settings are bytes of no response.
                if released.is_pending() {
                    sent = cork.sent();
                }
                // A pending release continues in the turn after the next readiness.
                if ended.is_pending() {
                    let http2 = !is_http1.load(Relaxed);
                    let unread = wire.account().sending().max(usize::from(released.is_pending()));
                    let progress = (unread, wire.account().taken() + sent);
                    let enrol = || wire.enrol(Subject::Connection { http2 });
                    ready!(stalls[usize::from(http2)].poll(progress, enrol, context));
                    wire.budgets().count_cut("connection");
                    return Poll::Ready(Err("the client takes nothing".into()));
                }
                ended
            };
            tokio::select! {
                ended = std::future::poll_fn(turn) => {
                    if let Err(error) = ended {
                        tracing::debug!(%address, err = %error, "Connection ended");
                    }
                    // The stream may have been taken over by another protocol.
                    let _ = tokio::time::timeout(self.limits.ping_timeout, cork.remove()).await;
                    return;
                }
                () = self.shutdown.cancelled(), if !draining => {
                    draining = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = leave.notified(), if !draining => {
                    draining = true;
                    connection.as_mut().graceful_shutdown();
                }
                _ = self.cut.changed() => return,
            }
        }
    }

    fn builder(&self, streams: Streams) -> auto::Builder<Streams> {
        let mut builder = auto::Builder::new(streams);
        builder.http1().timer(TokioTimer::new()).header_read_timeout(self.limits.head_timeout);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.limits.streams_per_connection)
            .keep_alive_interval(self.limits.ping_interval)
            .keep_alive_timeout(self.limits.ping_timeout);
        builder
    }
}

/// The request in the form for the service. An identity cannot come from a socket: extensions start empty here.
fn incoming(request: http::Request<unread::Unread>, peer: Peer, wire: Wire) -> Request {
    let mut request = request.map(BodyExt::boxed_unsync);
    let extensions = request.extensions_mut();
    extensions.insert(peer);
    extensions.insert(wire);
    request
}
