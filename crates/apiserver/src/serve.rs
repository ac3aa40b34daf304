//! The socket in front of an [`ApiService`]: TLS with ALPN, HTTP/1.1 and HTTP/2, client certificates, limits, and an
//! end that waits for requests in flight.
//!
//! A client certificate is asked for and never demanded. The handshake accepts any certificate whose key the peer
//! holds; whether its issuer is trusted is judged by the authenticator, so that a stale one ends in a readable 401
//! and not in a broken handshake.

mod cork;
mod metered;
mod stalled;
mod tls;
mod unread;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt as _};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls_pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use transport::{ApiService, BoxError, Request};

use crate::budget::{Budgets, Stream, Wire};
use stalled::{Stall, Streams};

pub use tls::{Certificate, TlsConfig, TlsError};

/// The peer at the other end of the connection, an extension of each of its requests.
#[derive(Clone, Debug)]
pub struct Peer {
    pub address: SocketAddr,
    certificates: Arc<[CertificateDer<'static>]>,
    digest: [u8; 32],
}

impl Peer {
    /// `certificates` are those it presented, its own first; none without a client certificate or without TLS.
    pub fn new(address: SocketAddr, certificates: impl IntoIterator<Item = CertificateDer<'static>>) -> Self {
        let certificates: Arc<[_]> = certificates.into_iter().collect();
        let digest = certificates.first().map_or([0; 32], |own| Sha256::digest(own).into());
        Self { address, certificates, digest }
    }

    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.certificates
    }

    /// SHA-256 of its own certificate: computed once, looked up with every request.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }
}

#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections beyond this wait in the kernel's accept queue. One costs about 50 KiB (TLS buffers, HTTP/2 window
    /// state), so 10,000 of them stay within half a gigabyte.
    pub connections: usize,
    /// kube-apiserver's default; Go clients put all their watches on one connection.
    pub streams_per_connection: u32,
    /// For the TLS handshake, and for the head of an HTTP/1.1 request.
    pub head_timeout: Duration,
    /// After this much silence an HTTP/2 peer is pinged; one that does not answer in `ping_timeout` is gone.
    pub ping_interval: Duration,
    pub ping_timeout: Duration,
    /// How long requests in flight may go on after the end was asked for. Watches are cut at that moment.
    pub drain: Duration,
    /// A response of which a client takes nothing for this long is cut: the stream of HTTP/2, the connection of HTTP/1. A
    /// connection on which no stream moves for twice this long is closed.
    pub stall: Duration,
    /// Bytes of responses in flight; the sockets of one server share them.
    pub budgets: Arc<Budgets>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            streams_per_connection: 1000,
            head_timeout: Duration::from_secs(30),
            ping_interval: Duration::from_secs(30),
            ping_timeout: Duration::from_secs(15),
            drain: Duration::from_secs(10),
            stall: Duration::from_secs(60),
            budgets: Arc::default(),
        }
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
        let acceptor = tls.map(|config| TlsAcceptor::from(config.0));
        let slots = Arc::new(Semaphore::new(limits.connections));
        let (cut, cut_seen) = watch::channel(false);
        let limits = Arc::new(limits);
        let mut refuses = false;
        loop {
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { break };
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
                    // Out of file descriptors, usually: waiting a little lets some be closed.
                    if !std::mem::replace(&mut refuses, true) {
                        tracing::warn!(err = %error, "Connections cannot be accepted; retrying");
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let connection = Connection {
                service: service.clone(),
                limits: Arc::clone(&limits),
                shutdown: shutdown.clone(),
                cut: cut_seen.clone(),
            };
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                connection.run(stream, address, acceptor).await;
                drop(slot);
            });
        }
        drop(listener);
        // Every connection holds a slot, so holding all of them means that none is left.
        let all = u32::try_from(limits.connections).unwrap_or(u32::MAX);
        if tokio::time::timeout(limits.drain, slots.acquire_many(all)).await.is_err() {
            // Receivers live in the connections, so a failed send means that none is left.
            let _ = cut.send(true);
            let _closed = slots.acquire_many(all).await;
        }
    })
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
        Connection { service, limits: Arc::new(limits), shutdown, cut }.speak(stream, peer).await;
    })
}

struct Connection {
    service: ApiService,
    limits: Arc<Limits>,
    shutdown: CancellationToken,
    cut: watch::Receiver<bool>,
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
        let wire = Wire::new(Arc::clone(&self.limits.budgets));
        // The responses of HTTP/1 follow one another.
        let only = Arc::new(Stream::default());
        let is_http1 = Arc::new(AtomicBool::new(false));
        let handler = {
            let (service, wire, is_http1) = (self.service.clone(), wire.clone(), Arc::clone(&is_http1));
            service_fn(move |request: http::Request<Incoming>| {
                let (service, peer, wire) = (service.clone(), peer.clone(), wire.clone());
                let http2 = request.version() == http::Version::HTTP_2;
                let only = (!http2).then(|| Arc::clone(&only));
                is_http1.fetch_or(!http2, Relaxed);
                let (request, left) = unread::watched(request);
                let answer = service.oneshot(incoming(request, peer, wire.clone()));
                // Boxed, because the compiler cannot see through the body's trait object otherwise.
                answer
                    .map_ok(move |mut response| {
                        unread::close_after_refusal(left.as_deref(), &mut response);
                        metered::response(response, only.unwrap_or_else(stalled::stream), &wire, http2)
                    })
                    .boxed()
            })
        };
        let mut stalls = [1, 2].map(|limits| Stall::new(self.limits.stall, limits));
        let builder = self.builder(Streams { limit: self.limits.stall, wire: wire.clone() });
        let (stream, cork) = cork::corked(stream);
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), handler);
        let mut connection = std::pin::pin!(connection);
        let mut draining = false;
        loop {
            let turn = |context: &mut Context<'_>| {
                let ended = connection.as_mut().poll(context);
                if let Poll::Ready(Err(error)) = cork.poll_release(context) {
                    return Poll::Ready(Err(Box::new(error) as BoxError));
                }
                // A release that is pending goes on in the turn after the next readiness.
                if ended.is_pending() {
                    let stall = &mut stalls[usize::from(!is_http1.load(Relaxed))];
                    ready!(stall.poll(wire.account().sending(), wire.account().taken(), context));
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

/// The request as the service takes it. An identity cannot come from a socket: extensions start empty here.
fn incoming(request: http::Request<unread::Unread>, peer: Peer, wire: Wire) -> Request {
    let mut request = request.map(BodyExt::boxed_unsync);
    let extensions = request.extensions_mut();
    extensions.insert(peer);
    extensions.insert(wire);
    request
}
