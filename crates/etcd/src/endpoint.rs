//! The members' addresses and the certificates for them.

use std::str::FromStr;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// A member's client URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub(crate) text: Arc<str>,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) tls: bool,
}

/// Why a URL or a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The URL.
    #[error("etcd server {url:?}: {why}; an example is https://10.0.0.1:2379")]
    Url {
        /// The text.
        url: String,
        /// Its fault.
        why: &'static str,
    },
    /// A certificate that is not PEM, or is missing.
    #[error("the certificates for etcd: {0}")]
    Certificate(#[source] rustls_pki_types::pem::Error),
    /// A key that is not PEM, or is missing.
    #[error("the key for etcd: {0}")]
    Key(#[source] rustls_pki_types::pem::Error),
    /// Certificates and key that do not fit.
    #[error("TLS to etcd: {0}")]
    Tls(#[source] rustls::Error),
    /// No server at all.
    #[error("no etcd server is named")]
    NoServer,
}

impl FromStr for Endpoint {
    type Err = SettingsError;

    fn from_str(url: &str) -> Result<Self, SettingsError> {
        let refused = |why| SettingsError::Url { url: url.to_owned(), why };
        let (scheme, rest) = url.trim().split_once("://").ok_or_else(|| refused("it has no scheme"))?;
        let tls = match scheme {
            "https" => true,
            "http" => false,
            "unix" | "unixs" => return Err(refused("sockets of files are not supported")),
            _ => return Err(refused("its scheme is neither https nor http")),
        };
        let authority = rest.trim_end_matches('/');
        if authority.contains(['/', '@', '?']) {
            return Err(refused("it has more than a host and a port"));
        }
        let (host, port) = authority.rsplit_once(':').ok_or_else(|| refused("it has no port"))?;
        let port = port.parse().map_err(|_| refused("its port is not a number up to 65535"))?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).to_owned();
        if host.is_empty() {
            return Err(refused("it has no host"));
        }
        Ok(Self { text: authority.into(), host, port, tls })
    }
}

/// PEM texts: the authority of etcd's certificates, and the client's certificate and key.
#[derive(Clone, Default)]
pub struct Certificates {
    /// `None`: no authority is trusted, so `https` fails.
    pub authority: Option<Vec<u8>>,
    /// The certificate and its key, where etcd requires one.
    pub client: Option<(Vec<u8>, Vec<u8>)>,
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificates").finish_non_exhaustive()
    }
}

/// Reads the certificates again. Errors are for the log; the former certificates stay in use.
#[derive(Clone)]
pub struct Renewal(pub Arc<dyn Fn() -> Result<Certificates, String> + Send + Sync>);

impl std::fmt::Debug for Renewal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Renewal").finish_non_exhaustive()
    }
}

impl Certificates {
    pub(crate) fn config(&self) -> Result<ClientConfig, SettingsError> {
        let mut roots = RootCertStore::empty();
        for certificate in chain(self.authority.as_deref().unwrap_or_default())? {
            roots.add(certificate).map_err(SettingsError::Tls)?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(SettingsError::Tls)?
            .with_root_certificates(roots);
        let mut config = match &self.client {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::from_pem_slice(key).map_err(SettingsError::Key)?;
                builder.with_client_auth_cert(chain(certificate)?, key).map_err(SettingsError::Tls)?
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }
}

fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, SettingsError> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(SettingsError::Certificate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_urls_of_a_host_and_a_port() {
        let rows = [
            ("https://10.0.0.1:2379", Ok(("10.0.0.1", 2379, true))),
            ("http://etcd.local:1/", Ok(("etcd.local", 1, false))),
            ("https://[::1]:2379", Ok(("::1", 2379, true))),
            ("10.0.0.1:2379", Err("it has no scheme")),
            ("tcp://10.0.0.1:2379", Err("its scheme is neither https nor http")),
            ("unix:///run/etcd", Err("sockets of files are not supported")),
            ("https://10.0.0.1", Err("it has no port")),
            ("https://10.0.0.1:x", Err("its port is not a number up to 65535")),
            ("https://a:b@c:1", Err("it has more than a host and a port")),
            ("https://:1", Err("it has no host")),
        ];
        for (url, expected) in rows {
            let found = url.parse::<Endpoint>().map(|it| (it.host, it.port, it.tls));
            match (found, expected) {
                (Ok((host, port, tls)), Ok(expected)) => assert_eq!((host.as_str(), port, tls), expected, "{url}"),
                (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{url}: {error}"),
                (found, _) => panic!("{url}: {found:?}"),
            }
        }
    }
}
