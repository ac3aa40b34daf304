//! A Kubernetes API server as one `tower::Service`. It knows Kubernetes, not Karmada.
#![warn(missing_docs, clippy::missing_errors_doc)]

pub mod admission;
pub mod audit;
pub mod authn;
pub mod authz;
pub mod bootstrap_flow;
pub mod bootstrap_objects;
pub mod bootstrap_policy;
pub mod budget;
pub mod cache;
pub mod crds;
pub mod discovery;
pub mod documents;
mod errors;
pub mod fairness;
mod finish;
mod handlers;
pub mod health;
pub mod keys;
mod kinds;
mod leases;
pub mod metrics;
mod negotiate;
pub mod openapi;
pub mod plugins;
pub mod priority;
pub mod registry;
pub mod request;
mod request_log;
pub mod respond;
pub mod reviews;
pub mod routes;
mod rows;
pub mod serve;
pub mod server;
pub mod services;
mod shape;
pub mod snapshot;
mod splice;
pub mod tokens;
pub mod version;

pub use admission::{Admission, AdmissionRequest, Change, JointWrite, Operation};
pub use handlers::method_not_allowed;
pub use request::RequestInfo;
pub use server::{ApiServer, Authorization, Route, ServerConfig, Shared, StartError};
