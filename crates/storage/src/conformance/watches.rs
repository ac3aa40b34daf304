//! Watching: beginnings, ranges, progress, compaction, concurrency.

use futures::FutureExt;

use super::{Subject, bytes, changes, committed, delete, next, put};
use crate::{Error, KeyRange};

pub(super) async fn from_the_past_now_and_the_future(store: &Subject) {
    store.put("/a", "1").await;
    store.put("/a", "2").await;
    store.delete("/a").await;
    let mut beginning = store.watch("/", 0).await;
    let mut past = store.watch("/", 2).await;
    let mut now = store.watch("/", 4).await;
    let mut future = store.watch("/", 6).await;
    store.put("/a", "3").await;
    store.put("/a", "4").await;
    store.put("/a", "5").await;
    let all = ["2+/a=1<", "3+/a=2<1", "4-/a<2", "5+/a=3<", "6+/a=4<3", "7+/a=5<4"];
    assert_eq!(changes(&mut beginning, 6).await, all);
    assert_eq!(changes(&mut past, 5).await, all[1..]);
    assert_eq!(changes(&mut now, 3).await, all[3..]);
    assert_eq!(changes(&mut future, 1).await, all[5..]);
}

pub(super) async fn only_the_range_is_seen(store: &Subject) {
    let mut watch = store.watch("/b/", 1).await;
    store.put("/a/1", "1").await;
    committed(&store.commit(vec![], vec![put("/a/2", "1"), put("/b/2", "1"), put("/b/1", "1"), delete("/a/1")]).await);
    store.put("/c/1", "1").await;
    store.delete("/b/1").await;
    assert_eq!(changes(&mut watch, 3).await, ["3+/b/1=1<", "3+/b/2=1<", "5-/b/1<1"]);
    let mut late = store.watch("/b/", 1).await;
    assert_eq!(changes(&mut late, 3).await, ["3+/b/1=1<", "3+/b/2=1<", "5-/b/1<1"]);
}

/// More than fits one batch; a revision is never split.
pub(super) async fn long_history_is_delivered_whole(store: &Subject) {
    let (revisions, keys) = (150, 7);
    for revision in 0..revisions {
        let ops = (0..keys).map(|key| put(&format!("/k{key}"), &revision.to_string())).collect();
        store.commit(vec![], ops).await;
    }
    let mut watch = store.watch("/", 1).await;
    let mut last = 1;
    while last < 1 + revisions {
        let batch = next(&mut watch).await;
        let expected: Vec<_> = (last + 1..=batch.revision).flat_map(|revision| [revision; 7]).collect();
        assert_eq!(batch.changes.iter().map(|(revision, _)| *revision).collect::<Vec<_>>(), expected);
        last = batch.revision;
    }
    assert_eq!(last, 1 + revisions);
}

pub(super) async fn progress_on_request(store: &Subject) {
    let mut watch = store.watch("/a/", 1).await;
    let at = store.put("/b/1", "1").await;
    store.0.request_progress().await.expect("requests progress");
    let batch = next(&mut watch).await;
    assert!(batch.changes.is_empty(), "nothing concerns the watch");
    assert!(batch.revision >= at, "it has seen {at}");
    let later = store.put("/a/1", "1").await;
    store.0.request_progress().await.expect("requests progress");
    assert_eq!(changes(&mut watch, 1).await, [format!("{later}+/a/1=1<")]);
}

pub(super) async fn compacted_history_is_refused(store: &Subject) {
    for value in 0..10 {
        store.put("/a", &value.to_string()).await;
    }
    store.0.compact(8).await.expect("compacts");
    let refused = store.0.watch(KeyRange::prefix(bytes("/")), 5).await;
    assert_eq!(refused.err(), Some(Error::Compacted { requested: 5, oldest: 8 }));
    let mut watch = store.watch("/", 8).await;
    assert_eq!(changes(&mut watch, 3).await, ["9+/a=7<6", "10+/a=8<7", "11+/a=9<8"]);
    store.0.compact(11).await.expect("compacts");
    let mut newest = store.watch("/", 11).await;
    store.delete("/a").await;
    assert_eq!(changes(&mut newest, 1).await, ["12-/a<9"]);
}

/// Writers, and watchers that begin during the writes, all see the same order.
pub(super) async fn no_gaps_under_concurrency(store: &Subject) {
    let (writers, each) = (8_u64, 40_u64);
    let last = 1 + writers * each;
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for n in 0..each {
                    store.put(&format!("/w{writer}/{}", n % 3), &n.to_string()).await;
                }
            })
        })
        .collect();
    let mut watchers = Vec::new();
    for _ in 0..10 {
        let (store, after) = (store.clone(), store.revision().await);
        watchers.push(tokio::spawn(async move {
            let mut watch = store.watch("/", after).await;
            let mut seen = after;
            while seen < last {
                for (revision, _) in next(&mut watch).await.changes {
                    assert_eq!(revision, seen + 1, "no gap and nothing twice");
                    seen = revision;
                }
            }
            assert!(futures::StreamExt::next(&mut watch).now_or_never().is_none(), "nothing more to come");
        }));
    }
    for task in tasks.into_iter().chain(watchers) {
        task.await.expect("the task ends well");
    }
    assert_eq!(store.revision().await, last);
}
