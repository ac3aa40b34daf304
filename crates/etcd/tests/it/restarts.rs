//! etcd killed under writes: no acknowledged write is lost, and watches continue from their last revision.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use parking_lot::Mutex;
use storage::{Change, Error, RangeRequest, Store};

use super::{Etcd, all, put, txn};

/// Acknowledged writes, by revision.
type Acknowledged = Arc<Mutex<BTreeMap<u64, String>>>;

async fn write(store: etcd::EtcdStore, client: usize, count: usize, acknowledged: Acknowledged) {
    let mut n = 0;
    for attempt in 0.. {
        // A write whose response was lost has a separate key.
        let key = format!("/{client}/{attempt}");
        match store.txn(txn(vec![put(&key, "1")])).await {
            Ok(outcome) => {
                acknowledged.lock().insert(super::committed(outcome), key);
                n += 1;
            }
            Err(Error::Uncertain(_) | Error::Unavailable(_)) => {}
            Err(error) => panic!("{error}"),
        }
        if n == count {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn a_killed_etcd_loses_no_acknowledged_write_and_no_watch_an_event() {
    let mut etcd = Etcd::start(&[]);
    let store = etcd.store().await;
    let acknowledged = Acknowledged::default();
    let mut watch = store.watch(all(), 1).await.unwrap();
    let mut seen: Vec<(u64, String)> = Vec::new();
    let writers: Vec<_> =
        (0..4).map(|client| tokio::spawn(write(store.clone(), client, 400, Arc::clone(&acknowledged)))).collect();
    for kill in [300, 700, 1100] {
        while seen.len() < kill {
            collect(&mut watch, &mut seen).await;
        }
        etcd.restart();
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let found = store.range(RangeRequest { range: all(), revision: None, limit: 0 }).await.unwrap();
    while seen.len() < found.count {
        collect(&mut watch, &mut seen).await;
    }
    // Each revision created one key, except for progress markers, of which there are none.
    let stored: BTreeMap<u64, String> =
        found.items.iter().map(|kv| (kv.mod_revision, String::from_utf8_lossy(&kv.key).into_owned())).collect();
    assert_eq!(seen, stored.clone().into_iter().collect::<Vec<_>>(), "in order, none twice, none missing");
    for (revision, key) in &*acknowledged.lock() {
        assert_eq!(stored.get(revision), Some(key), "acknowledged");
    }
    assert_eq!(acknowledged.lock().len(), 1600);
}

async fn collect(watch: &mut storage::WatchStream, seen: &mut Vec<(u64, String)>) {
    let batch = watch.next().await.unwrap().unwrap();
    seen.extend(batch.changes.iter().map(|(at, change)| {
        assert!(matches!(change, Change::Put { previous: None, .. }));
        (*at, String::from_utf8_lossy(change.key()).into_owned())
    }));
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn a_watch_that_was_overtaken_by_a_compaction_ends() {
    let mut etcd = Etcd::start(&[]);
    let store = etcd.store().await;
    let mut watch = store.watch(all(), 1).await.unwrap();
    super::committed(store.txn(txn(vec![put("/a", "0")])).await.unwrap());
    assert_eq!(super::changes(&mut watch, 1).await, ["2+/a"]);
    etcd.process.kill();
    etcd.restart();
    // Another client compacts before the watch is polled again.
    let other = etcd.store().await;
    for value in 1..10 {
        super::committed(other.txn(txn(vec![put("/a", &value.to_string())])).await.unwrap());
    }
    other.compact(8).await.unwrap();
    let mut ended = None;
    while ended.is_none() {
        ended = watch.next().await.unwrap().err();
    }
    assert_eq!(ended, Some(Error::Compacted { requested: 2, oldest: 8 }));
    assert!(watch.next().await.is_none());
}

/// A compaction to the revision of a deletion removes its event. A watch from before it ends, instead of going on
/// without it.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn a_deletion_at_the_revision_of_a_compaction_is_not_omitted() {
    let mut etcd = Etcd::start(&[]);
    let store = etcd.store().await;
    let mut watch = store.watch(all(), 1).await.unwrap();
    super::committed(store.txn(txn(vec![put("/a", "0")])).await.unwrap());
    assert_eq!(super::changes(&mut watch, 1).await, ["2+/a"]);
    super::committed(store.txn(txn(vec![put("/c", "0")])).await.unwrap());
    assert_eq!(super::changes(&mut watch, 1).await, ["3+/c"]);
    etcd.restart();
    let other = etcd.store().await;
    super::committed(other.txn(txn(vec![put("/c", "1")])).await.unwrap());
    let deleted = super::committed(other.txn(txn(vec![storage::Op::Delete { key: "/a".into() }])).await.unwrap());
    other.compact(deleted).await.unwrap();
    super::committed(other.txn(txn(vec![put("/b", "0")])).await.unwrap());
    let refused = other.watch(all(), deleted - 1).await.err();
    assert_eq!(refused, Some(Error::Compacted { requested: deleted - 1, oldest: deleted }));
    let resumed = watch.next().await.unwrap();
    assert_eq!(resumed.err(), Some(Error::Compacted { requested: 3, oldest: deleted }));
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn an_older_state_is_not_served() {
    let mut etcd = Etcd::start(&[]);
    let store = etcd.store().await;
    for value in 1..10 {
        super::committed(store.txn(txn(vec![put("/a", &value.to_string())])).await.unwrap());
    }
    etcd.process.kill();
    let emptied = tempfile::tempdir().unwrap();
    let address = etcd.process.address().to_string();
    etcd.process = etcd::process::Process::start_at(emptied.path(), &address, &[]).unwrap();
    let refused = store.get("/a".into(), None).await;
    assert!(
        matches!(&refused, Err(Error::Failed(why)) if why.contains("older state") || why.contains("cluster")),
        "{refused:?}"
    );
}

/// As after one member was restored alone from a snapshot.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn another_cluster_is_unavailable_until_the_former_one_is_back() {
    let mut etcd = Etcd::start(&[]);
    let store = etcd.store().await;
    super::committed(store.txn(txn(vec![put("/a", "1")])).await.unwrap());
    let mut answers = store.answers();
    etcd.process.kill();
    let (restored, address) = (tempfile::tempdir().unwrap(), etcd.process.address().to_string());
    let token = ["--initial-cluster-token", "restored"];
    etcd.process = etcd::process::Process::start_at(restored.path(), &address, &token).unwrap();
    let read = store.get("/a".into(), None).await.map(drop);
    let written = store.txn(txn(vec![put("/a", "2")])).await.map(drop);
    for refused in [read, written] {
        assert!(
            matches!(&refused, Err(Error::Unavailable(why)) if why.contains("it belongs to cluster") && why.contains("--etcd-servers")),
            "unknown, not absent: {refused:?}"
        );
    }
    answers.wait_for(|answers| !answers).await.unwrap();
    etcd.process.kill();
    etcd.restart();
    assert_eq!(store.get("/a".into(), None).await.unwrap().unwrap().value, "1");
    answers.wait_for(|answers| *answers).await.unwrap();
}

/// Restored to an older state beneath a store: other clients have written more since than was lost, and have compacted.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn an_older_state_that_has_grown_since_is_noticed() {
    for compacts in [false, true] {
        let mut etcd = Etcd::start(&[]);
        let store = etcd.store().await;
        super::committed(store.txn(txn(vec![put("/a", "1")])).await.unwrap());
        let backup = tempfile::tempdir().unwrap();
        etcd.process.kill();
        copy(etcd.directory.path(), backup.path());
        etcd.restart();
        let mut watch = store.watch(all(), 1).await.unwrap();
        assert_eq!(super::changes(&mut watch, 1).await, ["2+/a"]);
        super::committed(store.txn(txn(vec![put("/b", "1")])).await.unwrap());
        assert_eq!(super::changes(&mut watch, 1).await, ["3+/b"]);

        etcd.process.kill();
        let address = etcd.process.address().to_string();
        etcd.process = etcd::process::Process::start_at(backup.path(), &address, &[]).unwrap();
        let other = etcd.store().await;
        for value in 0..5 {
            super::committed(other.txn(txn(vec![put("/c", &value.to_string())])).await.unwrap());
        }
        if compacts {
            other.compact(6).await.unwrap();
        }
        let is_refusal =
            |error: &Error| matches!(error, Error::Failed(why) if why.contains("an older state was restored"));
        let ended = watch.next().await.unwrap().unwrap_err();
        assert!(is_refusal(&ended), "{ended:?}");
        let refused = store.txn(txn(vec![put("/d", "1")])).await.unwrap_err();
        assert!(is_refusal(&refused), "{refused:?}");
        let refused = store.get("/b".into(), None).await.unwrap_err();
        assert!(is_refusal(&refused), "{refused:?}");
        assert!(
            store.replaced().await.contains("does not know the change of /registry/karmada-rs/keys//b at revision 3")
        );
        assert!(other.get("/a".into(), None).await.unwrap().is_some(), "a new process serves the restored state");
    }
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    let copied = std::process::Command::new("cp").arg("-r").arg(from.join("member")).arg(to).status();
    assert!(copied.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn a_stopped_member_is_skipped() {
    let etcd = Etcd::start(&[]);
    let mut options = etcd.process.options(super::layout()).unwrap();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    options.endpoints.insert(0, format!("http://{closed}").parse().unwrap());
    let store = etcd::EtcdStore::open(options).await.unwrap();
    super::committed(store.txn(txn(vec![put("/a", "1")])).await.unwrap());
    let none = etcd.process.options(super::layout()).map(|options| etcd::Options {
        endpoints: vec![format!("http://{closed}").parse().unwrap()],
        timeout: std::time::Duration::from_millis(300),
        ..options
    });
    let refused = etcd::EtcdStore::open(none.unwrap()).await.err();
    assert!(matches!(&refused, Some(Error::Unavailable(why)) if why.contains(&closed.to_string())), "{refused:?}");
}
