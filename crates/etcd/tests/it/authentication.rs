//! etcd's authentication, turned on and off beneath a store. The user is the common name of the client certificate.

use etcd::process::authentication::Root;
use etcd::{EtcdStore, Options};
use futures::StreamExt;
use storage::{Error, Store};

use super::authority::{Authority, flags};
use super::{Etcd, all, committed, put, txn};

/// The next change of a watch, as `key=value`.
async fn next(watch: &mut storage::WatchStream) -> String {
    loop {
        let batch = watch.next().await.unwrap().unwrap();
        if let Some((_, storage::Change::Put { current, .. })) = batch.changes.first() {
            assert_eq!(batch.changes.len(), 1);
            let text = |bytes: &bytes::Bytes| String::from_utf8_lossy(bytes).into_owned();
            return format!("{}={}", text(&current.key), text(&current.value));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(no_etcd, ignore = "etcd is not on PATH")]
async fn authentication_that_is_turned_on_denies_until_the_user_has_its_role() {
    let (authority, dir) = (Authority::new(), tempfile::tempdir().unwrap());
    authority.write(dir.path());
    let etcd = Etcd::start(&flags(dir.path()).each_ref().map(String::as_str));
    let options =
        Options { certificates: authority.client("karmada"), ..etcd.process.options(super::layout()).unwrap() };
    let store = EtcdStore::open(options.clone()).await.unwrap();
    let mut answers = store.answers();
    let mut watch = store.watch(all(), store.revision().await.unwrap()).await.unwrap();
    let write = async |value: &str| store.txn(txn(vec![put("/a", value)])).await;
    committed(write("before").await.unwrap());
    assert_eq!(next(&mut watch).await, "/a=before");

    let root = Root::create(&etcd.process, &authority.client("root")).await.unwrap();
    root.enable().await.unwrap();
    for attempt in ["denied", "denied again"] {
        let denied = write(attempt).await;
        assert!(
            matches!(&denied, Err(Error::Unavailable(why)) if why.contains("permission denied") && why.contains("--etcd-certfile")),
            "{denied:?}"
        );
    }
    let unread = store.get("/a".into(), None).await;
    assert!(matches!(&unread, Err(Error::Unavailable(_))), "unknown, not absent: {unread:?}");
    answers.wait_for(|answers| !answers).await.unwrap();
    let refused = EtcdStore::open(options.clone()).await.err();
    assert!(matches!(&refused, Some(Error::Unavailable(why)) if why.contains("permission denied")), "{refused:?}");

    root.disable().await.unwrap();
    committed(write("off").await.unwrap());
    answers.wait_for(|answers| *answers).await.unwrap();
    assert_eq!(next(&mut watch).await, "/a=off", "what was denied is not stored");

    root.enable().await.unwrap();
    assert!(write("denied").await.is_err());
    root.add_user_of("karmada", &[("/registry/", "/registry0"), ("compact_rev_key", "")]).await.unwrap();
    committed(write("allowed").await.unwrap());
    assert_eq!(next(&mut watch).await, "/a=allowed");
    answers.wait_for(|answers| *answers).await.unwrap();
    let another = EtcdStore::open(options).await.unwrap();
    assert_eq!(another.get("/a".into(), None).await.unwrap().unwrap().value, "allowed");
}
