//! Admission of Clusters: the right to write them does not include the right to receive the tokens of their Secrets.

use apimachinery::{Status, StatusReason};
use apiserver::{Admission, AdmissionRequest, Operation};
use client::Client;
use futures::future::BoxFuture;
use karmada_api::cluster::credentials::{self, SecretRead};

use crate::rights;

const GROUP: &str = "cluster.karmada.io";
const PLURAL: &str = "clusters";

pub struct MemberTokens {
    /// `--allow-http-member-endpoints`
    allow_http: bool,
    /// The control plane, where this server is not the one that authorizes.
    control: Option<Client>,
}

impl MemberTokens {
    pub fn new(allow_http: bool) -> Self {
        Self { allow_http, control: None }
    }

    /// For a server behind the API server of the control plane, which `control` reaches.
    pub fn behind(control: Client, allow_http: bool) -> Self {
        Self { allow_http, control: Some(control) }
    }

    async fn is_allowed(&self, request: &AdmissionRequest<'_>, read: &SecretRead) -> Result<bool, Status> {
        let wanted = rights::secret(&read.namespace, &read.name);
        match &self.control {
            None => Ok(request.is_allowed(wanted)),
            Some(control) => rights::is_identity_allowed(control, request.user, &wanted)
                .await
                .map_err(|why| Status::failure(StatusReason::InternalError, why)),
        }
    }
}

impl Admission for MemberTokens {
    fn concerns(&self, group: &str, plural: &str) -> bool {
        group == GROUP && plural == PLURAL
    }

    fn concerns_status(&self, _: &str, _: &str) -> bool {
        false
    }

    fn concerns_metadata(&self, _: &str, _: &str, _: &[&str]) -> bool {
        false
    }

    fn validate<'a>(&'a self, request: &'a AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let is_about_it = request.operation != Operation::Delete && request.is_for(GROUP, PLURAL);
            let Some(object) = request.object.as_deref().filter(|_| is_about_it) else { return Ok(()) };
            let errors = credentials::refused_destinations(request.old, object, self.allow_http);
            if !errors.is_empty() {
                return Err(Status::invalid(GROUP, "Cluster", &request.key.name, &errors));
            }
            for read in credentials::reads(request.old, object) {
                if !self.is_allowed(request, &read).await? {
                    return Err(request.forbidden(&read.refusal(&request.user.user)));
                }
            }
            Ok(())
        })
    }
}
