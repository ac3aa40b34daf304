//! Keys and issuers of service account tokens that the operator brings: `--service-account-key-file`,
//! `--service-account-signing-key-file` and `--service-account-issuer`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;

/// `iss` and audience of service account tokens, kube-apiserver's default inside a cluster.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccounts {
    /// Keys in PEM, public or private, several to a file. Tokens of each are valid, besides those of the data
    /// directory's keys.
    pub key_files: Vec<PathBuf>,
    /// The private key that signs, instead of the data directory's.
    pub signing_key_file: Option<PathBuf>,
    /// The first is that of new tokens; all are accepted, and all are audiences of the server.
    pub issuers: Vec<String>,
    /// Tokens that are requested as by kubelets are valid for a year.
    pub extend: bool,
    /// Longer lifetimes are shortened to this.
    pub longest: Option<Duration>,
    /// Where others find the keys, if not at the issuer.
    pub jwks_uri: Option<String>,
}

impl Default for ServiceAccounts {
    fn default() -> Self {
        Self {
            key_files: Vec::new(),
            signing_key_file: None,
            issuers: vec![ISSUER.to_owned()],
            extend: true,
            longest: None,
            jwks_uri: None,
        }
    }
}

/// The keys in the files, in PEM.
#[derive(Debug, Default)]
pub struct FileKeys {
    pub verifying: Vec<String>,
    pub signing: Option<String>,
}

impl ServiceAccounts {
    /// # Errors
    /// An issuer that kube-apiserver refuses.
    pub fn check(&self) -> anyhow::Result<()> {
        for issuer in &self.issuers {
            anyhow::ensure!(!issuer.is_empty(), "--service-account-issuer must not be empty");
            let is_url = issuer.split_once("://").is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty());
            anyhow::ensure!(
                is_url || !issuer.contains(':'),
                "--service-account-issuer {issuer:?} contains a ':' but is not a valid URL"
            );
        }
        let range = Duration::from_secs(3600)..=Duration::from_secs(1 << 32);
        if let Some(longest) = self.longest {
            anyhow::ensure!(
                range.contains(&longest),
                "--service-account-max-token-expiration must be between 1 hour and 2^32 seconds"
            );
        }
        if let Some(uri) = &self.jwks_uri {
            anyhow::ensure!(
                uri.starts_with("https://"),
                "--service-account-jwks-uri requires https scheme, parsed as: {uri}"
            );
        }
        Ok(())
    }

    /// Reads the files.
    ///
    /// # Errors
    /// A file that cannot be read or has no key.
    pub fn keys(&self) -> anyhow::Result<FileKeys> {
        let mut keys = FileKeys::default();
        for file in &self.key_files {
            keys.verifying.extend(read("--service-account-key-file", file)?);
        }
        if let Some(file) = &self.signing_key_file {
            let found = read("--service-account-signing-key-file", file)?;
            keys.signing = found.into_iter().find(|key| key.contains("PRIVATE KEY"));
            anyhow::ensure!(
                keys.signing.is_some(),
                "--service-account-signing-key-file: {} has no private key",
                file.display()
            );
        }
        Ok(keys)
    }

    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.key_files.iter().chain(&self.signing_key_file)
    }
}

fn read(flag: &str, file: &Path) -> anyhow::Result<Vec<String>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("{flag}: reading {}", file.display()))?;
    let keys = keys_of(&text);
    anyhow::ensure!(!keys.is_empty(), "{flag}: {} has no key in PEM", file.display());
    Ok(keys)
}

/// Splits a bundle into PEM keys. `EC PARAMETERS`, which openssl writes before a key, is skipped.
fn keys_of(text: &str) -> Vec<String> {
    const BEGIN: &str = "-----BEGIN ";
    let blocks = text.split(BEGIN).skip(1);
    let keys = blocks.filter(|block| block.split_once("-----").is_some_and(|(label, _)| label.ends_with(" KEY")));
    keys.map(|block| format!("{BEGIN}{}\n", block.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_bundle() {
        let bundle = "# mine\n-----BEGIN EC PARAMETERS-----\na\n-----END EC PARAMETERS-----\n\
                      -----BEGIN EC PRIVATE KEY-----\nb\n-----END EC PRIVATE KEY-----\n\
                      -----BEGIN PUBLIC KEY-----\nc\n-----END PUBLIC KEY-----\n";
        let expected = [
            "-----BEGIN EC PRIVATE KEY-----\nb\n-----END EC PRIVATE KEY-----\n",
            "-----BEGIN PUBLIC KEY-----\nc\n-----END PUBLIC KEY-----\n",
        ];
        assert_eq!(keys_of(bundle), expected);
        assert!(keys_of("no key").is_empty());
    }

    #[test]
    fn issuers_and_files_are_checked() {
        let of = |issuer: &str| ServiceAccounts { issuers: vec![issuer.to_owned()], ..Default::default() }.check();
        assert!(of("https://issuer.example.com").is_ok() && of("issuer").is_ok());
        for wrong in ["", "https:", "a:b", "://x"] {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("public.pem");
        std::fs::write(&file, "-----BEGIN PUBLIC KEY-----\nc\n-----END PUBLIC KEY-----\n").expect("written");
        let signing = |file: PathBuf| ServiceAccounts { signing_key_file: Some(file), ..Default::default() }.keys();
        let error = signing(file).expect_err("a public key").to_string();
        assert!(error.ends_with("public.pem has no private key"), "{error}");
        let error = format!("{:#}", signing(directory.path().join("none")).expect_err("no file"));
        assert!(error.starts_with("--service-account-signing-key-file: reading "), "{error}");
    }
}
