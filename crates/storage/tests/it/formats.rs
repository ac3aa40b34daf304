//! Stores of each earlier format, as files: they open, are migrated to the current format, and are served under writes.
//! A newer format is refused and not changed.

use std::fs;
use std::path::{Path, PathBuf};

use futures::StreamExt as _;
use storage::embedded::inspect::verify_store;
use storage::embedded::{EmbeddedStore, Options};
use storage::{Change, Error, KeyRange, RangeRequest, Store};

use crate::breaks::put;

/// The newest revision of the files.
const NEWEST: u64 = 108;
const FORMATS: [&str; 2] = ["format-1", "format-2"];

fn data(format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(format)
}

fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

async fn open(dir: &Path) -> Result<EmbeddedStore, Error> {
    EmbeddedStore::open(dir, Options { must_exist: true, ..Options::default() }).await
}

#[tokio::test]
async fn every_format_opens_and_serves_while_it_is_written_to() {
    for format in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        copied(&data(format), dir.path());
        let store = open(dir.path()).await.unwrap_or_else(|error| panic!("{format}: {error}"));
        assert_eq!(store.revision().await, Ok(NEWEST), "{format}");
        // A client resumes where it was, while others write.
        let mut watch = store.watch(KeyRange::prefix("/registry/core/configmaps/"), 103).await.unwrap();
        for n in 0..50 {
            put(&store, &format!("/registry/core/configmaps/default/new-{n}"), vec![n; 900]).await;
        }
        let mut seen = Vec::new();
        while seen.len() < 53 {
            let batch = watch.next().await.unwrap().unwrap();
            seen.extend(batch.changes.iter().map(|(at, change)| (*at, matches!(change, Change::Delete { .. }))));
        }
        assert_eq!(seen[..4], [(104, false), (105, false), (106, true), (109, false)], "{format}");
        let kept = store.get("/registry/core/configmaps/default/kept".into(), None).await.unwrap().unwrap();
        assert_eq!((kept.create_revision, kept.mod_revision), (103, 104), "{format}");
        assert!(kept.value.ends_with(br#""data":{"n":"2"}}"#), "{format}");
        let before = store.get(kept.key.clone(), Some(103)).await.unwrap().unwrap();
        assert!(before.value.ends_with(br#""data":{"n":"1"}}"#), "{format}: history is kept");
        let event = store.get("/registry/core/events/default/e".into(), None).await.unwrap().unwrap();
        assert!(event.lease.is_some(), "{format}");
        store.verify().await.unwrap();
        store.close().await.unwrap();
        assert_eq!(verify_store(dir.path(), &mut |_, _| {}).unwrap().damaged, Vec::<String>::new(), "{format}");
        let all = RangeRequest { range: KeyRange::prefix("/registry/"), revision: None, limit: 0 };
        let store = open(dir.path()).await.unwrap();
        assert_eq!(store.range(all).await.unwrap().count, 55, "{format}: a second start changes nothing");
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_newer_format_is_rejected_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    copied(&data("format-2"), dir.path());
    let path = dir.path().join("store.sqlite");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch("PRAGMA user_version=3; PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    drop(db);
    let files = || ["store.sqlite", "store.mark"].map(|name| fs::read(dir.path().join(name)).unwrap());
    let before = files();
    let error = open(dir.path()).await.err().unwrap().to_string();
    assert!(error.contains("format 3 is not known to this version, which writes format 2"), "{error}");
    assert_eq!(files(), before);
}

/// Writes the file of the present format again, on request.
#[tokio::test]
async fn the_present_format_is_kept() {
    if std::env::var_os("STORAGE_FIXTURES").is_none() {
        return;
    }
    let (dir, to) = (tempfile::tempdir().unwrap(), data("format-2"));
    copied(&data("format-1"), dir.path());
    open(dir.path()).await.unwrap().close().await.unwrap();
    fs::create_dir_all(&to).unwrap();
    for name in ["store.sqlite", "store.mark"] {
        fs::copy(dir.path().join(name), to.join(name)).unwrap();
    }
}
