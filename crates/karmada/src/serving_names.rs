//! Further serving certificates, for certain names (`--tls-sni-cert-key`).

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context as _, ensure};
use apiserver::serve::{Certificate, Named};
use pki::ServingCertificate;

const FLAG: &str = "--tls-sni-cert-key";

/// `CERTIFICATE,KEY` or `CERTIFICATE,KEY:NAME,NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Empty for the names in the certificate.
    pub names: Vec<String>,
}

impl FromStr for NamedFiles {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (files, names) = text.split_once(':').unwrap_or((text, ""));
        let files = files.split_once(',').map(|(certificate, key)| (certificate.trim(), key.trim()));
        let named = files.filter(|(certificate, key)| !certificate.is_empty() && !key.is_empty() && !key.contains(','));
        let Some((certificate, key)) = named else {
            return Err("expected CERTIFICATE,KEY or CERTIFICATE,KEY:NAME,NAME".to_owned());
        };
        let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
        Ok(Self { certificate: certificate.into(), key: key.into(), names: names.map(str::to_owned).collect() })
    }
}

impl NamedFiles {
    /// # Errors
    /// Files that cannot be read, that do not belong together, or without a name.
    fn read(&self) -> anyhow::Result<Named> {
        let text =
            |file: &PathBuf| std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()));
        let (certificate, key) = (text(&self.certificate)?, text(&self.key)?);
        let attempt = || self.certificate.display().to_string();
        let is_explicit = !self.names.is_empty();
        let names = match is_explicit {
            true => self.names.clone(),
            false => ServingCertificate::from_pem(&certificate).with_context(attempt)?.names(),
        };
        ensure!(!names.is_empty(), "{}: the certificate has no names; give them behind a colon", attempt());
        Named::new(&names, is_explicit, &certificate, &key).with_context(attempt)
    }
}

/// Reads all of them.
///
/// # Errors
/// The first that cannot be used.
pub fn read(files: &[NamedFiles]) -> anyhow::Result<Vec<Named>> {
    files.iter().map(NamedFiles::read).collect::<anyhow::Result<_>>().context(FLAG)
}

/// Presents them on new connections.
///
/// # Errors
/// As [`read`]; the current ones then stay in effect.
pub fn show(files: &[NamedFiles], shown: &Certificate) -> anyhow::Result<()> {
    if !files.is_empty() {
        shown.replace_named(read(files)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_flag() {
        for (text, expected) in [
            ("a.crt,a.key", Some(("a.crt", "a.key", ""))),
            (
                "/a.crt, /a.key:api.example.com,*.example.org",
                Some(("/a.crt", "/a.key", "api.example.com *.example.org")),
            ),
            ("a.crt,a.key:", Some(("a.crt", "a.key", ""))),
            ("a.crt", None),
            ("a.crt,", None),
            ("a.crt,b,c", None),
            ("", None),
        ] {
            let found = text.parse::<NamedFiles>().ok();
            let expected = expected.map(|(certificate, key, names)| NamedFiles {
                certificate: certificate.into(),
                key: key.into(),
                names: names.split_whitespace().map(str::to_owned).collect(),
            });
            assert_eq!(found, expected, "{text:?}");
        }
    }
}
