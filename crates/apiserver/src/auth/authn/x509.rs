//! Client certificates: signed by the client authority, in time, and meant for clients.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::pem::PemObject;
use transport::Identity;

use super::recent::Recent;
use crate::request::peer::Peer;

/// Why a client authority cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants")]
pub enum ClientAuthorityError {
    #[error("cannot read the client authority's certificate")]
    Read(#[source] rustls_pki_types::pem::Error),
    #[error("the client authority's certificate cannot be trusted")]
    Root(#[source] rustls::Error),
    #[error("cannot set up the verification of client certificates")]
    Verifier(#[source] rustls::server::VerifierBuilderError),
}

/// The authorities of accepted client certificates. Clones share them.
#[derive(Clone)]
pub struct ClientAuthority(Arc<RwLock<Arc<Trusted>>>);

struct Trusted {
    verifier: Arc<dyn ClientCertVerifier>,
    /// Dropped with the certificates that verified it.
    recent: Recent<(Identity, std::ops::RangeInclusive<i64>)>,
}

impl ClientAuthority {
    /// Takes one or more certificates in PEM.
    ///
    /// # Errors
    /// When the bundle has no certificate, or one cannot be trusted.
    pub fn from_pem(bundle: &str) -> Result<Self, ClientAuthorityError> {
        Ok(Self(Arc::new(RwLock::new(Arc::new(Trusted::from_pem(bundle)?)))))
    }

    /// Replaces the authorities, from the next request on.
    ///
    /// # Errors
    /// For an invalid bundle; the current one then stays in effect.
    pub fn replace(&self, bundle: &str) -> Result<(), ClientAuthorityError> {
        *self.0.write() = Arc::new(Trusted::from_pem(bundle)?);
        Ok(())
    }

    /// `None` without a certificate, `Some(None)` with one that is not accepted.
    pub(super) fn authenticate(&self, peer: &Peer, seconds: i64) -> Option<Option<Identity>> {
        let (own, intermediates) = peer.certificates().split_first()?;
        let trusted = Arc::clone(&self.0.read());
        let checked = trusted.recent.get_or_check_digest(peer.digest(), || trusted.check(own, intermediates, seconds));
        Some(checked.filter(|(_, valid)| valid.contains(&seconds)).map(|(identity, _)| identity))
    }
}

impl Trusted {
    fn from_pem(bundle: &str) -> Result<Self, ClientAuthorityError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
            roots.add(certificate.map_err(ClientAuthorityError::Read)?).map_err(ClientAuthorityError::Root)?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(ClientAuthorityError::Verifier)?;
        Ok(Self { verifier, recent: Recent::default() })
    }

    fn check(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        seconds: i64,
    ) -> Option<(Identity, std::ops::RangeInclusive<i64>)> {
        let now = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(seconds).ok()?));
        self.verifier.verify_client_cert(own, intermediates, now).ok()?;
        let holder = pki::Holder::from_der(own).ok()?;
        if holder.user.is_empty() {
            return None;
        }
        let identity = Identity {
            user: holder.user,
            uid: String::new(),
            groups: holder.groups,
            extra: vec![(super::CREDENTIAL_ID.into(), vec![format!("X509SHA256={}", holder.fingerprint)])],
        };
        Some((identity, holder.not_before..=holder.not_after))
    }
}
