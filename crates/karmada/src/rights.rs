//! The rights of a request's user, also where another API server authorizes.

use apimachinery::{ApiResource, Status, StatusReason};
use apiserver::AdmissionRequest;
use apiserver::auth::authz::ResourceAttributes;
use apiserver::auth::reviews::user_info;
use client::Client;
use karmada_api::cluster::credentials::SecretRead;
use serde_json::{Value, json};
use transport::Identity;

/// The right to read a Secret; with an empty name, all Secrets of the namespace, and of all namespaces if that is empty
/// too.
pub fn secret(namespace: &str, name: &str) -> ResourceAttributes {
    ResourceAttributes {
        verb: if name.is_empty() { "list" } else { "get" }.to_owned(),
        version: "v1".to_owned(),
        resource: "secrets".to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ..ResourceAttributes::default()
    }
}

/// Refuses a write whose author may not read a Secret. `control` is the server that authorizes, if it is another one.
///
/// # Errors
/// The author may not read it, or that cannot be determined.
pub async fn require_read(
    request: &AdmissionRequest<'_>,
    control: Option<&Client>,
    read: &SecretRead,
) -> Result<(), Status> {
    let requested = secret(&read.namespace, &read.name);
    let is_allowed = match control {
        None => request.is_allowed(requested).await,
        Some(control) => is_identity_allowed(control, request.user, &requested)
            .await
            .map_err(|why| Status::failure(StatusReason::InternalError, why))?,
    };
    if is_allowed { Ok(()) } else { Err(request.forbidden(&read.refusal(&request.user.user))) }
}

/// Creates a SubjectAccessReview for `user`, as `authentication.k8s.io/v1.UserInfo`.
///
/// # Errors
/// The review was not answered; the message names the next step.
pub async fn is_allowed(control: &Client, user: &Value, requested: &ResourceAttributes) -> Result<bool, String> {
    let reviews = ApiResource::cluster("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews");
    let ResourceAttributes { verb, group, version, resource, subresource, namespace, name, .. } = requested;
    let attributes = json!({"verb": verb, "group": group, "version": version, "resource": resource,
        "subresource": subresource, "namespace": namespace, "name": name});
    let mut spec = json!({"user": user["username"], "resourceAttributes": attributes});
    for field in ["uid", "groups", "extra"] {
        if !user[field].is_null() {
            spec[field] = user[field].clone();
        }
    }
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
    let answered = control.create(&reviews, &review).await.map_err(|error| error.to_string());
    let answer = answered.and_then(|answer| answer.to_value().map_err(|error| error.to_string()));
    let answer = answer.map_err(|error| {
        format!(
            "the rights of user {} cannot be checked: {error}; let this component create subjectaccessreviews.authorization.k8s.io",
            user["username"]
        )
    })?;
    Ok(answer["status"]["allowed"] == true)
}

/// As [`is_allowed`], for the identity of a request.
///
/// # Errors
/// As there.
pub async fn is_identity_allowed(
    control: &Client,
    user: &Identity,
    requested: &ResourceAttributes,
) -> Result<bool, String> {
    is_allowed(control, &user_info(user), requested).await
}
