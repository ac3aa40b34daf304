//! NamespaceLifecycle: rejects creates in a namespace that is missing or terminating.

use apimachinery::resource::ResourceInfo;
use apimachinery::status::StatusCause;
use apimachinery::{ObjectKey, Status};
use storage::Guard;

use super::{AdmissionRequest, Operation};
use crate::cache::{Cache, keys};

const PLACE: &str = "core/namespaces";

/// A create is refused in a namespace that does not exist or is being deleted. The cache has caught up with the store since
/// the request began.
pub(crate) fn check(request: &AdmissionRequest<'_>) -> Result<(), Status> {
    if request.operation == Operation::Create {
        open(request.known.cache, request.info, request.key)?;
    }
    Ok(())
}

/// The guard of a create: the namespace is unchanged since the cached state, and not being deleted. So no object is
/// created in a namespace after its content was deleted.
pub(crate) fn open(cache: &Cache, info: &ResourceInfo, key: &ObjectKey) -> Result<Option<Guard>, Status> {
    let Some(name) = key.namespace() else { return Ok(None) };
    let namespace = ObjectKey::cluster(name);
    match cache.resource(PLACE).get(&namespace)? {
        None => Err(Status::not_found("", "namespaces", name)),
        Some(object) if object.is_deleting() => Err(terminating(info, key.name(), name)),
        Some(object) => {
            let revision = object.revision();
            Ok(Some(Guard::ModRevision(keys::place_key(PLACE, &namespace), revision)))
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
