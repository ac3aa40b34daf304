//! Authentication of requests, and authorization of their users.

pub mod authn;
pub mod authz;
pub mod reviews;
pub mod tokens;
