//! The metrics APIs over member clusters, as upstream's karmada-metrics-adapter serves them: [`MetricsApi`] is a route
//! of an API server.
//!
//! A request becomes concurrent requests to the members, each within a time limit; `fleet_metrics` merges the
//! responses. Members that do not respond are named in `Warning` headers. Of the members' data, only the names of
//! metrics are cached.
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
