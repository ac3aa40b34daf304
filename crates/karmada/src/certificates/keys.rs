//! The parts of a server that verify and sign. Each adopts new keys while it is in use.

use std::sync::Arc;

use ::apiserver::auth::authn::ClientAuthority;
use anyhow::Context as _;
use pki::{Authority, Directory, Signer, Signers, Verifier};
use world::Level;

use crate::service_accounts::{FileKeys, ServiceAccounts};

/// Cheap to clone; clones share the parts.
#[derive(Clone)]
pub struct Keys {
    pub client_authority: ClientAuthority,
    /// Verifies service account tokens.
    pub verifier: Arc<Verifier>,
    pub signer: Arc<Signers>,
    /// The authorities that clients verify servers with, in PEM.
    pub root_ca: Arc<Level<Arc<str>>>,
    /// Signs certificate signing requests.
    pub signing_authority: Arc<Level<Arc<Authority>>>,
    /// Signs the certificate that this server presents to aggregated API servers.
    pub front_proxy: Arc<Level<Arc<Authority>>>,
    /// The operator's keys and issuers of service account tokens.
    pub tokens: Arc<ServiceAccounts>,
}

impl Keys {
    /// # Errors
    /// A key or certificate that cannot be read.
    pub fn new(pki: &Directory, trust: &str, clients: &str, tokens: ServiceAccounts) -> anyhow::Result<Self> {
        tokens.check()?;
        let files = tokens.keys()?;
        Ok(Self {
            client_authority: ClientAuthority::from_pem(clients).context("reading the client authority")?,
            verifier: Arc::new(
                Verifier::from_pems(token_keys(pki, &files)).context("reading the service account keys")?,
            ),
            signer: Arc::new(Signers::new(signer(pki, &files)?)),
            root_ca: Arc::new(Level::new(trust.into())),
            signing_authority: Arc::new(Level::new(Arc::clone(&pki.authority))),
            front_proxy: Arc::new(Level::new(Arc::clone(&pki.front_proxy_authority))),
            tokens: Arc::new(tokens),
        })
    }

    /// Replaces the keys: those that verify before those that sign.
    ///
    /// # Errors
    /// A key or certificate that cannot be read; earlier parts have been replaced.
    pub fn take(&self, pki: &Directory, trust: &str, clients: &str) -> anyhow::Result<()> {
        self.client_authority.replace(clients).context("reading the client authority")?;
        if &*self.root_ca.get() != trust {
            self.root_ca.set(trust.into());
        }
        self.signing_authority.set(Arc::clone(&pki.authority));
        self.front_proxy.set(Arc::clone(&pki.front_proxy_authority));
        // This is last, so that an unreadable file of the operator does not prevent the renewal of certificates.
        let files = self.tokens.keys()?;
        self.verifier.replace(token_keys(pki, &files)).context("reading the service account keys")?;
        self.signer.replace(signer(pki, &files)?);
        Ok(())
    }
}

/// The signing key is first in the published set.
fn token_keys<'a>(pki: &'a Directory, files: &'a FileKeys) -> impl Iterator<Item = &'a str> {
    let own = std::iter::once(&pki.service_account_key).chain(&pki.earlier_service_account_keys);
    files.signing.iter().chain(&files.verifying).chain(own).map(String::as_str)
}

fn signer(pki: &Directory, files: &FileKeys) -> anyhow::Result<Signer> {
    let key = files.signing.as_ref().unwrap_or(&pki.service_account_key);
    Signer::from_pem(key).context("reading the service account key")
}
