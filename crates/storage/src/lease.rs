//! The table of leases: expiry, and the keys attached to each. It has no clock: the time is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::{Change, Error, KeyValue, LeaseId, Result};

/// The maximum lifetime of a lease (etcd's limit, about 285 years).
const MAX_TTL_SECONDS: u64 = 9_000_000_000;

#[derive(Debug, Default)]
pub(crate) struct Leases {
    by_id: BTreeMap<LeaseId, Lease>,
    by_deadline: BTreeSet<(Instant, LeaseId)>,
    last: u64,
}

#[derive(Debug)]
struct Lease {
    ttl: Duration,
    deadline: Instant,
    keys: BTreeSet<Bytes>,
}

impl Leases {
    /// Continues numbering after `last`, so that no identifier is used twice.
    pub fn after(last: u64) -> Self {
        Self { last, ..Self::default() }
    }

    pub fn next_id(&self) -> LeaseId {
        LeaseId(self.last + 1)
    }

    /// Adds a lease of `ttl` seconds that begins `now`.
    pub fn insert(&mut self, id: LeaseId, ttl: u64, now: Instant) {
        let ttl = Duration::from_secs(ttl.clamp(1, MAX_TTL_SECONDS));
        let deadline = now + ttl;
        self.by_deadline.insert((deadline, id));
        self.by_id.insert(id, Lease { ttl, deadline, keys: BTreeSet::new() });
        self.last = self.last.max(id.0);
    }

    pub fn contains(&self, id: LeaseId) -> bool {
        self.by_id.contains_key(&id)
    }

    pub fn keep_alive(&mut self, id: LeaseId, now: Instant) -> Result<()> {
        let lease = self.by_id.get_mut(&id).ok_or(Error::LeaseNotFound(id))?;
        self.by_deadline.remove(&(lease.deadline, id));
        lease.deadline = now + lease.ttl;
        self.by_deadline.insert((lease.deadline, id));
        Ok(())
    }

    /// All leases with their times to live.
    pub fn all(&self) -> impl Iterator<Item = (LeaseId, Duration)> + '_ {
        self.by_id.iter().map(|(id, lease)| (*id, lease.ttl))
    }

    /// Removes the lease and returns the keys to delete.
    pub fn remove(&mut self, id: LeaseId) -> Result<Vec<Bytes>> {
        let lease = self.by_id.remove(&id).ok_or(Error::LeaseNotFound(id))?;
        self.by_deadline.remove(&(lease.deadline, id));
        Ok(lease.keys.into_iter().collect())
    }

    /// The keys that hang on the lease.
    pub fn keys(&self, id: LeaseId) -> Result<Vec<Bytes>> {
        Ok(self.by_id.get(&id).ok_or(Error::LeaseNotFound(id))?.keys.iter().cloned().collect())
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        self.by_deadline.first().map(|(deadline, _)| *deadline)
    }

    pub fn expired(&self, now: Instant) -> Vec<LeaseId> {
        self.by_deadline.iter().take_while(|(deadline, _)| *deadline <= now).map(|(_, id)| *id).collect()
    }

    /// Attaches or detaches the key of an applied change.
    pub fn follow(&mut self, change: &Change) {
        let (previous, current) = match change {
            Change::Put { current, previous } => (previous.as_ref(), Some(current)),
            Change::Delete { previous } => (Some(previous), None),
        };
        if let Some((id, kv)) = previous.and_then(leased)
            && let Some(lease) = self.by_id.get_mut(&id)
        {
            lease.keys.remove(&kv.key);
        }
        if let Some((id, kv)) = current.and_then(leased) {
            self.attach(kv.key.clone(), id);
        }
    }

    /// Attaches a key that exists.
    pub fn attach(&mut self, key: Bytes, id: LeaseId) {
        if let Some(lease) = self.by_id.get_mut(&id) {
            lease.keys.insert(key);
        }
    }
}

fn leased(kv: &KeyValue) -> Option<(LeaseId, &KeyValue)> {
    kv.lease.map(|id| (id, kv))
}
