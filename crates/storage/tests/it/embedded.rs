//! Properties of the embedded store only: persistence, shared syncs, refusal of a second opener, of a damaged file and
//! of a full disk.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use storage::embedded::{EmbeddedStore, Options};
use storage::{Change, Error, KeyRange, LeaseId, Op, RangeRequest, Result, Revision, Store, Txn, TxnOutcome};

async fn open(dir: &Path) -> EmbeddedStore {
    EmbeddedStore::open(dir, Options::default()).await.unwrap()
}

async fn write(store: &EmbeddedStore, op: Op) -> Result<Revision> {
    match store.txn(Txn { guards: vec![], ops: vec![op] }).await? {
        TxnOutcome::Committed { revision } => Ok(revision),
        outcome @ TxnOutcome::Failed { .. } => panic!("{outcome:?}"),
    }
}

fn put(key: &str, size: usize) -> Op {
    Op::Put { key: key.to_owned().into(), value: vec![b'v'; size].into(), lease: None }
}

fn delete(key: &str) -> Op {
    Op::Delete { key: key.to_owned().into() }
}

#[tokio::test(start_paused = true)]
async fn a_reopened_store_continues_at_its_revision() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let lease = store.grant_lease(30).await.unwrap();
    write(&store, put("/a", 10)).await.unwrap();
    write(&store, put("/a", 20)).await.unwrap();
    write(&store, Op::Put { key: "/leased".into(), value: "x".into(), lease: Some(lease) }).await.unwrap();
    write(&store, delete("/a")).await.unwrap();
    store.compact(4).await.unwrap();
    store.compact(5).await.unwrap();
    store.close().await.unwrap();
    assert_eq!(store.revision().await, Err(Error::Closed));
    assert_eq!(write(&store, delete("/a")).await, Err(Error::Closed));

    let store = open(dir.path()).await;
    assert_eq!(store.revision().await, Ok(5), "although the deletion's row is compacted away");
    assert_eq!(store.get("/a".into(), Some(4)).await, Err(Error::Compacted { requested: 4, oldest: 5 }));
    assert!(store.grant_lease(30).await.unwrap() > lease, "no lease is numbered twice");
    assert_eq!(write(&store, put("/a", 1)).await, Ok(6));
    assert!(store.get("/leased".into(), None).await.unwrap().is_some());
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert!(store.get("/leased".into(), None).await.unwrap().is_none(), "the lease went on");
    store.verify().await.unwrap();
}

/// A watch holds a batch until it is read.
#[tokio::test(start_paused = true)]
async fn history_is_read_in_batches_of_bounded_size() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    for n in 0..20 {
        write(&store, put(&format!("/{n:02}"), 200_000)).await.unwrap();
    }
    store.close().await.unwrap();
    let store = open(dir.path()).await;
    let mut watch = store.watch(KeyRange::prefix("/"), 0).await.unwrap();
    let mut seen = 0;
    while seen < 20 {
        let batch = watch.next().await.unwrap().unwrap();
        assert!(batch.changes.len() <= 3, "{} changes of 200 kB", batch.changes.len());
        seen += batch.changes.len();
    }
    store.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_watch_reads_history_from_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    for n in 0..700 {
        write(&store, put(&format!("/{}/{}", if n % 2 == 0 { "even" } else { "odd" }, n % 10), n)).await.unwrap();
    }
    store.close().await.unwrap();
    let store = open(dir.path()).await;
    let mut watch = store.watch(KeyRange::prefix("/odd/"), 1).await.unwrap();
    write(&store, put("/odd/1", 0)).await.unwrap();
    let (mut seen, mut sizes) = (Vec::new(), Vec::new());
    while seen.len() < 351 {
        for (revision, change) in watch.next().await.unwrap().unwrap().changes {
            let Change::Put { current, previous } = change else { panic!("nothing was deleted") };
            seen.push(revision);
            sizes.push((current.value.len(), previous.map(|kv| kv.value.len())));
        }
    }
    let expected: Vec<_> = (0..700).filter(|n| n % 2 == 1).map(|n| n + 2).chain([702]).collect();
    assert_eq!(seen, expected);
    assert_eq!((sizes[0], sizes[5], sizes[350]), ((1, None), (11, Some(1)), (0, Some(691))));
}

#[tokio::test(start_paused = true)]
async fn concurrent_writes_share_syncs() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(open(dir.path()).await);
    let before = store.stats();
    let tasks: Vec<_> = (0..256)
        .map(|n| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { write(&store, put(&format!("/{n}"), 100)).await.unwrap() })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let stats = store.stats();
    assert_eq!(stats.revisions - before.revisions, 256);
    // How many arrive while the first ones are synced depends on the disk.
    assert!(stats.syncs - before.syncs < 128, "{stats:?}");
    assert!(stats.largest_batch > 2, "{stats:?}");
}

#[tokio::test(start_paused = true)]
async fn postponed_syncs_become_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let syncs = || store.stats().syncs;
    let before = syncs();
    store.postpone_syncs().await.unwrap();
    for n in 0..50 {
        write(&store, put(&format!("/{n}"), 100)).await.unwrap();
    }
    assert_eq!(syncs(), before);
    store.sync().await.unwrap();
    assert_eq!(syncs(), before + 1);
    store.sync().await.unwrap();
    assert_eq!(syncs(), before + 1, "nothing was waiting");
    write(&store, put("/a", 1)).await.unwrap();
    assert_eq!(syncs(), before + 2);
    store.close().await.unwrap();
    let store = open(dir.path()).await;
    assert_eq!(store.revision().await, Ok(52));
    store.verify().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn history_is_compacted_by_count_and_by_time() {
    let dir = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(dir.path(), Options { keep_revisions: 100, ..Options::default() }).await.unwrap();
    for n in 0..300 {
        write(&store, put("/a", n)).await.unwrap();
    }
    let Err(Error::Compacted { oldest, .. }) = store.get("/a".into(), Some(2)).await else { panic!("not compacted") };
    assert!((301 - 120..=301 - 100).contains(&oldest), "{oldest}");
    tokio::time::sleep(Duration::from_secs(605)).await;
    let refused = store.watch(KeyRange::prefix("/"), 300).await;
    assert_eq!(refused.err(), Some(Error::Compacted { requested: 300, oldest: 301 }));
    assert_eq!(store.get("/a".into(), None).await.unwrap().unwrap().value.len(), 299);
    store.verify().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_second_opener_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let Err(Error::Failed(message)) = EmbeddedStore::open(dir.path(), Options::default()).await else { panic!() };
    assert!(message.contains("is in use by another process"), "{message}");
    std::fs::remove_file(dir.path().join("store.lock")).unwrap();
    let Err(Error::Failed(message)) = EmbeddedStore::open(dir.path(), Options::default()).await else { panic!() };
    assert!(message.contains("is in use by another process"), "the directory itself is locked: {message}");
    store.close().await.unwrap();
    open(dir.path()).await;
}

#[tokio::test(start_paused = true)]
async fn files_are_private_and_a_restart_creates_none() {
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data/store");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    let names = || {
        let entries = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap());
        let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names.sort();
        names
    };
    let store = open(&dir).await;
    write(&store, put("/a", 10)).await.unwrap();
    assert_eq!(std::fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
    for name in names().into_iter().filter(|name| name != "store.lock") {
        let mode = std::fs::metadata(dir.join(&name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", name.display());
    }
    let while_open = names();
    store.close().await.unwrap();
    // Those that the next start would have to make on a full disk.
    assert_eq!(names(), while_open);
    assert_eq!(std::fs::metadata(dir.join("store.sqlite-wal")).unwrap().len(), 0, "the log is empty");
}

#[tokio::test(start_paused = true)]
async fn a_scrub_finds_unread_damage() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    for n in 0..3 {
        write(&store, Op::Put { key: "/a".into(), value: format!("needle{n}").into(), lease: None }).await.unwrap();
    }
    store.close().await.unwrap();
    let path = dir.path().join("store.sqlite");
    let file = std::fs::read(&path).unwrap();
    let at = file.windows(7).position(|window| window == b"needle1").unwrap();
    overwrite(&path, at as u64, b"m");
    let store = open(dir.path()).await;
    let found = store.damage_found();
    assert!(store.get("/a".into(), None).await.unwrap().is_some(), "the newest value is whole");
    assert_eq!(store.stats().damaged, 0);
    // A minute after the start.
    assert!(found.await);
    let [damage] = &store.damages()[..] else { panic!("{:?}", store.damages()) };
    assert_eq!(
        damage.to_string(),
        "the stored value of /a is damaged (row 196608 (revision 3, change 0): the checksum does not match)"
    );
    assert_eq!(store.get("/a".into(), Some(3)).await, Err(Error::Damaged(damage.clone())));
    assert!(store.verify().await.is_err());
    let found = store.damage_found();
    assert!(found.await);
    // Other keys are not affected.
    write(&store, put("/b", 1)).await.unwrap();
    store.close().await.unwrap();
    let store = open(dir.path()).await;
    let found = store.damage_found();
    store.close().await.unwrap();
    assert!(!found.await, "the store was closed before");
}

#[tokio::test(start_paused = true)]
async fn a_damaged_file_is_named() {
    let prepared = async || {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await;
        for n in 0..50 {
            write(&store, put(&format!("/{n}"), 2048)).await.unwrap();
        }
        store.close().await.unwrap();
        dir
    };
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 4] = [
        ("not a database", |file| std::fs::write(file, vec![7; 8192]).unwrap()),
        ("cut short", |file| {
            let length = std::fs::metadata(file).unwrap().len();
            std::fs::OpenOptions::new().write(true).open(file).unwrap().set_len(length / 2).unwrap();
        }),
        ("header", |file| overwrite(file, 16, &[0xff; 60])),
        ("a later format", |file| overwrite(file, 60, &9_u32.to_be_bytes())),
    ];
    for (what, damage) in damages {
        let dir = prepared().await;
        damage(&dir.path().join("store.sqlite"));
        let opened = EmbeddedStore::open(dir.path(), Options::default()).await;
        let Err(Error::Failed(message)) = opened else { panic!("{what}: opened") };
        assert!(message.contains("store.sqlite"), "{what}: {message}");
    }
}

fn overwrite(file: &Path, offset: u64, content: &[u8]) {
    use std::os::unix::fs::FileExt;
    std::fs::OpenOptions::new().write(true).open(file).unwrap().write_all_at(content, offset).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_full_store_refuses_writes_until_there_is_space() {
    let dir = tempfile::tempdir().unwrap();
    let quota = Options { quota_bytes: Some(1 << 20), ..Options::default() };
    let store = EmbeddedStore::open(dir.path(), quota).await.unwrap();
    let mut written = 0;
    let refused = loop {
        match write(&store, put(&format!("/{written}"), 20_000)).await {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused, Error::NoSpace);
    assert!((20..60).contains(&written), "{written} x 20 kB in 1 MiB");
    let all = RangeRequest { range: KeyRange::prefix("/"), revision: None, limit: 0 };
    let found = store.range(all.clone()).await.unwrap();
    assert_eq!((found.count, found.revision), (written, written as u64 + 1), "what was refused left nothing behind");
    store.verify().await.unwrap();

    for n in 0..10 {
        write(&store, delete(&format!("/{n}"))).await.unwrap();
    }
    let newest = store.revision().await.unwrap();
    store.compact(newest).await.unwrap();
    // The sweep runs behind the compaction; a further request waits its turn after a piece of it.
    store.revoke_lease(LeaseId(1)).await.unwrap_err();
    for n in 0..5 {
        write(&store, put(&format!("/again{n}"), 20_000)).await.unwrap();
    }
    store.verify().await.unwrap();
}

/// Run it on a file system of a few megabytes:
/// `unshare -rm sh -c 'mount -t tmpfs -o size=12m none /mnt && STORAGE_TEST_SMALL_DISK=/mnt cargo test -p storage -- --ignored'`
#[tokio::test]
#[ignore = "needs a small file system, named by STORAGE_TEST_SMALL_DISK"]
async fn a_full_disk_refuses_writes_until_there_is_space() {
    let root = std::path::PathBuf::from(std::env::var("STORAGE_TEST_SMALL_DISK").unwrap());
    let (dir, ballast) = (root.join("store"), root.join("ballast"));
    std::fs::write(&ballast, vec![1; 4 << 20]).unwrap();
    let store = open(&dir).await;
    let mut written = 0_u64;
    let mut refusals = 0;
    while refusals < 20 {
        match write(&store, put(&format!("/{written}"), 20_000)).await {
            Ok(_) => written += 1,
            Err(Error::NoSpace) => refusals += 1,
            Err(error) => panic!("{error}"),
        }
    }
    let all = RangeRequest { range: KeyRange::prefix("/"), revision: None, limit: 0 };
    assert_eq!(store.range(all.clone()).await.unwrap().count as u64, written);
    store.close().await.unwrap();
    // The disk is as full as before: a start needs no room to read.
    let store = open(&dir).await;
    assert_eq!(store.range(all.clone()).await.unwrap().count as u64, written);
    std::fs::remove_file(&ballast).unwrap();
    for _ in 0..20 {
        write(&store, put("/again", 20_000)).await.unwrap();
    }
    store.verify().await.unwrap();
    store.close().await.unwrap();
    let store = open(&dir).await;
    assert_eq!(store.range(all).await.unwrap().count as u64, written + 1);
    assert_eq!(store.revision().await, Ok(written + 21));
}
