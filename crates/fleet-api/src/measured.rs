//! The members whose metrics are served: clusters from the cache of the control plane, connections shared with the
//! controllers.
//!
//! Existing caches of a member's pods and nodes (cluster status, search) avoid requests to members without matching
//! objects. No cache is started for metrics.

use std::collections::HashMap;
use std::sync::Arc;

use apimachinery::{ApiResource, ObjectKey, Status, StatusReason};
use client::Client;
use controller_runtime::Event;
use controllers::Members;
use fleet_metrics::groups::{CUSTOM, EXTERNAL};
use fleet_metrics::resource::{Resource, ResourceRequest};
use futures::future::BoxFuture;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::conditions;
use metrics_adapter::{Fleet, Target};
use parking_lot::{Mutex, RwLock};
use readings::Connect;
use world::Level;

/// The members, once the controllers have begun.
#[derive(Default)]
pub struct Measured {
    members: RwLock<Option<Members>>,
    /// Counts changes of [`Served`].
    changes: Arc<Level<u64>>,
}

/// The metric groups in a Cluster's status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Served {
    is_ready: bool,
    /// Whether groups that are not reported are not served.
    is_complete: bool,
    groups: [bool; 2],
}

impl Served {
    fn of(cluster: &Cluster) -> Self {
        let complete = cluster.condition(conditions::COMPLETE_API_ENABLEMENTS);
        Self {
            is_ready: cluster.is_ready(),
            is_complete: complete.is_some_and(|it| it.status == "True"),
            groups: [CUSTOM, EXTERNAL].map(|group| reports(cluster, group)),
        }
    }
}

fn reports(cluster: &Cluster, group: &str) -> bool {
    let of_group = |version: &str| version.strip_prefix(group).is_some_and(|rest| rest.starts_with('/'));
    cluster.status.api_enablements.iter().any(|it| of_group(&it.group_version))
}

/// Whether the status leaves it open that the member serves a group.
fn may_serve(cluster: &Cluster, group: &str) -> bool {
    let served = Served::of(cluster);
    !served.is_ready || !served.is_complete || reports(cluster, group)
}

impl Measured {
    /// Enables requests to members, until [`Measured::disconnect`].
    pub fn connect(&self, members: Members) {
        *self.members.write() = Some(members.clone());
        let (changes, known) = (Arc::clone(&self.changes), Mutex::<HashMap<String, Served>>::default());
        let clusters = members.clone();
        members.clusters().subscribe(move |event| {
            let name = event.object().name();
            let now = match event {
                Event::Deleted(_) => None,
                _ => clusters.known(name).map(|cluster| Served::of(&cluster)),
            };
            let before = match now {
                Some(now) => known.lock().insert(name.to_owned(), now),
                None => known.lock().remove(name),
            };
            if now != before {
                changes.change(|count| {
                    *count += 1;
                    true
                });
            }
        });
    }

    /// Counts changes of the members' metric groups.
    pub fn changes(&self) -> &Level<u64> {
        &self.changes
    }

    /// Whether a ready member may serve one of the groups.
    pub fn any_serves(&self, groups: &[&str]) -> bool {
        let clusters = self.members.read().as_ref().map(Members::all_clusters).unwrap_or_default();
        clusters.iter().any(|it| it.is_ready() && groups.iter().any(|group| may_serve(it, group)))
    }

    /// The controllers have ended.
    pub fn disconnect(&self) {
        self.members.write().take();
    }
}

impl Connect for Measured {
    fn client<'a>(&'a self, cluster: &'a str) -> BoxFuture<'a, Result<Client, String>> {
        Box::pin(async move {
            let members = self.members.read().clone().ok_or_else(|| "the server is starting".to_owned())?;
            let member = members.reading(cluster).await.map_err(|error| error.to_string())?;
            Ok(member.client.clone())
        })
    }
}

impl Fleet for Measured {
    fn clusters(&self) -> Result<Vec<Target>, Status> {
        let unknown = |why: &str| Status::failure(StatusReason::ServiceUnavailable, why);
        let members = self.members.read().clone().ok_or_else(|| unknown("the server is starting"))?;
        if !members.clusters().has_synced() {
            return Err(unknown("the Clusters of the control plane are not known yet"));
        }
        let mut targets: Vec<Target> = members
            .all_clusters()
            .iter()
            .filter(|cluster| cluster.metadata.deletion_timestamp.is_none())
            .map(|cluster| Target {
                name: cluster.metadata.name.clone(),
                excluded: (!cluster.is_ready()).then(|| "the cluster is not ready".to_owned()),
            })
            .collect();
        targets.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(targets)
    }

    fn may_have(&self, cluster: &str, request: &ResourceRequest) -> bool {
        let members = self.members.read().clone();
        let Some(member) = members.and_then(|members| members.read_connection(cluster)) else { return true };
        let (resource, key) = match request.resource {
            Resource::Pods => (
                ApiResource::namespaced("", "v1", "Pod", "pods"),
                ObjectKey::namespaced(request.namespace.as_str(), request.name.as_str()),
            ),
            Resource::Nodes => {
                (ApiResource::cluster("", "v1", "Node", "nodes"), ObjectKey::cluster(request.name.as_str()))
            }
        };
        let Some(known) = member.informers.existing(&resource) else { return true };
        // A cache that lost its member may lack objects.
        if !known.has_synced() || known.trouble().is_some() {
            return true;
        }
        if !request.name.is_empty() {
            return known.cache().get(&key).is_some();
        }
        if request.namespace.is_empty() && request.labels.is_everything() {
            return !known.cache().is_empty();
        }
        let namespace = Some(request.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let objects = known.cache().list(namespace);
        objects.iter().any(|object| request.labels.matches_with(|key| object.label(key)))
    }

    fn may_serve(&self, cluster: &str, group: &str) -> bool {
        let known = self.members.read().as_ref().and_then(|members| members.known(cluster));
        known.is_none_or(|cluster| may_serve(&cluster, group))
    }
}
