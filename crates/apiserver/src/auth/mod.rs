//! Authentication of requests, and authorization of their users.

pub mod authn;
pub mod authz;
mod review_validation;
pub mod reviews;
pub mod tokens;
