//! Admission of ResourceRegistries: the right to write them does not include the right to receive the passwords of Secrets.

use apimachinery::Status;
use apiserver::{Admission, AdmissionRequest};
use client::Client;
use futures::future::BoxFuture;
use karmada_api::search::credentials;

use crate::cluster_admission::written;
use crate::rights;

const GROUP: &str = "search.karmada.io";
const PLURAL: &str = "resourceregistries";

#[derive(Default)]
pub struct RegistryAdmission {
    /// The control plane, if another server authorizes.
    control: Option<Client>,
}

impl RegistryAdmission {
    /// For a server behind the API server of the control plane, which `control` reaches.
    pub fn with_control_plane(control: &Client) -> Self {
        Self { control: Some(control.clone()) }
    }
}

impl Admission for RegistryAdmission {
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
            match written(request, GROUP, PLURAL).and_then(|registry| credentials::read(request.old, registry)) {
                Some(read) => rights::require_read(request, self.control.as_ref(), &read).await,
                None => Ok(()),
            }
        })
    }
}
