//! Questions about the rights of a request's user, sent to an API server that is not in this process.

use apimachinery::ApiResource;
use apiserver::auth::authz::ResourceAttributes;
use apiserver::auth::reviews::user_info;
use client::Client;
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
