//! `clusters/NAME/proxy/PATH`: forwards requests to a member, impersonating the user.
//!
//! The user needs rights on `clusters/proxy` here, which the server has checked. The member authorizes the request: the
//! user is impersonated there with the token of `impersonatorSecretRef`. The administrator's token of `secretRef` is
//! never used. Requests are forwarded once: they are not retried, cached or rewritten.
//!
//! At `clusters/NAME/tunnel` the agent of a member in Pull mode opens its tunnel.

mod all_clusters;
mod clusters;
mod outgoing;
mod tunnel;

pub(crate) use all_clusters::{read_body, target_of};
pub(crate) use clusters::Clusters;
pub use tunnel::EndsTunnels;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::tunnel::Tunnels;
use ::tunnel::decide::no_endpoint;
use apimachinery::{ApiResource, Object, ObjectKey, Status, StatusReason};
use apiserver::Shared;
use apiserver::forwarding;
use apiserver::{RequestInfo, Route};
use base64::Engine as _;
use client::{Client, Endpoint};
use controller_runtime::Informer;
use controllers::Connector;
use futures::future::BoxFuture;
use http::StatusCode;
use hyper::upgrade::OnUpgrade;
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::{Cluster, LocalSecretReference, SyncMode};
use karmada_api::cluster::{TUNNEL, in_reach, proxy_path};
use parking_lot::Mutex;
use serde::Deserialize;
use transport::{ApiService, Identity, Request, Response};

/// Time until the member's response begins, as for requests to this server; long-running requests have none.
const TIMEOUT: Duration = Duration::from_secs(60);
const GROUP: &str = "cluster.karmada.io";

pub struct ClusterProxy {
    connector: Connector,
    /// `--allow-http-member-endpoints`
    allow_http: bool,
    joins: forwarding::Joins,
    /// The tunnels of members in Pull mode.
    tunnels: Tunnels,
    /// Connections by cluster, with their endpoints, shared by all users.
    connected: Mutex<HashMap<String, (Endpoint, Client)>>,
    /// The server that this route belongs to, once it has started.
    own: OnceLock<ApiService>,
    /// The server that stores Secrets and answers requests to the control plane, if not that one.
    control: OnceLock<Client>,
    /// The Clusters, if another server stores them.
    clusters: OnceLock<Informer>,
}

fn decoded(cluster: &Object) -> Result<Cluster, Status> {
    let why = |error| failed(format!("cluster {} cannot be read: {error}", cluster.name()));
    Cluster::from_object(cluster).map_err(why)
}

/// A failure of the proxy itself; upstream gives these no reason.
fn failed(message: impl Into<String>) -> Status {
    Status { reason: String::new(), ..Status::failure(StatusReason::InternalError, message) }
}

impl ClusterProxy {
    /// `connector` reaches members of this process; `allow_http` permits plain HTTP for others.
    pub fn new(connector: Connector, allow_http: bool) -> Self {
        Self {
            connector,
            allow_http,
            joins: forwarding::Joins::default(),
            tunnels: Tunnels::default(),
            connected: Mutex::default(),
            own: OnceLock::new(),
            control: OnceLock::new(),
            clusters: OnceLock::new(),
        }
    }

    /// The tunnels that agents have opened to this server.
    pub fn tunnels(&self) -> &Tunnels {
        &self.tunnels
    }

    /// Another server stores Secrets and answers requests to the control plane.
    pub fn control_plane(&self, client: Client) {
        let _ = self.control.set(client);
    }

    /// Whether members in the mode of this one are reached: in Pull mode over the tunnel of the agent, here or at the
    /// control plane.
    pub(crate) fn connects_to(&self, cluster: &Cluster) -> bool {
        let is_pulled = cluster.spec.sync_mode == SyncMode::Pull;
        !is_pulled || self.control.get().is_some() || self.tunnels.is_expected(&cluster.metadata.name)
    }

    /// Another server stores Clusters, too.
    pub fn clusters_in(&self, clusters: Informer) {
        let _ = self.clusters.set(clusters);
    }

    /// The Clusters, not older than the request.
    pub(crate) async fn clusters(&self, server: &Shared) -> Result<Clusters, Status> {
        match self.clusters.get() {
            None => drop(server.cache.catch_up().await?),
            Some(far) => clusters::complete(far).await?,
        }
        Ok(Clusters { own: Arc::clone(&server.cache), far: self.clusters.get().cloned() })
    }

    /// Sets the server that answers requests to the control plane.
    pub fn serve(&self, own: ApiService) {
        // Only the first counts; there is one server.
        let _ = self.own.set(own);
    }

    /// Sends a request to the control plane as the user; upstream uses its own rights there.
    pub(crate) async fn in_control_plane(
        &self,
        user: &Identity,
        request: Request,
        target: &str,
    ) -> Result<Response, Status> {
        let (parts, body) = request.into_parts();
        let mut request = http::Request::builder().method(parts.method).uri(target).body(body);
        if let Ok(request) = &mut request {
            *request.headers_mut() = parts.headers;
            request.headers_mut().remove(http::header::AUTHORIZATION);
        }
        let request = request.map_err(|error| Status::bad_request(format!("path {target}: {error}")))?;
        let client = match (self.control.get(), self.own.get()) {
            (Some(control), _) => control
                .acting_as(&user.user, &user.groups, &user.uid)
                .map_err(|error| Status::unclassified(error.to_string()))?,
            (None, Some(own)) => Client::in_process(own.clone(), user.clone()),
            (None, None) => return Err(Status::unclassified("the server is starting")),
        };
        let answer = client.send(request).await;
        answer.map_err(|error| Status::unclassified(error.to_string()))
    }

    /// Forwards a request, whose path is that of the proxy, to a member.
    pub(crate) async fn forward(
        &self,
        server: &Shared,
        cluster: &str,
        user: &Identity,
        request: Request,
    ) -> Result<Response, Status> {
        let (mut parts, body) = request.into_parts();
        let outgoing = outgoing::outgoing(&parts.uri, &parts.headers, user)?;
        let joining = match (outgoing.upgrade, parts.extensions.remove::<OnUpgrade>()) {
            (false, _) => None,
            (true, Some(caller)) => Some((caller, self.joins.take(&user.user)?)),
            (true, None) => return Err(Status::bad_request("this connection cannot be upgraded")),
        };
        let client = self.member(server, cluster).await?;
        let mut request = http::Request::builder().method(parts.method).uri(&outgoing.target).body(body);
        if let Ok(request) = &mut request {
            *request.headers_mut() = outgoing.headers;
        }
        // Extensions of the request (the user, accepted forms) do not concern the member.
        let request = request.map_err(|e| Status::bad_request(format!("cannot request {}: {e}", outgoing.target)))?;
        let lasting = RequestInfo::parse(request.method(), request.uri()).is_long_running();
        let mut response = send(&client, request, cluster, lasting).await?;
        let headers = forwarding::answer_headers(response.status(), response.headers());
        *response.headers_mut() = headers;
        apiserver::limits::budget::passed_on(&mut response);
        if response.status().is_redirection() && response.headers().contains_key(http::header::LOCATION) {
            let why = "the backend attempted to redirect this request, which is not permitted";
            return Err(failed(format!("cluster {cluster}: {why}")));
        }
        if let (StatusCode::SWITCHING_PROTOCOLS, Some((caller, permit))) = (response.status(), joining) {
            forwarding::join(cluster, caller, &mut response, permit);
        }
        Ok(response)
    }

    /// The connection to a member, recreated when its Cluster or its Secrets have changed.
    async fn member(&self, server: &Shared, name: &str) -> Result<Client, Status> {
        let known = self.clusters(server).await?;
        let Some(cluster) = known.get(name)? else {
            self.connected.lock().remove(name);
            return Err(Status::not_found(GROUP, "clusters", name));
        };
        let cluster = decoded(&cluster)?;
        if let (SyncMode::Pull, Some(control)) = (cluster.spec.sync_mode, self.control.get()) {
            return Ok(control.behind(&proxy_path(name)));
        }
        let cluster = if self.tunnels.is_connected(name) { in_reach(&cluster) } else { Cow::Borrowed(&cluster) };
        let endpoint = self.endpoint(server, &cluster).await?;
        if let Some((known, client)) = self.connected.lock().get(name)
            && *known == endpoint
        {
            return Ok(client.clone());
        }
        let client = match (self.connector)(&endpoint) {
            Some(client) => client,
            None => {
                self.check_destination(server, &cluster).await?;
                let client = match endpoint.pull {
                    false => Client::from_endpoint(&endpoint),
                    true => Client::from_endpoint_over(&endpoint, self.tunnels.to(name)),
                };
                client.map_err(|e| failed(format!("cannot connect to cluster {name}: {e}")))?
            }
        };
        let mut connected = self.connected.lock();
        // Connections of deleted Clusters would never close.
        connected.retain(|other, _| !matches!(known.get(other), Ok(None)));
        connected.insert(name.to_owned(), (endpoint, client.clone()));
        Ok(client)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SecretData {
    data: HashMap<String, String>,
}

impl ClusterProxy {
    /// The address of the member and the credentials of the impersonator.
    async fn endpoint(&self, server: &Shared, cluster: &Cluster) -> Result<Endpoint, Status> {
        let (name, spec) = (&cluster.metadata.name, &cluster.spec);
        if spec.api_endpoint.is_empty() && spec.sync_mode == SyncMode::Pull {
            return Err(failed(no_endpoint(name)));
        }
        if spec.api_endpoint.is_empty() {
            return Err(failed(format!("API endpoint of cluster {name} should not be empty")));
        }
        let reference = spec.impersonator_secret_ref.as_ref();
        let reference =
            reference.ok_or_else(|| failed(format!("the impersonatorSecretRef of cluster {name} is nil")))?;
        // The misspelling is upstream's.
        let token = self.secret_field(server, reference, "token").await;
        let token = token
            .and_then(|bytes| String::from_utf8(bytes).map_err(|_| "the token is not text".into()))
            .map_err(|why| failed(format!("failed to get impresonateToken for cluster {name}: {why}")))?;
        let ca_bundle = match (&spec.secret_ref, spec.insecure_skip_tls_verification) {
            (Some(reference), false) => Some(
                self.secret_field(server, reference, "caBundle")
                    .await
                    .map_err(|why| failed(format!("failed to get the CA bundle of cluster {name}: {why}")))?,
            ),
            _ => None,
        };
        Ok(controllers::endpoint_of(spec, ca_bundle, token.trim()))
    }

    /// Checks that the impersonator's token may be sent to the endpoint of the cluster.
    async fn check_destination(&self, server: &Shared, cluster: &Cluster) -> Result<(), Status> {
        let Some(reference) = &cluster.spec.impersonator_secret_ref else { return Ok(()) };
        let secret = self.secret(server, reference).await.map_err(failed)?;
        let control = match (self.control.get(), self.own.get()) {
            (Some(control), _) => control.clone(),
            (None, Some(own)) => Client::in_process(own.clone(), Identity::system("karmada-cluster-proxy")),
            (None, None) => return Err(Status::unclassified("the server is starting")),
        };
        let checked = controllers::check_destination(&control, cluster, &secret, self.allow_http).await;
        checked.map_err(|error| failed(error.to_string()))
    }

    async fn secret(&self, server: &Shared, reference: &LocalSecretReference) -> Result<Arc<Object>, String> {
        let key = ObjectKey::namespaced(reference.namespace.as_str(), reference.name.as_str());
        let missing = || format!("secrets \"{}\" not found in namespace {}", reference.name, reference.namespace);
        match self.control.get() {
            None => server.cache.resource("core/secrets").get(&key).map_err(|error| error.message)?.ok_or_else(missing),
            Some(control) => {
                let secrets = ApiResource::namespaced("", "v1", "Secret", "secrets");
                control.get(&secrets, &key).await.map_err(|error| error.to_string())
            }
        }
    }

    async fn secret_field(
        &self,
        server: &Shared,
        reference: &LocalSecretReference,
        field: &str,
    ) -> Result<Vec<u8>, String> {
        let key = ObjectKey::namespaced(reference.namespace.as_str(), reference.name.as_str());
        let secret = self.secret(server, reference).await?;
        let secret: SecretData = secret.decode().map_err(|e| format!("secret {key} cannot be read: {e}"))?;
        let bytes = secret.data.get(field).and_then(|text| base64::prelude::BASE64_STANDARD.decode(text).ok());
        bytes.filter(|bytes| !bytes.is_empty()).ok_or_else(|| format!("secret {key} has no usable {field}"))
    }
}

async fn send(client: &Client, request: Request, cluster: &str, lasting: bool) -> Result<Response, Status> {
    let sending = client.send(request);
    let answer = if lasting {
        sending.await
    } else {
        tokio::time::timeout(TIMEOUT, sending).await.map_err(|_| {
            let seconds = TIMEOUT.as_secs();
            Status::failure(StatusReason::Timeout, format!("cluster {cluster} did not answer within {seconds}s"))
        })?
    };
    answer.map_err(|error| {
        Status::failure(StatusReason::ServiceUnavailable, format!("cluster {cluster} cannot be reached: {error}"))
    })
}

impl Route for ClusterProxy {
    fn takes(&self, info: &RequestInfo) -> bool {
        info.group == GROUP && info.resource == "clusters" && matches!(info.subresource.as_str(), "proxy" | TUNNEL)
    }

    fn call<'a>(
        &'a self,
        server: &'a Shared,
        info: &'a RequestInfo,
        user: &'a Identity,
        request: Request,
    ) -> BoxFuture<'a, Result<Response, Status>> {
        match info.name.as_str() {
            _ if info.subresource == TUNNEL => Box::pin(self.open_tunnel(server, info, user, request)),
            "*" => Box::pin(self.all_clusters(server, info, user, request)),
            name => Box::pin(self.forward(server, name, user, request)),
        }
    }
}
