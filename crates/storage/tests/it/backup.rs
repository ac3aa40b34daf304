//! Backups: one revision in spite of concurrent writes, any damage is found, and a restore leaves the old store or the
//! new one.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use storage::embedded::backup::{Attachment, Backup, Restore, restore, verify_backup};
use storage::embedded::inspect::{measure, verify_store};
use storage::embedded::{BreakKind, EmbeddedStore, Options};
use storage::{Error, KeyRange, KeyValue, Op, RangeRequest, Revision, Store, Txn};

use crate::breaks::put;
use crate::image::opened;

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)
}

async fn written(mut backup: Backup, path: &Path) {
    let mut content = Vec::new();
    while let Some(piece) = backup.piece().await.unwrap() {
        content.extend(piece);
    }
    fs::write(path, content).unwrap();
}

fn restored(path: &Path, dir: &Path, replace: bool) -> Result<storage::embedded::backup::Restored, Error> {
    let options = Restore { replace, when: now(), suffix: "then".to_owned() };
    restore(path, dir, &options, &mut |_, _| {})
}

async fn everything(store: &EmbeddedStore, revision: Option<Revision>) -> Vec<KeyValue> {
    let all = RangeRequest { range: KeyRange { start: "".into(), end: "".into() }, revision, limit: 0 };
    store.range(all).await.unwrap().items
}

/// A store with some history, deletions and a lease.
async fn small(dir: &Path) -> EmbeddedStore {
    let store = opened(dir).await.unwrap();
    let lease = store.grant_lease(60).await.unwrap();
    for n in 0..6_u8 {
        put(&store, &format!("/a/{}", n % 4), vec![n; 20]).await;
    }
    let ops = vec![
        Op::Delete { key: "/a/1".into() },
        Op::Put { key: "/b/1".into(), value: "x".into(), lease: None },
        Op::Put { key: "/b/2".into(), value: "".into(), lease: Some(lease) },
    ];
    store.txn(Txn { guards: vec![], ops }).await.unwrap();
    store
}

#[tokio::test(start_paused = true)]
async fn a_backup_is_one_revision_whatever_is_written_meanwhile() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = opened(dir.path()).await.unwrap();
    for n in 0..1500 {
        put(&store, &format!("/a/{}", n % 900), vec![n as u8; 600]).await;
    }
    let lease = store.grant_lease(60).await.unwrap();
    let leased = vec![Op::Put { key: "/leased".into(), value: "1".into(), lease: Some(lease) }];
    store.txn(Txn { guards: vec![], ops: leased }).await.unwrap();
    let at = store.revision().await.unwrap();
    let expected = everything(&store, None).await;
    let files = vec![Attachment { name: "pki/ca.key".into(), content: "secret".into() }];
    let mut backup = store.backup(now(), files.clone()).unwrap();
    let (mut content, mut pieces) = (Vec::new(), 0);
    while let Some(piece) = backup.piece().await.unwrap() {
        content.extend(piece);
        pieces += 1;
        // Each key is changed, deleted or new before it is read or after; and history is compacted as far as it may be.
        for n in 0..200 {
            let key = format!("/a/{}", (n * 37 + pieces * 11) % 1000);
            let ops = vec![match n % 3 {
                0 => Op::Delete { key: key.into() },
                _ => Op::Put { key: key.into(), value: "later".into(), lease: None },
            }];
            store.txn(Txn { guards: vec![], ops }).await.unwrap();
        }
        store.compact(store.revision().await.unwrap()).await.unwrap();
    }
    assert!(pieces > 4, "{pieces}");
    drop(backup);
    let newest = store.revision().await.unwrap();
    store.compact(newest).await.unwrap();
    assert!(store.get("/a/1".into(), Some(at)).await.is_err(), "history is compacted again");
    store.verify().await.unwrap();
    let path = other.path().join("backup");
    fs::write(&path, content).unwrap();
    let contents = verify_backup(&path, &mut |_, _| {}).unwrap();
    assert_eq!((contents.header.revision, contents.objects, contents.files), (at, 901, files));
    assert_eq!(contents.header.when, now());

    let target = other.path().join("store");
    let restored = restored(&path, &target, false).unwrap();
    assert_eq!((restored.revision, restored.aside), (at + 1_000_000, None));
    let store = opened(&target).await.unwrap();
    assert_eq!(everything(&store, None).await, expected);
    assert_eq!(store.revision().await, Ok(restored.revision));
    let lost = store.breaks().iter().map(|it| (it.before, it.after, it.when, it.kind)).collect::<Vec<_>>();
    assert_eq!(lost, [(at, restored.revision, Some(now()), BreakKind::Restored)]);
    for seen in [at, newest] {
        let watch = store.watch(KeyRange::prefix("/"), seen).await.map(drop);
        assert_eq!(watch, Err(Error::Compacted { requested: seen, oldest: restored.revision }), "not silence");
    }
    put(&store, "/a/new", vec![1]).await;
    store.verify().await.unwrap();
    assert_eq!(store.grant_lease(1).await.unwrap().0, lease.0 + 1);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(store.get("/leased".into(), None).await, Ok(None), "the lease went on");
    store.close().await.unwrap();
    assert_eq!(verify_store(&target, &mut |_, _| {}).unwrap().damaged, Vec::<String>::new());
}

#[tokio::test]
async fn any_damage_of_a_backup_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let store = small(&dir.path().join("store")).await;
    let path = dir.path().join("backup");
    let files = vec![Attachment { name: "a".into(), content: "b".into() }];
    written(store.backup(now(), files).unwrap(), &path).await;
    let whole = fs::read(&path).unwrap();
    assert!(whole.len() < 2000, "{}", whole.len());
    let verify = |content: &[u8]| {
        fs::write(&path, content).unwrap();
        verify_backup(&path, &mut |_, _| {})
    };
    verify(&whole).unwrap();
    for at in 0..whole.len() {
        for flip in [1, 0x10, 0x80, 0xff] {
            let mut damaged = whole.clone();
            damaged[at] ^= flip;
            let Err(Error::Failed(why)) = verify(&damaged) else { panic!("byte {at} ^ {flip} is not found") };
            assert!(why.contains("backup"), "{why}");
        }
        let Err(Error::Failed(why)) = verify(&whole[..at]) else { panic!("cut at {at}") };
        assert!(why.contains("cut off"), "{why}");
    }
    assert!(verify(&[&whole[..], b"\0"].concat()).is_err(), "something follows");
    assert!(verify(&[&whole[..], &whole[..]].concat()).is_err(), "twice");
}

#[tokio::test]
async fn a_restore_leaves_the_old_store_or_the_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let (place, path) = (dir.path().join("store"), dir.path().join("backup"));
    let store = small(&place).await;
    written(store.backup(now(), Vec::new()).unwrap(), &path).await;
    let at = store.revision().await.unwrap();
    let refused = restored(&path, &place, true).unwrap_err().to_string();
    assert!(refused.contains("in use"), "{refused}");
    put(&store, "/since", vec![1]).await;
    store.close().await.unwrap();
    let refused = restored(&path, &place, false).unwrap_err().to_string();
    assert!(refused.contains("--replace"), "{refused}");

    // A crash at any read of the backup leaves the old store; the unfinished one is beside it.
    let crashing = |crash_at: usize| {
        let mut reads = 0;
        let options = Restore { replace: true, when: now(), suffix: format!("crash{crash_at}") };
        let attempt = std::panic::AssertUnwindSafe(|| {
            restore(&path, &place, &options, &mut |_, _| {
                reads += 1;
                assert!(reads <= crash_at, "crash");
            })
        });
        std::panic::catch_unwind(attempt).is_err()
    };
    let mut crashes = 0;
    while crashes < 3 && crashing(crashes) {
        crashes += 1;
        let store = opened(&place).await.unwrap();
        assert!(store.get("/since".into(), None).await.unwrap().is_some());
        store.verify().await.unwrap();
        store.close().await.unwrap();
    }
    assert_eq!(crashes, 3);

    // A damaged backup changes nothing, and leaves no files.
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let before = names(dir.path());
    restored(&path, &place, true).unwrap_err();
    assert_eq!(names(dir.path()), before);
    fs::write(&path, whole).unwrap();

    let done = restored(&path, &place, true).unwrap();
    assert_eq!(done.revision, at + 1 + 1_000_000, "past what the replaced store had");
    let aside = done.aside.unwrap();
    assert_eq!(aside, dir.path().join("store.replaced-then"));
    let old = opened(&aside).await.unwrap();
    assert!(old.get("/since".into(), None).await.unwrap().is_some());
    let new = opened(&place).await.unwrap();
    assert_eq!(new.get("/since".into(), None).await, Ok(None));
    assert_eq!(everything(&new, None).await, everything(&old, Some(at)).await);
    old.close().await.unwrap();

    // A backup of the restored store includes its breaks.
    written(new.backup(now(), Vec::new()).unwrap(), &path).await;
    new.close().await.unwrap();
    fs::remove_dir_all(&place).unwrap();
    restored(&path, &place, false).unwrap();
    let again = opened(&place).await.unwrap();
    assert_eq!(again.breaks().len(), 2);
    assert_eq!(again.breaks()[0].before, at);
}

fn names(dir: &Path) -> Vec<PathBuf> {
    let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names
}

fn content(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    // The shared index of the log holds no data.
    let files = names(dir).into_iter().filter(|path| !path.ends_with("store.sqlite-shm"));
    files.map(|path| (path.clone(), fs::read(&path).unwrap())).collect()
}

#[tokio::test]
async fn a_damaged_store_is_not_backed_up_and_a_verification_names_the_damage() {
    let dir = tempfile::tempdir().unwrap();
    let store = small(dir.path()).await;
    // While the server runs.
    let verified = verify_store(dir.path(), &mut |_, _| {}).unwrap();
    assert!(verified.in_use && verified.damaged.is_empty(), "{verified:?}");
    assert_eq!(verified.revision, store.revision().await.unwrap());
    let mut objects = Vec::new();
    let measured = measure(dir.path(), &mut |key, bytes| objects.push((key.to_owned(), bytes))).unwrap();
    assert!(measured.in_use);
    assert_eq!((measured.revision, measured.leases), (verified.revision, 1));
    let expected = everything(&store, None).await;
    let expected = expected.iter().map(|kv| (kv.key.to_vec(), (kv.key.len() + kv.value.len()) as u64));
    assert_eq!(objects, expected.collect::<Vec<_>>());
    // As a killed process leaves it, with a log; and after a regular end.
    let killed = tempfile::tempdir().unwrap();
    crate::image::Image::of(dir.path()).write(killed.path());
    store.close().await.unwrap();
    for place in [killed.path(), dir.path()] {
        let before = content(place);
        let names_before = names(place);
        let verified = verify_store(place, &mut |_, _| {}).unwrap();
        assert!(!verified.in_use && verified.damaged.is_empty() && verified.rows > 0, "{verified:?}");
        assert_eq!(content(place), before, "it changes nothing");
        assert_eq!(names(place), names_before);
    }
    let file = dir.path().join("store.sqlite");
    let mut bytes = fs::read(&file).unwrap();
    let needle = [3_u8; 20];
    let at = bytes.windows(20).position(|window| window == needle).unwrap();
    bytes[at + 7] ^= 4;
    fs::write(&file, bytes).unwrap();
    let verified = verify_store(dir.path(), &mut |_, _| {}).unwrap();
    assert_eq!(verified.damaged.len(), 1, "{verified:?}");
    assert!(verified.damaged[0].contains("/a/3"), "{verified:?}");
    let store = EmbeddedStore::open(dir.path(), Options::default()).await.unwrap();
    let mut backup = store.backup(now(), Vec::new()).unwrap();
    let mut content = Vec::new();
    let refused = loop {
        match backup.piece().await {
            Ok(Some(piece)) => content.extend(piece),
            Ok(None) => panic!("a backup without the damaged object"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(refused.contains("/a/3") && refused.contains("damaged"), "{refused}");
    // The reader of the stream gets the reason why it ends.
    let path = dir.path().join("backup");
    fs::write(&path, [content, backup.abort(&refused).to_vec()].concat()).unwrap();
    let why = verify_backup(&path, &mut |_, _| {}).unwrap_err().to_string();
    assert!(why.contains("was not completed") && why.contains("/a/3"), "{why}");
}
