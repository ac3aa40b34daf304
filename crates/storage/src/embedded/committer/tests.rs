//! The committer after failures.

use super::*;
use crate::Store;
use crate::embedded::{EmbeddedStore, Options};

fn put(key: &'static str) -> Txn {
    Txn { guards: vec![], ops: vec![Op::Put { key: key.into(), value: "1".into(), lease: None }] }
}

#[tokio::test(start_paused = true)]
async fn after_a_failure_it_reads_but_does_not_write() {
    let dir = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(dir.path(), Options::default()).await.unwrap();
    store.txn(put("/a")).await.unwrap();
    let pragma = |value: &str| {
        let writer = store.0.writer.lock();
        writer.as_ref().unwrap().db.execute_batch(&format!("PRAGMA query_only={value}")).unwrap();
    };
    // Any error that is not a full disk will do.
    pragma("1");
    let Err(Error::Failed(message)) = store.txn(put("/b")).await else { panic!("it wrote") };
    assert!(message.contains("store.sqlite"), "{message}");
    pragma("0");
    assert_eq!(store.txn(put("/b")).await, Err(Error::Failed(Arc::clone(&message))), "until it is opened again");
    assert_eq!(store.grant_lease(1).await, Err(Error::Failed(message)));
    assert!(store.get("/a".into(), None).await.unwrap().is_some());
    store.close().await.unwrap();
    assert_eq!(store.txn(put("/b")).await, Err(Error::Closed));
    let store = EmbeddedStore::open(dir.path(), Options::default()).await.unwrap();
    assert_eq!(store.txn(put("/b")).await, Ok(TxnOutcome::Committed { revision: 3 }));
}
