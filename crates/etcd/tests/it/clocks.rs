//! The clocks of etcd itself: of one that is alone, and of the members of a cluster.

use std::time::Duration;

use storage::{Error, Op, Store};

use super::history::run::{History, setting};
use super::{Engine, Etcd, all, changes, committed, put, txn};

const DAY: i64 = 86_400;
/// While clients make calls under wrong clocks.
const WHILE: Duration = Duration::from_millis(700);

/// Whether this machine lets clocks be moved; other systems than Linux on x86-64 do not.
fn moves_clocks(etcd: &Etcd) -> bool {
    match etcd.process.clock() {
        Ok(_) => true,
        Err(error) if error.kind() == std::io::ErrorKind::Unsupported => false,
        Err(error) => panic!("{error}"),
    }
}

/// No jump of the time of day ends a lease early: its time must have passed on the monotonic clock. etcd 3.4 finds ended leases by
/// the time of day, so one that went back delays the end.
#[tokio::test]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn the_time_of_day_ends_no_lease() {
    let etcd = Etcd::start(&[]);
    if !moves_clocks(&etcd) {
        return;
    }
    let (store, clock) = (etcd.store().await, etcd.process.clock().unwrap());
    let lease = store.grant_lease(3600).await.unwrap();
    let leased = Op::Put { key: "/a".into(), value: "1".into(), lease: Some(lease) };
    let after = committed(store.txn(txn(vec![leased])).await.unwrap());
    for wrong_by in [400 * DAY, -400 * DAY, 7200] {
        clock.set_time_of_day(wrong_by).unwrap();
        // Longer than etcd takes to find ended leases.
        tokio::time::sleep(Duration::from_secs(1)).await;
        store.keep_alive(lease).await.unwrap();
        assert!(store.get("/a".into(), None).await.unwrap().is_some(), "wrong by {wrong_by} s");
    }
    let mut watch = store.watch(all(), after).await.unwrap();
    clock.advance(Duration::from_secs(7200)).unwrap();
    clock.set_time_of_day(DAY).unwrap();
    assert_eq!(changes(&mut watch, 1).await, [format!("{}-/a", after + 1)]);
    assert_eq!(store.keep_alive(lease).await, Err(Error::LeaseNotFound(lease)));
    committed(store.txn(txn(vec![put("/a", "2")])).await.unwrap());
}

/// The clocks of a cluster's members: `None` where they cannot be moved.
fn clocks(engine: &Engine) -> Option<Vec<etcd::process::clock::Clock>> {
    let Engine::Cluster(cluster, _) = engine else { return None };
    let clocks = (0..cluster.size()).map(|member| cluster.clock(member)).collect::<std::io::Result<Vec<_>>>();
    match clocks {
        Ok(clocks) => Some(clocks),
        Err(error) if error.kind() == std::io::ErrorKind::Unsupported => None,
        Err(error) => panic!("{error}"),
    }
}

/// Times of day go back and forth, and monotonic clocks jump: time-outs of requests, connections and elections end.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn histories_are_linearizable_while_the_clocks_of_etcd_move() {
    let engine = Engine::cluster().await;
    let Some(clocks) = clocks(&engine) else { return };
    let Engine::Cluster(cluster, _) = &engine else { return };
    let history = History::begin(&engine, 2).await;
    let history = history
        .calls_during(async |_: &History| {
            for _ in 0..setting("HISTORY_ROUNDS", 1) {
                for (wrong_by, elapsed) in [(400 * DAY, 0), (-400 * DAY, 1), (-3, 20), (0, 7200)] {
                    let leader = cluster.leader().await;
                    for member in [leader, (leader + 1) % 3] {
                        clocks[member].set_time_of_day(wrong_by).unwrap();
                        clocks[member].advance(Duration::from_secs(elapsed)).unwrap();
                        tokio::time::sleep(WHILE).await;
                    }
                }
            }
        })
        .await;
    history.end(&engine).await;
}

/// Claims of addresses end early, because the leader's clocks jump by more than their lease all the time.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn no_address_is_allocated_twice_while_leases_end_early() {
    let engine = Engine::cluster().await;
    let Some(clocks) = clocks(&engine) else { return };
    let Engine::Cluster(cluster, _) = &engine else { return };
    let history = History::begin(&engine, 2).await;
    history
        .services_beside(&engine, async |_: &History| {
            for hours in 1.. {
                let leader = cluster.leader().await;
                clocks[leader].advance(Duration::from_secs(3600)).unwrap();
                clocks[leader].set_time_of_day(hours * 3600).unwrap();
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        })
        .await;
}
