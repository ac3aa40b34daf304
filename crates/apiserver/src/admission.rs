//! Admission: what may still be said about a write after authorization. In-process plugins run in the order of their
//! registration, first all mutations, then, on the final object, all validations.

use std::sync::Arc;

use apimachinery::meta::Time;
use apimachinery::resource::ResourceInfo;
use apimachinery::{ObjectKey, Status};
use futures::future::BoxFuture;
use kubernetes_api::services::Ranges;
use serde_json::Value;
use transport::Identity;

use crate::cache::Event;
use crate::priority::Priorities;
use crate::services::ServiceAddresses;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

/// The plugins every Kubernetes API server has on. They belong to one server.
pub fn built_in(services: Ranges) -> Vec<Arc<dyn Admission>> {
    vec![Arc::new(Priorities::default()), Arc::new(ServiceAddresses::new(services))]
}

/// One write on its way to the store.
#[derive(Debug)]
pub struct AdmissionRequest<'a> {
    pub operation: Operation,
    pub info: &'a ResourceInfo,
    pub key: &'a ObjectKey,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// The stored object; `None` on create.
    pub old: Option<&'a Value>,
    /// The object to be stored; `None` on delete.
    pub object: Option<&'a mut Value>,
    pub user: &'a Identity,
    pub dry_run: bool,
    pub now: Time,
}

pub trait Admission: Send + Sync + 'static {
    /// May change the object.
    fn mutate<'a>(&'a self, _request: &'a mut AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Told of every change in the store, in order, before readers see it; at the start, of all there is.
    fn observe(&self, _place: &str, _event: &Event) {}

    /// May only refuse.
    fn validate<'a>(&'a self, _request: &'a AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
