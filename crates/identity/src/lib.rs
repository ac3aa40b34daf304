//! Users and rights that other programs decide on, and the encryption of stored values.
//!
//! The decisions are those of the pure crates `authentication` and `encryption` and of
//! [`authorization::Configuration`]; here are the calls: key sets of issuers, reviews by webhooks, seeds of key
//! management services. A slow or broken program delays or fails the requests that need it, and no others.
#![warn(missing_docs, clippy::missing_errors_doc)]

pub mod authorization;
mod authorizer;
mod decided;
pub mod encrypted;
mod fetch;
pub mod issuers;
mod kms;
mod methods;
mod reviews;
mod webhook_tokens;

pub use authorizer::{Chain, Entry};
pub use encrypted::{EncryptedStore, Encryption};
pub use issuers::Issuers;
pub use methods::Methods;
pub use reviews::{Reviewer, Version};
pub use webhook_tokens::{WebhookTokens, reviewed_user};
