//! Estimators of available replicas in a member, over gRPC. Wire-compatible with upstream's estimators in both
//! directions.
//!
//! `scheduling::accurate` computes the estimates; this crate has the messages, the transport, and the member's state.
//! gRPC is tonic's, over the existing HTTP/2 and TLS libraries.

mod address;
mod breaker;
mod client;
mod convert;
mod estimators;
mod member;
pub mod metrics;
mod server;
mod tls;
pub mod wire;

pub use address::{ServiceError, addresses};
pub use breaker::Breaker;
pub use client::{Answer, Connections, Query, Settings, Target};
pub use estimators::{Estimators, LocalMembers};
pub use member::MemberEstimator;
pub use server::{Estimate, serve};
pub use tls::{ClientTls, ServerTls, TlsError};
