//! Connections over a socket. [`crate::config`] says how a server is reached; [`dial`] has the HTTP stack.

mod credentials;
mod dial;
mod exec;
mod guard;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod presented;
mod sharing;
mod switch;
mod through;
mod tls;
mod verify;

use std::path::Path;
use std::sync::Arc;

use futures::TryFutureExt;
use futures::future::BoxFuture;
use http::HeaderMap;
use tower::ServiceExt;
use transport::{BoxError, Request, Response};

use crate::config::{self, Config, Roots, Source};
use crate::kubeconfig::{Kubeconfig, Places};
use crate::{Client, Error, Result, Transport};

pub use switch::Switch;
pub use through::{Dial, Egress, Stream, authority};
pub use tls::check_key_pair;

pub(crate) type Service = tower::util::BoxCloneSyncService<Request, Response, BoxError>;

/// The address and credentials of a member's API server, from its Cluster and Secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// `https://host:port[/path]`
    pub server: String,
    /// PEM. `None` trusts the machine's authorities.
    pub ca_bundle: Option<Vec<u8>>,
    /// The bearer token.
    pub token: Option<String>,
    /// The certificate and key that the client presents.
    pub identity: Option<Arc<ClientIdentity>>,
    /// Accepts any certificate.
    pub insecure: bool,
    /// The URL of a proxy: http, https or socks5.
    pub proxy_url: Option<String>,
    /// Sent to the proxy in the CONNECT request, never to the member. A value may be several values, separated by
    /// commas.
    pub proxy_headers: Vec<(String, String)>,
    /// The name that the certificate must have, if not the server's host.
    pub server_name: Option<String>,
    /// Connections are distributed over the replicas of the server: requests do not share one, over HTTP/2.
    pub balanced: bool,
    /// The URL is data of the control plane: connections to [`apimachinery::addresses::forbidden`] addresses are
    /// rejected.
    pub guarded: bool,
    /// The cluster is in Pull mode: it is reached through a [`Dial`] only.
    pub pull: bool,
}

/// A client certificate and its key, both in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The certificate, followed by its chain.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl std::fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientIdentity(..)")
    }
}

impl std::fmt::Debug for Endpoint {
    /// Omits the token: endpoints appear in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Endpoint({})", self.server)
    }
}

impl Client {
    /// Connects by a kubeconfig file; without a `context`, by its current one. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Config`] naming the file.
    pub fn from_kubeconfig<'a>(path: &'a Path, context: Option<&'a str>) -> BoxFuture<'a, Result<Self>> {
        Box::pin(async move { Ok(Places::file(path).connect(context).await?.client) })
    }

    /// Connects as upstream's `--kubeconfig` and `--master` do: by the kubeconfig with the given address instead of its
    /// own; without a kubeconfig by the address only; without both by the pod's service account. Must be called inside
    /// a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Config`] naming the file or the address.
    pub fn from_flags<'a>(places: &'a Places, server: Option<&'a str>) -> BoxFuture<'a, Result<Self>> {
        Box::pin(async move { Self::from_config(&crate::kubeconfig::of_flags(places, server)?) })
    }

    /// Connects by the text of a kubeconfig.
    ///
    /// # Errors
    /// [`Error::Config`].
    pub fn from_kubeconfig_text<'a>(text: &'a str, context: Option<&'a str>) -> BoxFuture<'a, Result<Self>> {
        Box::pin(async move { Self::from_config(&Kubeconfig::of_text(text)?.config(context)?) })
    }

    pub(crate) fn from_config(config: &Config) -> Result<Self> {
        let host = host_of(config);
        let service = dial::service(config, HeaderMap::new(), guard::Guard::OFF)?;
        Ok(Self::over(Transport::Remote(service), &host).at(config))
    }

    /// Connects to a member's API server.
    ///
    /// # Errors
    /// [`Error::Config`] naming the part that is unusable.
    pub fn from_endpoint(endpoint: &Endpoint) -> Result<Self> {
        Self::connecting(endpoint, None)
    }

    /// As [`Client::from_endpoint`]; connections are opened through `way`, or directly while `way` has no connection.
    ///
    /// # Errors
    /// As [`Client::from_endpoint`].
    pub fn from_endpoint_over(endpoint: &Endpoint, way: Arc<dyn Dial>) -> Result<Self> {
        Self::connecting(endpoint, Some(way))
    }

    fn connecting(endpoint: &Endpoint, way: Option<Arc<dyn Dial>>) -> Result<Self> {
        let config = config_of(endpoint)?;
        let guard = guard::Guard { is_on: endpoint.guarded };
        guard.check_host(&config.server)?;
        config.proxy.iter().try_for_each(|proxy| guard.check_host(proxy))?;
        let headers = proxy_headers(&endpoint.proxy_headers)?;
        let service = match way {
            None => dial::service(&config, headers, guard)?,
            Some(way) => dial::service_over(&config, headers, guard, way)?,
        };
        Ok(Self::over(Transport::Remote(service), &host_of(&config)).at(&config))
    }

    fn at(self, config: &Config) -> Self {
        let url = crate::observer::url_of(&config.server);
        self.changed(|inner| inner.url = url)
    }
}

/// The host and port of the server.
fn host_of(config: &Config) -> String {
    config.server.authority().map(ToString::to_string).unwrap_or_default()
}

fn config_of(endpoint: &Endpoint) -> Result<Config> {
    let server = endpoint.server.parse().map_err(|e| Error::Config(format!("endpoint {:?}: {e}", endpoint.server)))?;
    let mut config = Config::new(server);
    config.server_name = endpoint.server_name.clone();
    config.balanced = endpoint.balanced;
    // A bundle must be valid even where it is not used.
    let bundle = endpoint.ca_bundle.as_deref().map(config::bundle).transpose()?;
    config.roots = if endpoint.insecure { Roots::Unverified } else { bundle.unwrap_or_default() };
    config.credentials = endpoint.token.clone().map_or(Source::None, Source::Bearer);
    let identity = endpoint.identity.as_ref();
    config.identity = identity.map(|it| (it.certificate.clone().into_bytes(), it.key.clone().into_bytes()));
    if let Some(proxy) = &endpoint.proxy_url {
        config.proxy = Some(proxy.parse().map_err(|e| Error::Config(format!("proxy URL {proxy:?}: {e}")))?);
    }
    Ok(config)
}

fn proxy_headers(configured: &[(String, String)]) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, values) in configured {
        let bad = |e: &dyn std::fmt::Display| Error::Config(format!("proxy header {name:?}: {e}"));
        let name: http::HeaderName = name.parse().map_err(|e: http::header::InvalidHeaderName| bad(&e))?;
        for value in values.split(',') {
            let value = value.parse().map_err(|e: http::header::InvalidHeaderValue| bad(&e))?;
            headers.append(name.clone(), value);
        }
    }
    Ok(headers)
}

/// Not an `async fn`: see [`Client::send`].
pub(crate) fn send(service: &Service, host: &Arc<str>, request: Request) -> BoxFuture<'static, Result<Response>> {
    let (attempt, host) = (crate::codec::attempt(&request), host.clone());
    Box::pin(service.clone().oneshot(request).map_err(move |e| Error::transport(&host, &attempt, e)))
}
