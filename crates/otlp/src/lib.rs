//! Exports finished spans to a collector over OTLP (gRPC without TLS, as kube-apiserver): in batches, from a bounded
//! queue, in the background. If the collector is unavailable, slow or refuses spans, spans are lost, but requests are
//! not affected.
//!
//! The file of `--tracing-config-file` is [`Configuration`]; [`wire`] has the messages.

#![warn(missing_docs)]

mod config;
mod connection;
mod exporter;
pub mod wire;

pub use config::{Configuration, Endpoint};
pub use exporter::{ALL, Exporter, Limits, Queue, Source, start};
