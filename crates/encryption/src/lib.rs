//! Encryption of stored values as pure functions: the `EncryptionConfiguration`, its providers, and kube-apiserver's
//! format of encrypted values.
//!
//! Randomness is an input, and so are the seeds of a key management service: a value whose seed is not available is
//! reported as [`OpenError::NeedsSeed`]. Source: the page "Encrypting Confidential Data at Rest" of the Kubernetes
//! documentation, and the KMS v2 protocol of `k8s.io/kms`.
#![warn(missing_docs, clippy::missing_errors_doc)]

mod config;
mod envelope;
mod keyed;
mod kms;
mod providers;
mod resources;
mod secretbox;

pub use config::{Configuration, ConfigurationError};
pub use envelope::{Envelope, EnvelopeError, Seed};
pub use kms::Kms;
pub use providers::{OpenError, Opened, Providers, SealError, Seeds};

/// Fills a buffer with unpredictable bytes.
pub trait Random {
    /// # Errors
    /// When the system has no randomness.
    fn fill(&self, buffer: &mut [u8]) -> Result<(), NoRandomness>;
}

/// The system has no randomness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system returned no random bytes")]
pub struct NoRandomness;
