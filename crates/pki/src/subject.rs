//! Subject names as Kubernetes uses them: one common name and any number of organizations. The certificate library
//! supports one value per attribute, so a subject with several groups is inserted into the finished certificate, which
//! is signed again; a request's subject and an authority's, as the issuer, are copied byte by byte.

use std::ops::Range;

use rcgen::{KeyPair, SigningKey};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::Error;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const UTF8_STRING: u8 = 0x0c;
const BIT_STRING: u8 = 0x03;
/// Object identifiers 2.5.4.3 and 2.5.4.10, encoded.
const COMMON_NAME: [u8; 5] = [0x06, 0x03, 0x55, 0x04, 0x03];
const ORGANIZATION: [u8; 5] = [0x06, 0x03, 0x55, 0x04, 0x0a];

/// The DER form of a name.
pub(crate) fn encode(common_name: &str, organizations: &[String]) -> Vec<u8> {
    let mut names = Vec::new();
    for organization in organizations {
        names.extend(attribute(&ORGANIZATION, organization));
    }
    names.extend(attribute(&COMMON_NAME, common_name));
    tagged(SEQUENCE, &names)
}

fn attribute(identifier: &[u8], value: &str) -> Vec<u8> {
    let pair = [identifier, &tagged(UTF8_STRING, value.as_bytes())].concat();
    tagged(SET, &tagged(SEQUENCE, &pair))
}

/// The certificate with another subject, signed again by `key`.
pub(crate) fn replace(certificate: &[u8], subject: &[u8], key: &KeyPair) -> Result<Vec<u8>, Error> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| broken(&error))?;
    splice(certificate, parsed.tbs_certificate.subject.as_raw(), subject, key)
}

/// The certificate with another issuer, signed again by `key` if that changes it.
pub(crate) fn replace_issuer(certificate: &[u8], issuer: &[u8], key: &KeyPair) -> Result<Vec<u8>, Error> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| broken(&error))?;
    let present = parsed.tbs_certificate.issuer.as_raw();
    if present == issuer { Ok(certificate.to_vec()) } else { splice(certificate, present, issuer, key) }
}

/// As [`replace`], for a signing request.
pub(crate) fn replace_in_request(request: &[u8], subject: &[u8], key: &KeyPair) -> Result<Vec<u8>, Error> {
    let (_, parsed) = X509CertificationRequest::from_der(request).map_err(|error| broken(&error))?;
    splice(request, parsed.certification_request_info.subject.as_raw(), subject, key)
}

fn broken(error: &dyn std::fmt::Display) -> Error {
    Error::ParseCertificate(error.to_string())
}

/// `SEQUENCE { body, algorithm, signature }` with the `old` part of the body replaced and the body signed again. `old`
/// is a slice of `document`.
fn splice(document: &[u8], old: &[u8], new: &[u8], key: &KeyPair) -> Result<Vec<u8>, Error> {
    let misplaced = || broken(&"its parts are not where they should be");
    let outer = element(document).ok_or_else(misplaced)?;
    let body = element(&document[outer.start..]).ok_or_else(misplaced)?;
    let body = outer.start + body.start..outer.start + body.end;
    let algorithm = element(&document[body.end..]).ok_or_else(misplaced)?;
    // Both are slices of one buffer, so the difference of their addresses is the offset.
    let start = (old.as_ptr() as usize).wrapping_sub(document.as_ptr() as usize);
    let before = document.get(body.start..start).ok_or_else(misplaced)?;
    let after = document.get(start + old.len()..body.end).ok_or_else(misplaced)?;

    let signed = tagged(SEQUENCE, &[before, new, after].concat());
    let signature = key.sign(&signed).map_err(Error::Sign)?;
    // A bit string starts with the number of its unused bits.
    let signature = tagged(BIT_STRING, &[&[0], signature.as_slice()].concat());
    let algorithm = &document[body.end..body.end + algorithm.end];
    Ok(tagged(SEQUENCE, &[signed.as_slice(), algorithm, &signature].concat()))
}

/// Tag, length in definite form, content.
fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match u8::try_from(content.len()) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            let length = content.len().to_be_bytes();
            let significant = &length[length.iter().take_while(|byte| **byte == 0).count()..];
            out.push(0x80 | u8::try_from(significant.len()).unwrap_or(8));
            out.extend_from_slice(significant);
        }
    }
    out.extend_from_slice(content);
    out
}

/// The range of the first element's content.
fn element(bytes: &[u8]) -> Option<Range<usize>> {
    let (start, length) = match usize::from(*bytes.get(1)?) {
        short if short < 0x80 => (2, short),
        long => {
            let digits = bytes.get(2..2 + (long & 0x7f))?;
            let length =
                digits.iter().try_fold(0usize, |sum, digit| sum.checked_mul(256)?.checked_add((*digit).into()))?;
            (2 + digits.len(), length)
        }
    };
    let end = start.checked_add(length)?;
    (end <= bytes.len()).then_some(start..end)
}
