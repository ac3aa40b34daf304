//! The metrics APIs over member clusters, as upstream's karmada-metrics-adapter serves them: [`MetricsApi`] is a route of an API
//! server.
//!
//! A request becomes requests to the members, beside each other and each within a time limit; `fleet_metrics` merges the responses.
//! Members that do not answer are named in `Warning` headers. Nothing of members is cached but the names of their metrics.
#![warn(missing_docs, clippy::missing_errors_doc)]

mod api;
mod fleet;
mod listing;
mod published;
mod reads;

pub use api::MetricsApi;
pub use fleet::{Fleet, Target};
pub use listing::Names;
pub use published::{group_versions, published, with_metrics};
