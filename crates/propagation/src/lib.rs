//! Matching, binding, overriding, rendering and aggregating, as pure functions.
//!
//! Functions take data and return data: the objects to write, not the writing. None reads a clock; the time is an
//! argument, and so is a function of it.
#![warn(missing_docs, clippy::missing_errors_doc)]

pub mod aggregation;
pub mod binding;
pub mod claim;
pub mod cluster;
pub mod cluster_status;
pub mod compare;
pub mod contest;
pub mod deletion;
pub mod dependencies;
pub mod division;
pub mod failover;
pub mod identity;
pub mod namespaces;
pub mod overrides;
pub mod quotas;
pub mod readiness;
pub mod rebalance;
pub mod remedies;
pub mod replica_sync;
pub mod resource_summary;
pub mod resume;
pub mod retain;
pub mod selection;
pub mod server_side;
pub mod status;
pub mod taints;
pub mod template;
pub mod works;

use jiff::{SignedDuration, Timestamp};
pub use karmada_api::manifest as prune;

/// The time that has passed since a stamp, when a decision is made; negative for a stamp of the future. A difference of
/// two times is wrong after the clock was set, and no workload may move because of that.
pub type Since<'a> = &'a (dyn Fn(Timestamp) -> SignedDuration + Sync);
