//! Limits and alarms of the server.

use std::time::Duration;

use bytes::Bytes;
use storage::{Error, Guard, Op, RangeRequest, Store, Txn};

use super::{Etcd, all, committed, put, txn};

fn big(key: &str, bytes: usize) -> Op {
    Op::Put { key: key.to_owned().into(), value: vec![7; bytes].into(), lease: None }
}

#[tokio::test]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn rejected_transactions_name_the_limit_and_change_nothing() {
    let etcd = Etcd::start(&[]);
    let store = etcd.store().await;
    for bytes in [1_600_000, 3_000_000] {
        let refused = store.txn(txn(vec![big("/big", bytes)])).await;
        assert!(matches!(&refused, Err(Error::OverLimit(why)) if why.contains("--max-request-bytes")), "{refused:?}");
    }
    let many = (0..129).map(|n| put(&format!("/many/{n}"), "1")).collect();
    let refused = store.txn(txn(many)).await;
    assert!(matches!(&refused, Err(Error::OverLimit(why)) if why.contains("--max-txn-ops")), "{refused:?}");
    assert_eq!(store.revision().await, Ok(1));
    committed(store.txn(txn(vec![big("/big", 1_000_000)])).await.unwrap());
    assert_eq!(store.verify().await, Ok(()));
}

#[tokio::test]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn a_full_etcd_is_reported_and_still_read() {
    let etcd = Etcd::start(&["--quota-backend-bytes=8388608"]);
    let store = etcd.store().await;
    assert!(!store.size().await.unwrap().is_exceeded);
    let mut written = 0;
    let refused = loop {
        match store.txn(txn(vec![big(&format!("/{written}"), 1_000_000)])).await {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 200, "etcd has a quota");
        // etcd compares the quota with the written part of its file, ten times a second.
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    // These writes have no guard that would show whether they are stored.
    assert!(matches!(&refused, Error::Uncertain(why) if why.contains("etcdctl alarm disarm")), "{refused:?}");
    let sound = store.verify().await;
    assert!(matches!(&sound, Err(Error::Alarm(why)) if why.contains("NOSPACE")), "{sound:?}");
    assert!(store.size().await.unwrap().is_exceeded);
    let found = store.range(RangeRequest { range: all(), revision: None, limit: 0 }).await.unwrap();
    // etcd applies the write that exceeds the quota, and refuses it earlier where it notices.
    assert!([written, written + 1].contains(&found.count), "{} of {written}", found.count);
}

/// Writes that are proposed together raise the alarm together: etcd applies them and returns the error of refused ones.
#[tokio::test]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn no_write_of_a_full_etcd_is_stored_and_reported_as_not_written() {
    let etcd = Etcd::start(&["--quota-backend-bytes=8388608"]);
    let store = etcd.store().await;
    let mut answers = Vec::new();
    for round in 0..20 {
        let keys: Vec<Bytes> = (0..16).map(|n| format!("/{round}/{n}").into()).collect();
        let write = |key: &Bytes| {
            let put = Op::Put { key: key.clone(), value: vec![7; 200_000].into(), lease: None };
            store.txn(Txn { guards: vec![Guard::Absent(key.clone())], ops: vec![put] })
        };
        let outcomes = futures::future::join_all(keys.iter().map(write)).await;
        answers.extend(keys.into_iter().zip(outcomes));
        if answers.iter().any(|(_, answer)| matches!(answer, Err(Error::Alarm(_)))) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut refused = 0;
    for (key, answer) in answers {
        let stored = store.get(key.clone(), None).await.unwrap().is_some();
        match answer {
            Ok(_) => assert!(stored, "{key:?}"),
            Err(Error::Alarm(_)) => {
                refused += 1;
                assert!(!stored, "{key:?} is stored, and was reported as not written");
            }
            Err(Error::Uncertain(why)) => assert!(why.contains("alarm disarm"), "{why}"),
            Err(error) => panic!("{key:?}: {error}"),
        }
    }
    assert!(refused > 0, "etcd has a quota");
}

/// More than a gRPC message and than a page: a list is read in pages, all of one revision, and a watch in fragments.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn large_lists_and_watches_are_complete() {
    let etcd = Etcd::start(&[]);
    let store = etcd.store().await;
    let keys: Vec<_> = (0..1200).map(|n| format!("/k/{n:04}")).collect();
    futures::future::try_join_all(keys.iter().map(|key| store.txn(txn(vec![big(key, 10_000)])))).await.unwrap();
    let at = store.revision().await.unwrap();
    let listing = store.range(RangeRequest { range: all(), revision: Some(at), limit: 0 });
    let writing = store.txn(txn(vec![put("/k/0000x", "later")]));
    let (found, wrote) = futures::join!(listing, writing);
    committed(wrote.unwrap());
    let found = found.unwrap();
    assert_eq!((found.items.len(), found.count), (1200, 1200));
    assert!(
        found.items.iter().map(|kv| &kv.key).eq(keys
            .iter()
            .map(|key| Bytes::from(key.clone()))
            .collect::<Vec<_>>()
            .iter())
    );
    let some = store.range(RangeRequest { range: all(), revision: Some(at), limit: 700 }).await.unwrap();
    assert_eq!((some.items.len(), some.count), (700, 1200));
    let mut watch = store.watch(all(), 1).await.unwrap();
    let seen = super::changes(&mut watch, 1201).await;
    assert!(
        seen.iter().enumerate().all(|(n, change)| change.starts_with(&format!("{}+", n + 2))),
        "each revision once"
    );
}
