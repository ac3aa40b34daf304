//! Sends finished spans to a collector over OTLP (gRPC without TLS, as kube-apiserver): in batches, from a bounded queue,
//! beside the requests. A collector that is away, slow or refuses spans costs spans, never time or memory of requests.
//!
//! The file of `--tracing-config-file` is [`Configuration`]; [`wire`] has the messages.

#![warn(missing_docs)]

mod config;
mod connection;
mod exporter;
pub mod wire;

pub use config::{Configuration, Endpoint};
pub use exporter::{ALL, Exporter, Limits, Queue, Source, start};
