//! A Kubernetes API server as one `tower::Service`. It knows Kubernetes, not Karmada.

pub mod authn;
pub mod authz;
pub mod bootstrap_policy;
pub mod health;
pub mod reviews;
pub mod serve;
pub mod tokens;
pub mod version;
