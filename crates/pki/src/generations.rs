//! The generations of one authority in a directory: `NAME.crt` with `NAME.key`, then `NAME-2.pem` and so on, each with
//! a certificate, the same key certified by the previous generation, and the private key. Files are never overwritten.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use world::World;
use x509_parser::error::X509Error;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::authority::{Authority, KeyPairPem};
use crate::files::{self, Access};
use crate::rotation::{self, AuthorityState, Validity};
use crate::{Error, Holder, holder};

pub(crate) struct Generation {
    pub path: PathBuf,
    pub authority: Arc<Authority>,
    pub validity: Validity,
    /// Certified by the previous generation; empty for the first one, and if the previous one had expired.
    cross: String,
}

impl Generation {
    /// `key`: the file with the private key.
    fn new(path: PathBuf, key: &Path, pem: &KeyPairPem, cross: String) -> Result<Self, Error> {
        let read = || Ok((Holder::from_pem(&pem.certificate)?, Authority::from_pem(pem)?));
        let (holder, authority) = read().map_err(|source| Error::Authority {
            certificate: path.display().to_string(),
            key: key.display().to_string(),
            source: Box::new(source),
        })?;
        let validity = Validity { not_before: holder.not_before, not_after: holder.not_after };
        Ok(Self { path, authority: Arc::new(authority), validity, cross })
    }

    /// Whether it signed a certificate (PEM).
    fn issued(&self, certificate: &str) -> Result<bool, Error> {
        let unreadable = |error: &dyn std::fmt::Display| Error::ParseCertificate(error.to_string());
        let (own, other) = (holder::pem_to_der(self.authority.certificate())?, holder::pem_to_der(certificate)?);
        let (_, own) = X509Certificate::from_der(&own).map_err(|error| unreadable(&error))?;
        let (_, other) = X509Certificate::from_der(&other).map_err(|error| unreadable(&error))?;
        // A certificate with an unsupported algorithm is compared by name.
        let refuted = || {
            let verified = other.verify_signature(Some(own.public_key()));
            matches!(verified, Err(X509Error::SignatureVerificationError | X509Error::InvalidSignatureValue))
        };
        Ok(own.subject().as_raw() == other.issuer().as_raw() && !refuted())
    }
}

/// The oldest first.
pub(crate) struct Generations {
    directory: PathBuf,
    name: &'static str,
    /// The first generation's subject.
    common_name: &'static str,
    all: Vec<Generation>,
}

impl Generations {
    /// `repairs`: no certificate was issued with these keys yet, so a key without a certificate, left by a crash at the
    /// first start, gets one.
    pub fn read(
        directory: &Path,
        (name, common_name): (&'static str, &'static str),
        repairs: bool,
        world: &World,
    ) -> Result<Self, Error> {
        let mut all = Vec::new();
        let (certificate_path, key_path) = first(directory, name);
        match (files::read(&certificate_path)?, files::read(&key_path)?) {
            (Some(certificate), Some(key)) => {
                let pem = KeyPairPem { certificate, key };
                all.push(Generation::new(certificate_path, &key_path, &pem, String::new())?);
            }
            (None, None) => {}
            (None, Some(key)) if repairs => {
                let pem = Authority::complete(common_name, &key, world)?;
                files::create_new(&certificate_path, pem.certificate.as_bytes(), Access::Public)?;
                all.push(Generation::new(certificate_path, &key_path, &pem, String::new())?);
            }
            // A restored backup has the same state, so a user must decide.
            (certificate, _) => {
                let (present, missing) =
                    if certificate.is_some() { (certificate_path, key_path) } else { (key_path, certificate_path) };
                return Err(Error::HalfAPair {
                    present: present.display().to_string(),
                    missing: missing.display().to_string(),
                });
            }
        }
        for number in later(directory, name)? {
            let path = directory.join(format!("{name}-{number}.pem"));
            let Some(text) = files::read(&path)? else { continue };
            let mut certificates = holder::certificates(&text)?.into_iter();
            let missing = || Error::ParseCertificate(format!("{} holds no certificate", path.display()));
            let pem =
                KeyPairPem { certificate: certificates.next().ok_or_else(missing)?, key: key_of(&text).to_owned() };
            all.push(Generation::new(path.clone(), &path, &pem, certificates.collect())?);
        }
        Ok(Self { directory: directory.to_owned(), name, common_name, all })
    }

    pub fn validities(&self) -> Vec<Validity> {
        self.all.iter().map(|generation| generation.validity).collect()
    }

    pub fn authority_state(&self, now: i64) -> AuthorityState {
        rotation::authority(&self.validities(), now)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Generation> {
        self.all.iter()
    }

    /// The signing generation, and the certificates that a server sends after its own so that clients that trust only
    /// an older generation can verify it.
    pub fn signer(&self, now: i64) -> Option<(&Arc<Authority>, String)> {
        let authority_state = self.authority_state(now);
        let signer = authority_state.signer?;
        let trusts = |at: &usize| *at > 0 && authority_state.trusted.contains(&(at - 1));
        let chain = (0..=signer).rev().take_while(trusts).map(|at| self.all[at].cross.as_str()).collect();
        Some((&self.all[signer].authority, chain))
    }

    /// The certificates of all unexpired generations, in PEM.
    pub fn trusted(&self, now: i64) -> String {
        self.authority_state(now).trusted.into_iter().map(|at| self.all[at].authority.certificate()).collect()
    }

    /// The end of the generation that signed a certificate, unless it has expired.
    pub fn end_of_issuer(&self, certificate: &str, now: i64) -> Result<Option<i64>, Error> {
        for at in self.authority_state(now).trusted {
            if self.all[at].issued(certificate)? {
                return Ok(Some(self.all[at].validity.not_after));
            }
        }
        Ok(None)
    }

    /// Creates the first generation or a successor.
    pub fn make(&self, world: &World) -> Result<(), Error> {
        let Some(last) = self.all.last() else {
            let (_, pem) = Authority::generate(self.common_name, world)?;
            let (certificate_path, key_path) = first(&self.directory, self.name);
            files::create_new(&key_path, pem.key.as_bytes(), Access::Private)?;
            return files::create_new(&certificate_path, pem.certificate.as_bytes(), Access::Public);
        };
        let number = later(&self.directory, self.name)?.last().map_or(2, |last| last + 1);
        let common_name = format!("{}-{number}", stem_of_name(last)?);
        let (successor, pem) = Authority::generate(&common_name, world)?;
        let alive = last.validity.not_after > world.now().as_second();
        let cross = if alive { last.authority.cross_sign(&successor, &common_name, world)? } else { String::new() };
        let path = self.directory.join(format!("{}-{number}.pem", self.name));
        files::create_new(&path, format!("{}{cross}{}", pem.certificate, pem.key).as_bytes(), Access::Private)
    }
}

/// The common name without the number of its generation.
fn stem_of_name(generation: &Generation) -> Result<String, Error> {
    let name = Holder::from_pem(generation.authority.certificate())?.user;
    let numbered = name.rsplit_once('-').filter(|(_, number)| number.parse::<u32>().is_ok());
    Ok(numbered.map_or(name.clone(), |(stem, _)| stem.to_owned()))
}

fn first(directory: &Path, name: &str) -> (PathBuf, PathBuf) {
    (directory.join(format!("{name}.crt")), directory.join(format!("{name}.key")))
}

/// The numbers of the generations after the first, ascending.
fn later(directory: &Path, name: &str) -> Result<Vec<u32>, Error> {
    let of = |file: &str| file.strip_prefix(name)?.strip_prefix('-')?.strip_suffix(".pem")?.parse::<u32>().ok();
    let mut numbers: Vec<u32> = files::names(directory)?.iter().filter_map(|file| of(file)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The private key of a PEM text, to its end.
pub(crate) fn key_of(text: &str) -> &str {
    &text[text.find("-----BEGIN PRIVATE KEY-----").unwrap_or(text.len())..]
}
