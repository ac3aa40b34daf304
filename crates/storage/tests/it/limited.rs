//! A child process whose files may not grow beyond a limit.

use std::path::Path;
use std::process::{Command, Stdio};

use storage::embedded::{EmbeddedStore, Options};
use storage::{Op, Store, Txn, TxnOutcome};

const DIRECTORY: &str = "STORAGE_TEST_LIMITED_TO";

/// The child: run by [`write_until_it_fails`], in which case the variable names the directory.
#[tokio::test]
async fn limited_process() {
    let Ok(dir) = std::env::var(DIRECTORY) else { return };
    let Ok(store) = EmbeddedStore::open(dir, Options::default()).await else { return };
    for n in 0..100 {
        let op = Op::Put { key: format!("/{n}").into(), value: vec![n as u8; 2000].into(), lease: None };
        match store.txn(Txn { guards: vec![], ops: vec![op] }).await {
            Ok(TxnOutcome::Committed { revision }) => println!("ack /{n} {revision}"),
            Ok(outcome) => panic!("{outcome:?}"),
            Err(_) => return,
        }
    }
}

/// Writes until a file would exceed `blocks` of 512 bytes; returns the acknowledged writes.
pub fn write_until_it_fails(dir: &Path, blocks: usize) -> Vec<(String, u64)> {
    // Ignored, the signal leaves the write with an error.
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let output = Command::new("sh")
        .args(["-c", &script])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "limited::limited_process", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, dir)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let acknowledged = |line: &str| {
        let (key, revision) = line.split_once("ack ")?.1.split_once(' ')?;
        Some((key.to_owned(), revision.parse().ok()?))
    };
    String::from_utf8_lossy(&output.stdout).lines().filter_map(acknowledged).collect()
}
