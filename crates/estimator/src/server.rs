//! The server: three methods over HTTP/2.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use karmada_api::work::v1alpha2::{Component, ReplicaRequirements};
use rustls::ServerConfig;
use scheduling::accurate::AssumedWorkload;
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

/// Schedulers and deschedulers hold one connection each; a hundred are plenty, at about 50 KiB each.
const MOST_CONNECTIONS: usize = 100;
const HANDSHAKE: Duration = Duration::from_secs(10);

/// What answers. An error is its text, in upstream's words.
pub trait Estimate: Send + Sync + 'static {
    /// The cluster whose estimator this is.
    fn cluster(&self) -> &str;

    fn replicas(&self, requirements: Option<&ReplicaRequirements>, assumed: &[AssumedWorkload]) -> Result<i64, String>;

    fn component_sets(
        &self,
        namespace: &str,
        components: &[Component],
        assumed: &[AssumedWorkload],
    ) -> Result<i64, String>;

    fn unschedulable(&self, resource: &wire::ObjectReference, threshold: Duration) -> Result<i64, String>;
}

type Answer = Response<tonic::body::Body>;

/// Serves until `stop`; without TLS in plain HTTP/2.
pub async fn serve(
    listener: TcpListener,
    tls: Option<ServerConfig>,
    estimate: Arc<dyn Estimate>,
    registry: Registry,
    stop: CancellationToken,
) {
    let served = Served { estimate, counted: Counted::new(&registry) };
    let acceptor = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
    let slots = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    while let Ok(slot) = slots.clone().acquire_owned().await {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        let Ok((stream, address)) = stream else {
            // Out of file descriptors, usually: waiting a little lets some be closed.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (acceptor, served, stop) = (acceptor.clone(), served.clone(), stop.clone());
        tokio::spawn(async move {
            match acceptor {
                None => speak(stream, served, stop).await,
                Some(acceptor) => match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => speak(stream, served, stop).await,
                    Ok(Err(error)) => tracing::debug!(%address, %error, "TLS handshake failed"),
                    Err(_) => tracing::debug!(%address, "TLS handshake took too long"),
                },
            }
            drop(slot);
        });
    }
}

#[derive(Clone)]
struct Served {
    estimate: Arc<dyn Estimate>,
    counted: Counted,
}

async fn speak(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, served: Served, stop: CancellationToken) {
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
            tracing::debug!(%error, "connection ended");
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

/// Counting over thousands of nodes takes milliseconds, which other calls should not wait for.
async fn unary<Q, A>(
    request: Request<Incoming>,
    served: Served,
    kind: &'static str,
    work: fn(Q, &dyn Estimate) -> Result<A, Status>,
) -> Answer
where
    Q: prost::Message + Default + Send + 'static,
    A: prost::Message + Send + 'static,
{
    let service = tower::service_fn(move |request: tonic::Request<Q>| {
        let Served { estimate, counted } = served.clone();
        async move {
            let started = tokio::time::Instant::now();
            let done = tokio::task::spawn_blocking(move || work(request.into_inner(), &*estimate)).await;
            let done = done.unwrap_or_else(|error| Err(Status::internal(error.to_string())));
            counted.request(kind, done.is_ok(), started.elapsed());
            done.map(tonic::Response::new)
        }
    });
    tonic::server::Grpc::new(ProstCodec::<A, Q>::default()).unary(service, request).await
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
) -> Result<wire::MaxAvailableReplicasResponse, Status> {
    own(&request.cluster, estimate)?;
    let requirements = request.replica_requirements.map(convert::read_requirements);
    let assumed: Vec<AssumedWorkload> = request.assumed_workloads.into_iter().map(convert::read_assumed).collect();
    let found = estimate.replicas(requirements.as_ref(), &assumed);
    let found = found.map_err(|error| Status::unknown(format!("failed to estimate replicas: {error}")))?;
    Ok(wire::MaxAvailableReplicasResponse { max_replicas: int32(found) })
}

fn sets(
    request: wire::MaxAvailableComponentSetsRequest,
    estimate: &dyn Estimate,
) -> Result<wire::MaxAvailableComponentSetsResponse, Status> {
    own(&request.cluster, estimate)?;
    let components: Vec<Component> = request.components.into_iter().map(convert::read_component).collect();
    let assumed: Vec<AssumedWorkload> = request.assumed_workloads.into_iter().map(convert::read_assumed).collect();
    let found = estimate.component_sets(&request.namespace, &components, &assumed);
    let failed = |error| Status::unknown(format!("failed to estimate component sets: {error}"));
    Ok(wire::MaxAvailableComponentSetsResponse { max_sets: int32(found.map_err(failed)?) })
}

fn unschedulable(
    request: wire::UnschedulableReplicasRequest,
    estimate: &dyn Estimate,
) -> Result<wire::UnschedulableReplicasResponse, Status> {
    own(&request.cluster, estimate)?;
    let resource = request.resource.as_ref().ok_or_else(|| Status::unknown("resource is nil"))?;
    let threshold = Duration::from_nanos(u64::try_from(request.unschedulable_threshold).unwrap_or(0));
    let found = estimate.unschedulable(resource, threshold);
    let found = found.map_err(Status::unknown)?;
    Ok(wire::UnschedulableReplicasResponse { unschedulable_replicas: int32(found) })
}
