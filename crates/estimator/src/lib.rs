//! How many more replicas fit a member, asked over gRPC: wire-compatible with upstream's estimators in both directions.
//!
//! What is answered is decided by `scheduling::accurate`; here are the messages, the transport, and the state of a
//! member that answers are made from. gRPC itself is tonic's, over the HTTP/2 and TLS that are there anyway.

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
pub use client::{Answer, Ask, Connections, Question, Settings};
pub use estimators::{Estimators, Near};
pub use member::MemberEstimator;
pub use server::{Estimate, serve};
pub use tls::{ClientTls, ServerTls, TlsError};
