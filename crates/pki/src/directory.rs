//! The key material of one control plane in one directory: made at the first start, taken up at every later one.
//!
//! A file that exists is never overwritten, with one exception: the server certificate is reissued when the names it
//! must carry have changed or it is about to expire; the authority that clients trust stays.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use world::World;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::authority::{Authority, KeyPairPem, ServerNames};
use crate::files::{self, Access};
use crate::{Error, Holder, holder, serving, token};

/// A server certificate with less time left than this is issued anew at start.
const RENEW_BEFORE: Duration = Duration::from_secs(30 * 24 * 3600);

/// What a control plane needs. Every part is loaded; nothing is read later.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// Signs what is asked of the control plane: certificates of its servers, its users and its agents.
    pub authority: Arc<Authority>,
    /// Signs the client certificate with which the API server speaks to aggregated servers.
    pub front_proxy_authority: Authority,
    pub server: KeyPairPem,
    /// `kubernetes-admin` in group `system:masters`.
    pub admin: KeyPairPem,
    /// The private key that signs service account tokens, in PEM.
    pub service_account_key: String,
}

impl Directory {
    /// Takes up what is in the directory and makes what is missing. Fails, without changing anything, when a half of
    /// a pair is missing or unreadable.
    pub fn open(path: &Path, names: &ServerNames, world: &World) -> Result<Self, Error> {
        files::private_directory(path)?;
        let authority = Arc::new(authority(path, "ca", "karmada-ca", world)?);
        let front_proxy_authority = authority_named(path, world)?;
        let server = server(path, &authority, names, world)?;
        let admin =
            pair(path, "admin", || authority.issue_client("kubernetes-admin", &["system:masters".to_owned()], world))?;
        let service_account_key = service_account_key(path)?;
        Ok(Self { path: path.to_owned(), authority, front_proxy_authority, server, admin, service_account_key })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn authority_named(path: &Path, world: &World) -> Result<Authority, Error> {
    authority(path, "front-proxy-ca", "front-proxy-ca", world)
}

fn authority(path: &Path, file: &str, common_name: &str, world: &World) -> Result<Authority, Error> {
    Authority::from_pem(&pair(path, file, || Authority::generate(common_name, world).map(|(_, pem)| pem))?)
}

fn paths(directory: &Path, file: &str) -> (PathBuf, PathBuf) {
    (directory.join(format!("{file}.crt")), directory.join(format!("{file}.key")))
}

fn load(directory: &Path, file: &str) -> Result<Option<KeyPairPem>, Error> {
    let (certificate_path, key_path) = paths(directory, file);
    match (files::read(&certificate_path)?, files::read(&key_path)?) {
        (Some(certificate), Some(key)) => Ok(Some(KeyPairPem { certificate, key })),
        (None, None) => Ok(None),
        // The key is written first: a key alone is what a crash at the first start leaves, and nothing was issued
        // with it yet; but a restored backup looks the same, so a person decides.
        (certificate, _) => {
            let (present, missing) =
                if certificate.is_some() { (certificate_path, key_path) } else { (key_path, certificate_path) };
            Err(Error::HalfAPair { present: present.display().to_string(), missing: missing.display().to_string() })
        }
    }
}

fn pair(directory: &Path, file: &str, make: impl FnOnce() -> Result<KeyPairPem, Error>) -> Result<KeyPairPem, Error> {
    if let Some(pair) = load(directory, file)? {
        return Ok(pair);
    }
    let pair = make()?;
    let (certificate_path, key_path) = paths(directory, file);
    files::create_new(&key_path, pair.key.as_bytes(), Access::Private)?;
    files::create_new(&certificate_path, pair.certificate.as_bytes(), Access::Public)?;
    Ok(pair)
}

/// Keeps the server's key and renews only the certificate file's content, together with its key, in an order that
/// leaves a usable pair: both go into one file first.
fn server(directory: &Path, authority: &Authority, names: &ServerNames, world: &World) -> Result<KeyPairPem, Error> {
    let path = directory.join("apiserver.pem");
    if let Some(text) = files::read(&path)? {
        let present = split(&text);
        if serves(&present.certificate, names, world)? {
            return Ok(present);
        }
    }
    let issued = authority.issue_server(names, world)?;
    files::replace(&path, format!("{}{}", issued.certificate, issued.key).as_bytes(), Access::Private)?;
    Ok(issued)
}

/// A file with a certificate followed by its key.
fn split(text: &str) -> KeyPairPem {
    let key_starts = text.find("-----BEGIN PRIVATE KEY-----").unwrap_or(text.len());
    let (certificate, key) = text.split_at(key_starts);
    KeyPairPem { certificate: certificate.to_owned(), key: key.to_owned() }
}

/// Whether a certificate carries exactly these names and lasts long enough. A name that is no longer wanted counts too:
/// a server must not answer to it any more.
fn serves(certificate: &str, names: &ServerNames, world: &World) -> Result<bool, Error> {
    let der = holder::pem_to_der(certificate)?;
    let renew_before = i64::try_from(RENEW_BEFORE.as_secs()).unwrap_or(i64::MAX);
    if !Holder::from_der(&der)?.is_valid_at(world.now().as_second().saturating_add(renew_before)) {
        return Ok(false);
    }
    let (_, parsed) = X509Certificate::from_der(&der).map_err(|error| Error::ParseCertificate(error.to_string()))?;
    let (dns, addresses) = serving::names(&parsed)?;
    let dns: BTreeSet<String> = dns.into_iter().collect();
    let addresses: BTreeSet<IpAddr> = addresses.into_iter().collect();
    Ok(dns == names.dns.iter().map(|name| name.to_ascii_lowercase()).collect()
        && addresses == names.addresses.iter().copied().collect())
}

fn service_account_key(directory: &Path) -> Result<String, Error> {
    let path = directory.join("sa.key");
    if let Some(key) = files::read(&path)? {
        return Ok(key);
    }
    let key = token::generate_key()?;
    files::create_new(&path, key.as_bytes(), Access::Private)?;
    Ok(key)
}
