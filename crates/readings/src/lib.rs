//! Scales, pods and metrics of member clusters, read for the decisions of [`autoscaling`].
//!
//! [`Direct`] requests them from the members' API servers: first the scale of the workload, then its pods and the
//! metrics concurrently. [`served`] reads the metrics APIs, also for `metrics-adapter`. Members are read concurrently,
//! each within a time limit; a member that does not respond is a separate error.
#![warn(missing_docs, clippy::missing_errors_doc)]

mod bounds;
mod direct;
mod paths;
pub mod served;

use apimachinery::{ApiResource, ObjectKey};
use autoscaling::reading::Member;
use autoscaling::spec::Spec;
use futures::future::BoxFuture;

pub use bounds::Bounds;
pub use direct::{Connect, Direct, Kinds, scale};

/// The request of a reading.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The resource of the workload.
    pub resource: &'a ApiResource,
    /// The workload.
    pub key: &'a ObjectKey,
    /// The members, in the order of the answers.
    pub clusters: &'a [String],
    /// The metrics.
    pub spec: &'a Spec,
}

/// A source of readings: the members themselves, or an adapter with direct access.
pub trait Readings: Send + Sync {
    /// Reads a workload in its members. The answer has one entry for each of them.
    fn read<'a>(&'a self, request: Request<'a>) -> BoxFuture<'a, Vec<Member>>;
}
