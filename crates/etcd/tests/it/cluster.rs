//! Clusters of three etcds: their leader is killed, stopped and moved, members are cut off from the others, behind
//! links that drop packets, and replaced. Histories of eight clients on two API servers stay linearizable, and watches
//! deliver each change once and in order.
//!
//! `HISTORY_ROUNDS` repeats the faults of each test (1).

use std::time::Duration;

use apimachinery::ApiResource;
use etcd::process::cluster::Cluster;
use etcd::process::network::{Link, Node};
use etcd::{EtcdStore, Options};
use futures::StreamExt;
use serde_json::json;
use storage::{Error, RangeRequest, Store};

use super::apiserver::key;
use super::history::run::{History, setting};
use super::{Engine, all, changes, committed, layout, put, txn};

/// While clients make calls under a fault.
const WHILE: Duration = Duration::from_millis(700);

async fn calls() {
    tokio::time::sleep(WHILE).await;
}

/// A history of two servers beside the faults of each round.
async fn history(mut faults: impl AsyncFnMut(&mut Cluster, usize)) {
    let mut engine = Engine::cluster().await;
    let history = History::begin(&engine, 2).await;
    let cluster = &mut engine;
    let history = history
        .calls_during(async |_: &History| {
            let Engine::Cluster(cluster, _) = cluster else { return };
            for round in 0..setting("HISTORY_ROUNDS", 1) {
                calls().await;
                faults(cluster, usize::try_from(round).unwrap()).await;
                cluster.heal().unwrap();
                calls().await;
            }
        })
        .await;
    history.end(&engine).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn histories_are_linearizable_while_the_leader_is_killed() {
    history(async |cluster, _| {
        for _ in 0..2 {
            let leader = cluster.leader().await;
            cluster.kill(leader);
            cluster.successor(leader).await;
            calls().await;
            tokio::task::block_in_place(|| cluster.restart(leader)).unwrap();
        }
    })
    .await;
}

/// The old leader goes on after another one was elected.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn histories_are_linearizable_while_the_leader_is_stopped() {
    history(async |cluster, _| {
        for _ in 0..2 {
            let leader = cluster.leader().await;
            cluster.stop(leader).unwrap();
            cluster.successor(leader).await;
            calls().await;
            cluster.proceed(leader).unwrap();
            calls().await;
        }
    })
    .await;
}

/// Clients reach a member that has lost the others: the leader, and one that follows.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn histories_are_linearizable_while_members_are_cut_off() {
    history(async |cluster, round| {
        let leader = cluster.leader().await;
        for member in [leader, (leader + 1 + round % 2) % 3] {
            cluster.cut_off(member);
            cluster.successor(member).await;
            calls().await;
            cluster.network().heal();
            calls().await;
        }
    })
    .await;
}

/// Links of clients and of members drop packets, end connections, or are slow.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn histories_are_linearizable_while_links_fail() {
    history(async |cluster, round| {
        let slow = Link::Slow(Duration::from_millis(20));
        let network = cluster.network().clone();
        let member = round % 3;
        for (from, to, link) in [
            (Node::Clients, member, Link::Frozen),
            (Node::Clients, (member + 1) % 3, Link::Cut),
            (Node::Member(member), (member + 2) % 3, Link::Frozen),
            (Node::Member(member), (member + 1) % 3, slow),
            (Node::Clients, (member + 2) % 3, slow),
        ] {
            network.set(from, to, link);
            calls().await;
        }
        network.heal();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn histories_are_linearizable_while_the_leader_moves_and_members_are_replaced() {
    history(async |cluster, round| {
        for to in 0..3 {
            // A member that has just lost the leadership may refuse the request.
            let _ = cluster.move_leader(to).await;
            calls().await;
        }
        let leader = cluster.leader().await;
        cluster.replace((leader + round) % 3).await.unwrap();
    })
    .await;
}

/// The clocks of two servers go back and forth. An object that expires by a lease of etcd stays for its time.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn histories_are_linearizable_while_the_clocks_of_servers_move() {
    let engine = Engine::cluster().await;
    let history = History::begin(&engine, 2).await;
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "c"}, "reason": "R", "message": "m"});
    let events = ApiResource::namespaced("", "v1", "Event", "events");
    history.client(0).create(&events, &event).await.unwrap();
    let history = history
        .calls_during(async |history: &History| {
            for (one, other) in [(86_400, -86_400), (-3, 7_200), (0, 400 * 86_400), (-400 * 86_400, 0)] {
                history.set_clock(0, one);
                history.set_clock(1, other);
                calls().await;
                let found = history.client(1).get(&events, &key("e")).await;
                assert!(found.is_ok(), "the event lives for an hour: {found:?}");
            }
        })
        .await;
    history.end(&engine).await;
}

/// A store whose only member is `number`.
async fn store_at(cluster: &Cluster, number: usize, timeout: Duration) -> EtcdStore {
    let options = cluster.options(number, layout()).unwrap();
    let endpoints = options.endpoints[..1].to_vec();
    EtcdStore::open(Options { endpoints, timeout, ..options }).await.unwrap()
}

/// A member that has lost the others has an old state. It is not served, also not to one who knows no other member.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn a_member_that_is_cut_off_serves_no_old_state() {
    let Engine::Cluster(cluster, _directory) = Engine::cluster().await else { panic!("a cluster") };
    let leader = cluster.leader().await;
    let lost = (leader + 1) % 3;
    let (at_lost, at_leader) = (
        store_at(&cluster, lost, Duration::from_millis(1500)).await,
        store_at(&cluster, leader, Duration::from_secs(10)).await,
    );
    committed(at_lost.txn(txn(vec![put("/a", "old")])).await.unwrap());
    let mut watch = at_lost.watch(all(), 1).await.unwrap();
    assert_eq!(changes(&mut watch, 1).await.len(), 1);
    cluster.cut_off(lost);
    let after = committed(at_leader.txn(txn(vec![put("/a", "new")])).await.unwrap());
    for _ in 0..3 {
        let read = at_lost.get("/a".into(), None).await;
        assert!(matches!(&read, Err(Error::Unavailable(_))), "{read:?}");
        let list = at_lost.range(RangeRequest { range: all(), revision: None, limit: 0 }).await;
        assert!(matches!(&list, Err(Error::Unavailable(_))), "{list:?}");
        assert!(at_lost.revision().await.is_err());
    }
    // By now it knows that it has no leader, and refuses a write before it is executed.
    let write = at_lost.txn(txn(vec![put("/a", "mine")])).await;
    assert!(matches!(&write, Err(Error::Unavailable(_))), "{write:?}");
    cluster.network().heal();
    let next = watch.next().await.unwrap().unwrap();
    assert_eq!(next.revision, after, "the watch goes on where it was");
    // Who knows the other members goes to them, and is not behind.
    let everywhere = EtcdStore::open(cluster.options(lost, layout()).unwrap()).await.unwrap();
    cluster.cut_off(lost);
    let after = committed(at_leader.txn(txn(vec![put("/a", "newer")])).await.unwrap());
    let read = everywhere.get("/a".into(), None).await.unwrap().unwrap();
    assert_eq!((&read.value[..], read.mod_revision), (&b"newer"[..], after));
}

/// A watch begins at a revision that its member has not reached: versions before 3.4.25 and 3.5.8 send older changes
/// then.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn a_watch_from_a_revision_that_its_member_lacks_repeats_nothing() {
    let Engine::Cluster(cluster, _directory) = Engine::cluster().await else { panic!("a cluster") };
    let leader = cluster.leader().await;
    let behind = (leader + 1) % 3;
    let ahead = store_at(&cluster, leader, Duration::from_secs(10)).await;
    let late = store_at(&cluster, behind, Duration::from_secs(10)).await;
    committed(late.txn(txn(vec![put("/a", "0")])).await.unwrap());
    // It receives the changes of the others later than they are committed.
    let slow = Link::Slow(Duration::from_millis(150));
    (0..3).filter(|from| *from != behind).for_each(|from| cluster.network().set(Node::Member(from), behind, slow));
    cluster.network().set(Node::Member(behind), leader, slow);
    let mut last = 0;
    for n in 1..=200 {
        last = committed(ahead.txn(txn(vec![put("/a", &n.to_string())])).await.unwrap());
    }
    let mut watch = late.watch(all(), last).await.unwrap();
    let next = committed(ahead.txn(txn(vec![put("/b", "1")])).await.unwrap());
    assert_eq!(changes(&mut watch, 1).await, [format!("{next}+/b")]);
}

/// Watches move to another member with the requests: they do not wait until a ping over a dead connection fails.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn watches_leave_a_half_open_connection_with_the_requests() {
    let Engine::Cluster(cluster, _directory) = Engine::cluster().await else { panic!("a cluster") };
    let store = EtcdStore::open(cluster.options(0, layout()).unwrap()).await.unwrap();
    let mut watch = store.watch(all(), 1).await.unwrap();
    let first = committed(store.txn(txn(vec![put("/a", "1")])).await.unwrap());
    assert_eq!(changes(&mut watch, 1).await, [format!("{first}+/a")]);
    cluster.network().set(Node::Clients, 0, Link::Frozen);
    // The read's attempt at the first member ends after 3 s; a ping would fail after 15 s.
    let limit = tokio::time::Instant::now() + Duration::from_secs(13);
    let delivered = tokio::time::timeout_at(limit, async {
        store.get("/a".into(), None).await.unwrap();
        let next = committed(store.txn(txn(vec![put("/b", "1")])).await.unwrap());
        assert_eq!(changes(&mut watch, 1).await, [format!("{next}+/b")]);
    });
    delivered.await.expect("the watch is on the other member's connection");
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn a_learner_is_skipped() {
    let Engine::Cluster(mut cluster, _directory) = Engine::cluster().await else { panic!("a cluster") };
    let learner = cluster.add_learner().await.unwrap();
    let options = cluster.options(learner, layout()).unwrap();
    let store = EtcdStore::open(options.clone()).await.unwrap();
    committed(store.txn(txn(vec![put("/a", "1")])).await.unwrap());
    let alone = Options { endpoints: options.endpoints[..1].to_vec(), timeout: Duration::from_secs(4), ..options };
    // Until the learner has joined, it does not answer.
    for _ in 0..15 {
        match EtcdStore::open(alone.clone()).await.err() {
            Some(Error::Unavailable(why)) if why.contains("it is a learner") => return,
            Some(Error::Unavailable(why)) if why.contains("timeout") => {}
            other => panic!("{other:?}"),
        }
    }
    panic!("the learner was not recognized within a minute");
}
