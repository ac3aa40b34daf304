//! The namespace lifecycle for writes: new namespaces get a finalizer, and nothing is created in a namespace that is
//! missing or terminating. A controller deletes the content of a terminating one.

use apimachinery::resource::ResourceInfo;
use apimachinery::status::StatusCause;
use apimachinery::{ObjectKey, Status};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use storage::Guard;
use transport::{Body, Response};

use crate::admission::{AdmissionRequest, Operation};
use crate::handlers::{Call, Kind, method_not_allowed, put_back};
use crate::keys;
use crate::server::Shared;

const PLACE: &str = "core/namespaces";
/// Kept until the namespace is empty.
const FINALIZER: &str = "kubernetes";
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// These hold what the server itself needs.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

pub(super) const ROW: Kind = Kind {
    plural: "namespaces",
    default,
    prepare_create: |_, object| prepare_create(object),
    restore: |subresource, old, new, _| restore(subresource, old, new),
    may_delete,
    is_held: |object| object["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty()),
    mark_deleted: |object| object["status"]["phase"] = "Terminating".into(),
    part: Some(finalize),
    ..Kind::ORDINARY
};

fn may_delete(key: &ObjectKey) -> Result<(), Status> {
    match IMMORTAL.contains(&key.name.as_str()) {
        true => Err(Status::forbidden("", "namespaces", &key.name, "this namespace may not be deleted")),
        false => Ok(()),
    }
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
    if let Some(metadata) = object["metadata"].as_object_mut() {
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

/// Only `finalize` changes the finalizers in the spec, and nothing else.
fn restore(subresource: &str, old: &Value, new: &mut Value) {
    match subresource {
        "finalize" => {
            let finalizers = new["spec"]["finalizers"].take();
            put_back(old, new);
            new["spec"]["finalizers"] = if finalizers.is_null() { json!([]) } else { finalizers };
        }
        "" => new["spec"] = old["spec"].clone(),
        _ => {}
    }
}

/// A create is refused in a namespace that does not exist or is being deleted. The cache has caught up with the store since
/// the request began.
pub(crate) fn check(server: &Shared, request: &AdmissionRequest<'_>) -> Result<(), Status> {
    if request.operation == Operation::Create {
        open(server, request.info, request.key)?;
    }
    Ok(())
}

/// The guard of a create: the namespace is as the cache has it, and is not being deleted. So nothing slips into a namespace
/// after its content was deleted.
pub(crate) fn open(server: &Shared, info: &ResourceInfo, key: &ObjectKey) -> Result<Option<Guard>, Status> {
    let Some(name) = key.namespace() else { return Ok(None) };
    let namespace = ObjectKey::cluster(name);
    match server.cache.resource(PLACE).get(&namespace)? {
        None => Err(Status::not_found("", "namespaces", name)),
        Some(object) if object.is_deleting() => Err(terminating(info, &key.name, name)),
        Some(object) => {
            let revision = object.revision();
            Ok(Some(Guard::ModRevision(format!("{}{PLACE}/{name}", keys::ROOT).into(), revision)))
        }
    }
}

fn terminating(info: &ResourceInfo, name: &str, namespace: &str) -> Status {
    let named = &info.resource;
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut status = Status::forbidden(&named.group, &named.plural, name, &why);
    if let Some(details) = &mut status.details {
        details.causes.push(StatusCause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".into(),
        });
    }
    status
}
