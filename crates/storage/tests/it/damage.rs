//! Faults below the store. After any damage to its files, acknowledged data is present, or reported as damaged, or the
//! store refuses to open: no data is silently absent, outdated or altered.
//!
//! A normal run injects a sample of the faults; `STORAGE_TEST_EVERY_BYTE=1` injects all (half an hour).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use storage::embedded::{EmbeddedStore, Options};
use storage::{Error, KeyRange, Op, RangeRequest, Store, Txn, TxnOutcome};

use crate::image::{Image, every_byte, opened};

/// The acknowledged state: each key with its revision and value, and the newest revision.
#[derive(Clone, Default)]
pub struct Acknowledged {
    keys: BTreeMap<String, (u64, Vec<u8>)>,
    deleted: Vec<String>,
    revision: u64,
}

impl Acknowledged {
    /// Writes one more key.
    pub async fn put(&mut self, store: &EmbeddedStore, key: &str) {
        self.commit(store, vec![put(key, 100)]).await;
    }

    async fn commit(&mut self, store: &EmbeddedStore, ops: Vec<Op>) {
        self.try_commit(store, ops).await.unwrap();
    }

    async fn try_commit(&mut self, store: &EmbeddedStore, ops: Vec<Op>) -> Result<(), Error> {
        let outcome = store.txn(Txn { guards: vec![], ops: ops.clone() }).await?;
        let TxnOutcome::Committed { revision } = outcome else { panic!("{outcome:?}") };
        self.revision = revision;
        for op in ops {
            match op {
                Op::Put { key, value, .. } => {
                    self.keys.insert(String::from_utf8(key.to_vec()).unwrap(), (revision, value.to_vec()));
                }
                Op::Delete { key } => {
                    let key = String::from_utf8(key.to_vec()).unwrap();
                    self.keys.remove(&key);
                    self.deleted.push(key);
                }
            }
        }
        Ok(())
    }

    /// Compares an opened store with the acknowledged state; returns whether damage was reported.
    pub async fn check(&self, store: &EmbeddedStore, what: &str) -> bool {
        assert_eq!(store.revision().await, Ok(self.revision), "{what}");
        let mut reported = false;
        for (key, (revision, value)) in &self.keys {
            match store.get(key.clone().into(), None).await {
                Ok(Some(found)) => {
                    assert_eq!((found.mod_revision, &found.value[..]), (*revision, &value[..]), "{what}: {key}");
                }
                Ok(None) => panic!("{what}: {key} is absent"),
                Err(Error::Damaged(damage)) => {
                    assert_eq!(damage.key, key.as_bytes(), "{what}");
                    reported = true;
                }
                Err(Error::Failed(message)) => {
                    assert!(message.contains("store.sqlite"), "{what}: {message}");
                    reported = true;
                }
                Err(error) => panic!("{what}: {error}"),
            }
        }
        for key in &self.deleted {
            assert!(!matches!(store.get(key.clone().into(), None).await, Ok(Some(_))), "{what}: {key} is back");
        }
        reported | self.check_lists(store, what, reported).await
    }

    async fn check_lists(&self, store: &EmbeddedStore, what: &str, reported: bool) -> bool {
        let all = || RangeRequest { range: KeyRange::prefix("/"), revision: None, limit: 0 };
        match store.range(all()).await {
            Ok(found) => {
                let found: Vec<_> =
                    found.items.iter().map(|kv| (&kv.key[..], kv.mod_revision, &kv.value[..])).collect();
                let expected: Vec<_> =
                    self.keys.iter().map(|(key, (revision, value))| (key.as_bytes(), *revision, &value[..])).collect();
                assert_eq!(found, expected, "{what}");
                assert!(!reported, "{what}: the list hides what a get reports");
            }
            Err(Error::Damaged(_)) => {
                let (found, damaged) = store.salvage(all()).await.unwrap();
                let mut keys: Vec<_> =
                    found.items.iter().map(|kv| &kv.key).chain(damaged.iter().map(|it| &it.key)).collect();
                keys.sort();
                let expected: Vec<_> = self.keys.keys().map(|key| key.as_bytes()).collect();
                assert_eq!(keys, expected, "{what}: every key is known, or known to be unknown");
            }
            Err(Error::Failed(_)) => {}
            Err(error) => panic!("{what}: {error}"),
        }
        let scrubbed = store.scrub().await;
        assert!(!reported || scrubbed.is_err(), "{what}: a scrub finds what a read finds");
        scrubbed.is_err()
    }
}

fn put(key: &str, size: usize) -> Op {
    let value: Vec<u8> = (0..size).map(|n| (n * 7 + key.len()) as u8).collect();
    Op::Put { key: key.to_owned().into(), value: value.into(), lease: None }
}

fn delete(key: &str) -> Op {
    Op::Delete { key: key.to_owned().into() }
}

/// A store as a killed process leaves it: some of it in the main file, the newest part in the log.
pub async fn killed() -> (Image, Acknowledged) {
    let dir = tempfile::tempdir().unwrap();
    let mut written = Acknowledged::default();
    let store = opened(dir.path()).await.unwrap();
    for n in 0..12 {
        written.commit(&store, vec![put(&format!("/a/{n:02}"), 100 + 90 * n), put("/busy", 50 + n)]).await;
    }
    written.commit(&store, vec![put("/big", 9000)]).await;
    written.commit(&store, vec![delete("/a/03"), delete("/a/07")]).await;
    let lease = store.grant_lease(600).await.unwrap();
    let leased = Op::Put { key: "/leased".into(), value: "x".into(), lease: Some(lease) };
    written.commit(&store, vec![leased]).await;
    store.compact(8).await.unwrap();
    store.close().await.unwrap();
    let store = opened(dir.path()).await.unwrap();
    for n in 0..6 {
        written.commit(&store, vec![put(&format!("/b/{n}"), 300), put("/busy", 10 + n)]).await;
    }
    written.commit(&store, vec![delete("/a/05")]).await;
    let image = Image::of(dir.path());
    (image, written)
}

/// Opens an altered image and checks it. Returns the outcome.
pub async fn outcome(image: &Image, written: &Acknowledged, what: &str) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    image.write(dir.path());
    match opened(dir.path()).await {
        Ok(store) => {
            let reported = written.check(&store, what).await;
            store.close().await.unwrap();
            if reported { Outcome::Reported } else { Outcome::Whole }
        }
        Err(Error::Failed(message)) => {
            assert!(message.contains("store."), "{what}: {message}");
            Outcome::Refused
        }
        Err(error) => panic!("{what}: {error}"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    Whole,
    Reported,
    Refused,
}

#[tokio::test]
async fn no_flipped_bit_changes_a_read_value() {
    let (image, written) = killed().await;
    assert_eq!(outcome(&image, &written, "untouched").await, Outcome::Whole);
    let mut seen = BTreeMap::new();
    for (name, samples) in [("store.sqlite", 500), ("store.sqlite-wal", 250), ("store.mark", 40)] {
        let length = image.file(name).len();
        assert!(length > 0, "{name}");
        for at in sample(length, samples) {
            let mut damaged = image.clone();
            damaged.file_mut(name)[at] ^= 1 << (at * 5 % 8);
            let what = format!("{name}, byte {at}");
            *seen.entry((name, outcome(&damaged, &written, &what).await)).or_insert(0) += 1;
        }
    }
    assert!(seen[&("store.sqlite", Outcome::Reported)] > 20, "{seen:?}");
    assert!(seen[&("store.sqlite-wal", Outcome::Refused)] > 200, "{seen:?}");
    assert!(!seen.contains_key(&("store.sqlite-wal", Outcome::Reported)), "{seen:?}");
}

#[tokio::test]
async fn no_lost_sector_changes_a_read_value() {
    let (image, written) = killed().await;
    for name in ["store.sqlite", "store.sqlite-wal", "store.mark"] {
        let length = image.file(name).len();
        for (size, samples) in [(512, 80), (4096, 40)] {
            for at in sample(length / size, samples).map(|n| n * size) {
                let mut damaged = image.clone();
                damaged.file_mut(name)[at..at + size].fill(0);
                outcome(&damaged, &written, &format!("{name}, {size} bytes at {at} zeroed")).await;
            }
        }
    }
}

#[tokio::test]
async fn no_truncation_changes_a_read_value() {
    let (image, written) = killed().await;
    for name in ["store.sqlite", "store.sqlite-wal", "store.mark"] {
        let length = image.file(name).len();
        for at in sample(length, 120) {
            let mut damaged = image.clone();
            damaged.file_mut(name).truncate(at);
            let found = outcome(&damaged, &written, &format!("{name} cut at {at}")).await;
            // The log may hold the truncated part of the database; one slot of the mark is sufficient.
            assert!(name != "store.sqlite-wal" || found == Outcome::Refused, "{name} cut at {at}: {found:?}");
        }
        let mut damaged = image.clone();
        damaged.remove(name);
        assert_eq!(outcome(&damaged, &written, &format!("{name} removed")).await, Outcome::Refused, "{name}");
    }
}

/// After a power failure the log has the synced content, and any part of the next commit; the mark is older.
#[tokio::test]
async fn a_torn_commit_is_dropped_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let store = opened(dir.path()).await.unwrap();
    let mut written = Acknowledged::default();
    let mut states = Vec::new();
    for n in 0..6 {
        written.commit(&store, vec![put(&format!("/k/{n}"), 700 * n + 10)]).await;
        states.push((Image::of(dir.path()), written.clone()));
    }
    for pair in states.windows(2) {
        let [(before, durable), (after, torn)] = pair else { unreachable!() };
        let (from, to) = (before.file("store.sqlite-wal").len(), after.file("store.sqlite-wal").len());
        for at in sample(to - from, 60).map(|n| from + n).chain([to]) {
            let mut image = after.clone();
            image.file_mut("store.sqlite-wal").truncate(at);
            *image.file_mut("store.mark") = before.file("store.mark").clone();
            let expected = if at == to { torn } else { durable };
            assert_eq!(outcome(&image, expected, &format!("cut at {at}")).await, Outcome::Whole);
        }
        for sector in (from.next_multiple_of(512)..to.saturating_sub(512)).step_by(512) {
            let mut image = after.clone();
            image.file_mut("store.sqlite-wal")[sector..sector + 512].fill(0xee);
            *image.file_mut("store.mark") = before.file("store.mark").clone();
            assert_eq!(outcome(&image, durable, &format!("torn at {sector}")).await, Outcome::Whole);
        }
        // Once it is acknowledged, it is missed.
        for at in sample(to - from, 30).map(|n| from + n) {
            let mut image = after.clone();
            image.file_mut("store.sqlite-wal").truncate(at);
            assert_eq!(outcome(&image, torn, &format!("acknowledged, cut at {at}")).await, Outcome::Refused);
        }
    }
    // Damage in a commit that others follow is found even if the mark is as old as the store.
    let (last, written) = states.last().unwrap();
    let (first, _) = &states[0];
    let until = states[3].0.file("store.sqlite-wal").len();
    for at in sample(until, 200) {
        let mut image = last.clone();
        image.file_mut("store.sqlite-wal")[at] ^= 1 << (at % 8);
        *image.file_mut("store.mark") = first.file("store.mark").clone();
        assert_eq!(outcome(&image, written, &format!("log, byte {at}, old mark")).await, Outcome::Refused);
    }
}

/// While a new control plane's own objects are written, no commit is acknowledged; a power failure may tear them in any
/// order.
#[tokio::test]
async fn commits_that_were_not_synced_may_be_lost_in_any_order() {
    let dir = tempfile::tempdir().unwrap();
    let store = opened(dir.path()).await.unwrap();
    let mut written = Acknowledged::default();
    for n in 0..3 {
        written.commit(&store, vec![put(&format!("/synced/{n}"), 500)]).await;
    }
    let (from, durable) = (Image::of(dir.path()).file("store.sqlite-wal").len(), written.clone());
    store.postpone_syncs().await.unwrap();
    for n in 0..5 {
        written.commit(&store, vec![put(&format!("/unsynced/{n}"), 500)]).await;
    }
    let unsynced = Image::of(dir.path());
    let sectors = (from.next_multiple_of(512)..unsynced.file("store.sqlite-wal").len() - 512).step_by(512);
    for at in sectors.clone() {
        let mut image = unsynced.clone();
        image.file_mut("store.sqlite-wal")[at..at + 512].fill(0xee);
        let copy = tempfile::tempdir().unwrap();
        image.write(copy.path());
        let store = opened(copy.path()).await.unwrap_or_else(|error| panic!("torn at {at}: {error}"));
        store.verify().await.unwrap();
        for key in durable.keys.keys() {
            assert!(store.get(key.clone().into(), None).await.unwrap().is_some(), "torn at {at}: {key}");
        }
        store.close().await.unwrap();
    }
    store.sync().await.unwrap();
    let synced = Image::of(dir.path());
    for at in sectors {
        let mut image = synced.clone();
        image.file_mut("store.sqlite-wal")[at] ^= 1;
        assert_eq!(outcome(&image, &written, &format!("synced, byte {at}")).await, Outcome::Refused);
    }
}

#[tokio::test]
async fn a_loss_can_be_accepted_and_no_revision_is_used_twice() {
    let (image, written) = killed().await;
    let dir = tempfile::tempdir().unwrap();
    let mut damaged = image.clone();
    damaged.file_mut("store.sqlite-wal")[5000] ^= 1;
    damaged.write(dir.path());
    let Err(Error::Failed(message)) = opened(dir.path()).await else { panic!("opened") };
    for part in ["store.sqlite-wal: frame 2 (at byte 4152) is damaged", "backup", "accept-loss"] {
        assert!(message.contains(part), "{message}");
    }
    fs::write(dir.path().join("accept-loss"), "").unwrap();
    let store = opened(dir.path()).await.unwrap();
    let all = RangeRequest { range: KeyRange::prefix("/a/"), revision: None, limit: 0 };
    assert_eq!(store.range(all).await.unwrap().count, 10, "what the main file has");
    assert!(store.revision().await.unwrap() > written.revision + 1000);
    assert!(store.watch(KeyRange::prefix("/"), written.revision).await.is_err(), "watchers must list again");
    store.scrub().await.unwrap();
    store.close().await.unwrap();
    assert!(!dir.path().join("accept-loss").exists(), "it counts once");
    opened(dir.path()).await.unwrap().verify().await.unwrap();
}

#[tokio::test]
async fn a_missing_store_is_not_created() {
    let (image, _) = killed().await;
    let dir = tempfile::tempdir().unwrap();
    let refused = async |options: Options| match EmbeddedStore::open(dir.path(), options).await {
        Err(Error::Failed(message)) => message,
        other => panic!("{other:?}"),
    };
    let must_exist = Options { must_exist: true, ..Options::default() };
    let message = refused(must_exist).await;
    assert!(message.contains("store.sqlite is missing") && message.contains("start-empty"), "{message}");
    for removed in ["store.sqlite", "store.mark", "store.sqlite-wal"] {
        let mut rest = image.clone();
        rest.remove(removed);
        rest.write(dir.path());
        let message = refused(Options::default()).await;
        assert!(message.contains(removed) && message.contains("backup"), "{message}");
    }
    // Another store's file.
    let other = tempfile::tempdir().unwrap();
    opened(other.path()).await.unwrap().close().await.unwrap();
    image.write(dir.path());
    fs::remove_file(dir.path().join("store.sqlite-wal")).unwrap();
    fs::copy(other.path().join("store.sqlite"), dir.path().join("store.sqlite")).unwrap();
    let message = refused(Options::default()).await;
    assert!(message.contains("another store"), "{message}");
    // An empty one, on purpose.
    fs::remove_file(dir.path().join("store.sqlite")).unwrap();
    fs::write(dir.path().join("start-empty"), "").unwrap();
    let store = EmbeddedStore::open(dir.path(), must_exist).await.unwrap();
    assert_eq!(store.revision().await, Ok(1));
    store.close().await.unwrap();
    assert!(!dir.path().join("start-empty").exists(), "it counts once");
    opened(dir.path()).await.unwrap();
}

#[tokio::test]
async fn files_replaced_while_it_runs_stop_writes() {
    type Fault = fn(&Path);
    let faults: [(&str, Fault); 4] = [
        ("removed", |dir| fs::remove_file(dir.join("store.sqlite")).unwrap()),
        ("log removed", |dir| fs::remove_file(dir.join("store.sqlite-wal")).unwrap()),
        ("replaced", |dir| {
            fs::copy(dir.join("store.sqlite"), dir.join("copy")).unwrap();
            fs::rename(dir.join("copy"), dir.join("store.sqlite")).unwrap();
        }),
        ("directory moved", |dir| fs::rename(dir, dir.with_file_name("moved")).unwrap()),
    ];
    for (what, fault) in faults {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("store");
        let store = opened(&dir).await.unwrap();
        let txn = |key| Txn { guards: vec![], ops: vec![put(key, 10)] };
        store.txn(txn("/a")).await.unwrap();
        fault(&dir);
        let stopped = store.writing_stopped();
        let Err(Error::Failed(message)) = store.txn(txn("/b")).await else { panic!("{what}: acknowledged") };
        assert!(stopped.await && store.writing_stopped().await, "{what}");
        assert!(message.contains("removed or replaced"), "{what}: {message}");
        store.close().await.unwrap();
    }
}

/// A limit on the size of files makes any write beyond it fail with an I/O error, as a failing disk does.
#[tokio::test]
async fn writes_that_fail_are_not_acknowledged() {
    let step = if every_byte() { 1 } else { 37 };
    for blocks in (1..400).step_by(step) {
        let dir = tempfile::tempdir().unwrap();
        let acknowledged = crate::limited::write_until_it_fails(dir.path(), blocks);
        match opened(dir.path()).await {
            Ok(store) => {
                store.verify().await.unwrap();
                for (key, revision) in &acknowledged {
                    let found = store.get(key.clone().into(), None).await.unwrap();
                    assert_eq!(found.map(|kv| kv.mod_revision), Some(*revision), "{blocks} blocks: {key}");
                }
                store.close().await.unwrap();
            }
            Err(error) => panic!("{blocks} blocks: {error}"),
        }
        assert!(blocks < 200 || !acknowledged.is_empty(), "{blocks} blocks");
    }
}

/// A quota makes the allocation of the Nth page fail, as a full disk does.
#[tokio::test]
async fn a_disk_that_is_full_at_any_page_loses_nothing() {
    for pages in (8..60_u64).step_by(if every_byte() { 1 } else { 5 }) {
        let dir = tempfile::tempdir().unwrap();
        let quota = Options { quota_bytes: Some(pages * 4096), ..Options::default() };
        let store = EmbeddedStore::open(dir.path(), quota).await.unwrap();
        let mut written = Acknowledged { revision: 1, ..Acknowledged::default() };
        let mut n = 0;
        let refused = loop {
            n += 1;
            match written.try_commit(&store, vec![put(&format!("/{n}"), 1000)]).await {
                Ok(()) => assert!(n < 200, "{pages} pages are never full"),
                Err(error) => break error,
            }
        };
        assert_eq!(refused, Error::NoSpace);
        assert!(!written.check(&store, "full").await);
        let copy = tempfile::tempdir().unwrap();
        Image::of(dir.path()).write(copy.path());
        assert!(!written.check(&opened(copy.path()).await.unwrap(), "full, then killed").await);
        store.close().await.unwrap();
    }
}

/// Positions in `0..length`: all of them if that was requested, otherwise about `count`, spread evenly.
fn sample(length: usize, count: usize) -> impl Iterator<Item = usize> + Clone {
    let step = if every_byte() { 1 } else { (length / count).max(1) | 1 };
    (0..length).step_by(step)
}
