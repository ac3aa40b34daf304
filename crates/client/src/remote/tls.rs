//! TLS of a connection: which servers are trusted, and the certificate that the client presents.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls_platform_verifier::BuilderVerifierExt as _;
use transport::BoxError;

use super::credentials::Credentials;
use super::verify::Verifier;
use crate::config::{Config, Roots, certificates};
use crate::{Error, Result};

/// The sessions to resume of one server. The default reserves memory for 32 servers, 15 KB for each client.
const SESSIONS: usize = 8;

/// The TLS configuration of connections to the server.
pub(super) fn client(config: &Config, credentials: &Credentials) -> Result<ClientConfig> {
    let bad = |error: &dyn std::fmt::Display| Error::Config(error.to_string());
    let builder = ClientConfig::builder_with_provider(provider());
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| bad(&error))?;
    let builder = match &config.roots {
        // The machine's authorities are read only if a server has to be verified.
        Roots::Platform if !config.uses_tls() => builder.with_root_certificates(RootCertStore::empty()),
        Roots::Platform => builder.with_platform_verifier().map_err(|error| bad(&error))?,
        Roots::Bundle(certificates) => {
            let verifier = Verifier::of(certificates).map_err(|error| bad(&error))?;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        }
        Roots::File(path) => {
            let verifier = Verifier::of_file(path.clone()).map_err(|error| bad(&error))?;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        }
        Roots::Unverified => builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer)),
    };
    let mut tls = match (&config.identity, credentials.resolver()) {
        (Some((certificate, key)), _) => {
            let (chain, key) = parsed(certificate, key).map_err(|error| bad(&error))?;
            let tls = builder.with_client_auth_cert(chain, key);
            tls.map_err(|error| bad(&format_args!("client certificate: {error}")))?
        }
        (None, Some(resolver)) => builder.with_client_cert_resolver(resolver),
        (None, None) => builder.with_no_client_auth(),
    };
    tls.resumption = Resumption::in_memory_sessions(SESSIONS);
    Ok(tls)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// A certificate and its key, from PEM.
pub(super) fn certified_key(certificate: &[u8], key: &[u8]) -> std::result::Result<CertifiedKey, BoxError> {
    let (chain, key) = parsed(certificate, key)?;
    CertifiedKey::from_der(chain, key, &provider()).map_err(|error| format!("client certificate: {error}").into())
}

/// Whether the key belongs to the certificate, both in PEM.
///
/// # Errors
/// What is wrong with either, in the words of Go's `X509KeyPair`.
pub fn check_key_pair(certificate: &[u8], key: &[u8]) -> std::result::Result<(), String> {
    let is_pem = |text: &[u8]| text.windows(10).any(|window| window == b"-----BEGIN");
    if !is_pem(certificate) {
        return Err("failed to find any PEM data in certificate input".to_owned());
    }
    if !is_pem(key) {
        return Err("failed to find any PEM data in key input".to_owned());
    }
    let (chain, key) = parsed(certificate, key)?;
    match CertifiedKey::from_der(chain, key, &provider()) {
        Ok(_) => Ok(()),
        Err(rustls::Error::InconsistentKeys(_)) => Err("private key does not match public key".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

type Parsed = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn parsed(certificate: &[u8], key: &[u8]) -> std::result::Result<Parsed, String> {
    let chain = certificates(certificate).map_err(|error| format!("client certificate: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("client key: {error}"))?;
    Ok((chain, key))
}

/// `insecure-skip-tls-verify`: accepts any certificate, also one that cannot be parsed.
#[derive(Debug)]
struct AnyServer;

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use rustls::ServerConfig;
    use rustls::server::WebPkiClientVerifier;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use crate::Client;

    /// An authority, and the certificates of a server and of a client that it issued, all in PEM.
    struct Pki {
        authority: String,
        server: (String, String),
        client: (String, String),
    }

    impl Pki {
        fn new() -> Self {
            let mut params = CertificateParams::new([]).expect("no names");
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let key = KeyPair::generate().expect("a key");
            let authority = params.self_signed(&key).expect("a certificate").pem();
            let issuer = Issuer::new(params, key);
            let issue = |name: &str| {
                let key = KeyPair::generate().expect("a key");
                let params = CertificateParams::new([name.to_owned()]).expect("a name");
                (params.signed_by(&key, &issuer).expect("a certificate").pem(), key.serialize_pem())
            };
            Self { authority, server: issue("member.example"), client: issue("client.example") }
        }

        /// A server that answers with the number of certificates that the client presented.
        async fn serve(&self) -> String {
            let (chain, key) = super::parsed(self.server.0.as_bytes(), self.server.1.as_bytes()).expect("a pair");
            let mut roots = rustls::RootCertStore::empty();
            for certificate in crate::config::certificates(self.authority.as_bytes()).expect("PEM") {
                roots.add(certificate).expect("an authority");
            }
            let verifier = WebPkiClientVerifier::builder(roots.into()).allow_unauthenticated().build();
            let config = ServerConfig::builder().with_client_cert_verifier(verifier.expect("a verifier"));
            let acceptor = TlsAcceptor::from(std::sync::Arc::new(config.with_single_cert(chain, key).expect("a pair")));
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
            let address = format!("https://{}", listener.local_addr().expect("an address"));
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    // A client that rejects the server ends the handshake.
                    let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        head.push(stream.read_u8().await.expect("a head"));
                    }
                    let presented = stream.get_ref().1.peer_certificates().map_or(0, <[_]>::len);
                    let answer =
                        format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\nconnection: close\r\n\r\n{presented}");
                    stream.write_all(answer.as_bytes()).await.expect("written");
                    let _ = stream.shutdown().await;
                }
            });
            address
        }
    }

    /// The response to a client with this cluster and user of a kubeconfig.
    async fn answer(server: &str, cluster: &str, user: &str) -> String {
        let kubeconfig = format!(
            "current-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n\
             clusters: [{{name: k, cluster: {{server: '{server}', {cluster}}}}}]\nusers: [{{name: u, user: {user}}}]\n"
        );
        let client = match Client::from_kubeconfig_text(&kubeconfig, None).await {
            Ok(client) => client,
            Err(error) => return error.to_string(),
        };
        match client.request(http::Method::GET, "/version", None).await {
            Ok(body) => String::from_utf8(body.to_vec()).expect("text"),
            Err(error) => error.to_string(),
        }
    }

    #[tokio::test]
    async fn certificates_of_users_are_presented() {
        let (pki, folder) = (Pki::new(), tempfile::tempdir().expect("a folder"));
        let server = pki.serve().await;
        let data = |pem: &str| BASE64_STANDARD.encode(pem);
        let trusted = format!("certificate-authority-data: {}, tls-server-name: member.example", data(&pki.authority));
        let (certificate, key) = (folder.path().join("crt"), folder.path().join("key"));
        std::fs::write(&certificate, &pki.client.0).expect("written");
        std::fs::write(&key, &pki.client.1).expect("written");
        let files = format!("{{client-certificate: {}, client-key: {}}}", certificate.display(), key.display());
        let (first, second) = (data(&pki.client.0), data(&pki.client.1));
        let inline = format!("{{client-certificate-data: {first}, client-key-data: {second}}}");
        let credential = serde_json::json!({"apiVersion": "client.authentication.k8s.io/v1", "status":
            {"clientCertificateData": pki.client.0, "clientKeyData": pki.client.1}});
        let printed = folder.path().join("credential");
        std::fs::write(&printed, credential.to_string()).expect("written");
        let exec = format!(
            "{{exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: cat, args: ['{}']}}}}",
            printed.display()
        );
        for (user, presented) in [("{}", "0"), (&files, "1"), (&inline, "1"), (&exec, "1")] {
            assert_eq!(answer(&server, &trusted, user).await, presented, "{user}");
            assert_eq!(answer(&server, "insecure-skip-tls-verify: true", user).await, presented, "{user}");
        }
        let mismatched = format!("{{client-certificate-data: {first}, client-key-data: {}}}", data(&pki.server.1));
        let error = answer(&server, &trusted, &mismatched).await;
        assert!(error.contains("client certificate: "), "{error}");
    }

    #[tokio::test]
    async fn servers_are_verified() {
        let (pki, other) = (Pki::new(), Pki::new());
        let server = pki.serve().await;
        let trusting = |pem: &str| format!("certificate-authority-data: {}", BASE64_STANDARD.encode(pem));
        for (cluster, expected) in [
            (format!("{}, tls-server-name: member.example", trusting(&pki.authority)), "0"),
            (trusting(&pki.authority), "not valid for"),
            (format!("{}, tls-server-name: member.example", trusting(&other.authority)), "invalid peer certificate"),
            (format!("{}, tls-server-name: 'a b'", trusting(&pki.authority)), "invalid dns name"),
        ] {
            let answer = answer(&server, &cluster, "{}").await;
            assert!(answer.contains(expected), "{cluster}: {answer}");
        }
    }
}
