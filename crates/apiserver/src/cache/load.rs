//! Reads the content of the store at start: many objects at once, on all processors.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use apimachinery::object::Packer;
use apimachinery::{Object, ObjectKey};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use storage::{Damage, Error, KeyRange, KeyValue, RangeRequest, Revision, Store};

use crate::cache::keys;

/// The objects of one resource, in order.
type Objects = Vec<(ObjectKey, Arc<Object>)>;

/// The objects in the store.
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
        Self { why: format!("{damage}; {}", damage.advice()).into(), key: damage.key }
    }
}

/// Why a value that is not damaged is lost all the same. An encrypted one is intact: a backup would not help.
pub(super) fn not_an_object(value: &[u8], error: &serde_json::Error) -> Arc<str> {
    match encryption(value) {
        Some(prefix) => format!(
            "the stored value is encrypted with {prefix:?}; start the server with an --encryption-provider-config that \
             has this provider and key for the resource"
        ),
        None => format!("the stored value is not an object: {error}; restore the store from a backup"),
    }
    .into()
}

/// The prefix of a value that a provider of kube-apiserver's format has written: `k8s:enc:PROVIDER:VERSION:KEY:`.
fn encryption(value: &[u8]) -> Option<&str> {
    const START: &[u8] = b"k8s:enc:";
    const LONGEST: usize = 512;
    let names = value.strip_prefix(START)?.iter().take(LONGEST);
    let (end, _) = names.enumerate().filter(|(_, byte)| **byte == b':').nth(2)?;
    std::str::from_utf8(value.get(..=START.len() + end)?).ok()
}

/// Shares for each processor: an unusually large share then delays the load only a little, and the memory of a finished
/// share is released early.
const SHARES: usize = 4;

/// The size of documents that stay uncompressed for consumers that first read all of them: 30,000 objects of 4 KiB.
/// Further ones are compressed before more are read, which bounds the memory of a start.
pub(super) const AT_HAND: usize = 128 << 20;

/// Fewer objects than this are parsed faster than they can be distributed, and always in the same order.
const WORTH_A_THREAD: usize = 512;

/// The stored objects of a range by resource, and the revision at which they were so. Documents of up to `at_hand` bytes are not
/// packed.
pub(super) async fn load(store: &dyn Store, range: &KeyRange, at_hand: usize) -> Result<(Loaded, Revision), Error> {
    let read = Arc::new(AtomicUsize::new(0));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let shares = store.shares(range.clone(), SHARES * processors).await?;
    let revision = store.revision().await?;
    let reads = shares.into_iter().map(|range| {
        let read = Arc::clone(&read);
        async move {
            let request = RangeRequest { range, revision: Some(revision), limit: 0 };
            let (found, damaged) = store.salvage(request).await?;
            let few = found.items.len() < WORTH_A_THREAD;
            let parse = move || {
                let size = |item: &KeyValue| item.value.len();
                let before = read.fetch_add(found.items.iter().map(size).sum(), Relaxed);
                by_resource(found.items, damaged, at_hand.saturating_sub(before))
            };
            if few {
                return Ok(parse());
            }
            // One that cannot be awaited belongs to a runtime that is ending.
            tokio::task::spawn_blocking(parse).await.map_err(|_| Error::Closed)
        }
    });
    let shares: Vec<Loaded> = futures::stream::iter(reads).buffered(processors).try_collect().await?;
    let mut loaded = Loaded::default();
    for share in shares {
        loaded.resources.extend(share.resources);
        loaded.lost.extend(share.lost);
    }
    Ok((loaded, revision))
}

/// Groups neighbouring items of one resource; the store returns them in the order of their keys. Items after `at_hand`
/// bytes are compressed.
fn by_resource(items: Vec<KeyValue>, damaged: Vec<Damage>, mut at_hand: usize) -> Loaded {
    let mut all = Loaded { resources: Vec::new(), lost: damaged.into_iter().map(Lost::from).collect() };
    let mut packer = Packer::default();
    for item in items {
        let Some((place, key)) = keys::split(&item.key) else { continue };
        match keys::with_revision(&item.value, item.mod_revision) {
            Ok(object) => {
                if all.resources.last().is_none_or(|(last, _)| last != place) {
                    all.resources.push((place.to_owned(), Vec::new()));
                    packer = Packer::default();
                }
                match at_hand.checked_sub(object.size()) {
                    Some(left) => at_hand = left,
                    None => packer.pack(&object),
                }
                if let Some((_, objects)) = all.resources.last_mut() {
                    objects.push((keys::shared(key, &object), object.shared()));
                }
            }
            Err(error) => {
                let why = not_an_object(&item.value, &error);
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
    async fn many_objects_are_loaded_in_parts() {
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
        let (loaded, revision) = load(&store, &range, AT_HAND).await.expect("the objects");
        assert_eq!(revision, store.revision().await.expect("a revision"));
        let lost: Vec<_> = loaded.lost.iter().map(|lost| &lost.key[..]).collect();
        assert_eq!(lost, [b"/registry/core/b/z"], "what is no object is not absent");
        let seen: Vec<_> =
            loaded.resources.iter().flat_map(|(place, found)| found.iter().map(move |it| (place, it))).collect();
        assert_eq!(seen.len(), 6000);
        for (n, (found, (key, object))) in (0..).zip(seen) {
            let name = format!("n{n:06}");
            assert_eq!((found.as_str(), key.name(), object.name()), (place(n), &*name, &*name));
        }
    }

    #[tokio::test]
    async fn objects_beyond_the_bound_are_packed_before_serving() {
        let store = storage::memory::MemoryStore::new();
        let text = |n: u32| {
            let data = "some text that all of them have in common ".repeat(10);
            format!(r#"{{"apiVersion":"v1","kind":"X","metadata":{{"name":"n{n:03}"}},"data":"{data}{n}"}}"#)
        };
        for n in 0..200 {
            let key = format!("/registry/core/{}/n{n:03}", if n < 150 { "a" } else { "b" });
            let ops = vec![Op::Put { key: key.into(), value: text(n).into(), lease: None }];
            store.txn(Txn { guards: Vec::new(), ops }).await.expect("a write");
        }
        let range = KeyRange::prefix(keys::ROOT);
        let mut seen = Vec::new();
        for (at_hand, whole) in [(AT_HAND, 200..=200), (50 * text(0).len(), 30..=50), (0, 0..=0)] {
            let (loaded, _) = load(&store, &range, at_hand).await.expect("the objects");
            let objects: Vec<_> =
                loaded.resources.iter().flat_map(|(_, found)| found).map(|(_, object)| object).collect();
            let unpacked = objects.iter().filter(|object| !object.is_packed()).count();
            assert!(whole.contains(&unpacked), "{unpacked} of {} with {at_hand} bytes", objects.len());
            seen.push(objects.iter().map(|object| object.json()).collect::<Vec<_>>());
        }
        assert!(seen[0].len() == 200 && seen[1] == seen[0] && seen[2] == seen[0], "they read the same");
    }

    #[test]
    fn an_encrypted_value_needs_no_backup() {
        let error = serde_json::from_slice::<serde_json::Value>(b"k8s").expect_err("no JSON");
        for (value, expected) in [
            (&b"k8s:enc:aesgcm:v1:key1:\xff\x00:\x01"[..], Some("k8s:enc:aesgcm:v1:key1:")),
            (b"k8s:enc:kms:v2:vault:x", Some("k8s:enc:kms:v2:vault:")),
            (b"k8s:enc:aesgcm:v1", None),
            (b"k8s:enc:\xff:v1:a:", None),
            (b"garbage", None),
        ] {
            let why = not_an_object(value, &error);
            let named = expected.is_some_and(|prefix| why.contains(&format!("encrypted with {prefix:?}")));
            assert_eq!((named, why.contains("backup")), (expected.is_some(), expected.is_none()), "{why}");
        }
    }
}
