//! The peer at the other end of a request's connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use rustls_pki_types::CertificateDer;
use sha2::{Digest, Sha256};

/// A client is warned in the last week of its certificate.
const WARNED: i64 = 7 * 24 * 3600;

/// From when on the holder of a certificate is warned: one that is valid for less than four weeks is new until its last
/// quarter.
pub(crate) fn warned_from(not_before: i64, not_after: i64) -> i64 {
    let quarter = not_after.saturating_sub(not_before).max(0) / 4;
    not_after.saturating_sub(WARNED.min(quarter))
}

/// The peer at the other end of the connection, an extension of each of its requests.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The peer's address.
    pub address: SocketAddr,
    /// The presented certificates; `None` without a client certificate or without TLS.
    shown: Option<Arc<Shown>>,
}

/// A peer's certificates and data computed once for the connection.
#[derive(Debug)]
struct Shown {
    certificates: Vec<CertificateDer<'static>>,
    digest: [u8; 32],
    /// The end of its own certificate, in seconds since the epoch; `i64::MAX` if it cannot be parsed.
    not_after: i64,
    /// From when on its holder is warned, in seconds since the epoch.
    warned_from: i64,
    is_counted: AtomicBool,
}

impl Peer {
    /// `certificates` are the presented ones, the peer's own first; empty without a client certificate or without TLS.
    pub fn new(address: SocketAddr, certificates: impl IntoIterator<Item = CertificateDer<'static>>) -> Self {
        let certificates: Vec<_> = certificates.into_iter().collect();
        let shown = certificates.first().map(|own| (Sha256::digest(own).into(), pki::Holder::from_der(own)));
        let shown = shown.map(|(digest, holder)| {
            let (not_before, not_after) = holder.map_or((i64::MAX, i64::MAX), |it| (it.not_before, it.not_after));
            let warned_from = warned_from(not_before, not_after);
            Arc::new(Shown { certificates, digest, not_after, warned_from, is_counted: AtomicBool::new(false) })
        });
        Self { address, shown }
    }

    /// Whether it presented a client certificate.
    pub fn has_certificate(&self) -> bool {
        self.shown.is_some()
    }

    /// The presented certificate chain; empty without one.
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        self.shown.as_ref().map_or(&[], |shown| &shown.certificates)
    }

    /// SHA-256 of its own certificate: computed once, looked up with every request.
    pub fn digest(&self) -> [u8; 32] {
        self.shown.as_ref().map_or([0; 32], |shown| shown.digest)
    }

    /// The end of its certificate, in seconds since the epoch.
    pub(crate) fn not_after(&self) -> Option<i64> {
        self.shown.as_ref().map(|shown| shown.not_after)
    }

    /// Whether its certificate is about to expire at `seconds` since the epoch.
    pub(crate) fn is_warned(&self, seconds: i64) -> bool {
        self.shown.as_ref().is_some_and(|shown| seconds >= shown.warned_from)
    }

    /// Whether this is the first call for the connection.
    pub(crate) fn count(&self) -> bool {
        self.shown
            .as_ref()
            .is_some_and(|shown| !shown.is_counted.load(Relaxed) && !shown.is_counted.swap(true, Relaxed))
    }
}
