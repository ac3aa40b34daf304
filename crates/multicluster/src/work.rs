//! Works with one EndpointSlice.

use apimachinery::hash::{fnv1a32, safe_encode};
use karmada_api::constants::labels;
use karmada_api::manifest::{prune_for_work, record_managed};
use karmada_api::names;
use karmada_api::raw::RawJson;
use karmada_api::work::v1alpha1::{Work, WorkloadTemplate};
use serde_json::Value;

pub(crate) const SLICE: &str = "EndpointSlice";

/// The manifest of a Work.
///
/// # Errors
/// The Work has no manifest, or one that is no JSON.
pub fn manifest(work: &Work) -> Result<Value, serde_json::Error> {
    work.spec.workload.manifests.first().map_or(Ok(Value::Null), RawJson::to_value)
}

/// The name of the EndpointSlice in a Work.
pub fn slice_name(work: &Work) -> Option<String> {
    let manifest = manifest(work).ok()?;
    let name = manifest["metadata"]["name"].as_str().filter(|name| !name.is_empty())?;
    (manifest["kind"] == SLICE).then(|| name.to_owned())
}

/// Puts a manifest into a Work in the form that the admission of Works stores.
pub(crate) fn put(work: &mut Work, mut object: Value) {
    prune_for_work(&mut object);
    let id = work.metadata.labels.get(labels::WORK_ID).map_or("", String::as_str);
    record_managed(&mut object, id);
    work.spec.workload = WorkloadTemplate { manifests: vec![RawJson::from_value(&object)] };
}

/// The name of the Work for a slice.
pub(crate) fn name(slice: &str, namespace: &str) -> String {
    names::work_name(SLICE, slice, namespace)
}

/// An alternative to the name `plain`, for an object of `cluster` if another cluster's object has that name.
pub(crate) fn apart(plain: &str, cluster: &str, slice: &str) -> String {
    format!("{plain}-{}", safe_encode(fnv1a32(format!("{cluster}/{slice}").as_bytes())))
}

/// A label of a tree.
pub(crate) fn label<'v>(object: &'v Value, key: &str) -> &'v str {
    object["metadata"]["labels"][key].as_str().unwrap_or_default()
}

/// The name of a tree.
pub(crate) fn object_name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
