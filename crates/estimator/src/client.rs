//! Asking the estimators of many clusters at once. What one of them does not answer costs nobody else's answer.

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

/// For each address.
const DIAL: Duration = Duration::from_secs(5);

/// The flags `--scheduler-estimator-…`.
#[derive(Clone, Debug)]
pub struct Settings {
    /// One deadline for all clusters that are asked together.
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

/// Who is asked, and what is on its way there.
#[derive(Clone, Debug, Default)]
pub struct Question {
    pub cluster: String,
    pub assumed: Vec<AssumedWorkload>,
    /// What it is asked for, for the other side's log: `kind=Deployment, name=shop/web`.
    pub object: String,
}

impl From<&str> for Question {
    fn from(cluster: &str) -> Self {
        Self { cluster: cluster.to_owned(), ..Self::default() }
    }
}

impl Question {
    /// As upstream's client names what it asks for.
    #[must_use]
    pub fn about(self, kind: &str, namespace: &str, name: &str) -> Self {
        Self { object: format!("kind={kind}, name={namespace}/{name}"), ..self }
    }
}

/// What is asked.
#[derive(Clone, Debug)]
pub enum Ask {
    Replicas { requirements: Option<ReplicaRequirements> },
    Sets { namespace: String, components: Vec<Component> },
    Unschedulable { resource: wire::ObjectReference, threshold: Duration },
}

/// What is known of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Known(i64),
    /// Why not.
    Unknown(String),
}

/// A connection for each cluster, made when it is first needed, and anew (to where the Service then says) after it broke.
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
    /// Of the control plane, where Services are looked up.
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
    /// Certificates that cannot be used.
    pub fn check(&self) -> Result<(), TlsError> {
        self.tls.as_ref().map(ClientTls::config).transpose().map(drop)
    }
}

impl Connections {
    /// # Errors
    /// Certificates that cannot be used.
    pub fn new(control: Client, settings: Settings) -> Result<Self, TlsError> {
        let config = settings.tls.as_ref().map(ClientTls::config).transpose()?;
        let connector = config.map(|config| TlsConnector::from(Arc::new(config)));
        Ok(Self(Arc::new(Inner { settings, connector, control, since: Instant::now(), peers: Mutex::default() })))
    }

    /// The cluster is gone.
    pub fn forget(&self, cluster: &str) {
        self.0.peers.lock().remove(cluster);
    }

    /// Asks all of them at the same time.
    pub fn ask<'a>(&'a self, questions: Vec<Question>, ask: &'a Ask) -> BoxFuture<'a, BTreeMap<String, Answer>> {
        Box::pin(async move {
            let deadline = Instant::now() + self.0.settings.timeout;
            let one = async |question: Question| {
                let answer = self.ask_one(&question, ask, deadline).await;
                (question.cluster, answer)
            };
            join_all(questions.into_iter().map(one)).await.into_iter().collect()
        })
    }

    async fn ask_one(&self, question: &Question, ask: &Ask, deadline: Instant) -> Answer {
        let cluster = &question.cluster;
        let peer = self.0.peers.lock().entry(cluster.clone()).or_default().clone();
        if !peer.breaker.lock().allows(self.0.since.elapsed()) {
            return Answer::Unknown(format!("the estimator of cluster {cluster} failed lately and is left alone"));
        }
        let called = tokio::time::timeout_at(deadline, self.called(&peer, question, ask, deadline)).await;
        let late = || Err(Status::deadline_exceeded("context deadline exceeded"));
        match called.unwrap_or_else(|_| late()) {
            Ok(number) => {
                peer.breaker.lock().succeeded();
                match number {
                    // Upstream's "do not know".
                    -1 => Answer::Unknown(format!("the estimator of cluster {cluster} does not know")),
                    // A quota that is overdrawn, from an estimator of upstream's: there is no room.
                    number => Answer::Known(number.max(0)),
                }
            }
            Err(status) => {
                // A server that answers with an error is there; only silence opens the breaker.
                if matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded) {
                    peer.breaker.lock().failed(self.0.since.elapsed());
                    *peer.sender.lock().await = None;
                } else {
                    peer.breaker.lock().succeeded();
                }
                let method = ask.method();
                Answer::Unknown(format!(
                    "gRPC request cluster({cluster}) estimator error when calling {method}: rpc error: code = {:?} desc = {}",
                    status.code(),
                    status.message()
                ))
            }
        }
    }

    async fn called(&self, peer: &Peer, question: &Question, ask: &Ask, deadline: Instant) -> Result<i64, Status> {
        let mut sender = {
            let mut kept = peer.sender.lock().await;
            match kept.clone().filter(|sender| !sender.is_closed()) {
                Some(sender) => sender,
                None => kept.insert(self.dial(&question.cluster).await?).clone(),
            }
        };
        sender.ready().await.map_err(|error| unavailable(&error))?;
        ask.send(sender, question, deadline.saturating_duration_since(Instant::now())).await
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

impl Ask {
    /// As metrics name it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Replicas { .. } => "MaxAvailableReplicas",
            Self::Sets { .. } => "MaxAvailableComponentSets",
            Self::Unschedulable { .. } => "GetUnschedulableReplicas",
        }
    }

    /// As upstream's error texts name it.
    fn method(&self) -> &'static str {
        match self {
            Self::Replicas { .. } => "MaxAvailableReplicas",
            Self::Sets { .. } => "MaxAvailableComponentSets",
            Self::Unschedulable { .. } => "UnschedulableReplicas",
        }
    }

    /// The number that is answered.
    async fn send(&self, sender: SendRequest<Body>, question: &Question, timeout: Duration) -> Result<i64, Status> {
        let cluster = question.cluster.clone();
        let object = question.object.as_str();
        let assumed_workloads = question.assumed.iter().map(convert::assumed).collect();
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
    // Names of objects are plain ASCII; one that is not is left out of a log elsewhere.
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
