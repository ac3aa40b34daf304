//! Writing: revisions, guards, sizes, concurrency.

use bytes::Bytes;

use super::{Subject, bytes, committed, delete, put};
use crate::{Error, Guard, LeaseId, Op, Txn, TxnOutcome};

pub(super) async fn revisions_start_at_one_and_grow_by_one(store: &Subject) {
    assert_eq!(store.revision().await, 1, "an empty store");
    assert_eq!(store.put("/a", "1").await, 2);
    assert_eq!(store.put("/a", "2").await, 3);
    assert_eq!(store.delete("/absent").await, 3, "deleting nothing is no change");
    assert_eq!(committed(&store.commit(vec![], vec![]).await), 3, "nor is an empty transaction");
    assert_eq!(store.delete("/a").await, 4);
    assert_eq!(store.revision().await, 4);
}

pub(super) async fn guards_decide(store: &Subject) {
    let absent = |key: &str| Guard::Absent(bytes(key));
    let at = |key: &str, revision| Guard::ModRevision(bytes(key), revision);
    store.put("/a", "1").await;
    store.put("/b", "1").await;
    let rows = [
        (vec![absent("/new")], true),
        (vec![absent("/a")], false),
        (vec![at("/a", 2)], true),
        (vec![at("/a", 3)], false),
        (vec![at("/absent", 0)], false),
        (vec![at("/a", 2), at("/b", 3)], true),
        (vec![at("/a", 2), at("/b", 2)], false),
        (vec![at("/a", 2), absent("/a")], false),
    ];
    for (guards, holds) in rows {
        let before = store.revision().await;
        let outcome = store.commit(guards.clone(), vec![put("/out", "x")]).await;
        assert_eq!(matches!(outcome, TxnOutcome::Committed { .. }), holds, "{guards:?}");
        assert_eq!(store.revision().await, before + u64::from(holds), "{guards:?}");
    }
}

pub(super) async fn a_failed_transaction_shows_the_present_state(store: &Subject) {
    let at = store.put("/a", "1").await;
    let guards = vec![Guard::ModRevision(bytes("/b"), 9), Guard::Absent(bytes("/a"))];
    let outcome = store.commit(guards, vec![delete("/a"), put("/b", "x")]).await;
    let current = vec![None, store.get("/a").await];
    assert!(current[1].is_some(), "nothing was written");
    assert_eq!(outcome, TxnOutcome::Failed { current, revision: at });
    assert_eq!(store.get("/b").await, None);
}

pub(super) async fn several_ops_share_a_revision(store: &Subject) {
    store.put("/old", "1").await;
    let at =
        committed(&store.commit(vec![], vec![put("/a", "1"), delete("/old"), put("/a", "2"), put("/b", "1")]).await);
    assert_eq!(at, 3);
    for (key, value) in [("/a", "2"), ("/b", "1")] {
        let kv = store.get(key).await.expect("written");
        assert_eq!((kv.value, kv.create_revision, kv.mod_revision), (bytes(value), at, at), "{key}");
    }
    assert_eq!(store.get("/old").await, None);
    let missing = LeaseId(4711);
    let op = Op::Put { key: bytes("/c"), value: Bytes::new(), lease: Some(missing) };
    let refused = store.0.txn(Txn { guards: vec![], ops: vec![put("/d", "1"), op] }).await;
    assert_eq!(refused, Err(Error::LeaseNotFound(missing)));
    assert_eq!((store.get("/d").await, store.revision().await), (None, at), "nothing of it happened");
}

pub(super) async fn joint_transactions_commit_in_order_or_not_at_all(store: &Subject) {
    let txn = |guards, ops| Txn { guards, ops };
    let together = |txns| async move { store.0.txn_all(txns).await };
    let committed = |revision| TxnOutcome::Committed { revision };
    let first = txn(vec![Guard::Absent(bytes("/a"))], vec![put("/a", "1")]);
    let second = txn(vec![Guard::Absent(bytes("/b"))], vec![put("/b", "1"), put("/c", "1")]);
    let nothing = txn(vec![Guard::ModRevision(bytes("/a"), 2)], vec![delete("/absent")]);
    let shared = store.0.shares_revisions();
    let all = vec![first.clone(), nothing, second.clone()];
    // The revision after which the last transaction has happened.
    let last = if shared {
        let refused = together(all).await;
        assert!(matches!(refused, Err(Error::OverLimit(_))), "the second guard is about the first write: {refused:?}");
        assert_eq!(together(vec![first.clone(), second]).await, Ok(vec![committed(2), committed(2)]));
        2
    } else {
        let done = together(all).await;
        assert_eq!(
            done,
            Ok(vec![committed(2), committed(2), committed(3)]),
            "the second guard is about the first write"
        );
        3
    };
    let revisions = async |keys: [&str; 3]| {
        let found = futures::future::join_all(keys.map(|key| store.get(key))).await;
        found.into_iter().map(|kv| kv.map(|kv| kv.mod_revision)).collect::<Vec<_>>()
    };
    assert_eq!(revisions(["/a", "/b", "/c"]).await, [Some(2), Some(last), Some(last)]);
    let refused = together(vec![txn(vec![], vec![put("/d", "1")]), first, txn(vec![], vec![delete("/b")])]).await;
    let failed = |current| TxnOutcome::Failed { current, revision: last };
    assert_eq!(refused, Ok(vec![failed(vec![]), failed(vec![store.get("/a").await]), failed(vec![])]));
    assert_eq!(revisions(["/a", "/b", "/d"]).await, [Some(2), Some(last), None]);
    let lost = LeaseId(4711);
    let leased = txn(vec![], vec![Op::Put { key: bytes("/f"), value: Bytes::new(), lease: Some(lost) }]);
    let refused = together(vec![txn(vec![], vec![put("/e", "1")]), leased]).await;
    assert_eq!(refused, Err(Error::LeaseNotFound(lost)));
    assert_eq!((store.get("/e").await, store.revision().await), (None, last));
    assert_eq!(together(vec![]).await, Ok(vec![]));
}

pub(super) async fn a_recreated_key_is_new(store: &Subject) {
    let first = store.put("/a", "1").await;
    let second = store.put("/a", "2").await;
    let kv = store.get("/a").await.expect("exists");
    assert_eq!((kv.create_revision, kv.mod_revision), (first, second));
    store.delete("/a").await;
    assert_eq!(store.get("/a").await, None);
    let third = store.put("/a", "3").await;
    let kv = store.get("/a").await.expect("exists");
    assert_eq!((kv.create_revision, kv.mod_revision), (third, third));
}

pub(super) async fn large_values_are_kept_and_larger_ones_rejected(store: &Subject) {
    let value = Bytes::from(vec![0xa5; 3 << 20]);
    let big = |value: Bytes| Txn { guards: vec![], ops: vec![Op::Put { key: bytes("/big"), value, lease: None }] };
    store.0.txn(big(value.clone())).await.expect("3 MiB are taken");
    assert_eq!(store.get("/big").await.expect("exists").value, value);
    let refused = store.0.txn(big(vec![0; 64 << 20].into())).await;
    assert!(matches!(refused, Err(Error::TooLarge { size, limit }) if size > limit), "{refused:?}");
    assert_eq!(store.get("/big").await.expect("exists").value, value);
    store.put("/empty", "").await;
    assert_eq!(store.get("/empty").await.expect("exists").value, Bytes::new());
}

/// Sixteen tasks increment one counter by compare-and-set; no increment may be lost.
pub(super) async fn concurrent_writers_each_win_once(store: &Subject) {
    store.put("/counter", "0").await;
    let tasks: Vec<_> = (0..16).map(|_| tokio::spawn(increment(store.clone(), 8))).collect();
    for task in tasks {
        task.await.expect("the task ends well");
    }
    assert_eq!(store.get("/counter").await.expect("exists").value, bytes("128"));
    assert_eq!(store.revision().await, 2 + 128);
}

async fn increment(store: Subject, times: usize) {
    for _ in 0..times {
        loop {
            let kv = store.get("/counter").await.expect("exists");
            let count: u64 = super::text(&kv.value).parse().expect("a number");
            let guard = Guard::ModRevision(kv.key, kv.mod_revision);
            if let TxnOutcome::Committed { .. } =
                store.commit(vec![guard], vec![put("/counter", &(count + 1).to_string())]).await
            {
                break;
            }
        }
    }
}
