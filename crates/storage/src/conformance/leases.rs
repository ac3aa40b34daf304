//! Leases, on virtual time.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Subject, changes};
use crate::{Error, LeaseId};

pub(super) async fn expiry_deletes_the_keys(store: &Subject) {
    let lease = store.0.grant_lease(10).await.expect("granted");
    let begin = Instant::now();
    store.put_leased("/a", lease).await;
    store.put_leased("/b", lease).await;
    store.put("/c", "stays").await;
    assert_eq!(store.get("/a").await.expect("lives").lease, Some(lease));
    let mut watch = store.watch("/", 4).await;
    assert_eq!(changes(&mut watch, 2).await, ["5-/a<leased", "6-/b<leased"], "each by a revision of its own");
    let waited = begin.elapsed();
    assert!((Duration::from_secs(10)..Duration::from_secs(12)).contains(&waited), "ended after {waited:?}");
    assert!(store.get("/a").await.is_none() && store.get("/b").await.is_none() && store.get("/c").await.is_some());
    assert_eq!(store.0.keep_alive(lease).await, Err(Error::LeaseNotFound(lease)));
}

pub(super) async fn a_renewed_lease_does_not_expire(store: &Subject) {
    let lease = store.0.grant_lease(10).await.expect("granted");
    let other = store.0.grant_lease(300).await.expect("granted");
    assert_ne!(lease, other);
    store.put_leased("/a", lease).await;
    for _ in 0..5 {
        sleep(Duration::from_secs(7)).await;
        store.0.keep_alive(lease).await.expect("alive");
    }
    assert!(store.get("/a").await.is_some(), "35 s later");
    sleep(Duration::from_secs(12)).await;
    assert!(store.get("/a").await.is_none(), "no longer kept alive");
    store.0.keep_alive(other).await.expect("alive");
}

pub(super) async fn revoking_deletes_at_once(store: &Subject) {
    let lease = store.0.grant_lease(1000).await.expect("granted");
    store.put_leased("/a", lease).await;
    store.0.revoke_lease(lease).await.expect("revoked");
    assert!(store.get("/a").await.is_none());
    assert_eq!(store.0.revoke_lease(lease).await, Err(Error::LeaseNotFound(lease)));
    let unknown = LeaseId(987_654_321);
    assert_eq!(store.0.keep_alive(unknown).await, Err(Error::LeaseNotFound(unknown)));
}

pub(super) async fn a_key_follows_its_last_write(store: &Subject) {
    let (first, second) =
        (store.0.grant_lease(10).await.expect("granted"), store.0.grant_lease(100).await.expect("granted"));
    store.put_leased("/moved", first).await;
    store.put_leased("/moved", second).await;
    store.put_leased("/freed", first).await;
    store.put("/freed", "stays").await;
    store.put_leased("/remade", first).await;
    store.delete("/remade").await;
    store.put("/remade", "stays").await;
    sleep(Duration::from_secs(15)).await;
    for key in ["/moved", "/freed", "/remade"] {
        assert!(store.get(key).await.is_some(), "{key} does not hang on the ended lease");
    }
    sleep(Duration::from_secs(100)).await;
    assert!(store.get("/moved").await.is_none());
    assert_eq!(store.get("/freed").await.expect("stays").lease, None);
}
