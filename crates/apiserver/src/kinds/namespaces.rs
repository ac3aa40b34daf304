//! Namespaces: new ones get a finalizer, and a controller deletes the content of a terminating one. `admit::lifecycle`
//! refuses new objects in it.

use apimachinery::object::ObjectTree as _;
use apimachinery::{ObjectKey, Status};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use transport::{Body, Response};

use crate::errors::method_not_allowed;
use crate::handlers::{Call, Kind, revert};

/// Present until the namespace is empty.
const FINALIZER: &str = "kubernetes";
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// These contain objects that the server itself needs.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

pub(super) const ROW: Kind = Kind {
    plural: "namespaces",
    default,
    prepare_create: |_, object| prepare_create(object),
    restore: |subresource, old, new, _| restore(subresource, old, new),
    may_delete,
    blocks_deletion: |object| object["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty()),
    mark_deleted,
    part: Some(finalize),
    ..Kind::ORDINARY
};

fn may_delete(key: &ObjectKey) -> Result<(), Status> {
    match IMMORTAL.contains(&key.name()) {
        true => Err(Status::forbidden("", "namespaces", key.name(), "this namespace may not be deleted")),
        false => Ok(()),
    }
}

/// A namespace waits for its content, not for a grace period.
fn mark_deleted(object: &mut Value) {
    if (ROW.blocks_deletion)(object)
        && let Some(metadata) = object.metadata_mut()
    {
        metadata.remove("deletionGracePeriodSeconds");
    }
    object["status"]["phase"] = "Terminating".into();
}

/// `finalize` is written as a whole, and not read.
fn finalize<'a>(call: &'a Call<'_>, body: Body) -> BoxFuture<'a, Result<Response, Status>> {
    async move { if call.info.verb == "update" { call.update(body).await } else { Err(method_not_allowed()) } }.boxed()
}

/// A namespace can be selected by its name.
fn default(object: &mut Value) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if name.is_empty() {
        return;
    }
    if let Some(metadata) = object.metadata_mut() {
        let labels = metadata.entry("labels").or_insert_with(|| json!({}));
        if labels.is_null() {
            *labels = json!({});
        }
        if let Some(labels) = labels.as_object_mut() {
            labels.insert(NAME_LABEL.into(), name.into());
        }
    }
}

/// A new namespace is active, and waits for its content when it is deleted.
fn prepare_create(object: &mut Value) {
    let Some(fields) = object.as_object_mut() else { return };
    let spec = fields.entry("spec").or_insert_with(|| json!({}));
    let mut finalizers = spec["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
    *spec = json!({ "finalizers": finalizers });
    fields.insert("status".into(), json!({"phase": "Active"}));
}

/// `finalize` changes only the finalizers in the spec, and nothing else changes them.
fn restore(subresource: &str, old: &Value, new: &mut Value) {
    match subresource {
        "finalize" => {
            let finalizers = new["spec"]["finalizers"].take();
            revert(old, new);
            new["spec"]["finalizers"] = if finalizers.is_null() { json!([]) } else { finalizers };
        }
        "" => new["spec"] = old["spec"].clone(),
        _ => {}
    }
}
