//! Reading: revisions, ranges, compaction.

use super::{Subject, bytes};
use crate::{Error, KeyRange, RangeRequest};

pub(super) async fn old_revisions_stay_readable(store: &Subject) {
    for value in ["1", "2"] {
        store.put("/a", value).await;
    }
    store.delete("/a").await;
    store.put("/b", "1").await;
    let rows = [(1, None), (2, Some("1")), (3, Some("2")), (4, None), (5, None)];
    for (revision, value) in rows {
        let found = store.get_at("/a", revision).await.map(|kv| kv.value);
        assert_eq!(found, value.map(bytes), "at {revision}");
        let keys = store.keys(KeyRange::prefix(bytes("/a")), Some(revision), 0).await;
        assert_eq!((keys.1, keys.2), (usize::from(value.is_some()), 5), "range at {revision}");
    }
    let future = store.0.get(bytes("/a"), Some(6)).await;
    assert_eq!(future, Err(Error::FutureRevision { requested: 6, newest: 5 }));
}

pub(super) async fn ranges_are_ordered_limited_and_counted(store: &Subject) {
    for key in ["/c", "/a", "/d", "/b", "/a/x"] {
        store.put(key, "1").await;
    }
    store.delete("/d").await;
    let range = |start: &str, end: &str| KeyRange { start: bytes(start), end: bytes(end) };
    let rows: &[(KeyRange, usize, &[&str], usize)] = &[
        (range("/", "0"), 0, &["/a", "/a/x", "/b", "/c"], 4),
        (range("/", "0"), 2, &["/a", "/a/x"], 4),
        (range("/a", "/c"), 0, &["/a", "/a/x", "/b"], 3),
        (range("/a\0", "/c"), 1, &["/a/x"], 2),
        (range("", ""), 0, &["/a", "/a/x", "/b", "/c"], 4),
        (range("/b", ""), 0, &["/b", "/c"], 2),
        (range("/c", "/a"), 0, &[], 0),
        (range("/a", "/a"), 0, &[], 0),
        (range("/x", "/z"), 3, &[], 0),
    ];
    for (range, limit, keys, count) in rows {
        let (found, counted, revision) = store.keys(range.clone(), None, *limit).await;
        assert_eq!(
            (found.iter().map(String::as_str).collect::<Vec<_>>(), counted),
            (keys.to_vec(), *count),
            "{range:?}"
        );
        assert_eq!(revision, 7);
    }
    let (found, counted, _) = store.keys(range("/", "0"), Some(5), 0).await;
    assert_eq!((found.len(), counted), (4, 4), "the deleted key was there, the last one was not yet");
}

pub(super) async fn prefixes_end_where_they_should(store: &Subject) {
    for key in [&b"/p"[..], b"/p/", b"/p/a", b"/p/\xff", b"/p/\xff\xff\x01", b"/p0", b"/q"] {
        let op = crate::Op::Put { key: key.to_vec().into(), value: bytes("1"), lease: None };
        store.commit(vec![], vec![op]).await;
    }
    let rows: &[(&[u8], usize)] =
        &[(b"/p", 6), (b"/p/", 4), (b"/p/\xff", 2), (b"/p/\xff\xff", 1), (b"/", 7), (b"/r", 0)];
    for (prefix, count) in rows {
        let found = store.keys(KeyRange::prefix(prefix.to_vec()), None, 0).await;
        assert_eq!(found.1, *count, "{prefix:?}");
    }
}

pub(super) async fn shares_cover_the_range_once(store: &Subject) {
    let all = KeyRange::prefix(bytes("/k/"));
    assert_eq!(store.0.shares(all.clone(), 8).await, Ok(vec![all.clone()]), "nothing to divide");
    let keys: Vec<_> = (0..5000).map(|n| format!("/k/{:04}", n * 7 % 5000)).collect();
    futures::future::join_all(keys.iter().map(|key| store.put(key, "1"))).await;
    store.put("/j", "1").await;
    store.put("/l", "1").await;
    for parts in [0, 1, 2, 8] {
        let shares = store.0.shares(all.clone(), parts).await.expect("the range is divided");
        assert!((1..=parts.max(1)).contains(&shares.len()), "{} of {parts}", shares.len());
        assert_eq!((&shares[0].start, &shares[shares.len() - 1].end), (&all.start, &all.end));
        let mut seen = Vec::new();
        for share in &shares {
            let (found, ..) = store.keys(share.clone(), None, 0).await;
            assert!(shares.len() == 1 || found.len() < 5000 * 2 / shares.len(), "{} in one of {parts}", found.len());
            seen.extend(found);
        }
        assert_eq!(seen.len(), 5000, "each key once");
        assert!(seen.is_sorted());
    }
}

pub(super) async fn compaction_removes_history_but_no_key(store: &Subject) {
    store.put("/quiet", "1").await;
    for value in ["1", "2", "3"] {
        store.put("/busy", value).await;
    }
    store.put("/gone", "1").await;
    let deleted = store.delete("/gone").await;
    store.put("/busy", "4").await;
    store.0.compact(deleted).await.expect("compacts");
    for requested in [2, deleted - 1] {
        let compacted = Error::Compacted { requested, oldest: deleted };
        assert_eq!(store.0.get(bytes("/busy"), Some(requested)).await, Err(compacted.clone()));
        let range = RangeRequest { range: KeyRange::prefix(bytes("/")), revision: Some(requested), limit: 0 };
        assert_eq!(store.0.range(range).await.err(), Some(compacted));
    }
    assert_eq!(store.get_at("/busy", deleted).await.expect("readable").value, bytes("3"));
    assert_eq!(store.get_at("/gone", deleted).await, None);
    assert_eq!(store.get("/busy").await.expect("lives").value, bytes("4"));
    assert_eq!(store.keys(KeyRange::prefix(bytes("/")), None, 0).await.0, ["/busy", "/quiet"]);
    let again = store.0.compact(deleted - 1).await;
    assert_eq!(again, Err(Error::Compacted { requested: deleted - 1, oldest: deleted }));
    let newest = store.revision().await;
    let future = store.0.compact(newest + 1).await;
    assert_eq!(future, Err(Error::FutureRevision { requested: newest + 1, newest }));
    // All states except the newest are compacted; the revisions continue.
    store.0.compact(newest).await.expect("compacts");
    assert_eq!(store.put("/gone", "2").await, newest + 1);
    let kv = store.get("/gone").await.expect("lives");
    assert_eq!((kv.create_revision, kv.mod_revision), (newest + 1, newest + 1));
}
