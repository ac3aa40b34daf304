//! OpenID Connect as pure functions: the `AuthenticationConfiguration`, the signature and the claims of a token, and
//! the user that the claims map to.
//!
//! The crate never fetches: the discovery document and the key set of an issuer are inputs ([`Discovery::parse`],
//! [`KeySet::parse`]), and so is the time. Sources: OpenID Connect Core and Discovery 1.0, RFC 7515 to 7519, and the
//! page "Authenticating" of the Kubernetes documentation.
#![warn(missing_docs, clippy::missing_errors_doc)]

mod config;
mod discovery;
mod document;
mod expressions;
mod flags;
mod issuer;
mod jwks;
mod token;
mod validation;

pub use config::{Configuration, ConfigurationError};
pub use discovery::{Discovery, DiscoveryError};
pub use document::{Anonymous, Condition};
pub use flags::Flags;
pub use issuer::{Issuer, Refusal, User};
pub use jwks::{Algorithm, KeySet, KeySetError};
pub use token::{Token, TokenError};
