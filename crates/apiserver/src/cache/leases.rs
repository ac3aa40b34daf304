//! Objects with a limited lifetime, such as events. The store deletes them when their lease ends; one lease is shared
//! by all such objects of a minute, so that there are few leases.

use std::collections::BTreeMap;
use std::time::Duration;

use apimachinery::Status;
use parking_lot::Mutex;
use storage::{LeaseId, Store};
use tokio::time::Instant;

/// How long new objects share a lease. The lease lives that much longer, so that no object expires early.
const SHARED_FOR: Duration = Duration::from_secs(60);

/// The lease in use for each lifetime, and when it was granted.
#[derive(Debug, Default)]
pub struct Leases(Mutex<BTreeMap<Duration, (LeaseId, Instant)>>);

impl Leases {
    /// The lease for a new or changed object with this lifetime.
    pub async fn lease_for(&self, lifetime: Duration, store: &dyn Store) -> Result<LeaseId, Status> {
        let now = Instant::now();
        let current = self.0.lock().get(&lifetime).copied();
        if let Some((lease, _)) = current.filter(|(_, granted)| now - *granted < SHARED_FOR) {
            return Ok(lease);
        }
        // Two requests may both grant one at this moment; the spare one ends with its objects.
        let lease = store.grant_lease((lifetime + SHARED_FOR).as_secs()).await.map_err(crate::errors::store)?;
        self.0.lock().insert(lifetime, (lease, now));
        Ok(lease)
    }
}
