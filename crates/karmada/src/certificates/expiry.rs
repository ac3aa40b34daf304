//! Expiry as a metric, and as a log line 30, 7 and 1 days before.

use std::collections::BTreeMap;

use metrics::{Gauges, Registry};
use pki::directory::{Certificate, Role};
use pki::rotation;

use super::EXPIRATION;

/// The operator's certificate, by the flag that names its file.
const OWN: &str = "tls-cert-file";

pub struct Expiry {
    gauges: Gauges,
    /// The days of the last warning about each certificate, with its expiry.
    warned: BTreeMap<String, (i64, i64)>,
}

impl Expiry {
    pub fn new(registry: &Registry) -> Self {
        Self { gauges: registry.gauges(&EXPIRATION), warned: BTreeMap::new() }
    }

    pub fn report(&mut self, certificates: &[Certificate], own: Option<i64>, now: i64) {
        for certificate in certificates {
            let name = certificate.name.as_str();
            if certificate.role == Role::Retired {
                self.gauges.remove(&[("certificate", name)]);
                continue;
            }
            // A server with the operator's certificate does not serve the issued one.
            let counts = certificate.role != Role::Trusted && !(own.is_some() && name == "apiserver");
            self.note(name, certificate.validity.not_after, counts, now);
        }
        if let Some(not_after) = own {
            self.note(OWN, not_after, true, now);
        }
    }

    fn note(&mut self, name: &str, not_after: i64, counts: bool, now: i64) {
        self.gauges.set(&[name], not_after as f64);
        let Some(days) = rotation::warning(not_after, now).filter(|_| counts) else {
            self.warned.remove(name);
            return;
        };
        if self.warned.insert(name.to_owned(), (days, not_after)) != Some((days, not_after)) {
            let expires = jiff::Timestamp::from_second(not_after).unwrap_or_default();
            let next = if name == OWN {
                "renew the file of --tls-cert-file"
            } else {
                "its renewal fails: earlier warnings have the reason"
            };
            tracing::warn!(certificate = name, %expires, "Certificate expires within {days} days; {next}");
        }
    }
}
