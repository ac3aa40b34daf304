//! Claims of unique values (addresses of services), on a store that several servers write to.
//!
//! A claim is a key of the store under a lease. Two servers cannot have the same claim. The write of the object is
//! guarded by its claims and deletes them, so a server that was stopped for longer than the lease stores nothing. A
//! server that has claimed a value checks once more that no stored object has it, because the write of another server
//! deletes the claim.

use apimachinery::{ObjectKey, Status};
use bytes::Bytes;
use storage::{Guard, KeyValue, LeaseId, Op, Store, Txn, TxnOutcome};

use crate::errors;

/// Outside the keys of objects.
const ROOT: &str = "/karmada-rs/claims/";
/// Seconds of a claim: twice the time that a request has.
const TTL: u64 = 120;
/// Retries after other servers' claims for an object of the same name.
const TRIES: usize = 8;

/// The result of an attempt.
pub(super) enum Claimed {
    /// The guards of the write.
    All(Vec<Guard>),
    /// The claimed values that other objects have, by their place in the request.
    Others(Vec<(usize, ObjectKey)>),
}

/// The lease of the claims of one request.
///
/// # Errors
/// When the store cannot be written.
pub(super) async fn lease(store: &dyn Store) -> Result<LeaseId, Status> {
    store.grant_lease(TTL).await.map_err(errors::store)
}

/// Gives up claims that the write does not need.
///
/// # Errors
/// When the store cannot be written.
pub(super) async fn release(store: &dyn Store, claims: Vec<Guard>) -> Result<(), Status> {
    let ops = claims.iter().map(|claim| Op::Delete { key: claim.key().clone() }).collect();
    store.txn(Txn { guards: claims, ops }).await.map(drop).map_err(errors::store)
}

/// Claims `values` of a resource for the object `key`, all or none.
///
/// # Errors
/// When the store cannot be written.
pub(super) async fn take(
    store: &dyn Store,
    lease: LeaseId,
    resource: &str,
    key: &ObjectKey,
    values: &[String],
) -> Result<Claimed, Status> {
    let owner = Bytes::from(key.to_string());
    let keys: Vec<Bytes> = values.iter().map(|value| format!("{ROOT}{resource}/{value}").into()).collect();
    let mut found = vec![None; keys.len()];
    for _ in 0..TRIES {
        let txn = Txn { guards: guards(&keys, &found), ops: ops(&keys, &owner, lease) };
        match store.txn(txn).await.map_err(errors::store)? {
            TxnOutcome::Committed { revision } => {
                return Ok(Claimed::All(keys.into_iter().map(|key| Guard::ModRevision(key, revision)).collect()));
            }
            TxnOutcome::Failed { current, .. } => {
                let others = of_others(&current, &owner);
                if !others.is_empty() {
                    return Ok(Claimed::Others(others));
                }
                found = current;
            }
        }
    }
    Err(Status::internal(format!(
        "failed to claim {} of {key}: other servers claim them for it as well",
        values.join(", ")
    )))
}

/// A claim of an earlier attempt to write the object is taken over.
fn guards(keys: &[Bytes], found: &[Option<KeyValue>]) -> Vec<Guard> {
    let guard = |(key, found): (&Bytes, &Option<KeyValue>)| match found {
        None => Guard::Absent(key.clone()),
        Some(found) => Guard::ModRevision(key.clone(), found.mod_revision),
    };
    keys.iter().zip(found).map(guard).collect()
}

fn ops(keys: &[Bytes], owner: &Bytes, lease: LeaseId) -> Vec<Op> {
    let put = |key: &Bytes| Op::Put { key: key.clone(), value: owner.clone(), lease: Some(lease) };
    keys.iter().map(put).collect()
}

fn of_others(current: &[Option<KeyValue>], owner: &Bytes) -> Vec<(usize, ObjectKey)> {
    let other = |(place, found): (usize, &Option<KeyValue>)| {
        let found = found.as_ref().filter(|found| found.value != owner)?;
        let text = String::from_utf8_lossy(&found.value);
        Some((
            place,
            match text.split_once('/') {
                Some((namespace, name)) => ObjectKey::namespaced(namespace, name),
                None => ObjectKey::cluster(text.as_ref()),
            },
        ))
    };
    current.iter().enumerate().filter_map(other).collect()
}

#[cfg(test)]
mod tests {
    use storage::RangeRequest;
    use storage::memory::MemoryStore;

    use super::*;

    fn text(values: &[&str]) -> Vec<String> {
        values.iter().map(|value| (*value).to_owned()).collect()
    }

    async fn attempt(store: &MemoryStore, name: &str, values: &[&str]) -> String {
        let key = ObjectKey::namespaced("ns", name);
        let lease = lease(store).await.expect("a store in memory answers");
        match take(store, lease, "services", &key, &text(values)).await.expect("a store in memory answers") {
            Claimed::All(guards) => format!("{} claims", guards.len()),
            Claimed::Others(others) => {
                let others: Vec<_> = others.iter().map(|(place, key)| format!("{place} of {key}")).collect();
                others.join(", ")
            }
        }
    }

    #[tokio::test]
    async fn a_value_has_one_claim_and_none_is_claimed_without_the_others() {
        let store = MemoryStore::new();
        for (name, values, expected) in [
            ("a", &["addresses/10.0.0.1", "ports/30000"][..], "2 claims"),
            ("b", &["addresses/10.0.0.2", "ports/30000"], "1 of ns/a"),
            ("b", &["addresses/10.0.0.2"], "1 claims"),
            ("c", &["addresses/10.0.0.1", "addresses/10.0.0.2"], "0 of ns/a, 1 of ns/b"),
            // Another attempt to store the same service.
            ("a", &["addresses/10.0.0.1", "ports/30001"], "2 claims"),
        ] {
            assert_eq!(attempt(&store, name, values).await, expected, "{name} {values:?}");
        }
        let range = storage::KeyRange::prefix(ROOT);
        let found = store.range(RangeRequest { range, revision: None, limit: 0 }).await.expect("a range");
        assert_eq!(found.count, 4);
        assert!(found.items.iter().all(|item| item.lease.is_some()));
        let claims = found.items.into_iter().map(|item| Guard::ModRevision(item.key, item.mod_revision)).collect();
        release(&store, claims).await.expect("a store in memory answers");
        assert_eq!(attempt(&store, "c", &["addresses/10.0.0.1"]).await, "1 claims");
    }
}
