//! The server: three methods over HTTP/2.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use karmada_api::work::v1alpha2::{Component, ReplicaRequirements};
use rustls::ServerConfig;
use scheduling::accurate::{AssumedWorkload, Observer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic_prost::ProstCodec;

use metrics::Registry;

use crate::convert;
use crate::metrics::Counted;
use crate::wire;

/// Schedulers and deschedulers have one connection each; the limit is generous, at about 50 KiB each.
const MOST_CONNECTIONS: usize = 100;
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The time limit of a call without a deadline; calls take milliseconds.
const LONGEST: Duration = Duration::from_secs(60);

/// Computes estimates. Errors are messages, which are upstream's.
pub trait Estimate: Send + Sync + 'static {
    /// The cluster of this estimator.
    fn cluster(&self) -> &str;

    /// `observer` is called after each step.
    fn replicas(
        &self,
        requirements: Option<&ReplicaRequirements>,
        assumed: &[AssumedWorkload],
        observer: &dyn Observer,
    ) -> Result<i64, String>;

    fn component_sets(
        &self,
        namespace: &str,
        components: &[Component],
        assumed: &[AssumedWorkload],
        observer: &dyn Observer,
    ) -> Result<i64, String>;

    fn unschedulable(
        &self,
        resource: &wire::ObjectReference,
        threshold: Duration,
        observer: &dyn Observer,
    ) -> Result<i64, String>;
}

type Answer = Response<tonic::body::Body>;

/// Serves until `stop`; without TLS in plain HTTP/2.
pub fn serve(
    listener: TcpListener,
    tls: Option<ServerConfig>,
    estimate: Arc<dyn Estimate>,
    registry: Registry,
    stop: CancellationToken,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let served = Served { estimate, counted: Counted::new(&registry) };
        let acceptor = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        let slots = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        while let Ok(slot) = slots.clone().acquire_owned().await {
            let stream = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop.cancelled() => break,
            };
            let Ok((stream, address)) = stream else {
                // Usually out of file descriptors: a short pause lets connections close.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let (acceptor, served, stop) = (acceptor.clone(), served.clone(), stop.clone());
            tokio::spawn(async move {
                match acceptor {
                    None => serve_stream(stream, served, stop).await,
                    Some(acceptor) => match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => serve_stream(stream, served, stop).await,
                        Ok(Err(error)) => tracing::debug!(%address, err = %error, "TLS handshake failed"),
                        Err(_) => tracing::debug!(%address, "TLS handshake timed out"),
                    },
                }
                drop(slot);
            });
        }
    })
}

#[derive(Clone)]
struct Served {
    estimate: Arc<dyn Estimate>,
    counted: Counted,
}

async fn serve_stream(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    served: Served,
    stop: CancellationToken,
) {
    let handler = service_fn(move |request: Request<Incoming>| {
        let served = served.clone();
        async move { Ok::<Answer, Infallible>(answer(request, served).await) }
    });
    let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(30))
        .serve_connection(TokioIo::new(stream), handler);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => if let Err(error) = ended {
            tracing::debug!(err = %error, "Connection ended");
        },
        () = stop.cancelled() => {}
    }
}

async fn answer(request: Request<Incoming>, served: Served) -> Answer {
    match request.uri().path() {
        wire::MAX_AVAILABLE_REPLICAS => unary(request, served, "MaxAvailableReplicas", replicas).await,
        wire::MAX_AVAILABLE_COMPONENT_SETS => unary(request, served, "MaxAvailableComponentSets", sets).await,
        wire::GET_UNSCHEDULABLE_REPLICAS => unary(request, served, "GetUnschedulableReplicas", unschedulable).await,
        path => Status::unimplemented(format!("unknown method {path}")).into_http(),
    }
}

/// An estimate over thousands of nodes takes milliseconds and must not block other calls.
async fn unary<Q, A>(
    request: Request<Incoming>,
    served: Served,
    kind: &'static str,
    work: fn(Q, &dyn Estimate, &dyn Observer) -> Result<A, Status>,
) -> Answer
where
    Q: prost::Message + Default + Send + 'static,
    A: prost::Message + Send + 'static,
{
    // The client waits no longer than this.
    let patience = request.headers().get("grpc-timeout").and_then(|text| parse_timeout(text.to_str().ok()?));
    let service = tower::service_fn(move |request: tonic::Request<Q>| {
        let Served { estimate, counted } = served.clone();
        async move {
            let object = request.metadata().get("object").and_then(|object| object.to_str().ok());
            tracing::debug!(name: "v6", kind, object = object.unwrap_or_default(), "Estimate requested");
            let started = tokio::time::Instant::now();
            let timed = counted.clone();
            let worked = tokio::task::spawn_blocking(move || {
                let stopwatch = timed.stopwatch(kind);
                let done = work(request.into_inner(), &*estimate, &stopwatch);
                stopwatch.ended();
                done
            });
            let done = tokio::time::timeout(patience.unwrap_or(LONGEST), worked).await;
            let done = match done {
                Ok(Ok(done)) => done,
                Ok(Err(panicked)) => Err(Status::internal(panicked.to_string())),
                Err(_) => Err(Status::deadline_exceeded("context deadline exceeded")),
            };
            counted.request(kind, done.is_ok(), started.elapsed());
            done.map(tonic::Response::new)
        }
    });
    tonic::server::Grpc::new(ProstCodec::<A, Q>::default()).unary(service, request).await
}

/// A time-out in gRPC's format: up to eight digits and a unit.
fn parse_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

fn own(cluster: &str, estimate: &dyn Estimate) -> Result<(), Status> {
    let desired = estimate.cluster();
    if cluster == desired {
        return Ok(());
    }
    Err(Status::unknown(format!("cluster name does not match, got: {cluster}, desire: {desired}")))
}

fn int32(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })
}

fn replicas(
    request: wire::MaxAvailableReplicasRequest,
    estimate: &dyn Estimate,
    observer: &dyn Observer,
) -> Result<wire::MaxAvailableReplicasResponse, Status> {
    own(&request.cluster, estimate)?;
    let requirements = request.replica_requirements.map(convert::read_requirements);
    let assumed: Vec<AssumedWorkload> = request.assumed_workloads.into_iter().map(convert::read_assumed).collect();
    let found = estimate.replicas(requirements.as_ref(), &assumed, observer);
    let found = found.map_err(|error| Status::unknown(format!("failed to estimate replicas: {error}")))?;
    Ok(wire::MaxAvailableReplicasResponse { max_replicas: int32(found) })
}

fn sets(
    request: wire::MaxAvailableComponentSetsRequest,
    estimate: &dyn Estimate,
    observer: &dyn Observer,
) -> Result<wire::MaxAvailableComponentSetsResponse, Status> {
    own(&request.cluster, estimate)?;
    let components: Vec<Component> = request.components.into_iter().map(convert::read_component).collect();
    let assumed: Vec<AssumedWorkload> = request.assumed_workloads.into_iter().map(convert::read_assumed).collect();
    let found = estimate.component_sets(&request.namespace, &components, &assumed, observer);
    let failed = |error| Status::unknown(format!("failed to estimate component sets: {error}"));
    Ok(wire::MaxAvailableComponentSetsResponse { max_sets: int32(found.map_err(failed)?) })
}

fn unschedulable(
    request: wire::UnschedulableReplicasRequest,
    estimate: &dyn Estimate,
    observer: &dyn Observer,
) -> Result<wire::UnschedulableReplicasResponse, Status> {
    own(&request.cluster, estimate)?;
    let resource = request.resource.as_ref().ok_or_else(|| Status::unknown("resource is nil"))?;
    let threshold = Duration::from_nanos(u64::try_from(request.unschedulable_threshold).unwrap_or(0));
    let found = estimate.unschedulable(resource, threshold, observer);
    let found = found.map_err(Status::unknown)?;
    Ok(wire::UnschedulableReplicasResponse { unschedulable_replicas: int32(found) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_in_grpc_format() {
        for (text, expected) in [
            ("3S", Some(Duration::from_secs(3))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3600))),
            ("2999123u", Some(Duration::from_micros(2_999_123))),
            ("5m", Some(Duration::from_millis(5))),
            ("123456789S", None),
            ("S", None),
            ("", None),
            ("3s", None),
            ("-3S", None),
            ("3\u{e9}", None),
        ] {
            assert_eq!(parse_timeout(text), expected, "{text}");
        }
    }
}
