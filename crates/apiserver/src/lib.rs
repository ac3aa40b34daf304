//! A Kubernetes API server as one `tower::Service`, independent of Karmada.
#![warn(missing_docs, clippy::missing_errors_doc)]

pub mod admit;
pub mod audit;
pub mod auth;
pub mod bootstrap;
pub mod cache;
mod commit;
pub mod conversion;
pub mod crds;
pub mod documents;
mod errors;
pub mod flow;
pub mod forwarding;
mod handlers;
pub mod health;
mod kinds;
pub mod limits;
pub mod metrics;
pub mod registry;
pub mod request;
pub mod routes;
pub mod serve;
pub mod server;
pub mod state;
mod wire;
pub mod zpages;

pub use admit::{Admission, AdmissionRequest, Change, Creates, JointWrite, Operation};
pub use errors::method_not_allowed;
pub use request::RequestInfo;
pub use request::peer::Peer;
pub use server::{ApiServer, Authorization, ServerConfig, StartError};
pub use state::{Route, Shared};
pub use wire::{respond, warnings};
