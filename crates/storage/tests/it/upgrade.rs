//! A store of the format before checksums is upgraded when it opens, and refused by the versions that wrote it.

use std::path::Path;

use storage::embedded::{EmbeddedStore, Options};
use storage::{Error, KeyRange, RangeRequest, Store};

const SCHEMA: &str = include_str!("../data/format-1.sql");

/// Revisions 3 to `newest`, of which 3 to 100 are compacted; a deletion; a key that hangs on a lease.
pub fn old_store(dir: &Path, newest: i64) {
    let mut db = rusqlite::Connection::open(dir.join("store.sqlite")).unwrap();
    db.execute_batch(SCHEMA).unwrap();
    let txn = db.transaction().unwrap();
    let mut insert = txn.prepare("INSERT INTO log VALUES (?1, ?2, ?3, ?4, ?5)").unwrap();
    for n in 3..=newest - 2 {
        let key = format!("/key/{n}");
        insert.execute((n << 16, key.as_bytes(), n, None::<i64>, Some(vec![n as u8; 500]))).unwrap();
    }
    insert.execute(((newest - 1) << 16, &b"/key/150"[..], 0, None::<i64>, None::<Vec<u8>>)).unwrap();
    insert.execute((newest << 16, &b"/leased"[..], newest, Some(5_i64), Some(b"x".to_vec()))).unwrap();
    drop(insert);
    txn.execute_batch(
        "INSERT INTO lease VALUES (5, 60); INSERT INTO meta VALUES ('lease', 5), ('oldest', 100), ('swept', 6619135)",
    )
    .unwrap();
    txn.commit().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_old_store_is_upgraded_when_it_opens() {
    let dir = tempfile::tempdir().unwrap();
    old_store(dir.path(), 202);
    for _ in 0..2 {
        let store = EmbeddedStore::open(dir.path(), Options { must_exist: true, ..Options::default() }).await.unwrap();
        assert_eq!(store.revision().await, Ok(202));
        store.verify().await.unwrap();
        let all = RangeRequest { range: KeyRange::prefix("/key/"), revision: None, limit: 0 };
        assert_eq!(store.range(all.clone()).await.unwrap().count, 197);
        let then = store.range(RangeRequest { revision: Some(200), ..all }).await.unwrap();
        assert_eq!((then.count, &then.items[50].value[..]), (198, &vec![then.items[50].mod_revision as u8; 500][..]));
        assert_eq!(store.get("/key/3".into(), Some(99)).await, Err(Error::Compacted { requested: 99, oldest: 100 }));
        assert!(store.get("/leased".into(), None).await.unwrap().is_some());
        store.close().await.unwrap();
        let db = rusqlite::Connection::open(dir.path().join("store.sqlite")).unwrap();
        let format: i64 = db.query_row("PRAGMA user_version", (), |row| row.get(0)).unwrap();
        assert_eq!(format, 2, "a version that knows only 1 refuses it");
    }
    let store = EmbeddedStore::open(dir.path(), Options::default()).await.unwrap();
    assert!(store.grant_lease(1).await.unwrap().0 == 6);
    tokio::time::sleep(std::time::Duration::from_secs(61)).await;
    assert!(store.get("/leased".into(), None).await.unwrap().is_none(), "the lease went on");
}

#[tokio::test]
async fn an_upgrade_that_finds_no_space_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    old_store(dir.path(), 202);
    let quota = Options { quota_bytes: Some(200_000), ..Options::default() };
    assert_eq!(EmbeddedStore::open(dir.path(), quota).await.err(), Some(Error::NoSpace));
    let store = EmbeddedStore::open(dir.path(), Options::default()).await.unwrap();
    assert_eq!(store.revision().await, Ok(202));
    store.verify().await.unwrap();
}

/// Each page of the file is lost in turn. An upgrade never continues with less than was stored, and a refused one
/// changes nothing, so that the file can be repaired.
#[tokio::test]
async fn a_damaged_old_store_is_not_upgraded() {
    const PAGE: usize = 4096;
    let dir = tempfile::tempdir().unwrap();
    old_store(dir.path(), 202);
    let sound = std::fs::read(dir.path().join("store.sqlite")).unwrap();
    let mut refused = 0;
    for page in 0..sound.len() / PAGE {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.sqlite");
        let mut damaged = sound.clone();
        damaged[page * PAGE..(page + 1) * PAGE].fill(0);
        std::fs::write(&path, &damaged).unwrap();
        match EmbeddedStore::open(dir.path(), Options { must_exist: true, ..Options::default() }).await {
            Err(Error::Failed(why)) => {
                assert!(why.contains("store.sqlite") || why.contains("damaged"), "page {page}: {why}");
                assert_eq!(std::fs::read(&path).unwrap(), damaged, "page {page}");
                refused += 1;
                // Repaired, as from a copy of the file.
                std::fs::write(&path, &sound).unwrap();
                let store = EmbeddedStore::open(dir.path(), Options::default()).await.unwrap();
                assert_eq!(store.revision().await, Ok(202), "page {page}");
                store.close().await.unwrap();
            }
            Err(error) => panic!("page {page}: {error}"),
            Ok(store) => {
                let all = RangeRequest { range: KeyRange::prefix("/key/"), revision: None, limit: 0 };
                assert_eq!(store.range(all).await.unwrap().count, 197, "page {page} held nothing");
                store.close().await.unwrap();
            }
        }
    }
    assert!(refused > 20, "{refused} pages of {}", sound.len() / PAGE);
}
