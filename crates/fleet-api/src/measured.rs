//! The members whose metrics are served: clusters from the cache of the control plane, connections shared with the controllers.
//!
//! Caches of a member's pods and nodes that exist for other reasons (cluster status, search) spare requests to members that have
//! nothing. None is started for metrics.

use std::sync::OnceLock;

use apimachinery::{ApiResource, ObjectKey, Status, StatusReason};
use client::Client;
use controllers::Members;
use fleet_metrics::resource::{Resource, Wanted};
use futures::future::BoxFuture;
use metrics_adapter::{Fleet, Target};
use readings::Connect;

/// The members, once the controllers have begun.
#[derive(Default)]
pub struct Measured(OnceLock<Members>);

impl Measured {
    /// Enables requests to members. Only the first call counts.
    pub fn connect(&self, members: Members) {
        let _ = self.0.set(members);
    }
}

impl Connect for Measured {
    fn client<'a>(&'a self, cluster: &'a str) -> BoxFuture<'a, Result<Client, String>> {
        Box::pin(async move {
            let members = self.0.get().ok_or_else(|| "the server is starting".to_owned())?;
            let member = members.reading(cluster).await.map_err(|error| error.to_string())?;
            Ok(member.client.clone())
        })
    }
}

impl Fleet for Measured {
    fn clusters(&self) -> Result<Vec<Target>, Status> {
        let unknown = |why: &str| Status::failure(StatusReason::ServiceUnavailable, why);
        let members = self.0.get().ok_or_else(|| unknown("the server is starting"))?;
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

    fn may_have(&self, cluster: &str, wanted: &Wanted) -> bool {
        let Some(member) = self.0.get().and_then(|members| members.read_connection(cluster)) else { return true };
        let (resource, key) = match wanted.resource {
            Resource::Pods => (
                ApiResource::namespaced("", "v1", "Pod", "pods"),
                ObjectKey::namespaced(wanted.namespace.as_str(), wanted.name.as_str()),
            ),
            Resource::Nodes => {
                (ApiResource::cluster("", "v1", "Node", "nodes"), ObjectKey::cluster(wanted.name.as_str()))
            }
        };
        let Some(known) = member.informers.existing(&resource) else { return true };
        // A cache that lost its member may lack objects.
        if !known.has_synced() || known.trouble().is_some() {
            return true;
        }
        if !wanted.name.is_empty() {
            return known.cache().get(&key).is_some();
        }
        if wanted.namespace.is_empty() && wanted.labels.is_everything() {
            return !known.cache().is_empty();
        }
        let namespace = Some(wanted.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let objects = known.cache().list(namespace);
        objects.iter().any(|object| wanted.labels.matches_with(|key| object.label(key)))
    }
}
