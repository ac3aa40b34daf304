//! Who sends a request, and whether that user may.

pub mod authn;
pub mod authz;
pub mod reviews;
pub mod tokens;
