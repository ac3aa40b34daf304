//! Leases on etcd's time.

use storage::{Error, Op, Store};

use super::{Etcd, all, changes, committed, put, txn};

#[tokio::test]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn an_ended_lease_deletes_its_keys_at_one_revision() {
    let etcd = Etcd::start(&[]);
    let store = etcd.store().await;
    let lease = store.grant_lease(1).await.unwrap();
    let leased = |key: &'static str| Op::Put { key: key.into(), value: "1".into(), lease: Some(lease) };
    committed(store.txn(txn(vec![leased("/a"), leased("/b"), leased("/moved"), put("/c", "1")])).await.unwrap());
    assert_eq!(store.get("/a".into(), None).await.unwrap().unwrap().lease, Some(lease));
    // The last write decides whether a key has the lease.
    let after = committed(store.txn(txn(vec![put("/moved", "2")])).await.unwrap());
    let mut watch = store.watch(all(), after).await.unwrap();
    assert_eq!(changes(&mut watch, 2).await, ["4-/a", "4-/b"]);
    assert!(store.get("/moved".into(), None).await.unwrap().is_some());
    assert_eq!(store.keep_alive(lease).await, Err(Error::LeaseNotFound(lease)));
}
