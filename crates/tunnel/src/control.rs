//! The control plane's end: keeps the tunnels that agents opened, and opens connections to members over them.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use client::{Dial, Stream};
use futures::future::BoxFuture;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::upgrade::Upgraded;
use metrics::{Counters, Registry};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use transport::BoxError;

use crate::connection::{self, STREAMS, Tasks};
use crate::decide::{self, Way};
use crate::lines::{Lines, Sender, Tunnel};
use crate::metrics::{CONNECTED, OPENED, STREAMS as CARRIED};

/// The time-out for the agent's first response.
const GREETING: Duration = Duration::from_secs(10);
/// The time-out for a connection over one tunnel; two attempts fit into a client's time-out.
const ATTEMPT: Duration = Duration::from_secs(7);
/// The maximum size of an agent's error message.
const REASON: usize = 1 << 10;

/// Why a tunnel ended or a connection failed.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("the agent does not answer within {} s", .0.as_secs())]
    Silent(Duration),
    #[error("{}", client::chain(.0))]
    Connection(#[from] hyper::Error),
    #[error("the agent answers {0} to the greeting")]
    Greeting(StatusCode),
    #[error("it has no free stream")]
    Busy,
    #[error("{0}")]
    Refused(String),
}

/// The tunnels that end in this process. Cheap to clone.
#[derive(Clone, Default)]
pub struct Tunnels(Arc<Inner>);

#[derive(Default)]
struct Inner {
    lines: Lines,
    opened: OnceLock<Counters>,
}

/// The permission for one more tunnel of a cluster.
pub struct Place {
    tunnels: Tunnels,
    cluster: String,
    end: CancellationToken,
    _permit: OwnedSemaphorePermit,
}

impl Tunnels {
    /// Exposes the tunnels in `registry`.
    pub fn count_in(&self, registry: &Registry) {
        // Only the first call counts; a process has one server with tunnels.
        let _ = self.0.opened.set(registry.counters(&OPENED));
        let inner = Arc::downgrade(&self.0);
        registry.collect(move |samples| {
            let Some(inner) = inner.upgrade() else { return false };
            for (cluster, tunnels, streams) in inner.lines.counts() {
                samples.gauge(&CONNECTED, &[&cluster], tunnels as f64);
                samples.gauge(&CARRIED, &[&cluster], streams as f64);
            }
            true
        });
    }

    /// A permission for one more tunnel; `None` at the limit.
    pub fn place(&self, cluster: &str) -> Option<Place> {
        let (permit, end) = self.0.lines.place(cluster)?;
        Some(Place { tunnels: self.clone(), cluster: cluster.to_owned(), end, _permit: permit })
    }

    /// Ends the tunnels of a deleted Cluster.
    pub fn forget(&self, cluster: &str) {
        self.0.lines.forget(cluster);
        if let Some(opened) = self.0.opened.get() {
            opened.remove(&[("member_cluster", cluster)]);
        }
    }

    pub fn is_connected(&self, cluster: &str) -> bool {
        !self.0.lines.connected(cluster).is_empty()
    }

    /// Whether the cluster has a tunnel, or lost it recently.
    pub fn is_expected(&self, cluster: &str) -> bool {
        self.0.lines.is_expected(cluster)
    }

    /// The number of tunnels of a cluster, and of their connections.
    pub fn counts(&self, cluster: &str) -> (usize, usize) {
        let counts = self.0.lines.counts().into_iter().find(|(name, ..)| name == cluster);
        counts.map_or((0, 0), |(_, tunnels, streams)| (tunnels, streams))
    }

    /// The [`Dial`] of a cluster in Pull mode.
    pub fn to(&self, cluster: &str) -> Arc<dyn Dial> {
        Arc::new(To { tunnels: self.clone(), cluster: cluster.to_owned() })
    }

    async fn connect(&self, cluster: &str, order: Vec<Tunnel>, authority: &str) -> Result<Stream, BoxError> {
        let mut first = None;
        for tunnel in order {
            let answer = match tokio::time::timeout(ATTEMPT, open(tunnel, authority)).await {
                Ok(answer) => answer,
                Err(_) => Err(Failed::Silent(ATTEMPT)),
            };
            match answer {
                Ok(stream) => {
                    self.count(cluster, "success");
                    return Ok(stream);
                }
                Err(error) => first = first.or(Some(error)),
            }
        }
        self.count(cluster, "error");
        let why = first.map(|error| error.to_string()).unwrap_or_default();
        Err(format!("over the agent tunnel of cluster {cluster:?}: {why}").into())
    }

    fn count(&self, cluster: &str, result: &str) {
        if let Some(opened) = self.0.opened.get() {
            opened.increment(&[cluster, result]);
        }
    }
}

struct To {
    tunnels: Tunnels,
    cluster: String,
}

impl Dial for To {
    fn dial(&self, authority: &str) -> Option<BoxFuture<'static, Result<Stream, BoxError>>> {
        let mut connected = self.tunnels.0.lines.connected(&self.cluster);
        let capacities: Vec<_> = connected.iter().map(Tunnel::capacity).collect();
        let order = match decide::way(&capacities) {
            Way::Direct => return None,
            Way::Full => {
                let why = decide::full(&self.cluster, STREAMS);
                return Some(Box::pin(std::future::ready(Err(why.into()))));
            }
            Way::Tunnels(order) => order,
        };
        connected.retain(|tunnel| order.contains(&tunnel.id));
        connected.sort_by_key(|tunnel| order.iter().position(|id| *id == tunnel.id));
        let (tunnels, cluster, authority) = (self.tunnels.clone(), self.cluster.clone(), authority.to_owned());
        Some(Box::pin(async move { tunnels.connect(&cluster, connected, &authority).await }))
    }

    fn unreachable(&self, authority: &str, error: BoxError) -> BoxError {
        decide::unreachable(&self.cluster, authority, &client::chain(error.as_ref())).into()
    }
}

impl Place {
    /// Keeps the tunnel that an agent opened with an upgraded connection, until it breaks, the Cluster is deleted, or
    /// `ending` is cancelled.
    pub fn hold<S>(self, io: S, ending: CancellationToken) -> BoxFuture<'static, ()>
    where
        S: Read + Write + Send + Unpin + 'static,
    {
        Box::pin(async move {
            let end = self.end.clone();
            let _ends = end.clone().drop_guard();
            tokio::select! {
                result = self.serve(io, end.clone()) => {
                    if let Err(error) = result {
                        tracing::warn!(cluster = self.cluster, err = %error, "The agent opened no tunnel");
                    }
                }
                () = end.cancelled() => {}
                () = ending.cancelled() => {}
            }
        })
    }

    async fn serve<S>(&self, io: S, end: CancellationToken) -> Result<(), Failed>
    where
        S: Read + Write + Send + Unpin + 'static,
    {
        let (mut sender, connection) = connection::client(Tasks(end.clone())).handshake(io).await?;
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            greeted = greeting(&mut sender) => greeted?,
            ended = &mut connection => {
                ended?;
                return Err(Failed::Silent(GREETING));
            }
        }
        let connected = Connected { lines: &self.tunnels.0.lines, cluster: &self.cluster, id: None };
        let connected = connected.open(sender, end);
        let ended = connection.await;
        let why = ended.err().map_or_else(|| "closed by the agent".to_owned(), |error| error.to_string());
        connected.close(&why);
        Ok(())
    }
}

/// Removes a tunnel when it ends.
struct Connected<'a> {
    lines: &'a Lines,
    cluster: &'a str,
    id: Option<u64>,
}

impl Connected<'_> {
    fn open(mut self, sender: Sender, end: CancellationToken) -> Self {
        let id = self.lines.connect(self.cluster, sender, end);
        tracing::info!(cluster = self.cluster, tunnel = id, "Agent tunnel is connected");
        self.id = Some(id);
        self
    }

    fn close(mut self, why: &str) {
        self.end(why);
    }

    fn end(&mut self, why: &str) {
        if let Some(id) = self.id.take() {
            self.lines.disconnect(self.cluster, id);
            tracing::info!(cluster = self.cluster, tunnel = id, reason = why, "Agent tunnel is disconnected");
        }
    }
}

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.end("closed by the control plane");
    }
}

/// Verifies that both directions work and that the peer is an agent.
async fn greeting(sender: &mut Sender) -> Result<(), Failed> {
    let mut request = Request::new(Empty::new());
    *request.method_mut() = Method::OPTIONS;
    *request.uri_mut() = http::Uri::from_static("http://agent/");
    let answer = tokio::time::timeout(GREETING, sender.send_request(request)).await;
    let answer = answer.map_err(|_| Failed::Silent(GREETING))??;
    if answer.status() == StatusCode::NO_CONTENT { Ok(()) } else { Err(Failed::Greeting(answer.status())) }
}

async fn open(tunnel: Tunnel, authority: &str) -> Result<Stream, Failed> {
    let Tunnel { mut sender, free, .. } = tunnel;
    let permit = free.try_acquire_owned().map_err(|_| Failed::Busy)?;
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.method_mut() = Method::CONNECT;
    *request.uri_mut() = authority.parse().map_err(|error| Failed::Refused(format!("address {authority}: {error}")))?;
    let answer = sender.send_request(request).await?;
    if answer.status() == StatusCode::OK {
        let io = hyper::upgrade::on(answer).await?;
        return Ok(Stream::new(Tunnelled { io, _permit: permit }));
    }
    let code = answer.status();
    let reason = Limited::new(answer.into_body(), REASON).collect().await;
    let reason = reason.map(|it| decide::readable(&it.to_bytes())).unwrap_or_default();
    Err(Failed::Refused(if reason.is_empty() { format!("the agent answers {code}") } else { reason }))
}

/// A stream that counts for its tunnel while it exists.
struct Tunnelled {
    io: Upgraded,
    _permit: OwnedSemaphorePermit,
}

impl Read for Tunnelled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl Write for Tunnelled {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
