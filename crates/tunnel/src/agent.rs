//! The agent's end: keeps the tunnel open, and connects the control plane to the API server of its member.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::{Client, Stream};
use controller_runtime::Backoff;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::service::service_fn;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use metrics::{Gauges, Registry};
use tokio_util::sync::CancellationToken;
use transport::BoxError;
use world::World;

use crate::connection::{self, Tasks};
use crate::decide::{self, Destinations, Refusal};
use crate::metrics::AGENT;
use crate::{PROTOCOL, path};

/// The time-out for a connection to the member's API server, which is close.
const CONNECT: Duration = Duration::from_secs(5);
/// The time-out for the control plane's response to the request for a tunnel.
const OPEN: Duration = Duration::from_secs(30);
/// The maximum size of the control plane's error message.
const REASON: usize = 16 << 10;
/// The buffer of each direction of a connection: 512 connections hold at most 16 MiB.
const COPY: usize = 16 << 10;
/// Pauses between attempts.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];
/// Pauses while the control plane rejects tunnels.
const REFUSED_PAUSES: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(600)];

/// Opens a connection to the member's API server.
pub type Connect = Arc<dyn Fn() -> BoxFuture<'static, Result<Stream, BoxError>> + Send + Sync>;

/// The API server that an agent connects the control plane to.
#[derive(Clone)]
pub struct Member {
    pub connect: Connect,
    pub destinations: Destinations,
}

/// An agent that keeps a tunnel open.
pub struct Agent {
    pub cluster: String,
    /// A client of the control plane, authenticated as this cluster's agent.
    pub control: Client,
    pub member: Member,
    pub world: World,
}

impl Agent {
    /// Keeps a tunnel open until `stop` is cancelled.
    pub fn run(self, registry: &Registry, stop: CancellationToken) -> BoxFuture<'static, ()> {
        let connected = registry.gauges(&AGENT);
        connected.set(&[], 0.0);
        Box::pin(async move {
            tokio::select! {
                () = self.keep(connected, &stop) => {}
                () = stop.cancelled() => {}
            }
        })
    }

    async fn keep(&self, connected: Gauges, stop: &CancellationToken) {
        let [mut passing, mut lasting] = [PAUSES, REFUSED_PAUSES].map(|[first, longest]| Backoff::new(first, longest));
        let mut logged = None;
        loop {
            let pause = match self.open().await {
                Ok(io) => {
                    tracing::info!(cluster = self.cluster, "Tunnel to the control plane is connected");
                    connected.set(&[], 1.0);
                    let ended = serve(io, self.member.clone(), stop.child_token()).await;
                    connected.set(&[], 0.0);
                    let why = ended.err().map_or_else(|| "closed".to_owned(), |error| error.to_string());
                    tracing::warn!(cluster = self.cluster, reason = why, "Tunnel to the control plane is disconnected");
                    logged = None;
                    passing.reset();
                    lasting.reset();
                    passing.next(&self.world)
                }
                Err(refusal) => {
                    if logged.as_ref() != Some(&refusal) {
                        let (Refusal::Lasting(why) | Refusal::Passing(why)) = &refusal;
                        tracing::warn!(
                            cluster = self.cluster,
                            reason = why,
                            "No tunnel to the control plane; everything but access to the member through it works"
                        );
                    }
                    let pauses = if matches!(refusal, Refusal::Lasting(_)) { &mut lasting } else { &mut passing };
                    logged = Some(refusal);
                    pauses.next(&self.world)
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Requests the tunnel.
    async fn open(&self) -> Result<Upgraded, Refusal> {
        let request = Request::post(path(&self.cluster))
            .header(header::CONNECTION, HeaderValue::from_static("Upgrade"))
            .header(header::UPGRADE, HeaderValue::from_static(PROTOCOL))
            .header(header::CONTENT_LENGTH, HeaderValue::from_static("0"))
            .body(transport::empty());
        let request = request.map_err(|error| Refusal::Passing(error.to_string()))?;
        let silent = |_| Refusal::Passing(format!("no answer within {} s", OPEN.as_secs()));
        let answer = tokio::time::timeout(OPEN, self.control.send(request)).await.map_err(silent)?;
        let mut answer = answer.map_err(|error| Refusal::Passing(error.to_string()))?;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            let code = answer.status().as_u16();
            let body = tokio::time::timeout(OPEN, read(answer.into_body())).await.map_err(silent)?;
            return Err(decide::refusal(&self.cluster, code, &decide::reason(&body)));
        }
        hyper::upgrade::on(&mut answer).await.map_err(|error| Refusal::Passing(error.to_string()))
    }
}

/// Empty if the body breaks or is too long. Boxed, because the compiler cannot prove its task `Send` otherwise.
fn read(body: transport::Body) -> BoxFuture<'static, Bytes> {
    Box::pin(Limited::new(body, REASON).collect().map(|whole| whole.map(|it| it.to_bytes()).unwrap_or_default()))
}

/// Serves one tunnel until it ends.
///
/// # Errors
/// Why the connection broke.
pub async fn serve<S>(io: S, member: Member, stop: CancellationToken) -> Result<(), hyper::Error>
where
    S: Read + Write + Send + Unpin + 'static,
{
    let _ends = stop.clone().drop_guard();
    let tasks = stop.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (member, tasks) = (member.clone(), tasks.clone());
        async move { Ok::<_, Infallible>(answer(request, &member, &tasks).await) }
    });
    let serving = connection::server(Tasks(stop.clone())).serve_connection(io, service);
    tokio::select! {
        served = serving => served,
        () = stop.cancelled() => Ok(()),
    }
}

async fn answer(mut request: Request<Incoming>, member: &Member, tasks: &CancellationToken) -> Response<Full<Bytes>> {
    if *request.method() == Method::OPTIONS {
        return plain(StatusCode::NO_CONTENT, String::new());
    }
    let upgrade = request.extensions_mut().remove::<OnUpgrade>();
    let (true, Some(upgrade)) = (*request.method() == Method::CONNECT, upgrade) else {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "only CONNECT is served".to_owned());
    };
    let authority = request.uri().authority().map(ToString::to_string).unwrap_or_default();
    if let Some(why) = member.destinations.refusal(&authority) {
        tracing::warn!(authority, "Tunnel: refused a connection to another address than the member's API server");
        return plain(StatusCode::FORBIDDEN, why);
    }
    let stream = match tokio::time::timeout(CONNECT, (member.connect)()).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            let why = format!("the agent cannot connect to the member's API server: {}", client::chain(error.as_ref()));
            return plain(StatusCode::BAD_GATEWAY, why);
        }
        Err(_) => {
            let why = format!("the member's API server does not accept connections within {} s", CONNECT.as_secs());
            return plain(StatusCode::GATEWAY_TIMEOUT, why);
        }
    };
    let ended = tasks.clone();
    tokio::spawn(async move { ended.run_until_cancelled(join(upgrade, stream)).await });
    plain(StatusCode::OK, String::new())
}

/// Copies until both directions have ended.
async fn join(upgrade: OnUpgrade, stream: Stream) {
    let Ok(near) = upgrade.await else { return };
    let (mut near, mut far) = (TokioIo::new(near), TokioIo::new(stream));
    if let Err(error) = tokio::io::copy_bidirectional_with_sizes(&mut near, &mut far, COPY, COPY).await {
        tracing::debug!(err = %error, "Tunnel: a connection broke");
    }
}

fn plain(code: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = code;
    let mut headers = HeaderMap::new();
    if code.is_client_error() || code.is_server_error() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    }
    *response.headers_mut() = headers;
    response
}
