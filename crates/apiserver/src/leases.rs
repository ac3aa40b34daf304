//! Events live for an hour. The store deletes them when their lease ends; one lease serves all events of a minute, so
//! that there are few leases.

use std::time::Duration;

use apimachinery::{ApiResource, Status};
use parking_lot::Mutex;
use storage::{LeaseId, Store};
use tokio::time::Instant;

/// kube-apiserver's `--event-ttl`.
const EVENT_TTL: Duration = Duration::from_secs(3600);
/// For how long new events get the same lease. It lives that much longer, so that none ends early.
const SHARED_FOR: Duration = Duration::from_secs(60);

/// The lease in use and when it was granted.
#[derive(Debug, Default)]
pub struct Leases(Mutex<Option<(LeaseId, Instant)>>);

impl Leases {
    /// The lease of a new or changed object; `None` for objects that stay until they are deleted.
    pub async fn lease_for(&self, resource: &ApiResource, store: &dyn Store) -> Result<Option<LeaseId>, Status> {
        if resource.plural != "events" || !matches!(resource.group.as_str(), "" | "events.k8s.io") {
            return Ok(None);
        }
        let now = Instant::now();
        let current = *self.0.lock();
        if let Some((lease, _)) = current.filter(|(_, granted)| now - *granted < SHARED_FOR) {
            return Ok(Some(lease));
        }
        // Two requests may both grant one at this moment; the spare one ends with its events.
        let lease = store.grant_lease((EVENT_TTL + SHARED_FOR).as_secs()).await.map_err(crate::errors::store)?;
        *self.0.lock() = Some((lease, now));
        Ok(Some(lease))
    }
}
