//! Reading what the store holds when a server starts: many objects at once, on all processors.

use std::sync::Arc;

use apimachinery::{Object, ObjectKey};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use storage::{Damage, Error, KeyRange, KeyValue, RangeRequest, Revision, Store};

use crate::keys;

/// The objects of one resource, in order.
type Objects = Vec<(ObjectKey, Arc<Object>)>;

/// What the store holds.
#[derive(Default)]
pub(super) struct Loaded {
    /// By `GROUP/PLURAL`.
    pub resources: Vec<(String, Objects)>,
    pub lost: Vec<Lost>,
}

/// A stored value that cannot be read.
pub(super) struct Lost {
    pub key: Bytes,
    pub why: Arc<str>,
}

impl From<Damage> for Lost {
    fn from(damage: Damage) -> Self {
        Self { why: damage.to_string().into(), key: damage.key }
    }
}

/// Why a value that is not damaged is lost all the same.
pub(super) fn not_an_object(error: &serde_json::Error) -> Arc<str> {
    format!("the stored value is not an object: {error}").into()
}

/// Shares for each processor: one that comes out larger than the others keeps nobody waiting for long, and what was read
/// of a share is let go of before all is.
const SHARES: usize = 4;

/// Fewer objects than this are parsed in less time than it takes to hand them out, and in the same order each time.
const WORTH_A_THREAD: usize = 512;

/// The stored objects of a range by resource, and the revision at which they were so.
pub(super) async fn load(store: &dyn Store, range: &KeyRange) -> Result<(Loaded, Revision), Error> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let shares = store.shares(range.clone(), SHARES * processors).await?;
    let revision = store.revision().await?;
    let reads = shares.into_iter().map(|range| async move {
        let request = RangeRequest { range, revision: Some(revision), limit: 0 };
        let (found, damaged) = store.salvage(request).await?;
        if found.items.len() < WORTH_A_THREAD {
            return Ok(by_resource(found.items, damaged));
        }
        // One that cannot be awaited belongs to a runtime that is ending.
        tokio::task::spawn_blocking(|| by_resource(found.items, damaged)).await.map_err(|_| Error::Closed)
    });
    let shares: Vec<Loaded> = futures::stream::iter(reads).buffered(processors).try_collect().await?;
    let mut loaded = Loaded::default();
    for share in shares {
        loaded.resources.extend(share.resources);
        loaded.lost.extend(share.lost);
    }
    Ok((loaded, revision))
}

/// Neighbours of one resource together; the store has them in the order of their keys.
fn by_resource(items: Vec<KeyValue>, damaged: Vec<Damage>) -> Loaded {
    let mut all = Loaded { resources: Vec::new(), lost: damaged.into_iter().map(Lost::from).collect() };
    for item in items {
        let Some((place, key)) = keys::split(&item.key) else { continue };
        match keys::with_revision(&item.value, item.mod_revision) {
            Ok(object) => match all.resources.last_mut() {
                Some((last, objects)) if last == place => objects.push((key, object.shared())),
                _ => all.resources.push((place.to_owned(), vec![(key, object.shared())])),
            },
            Err(error) => {
                let why = not_an_object(&error);
                all.lost.push(Lost { key: item.key, why });
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use storage::embedded::{EmbeddedStore, Options};
    use storage::{Op, Txn};

    use super::*;

    #[tokio::test]
    async fn many_are_loaded_as_few_are() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = EmbeddedStore::open(dir.path(), Options::default()).await.expect("a store");
        let place = |n: u32| if n < 100 { "core/a" } else { "core/b" };
        let put = |key: String, value: String| {
            let ops = vec![Op::Put { key: key.into(), value: value.into(), lease: None }];
            store.txn(Txn { guards: Vec::new(), ops })
        };
        let value = |n| format!(r#"{{"apiVersion":"v1","kind":"X","metadata":{{"name":"n{n:06}"}}}}"#);
        let writes = (0..6000).map(|n| put(format!("/registry/{}/n{n:06}", place(n)), value(n)));
        futures::future::try_join_all(writes).await.expect("writes");
        put("/registry/core/b/z".into(), "no object".into()).await.expect("a write");
        let range = KeyRange::prefix(keys::ROOT);
        assert!(store.shares(range.clone(), 8).await.expect("shares").len() > 4, "it is read in parts");
        let (loaded, revision) = load(&store, &range).await.expect("the objects");
        assert_eq!(revision, store.revision().await.expect("a revision"));
        let lost: Vec<_> = loaded.lost.iter().map(|lost| &lost.key[..]).collect();
        assert_eq!(lost, [b"/registry/core/b/z"], "what is no object is not absent");
        let seen: Vec<_> =
            loaded.resources.iter().flat_map(|(place, found)| found.iter().map(move |it| (place, it))).collect();
        assert_eq!(seen.len(), 6000);
        for (n, (found, (key, object))) in (0..).zip(seen) {
            let name = format!("n{n:06}");
            assert_eq!((found.as_str(), &*key.name, object.name()), (place(n), &*name, &*name));
        }
    }
}
