//! Admission of Clusters: no two have the same `spec.id`, and none has that of the control plane.
//!
//! Clusters stored before this rule keep their ID; only new IDs are checked.

use apimachinery::{ApiResource, ObjectKey, Status};
use apiserver::AdmissionRequest;
use apiserver::cache::Event;
use client::Client;
use karmada_api::cluster::ClusterIds as Ids;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;

use crate::cluster_admission::GROUP;

const SYSTEM: &str = "kube-system";

#[derive(Default)]
pub struct ClusterIds {
    ids: Mutex<Ids>,
    /// The client of the control plane, if this server does not store its namespaces.
    control: Option<Client>,
}

impl ClusterIds {
    /// For a server behind the API server of the control plane, which `control` reaches.
    pub fn with_control_plane(control: Client) -> Self {
        Self { ids: Mutex::default(), control: Some(control) }
    }

    /// The ID that a request would give to a Cluster, if that is a new one.
    fn requested_id<'a>(request: &AdmissionRequest<'_>, cluster: &'a Value) -> Option<&'a str> {
        let id = id_of(cluster);
        (!id.is_empty() && request.old.map(id_of) != Some(id)).then_some(id)
    }

    /// Reads the control plane's own ID where it cannot be observed. An ID that cannot be read is unknown; the
    /// controllers compare it before they write to the cluster.
    async fn learn_own(&self) {
        let Some(control) = self.control.as_ref().filter(|_| !self.ids.lock().knows_own()) else { return };
        let namespaces = ApiResource::cluster("", "v1", "Namespace", "namespaces");
        match control.get(&namespaces, &ObjectKey::cluster(SYSTEM)).await {
            Ok(namespace) => self.ids.lock().set_own(namespace.uid()),
            Err(error) => tracing::warn!(%error, "the ID of the control plane cannot be read"),
        }
    }

    /// Reserves a new ID until the Cluster is stored.
    ///
    /// # Errors
    /// When another cluster has the ID.
    pub async fn validate(&self, request: &AdmissionRequest<'_>, cluster: &Value) -> Result<(), Status> {
        let Some(id) = Self::requested_id(request, cluster) else { return Ok(()) };
        self.learn_own().await;
        let (name, mut ids) = (request.key.name(), self.ids.lock());
        let outcome =
            if request.dry_run { ids.check(name, id, request.now) } else { ids.reserve(name, id, request.now) };
        outcome.map_err(|error| Status::invalid(GROUP, "Cluster", name, &[error]))
    }

    /// The Cluster was not stored.
    pub fn release(&self, request: &AdmissionRequest<'_>, cluster: &Value) {
        if let Some(id) = Self::requested_id(request, cluster) {
            self.ids.lock().release(request.key.name(), id);
        }
    }

    pub fn observe(&self, place: &str, event: &Event) {
        let object = event.current.as_ref().or(event.previous.as_ref());
        let Some(object) = object.filter(|_| place == "cluster.karmada.io/clusters" || place == "core/namespaces")
        else {
            return;
        };
        if place == "core/namespaces" {
            if object.name() == SYSTEM {
                self.ids.lock().set_own(object.uid());
            }
            return;
        }
        if event.current.is_none() {
            return self.ids.lock().deleted(object.name());
        }
        // A status write does not change the ID.
        let is_same = event.previous.as_ref().is_some_and(|previous| previous.generation() == object.generation());
        if let Some(stored) = (!is_same).then(|| object.decode::<Stored>().ok()).flatten() {
            self.ids.lock().stored(object.name(), &stored.spec.id);
        }
    }
}

fn id_of(cluster: &Value) -> &str {
    cluster["spec"]["id"].as_str().unwrap_or_default()
}

/// The part of a stored Cluster that is read here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Stored {
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    id: String,
}
