//! Passes a request on. It is sent once: it is not retried, cached or rewritten.

use apimachinery::{ObjectKey, Status};
use apiserver::Peer;
use apiserver::Shared;
use apiserver::{RequestInfo, forwarding};
use client::{Client, Endpoint};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue, LOCATION};
use hyper::upgrade::OnUpgrade;
use serde_json::Value;
use transport::{Identity, Request, Response};

use crate::registered::{Remote, group_version};
use crate::resolve::{self, Found, Routing};
use crate::{Aggregation, outgoing};

/// A failure of the proxy itself, as kube-apiserver sends it: text, not a Status.
fn failed(code: StatusCode, why: &str) -> Response {
    let mut response = http::Response::new(transport::full(format!("{why}\n")));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

impl Aggregation {
    pub(crate) async fn forward(
        &self,
        server: &Shared,
        info: &RequestInfo,
        user: &Identity,
        request: Request,
    ) -> Result<Response, Status> {
        let unavailable = || Ok(failed(StatusCode::SERVICE_UNAVAILABLE, "service unavailable"));
        let table = self.table.load_full();
        let target = group_version(&info.path).and_then(|(group, version)| table.find(group, version));
        // It may have been deleted since the route was chosen.
        let Some(target) = target else { return Ok(apiserver::respond::page_not_found()) };
        if !target.is_available {
            return unavailable();
        }
        let remote = &target.remote;
        let endpoint = match self.endpoint(server, remote, server.world.random_u64()) {
            Ok(endpoint) => endpoint,
            Err(why) => {
                tracing::warn!(object = remote.name, err = why, "Aggregated API server cannot be reached");
                return unavailable();
            }
        };
        let client = match self.connections.client(&endpoint) {
            Ok(client) => client,
            Err(error) => return Ok(failed(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string())),
        };
        let end = tokio::time::Instant::now() + server.request_timeout();
        let response = self.exchange(remote, (&client, &endpoint), user, request).await?;
        if info.is_long_running() || response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(response);
        }
        Ok(response.map(|body| forwarding::complete_by(end, body)))
    }

    async fn exchange(
        &self,
        remote: &Remote,
        (client, endpoint): (&Client, &Endpoint),
        user: &Identity,
        request: Request,
    ) -> Result<Response, Status> {
        let (mut parts, body) = request.into_parts();
        let address = parts.extensions.get::<Peer>().map(|peer| peer.address.ip().to_string());
        let headers = outgoing::headers(&parts.headers, user, address.as_deref())?;
        let joining = match (headers.contains_key(http::header::UPGRADE), parts.extensions.remove::<OnUpgrade>()) {
            (false, _) => None,
            (true, Some(caller)) => Some((caller, self.joins.take(&user.user)?)),
            (true, None) => return Err(Status::bad_request("this connection cannot be upgraded")),
        };
        let mut outgoing = http::Request::builder().method(parts.method).uri(outgoing::target(&parts.uri)?).body(body);
        if let Ok(outgoing) = &mut outgoing {
            *outgoing.headers_mut() = headers;
        }
        // Extensions of the request (the user, accepted forms) do not concern the other server.
        let outgoing =
            outgoing.map_err(|error| Status::bad_request(format!("cannot pass on {}: {error}", parts.uri)))?;
        let mut response = match client.send(outgoing).await {
            Ok(response) => response,
            Err(error) => {
                let why = format!("error trying to reach service: {}", error.in_go(&endpoint.server));
                tracing::debug!(object = remote.name, err = %error, "Aggregated API server did not answer");
                return Ok(failed(StatusCode::SERVICE_UNAVAILABLE, &why));
            }
        };
        let headers = forwarding::answer_headers(response.status(), response.headers());
        *response.headers_mut() = headers;
        apiserver::limits::budget::passed_on(&mut response);
        if response.status().is_redirection() && response.headers().contains_key(LOCATION) {
            let why = "the backend attempted to redirect this request, which is not permitted";
            return Ok(failed(StatusCode::BAD_GATEWAY, why));
        }
        match (response.status(), joining) {
            (StatusCode::SWITCHING_PROTOCOLS, Some((caller, permit))) => {
                forwarding::join(&remote.name, caller, &mut response, permit);
            }
            (StatusCode::SWITCHING_PROTOCOLS, None) => {
                return Ok(failed(
                    StatusCode::BAD_GATEWAY,
                    "the backend switched protocols, although the request has no Upgrade header",
                ));
            }
            _ => {}
        }
        Ok(response)
    }

    /// The endpoint of another server. `chance` selects one of several addresses.
    ///
    /// # Errors
    /// Why there is no endpoint.
    pub(crate) fn endpoint(&self, server: &Shared, remote: &Remote, chance: u64) -> Result<Endpoint, String> {
        let found = self.found(server, remote, self.routing == Routing::Endpoints).map_err(|it| it.message)?;
        let service = &remote.service;
        let (host, port) = resolve::address(&found, &service.name, service.port(), self.routing, chance)?;
        Ok(Endpoint {
            server: resolve::url(&host, port),
            ca_bundle: remote.ca_bundle.clone(),
            identity: (self.certificate)(),
            insecure: remote.insecure,
            server_name: Some(service.dns_name()),
            balanced: true,
            // The address is data of the control plane.
            guarded: true,
            ..Endpoint::default()
        })
    }

    /// The service of a remote group version, and its endpoints if they are needed.
    ///
    /// # Errors
    /// An object that cannot be read: whether it exists is unknown.
    pub(crate) fn found(&self, server: &Shared, remote: &Remote, with_endpoints: bool) -> Result<Found, Status> {
        let reference = &remote.service;
        let key = ObjectKey::namespaced(reference.namespace.as_str(), reference.name.as_str());
        let one = |place: &str| -> Result<Option<Value>, Status> {
            let object = server.cache.resource(place).get(&key)?;
            object.map(|object| object.to_value()).transpose().map_err(Status::internal)
        };
        let service = one("core/services")?;
        if !with_endpoints {
            return Ok(Found { service, ..Found::default() });
        }
        let slices = server.cache.resource("discovery.k8s.io/endpointslices");
        let of_service =
            |object: &apimachinery::Object| object.labels().get("kubernetes.io/service-name") == Some(&*reference.name);
        let (slices, ..) = slices.list(Some(&reference.namespace), None, 0, of_service)?;
        let slices = slices.iter().map(|slice| slice.to_value()).collect::<Result<_, _>>().map_err(Status::internal)?;
        Ok(Found { service, endpoints: one("core/endpoints")?, slices })
    }
}
