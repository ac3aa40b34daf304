//! The metrics APIs of Kubernetes over member clusters: `metrics.k8s.io`, `custom.metrics.k8s.io` and
//! `external.metrics.k8s.io`. Requests become requests to members, responses of members one response. Everything is
//! data: the crate `metrics-adapter` sends the requests.
#![warn(missing_docs, clippy::missing_errors_doc)]

pub mod custom;
pub mod discovery;
pub mod external;
pub mod groups;
pub mod missing;
pub mod narrowed;
pub mod openapi;
pub mod resource;
pub mod table;
