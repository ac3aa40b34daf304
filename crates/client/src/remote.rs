//! Connections over a socket, through `kube`'s HTTP stack: TLS, exec authentication, proxies, token files.

use std::path::Path;

use http_body_util::BodyExt;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use transport::{Request, Response};

use crate::{Client, Error, MAX_LIST_BYTES, Result, Transport};

/// What a Cluster object and its secret say about a member's API server.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// `https://host:port[/path]`
    pub server: String,
    /// PEM. `None` trusts the machine's authorities.
    pub ca_bundle: Option<Vec<u8>>,
    pub token: Option<String>,
    /// Accept any certificate.
    pub insecure: bool,
    pub proxy_url: Option<String>,
    /// Sent with every request.
    pub headers: Vec<(String, String)>,
}

impl std::fmt::Debug for Endpoint {
    /// Without the token: endpoints end up in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Endpoint({})", self.server)
    }
}

impl Client {
    /// From a kubeconfig file; `context` `None` takes its current one. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Config`] naming the file.
    pub async fn from_kubeconfig(path: &Path, context: Option<&str>) -> Result<Self> {
        let bad = |why: &dyn std::fmt::Display| Error::Config(format!("kubeconfig {}: {why}", path.display()));
        let kubeconfig = Kubeconfig::read_from(path).map_err(|e| bad(&e))?;
        let options = KubeConfigOptions { context: context.map(Into::into), ..KubeConfigOptions::default() };
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|e| bad(&e))?;
        Self::from_config(config).map_err(|e| bad(&e))
    }

    /// From the text of a kubeconfig.
    ///
    /// # Errors
    /// [`Error::Config`].
    pub async fn from_kubeconfig_text(text: &str, context: Option<&str>) -> Result<Self> {
        let bad = |why: &dyn std::fmt::Display| Error::Config(format!("kubeconfig: {why}"));
        let kubeconfig = Kubeconfig::from_yaml(text).map_err(|e| bad(&e))?;
        let options = KubeConfigOptions { context: context.map(Into::into), ..KubeConfigOptions::default() };
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|e| bad(&e))?;
        Self::from_config(config)
    }

    /// # Errors
    /// [`Error::Config`] when certificates or credentials cannot be used.
    pub fn from_config(mut config: kube::Config) -> Result<Self> {
        // Whoever asks decides about repeating: queues here back off, and a hidden repeat would not be counted.
        config.default_retry = false;
        let kube = kube::Client::try_from(config).map_err(|e| Error::Config(e.to_string()))?;
        Ok(Self::over(Transport::Remote(kube)))
    }

    /// # Errors
    /// [`Error::Config`] naming the part that cannot be used.
    pub fn from_endpoint(endpoint: &Endpoint) -> Result<Self> {
        Self::from_config(config_of(endpoint)?)
    }
}

fn config_of(endpoint: &Endpoint) -> Result<kube::Config> {
    let server = endpoint.server.parse().map_err(|e| Error::Config(format!("endpoint {:?}: {e}", endpoint.server)))?;
    let mut config = kube::Config::new(server);
    config.accept_invalid_certs = endpoint.insecure;
    if let Some(bundle) = &endpoint.ca_bundle {
        config.root_cert = Some(certificates(bundle)?);
    }
    config.auth_info.token = endpoint.token.clone().map(Into::into);
    if let Some(proxy) = &endpoint.proxy_url {
        config.proxy_url = Some(proxy.parse().map_err(|e| Error::Config(format!("proxy URL {proxy:?}: {e}")))?);
    }
    for (name, value) in &endpoint.headers {
        let bad = |e: &dyn std::fmt::Display| Error::Config(format!("header {name:?}: {e}"));
        let header = name.parse().map_err(|e: http::header::InvalidHeaderName| bad(&e))?;
        config.headers.push((header, value.parse().map_err(|e: http::header::InvalidHeaderValue| bad(&e))?));
    }
    Ok(config)
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

pub(crate) async fn send(kube: &kube::Client, request: Request) -> Result<Response> {
    let attempt = crate::codec::attempt(&request);
    let (parts, body) = request.into_parts();
    let body = crate::read_body(body, MAX_LIST_BYTES).await.map_err(|e| Error::transport(&attempt, e))?;
    let request = http::Request::from_parts(parts, kube::client::Body::from(body));
    let response = kube.send(request).await.map_err(|e| Error::transport(&attempt, Box::new(e)))?;
    Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
}
