//! Queries the estimators of several clusters concurrently. A failure of one does not affect the others.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiResource, ObjectKey};
use client::Client;
use futures::future::{BoxFuture, join_all};
use http::uri::PathAndQuery;
use http::{Request, Uri};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use karmada_api::work::v1alpha2::{Component, ReplicaRequirements};
use parking_lot::Mutex;
use rustls_pki_types::ServerName;
use scheduling::accurate::AssumedWorkload;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_prost::ProstCodec;
use tower::service_fn;

use crate::address::addresses;
use crate::breaker::Breaker;
use crate::convert;
use crate::tls::{ClientTls, TlsError};
use crate::wire;

/// The time-out for each address.
const DIAL: Duration = Duration::from_secs(5);

/// The flags `--scheduler-estimator-…`.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The deadline for all clusters that are queried together.
    pub timeout: Duration,
    pub namespace: String,
    pub prefix: String,
    pub port: u16,
    /// `None`: plain HTTP/2.
    pub tls: Option<ClientTls>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(3),
            namespace: "karmada-system".to_owned(),
            prefix: "karmada-scheduler-estimator".to_owned(),
            port: 10352,
            tls: None,
        }
    }
}

/// The cluster to query, and the workloads assumed to be there.
#[derive(Clone, Debug, Default)]
pub struct Target {
    pub cluster: String,
    pub assumed: Vec<AssumedWorkload>,
    /// The workload, for the estimator's log: `kind=Deployment, name=shop/web`.
    pub object: String,
}

impl From<&str> for Target {
    fn from(cluster: &str) -> Self {
        Self { cluster: cluster.to_owned(), ..Self::default() }
    }
}

impl Target {
    /// The workload's name in the format of upstream's client.
    #[must_use]
    pub fn about(self, kind: &str, namespace: &str, name: &str) -> Self {
        Self { object: format!("kind={kind}, name={namespace}/{name}"), ..self }
    }
}

/// A method with its arguments.
#[derive(Clone, Debug)]
pub enum Query {
    Replicas { requirements: Option<ReplicaRequirements> },
    Sets { namespace: String, components: Vec<Component> },
    Unschedulable { resource: wire::ObjectReference, threshold: Duration },
}

/// The result for one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Known(i64),
    /// Why there is no estimate.
    Unknown(String),
}

/// A connection for each cluster, opened on first use, and reopened (to the Service's current address) after it breaks.
#[derive(Clone)]
pub struct Connections(Arc<Inner>);

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connections").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

struct Inner {
    settings: Settings,
    connector: Option<TlsConnector>,
    /// A client of the control plane, to look up Services.
    control: Client,
    since: Instant,
    peers: Mutex<HashMap<String, Arc<Peer>>>,
}

#[derive(Default)]
struct Peer {
    sender: tokio::sync::Mutex<Option<SendRequest<Body>>>,
    breaker: Mutex<Breaker>,
}

impl Settings {
    /// # Errors
    /// The certificates are unusable.
    pub fn check(&self) -> Result<(), TlsError> {
        self.tls.as_ref().map(ClientTls::config).transpose().map(drop)
    }
}

impl Connections {
    /// # Errors
    /// The certificates are unusable.
    pub fn new(control: Client, settings: Settings) -> Result<Self, TlsError> {
        let config = settings.tls.as_ref().map(ClientTls::config).transpose()?;
        let connector = config.map(|config| TlsConnector::from(Arc::new(config)));
        Ok(Self(Arc::new(Inner { settings, connector, control, since: Instant::now(), peers: Mutex::default() })))
    }

    /// Closes the connection of a removed cluster.
    pub fn forget(&self, cluster: &str) {
        self.0.peers.lock().remove(cluster);
    }

    /// Queries all clusters concurrently.
    pub fn query<'a>(&'a self, targets: Vec<Target>, query: &'a Query) -> BoxFuture<'a, BTreeMap<String, Answer>> {
        Box::pin(async move {
            let deadline = Instant::now() + self.0.settings.timeout;
            let one = async |target: Target| {
                let answer = self.query_one(&target, query, deadline).await;
                (target.cluster, answer)
            };
            join_all(targets.into_iter().map(one)).await.into_iter().collect()
        })
    }

    async fn query_one(&self, target: &Target, query: &Query, deadline: Instant) -> Answer {
        let cluster = &target.cluster;
        let peer = self.0.peers.lock().entry(cluster.clone()).or_default().clone();
        if !peer.breaker.lock().allows(self.0.since.elapsed()) {
            return Answer::Unknown(format!("the estimator of cluster {cluster} failed recently; retrying later"));
        }
        let called = tokio::time::timeout_at(deadline, self.called(&peer, target, query, deadline)).await;
        let late = || Err(Status::deadline_exceeded("context deadline exceeded"));
        match called.unwrap_or_else(|_| late()) {
            Ok(number) => {
                peer.breaker.lock().succeeded();
                match number {
                    // Upstream's value for "unknown".
                    -1 => Answer::Unknown(format!("the estimator of cluster {cluster} returned no estimate")),
                    // A negative value is an overdrawn quota of upstream's estimator: there is no capacity.
                    number => Answer::Known(number.max(0)),
                }
            }
            Err(status) => {
                // A server that responds with an error is reachable; only a missing response opens the breaker.
                if matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded) {
                    peer.breaker.lock().failed(self.0.since.elapsed());
                    *peer.sender.lock().await = None;
                } else {
                    peer.breaker.lock().succeeded();
                }
                let method = query.method();
                Answer::Unknown(format!(
                    "gRPC request cluster({cluster}) estimator error when calling {method}: rpc error: code = {:?} desc = {}",
                    status.code(),
                    status.message()
                ))
            }
        }
    }

    async fn called(&self, peer: &Peer, target: &Target, query: &Query, deadline: Instant) -> Result<i64, Status> {
        let mut sender = {
            let mut kept = peer.sender.lock().await;
            match kept.clone().filter(|sender| !sender.is_closed()) {
                Some(sender) => sender,
                None => kept.insert(self.dial(&target.cluster).await?).clone(),
            }
        };
        sender.ready().await.map_err(|error| unavailable(&error))?;
        query.send(sender, target, deadline.saturating_duration_since(Instant::now())).await
    }

    async fn dial(&self, cluster: &str) -> Result<SendRequest<Body>, Status> {
        let Settings { namespace, prefix, port, .. } = &self.0.settings;
        let name = format!("{prefix}-{cluster}");
        let services = ApiResource::namespaced("", "v1", "Service", "services");
        let key = ObjectKey::namespaced(namespace.as_str(), name.as_str());
        let service = self.0.control.get_opt(&services, &key).await.map_err(|error| unavailable(&error))?;
        let service = service.and_then(|object| object.to_value().ok());
        let candidates = addresses(service.as_ref(), namespace, &name, *port);
        let mut failures = Vec::new();
        for address in candidates.map_err(|error| unavailable(&error))? {
            match timeout(DIAL, self.connect(&address)).await {
                Ok(Ok(sender)) => return Ok(sender),
                Ok(Err(error)) => failures.push(format!("dial {address} error: {error}")),
                Err(_) => failures.push(format!("dial {address} error: timeout waiting for connection to {address}")),
            }
        }
        Err(Status::new(Code::Unavailable, failures.join(", ")))
    }

    async fn connect(&self, address: &str) -> Result<SendRequest<Body>, String> {
        let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        let _ = stream.set_nodelay(true);
        let Some(connector) = &self.0.connector else { return shake(stream).await };
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
        shake(connector.connect(name, stream).await.map_err(|error| error.to_string())?).await
    }
}

async fn shake(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<SendRequest<Body>, String> {
    let shaken = handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (sender, connection) = shaken.map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(err = %error, "Connection to an estimator ended");
        }
    });
    Ok(sender)
}

impl Query {
    /// The name in metrics.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Replicas { .. } => "MaxAvailableReplicas",
            Self::Sets { .. } => "MaxAvailableComponentSets",
            Self::Unschedulable { .. } => "GetUnschedulableReplicas",
        }
    }

    /// The method in upstream's error messages.
    fn method(&self) -> &'static str {
        match self {
            Self::Replicas { .. } => "MaxAvailableReplicas",
            Self::Sets { .. } => "MaxAvailableComponentSets",
            Self::Unschedulable { .. } => "UnschedulableReplicas",
        }
    }

    /// Sends the request and returns the number in the response.
    async fn send(&self, sender: SendRequest<Body>, target: &Target, timeout: Duration) -> Result<i64, Status> {
        let cluster = target.cluster.clone();
        let object = target.object.as_str();
        let assumed_workloads = target.assumed.iter().map(convert::assumed).collect();
        match self {
            Self::Replicas { requirements } => {
                let replica_requirements = requirements.as_ref().map(convert::requirements);
                let message = wire::MaxAvailableReplicasRequest { cluster, replica_requirements, assumed_workloads };
                let answer = unary(sender, wire::MAX_AVAILABLE_REPLICAS, message, object, timeout).await;
                answer.map(|it: wire::MaxAvailableReplicasResponse| it.max_replicas.into())
            }
            Self::Sets { namespace, components } => {
                let message = wire::MaxAvailableComponentSetsRequest {
                    cluster,
                    components: components.iter().map(convert::component).collect(),
                    namespace: namespace.clone(),
                    assumed_workloads,
                };
                let answer = unary(sender, wire::MAX_AVAILABLE_COMPONENT_SETS, message, object, timeout).await;
                answer.map(|it: wire::MaxAvailableComponentSetsResponse| it.max_sets.into())
            }
            Self::Unschedulable { resource, threshold } => {
                let message = wire::UnschedulableReplicasRequest {
                    cluster,
                    resource: Some(resource.clone()),
                    unschedulable_threshold: i64::try_from(threshold.as_nanos()).unwrap_or(i64::MAX),
                };
                let answer = unary(sender, wire::GET_UNSCHEDULABLE_REPLICAS, message, object, timeout).await;
                answer.map(|it: wire::UnschedulableReplicasResponse| it.unschedulable_replicas.into())
            }
        }
    }
}

async fn unary<Q, A>(
    sender: SendRequest<Body>,
    path: &'static str,
    message: Q,
    object: &str,
    timeout: Duration,
) -> Result<A, Status>
where
    Q: prost::Message + Send + Sync + 'static,
    A: prost::Message + Default + Send + Sync + 'static,
{
    let through = service_fn(move |request: Request<Body>| {
        let mut sender = sender.clone();
        async move { sender.send_request(request).await }
    });
    let mut request = tonic::Request::new(message);
    request.set_timeout(timeout);
    // Object names are plain ASCII; others are omitted from the estimator's log.
    if let Some(object) = Some(object).filter(|object| !object.is_empty()).and_then(|object| object.parse().ok()) {
        request.metadata_mut().insert("object", object);
    }
    let mut grpc = tonic::client::Grpc::with_origin(through, Uri::from_static("http://estimator"));
    let codec = ProstCodec::<Q, A>::default();
    grpc.unary(request, PathAndQuery::from_static(path), codec).await.map(tonic::Response::into_inner)
}

fn unavailable(error: &dyn std::fmt::Display) -> Status {
    Status::unavailable(error.to_string())
}
