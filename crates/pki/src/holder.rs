//! The holder of a client certificate: the common name is the user, the organizations are the groups.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::Error;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    pub user: String,
    pub groups: Vec<String>,
    /// SHA-256 of the certificate in lower-case hex.
    pub fingerprint: String,
    /// Seconds since the epoch.
    pub not_before: i64,
    pub not_after: i64,
    /// Whether the certificate is valid for clients; one without extended key usages is valid for all uses.
    pub client_auth: bool,
}

impl Holder {
    pub fn from_der(certificate: &[u8]) -> Result<Self, Error> {
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| unreadable(&error))?;
        let text = |value: &x509_parser::x509::AttributeTypeAndValue<'_>| value.as_str().map(str::to_owned).ok();
        let usage = parsed.extended_key_usage().map_err(|error| unreadable(&error))?;
        Ok(Self {
            user: parsed.subject().iter_common_name().find_map(text).unwrap_or_default(),
            groups: parsed.subject().iter_organization().filter_map(text).collect(),
            fingerprint: hex::encode(Sha256::digest(certificate)),
            not_before: parsed.validity().not_before.timestamp(),
            not_after: parsed.validity().not_after.timestamp(),
            client_auth: usage.is_none_or(|usage| usage.value.any || usage.value.client_auth),
        })
    }

    /// Reads the first certificate of a PEM text.
    pub fn from_pem(certificate: &str) -> Result<Self, Error> {
        Self::from_der(&pem_to_der(certificate)?)
    }

    pub fn is_valid_at(&self, seconds: i64) -> bool {
        (self.not_before..=self.not_after).contains(&seconds)
    }
}

fn unreadable(error: &dyn std::fmt::Display) -> Error {
    Error::ParseCertificate(error.to_string())
}

/// The first PEM block of a text, decoded.
pub fn pem_to_der(text: &str) -> Result<Vec<u8>, Error> {
    let (_, block) = x509_parser::pem::parse_x509_pem(text.as_bytes()).map_err(|error| unreadable(&error))?;
    Ok(block.contents)
}

/// The certificates of a PEM text, each in its own PEM block; other blocks are skipped.
pub fn certificates(text: &str) -> Result<Vec<String>, Error> {
    let blocks = x509_parser::pem::Pem::iter_from_buffer(text.as_bytes()).collect::<Result<Vec<_>, _>>();
    let blocks = blocks.map_err(|error| unreadable(&error))?;
    let certificates = blocks.iter().filter(|block| block.label == "CERTIFICATE");
    Ok(certificates.map(|block| der_to_pem(&block.label, &block.contents)).collect())
}

pub fn der_to_pem(label: &str, der: &[u8]) -> String {
    let encoded = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        // Base64 is ASCII, so every index is a character boundary.
        let (line, tail) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = tail;
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}
