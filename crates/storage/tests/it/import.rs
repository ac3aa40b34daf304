//! A store created from another engine's objects: their revisions stay, the counter continues, and a directory has the
//! old store or the new one.

use storage::embedded::import::{Import, import};
use storage::embedded::inspect::verify_store;
use storage::embedded::{EmbeddedStore, Options};
use storage::{Error, KeyRange, KeyValue, LeaseId, RangeRequest, Store};

use crate::breaks::put;
use crate::image::opened;

fn item(key: &str, create_revision: u64, mod_revision: u64, lease: Option<u64>) -> KeyValue {
    let lease = lease.map(LeaseId);
    KeyValue {
        key: key.to_owned().into(),
        value: format!("value of {key}").into(),
        create_revision,
        mod_revision,
        lease,
    }
}

fn options(replace: bool) -> Import {
    Import { replace, suffix: "then".to_owned(), revision: 900, ttl: 60 }
}

/// In pieces of two.
fn pieces(items: &[KeyValue]) -> impl FnMut() -> Result<Vec<KeyValue>, Error> + use<> {
    let mut pieces: Vec<_> = items.chunks(2).map(<[_]>::to_vec).collect();
    pieces.reverse();
    move || Ok(pieces.pop().unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn imported_objects_keep_their_revisions() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("store");
    // Two objects of one transaction of etcd have one revision; leases of etcd have large identifiers.
    let items = [
        item("/a/1", 700, 800, None),
        item("/a/2", 800, 800, None),
        item("/a/3", 3, 3, Some(7_587_848_390_912_345_678)),
        item("/b/1", 900, 900, Some(7_587_848_390_912_345_678)),
        item("/b/2", 5, 6, Some(12)),
    ];
    let imported = import(&dir, &options(false), &mut pieces(&items)).unwrap();
    assert_eq!((imported.objects, imported.revision), (5, 10_900));
    assert_eq!(verify_store(&dir, &mut |_, _| {}).unwrap().damaged, Vec::<String>::new());
    let store = EmbeddedStore::open(&dir, Options { must_exist: true, ..Options::default() }).await.unwrap();
    let all = RangeRequest { range: KeyRange::prefix("/"), revision: None, limit: 0 };
    let found = store.range(all).await.unwrap();
    let known = |it: &KeyValue| (it.key.clone(), it.value.clone(), it.create_revision, it.mod_revision);
    assert_eq!(found.items.iter().map(known).collect::<Vec<_>>(), items.iter().map(known).collect::<Vec<_>>());
    assert_eq!(
        store.watch(KeyRange::prefix("/"), 900).await.err().map(|error| error.to_string()).as_deref(),
        Some("revision 900 has been compacted, the oldest is 10900"),
        "a watch at the source's revision reads again"
    );
    put(&store, "/a/1", vec![1]).await;
    assert_eq!(store.revision().await, Ok(10_901));
    tokio::time::sleep(std::time::Duration::from_secs(62)).await;
    for (key, expected) in [("/a/3", false), ("/b/1", false), ("/b/2", false), ("/a/2", true)] {
        assert_eq!(store.get(key.into(), None).await.unwrap().is_some(), expected, "{key}");
    }
    assert!(store.grant_lease(1).await.unwrap().0 > 2);
    store.verify().await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_failed_import_leaves_the_directory_as_it_was() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    let mut ends = pieces(&[item("/a", 2, 2, None), item("/b", 3, 3, None)]);
    let mut broken = || match ends()? {
        items if items.is_empty() => Err(Error::Unavailable("the source is gone".into())),
        items => Ok(items),
    };
    assert_eq!(import(&dir, &options(false), &mut broken).err(), Some(Error::Unavailable("the source is gone".into())));
    assert!(!dir.join("store.sqlite").exists());
    std::fs::create_dir_all(&dir).unwrap();
    let store = opened(&dir).await.unwrap();
    put(&store, "/old", vec![1]).await;
    let used = import(&dir, &options(true), &mut pieces(&[])).err().unwrap().to_string();
    assert!(used.contains("in use"), "{used}");
    store.close().await.unwrap();
    let present = import(&dir, &options(false), &mut pieces(&[])).err().unwrap().to_string();
    assert!(present.contains("use --replace"), "{present}");
    let future = [item("/a", 2, 901, None)];
    let future = import(&dir, &options(true), &mut pieces(&future)).err().unwrap().to_string();
    assert!(future.contains("901 of /a is not one of the source's"), "{future}");
    let store = opened(&dir).await.unwrap();
    assert!(store.get("/old".into(), None).await.unwrap().is_some());
    store.close().await.unwrap();
    let imported = import(&dir, &options(true), &mut pieces(&[item("/a", 2, 2, None)])).unwrap();
    assert_eq!(imported.aside, Some(parent.path().join("store.replaced-then")));
    assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 2, "nothing unfinished is left");
}
