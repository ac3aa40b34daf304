//! The Clusters that the proxy reads: those of its own server, or of the control plane in front of it.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::{Object, ObjectKey, Status, StatusReason};
use apiserver::cache::Cache;
use controller_runtime::Informer;

/// How long a request waits for the first list of Clusters from another server.
const FIRST_LIST: Duration = Duration::from_secs(10);

/// Cheap to clone; a clone reads the current state.
#[derive(Clone)]
pub(crate) struct Clusters {
    pub(super) own: Arc<Cache>,
    pub(super) far: Option<Informer>,
}

impl Clusters {
    pub(crate) fn get(&self, name: &str) -> Result<Option<Arc<Object>>, Status> {
        let key = ObjectKey::cluster(name);
        match &self.far {
            None => self.own.resource("cluster.karmada.io/clusters").get(&key),
            Some(far) => Ok(far.cache().get(&key)),
        }
    }

    /// All of them, by name.
    pub(crate) fn all(&self) -> Result<Vec<Arc<Object>>, Status> {
        let Some(far) = &self.far else {
            let (clusters, ..) = self.own.resource("cluster.karmada.io/clusters").list(None, None, 0, |_| true)?;
            return Ok(clusters);
        };
        let mut clusters = far.cache().list(None);
        clusters.sort_by_key(|cluster| cluster.key());
        Ok(clusters)
    }
}

/// Waits for the first list: before it, no Cluster can be reported as missing.
pub(super) async fn complete(clusters: &Informer) -> Result<(), Status> {
    if let Ok(true) = tokio::time::timeout(FIRST_LIST, clusters.synced()).await {
        return Ok(());
    }
    let why = clusters.trouble().unwrap_or_else(|| "the first list is under way".to_owned());
    let message = format!("the Clusters of the control plane are not known yet: {why}");
    Err(Status::failure(StatusReason::ServiceUnavailable, message))
}
