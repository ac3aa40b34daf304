//! Services across clusters: ServiceExport, ServiceImport and MultiClusterService. The crate `multicluster` decides.
//!
//! [`collect`] reports EndpointSlices of members as Works, in the control plane or in the agent. [`imported`] makes
//! slices of the control plane from them, and [`imports`] derived Services; the dependencies distributor carries both.
//! [`multi_cluster`] claims the Service of a MultiClusterService, and [`dispatch`] copies the Works to its consumers.

mod clusters;
mod collect;
mod dispatch;
mod follow;
mod imported;
mod imports;
mod multi_cluster;
mod slice_works;
mod status;

use apimachinery::ApiResource;

pub(crate) use collect::{run_collection, run_exports};
pub(crate) use dispatch::run as run_dispatch;
pub(crate) use imported::run as run_imported_slices;
pub(crate) use imports::run as run_imports;
pub(crate) use multi_cluster::run as run_multi_cluster;

use crate::error::{Error, Result, all};

/// Concurrent passes of each controller here.
const WORKERS: usize = 16;

fn slices() -> ApiResource {
    ApiResource::namespaced("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
}

fn services() -> ApiResource {
    ApiResource::namespaced("", "v1", "Service", "services")
}

/// `Ok` without errors. A conflict because of an outdated state is returned as such: the next pass decides again.
fn together(errors: Vec<Error>) -> Result<()> {
    let mut texts = Vec::new();
    for error in errors {
        if is_outdated(&error) {
            return Err(error);
        }
        texts.push(error.to_string());
    }
    all(texts)
}

/// Whether the server has another state than the write was decided about.
fn is_outdated(error: &Error) -> bool {
    let exists = matches!(error, Error::Api { source, .. } if source.is_already_exists());
    exists || error.is_conflict()
}
