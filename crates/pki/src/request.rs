//! Certificate signing requests: reads them, and signs them as kube-controller-manager's `csrsigning` does.

use std::time::Duration;

use rcgen::{
    CertificateParams, CertificateSigningRequestParams, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
    SanType,
};
use world::World;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

use crate::authority::{Authority, BACKDATE, params};
use crate::{Error, holder, subject};

/// Signers of Kubernetes backdate the start of all certificates by [`BACKDATE`], and the end of those that are requested
/// for at least this time.
pub const SHORT: Duration = Duration::from_secs(8 * 3600);

/// The properties of a request that policies use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub common_name: String,
    pub organizations: Vec<String>,
    pub alternative_names: AlternativeNames,
}

/// The kinds of subject alternative names in a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlternativeNames {
    pub dns: bool,
    pub ip: bool,
    pub email: bool,
    pub uri: bool,
}

/// Reads a PEM request and verifies that it is signed with its own key.
pub fn read(pem: &str) -> Result<Request, Error> {
    let parsed = parse(pem)?;
    let der = holder::pem_to_der(pem)?;
    let (_, request) = raw(&der)?;
    let info = &request.certification_request_info;
    let text = |value: &x509_parser::x509::AttributeTypeAndValue<'_>| value.as_str().map(str::to_owned).ok();
    Ok(Request {
        common_name: info.subject.iter_common_name().find_map(text).unwrap_or_default(),
        organizations: info.subject.iter_organization().filter_map(text).collect(),
        alternative_names: alternative_names(&parsed.params.subject_alt_names),
    })
}

fn alternative_names(names: &[SanType]) -> AlternativeNames {
    AlternativeNames {
        dns: names.iter().any(|name| matches!(name, SanType::DnsName(_))),
        ip: names.iter().any(|name| matches!(name, SanType::IpAddress(_))),
        email: names.iter().any(|name| matches!(name, SanType::Rfc822Name(_))),
        uri: names.iter().any(|name| matches!(name, SanType::URI(_))),
    }
}

/// Signs a PEM request. Subject, names and key are from the request; usages (the names of `certificates.k8s.io`) and
/// lifetime are from the caller; no certificate outlives the authority. Unknown usages are ignored. As in
/// kube-controller-manager, the lifetime of a long-lived certificate includes [`BACKDATE`], see [`SHORT`].
pub fn sign(
    authority: &Authority,
    pem: &str,
    usages: &[&str],
    lifetime: Duration,
    world: &World,
) -> Result<String, Error> {
    let request = parse(pem)?;
    let backdated = if lifetime < SHORT { Duration::ZERO } else { BACKDATE };
    let mut params = params(world, lifetime.saturating_sub(backdated), authority.not_after());
    params.distinguished_name = request.params.distinguished_name.clone();
    params.subject_alt_names = request.params.subject_alt_names.clone();
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = usages.iter().filter_map(|usage| key_usage(usage)).collect();
    params.extended_key_usages = usages.iter().filter_map(|usage| extended_key_usage(usage)).collect();
    params.use_authority_key_identifier_extension = true;
    let certificate = params
        .signed_by(&request.public_key, authority.issuer())
        .map_err(|source| Error::Issue { subject: "a certificate signing request".into(), source })?;
    let der = holder::pem_to_der(pem)?;
    let (_, raw) = raw(&der)?;
    let certificate = authority.with_issuer(certificate.der())?;
    authority.with_subject(&certificate, raw.certification_request_info.subject.as_raw())
}

/// A request for a client certificate and its new key: `(request, key)` in PEM.
pub fn create(user: &str, groups: &[String]) -> Result<(String, String), Error> {
    let key = KeyPair::generate().map_err(Error::GenerateKey)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, user);
    let request = params.serialize_request(&key).map_err(|source| Error::Issue { subject: user.to_owned(), source })?;
    let der = subject::replace_in_request(request.der(), &subject::encode(user, groups), &key)?;
    Ok((holder::der_to_pem("CERTIFICATE REQUEST", &der), key.serialize_pem()))
}

fn parse(pem: &str) -> Result<CertificateSigningRequestParams, Error> {
    CertificateSigningRequestParams::from_pem(pem).map_err(Error::ParseRequest)
}

fn raw(der: &[u8]) -> Result<(&[u8], X509CertificationRequest<'_>), Error> {
    X509CertificationRequest::from_der(der).map_err(|error| Error::ParseCertificate(error.to_string()))
}

fn key_usage(name: &str) -> Option<KeyUsagePurpose> {
    Some(match name {
        "signing" | "digital signature" => KeyUsagePurpose::DigitalSignature,
        "content commitment" => KeyUsagePurpose::ContentCommitment,
        "key encipherment" => KeyUsagePurpose::KeyEncipherment,
        "key agreement" => KeyUsagePurpose::KeyAgreement,
        "data encipherment" => KeyUsagePurpose::DataEncipherment,
        "cert sign" => KeyUsagePurpose::KeyCertSign,
        "crl sign" => KeyUsagePurpose::CrlSign,
        _ => return None,
    })
}

fn extended_key_usage(name: &str) -> Option<ExtendedKeyUsagePurpose> {
    Some(match name {
        "any" => ExtendedKeyUsagePurpose::Any,
        "server auth" => ExtendedKeyUsagePurpose::ServerAuth,
        "client auth" => ExtendedKeyUsagePurpose::ClientAuth,
        "code signing" => ExtendedKeyUsagePurpose::CodeSigning,
        "email protection" => ExtendedKeyUsagePurpose::EmailProtection,
        "timestamping" => ExtendedKeyUsagePurpose::TimeStamping,
        "ocsp signing" => ExtendedKeyUsagePurpose::OcspSigning,
        _ => return None,
    })
}
