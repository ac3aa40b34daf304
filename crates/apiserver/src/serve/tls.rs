//! The TLS side: our certificate, and a verifier that takes any client certificate whose key the peer proves to hold.

use std::sync::Arc;

use parking_lot::RwLock;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{CipherSuite, DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use rustls_pki_types::pem::PemObject;

/// Why a serving certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants")]
pub enum TlsError {
    #[error("cannot read the server certificate")]
    Certificate(#[source] rustls_pki_types::pem::Error),
    #[error("cannot read the server key")]
    Key(#[source] rustls_pki_types::pem::Error),
    #[error("the server certificate and its key do not make a server")]
    Config(#[source] rustls::Error),
}

impl TlsError {
    /// Whether the key is one of another certificate.
    pub fn is_other_key(&self) -> bool {
        matches!(self, Self::Config(rustls::Error::InconsistentKeys(_)))
    }
}

/// How a server presents itself. The certificate can be replaced while it serves.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    pub(super) config: Arc<ServerConfig>,
    certificate: Certificate,
}

impl TlsConfig {
    /// Certificate chain and private key in PEM. TLS 1.2 and 1.3; HTTP/2 and HTTP/1.1 by ALPN.
    ///
    /// # Errors
    /// When the certificate or the key cannot be read, or they do not belong together.
    pub fn new(certificate: &str, key: &str) -> Result<Self, TlsError> {
        Self::of_versions(certificate, key, rustls::ALL_VERSIONS)
    }

    /// As [`TlsConfig::new`], without TLS 1.2.
    ///
    /// # Errors
    /// As [`TlsConfig::new`].
    pub fn newest(certificate: &str, key: &str) -> Result<Self, TlsError> {
        Self::of_versions(certificate, key, &[&rustls::version::TLS13])
    }

    fn of_versions(
        certificate: &str,
        key: &str,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> Result<Self, TlsError> {
        let provider = Arc::new(provider());
        let verifier = Arc::new(AnyHolder { algorithms: provider.signature_verification_algorithms });
        let certificate = Certificate::new(certificate, key)?;
        let config = ServerConfig::builder_with_provider(provider).with_protocol_versions(versions);
        let config = config.map_err(TlsError::Config)?.with_client_cert_verifier(verifier);
        let mut config = config.with_cert_resolver(Arc::new(certificate.clone()));
        config.ignore_client_order = true;
        Ok(Self::of(config, certificate))
    }

    /// For a server that authenticates no client by a certificate; `only_13` refuses TLS 1.2.
    ///
    /// # Errors
    /// As [`TlsConfig::new`].
    pub fn without_client_certificates(certificate: &str, key: &str, only_13: bool) -> Result<Self, TlsError> {
        let versions: &[&rustls::SupportedProtocolVersion] =
            if only_13 { &[&rustls::version::TLS13] } else { rustls::ALL_VERSIONS };
        let certificate = Certificate::new(certificate, key)?;
        let config = ServerConfig::builder_with_provider(Arc::new(provider())).with_protocol_versions(versions);
        let config = config.map_err(TlsError::Config)?.with_no_client_auth();
        Ok(Self::of(config.with_cert_resolver(Arc::new(certificate.clone())), certificate))
    }

    fn of(mut config: ServerConfig, certificate: Certificate) -> Self {
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Self { config: Arc::new(config), certificate }
    }

    /// The certificate it shows, to be replaced.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }
}

/// AES-128-GCM before AES-256-GCM, regardless of the client's preference, as Go's servers and so kube-apiserver have
/// it: it is as safe for the life of a connection, and a third cheaper for large lists.
fn provider() -> CryptoProvider {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.cipher_suites.sort_by_key(|suite| {
        let preferred = [
            CipherSuite::TLS13_AES_128_GCM_SHA256,
            CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
            CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        ];
        !preferred.contains(&suite.suite())
    });
    provider
}

/// The certificate a server shows on the next connection.
#[derive(Clone, Debug)]
pub struct Certificate(Arc<RwLock<Arc<CertifiedKey>>>);

impl Certificate {
    fn new(certificate: &str, key: &str) -> Result<Self, TlsError> {
        Ok(Self(Arc::new(RwLock::new(certified(certificate, key)?))))
    }

    /// # Errors
    /// When the new one is invalid; the old one stays then.
    pub fn replace(&self, certificate: &str, key: &str) -> Result<(), TlsError> {
        *self.0.write() = certified(certificate, key)?;
        Ok(())
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read()))
    }
}

fn certified(certificate: &str, key: &str) -> Result<Arc<CertifiedKey>, TlsError> {
    let (chain, key) = pair(certificate, key)?;
    let key = provider().key_provider.load_private_key(key).map_err(TlsError::Config)?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        // Private keys of opaque kinds cannot be compared with the certificate.
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => Ok(Arc::new(certified)),
        Err(error) => Err(TlsError::Config(error)),
    }
}

/// Reads a certificate chain and its key.
fn pair(certificate: &str, key: &str) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes());
    let chain = chain.collect::<Result<Vec<_>, _>>().map_err(TlsError::Certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(TlsError::Key)?;
    Ok((chain, key))
}

/// Checks that the peer holds the key of the certificate it shows, and nothing else.
#[derive(Debug)]
struct AnyHolder {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for AnyHolder {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        // Trust is decided per request, by the authenticator.
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
