//! Killed with SIGKILL while many clients write: acknowledged writes are present, once, and nothing is damaged.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use storage::embedded::{EmbeddedStore, Options};
use storage::{KeyRange, Op, RangeRequest, Store, Txn, TxnOutcome};

const DIRECTORY: &str = "STORAGE_TEST_WRITE_TO";

/// The child process: the test below runs it with the variable set to the directory; otherwise it does nothing.
#[tokio::test]
async fn writer_process() {
    let Ok(dir) = std::env::var(DIRECTORY) else { return };
    let store =
        Arc::new(EmbeddedStore::open(dir, Options { keep_revisions: 200, ..Options::default() }).await.unwrap());
    let clients: Vec<_> = (0..16).map(|client| tokio::spawn(write_for_ever(Arc::clone(&store), client))).collect();
    for client in clients {
        client.await.unwrap();
    }
}

async fn write_for_ever(store: Arc<EmbeddedStore>, client: u32) {
    for n in 0_u32.. {
        // Some keys are written over and over so that there is history to compact; the others are counted.
        let op = |key: String| Op::Put { key: key.into(), value: vec![n as u8; 2048].into(), lease: None };
        let ops = vec![op(format!("/key/{client}/{n}")), op(format!("/busy/{}", n % 5))];
        let TxnOutcome::Committed { revision } = store.txn(Txn { guards: vec![], ops }).await.unwrap() else {
            panic!()
        };
        // One line, one write: the parent reads whole lines only.
        let line = format!("ack /key/{client}/{n} {revision}\n");
        std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
    }
}

/// Starts the child, reads `count` acknowledgements, kills it, and returns all that it wrote.
fn write_and_kill(dir: &Path, count: usize) -> Vec<(String, u64)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::writer_process", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let parse = |line: String| {
        let (key, revision) = line.split_once("ack ")?.1.split_once(' ')?;
        Some((key.to_owned(), revision.parse().ok()?))
    };
    let mut acknowledged: Vec<_> = lines.by_ref().filter_map(parse).take(count).collect();
    child.kill().unwrap();
    acknowledged.extend(lines.filter_map(parse));
    child.wait().unwrap();
    acknowledged
}

#[tokio::test]
async fn acknowledged_writes_survive_sigkill() {
    let dir = tempfile::tempdir().unwrap();
    let mut newest = 1;
    for (round, count) in [400, 37, 900].into_iter().enumerate() {
        let dir = dir.path().join(round.to_string());
        let acknowledged = write_and_kill(&dir, count);
        assert!(acknowledged.len() >= count, "the child wrote");
        newest = check(&dir, &acknowledged).await.max(newest);
    }
    assert!(newest > 900);
}

async fn check(dir: &Path, acknowledged: &[(String, u64)]) -> u64 {
    let store = EmbeddedStore::open(dir, Options::default()).await.unwrap();
    store.verify().await.unwrap();
    let request = RangeRequest { range: KeyRange::prefix("/key/"), revision: None, limit: 0 };
    let found = store.range(request).await.unwrap();
    let revisions: std::collections::BTreeMap<_, _> =
        found.items.iter().map(|kv| (String::from_utf8_lossy(&kv.key).into_owned(), kv.mod_revision)).collect();
    for (key, revision) in acknowledged {
        assert_eq!(revisions.get(key), Some(revision), "{key} was acknowledged");
    }
    // Each revision wrote one counted key: as many keys as revisions, none lost and none partial.
    assert_eq!(found.count as u64, found.revision - 1);
    store.close().await.unwrap();
    found.revision
}

const UPGRADE: &str = "STORAGE_TEST_UPGRADE";

/// The child of the test below: opens a store of an older format.
#[tokio::test]
async fn upgrading_process() {
    let Ok(dir) = std::env::var(UPGRADE) else { return };
    println!("begins");
    EmbeddedStore::open(dir, Options::default()).await.unwrap();
    println!("ends");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "another process is killed at some moment: time is real here")]
fn an_upgrade_that_is_killed_is_repeated() {
    let kills = std::env::var("KILLS").map_or(5, |kills| kills.parse().unwrap());
    let mut ended = 0;
    for kill in 0..kills {
        let dir = tempfile::tempdir().unwrap();
        crate::upgrade::old_store(dir.path(), 20_002);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::upgrading_process", "--nocapture", "--test-threads=1"])
            .env(UPGRADE, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.ends_with("begins")));
        std::thread::sleep(std::time::Duration::from_millis(kill * 29 % 400));
        child.kill().unwrap();
        ended += u32::from(lines.any(|line| line.ends_with("ends")));
        child.wait().unwrap();
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let store =
                EmbeddedStore::open(dir.path(), Options { must_exist: true, ..Options::default() }).await.unwrap();
            assert_eq!(store.revision().await, Ok(20_002), "kill {kill}");
            store.verify().await.unwrap();
            let all = RangeRequest { range: KeyRange::prefix("/key/"), revision: None, limit: 0 };
            let found = store.range(all).await.unwrap();
            assert_eq!(found.count, 19_997, "kill {kill}");
            assert!(found.items.iter().all(|kv| kv.value == vec![kv.mod_revision as u8; 500]), "kill {kill}");
            store.close().await.unwrap();
        });
    }
    eprintln!("{kills} kills, {ended} of them after the upgrade");
}
