//! The Secrets of a Cluster in the control plane: the tokens of its member, and where they may be sent.

use apimachinery::{Object, ObjectKey};
use client::Client;
use karmada_api::cluster::credentials::destination;
use karmada_api::cluster::v1alpha1::ClusterSpec;
use karmada_api::constants::annotations::CREDENTIAL_ENDPOINT;
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::error::Error;
use crate::resources;

/// What a member grants to the control plane.
pub(crate) struct Credentials {
    /// Base64, as in the Secret.
    pub ca_bundle: String,
    pub token: String,
    pub impersonator_token: String,
}

/// Writes the Secrets of a Cluster; returns their names.
pub(crate) async fn put_secrets(
    control: &Client,
    ns: &str,
    name: &str,
    credentials: &Credentials,
    spec: &Value,
) -> Result<[String; 2], Error> {
    let data = [
        (format!("{name}-impersonator"), json!({"token": credentials.impersonator_token})),
        (name.to_owned(), json!({"caBundle": credentials.ca_bundle, "token": credentials.token})),
    ];
    for (secret, data) in &data {
        put_secret(control, ns, secret, data, spec).await?;
    }
    Ok(data.map(|(secret, _)| secret))
}

/// Secrets go with their Cluster.
pub(crate) async fn goes_with(control: &Client, ns: &str, secret: &str, cluster: &Object) -> Result<(), Error> {
    let owner = json!({"metadata": {"ownerReferences": [{
        "apiVersion": cluster.api_version(), "kind": "Cluster", "name": cluster.name(), "uid": cluster.uid(),
        "controller": true, "blockOwnerDeletion": true}]}});
    let (key, patch) = (ObjectKey::namespaced(ns, secret), client::Patch::Merge(owner));
    let patched = control.patch(&resources::SECRET, &key, &patch, &client::PatchOptions::default()).await;
    patched.map(drop).map_err(Error::client(format!("patch secret {ns}/{secret}")))
}

/// Writes the Secret; one left by an earlier attempt may hold an invalid token. `spec` is that of the Cluster: the
/// Secret records where its token may be sent.
pub(crate) async fn put_secret(
    control: &Client,
    ns: &str,
    name: &str,
    data: &Value,
    spec: &Value,
) -> Result<(), Error> {
    let spec = ClusterSpec::deserialize(spec).map_err(|e| Error::message(format!("the spec of the cluster: {e}")))?;
    let destination = destination(&spec);
    // In pull mode there may be no destination.
    let annotations = if destination.is_empty() { json!({}) } else { json!({CREDENTIAL_ENDPOINT: destination}) };
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": name, "namespace": ns, "annotations": annotations}, "data": data});
    match control.create(&resources::SECRET, &secret).await {
        Err(error) if error.is_already_exists() => control
            .patch(
                &resources::SECRET,
                &ObjectKey::namespaced(ns, name),
                &client::Patch::Merge(json!({"metadata": {"annotations": annotations}, "data": data})),
                &client::PatchOptions::default(),
            )
            .await
            .map(drop),
        other => other.map(drop),
    }
    .map_err(Error::client(format!("create secret {ns}/{name}")))
}
