//! Connections over a socket. `kube` reads kubeconfigs, credentials and TLS settings; [`dial`] has the HTTP stack.

mod dial;
mod guard;
#[cfg(test)]
mod hostile;
mod switch;
mod through;
mod verify;

use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::TryFutureExt;
use futures::future::BoxFuture;
use http::HeaderMap;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tower::ServiceExt;
use transport::{BoxError, Request, Response};

use crate::kubeconfig::Places;
use crate::{Client, Error, Result, Transport};

pub use switch::Switch;
pub use through::{Dial, Egress, Stream, authority};

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
        Box::pin(async move { Self::from_config(crate::kubeconfig::of_flags(places, server).await?) })
    }

    /// Connects by the text of a kubeconfig.
    ///
    /// # Errors
    /// [`Error::Config`].
    pub fn from_kubeconfig_text<'a>(text: &'a str, context: Option<&'a str>) -> BoxFuture<'a, Result<Self>> {
        Box::pin(async move {
            let bad = |why: &dyn std::fmt::Display| Error::Config(format!("kubeconfig: {why}"));
            let kubeconfig = Kubeconfig::from_yaml(text).map_err(|e| bad(&e))?;
            let options = KubeConfigOptions { context: context.map(Into::into), ..KubeConfigOptions::default() };
            let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|e| bad(&e))?;
            Self::from_config(config)
        })
    }

    /// Connects by a configuration of `kube`.
    ///
    /// # Errors
    /// [`Error::Config`] when certificates or credentials are unusable.
    pub fn from_config(config: kube::Config) -> Result<Self> {
        let host = host_of(&config);
        Ok(Self::over(Transport::Remote(dial::service(&config, HeaderMap::new(), guard::Guard::OFF)?), &host))
    }

    /// Connects to a member's API server.
    ///
    /// # Errors
    /// [`Error::Config`] naming the part that is unusable.
    pub fn from_endpoint(endpoint: &Endpoint) -> Result<Self> {
        Self::connecting(endpoint, None)
    }

    /// As [`Client::from_endpoint`]; connections are opened through `way`, or directly while `way` has none.
    ///
    /// # Errors
    /// As [`Client::from_endpoint`].
    pub fn from_endpoint_over(endpoint: &Endpoint, way: Arc<dyn Dial>) -> Result<Self> {
        Self::connecting(endpoint, Some(way))
    }

    fn connecting(endpoint: &Endpoint, way: Option<Arc<dyn Dial>>) -> Result<Self> {
        let config = config_of(endpoint)?;
        let guard = guard::Guard { is_on: endpoint.guarded };
        guard.check_host(&config.cluster_url)?;
        config.proxy_url.iter().try_for_each(|proxy| guard.check_host(proxy))?;
        let headers = proxy_headers(&endpoint.proxy_headers)?;
        let service = match way {
            None => dial::service(&config, headers, guard)?,
            Some(way) => dial::service_over(&config, headers, guard, way)?,
        };
        Ok(Self::over(Transport::Remote(service), &host_of(&config)))
    }
}

/// The host and port of the server.
fn host_of(config: &kube::Config) -> String {
    config.cluster_url.authority().map(ToString::to_string).unwrap_or_default()
}

fn config_of(endpoint: &Endpoint) -> Result<kube::Config> {
    let server = endpoint.server.parse().map_err(|e| Error::Config(format!("endpoint {:?}: {e}", endpoint.server)))?;
    let mut config = kube::Config::new(server);
    config.accept_invalid_certs = endpoint.insecure;
    config.tls_server_name = endpoint.server_name.clone();
    if let Some(bundle) = &endpoint.ca_bundle {
        config.root_cert = Some(certificates(bundle)?);
    }
    config.auth_info.token = endpoint.token.clone().map(Into::into);
    if let Some(identity) = &endpoint.identity {
        config.auth_info.client_certificate_data = Some(BASE64_STANDARD.encode(&identity.certificate));
        config.auth_info.client_key_data = Some(BASE64_STANDARD.encode(&identity.key).into());
    }
    if let Some(proxy) = &endpoint.proxy_url {
        config.proxy_url = Some(proxy.parse().map_err(|e| Error::Config(format!("proxy URL {proxy:?}: {e}")))?);
    }
    Ok(config)
}

fn proxy_headers(given: &[(String, String)]) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, values) in given {
        let bad = |e: &dyn std::fmt::Display| Error::Config(format!("proxy header {name:?}: {e}"));
        let name: http::HeaderName = name.parse().map_err(|e: http::header::InvalidHeaderName| bad(&e))?;
        for value in values.split(',') {
            let value = value.parse().map_err(|e: http::header::InvalidHeaderValue| bad(&e))?;
            headers.append(name.clone(), value);
        }
    }
    Ok(headers)
}

fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>> {
    let parsed: std::result::Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(pem).map(|cert| cert.map(|cert| cert.to_vec())).collect();
    match parsed {
        Ok(certificates) if certificates.is_empty() => Err(Error::Config("the CA bundle holds no certificate".into())),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(Error::Config(format!("the CA bundle is not PEM: {error:?}"))),
    }
}

/// Not an `async fn`: see [`Client::send`].
pub(crate) fn send(service: &Service, host: &Arc<str>, request: Request) -> BoxFuture<'static, Result<Response>> {
    let (attempt, host) = (crate::codec::attempt(&request), host.clone());
    Box::pin(service.clone().oneshot(request).map_err(move |e| Error::transport(&host, &attempt, e)))
}
