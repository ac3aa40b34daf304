//! A serving certificate of the operator's own: `--tls-cert-file` and `--tls-private-key-file`, checked before anything
//! is created.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use apiserver::serve::{Certificate, Protocol, TlsConfig, TlsError};
use pki::ServingCertificate;
use world::World;

const CERTIFICATE: &str = "--tls-cert-file";
const KEY: &str = "--tls-private-key-file";

/// A certificate with its key, ready to be served.
#[derive(Clone, Debug)]
pub struct OwnCertificate {
    pub names: ServingCertificate,
    pub tls: TlsConfig,
    pub files: Files,
    /// The content of the files when they were last usable.
    content: (String, String),
}

/// `--tls-cert-file` and `--tls-private-key-file`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl OwnCertificate {
    /// Reads both files; `None` if neither is set.
    ///
    /// # Errors
    /// For one without the other; unreadable files; a certificate that has expired or names no host; a key that does
    /// not match.
    pub fn from_files(
        certificate: Option<&Path>,
        key: Option<&Path>,
        protocol: &Protocol,
        world: &World,
    ) -> anyhow::Result<Option<Self>> {
        let files = match (certificate, key) {
            (None, None) => return Ok(None),
            (Some(certificate), Some(key)) => Files { certificate: certificate.to_owned(), key: key.to_owned() },
            (Some(_), None) => bail!("{CERTIFICATE} needs {KEY} with the certificate's key"),
            (None, Some(_)) => bail!("{KEY} needs {CERTIFICATE} with the key's certificate"),
        };
        let content = files.read()?;
        let names = files.names(&content, world)?;
        let tls = TlsConfig::of_protocol(&content.0, &content.1, protocol).map_err(|error| files.refused(error))?;
        Ok(Some(Self { names, tls, files, content }))
    }

    /// Rereads the files; new connections get a changed certificate. Returns whether it changed.
    ///
    /// # Errors
    /// As [`Self::from_files`]; the current certificate stays in effect.
    pub fn reload(&mut self, shown: &Certificate, world: &World) -> anyhow::Result<bool> {
        let content = self.files.read()?;
        if content == self.content {
            return Ok(false);
        }
        let names = self.files.names(&content, world)?;
        shown.replace(&content.0, &content.1).map_err(|error| self.files.refused(error))?;
        (self.names, self.content) = (names, content);
        Ok(true)
    }
}

impl Files {
    fn read(&self) -> anyhow::Result<(String, String)> {
        Ok((read(CERTIFICATE, &self.certificate)?, read(KEY, &self.key)?))
    }

    fn names(&self, content: &(String, String), world: &World) -> anyhow::Result<ServingCertificate> {
        let attempt = || format!("{CERTIFICATE}: {}", shown(&self.certificate));
        let names = ServingCertificate::from_pem(&content.0).with_context(attempt)?;
        valid(&names, world.now()).with_context(attempt)?;
        Ok(names)
    }

    fn refused(&self, error: TlsError) -> anyhow::Error {
        match error {
            TlsError::Key(_) => anyhow::Error::new(error).context(format!("{KEY}: {}", shown(&self.key))),
            error if error.is_other_key() => anyhow::anyhow!(
                "{KEY}: the key in {} does not belong to the certificate in {}; give the key it was issued for",
                shown(&self.key),
                shown(&self.certificate)
            ),
            error => anyhow::Error::new(error).context(format!("{CERTIFICATE}: {}", shown(&self.certificate))),
        }
    }
}

fn shown(path: &Path) -> std::path::Display<'_> {
    path.display()
}

fn read(flag: &str, path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("{flag}: cannot read {}", shown(path)))
}

fn valid(own: &ServingCertificate, now: jiff::Timestamp) -> anyhow::Result<()> {
    let at =
        |seconds: i64| jiff::Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |at| at.to_string());
    let seconds = now.as_second();
    if seconds > own.not_after {
        bail!("the certificate expired at {}; renew it", at(own.not_after));
    }
    if seconds < own.not_before {
        bail!("the certificate is not valid before {}; check the clock of this machine", at(own.not_before));
    }
    if own.names().is_empty() {
        bail!("the certificate has no subjectAltName, so no client accepts it; have it issued with the server's names");
    }
    Ok(())
}
