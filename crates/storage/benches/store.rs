//! The embedded store in use: puts of 2 KiB from 1, 16 and 128 clients over 20,000 keys, then the time to open and to
//! list 50,000 objects. Arguments: a directory on the disk to measure, and the seconds per row.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use storage::embedded::{EmbeddedStore, Options};
use storage::{KeyRange, Op, RangeRequest, Store, Txn};
use tokio::time::Instant;

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let root = arguments.next().unwrap_or_else(|| ".".into());
    let seconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(3);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    println!("clients   puts/s   p50 ms   p99 ms  syncs/put  largest batch  RSS MiB");
    for clients in [1, 16, 128] {
        runtime.block_on(puts(Path::new(&root), clients, Duration::from_secs(seconds)));
    }
    runtime.block_on(open_and_list(Path::new(&root), 50_000));
}

fn put(key: u64, value: u64) -> Txn {
    let key = format!("/registry/work.karmada.io/works/karmada-es-member1/nginx-{key:05}");
    let op = Op::Put { key: key.into(), value: value.to_le_bytes().repeat(256).into(), lease: None };
    Txn { guards: vec![], ops: vec![op] }
}

async fn puts(root: &Path, clients: u64, time: Duration) {
    let dir = tempfile::tempdir_in(root).expect("a directory");
    let store = Arc::new(EmbeddedStore::open(dir.path(), Options::default()).await.expect("opens"));
    let stop = Arc::new(AtomicBool::new(false));
    let begin = Instant::now();
    let tasks: Vec<_> =
        (1..=clients).map(|client| tokio::spawn(put_until(Arc::clone(&store), client, Arc::clone(&stop)))).collect();
    tokio::time::sleep(time).await;
    stop.store(true, Relaxed);
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await.expect("the client ends well"));
    }
    let (seconds, stats) = (begin.elapsed().as_secs_f64(), store.stats());
    latencies.sort();
    let milliseconds = |part: usize| latencies[latencies.len() * part / 100].as_secs_f64() * 1e3;
    println!(
        "{clients:7} {:8.0} {:8.2} {:8.2} {:10.3} {:14} {:8}",
        latencies.len() as f64 / seconds,
        milliseconds(50),
        milliseconds(99),
        stats.syncs as f64 / stats.revisions as f64,
        stats.largest_batch,
        resident_mib(),
    );
    store.close().await.expect("closes");
}

async fn put_until(store: Arc<EmbeddedStore>, client: u64, stop: Arc<AtomicBool>) -> Vec<Duration> {
    let (mut latencies, mut random) = (Vec::new(), client.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    while !stop.load(Relaxed) {
        // Xorshift: the same keys in every run.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let begin = Instant::now();
        store.txn(put(random % 20_000, random)).await.expect("commits");
        latencies.push(begin.elapsed());
    }
    latencies
}

async fn open_and_list(root: &Path, objects: u64) {
    let dir = tempfile::tempdir_in(root).expect("a directory");
    let store = EmbeddedStore::open(dir.path(), Options::default()).await.expect("opens");
    for first in (0..objects).step_by(500) {
        let ops = (first..first + 500).flat_map(|key| put(key, key).ops).collect();
        store.txn(Txn { guards: vec![], ops }).await.expect("commits");
    }
    store.close().await.expect("closes");
    let before = resident_mib();
    let begin = Instant::now();
    let store = EmbeddedStore::open(dir.path(), Options::default()).await.expect("opens");
    let opened = begin.elapsed();
    let after = resident_mib();
    let begin = Instant::now();
    for key in 0..1000 {
        store
            .get(format!("/registry/work.karmada.io/works/karmada-es-member1/nginx-{key:05}").into(), None)
            .await
            .expect("reads");
    }
    let get = begin.elapsed() / 1000;
    let begin = Instant::now();
    let all = RangeRequest { range: KeyRange::prefix("/registry/"), revision: None, limit: 0 };
    let count = store.range(all).await.expect("lists").count;
    println!(
        "{count} objects: opened in {opened:.1?} ({before} -> {after} MiB), one get {get:.1?}, listed in {:.1?}",
        begin.elapsed()
    );
    let begin = Instant::now();
    store.verify().await.expect("is sound");
    println!("verified in {:.1?}", begin.elapsed());
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
}
