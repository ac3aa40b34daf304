//! One connection: its TLS handshake, its requests, and its end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt as _};
use http::header::{CONTENT_LENGTH, Entry};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use transport::{ApiService, BoxError, Request, Response};

use super::reads::Begun;
use super::stalled::{Stall, Streams};
use super::{Goaway, Limits, cork, metered, stalled, unread};
use crate::limits::budget::{Stream, Subject, Wire};
use crate::limits::fairness::{self, Place};
use crate::request::peer::Peer;
use crate::wire::{negotiate, respond};

/// A client that is gone without having closed its connection is noticed after `ALIVE` and some probes, also on
/// upgraded connections and on HTTP/1.1, which have no pings. kube-apiserver waits as long.
const ALIVE: Duration = Duration::from_secs(180);
const PROBE: Duration = Duration::from_secs(15);

pub(super) struct Connection {
    pub service: ApiService,
    pub limits: Arc<Limits>,
    pub shutdown: CancellationToken,
    pub cut: watch::Receiver<bool>,
    pub place: Arc<Place>,
}

impl Connection {
    pub async fn run(self, stream: TcpStream, address: SocketAddr, acceptor: Option<TlsAcceptor>) {
        if let Err(error) = set_options(&stream) {
            tracing::debug!(%address, err = %error, "Options of the connection cannot be set");
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

    pub async fn speak(mut self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: Peer) {
        let address = peer.address;
        let requests = Requests::new(&self, peer);
        let (wire, is_http1) = (requests.wire.clone(), Arc::clone(&requests.is_http1));
        let (leave, begun) = (Arc::clone(&requests.leave), requests.begun.clone());
        let mut silence = Silence::new(self.limits.head_timeout);
        let mut stalls = [1, 2].map(|limits| Stall::new(self.limits.stall, limits));
        let streams = Streams { limit: self.limits.stall, wire: wire.clone() };
        let builder = self.builder(streams);
        let (stream, cork) = cork::corked(stream, begun);
        let handler = service_fn(move |request| requests.answer(request));
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
                    if silence.poll(|| !http2 || cork.sent() > 0, context).is_ready() {
                        return Poll::Ready(Err("the client sends no request".into()));
                    }
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

/// Whether a connection has not begun in time. hyper's limit for a head applies once a byte shows that it is HTTP/1, and
/// pings are sent once it is HTTP/2.
struct Silence(Option<Pin<Box<Sleep>>>);

impl Silence {
    fn new(limit: Duration) -> Self {
        Self(Some(Box::pin(tokio::time::sleep(limit))))
    }

    /// `has_begun` once there was a request of HTTP/1, or a frame of HTTP/2 was sent.
    fn poll(&mut self, has_begun: impl FnOnce() -> bool, context: &mut Context<'_>) -> Poll<()> {
        let Some(timer) = &mut self.0 else { return Poll::Pending };
        if has_begun() {
            self.0 = None;
            return Poll::Pending;
        }
        timer.as_mut().poll(context)
    }
}

/// What the requests of a connection share.
struct Requests {
    service: ApiService,
    peer: Peer,
    wire: Wire,
    goaway: Option<Goaway>,
    /// The connection takes no further requests.
    leave: Arc<Notify>,
    begun: Begun,
    is_http1: Arc<AtomicBool>,
    /// The responses of HTTP/1 follow one another.
    only: Arc<Stream>,
}

type Answer = Result<http::Response<metered::Metered>, Infallible>;

impl Requests {
    fn new(connection: &Connection, peer: Peer) -> Self {
        Self {
            service: connection.service.clone(),
            peer,
            wire: Wire::new(Arc::clone(&connection.limits.budgets), Arc::clone(&connection.place)),
            goaway: connection.limits.goaway.clone(),
            leave: Arc::default(),
            begun: Begun::default(),
            is_http1: Arc::default(),
            only: Arc::default(),
        }
    }

    /// Boxed, because otherwise the compiler cannot analyse the body's trait object.
    fn answer(&self, request: http::Request<Incoming>) -> BoxFuture<'static, Answer> {
        let wire = self.wire.clone();
        let http2 = request.version() == http::Version::HTTP_2;
        let head = request.method() == http::Method::HEAD;
        let only = (!http2).then(|| Arc::clone(&self.only));
        self.is_http1.fetch_or(!http2, Relaxed);
        self.begun.count();
        if http2 && self.goaway.as_ref().is_some_and(Goaway::is_due) {
            self.leave.notify_one();
        }
        let (request, left) = unread::watched(request);
        let held = match fairness::admit(wire.place(), &request) {
            Ok(held) => held,
            Err(status) => {
                let encoding = negotiate::error_encoding(request.headers());
                let refusal = without_body(head, respond::failure_as(&status, encoding));
                let refusal = metered::response(refusal, only.unwrap_or_default(), &wire, http2);
                return std::future::ready(Ok(refusal)).boxed();
            }
        };
        let answer = self.service.clone().oneshot(incoming(request, self.peer.clone(), wire.clone()));
        answer
            .map_ok(move |mut response| {
                drop(held);
                unread::close_after_refusal(left.as_deref(), &mut response);
                let response = without_body(head, response);
                metered::response(response, only.unwrap_or_else(stalled::stream), &wire, http2)
            })
            .boxed()
    }
}

/// The response, or to a HEAD request only its head, with the length that the body would have had. hyper omits such
/// bodies over HTTP/1 only, and over HTTP/2 a body breaks the stream.
fn without_body(head: bool, response: Response) -> Response {
    if !head {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    if let (Some(length), Entry::Vacant(vacant)) = (body.size_hint().exact(), parts.headers.entry(CONTENT_LENGTH)) {
        vacant.insert(length.into());
    }
    Response::from_parts(parts, transport::empty())
}

fn set_options(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(ALIVE).with_interval(PROBE))
}

/// The request in the form for the service. An identity cannot come from a socket: extensions start empty here.
fn incoming(request: http::Request<unread::Unread>, peer: Peer, wire: Wire) -> Request {
    let mut request = request.map(BodyExt::boxed_unsync);
    let extensions = request.extensions_mut();
    extensions.insert(peer);
    extensions.insert(wire);
    request
}
