//! TLS of estimators, by upstream's flags.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("reading certificates")]
    Certificate(#[source] rustls_pki_types::pem::Error),
    #[error("reading a private key")]
    Key(#[source] rustls_pki_types::pem::Error),
    #[error("setting up TLS")]
    Config(#[source] rustls::Error),
    #[error("setting up the verification of clients")]
    Verifier(#[source] rustls::server::VerifierBuilderError),
}

/// The server's certificate, and the authority of its clients. PEM.
#[derive(Clone, Debug, Default)]
pub struct ServerTls {
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
    /// Clients must have a certificate of this authority; `None` accepts all clients.
    pub client_ca: Option<Vec<u8>>,
}

/// The authority of the server, and the client's certificate. PEM.
#[derive(Clone, Debug, Default)]
pub struct ClientTls {
    pub ca: Option<Vec<u8>>,
    pub certificate: Option<(Vec<u8>, Vec<u8>)>,
    /// Accepts any server certificate.
    pub insecure: bool,
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(TlsError::Certificate)
}

fn roots(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in chain(pem)? {
        roots.add(certificate).map_err(TlsError::Config)?;
    }
    Ok(roots)
}

impl ServerTls {
    /// Supports TLS 1.3 only, as upstream's server.
    ///
    /// # Errors
    /// The certificates are unusable.
    pub fn config(&self) -> Result<ServerConfig, TlsError> {
        let provider = provider();
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(TlsError::Config)?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(ca)?), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(TlsError::Verifier)?)
            }
        };
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(TlsError::Key)?;
        let mut config = builder.with_single_cert(chain(&self.certificate)?, key).map_err(TlsError::Config)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }
}

impl ClientTls {
    pub(crate) fn config(&self) -> Result<ClientConfig, TlsError> {
        let provider = provider();
        let algorithms = provider.signature_verification_algorithms;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Config)?;
        let builder = if self.insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(algorithms)))
        } else {
            let roots = self.ca.as_deref().map_or_else(|| Ok(RootCertStore::empty()), roots)?;
            builder.with_root_certificates(roots)
        };
        let mut config = match &self.certificate {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::from_pem_slice(key).map_err(TlsError::Key)?;
                builder.with_client_auth_cert(chain(certificate)?, key).map_err(TlsError::Config)?
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }
}

/// Accepts any certificate, if the server has its key: `--insecure-skip-estimator-verify`.
#[derive(Debug)]
struct AnyServer(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
