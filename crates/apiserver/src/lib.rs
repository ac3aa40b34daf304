//! A Kubernetes API server as one `tower::Service`. It knows Kubernetes, not Karmada.

pub mod admission;
pub mod authn;
pub mod authz;
pub mod bootstrap_objects;
pub mod bootstrap_policy;
pub mod cache;
mod certificates;
pub mod crds;
pub mod discovery;
pub mod documents;
mod errors;
mod finish;
mod handlers;
pub mod health;
pub mod keys;
mod leases;
mod namespaces;
mod negotiate;
pub mod openapi;
pub mod plugins;
pub mod priority;
pub mod registry;
pub mod request;
pub mod respond;
pub mod reviews;
pub mod routes;
pub mod serve;
pub mod server;
pub mod services;
mod shape;
mod splice;
pub mod tokens;
pub mod version;

pub use admission::{Admission, AdmissionRequest, Operation};
pub use request::RequestInfo;
pub use server::{ApiServer, Authorization, Route, ServerConfig, Shared, StartError};
