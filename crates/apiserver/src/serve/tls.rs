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

/// The ciphers of TLS 1.2 in Go's crypto/tls that this server does not offer: without forward secrecy, or with CBC or
/// RC4.
const UNSAFE_SUITES: &[&str] = &[
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

/// A cipher suite of `--tls-cipher-suites`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suite(CipherSuite);

impl std::str::FromStr for Suite {
    type Err = String;

    /// By the name that Go uses.
    fn from_str(name: &str) -> Result<Self, String> {
        if UNSAFE_SUITES.contains(&name) {
            return Err(
                "it is not offered, because it has no forward secrecy or no authenticated encryption".to_owned()
            );
        }
        // Go's names of TLS 1.3 suites lack the version, and those with ChaCha20 may lack the hash.
        let is = |suite: &CipherSuite| {
            let known = suite.as_str().map(|known| known.replacen("TLS13_", "TLS_", 1)).unwrap_or_default();
            known == name
                || known.strip_suffix("_SHA256").is_some_and(|short| short.ends_with("POLY1305") && short == name)
        };
        let mut offered = rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES.iter().map(|suite| suite.suite());
        offered.find(is).map(Self).ok_or_else(|| "it is unknown".to_owned())
    }
}

/// The protocol that a server offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protocol {
    /// Refuse TLS 1.2.
    pub only_13: bool,
    /// The suites of TLS 1.2; empty are all safe ones. Those of TLS 1.3 cannot be chosen.
    pub suites: Vec<Suite>,
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
        Self::of_protocol(certificate, key, &Protocol::default())
    }

    /// As [`TlsConfig::new`], with other versions and cipher suites.
    ///
    /// # Errors
    /// As [`TlsConfig::new`].
    pub fn of_protocol(certificate: &str, key: &str, protocol: &Protocol) -> Result<Self, TlsError> {
        let versions: &[&rustls::SupportedProtocolVersion] =
            if protocol.only_13 { &[&rustls::version::TLS13] } else { rustls::ALL_VERSIONS };
        let mut provider = provider();
        if !protocol.suites.is_empty() {
            let is_chosen = |suite: CipherSuite| protocol.suites.contains(&Suite(suite));
            provider.cipher_suites.retain(|suite| suite.tls13().is_some() || is_chosen(suite.suite()));
        }
        let provider = Arc::new(provider);
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

/// The certificates a server shows on the next connection: one, or that of the name which the client requests.
#[derive(Clone, Debug)]
pub struct Certificate(Arc<RwLock<Shown>>);

#[derive(Debug)]
struct Shown {
    usual: Arc<CertifiedKey>,
    named: Vec<Named>,
}

/// A certificate for certain names (`--tls-sni-cert-key`).
#[derive(Clone, Debug)]
pub struct Named {
    /// In lower case; `*.` before a name stands for one label.
    names: Vec<String>,
    /// The names were chosen; others are those of the certificate.
    is_explicit: bool,
    certified: Arc<CertifiedKey>,
}

impl Named {
    /// A certificate with its key for names. A certificate with exactly this name is presented, otherwise one with
    /// `*.`; explicit names (`is_explicit`) take precedence over those of a certificate.
    ///
    /// # Errors
    /// As [`TlsConfig::new`].
    pub fn new(names: &[String], is_explicit: bool, certificate: &str, key: &str) -> Result<Self, TlsError> {
        let names = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Ok(Self { names, is_explicit, certified: certified(certificate, key)? })
    }

    /// How well the names fit: by this very name or by a pattern, chosen or not.
    fn fit(&self, requested: &str) -> Option<(bool, bool)> {
        let fit = |name: &String| match (name.strip_prefix("*."), requested.split_once('.')) {
            (Some(domain), Some((_, rest))) if domain == rest => Some(false),
            _ => (name == requested).then_some(true),
        };
        self.names.iter().filter_map(fit).max().map(|is_exact| (is_exact, self.is_explicit))
    }
}

impl Certificate {
    fn new(certificate: &str, key: &str) -> Result<Self, TlsError> {
        Ok(Self(Arc::new(RwLock::new(Shown { usual: certified(certificate, key)?, named: Vec::new() }))))
    }

    /// The certificates for certain names, instead of the present ones.
    pub fn replace_named(&self, named: Vec<Named>) {
        self.0.write().named = named;
    }

    /// # Errors
    /// When the new one is invalid; the old one stays then.
    pub fn replace(&self, certificate: &str, key: &str) -> Result<(), TlsError> {
        let usual = certified(certificate, key)?;
        self.0.write().usual = usual;
        Ok(())
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let shown = self.0.read();
        let named = hello.server_name().filter(|_| !shown.named.is_empty()).and_then(|requested| {
            let requested = requested.to_ascii_lowercase();
            // Of several equally good ones the first is presented.
            shown
                .named
                .iter()
                .rev()
                .filter_map(|named| Some((named.fit(&requested)?, named)))
                .max_by_key(|(fit, _)| *fit)
        });
        Some(Arc::clone(named.map_or(&shown.usual, |(_, named)| &named.certified)))
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

/// Checks only that the peer holds the key of the certificate it presents.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cipher_suites_have_go_names() {
        for (name, expected) in [
            ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", Ok(CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256)),
            ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", Ok(CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384)),
            ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", Ok(CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256)),
            (
                "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
                Ok(CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
            ),
            ("TLS_AES_128_GCM_SHA256", Ok(CipherSuite::TLS13_AES_128_GCM_SHA256)),
            ("TLS_RSA_WITH_AES_128_GCM_SHA256", Err("it is not offered, because")),
            ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", Err("it is not offered, because")),
            ("tls_aes_128_gcm_sha256", Err("it is unknown")),
            ("", Err("it is unknown")),
        ] {
            match (name.parse::<Suite>(), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.0, expected, "{name}"),
                (Err(found), Err(expected)) => assert!(found.starts_with(expected), "{name}: {found}"),
                (found, expected) => panic!("{name}: {found:?}, not {expected:?}"),
            }
        }
    }

    /// The certificate and the suite of a connection whose client requests a name.
    fn handshake(tls: &TlsConfig, roots: &str, name: &str, only_12: bool) -> (Vec<u8>, CipherSuite) {
        let mut trusted = rustls::RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(roots.as_bytes()) {
            trusted.add(root.expect("a certificate")).expect("an authority");
        }
        let versions: &[&rustls::SupportedProtocolVersion] =
            if only_12 { &[&rustls::version::TLS12] } else { rustls::ALL_VERSIONS };
        let config =
            rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
        let config = config.with_protocol_versions(versions).expect("versions");
        let config = config.with_root_certificates(trusted).with_no_client_auth();
        let name = name.to_owned().try_into().expect("a name");
        let mut client = rustls::ClientConnection::new(Arc::new(config), name).expect("a client");
        let mut server = rustls::ServerConnection::new(Arc::clone(&tls.config)).expect("a server");
        while client.is_handshaking() || server.is_handshaking() {
            let mut sent = Vec::new();
            client.write_tls(&mut sent).expect("written");
            server.read_tls(&mut sent.as_slice()).expect("read");
            server.process_new_packets().expect("valid");
            let mut sent = Vec::new();
            server.write_tls(&mut sent).expect("written");
            client.read_tls(&mut sent.as_slice()).expect("read");
            client.process_new_packets().expect("valid");
        }
        let shown = client.peer_certificates().expect("a certificate")[0].to_vec();
        (shown, client.negotiated_cipher_suite().expect("a suite").suite())
    }

    #[test]
    fn connections_get_the_certificate_of_their_name_and_the_chosen_suites() {
        let world = world::World::system();
        let (authority, _) = pki::Authority::generate("ca", &world).expect("an authority");
        let issue = |name: &str| {
            let names = pki::ServerNames { common_name: "s".into(), dns: vec![name.to_owned()], addresses: Vec::new() };
            authority.issue_server(&names, &world).expect("a pair")
        };
        let (usual, other, wild) = (issue("a.example"), issue("b.example"), issue("*.b.example"));
        let suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384";
        let protocol = Protocol { only_13: false, suites: vec![suite.parse().expect("a suite")] };
        let tls = TlsConfig::of_protocol(&usual.certificate, &usual.key, &protocol).expect("a server");
        let named = |pair: &pki::KeyPairPem, name: &str| {
            Named::new(&[name.to_owned()], false, &pair.certificate, &pair.key).expect("a certificate")
        };
        tls.certificate().replace_named(vec![named(&wild, "*.b.example"), named(&other, "b.example")]);
        for (name, expected) in [("a.example", &usual), ("b.example", &other), ("x.b.example", &wild)] {
            let (shown, _) = handshake(&tls, authority.certificate(), name, false);
            assert_eq!(pki::holder::der_to_pem("CERTIFICATE", &shown), expected.certificate, "{name}");
        }
        let (_, chosen) = handshake(&tls, authority.certificate(), "a.example", true);
        assert_eq!(chosen, CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384);
        let all = TlsConfig::new(&usual.certificate, &usual.key).expect("a server");
        let (_, chosen) = handshake(&all, authority.certificate(), "a.example", true);
        assert_eq!(chosen, CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256);
    }

    #[test]
    fn certificates_are_for_names() {
        let world = world::World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 7);
        let (authority, _) = pki::Authority::generate("ca", &world).expect("an authority");
        let pair = authority.issue_client("a", &[], &world).expect("a pair");
        let names = ["API.example.com", "*.apps.example.com"].map(str::to_owned);
        let named = Named::new(&names, true, &pair.certificate, &pair.key).expect("a certificate");
        for (requested, expected) in [
            ("api.example.com", Some((true, true))),
            ("www.apps.example.com", Some((false, true))),
            ("apps.example.com", None),
            ("a.b.apps.example.com", None),
            ("x.api.example.com", None),
            ("example.com", None),
        ] {
            assert_eq!(named.fit(requested), expected, "{requested}");
        }
    }
}
