//! Verifies server certificates. A self-signed certificate, as webhooks and small API servers often have, is its own
//! authority: the trusted bundle contains it. Clients in Go accept such a server, even if the certificate is marked as
//! an authority (like those of `openssl req -x509`); rustls rejects an authority as a server's certificate. This
//! verifier adds only that exception.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::time::Instant;
use transport::BoxError;
use x509_parser::time::ASN1Time;

use crate::config::certificates;

#[derive(Debug)]
pub(super) struct Verifier(Source);

#[derive(Debug)]
enum Source {
    Bundle(Arc<Bundle>),
    /// A bundle that is read again after some time: the service account's rotates. The last usable one counts while the
    /// file has none.
    File {
        path: PathBuf,
        current: RwLock<(Arc<Bundle>, Instant)>,
    },
}

/// Trusted certificates: those signed by them, and they themselves.
#[derive(Debug)]
struct Bundle {
    chains: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl Bundle {
    fn new(trusted: Vec<CertificateDer<'static>>) -> Result<Self, BoxError> {
        let mut roots = RootCertStore::empty();
        for certificate in &trusted {
            let added = roots.add(certificate.clone());
            added.map_err(|error| format!("a certificate of the CA bundle is unusable: {error}"))?;
        }
        let chains = WebPkiServerVerifier::builder(Arc::new(roots)).build()?;
        Ok(Self { chains, trusted })
    }

    fn read(file: &Path) -> Result<Self, BoxError> {
        let named = |why: &dyn std::fmt::Display| format!("CA bundle {}: {why}", file.display());
        let pem = std::fs::read(file).map_err(|error| named(&error))?;
        Self::new(certificates(&pem).map_err(|error| named(&error))?)
    }
}

impl Verifier {
    /// The period of the service account's token, which lies beside the bundle.
    const PERIOD: Duration = Duration::from_secs(60);

    /// # Errors
    /// One of the certificates is unusable.
    pub(super) fn of(bundle: &[CertificateDer<'static>]) -> Result<Self, BoxError> {
        Ok(Self(Source::Bundle(Arc::new(Bundle::new(bundle.to_vec())?))))
    }

    /// # Errors
    /// The file cannot be read or has no usable certificate.
    pub(super) fn of_file(path: PathBuf) -> Result<Self, BoxError> {
        let current = RwLock::new((Arc::new(Bundle::read(&path)?), Instant::now()));
        Ok(Self(Source::File { path, current }))
    }

    fn bundle(&self) -> Arc<Bundle> {
        match &self.0 {
            Source::Bundle(bundle) => Arc::clone(bundle),
            Source::File { path, current } => {
                let now = Instant::now();
                let mut current = current.write();
                if now.saturating_duration_since(current.1) >= Self::PERIOD {
                    match Bundle::read(path) {
                        Ok(bundle) => current.0 = Arc::new(bundle),
                        Err(error) => tracing::warn!(%error, "cannot read the CA bundle; the last one is used"),
                    }
                    current.1 = now;
                }
                Arc::clone(&current.0)
            }
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let bundle = self.bundle();
        let verified = bundle.chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        if verified.is_ok() || !bundle.trusted.iter().any(|trusted| trusted == end_entity) {
            // The reason is that it is not trusted, not that it is an authority.
            return verified.map_err(|error| match error {
                Error::InvalidCertificate(CertificateError::Other(_)) if is_own_authority(end_entity) => {
                    CertificateError::UnknownIssuer.into()
                }
                error => error,
            });
        }
        rustls::client::verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        is_current(end_entity, now)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.bundle().chains.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.bundle().chains.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.bundle().chains.supported_verify_schemes()
    }
}

fn is_own_authority(certificate: &CertificateDer<'_>) -> bool {
    let parsed = x509_parser::parse_x509_certificate(certificate);
    parsed.is_ok_and(|(_, it)| it.is_ca() && it.issuer() == it.subject())
}

fn is_current(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let bad = || Error::from(CertificateError::BadEncoding);
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).map_err(|_| bad())?;
    let seconds = |time: ASN1Time| {
        u64::try_from(time.timestamp()).map(|seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    };
    let validity = parsed.validity();
    let not_before = seconds(validity.not_before).map_err(|_| bad())?;
    let not_after = seconds(validity.not_after).map_err(|_| bad())?;
    if now < not_before {
        return Err(CertificateError::NotValidYetContext { time: now, not_before }.into());
    }
    if now > not_after {
        return Err(CertificateError::ExpiredContext { time: now, not_after }.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};

    use super::*;

    fn own_authority(name: &str) -> CertificateDer<'static> {
        let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = date_time_ymd(2026, 1, 1);
        params.not_after = date_time_ymd(2027, 1, 1);
        params.self_signed(&KeyPair::generate().expect("a key")).expect("a certificate").into()
    }

    #[test]
    fn a_certificate_in_the_bundle_is_trusted() {
        let trusted = own_authority("hook.example");
        let verifier = Verifier::of(std::slice::from_ref(&trusted)).expect("a bundle");
        let day = |days: u64| UnixTime::since_unix_epoch(Duration::from_secs(days * 86_400));
        let in_2026 = 20_500;
        for (certificate, name, time, expected) in [
            (&trusted, "hook.example", in_2026, None),
            (&trusted, "other.example", in_2026, Some("not valid for name")),
            (&trusted, "hook.example", 20_000, Some("certificate not valid yet")),
            (&trusted, "hook.example", 21_000, Some("certificate expired")),
            // Another self-signed certificate of the same name is not trusted.
            (&own_authority("hook.example"), "hook.example", in_2026, Some("UnknownIssuer")),
        ] {
            let server = ServerName::try_from(name).expect("a name");
            let answer = verifier.verify_server_cert(certificate, &[], &server, &[], day(time));
            let error = answer.err().map(|error| error.to_string());
            match (expected, &error) {
                (None, None) => {}
                (Some(expected), Some(error)) if error.contains(expected) => {}
                _ => panic!("{name} at {time}: {error:?}"),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_bundle_in_a_file_is_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("ca.crt");
        let (first, second) = (own_authority("hook.example"), own_authority("hook.example"));
        let write = |certificate: &CertificateDer<'_>| {
            let encoded = base64::prelude::BASE64_STANDARD.encode(certificate);
            let pem = format!("-----BEGIN CERTIFICATE-----\n{encoded}\n-----END CERTIFICATE-----\n");
            std::fs::write(&file, pem).expect("written");
        };
        assert!(Verifier::of_file(file.clone()).is_err(), "no bundle to begin with");
        write(&first);
        let verifier = Verifier::of_file(file.clone()).expect("a bundle");
        let trusts = |certificate: &CertificateDer<'_>| {
            let time = UnixTime::since_unix_epoch(Duration::from_secs(20_500 * 86_400));
            let server = ServerName::try_from("hook.example").expect("a name");
            verifier.verify_server_cert(certificate, &[], &server, &[], time).is_ok()
        };
        write(&second);
        assert!(trusts(&first) && !trusts(&second), "not before its time");
        tokio::time::advance(Verifier::PERIOD).await;
        assert!(!trusts(&first) && trusts(&second));
        for broken in ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            std::fs::write(&file, broken).expect("written");
            tokio::time::advance(Verifier::PERIOD).await;
            assert!(trusts(&second), "{broken:?}");
        }
        std::fs::remove_file(&file).expect("removed");
        tokio::time::advance(Verifier::PERIOD).await;
        assert!(trusts(&second));
    }
}
