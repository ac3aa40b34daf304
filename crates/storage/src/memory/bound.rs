//! The order in which a bounded store in memory deletes its keys: those that were written the longest time ago first.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::Bound;
use crate::{Change, KeyValue, Revision};

/// The keys of a store by the revision of their last write, and their size.
#[derive(Debug, Default)]
pub(super) struct Ages {
    oldest_first: BTreeSet<(Revision, Bytes)>,
    bytes: usize,
}

impl Ages {
    /// Takes in a change that was made.
    pub fn follow(&mut self, change: &Change) {
        let (previous, current) = match change {
            Change::Put { current, previous } => (previous.as_ref(), Some(current)),
            Change::Delete { previous } => (Some(previous), None),
        };
        if let Some(previous) = previous
            && self.oldest_first.remove(&(previous.mod_revision, previous.key.clone()))
        {
            self.bytes -= size(previous);
        }
        if let Some(current) = current {
            self.oldest_first.insert((current.mod_revision, current.key.clone()));
            self.bytes += size(current);
        }
    }

    /// The key to delete next. The last key always stays, however large it is: its writer has received that it is stored.
    pub fn excess(&self, bound: Bound) -> Option<Bytes> {
        let keys = self.oldest_first.len();
        let exceeds = keys > 1 && (keys > bound.keys || self.bytes > bound.bytes);
        self.oldest_first.first().filter(|_| exceeds).map(|(_, key)| key.clone())
    }

    /// The keys and their size must be those of the state.
    pub fn verify(&self, state: impl Iterator<Item = KeyValue>) -> Result<(), String> {
        let (mut keys, mut bytes) = (0, 0);
        for kv in state {
            if !self.oldest_first.contains(&(kv.mod_revision, kv.key.clone())) {
                return Err(format!("the age of key {:?} is not known", kv.key));
            }
            (keys, bytes) = (keys + 1, bytes + size(&kv));
        }
        if (keys, bytes) == (self.oldest_first.len(), self.bytes) {
            return Ok(());
        }
        Err(format!("{keys} keys of {bytes} bytes count as {} of {}", self.oldest_first.len(), self.bytes))
    }
}

fn size(kv: &KeyValue) -> usize {
    kv.key.len() + kv.value.len()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::StreamExt;

    use crate::memory::{Bound, MemoryStore, Options};
    use crate::{Change, Error, KeyRange, Op, RangeRequest, Revision, Store, Txn};

    fn bounded(keys: usize, bytes: usize) -> MemoryStore {
        MemoryStore::with_options(Options { bound: Some(Bound { keys, bytes }), ..Options::default() })
    }

    async fn write(store: &MemoryStore, ops: Vec<Op>) {
        store.txn(Txn { guards: Vec::new(), ops }).await.expect("a write");
        store.verify().await.expect("a sound store");
    }

    async fn put(store: &MemoryStore, key: &str, size: usize) {
        write(store, vec![Op::Put { key: key.to_owned().into(), value: vec![b'x'; size].into(), lease: None }]).await;
    }

    async fn keys(store: &MemoryStore) -> String {
        let all = RangeRequest { range: KeyRange::prefix("/"), revision: None, limit: 0 };
        let found = store.range(all).await.expect("a range").items;
        found.iter().map(|kv| String::from_utf8_lossy(&kv.key[1..]).into_owned()).collect::<Vec<_>>().join("")
    }

    #[tokio::test]
    async fn keys_beyond_the_bound_are_deleted_from_the_oldest_write_on() {
        let store = bounded(3, usize::MAX);
        for key in ["/a", "/b", "/c", "/a"] {
            put(&store, key, 1).await;
        }
        assert_eq!((keys(&store).await, store.evicted()), ("abc".to_owned(), 0));
        put(&store, "/d", 1).await;
        assert_eq!(keys(&store).await, "acd", "a was written again after b");
        write(&store, vec![Op::Delete { key: "/c".into() }]).await;
        put(&store, "/e", 1).await;
        assert_eq!(keys(&store).await, "ade", "a deletion makes room");
        let three = ["/f", "/g", "/h"].map(|key| Op::Put { key: key.into(), value: "x".into(), lease: None });
        write(&store, three.to_vec()).await;
        assert_eq!(keys(&store).await, "fgh", "several keys at one revision");
        assert_eq!(store.evicted(), 4, "b, and those of the last transaction");
    }

    #[tokio::test]
    async fn bytes_beyond_the_bound_are_deleted_and_the_last_key_stays() {
        let store = bounded(usize::MAX, 100);
        for key in ["/a", "/b", "/c"] {
            put(&store, key, 30).await;
        }
        assert_eq!(keys(&store).await, "abc");
        put(&store, "/c", 40).await;
        assert_eq!(keys(&store).await, "bc", "the new value counts instead of the one before");
        put(&store, "/d", 1000).await;
        assert_eq!(keys(&store).await, "d");
        put(&store, "/e", 1).await;
        assert_eq!(keys(&store).await, "e");
    }

    #[tokio::test]
    async fn a_watcher_receives_deletions_at_revisions_of_their_own() {
        let store = bounded(1, usize::MAX);
        let mut watch = store.watch(KeyRange::prefix("/"), 1).await.expect("a watch");
        for key in ["/a", "/b", "/c"] {
            put(&store, key, 1).await;
        }
        let mut seen: Vec<(Revision, String)> = Vec::new();
        while seen.len() < 5 {
            for (revision, change) in watch.next().await.expect("a change").expect("a sound feed").changes {
                let what = if matches!(change, Change::Put { .. }) { "+" } else { "-" };
                seen.push((revision, format!("{what}{}", String::from_utf8_lossy(&change.key()[1..]))));
            }
        }
        let expected = [(2, "+a"), (3, "+b"), (4, "-a"), (5, "+c"), (6, "-b")];
        assert_eq!(seen, expected.map(|(revision, what)| (revision, what.to_owned())));
    }

    #[tokio::test]
    async fn values_beyond_the_history_read_unchanged() {
        let bound = Some(Bound { keys: 100, bytes: usize::MAX });
        let options = Options { bound, history_changes: 4, ..Options::default() };
        let store = MemoryStore::with_options(options);
        let value = |n: usize| format!(r#"{{"message":"{}{n}"}}"#, "the same in all of them ".repeat(30));
        for n in 0..50 {
            write(&store, vec![Op::Put { key: format!("/{n:02}").into(), value: value(n).into(), lease: None }]).await;
        }
        let packed = store.0.state.lock().keys.values().flatten().filter(|version| version.is_cold()).count();
        assert_eq!(packed, 46, "all but those in the history");
        let all = RangeRequest { range: KeyRange::prefix("/"), revision: None, limit: 0 };
        let found = store.range(all).await.expect("a range").items;
        let expected: Vec<_> = (0..50).map(|n| (format!("/{n:02}"), value(n))).collect();
        let text = |bytes: &bytes::Bytes| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(found.iter().map(|kv| (text(&kv.key), text(&kv.value))).collect::<Vec<_>>(), expected);
        let one = store.get("/07".into(), None).await.expect("a read").expect("a key");
        assert_eq!((text(&one.value), one.mod_revision), (value(7), 9));
        write(&store, vec![Op::Delete { key: "/07".into() }]).await;
        put(&store, "/08", 300).await;
        assert_eq!(store.get("/07".into(), None).await, Ok(None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_deletes_the_keys_within_the_bound() {
        let store = bounded(2, usize::MAX);
        let lease = Some(store.grant_lease(60).await.expect("a lease"));
        for key in ["/a", "/b", "/c"] {
            write(&store, vec![Op::Put { key: key.into(), value: "x".into(), lease }]).await;
        }
        assert_eq!(keys(&store).await, "bc");
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(keys(&store).await, "");
        store.verify().await.expect("a sound store");
        put(&store, "/d", 1).await;
        assert_eq!(keys(&store).await, "d");
    }

    #[tokio::test]
    async fn revisions_before_the_first_one_are_those_of_another_store() {
        let store = MemoryStore::with_options(Options { first_revision: 1000, ..Options::default() });
        assert_eq!(store.revision().await, Ok(1000));
        let all = |revision| RangeRequest { range: KeyRange::prefix("/"), revision: Some(revision), limit: 0 };
        assert!(matches!(store.range(all(999)).await, Err(Error::Compacted { requested: 999, oldest: 1000 })));
        assert!(store.range(all(1000)).await.is_ok_and(|found| found.items.is_empty()));
        assert!(matches!(store.watch(KeyRange::prefix("/"), 999).await, Err(Error::Compacted { .. })));
        let mut watch = store.watch(KeyRange::prefix("/"), 1000).await.expect("a watch of this store");
        put(&store, "/a", 1).await;
        assert_eq!(watch.next().await.expect("a batch").expect("a sound feed").revision, 1001);
        put(&store, "/b", 1).await;
        let copy = store.copied(Some(5000));
        assert_eq!((copy.revision().await, keys(&copy).await), (Ok(5000), "ab".to_owned()));
        copy.verify().await.expect("a sound store");
    }
}
