//! A rule of the admission of Clusters: the right to write them does not include the right to receive the tokens of
//! their Secrets.

use apimachinery::Status;
use apiserver::AdmissionRequest;
use client::Client;
use karmada_api::cluster::credentials;
use serde_json::Value;

use crate::cluster_admission::GROUP;
use crate::rights;

pub struct MemberTokens {
    /// `--allow-http-member-endpoints`
    allow_http: bool,
    /// The control plane, if another server authorizes.
    control: Option<Client>,
}

impl MemberTokens {
    pub fn new(allow_http: bool) -> Self {
        Self { allow_http, control: None }
    }

    /// For a server behind the API server of the control plane, which `control` reaches.
    pub fn with_control_plane(control: Client, allow_http: bool) -> Self {
        Self { allow_http, control: Some(control) }
    }

    /// # Errors
    /// When a token would go to a refused destination, or the user may not read a Secret concerned.
    pub async fn validate(&self, request: &AdmissionRequest<'_>, cluster: &Value) -> Result<(), Status> {
        let errors = credentials::refused_destinations(request.old, cluster, self.allow_http);
        if !errors.is_empty() {
            return Err(Status::invalid(GROUP, "Cluster", request.key.name(), &errors));
        }
        for read in credentials::reads(request.old, cluster) {
            rights::require_read(request, self.control.as_ref(), &read).await?;
        }
        Ok(())
    }
}
