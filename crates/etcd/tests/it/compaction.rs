//! Compactions by servers that live shorter than the interval.

use std::time::Duration;

use etcd::{EtcdStore, Options};
use storage::{Error, Store};

use super::{Etcd, committed, put, txn};

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn servers_that_restart_more_often_than_the_interval_compact() {
    let etcd = Etcd::start(&[]);
    let interval = Some(Duration::from_secs(2));
    let options = Options { compaction: interval, ..etcd.process.options(super::layout()).unwrap() };
    let reader = etcd.store().await;
    let first = committed(reader.txn(txn(vec![put("/a", "0")])).await.unwrap());
    let restarts = async {
        loop {
            // Lives for ten writes, a small part of the interval.
            let store = EtcdStore::open(options.clone()).await.unwrap();
            for _ in 0..10 {
                committed(store.txn(txn(vec![put("/a", "1")])).await.unwrap());
            }
            drop(store);
            match reader.get("/a".into(), Some(first)).await {
                Ok(found) => assert_eq!(found.unwrap().value, "0"),
                Err(Error::Compacted { oldest, .. }) => return oldest,
                Err(error) => panic!("{error}"),
            }
        }
    };
    let oldest = tokio::time::timeout(Duration::from_secs(60), restarts).await.expect("the history is compacted");
    assert!(first < oldest && oldest < reader.revision().await.unwrap());
}
