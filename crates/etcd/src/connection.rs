//! A connection to one of etcd's members, and the next member when that one fails. All requests share the connection.

use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use http::uri::PathAndQuery;
use http::{Request, Uri};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::{Code, Status, Streaming};
use tonic_prost::ProstCodec;
use tower::service_fn;

use crate::endpoint::Endpoint;
use crate::failure::{Access, FOREIGN, Failure, Meaning};
use crate::history::{Found, History};
use crate::tls::Tls;
use crate::wire;

/// The time-out for each member, TLS and the first request included.
const DIAL: Duration = Duration::from_secs(5);
/// A connection without an answer to a ping for this long is broken. etcd accepts a ping every 5 s.
const PING: Duration = Duration::from_secs(10);
const PING_ANSWER: Duration = Duration::from_secs(5);
/// A page of a list in flight; the connection has room for several.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;
/// Between attempts, once every member has been tried.
const PAUSE: Duration = Duration::from_millis(100);
/// With other members to go to, a read waits for one at most this long.
const READ_ATTEMPT: Duration = Duration::from_secs(3);

/// A connection to a member. Clones share it.
#[derive(Clone)]
pub(crate) struct Peer {
    sender: SendRequest<Body>,
    pub endpoint: Arc<str>,
    id: u64,
    /// Progress reports never overtake changes.
    pub reports_progress: bool,
    /// Requests go to another member. Streams of this connection move along: on a connection that is half open, they would
    /// wait for a ping to fail.
    given_up: Arc<tokio::sync::watch::Sender<bool>>,
}

/// The members, and the connection in use.
pub(crate) struct Connections {
    endpoints: Vec<Endpoint>,
    tls: Tls,
    /// The timeout of one request with all its attempts.
    timeout: Duration,
    state: tokio::sync::Mutex<State>,
    /// Whether the last request, or watch, was answered.
    answers: tokio::sync::watch::Sender<bool>,
    /// A new connection has to have it.
    pub history: History,
}

#[derive(Default)]
struct State {
    peer: Option<Peer>,
    /// The member to try next.
    next: usize,
    made: u64,
    cluster: Option<u64>,
}

impl Connections {
    pub fn new(endpoints: Vec<Endpoint>, tls: Tls, timeout: Duration) -> Self {
        let answers = tokio::sync::watch::Sender::new(true);
        let (state, history) = (tokio::sync::Mutex::default(), History::default());
        Self { endpoints, tls, timeout, state, answers, history }
    }

    pub fn answers(&self) -> tokio::sync::watch::Receiver<bool> {
        self.answers.subscribe()
    }

    /// Notes whether etcd answers.
    pub fn note(&self, answers: bool) {
        self.answers.send_if_modified(|before| std::mem::replace(before, answers) != answers);
    }

    /// The connection in use, or a new one to the first member that answers.
    pub async fn peer(&self) -> Result<Peer, Failure> {
        let mut state = self.state.lock().await;
        if let Some(reason) = self.history.broken() {
            return Err(refused("".into(), &reason));
        }
        if let Some(peer) = state.peer.as_ref().filter(|peer| !peer.sender.is_closed()) {
            return Ok(peer.clone());
        }
        let mut failures = Vec::new();
        let mut last = Failure::unsent(&"".into(), "there are no endpoints");
        for _ in 0..self.endpoints.len() {
            let endpoint = &self.endpoints[state.next % self.endpoints.len()];
            state.next += 1;
            let late = || Failure::unsent(&endpoint.text, "timeout");
            let opened = timeout(DIAL, self.open(endpoint, state.made)).await.unwrap_or_else(|_| Err(late()));
            let fits = opened.and_then(|opened| of_the_cluster(opened, &mut state.cluster));
            let continues = match fits {
                Ok(peer) => timeout(DIAL, self.continues(peer)).await.unwrap_or_else(|_| Err(late())),
                Err(failure) => Err(failure),
            };
            match continues {
                Ok(peer) => {
                    state.made += 1;
                    tracing::info!(endpoint = %peer.endpoint, "connected to etcd");
                    state.peer = Some(peer.clone());
                    return Ok(peer);
                }
                Err(failure) if self.history.broken().is_some() => return Err(failure),
                Err(failure) => {
                    failures.push(format!("{}: {}", failure.endpoint, failure.message));
                    last = failure;
                }
            }
        }
        // Errors that refuse this client are returned; only an unreachable member has received nothing.
        let sent = last.sent && !last.is_of_the_member();
        Err(Failure { sent, message: failures.join("; "), ..last })
    }

    /// Sends no more requests, permanently.
    pub fn break_history(&self, reason: &str) -> Arc<str> {
        self.note(false);
        self.history.break_off(reason)
    }

    /// The same connection, if the history there is the one of before.
    async fn continues(&self, peer: Peer) -> Result<Peer, Failure> {
        let Some(anchor) = self.history.newest() else { return Ok(peer) };
        let read = async |revision| {
            let request = wire::RangeRequest { key: anchor.key.clone(), revision, ..Default::default() };
            let answer: wire::RangeResponse = peer.unary(wire::RANGE, request, DIAL).await?;
            Ok::<_, Failure>(answer.kvs.into_iter().next())
        };
        let found = match read(anchor.revision).await {
            Ok(found) => Found::AtRevision(found),
            Err(failure) => match failure.meaning() {
                Meaning::Future => Found::Future,
                Meaning::Compacted => Found::Now(read(0).await?),
                _ => return Err(failure),
            },
        };
        if anchor.continues(&found) {
            return Ok(peer);
        }
        let key = String::from_utf8_lossy(&anchor.key);
        let reason =
            format!("etcd at {} does not know the change of {key} at revision {}", peer.endpoint, anchor.revision);
        Err(refused(Arc::clone(&peer.endpoint), &self.break_history(&reason)))
    }

    /// Drops the connection; the next request goes to another member.
    pub async fn discard(&self, peer: &Peer) {
        let mut state = self.state.lock().await;
        if state.peer.as_ref().is_some_and(|current| current.id == peer.id) {
            state.peer = None;
        }
        peer.given_up.send_replace(true);
    }

    async fn open(&self, endpoint: &Endpoint, id: u64) -> Result<(Peer, u64), Failure> {
        let unsent = |error: &dyn std::fmt::Display| Failure::unsent(&endpoint.text, error);
        let stream =
            TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await.map_err(|error| unsent(&error))?;
        let _ = stream.set_nodelay(true);
        let sender = if endpoint.tls {
            let name = ServerName::try_from(endpoint.host.clone()).map_err(|error| unsent(&error))?;
            let connector = self.tls.connector().await;
            shake(connector.connect(name, stream).await.map_err(|error| unsent(&error))?).await
        } else {
            shake(stream).await
        };
        let sender = sender.map_err(|error| unsent(&error))?;
        let given_up = Arc::new(tokio::sync::watch::Sender::new(false));
        let mut peer = Peer { sender, endpoint: Arc::clone(&endpoint.text), id, reports_progress: false, given_up };
        let status: wire::StatusResponse = peer.unary(wire::STATUS, wire::StatusRequest {}, DIAL).await?;
        if let Some(reason) = unfit(&status) {
            return Err(unsent(&reason));
        }
        if may_lose_data(&status.version) {
            let version = &status.version;
            tracing::warn!(endpoint = %endpoint.text, %version, "this version of etcd may lose data of a member that is killed; use 3.5.5 or newer");
        }
        peer.reports_progress = reports_progress(&status.version);
        Ok((peer, status.header.unwrap_or_default().cluster_id))
    }

    /// Sends a request, to other members as well, until one has answered, the answer would be ambiguous, or the time is up.
    pub async fn request<Q, A>(&self, path: &'static str, message: Q, access: Access) -> Result<A, Failure>
    where
        Q: prost::Message + Clone + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let answer = self.attempts(path, message, access).await;
        self.note(answer.as_ref().err().is_none_or(Failure::is_an_answer));
        answer
    }

    async fn attempts<Q, A>(&self, path: &'static str, message: Q, access: Access) -> Result<A, Failure>
    where
        Q: prost::Message + Clone + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let deadline = Instant::now() + self.timeout;
        loop {
            let failure = match timeout_at(deadline, self.peer()).await {
                Err(_) => return Err(Failure::unsent(&self.all(), "timeout")),
                Ok(Err(failure)) => failure,
                Ok(Ok(peer)) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    let several = self.endpoints.len() > 1 && access == Access::Read;
                    let attempt = if several { left.min(READ_ATTEMPT) } else { left };
                    let answer = peer.unary(path, message.clone(), attempt);
                    match self.leaving_if_silent(&peer, access, answer).await {
                        Ok(answer) => return Ok(answer),
                        Err(failure) => {
                            if failure.is_of_the_member() {
                                self.discard(&peer).await;
                            }
                            failure
                        }
                    }
                }
            };
            if !failure.is_worth_another_attempt(access) || Instant::now() + PAUSE >= deadline {
                return Err(failure);
            }
            tracing::debug!(path, endpoint = %failure.endpoint, message = %failure.message, "etcd: another attempt");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Waits for the answer to a write, which cannot be repeated at another member. Meanwhile others need not wait for a
    /// member that is as slow as a read would not have it.
    async fn leaving_if_silent<A>(
        &self,
        peer: &Peer,
        access: Access,
        answer: impl Future<Output = Result<A, Failure>>,
    ) -> Result<A, Failure> {
        let mut answer = std::pin::pin!(answer);
        if access == Access::Write && self.endpoints.len() > 1 {
            match timeout(READ_ATTEMPT, &mut answer).await {
                Ok(answer) => return answer,
                Err(_) => self.discard(peer).await,
            }
        }
        answer.await
    }

    fn all(&self) -> Arc<str> {
        self.endpoints.iter().map(|endpoint| &*endpoint.text).collect::<Vec<_>>().join(",").into()
    }
}

fn refused(endpoint: Arc<str>, reason: &str) -> Failure {
    Failure { endpoint, sent: true, code: Code::FailedPrecondition, message: reason.to_owned() }
}

/// All members belong to one cluster: the data of another one is other data.
fn of_the_cluster((peer, cluster): (Peer, u64), known: &mut Option<u64>) -> Result<Peer, Failure> {
    match *known {
        Some(known) if known != cluster => Err(Failure {
            endpoint: peer.endpoint,
            sent: true,
            code: Code::FailedPrecondition,
            message: format!("{FOREIGN} {cluster:x}, not to {known:x} as the other members or as before"),
        }),
        _ => {
            *known = Some(cluster);
            Ok(peer)
        }
    }
}

/// Why a member that answers cannot serve: requests to it would only time out.
fn unfit(status: &wire::StatusResponse) -> Option<&'static str> {
    match status {
        wire::StatusResponse { is_learner: true, .. } => Some("it is a learner, which serves no requests"),
        wire::StatusResponse { leader: 0, .. } => Some("it has no leader"),
        _ => None,
    }
}

/// The versions in which a requested progress report waits for the changes before it: from 3.4.31, 3.5.13 and 3.6.
fn reports_progress(version: &str) -> bool {
    let mut numbers = version.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(3), Some(4), Some(patch)) => patch >= 31,
        (Some(3), Some(5), Some(patch)) => patch >= 13,
        (Some(3), Some(minor), _) => minor >= 6,
        (Some(major), ..) => major > 3,
        _ => false,
    }
}

/// The versions whose members may come out of a crash with other data than the rest: 3.5.0 to 3.5.2.
fn may_lose_data(version: &str) -> bool {
    matches!(version.split('-').next(), Some("3.5.0" | "3.5.1" | "3.5.2"))
}

async fn shake(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<SendRequest<Body>, hyper::Error> {
    let (sender, connection) = Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING_ANSWER)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .handshake(TokioIo::new(stream))
        .await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(err = %error, "Connection to etcd ended");
        }
    });
    Ok(sender)
}

impl Peer {
    fn failure(&self, sent: bool, status: &Status) -> Failure {
        let endpoint = Arc::clone(&self.endpoint);
        let message = if status.message().is_empty() { status.code().to_string() } else { status.message().to_owned() };
        Failure { endpoint, sent, code: status.code(), message }
    }

    async fn ready(&self) -> Result<SendRequest<Body>, Failure> {
        let mut sender = self.sender.clone();
        sender.ready().await.map_err(|error| Failure::unsent(&self.endpoint, error))?;
        Ok(sender)
    }

    /// One request to this member.
    pub async fn unary<Q, A>(&self, path: &'static str, message: Q, within: Duration) -> Result<A, Failure>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let deadline = Instant::now() + within;
        let sender = timeout_at(deadline, self.ready())
            .await
            .unwrap_or_else(|_| Err(Failure::unsent(&self.endpoint, "timeout")))?;
        let mut request = tonic::Request::new(message);
        require_leader(&mut request);
        request.set_timeout(within);
        let mut grpc = grpc(sender);
        let codec = ProstCodec::<Q, A>::default();
        let answer = timeout_at(deadline, grpc.unary(request, PathAndQuery::from_static(path), codec)).await;
        let answer = answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("timeout")));
        answer.map(tonic::Response::into_inner).map_err(|status| self.failure(true, &status))
    }

    /// Opens a stream in both directions. The first of `messages` must be available, because etcd does not respond
    /// before it.
    pub async fn stream<Q, A>(
        &self,
        path: &'static str,
        messages: impl Stream<Item = Q> + Send + 'static,
    ) -> Result<Streaming<A>, Failure>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let sender = self.ready().await?;
        let mut request = tonic::Request::new(messages);
        require_leader(&mut request);
        let codec = ProstCodec::<Q, A>::default();
        let opened = grpc(sender).streaming(request, PathAndQuery::from_static(path), codec).await;
        opened.map(tonic::Response::into_inner).map_err(|status| self.failure(true, &status))
    }

    /// Waits until requests go to another member.
    pub async fn given_up(&self) {
        let mut given_up = self.given_up.subscribe();
        // It does not end before the connection does.
        let _ = given_up.wait_for(|given_up| *given_up).await;
    }

    pub fn broken(&self, status: &Status) -> Failure {
        self.failure(true, status)
    }
}

/// A member without a leader refuses the request at once, before it is executed, and ends streams. Otherwise both would
/// wait.
fn require_leader<Q>(request: &mut tonic::Request<Q>) {
    request.metadata_mut().insert("hasleader", tonic::metadata::MetadataValue::from_static("true"));
}

fn grpc(
    sender: SendRequest<Body>,
) -> Grpc<
    impl tonic::client::GrpcService<Body, ResponseBody = hyper::body::Incoming, Error = hyper::Error, Future: Send> + Send,
> {
    let through = service_fn(move |request: Request<Body>| {
        let mut sender = sender.clone();
        async move { sender.send_request(request).await }
    });
    // The server chooses how much it sends: one value may have as much as a request, a page several of them.
    Grpc::with_origin(through, Uri::from_static("http://etcd")).max_decoding_message_size(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_may_lose_data_are_known() {
        assert!(["3.5.0", "3.5.1", "3.5.2-rc.0"].iter().all(|version| may_lose_data(version)));
        assert!(!["3.4.23", "3.5.3", "3.5.20", "3.6.0", ""].iter().any(|version| may_lose_data(version)));
    }

    #[test]
    fn progress_reports_are_trusted_from_the_versions_that_order_them() {
        let trusted = ["3.4.31", "3.4.40-rc.1", "3.5.13", "3.6.0", "3.6.0-rc.1", "3.10.2", "4.0.0"];
        let others = ["3.4.23", "3.4.30", "3.5.0", "3.5.12", "3.3.27", "2.3.8", "", "x"];
        assert!(trusted.iter().all(|version| reports_progress(version)));
        assert!(!others.iter().any(|version| reports_progress(version)));
    }
}
