//! A serving certificate of the operator: its names, its validity, and the anchors that clients need to verify it.

use std::net::IpAddr;

use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::{Error, holder};

/// The first certificate of a PEM file, with the issuers after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServingCertificate {
    /// DNS names in lower case; the first label may be `*`.
    pub dns: Vec<String>,
    pub addresses: Vec<IpAddr>,
    /// Seconds since the epoch.
    pub not_before: i64,
    pub not_after: i64,
    /// In PEM: the certificates after the first one. A single certificate is its own anchor.
    pub anchors: String,
}

impl ServingCertificate {
    /// Reads the first certificate of a PEM text and the chain after it; other blocks are skipped.
    ///
    /// # Errors
    /// The text has no certificate, or one that cannot be parsed.
    pub fn from_pem(text: &str) -> Result<Self, Error> {
        let unreadable = |error: &dyn std::fmt::Display| Error::ParseCertificate(error.to_string());
        let blocks = Pem::iter_from_buffer(text.as_bytes()).collect::<Result<Vec<_>, _>>();
        let blocks = blocks.map_err(|error| unreadable(&error))?;
        let mut chain = blocks.iter().filter(|block| block.label == "CERTIFICATE").map(|block| &block.contents);
        let Some(own) = chain.next() else {
            return Err(Error::ParseCertificate("there is no CERTIFICATE block".to_owned()));
        };
        let (_, parsed) = X509Certificate::from_der(own).map_err(|error| unreadable(&error))?;
        let anchors: String = chain.map(|issuer| holder::der_to_pem("CERTIFICATE", issuer)).collect();
        let anchors = if anchors.is_empty() { holder::der_to_pem("CERTIFICATE", own) } else { anchors };
        let validity = parsed.validity();
        let (not_before, not_after) = (validity.not_before.timestamp(), validity.not_after.timestamp());
        let (dns, addresses) = names(&parsed)?;
        Ok(Self { dns, addresses, not_before, not_after, anchors })
    }

    /// Whether a client that connects by this name or address accepts the certificate (RFC 6125: `*` matches one
    /// label).
    pub fn covers(&self, host: &str) -> bool {
        if let Ok(address) = host.parse::<IpAddr>() {
            return self.addresses.contains(&address);
        }
        let host = host.to_ascii_lowercase();
        let behind_first_label = host.split_once('.').map(|(_, rest)| rest);
        self.dns.iter().any(|name| match name.strip_prefix("*.") {
            Some(rest) => behind_first_label == Some(rest),
            None => *name == host,
        })
    }

    /// A name by which clients can verify the certificate, independent of the address they connect to; `None` without
    /// one.
    pub fn server_name(&self) -> Option<String> {
        let whole = self.dns.iter().find(|name| !name.starts_with("*."));
        let wildcard = || Some(format!("kubernetes.{}", self.dns.first()?.strip_prefix("*.")?));
        whole.cloned().or_else(|| self.addresses.first().map(ToString::to_string)).or_else(wildcard)
    }

    /// All names, for messages.
    pub fn names(&self) -> Vec<String> {
        self.dns.iter().cloned().chain(self.addresses.iter().map(ToString::to_string)).collect()
    }
}

/// DNS names and addresses of the subject alternative name; clients ignore the common name.
pub(crate) fn names(certificate: &X509Certificate<'_>) -> Result<(Vec<String>, Vec<IpAddr>), Error> {
    let present = certificate.subject_alternative_name().map_err(|error| Error::ParseCertificate(error.to_string()))?;
    let (mut dns, mut addresses) = (Vec::new(), Vec::new());
    for general in present.iter().flat_map(|present| &present.value.general_names) {
        match general {
            GeneralName::DNSName(name) => dns.push(name.to_ascii_lowercase()),
            GeneralName::IPAddress(octets) => addresses.extend(address(octets)),
            _ => {}
        }
    }
    Ok((dns, addresses))
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(dns: &[&str], addresses: &[&str]) -> ServingCertificate {
        ServingCertificate {
            dns: dns.iter().map(|name| (*name).to_owned()).collect(),
            addresses: addresses.iter().map(|text| text.parse().expect("an address")).collect(),
            not_before: 0,
            not_after: 0,
            anchors: String::new(),
        }
    }

    #[test]
    fn names_that_are_covered() {
        let certificate = named(&["api.example.org", "*.k8s.example.org"], &["203.0.113.10", "2001:db8::1"]);
        for (host, covered) in [
            ("api.example.org", true),
            ("API.example.org", true),
            ("example.org", false),
            ("a.k8s.example.org", true),
            ("a.b.k8s.example.org", false),
            ("k8s.example.org", false),
            ("203.0.113.10", true),
            ("203.0.113.11", false),
            ("2001:db8:0::1", true),
            ("*.k8s.example.org", true),
        ] {
            assert_eq!(certificate.covers(host), covered, "{host}");
        }
    }

    #[test]
    fn a_name_for_clients_that_connect_by_another_one() {
        for (dns, addresses, expected) in [
            (vec!["*.example.org", "api.example.org"], vec!["203.0.113.10"], Some("api.example.org")),
            (vec!["*.example.org"], vec!["203.0.113.10"], Some("203.0.113.10")),
            (vec!["*.example.org"], vec![], Some("kubernetes.example.org")),
            (vec![], vec![], None),
        ] {
            assert_eq!(named(&dns, &addresses).server_name().as_deref(), expected, "{dns:?}");
        }
    }
}
