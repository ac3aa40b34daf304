//! Verifies server certificates. A self-signed certificate, as webhooks and small API servers often have, is its own
//! authority: the trusted bundle contains it. Clients in Go accept such a server, even if the certificate is marked as
//! an authority (as those of `openssl req -x509` are); rustls rejects an authority as a server's certificate. This
//! verifier adds that one exception and nothing else.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::time::ASN1Time;

#[derive(Debug)]
pub(super) struct Verifier {
    chains: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl Verifier {
    /// Trusts certificates signed by those of a bundle, and the bundle's certificates themselves. `None` if one is
    /// unusable.
    pub(super) fn of(bundle: &[Vec<u8>]) -> Option<Self> {
        let trusted: Vec<_> = bundle.iter().map(|der| CertificateDer::from(der.clone())).collect();
        let mut roots = RootCertStore::empty();
        for certificate in &trusted {
            roots.add(certificate.clone()).ok()?;
        }
        let chains = WebPkiServerVerifier::builder(Arc::new(roots)).build().ok()?;
        Some(Self { chains, trusted })
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
        let verified = self.chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        if verified.is_ok() || !self.trusted.iter().any(|trusted| trusted == end_entity) {
            return verified;
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
        self.chains.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
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
        let verifier = Verifier::of(&[trusted.to_vec()]).expect("a bundle");
        let day = |days: u64| UnixTime::since_unix_epoch(Duration::from_secs(days * 86_400));
        let in_2026 = 20_500;
        for (certificate, name, time, expected) in [
            (&trusted, "hook.example", in_2026, None),
            (&trusted, "other.example", in_2026, Some("not valid for name")),
            (&trusted, "hook.example", 20_000, Some("certificate not valid yet")),
            (&trusted, "hook.example", 21_000, Some("certificate expired")),
            // Another self-signed certificate of the same name is not trusted.
            (&own_authority("hook.example"), "hook.example", in_2026, Some("invalid peer certificate")),
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
}
