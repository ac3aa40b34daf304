//! Certificate authorities: creates them, and issues server and client certificates.

use std::net::IpAddr;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, SerialNumber,
};
use world::World;
use x509_parser::prelude::{FromDer, X509Certificate, X509Version};

use crate::{Error, holder, subject};

/// The lifetime of an authority: ten years, as kubeadm's.
pub const AUTHORITY_LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The lifetime of the control plane's own certificates: a year, as kubeadm's. The process that owns the authority
/// renews them.
pub const ISSUED_LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// Certificates are backdated, for peers with slow clocks.
pub const BACKDATE: Duration = Duration::from_secs(5 * 60);

/// A certificate chain and its private key (PKCS #8), both in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyPairPem {
    pub certificate: String,
    pub key: String,
}

impl std::fmt::Debug for KeyPairPem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyPairPem(..)")
    }
}

/// The names and addresses of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerNames {
    pub common_name: String,
    pub dns: Vec<String>,
    pub addresses: Vec<IpAddr>,
}

impl ServerNames {
    /// The names of every API server, and `extra` ones, each a DNS name or an address.
    pub fn api_server(common_name: &str, extra: &[String]) -> Self {
        let mut names = Self { common_name: common_name.to_owned(), ..Self::default() };
        let usual = [
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "127.0.0.1",
            "::1",
        ];
        for name in usual.into_iter().chain(extra.iter().map(String::as_str)) {
            names.add(name);
        }
        names
    }

    fn add(&mut self, name: &str) {
        match name.parse::<IpAddr>() {
            Ok(address) if !self.addresses.contains(&address) => self.addresses.push(address),
            Err(_) if !self.dns.iter().any(|known| known == name) => self.dns.push(name.to_owned()),
            _ => {}
        }
    }

    fn subject_alt_names(&self) -> Result<Vec<SanType>, Error> {
        let dns = self
            .dns
            .iter()
            .map(|name| name.as_str().try_into().map(SanType::DnsName).map_err(|_| Error::ServerName(name.clone())));
        dns.chain(self.addresses.iter().map(|address| Ok(SanType::IpAddress(*address)))).collect()
    }
}

/// One generation of an authority, with its private key.
pub struct Authority {
    certificate: String,
    /// The subject of the certificate as encoded there: the issuer of what it signs must have the same bytes.
    subject: Vec<u8>,
    issuer: Issuer<'static, KeyPair>,
    /// The end of its certificate, in seconds since the epoch; no issued certificate ends later.
    not_after: i64,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority(..)")
    }
}

impl Authority {
    /// A new authority with a P-256 key, which is created in microseconds and supported by every Kubernetes client.
    pub fn generate(common_name: &str, world: &World) -> Result<(Self, KeyPairPem), Error> {
        Self::with_key(common_name, KeyPair::generate().map_err(Error::GenerateKey)?, world)
    }

    /// The certificate of a new authority for an existing key (PEM).
    pub(crate) fn complete(common_name: &str, key: &str, world: &World) -> Result<KeyPairPem, Error> {
        let key = KeyPair::from_pem(key).map_err(Error::ParseKey)?;
        Ok(Self::with_key(common_name, key, world)?.1)
    }

    fn with_key(common_name: &str, key: KeyPair, world: &World) -> Result<(Self, KeyPairPem), Error> {
        let params = authority_params(common_name, world, i64::MAX);
        let certificate = params.self_signed(&key).map_err(|source| issue(common_name, source))?.pem();
        let pem = KeyPairPem { certificate, key: key.serialize_pem() };
        Ok((Self::new(&pem.certificate, Issuer::new(params, key))?, pem))
    }

    /// Loads an existing authority.
    ///
    /// # Errors
    /// The certificate or the key cannot be read, the key is of another certificate, or it may not sign certificates.
    pub fn from_pem(pem: &KeyPairPem) -> Result<Self, Error> {
        let key = KeyPair::from_pem(&pem.key).map_err(Error::ParseKey)?;
        let issuer = Issuer::from_ca_cert_pem(&pem.certificate, key).map_err(Error::ParseAuthority)?;
        Self::new(&pem.certificate, issuer)
    }

    fn new(certificate: &str, issuer: Issuer<'static, KeyPair>) -> Result<Self, Error> {
        let der = holder::pem_to_der(certificate)?;
        let (_, parsed) =
            X509Certificate::from_der(&der).map_err(|error| Error::ParseCertificate(error.to_string()))?;
        // What another key signs verifies with no certificate.
        if parsed.public_key().subject_public_key.data != issuer.key().public_key_raw() {
            return Err(Error::KeyMismatch);
        }
        if !may_sign(&parsed) {
            return Err(Error::NotAnAuthority);
        }
        let subject = parsed.subject().as_raw().to_vec();
        let not_after = parsed.validity().not_after.timestamp();
        Ok(Self { certificate: certificate.to_owned(), subject, issuer, not_after })
    }

    /// A certificate (PEM) for the key of `other`, with which a client that trusts only this authority verifies the
    /// other one's certificates. It ends with this authority.
    pub fn cross_sign(&self, other: &Self, common_name: &str, world: &World) -> Result<String, Error> {
        let mut params = authority_params(common_name, world, self.not_after);
        params.use_authority_key_identifier_extension = true;
        let signed = params.signed_by(other.issuer.key(), &self.issuer);
        self.with_issuer(signed.map_err(|source| issue(common_name, source))?.der())
    }

    pub(crate) fn not_after(&self) -> i64 {
        self.not_after
    }

    /// The certificate of this generation in PEM. Clients trust those of all generations.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    pub fn issue_server(&self, names: &ServerNames, world: &World) -> Result<KeyPairPem, Error> {
        let mut params = params(world, ISSUED_LIFETIME, self.not_after);
        params.distinguished_name = name(&names.common_name);
        params.subject_alt_names = names.subject_alt_names()?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(params, &names.common_name)
    }

    /// A client certificate for `user` in `groups`.
    pub fn issue_client(&self, user: &str, groups: &[String], world: &World) -> Result<KeyPairPem, Error> {
        self.issue_client_for(user, groups, ISSUED_LIFETIME, world)
    }

    /// As [`Self::issue_client`], with the certificate's lifetime.
    pub fn issue_client_for(
        &self,
        user: &str,
        groups: &[String],
        lifetime: Duration,
        world: &World,
    ) -> Result<KeyPairPem, Error> {
        let mut params = params(world, lifetime, self.not_after);
        params.distinguished_name = name(user);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let mut pair = self.issue(params, user)?;
        if !groups.is_empty() {
            pair.certificate = self.with_subject(&pair.certificate, &subject::encode(user, groups))?;
        }
        Ok(pair)
    }

    /// The certificate (DER) as PEM, with the subject of this authority byte by byte as its issuer: the certificate
    /// library encodes each attribute once and as UTF-8, and verifiers compare the bytes of names.
    pub(crate) fn with_issuer(&self, certificate: &[u8]) -> Result<String, Error> {
        let der = subject::replace_issuer(certificate, &self.subject, self.issuer.key())?;
        Ok(holder::der_to_pem("CERTIFICATE", &der))
    }

    /// The certificate (PEM) with another subject (DER), signed again.
    pub(crate) fn with_subject(&self, certificate: &str, subject: &[u8]) -> Result<String, Error> {
        let der = holder::pem_to_der(certificate)?;
        let der = subject::replace(&der, subject, self.issuer.key())?;
        Ok(holder::der_to_pem("CERTIFICATE", &der))
    }

    fn issue(&self, mut params: CertificateParams, subject: &str) -> Result<KeyPairPem, Error> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(Error::GenerateKey)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(|source| issue(subject, source))?;
        Ok(KeyPairPem { certificate: self.with_issuer(certificate.der())?, key: key.serialize_pem() })
    }

    pub(crate) fn issuer(&self) -> &Issuer<'static, KeyPair> {
        &self.issuer
    }
}

fn issue(subject: &str, source: rcgen::Error) -> Error {
    Error::Issue { subject: subject.to_owned(), source }
}

fn name(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

/// Whether clients accept certificates that the holder signs (RFC 5280, 6.1.4). Version 1 has no extensions.
fn may_sign(certificate: &X509Certificate<'_>) -> bool {
    let is_authority = match certificate.basic_constraints() {
        Ok(Some(constraints)) => constraints.value.ca,
        Ok(None) => certificate.version() == X509Version::V1,
        Err(_) => false,
    };
    let signs = certificate.key_usage().is_ok_and(|usage| usage.is_none_or(|usage| usage.value.key_cert_sign()));
    is_authority && signs
}

fn authority_params(common_name: &str, world: &World, latest: i64) -> CertificateParams {
    let mut params = params(world, AUTHORITY_LIFETIME, latest);
    params.distinguished_name = name(common_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// Parameters of a certificate that is valid from now for `lifetime`, but not after `latest`, with a random serial
/// number.
pub(crate) fn params(world: &World, lifetime: Duration, latest: i64) -> CertificateParams {
    let mut params = CertificateParams::default();
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let now = Duration::from_secs(u64::try_from(world.now().as_second()).unwrap_or_default());
    params.not_before = epoch + now.saturating_sub(BACKDATE);
    params.not_after =
        epoch + now.saturating_add(lifetime).min(Duration::from_secs(u64::try_from(latest).unwrap_or_default()));
    params.serial_number = Some(SerialNumber::from_slice(&serial(world)));
    params
}

/// 127 random bits: serial numbers are positive integers of at most 20 bytes (RFC 5280, 4.1.2.2).
fn serial(world: &World) -> [u8; 16] {
    let bits = u128::from(world.random_u64()) << 64 | u128::from(world.random_u64());
    (bits & (u128::MAX >> 1) | 1 << 120).to_be_bytes()
}
