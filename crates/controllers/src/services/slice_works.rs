//! Works with EndpointSlices: found by their Service, and written.

use std::sync::Arc;

use apimachinery::{Object, ObjectKey};
use client::DeleteOptions;
use controller_runtime::Next;
use karmada_api::ApiType;
use karmada_api::constants::{annotations, finalizers, labels};
use karmada_api::work::v1alpha1::Work;
use multicluster::collected;
use serde_json::json;

use crate::Context;
use crate::context::Part;
use crate::error::{During, Result, decoded};

/// Collected Works by `namespace/name` of their Service.
const COLLECTED: &str = "slices-collected-for";
/// Dispatched Works by `namespace/name` of their Service.
const DISPATCHED: &str = "slices-dispatched-for";

/// Adds the indexes that the functions here use.
pub(super) fn index(context: &Context) {
    let by = |of: fn(&Object) -> Option<ObjectKey>| {
        move |work: &Object| of(work).map(|service| service.to_string()).into_iter().collect()
    };
    context.works.cache().add_index(COLLECTED, by(collected_service));
    context.works.cache().add_index(DISPATCHED, by(dispatched_service));
}

/// The Service of a collected Work; also of one from which all mechanisms were taken, and which a finalizer holds.
pub(super) fn collected_service(work: &Object) -> Option<ObjectKey> {
    work.label(labels::ENDPOINT_SLICE_MANAGED_BY)?;
    collected::service_of(|label| work.label(label).map(str::to_owned))
}

/// The Service of a dispatched Work.
pub(super) fn dispatched_service(work: &Object) -> Option<ObjectKey> {
    work.annotation(annotations::PROVISION_CLUSTER)?;
    let namespace = work.label(labels::MULTI_CLUSTER_SERVICE_NAMESPACE)?;
    Some(ObjectKey::namespaced(namespace, work.label(labels::MULTI_CLUSTER_SERVICE_NAME)?))
}

/// Whether a collected Work concerns MultiClusterServices.
pub(super) fn is_of_multi_cluster(work: &Object) -> bool {
    work.label(labels::MULTI_CLUSTER_SERVICE_NAME).is_some()
        || work.finalizers().iter().any(|existing| **existing == *finalizers::MCS_ENDPOINT_SLICE_DISPATCH)
}

/// All collected Works of a Service.
pub(super) fn collected(context: &Context, service: &ObjectKey) -> Result<Vec<Work>> {
    found(context, COLLECTED, service, collected_service)
}

/// All dispatched Works of a Service.
pub(super) fn dispatched(context: &Context, service: &ObjectKey) -> Result<Vec<Work>> {
    found(context, DISPATCHED, service, dispatched_service)
}

/// An undecodable one is an error: its content is unknown.
fn found(
    context: &Context,
    index: &str,
    service: &ObjectKey,
    of: fn(&Object) -> Option<ObjectKey>,
) -> Result<Vec<Work>> {
    let cached = context.works.cache().by_index(index, &service.to_string());
    let newest = context.written_works.over(cached, |work| of(work).as_ref() == Some(service));
    newest.iter().map(|work| decoded(work.key(), Work::from_object(work))).collect()
}

/// Creates a Work. If it already exists, it has another origin, or the cache is behind: the next pass sees it.
pub(super) async fn create(context: &Context, work: &Work) -> Result<()> {
    let (resource, key) = (Work::api_resource(), work.key());
    let written = context.written_works.write(&key, context.client.create(&resource, work)).await;
    written.map(drop).during(|| format!("creating work {key}"))
}

/// Updates a Work in the version that it was read in.
pub(super) async fn update(context: &Context, work: &Work) -> Result<()> {
    let (resource, key) = (Work::api_resource(), work.key());
    let written = context.written_works.write(&key, context.client.update(&resource, work)).await;
    written.map(drop).during(|| format!("updating work {key}"))
}

/// Deletes a Work with its version as precondition: after a later change the next pass decides again.
pub(super) async fn delete(context: &Context, work: &Work) -> Result<()> {
    let (key, metadata) = (work.key(), &work.metadata);
    let options = DeleteOptions::default().only_version(&metadata.uid, &metadata.resource_version);
    match context.client.delete(&Work::api_resource(), &key, &options).await {
        Err(error) if !error.is_not_found() => Err(error).during(|| format!("deleting work {key}")),
        _ => Ok(()),
    }
}

/// Takes a finalizer off a Work.
pub(super) async fn release(context: &Context, work: &Arc<Object>, finalizer: &str) -> Result<Next> {
    let existing = work.finalizers();
    if !existing.iter().any(|it| **it == *finalizer) {
        return Ok(Next::Done);
    }
    let left: Vec<_> = existing.iter().filter(|it| ***it != *finalizer).collect();
    let change = json!({"metadata": {"finalizers": left, "resourceVersion": work.resource_version()}});
    match context.change(&Work::api_resource(), work, change, Part::Object).await {
        Err(error) if !error.is_not_found() => {
            Err(error).during(|| format!("removing the finalizer of work {}", work.key()))
        }
        _ => Ok(Next::Done),
    }
}
