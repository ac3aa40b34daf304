//! A Kubernetes API server as one `tower::Service`. It knows Kubernetes, not Karmada.

pub mod authn;
pub mod authz;
pub mod serve;
