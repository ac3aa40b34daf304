//! Admission of Clusters: the writes that it concerns, and the order of its rules.

use apimachinery::Status;
use apiserver::cache::Event;
use apiserver::{Admission, AdmissionRequest, Operation};
use client::Client;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::cluster_ids::ClusterIds;
use crate::member_tokens::MemberTokens;

pub(crate) const GROUP: &str = "cluster.karmada.io";
const PLURAL: &str = "clusters";

pub struct ClusterAdmission {
    tokens: MemberTokens,
    ids: ClusterIds,
}

impl ClusterAdmission {
    /// `allow_http` is `--allow-http-member-endpoints`.
    pub fn new(allow_http: bool) -> Self {
        Self { tokens: MemberTokens::new(allow_http), ids: ClusterIds::default() }
    }

    /// For a server behind the API server of the control plane, which `control` reaches.
    pub fn with_control_plane(control: &Client, allow_http: bool) -> Self {
        Self {
            tokens: MemberTokens::with_control_plane(control.clone(), allow_http),
            ids: ClusterIds::with_control_plane(control.clone()),
        }
    }
}

/// The object of a resource that a request creates or changes.
pub(crate) fn written<'a>(request: &'a AdmissionRequest<'_>, group: &str, plural: &str) -> Option<&'a Value> {
    let is_written = request.operation != Operation::Delete && request.is_for(group, plural);
    request.object.as_deref().filter(|_| is_written)
}

impl Admission for ClusterAdmission {
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
            let Some(cluster) = written(request, GROUP, PLURAL) else { return Ok(()) };
            // Before the ID: a rejected Cluster must not reserve it.
            self.tokens.validate(request, cluster).await?;
            self.ids.validate(request, cluster).await
        })
    }

    fn undo<'a>(&'a self, request: &'a AdmissionRequest<'_>) -> BoxFuture<'a, ()> {
        if let Some(cluster) = written(request, GROUP, PLURAL) {
            self.ids.release(request, cluster);
        }
        Box::pin(std::future::ready(()))
    }

    fn observe(&self, place: &str, event: &Event) {
        self.ids.observe(place, event);
    }
}
