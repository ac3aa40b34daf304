//! The points where history was lost are recorded.

use std::fs;
use std::time::{Duration, SystemTime};

use storage::embedded::{Break, BreakKind, EmbeddedStore, Options};
use storage::{Op, Store, Txn};

pub async fn put(store: &EmbeddedStore, key: &str, value: Vec<u8>) {
    let ops = vec![Op::Put { key: key.to_owned().into(), value: value.into(), lease: None }];
    store.txn(Txn { guards: vec![], ops }).await.unwrap();
}

#[tokio::test]
async fn an_accepted_loss_is_recorded_and_older_stores_have_none() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let open = async || {
        let options = Options { now: Some(now), must_exist: file("store.mark").exists(), ..Options::default() };
        EmbeddedStore::open(dir.path(), options).await
    };
    let mut expected = Vec::new();
    for round in 0..2 {
        let store = open().await.unwrap();
        assert_eq!(store.breaks(), expected);
        put(&store, "/a", vec![round]).await;
        let before = store.revision().await.unwrap();
        store.close().await.unwrap();
        fs::copy(file("store.sqlite"), file("older")).unwrap();
        let store = open().await.unwrap();
        put(&store, "/b", vec![round]).await;
        store.close().await.unwrap();
        fs::rename(file("older"), file("store.sqlite")).unwrap();
        open().await.expect_err("the write of /b is missing");
        fs::write(file("accept-loss"), "").unwrap();
        expected.push(Break { before, after: before + 1 + 1_000_000, when: Some(now), kind: BreakKind::AcceptedLoss });
        for _ in 0..2 {
            let store = open().await.unwrap();
            assert_eq!(store.breaks(), expected);
            store.verify().await.unwrap();
            store.close().await.unwrap();
        }
    }
    // A damaged name would make the figure appear absent.
    let db = rusqlite::Connection::open(file("store.sqlite")).unwrap();
    db.execute("UPDATE number SET name = 'breakr' WHERE name = 'breaks'", ()).unwrap();
    drop(db);
    let error = open().await.unwrap_err().to_string();
    assert!(error.contains("figures"), "{error}");
}
