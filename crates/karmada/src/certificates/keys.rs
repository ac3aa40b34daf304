//! The parts of a server that verify and sign. Each adopts new keys while it is in use.

use std::sync::Arc;

use ::apiserver::authn::ClientAuthority;
use anyhow::Context as _;
use pki::{Authority, Directory, Signer, Signers, Verifier};
use world::Level;

/// Cheap to clone; clones share the parts.
#[derive(Clone)]
pub struct Keys {
    pub client_authority: ClientAuthority,
    /// Of service account tokens.
    pub verifier: Arc<Verifier>,
    pub signer: Arc<Signers>,
    /// The authorities that clients verify servers with, in PEM.
    pub root_ca: Arc<Level<Arc<str>>>,
    /// Of certificate signing requests.
    pub signing_authority: Arc<Level<Arc<Authority>>>,
}

impl Keys {
    /// # Errors
    /// A key or certificate that cannot be read.
    pub fn new(pki: &Directory, trust: &str) -> anyhow::Result<Self> {
        Ok(Self {
            client_authority: ClientAuthority::from_pem(&pki.trusted).context("reading the client authority")?,
            verifier: Arc::new(Verifier::from_pems(token_keys(pki)).context("reading the service account keys")?),
            signer: Arc::new(Signers::new(signer(pki)?)),
            root_ca: Arc::new(Level::new(trust.into())),
            signing_authority: Arc::new(Level::new(Arc::clone(&pki.authority))),
        })
    }

    /// Replaces the keys: those that verify before those that sign.
    ///
    /// # Errors
    /// A key or certificate that cannot be read; earlier parts have been replaced.
    pub fn take(&self, pki: &Directory, trust: &str) -> anyhow::Result<()> {
        self.client_authority.replace(&pki.trusted).context("reading the client authority")?;
        self.verifier.replace(token_keys(pki)).context("reading the service account keys")?;
        self.signer.replace(signer(pki)?);
        if &*self.root_ca.get() != trust {
            self.root_ca.set(trust.into());
        }
        self.signing_authority.set(Arc::clone(&pki.authority));
        Ok(())
    }
}

fn token_keys(pki: &Directory) -> impl Iterator<Item = &str> {
    std::iter::once(&pki.service_account_key).chain(&pki.earlier_service_account_keys).map(String::as_str)
}

fn signer(pki: &Directory) -> anyhow::Result<Signer> {
    Signer::from_pem(&pki.service_account_key).context("reading the service account key")
}
