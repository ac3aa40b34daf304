//! Certificates, keys and tokens: the control plane's own authority, its certificates and kubeconfigs, service account
//! tokens, and the holders of client certificates.
//!
//! Times and serial numbers are from [`world::World`]; private keys are generated only by the cryptographic library.
//! The crate opens no connections and uses no API objects.

pub mod authority;
pub mod bootstrap;
pub mod directory;
pub mod files;
mod generations;
pub mod holder;
pub mod kubeconfig;
pub mod request;
pub mod rotation;
pub mod serving;
mod subject;
pub mod token;

pub use authority::{Authority, KeyPairPem, ServerNames};
pub use directory::Directory;
pub use holder::Holder;
pub use kubeconfig::Kubeconfig;
pub use serving::ServingCertificate;
pub use token::{Claims, Signer, Signers, Verifier};

/// The failed operation; the cause is the source.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot generate a private key")]
    GenerateKey(#[source] rcgen::Error),
    #[error("cannot generate random numbers")]
    Random,
    #[error("cannot read the private key")]
    ParseKey(#[source] rcgen::Error),
    #[error("cannot read the certificate of the authority")]
    ParseAuthority(#[source] rcgen::Error),
    #[error("cannot issue a certificate for {subject:?}")]
    Issue { subject: String, source: rcgen::Error },
    #[error("cannot sign with the private key")]
    Sign(#[source] rcgen::Error),
    #[error("{0:?} is not a valid name in a certificate")]
    ServerName(String),
    #[error("cannot parse the certificate: {0}")]
    ParseCertificate(String),
    #[error("cannot read the certificate signing request")]
    ParseRequest(#[source] rcgen::Error),
    #[error("cannot {attempt} {path}")]
    File { attempt: &'static str, path: String, source: std::io::Error },
    #[error("{present} exists but {missing} does not: restore it, or remove both to create new ones")]
    HalfAPair { present: String, missing: String },
    #[error("{certificate} cannot be used with {key}")]
    Authority { certificate: String, key: String, source: Box<Self> },
    #[error("the private key is of another certificate: restore the files of one authority")]
    KeyMismatch,
    #[error(
        "the certificate is not an authority's: its basic constraints (CA:TRUE) or its key usage (keyCertSign) do not \
         permit it to sign certificates, and clients verify none that it signs"
    )]
    NotAnAuthority,
    #[error("{path} cannot be used: remove it, and the server issues a new one")]
    Issued { path: String, source: Box<Self> },
    #[error(
        "{path} cannot be used: restore it from a backup, or remove it, which makes the tokens of this key invalid"
    )]
    Token { path: String, source: Box<Self> },
    #[error("the directory of keys has no authority that is valid now: check the clock of this machine")]
    NoAuthority,
    #[error(
        "certificates are due again right after they were issued: check the authorities and the clock of this machine"
    )]
    Unsettled,
    #[error("the key's algorithm is not one that signs tokens (RSA, P-256 or P-384)")]
    TokenAlgorithm,
    #[error("cannot read the token key")]
    TokenKey(#[source] jsonwebtoken::errors::Error),
    #[error("cannot sign a token")]
    SignToken(#[source] jsonwebtoken::errors::Error),
    #[error("cannot encode a kubeconfig: {0}")]
    Kubeconfig(String),
}
