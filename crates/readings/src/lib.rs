//! Scales, pods and metrics of member clusters, read for the decisions of [`autoscaling`].
//!
//! [`Direct`] requests them from the members' API servers: the scale of the workload first, then its pods and the metrics
//! at once. [`served`] has the reads of the metrics APIs, which `metrics-adapter` uses too. Members are read beside each other, each within a time limit; one that does not answer is an error of its own.
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

/// What is read.
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

/// A source of readings: the members themselves, or an adapter that has them at hand.
pub trait Readings: Send + Sync {
    /// Reads a workload in its members. The answer has one entry for each of them.
    fn read<'a>(&'a self, request: Request<'a>) -> BoxFuture<'a, Vec<Member>>;
}
