//! The life of namespaces, as far as writes are concerned: nothing is created in a namespace that is not there or is
//! going away.

use apimachinery::status::StatusCause;
use apimachinery::{ObjectKey, Status};

use crate::admission::{AdmissionRequest, Operation};
use crate::server::Shared;

pub(crate) async fn check(server: &Shared, request: &AdmissionRequest<'_>) -> Result<(), Status> {
    let Some(namespace) = request.key.namespace() else { return Ok(()) };
    if request.operation != Operation::Create {
        return Ok(());
    }
    let cache = server.cache.resource("core/namespaces");
    let key = ObjectKey::cluster(namespace);
    // It may have been created, or marked for deletion, a moment ago.
    server.cache.catch_up().await?;
    match cache.get(&key) {
        None => Err(Status::not_found("", "namespaces", namespace)),
        Some(object) if object.is_deleting() => Err(terminating(request, namespace)),
        Some(_) => Ok(()),
    }
}

fn terminating(request: &AdmissionRequest<'_>, namespace: &str) -> Status {
    let named = &request.info.resource;
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut status = Status::forbidden(&named.group, &named.plural, &request.key.name, &why);
    if let Some(details) = &mut status.details {
        details.causes.push(StatusCause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".into(),
        });
    }
    status
}
