//! Decides whether a cluster's token may be sent to the endpoint in its Cluster. Admission already refuses most of
//! these cases; this check is for Clusters that another API server admitted, or that were stored before.
//!
//! The first destination of a token is recorded on its Secret, because only a user who may write the Secret can change
//! it there.

use std::sync::Arc;

use apimachinery::{ApiResource, Object, ObjectKey};
use client::{Client, Patch, PatchOptions};
use karmada_api::cluster::credentials::{self, Sending};
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::annotations::CREDENTIAL_ENDPOINT;
use serde_json::json;

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("spec.{field} of cluster {cluster} is {value}: {why}")]
    Destination { cluster: String, field: &'static str, value: String, why: String },
    #[error(
        "the token of secret {key} was stored for {recorded}, but cluster {cluster} names {named} and its certificate is not \
         verified; set spec.insecureSkipTLSVerification to false with the CA in the secret, or, if {named} is the cluster, run: \
         kubectl annotate secret {} --overwrite '{CREDENTIAL_ENDPOINT}={named}'",
        named_in(key)
    )]
    StoredFor { cluster: String, key: ObjectKey, recorded: String, named: String },
    #[error(
        "the endpoint of cluster {cluster} cannot be recorded on secret {key}: {source}; let this component patch the secret, or \
         run: kubectl annotate secret {} '{CREDENTIAL_ENDPOINT}={named}'",
        named_in(key)
    )]
    Unrecorded { cluster: String, key: ObjectKey, named: String, source: client::Error },
}

/// The arguments of kubectl for a Secret.
fn named_in(key: &ObjectKey) -> String {
    format!("-n {} {}", key.namespace().unwrap_or_default(), key.name())
}

pub(crate) fn secrets() -> ApiResource {
    ApiResource::namespaced("", "v1", "Secret", "secrets")
}

/// Checks the destination of a cluster's token, and records the first one on `secret`, which `control` may write.
///
/// # Errors
/// The token must not be sent; the message names the next step.
pub async fn check_destination(
    control: &Client,
    cluster: &Cluster,
    secret: &Arc<Object>,
    allow_http: bool,
) -> Result<(), TokenError> {
    let (name, spec) = (cluster.metadata.name.clone(), &cluster.spec);
    if let Some((field, value, why)) = credentials::refused_destination(spec, allow_http) {
        return Err(TokenError::Destination { cluster: name, field, value, why });
    }
    let key = secret.key();
    let recorded = secret.annotation(CREDENTIAL_ENDPOINT);
    match credentials::sending(spec, recorded.as_deref()) {
        Sending::Allowed => Ok(()),
        Sending::For(recorded) => {
            Err(TokenError::StoredFor { cluster: name, key, recorded, named: credentials::destination(spec) })
        }
        Sending::First => match record(control, cluster, secret).await {
            Ok(()) => Ok(()),
            Err(source) if credentials::needs_record(spec) => {
                Err(TokenError::Unrecorded { cluster: name, key, named: credentials::destination(spec), source })
            }
            Err(error) => {
                tracing::debug!(cluster = name, secret = %key, %error, "The endpoint cannot be recorded on the secret");
                Ok(())
            }
        },
    }
}

/// Bound to the revision that was read: of two writers with different destinations one fails.
async fn record(control: &Client, cluster: &Cluster, secret: &Object) -> client::Result<()> {
    let destination = credentials::destination(&cluster.spec);
    let patch = Patch::Merge(json!({"metadata": {
        "resourceVersion": secret.resource_version(), "annotations": {CREDENTIAL_ENDPOINT: destination}}}));
    control.patch(&secrets(), &secret.key(), &patch, &PatchOptions::default()).await.map(drop)
}
