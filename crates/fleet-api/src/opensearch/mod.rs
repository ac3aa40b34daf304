//! The OpenSearch backend of ResourceRegistries: the selected objects of members as documents in indexes.
//!
//! A registry with `spec.backendStore.openSearch` has its objects written to that service, one document for each
//! object, with the object's UID as its id. [`following`] computes from registries and Clusters which resources of which
//! members belong to which service, and subscribes to the caches of these members. [`writer`] is the task of one
//! service: it sends changes in batches. Changes wait in [`pending`], which records only that an object has changed;
//! the writer reads the newest state from the cache. So neither caches nor requests ever wait for OpenSearch.
//!
//! After a start, a new connection to a member or an overflow, [`compare`] compares the documents of a member with its
//! cache. A document is deleted only if a complete cache lacks its object. Documents of objects that are no longer
//! selected stay in the index.
//!
//! Not here: reads. Users query OpenSearch directly, as with upstream.

mod access;
mod bulk;
mod compare;
mod document;
mod following;
mod pending;
mod report;
mod service;
mod source;
#[cfg(test)]
mod tests;
mod wanted;
mod writer;

use apiserver::Shared;
use client::Client;
use controllers::Members;
use metrics::Description;
use tokio_util::sync::CancellationToken;
use world::World;

use following::Following;
use report::Reports;

/// Where registries, Secrets and members are read.
pub struct Context {
    /// The server that stores ResourceRegistries.
    registries: Client,
    /// The control plane: discovery, Secrets and Events.
    control: Client,
    members: Members,
    world: World,
    metrics: metrics::Registry,
}

/// Documents by outcome.
pub const DOCUMENTS: Description = Description::counter(
    "karmada_search_opensearch_documents_total",
    &["result"],
    "Documents sent to OpenSearch by result: written, deleted, rejected.",
);
/// Failed requests.
pub const FAILURES: Description = Description::counter(
    "karmada_search_opensearch_failed_requests_total",
    &[],
    "Requests to OpenSearch that failed and are retried.",
);
/// Changes that wait.
pub const PENDING: Description = Description::gauge(
    "karmada_search_opensearch_pending_objects",
    &[],
    "Changed objects of members that wait to be sent to OpenSearch.",
);
/// All metrics of this module.
pub const ALL: &[Description] = &[DOCUMENTS, FAILURES, PENDING];

impl Context {
    /// `server` is that of the process: it has the clock, and counts documents and failures.
    pub fn new(registries: Client, control: Client, members: &Members, server: &Shared) -> Self {
        let (world, metrics) = (server.world.clone(), server.metrics.clone());
        Self { registries, control, members: members.clone(), world, metrics }
    }

    /// Writes to OpenSearch what ResourceRegistries select, until `stop`. Must be called inside a tokio runtime.
    pub fn start(self, stop: CancellationToken) {
        let reports = Reports::start(self.control.clone(), self.world.clone(), &self.metrics, &stop);
        let following = Following::new(self, reports, stop.clone());
        tokio::spawn(async move { stop.run_until_cancelled(following.run()).await });
    }
}
