//! Directories with files other than the store's own: of another time, of another store, links, garbage.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use storage::Error;

use crate::damage::{Outcome, killed, outcome};
use crate::image::{Image, opened};

#[tokio::test]
async fn older_files_and_those_of_other_stores_are_detected() {
    let (own, written) = killed().await;
    // The same content, written by another store.
    let (other, _) = killed().await;
    // An earlier state of the own files: before the log was moved into the main file for the last time.
    let dir = tempfile::tempdir().unwrap();
    own.write(dir.path());
    let earlier = own.clone();
    let store = opened(dir.path()).await.unwrap();
    let mut now = written.clone();
    now.put(&store, "/newest").await;
    let later = Image::of(dir.path());
    drop(store);
    let of = |database: &Image, log: &Image, mark: &Image| {
        let mut image = database.clone();
        *image.file_mut("store.sqlite-wal") = log.file("store.sqlite-wal").clone();
        *image.file_mut("store.mark") = mark.file("store.mark").clone();
        image
    };
    use Outcome::{Refused, Whole};
    for (what, image, expected) in [
        ("as it was left", of(&later, &later, &later), Whole),
        ("the mark is old", of(&later, &later, &earlier), Whole),
        ("the log is old", of(&later, &earlier, &later), Refused),
        ("the database is old", of(&earlier, &later, &later), Refused),
        ("all but the mark is old", of(&earlier, &earlier, &later), Refused),
        ("the database is another store's", of(&other, &later, &later), Refused),
        ("the log is another store's", of(&later, &other, &later), Refused),
        ("the mark is another store's", of(&later, &later, &other), Refused),
        ("the mark alone is its own", of(&other, &other, &later), Refused),
    ] {
        assert_eq!(outcome(&image, &now, what).await, expected, "{what}");
    }
}

/// Replaces a file. `image` is the content of the directory.
type Change = fn(&Path, &Image);

#[tokio::test]
async fn links_are_refused_and_garbage_without_meaning_is_not() {
    let (image, written) = killed().await;
    let linked = |dir: &Path, name: &str| {
        fs::rename(dir.join(name), dir.join("elsewhere")).unwrap();
        symlink(dir.join("elsewhere"), dir.join(name)).unwrap();
    };
    let changes: [(&str, Change, Option<&str>); 7] = [
        ("a hard link beside it", |dir, _| fs::hard_link(dir.join("store.sqlite"), dir.join("copy")).unwrap(), None),
        (
            "garbage for an index of the log",
            |dir, _| fs::write(dir.join("store.sqlite-shm"), [0xa5; 40_000]).unwrap(),
            None,
        ),
        (
            "the log as an index of the log",
            |dir, image| {
                fs::write(dir.join("store.sqlite-shm"), image.file("store.sqlite-wal")).unwrap();
            },
            None,
        ),
        ("a mark that was never finished", |dir, _| fs::write(dir.join("store.mark.new"), [0; 100]).unwrap(), None),
        (
            "a directory in place of the mark",
            |dir, _| {
                fs::remove_file(dir.join("store.mark")).unwrap();
                fs::create_dir(dir.join("store.mark")).unwrap();
            },
            Some("store.mark"),
        ),
        (
            "a directory in place of the log",
            |dir, _| {
                fs::remove_file(dir.join("store.sqlite-wal")).unwrap();
                fs::create_dir(dir.join("store.sqlite-wal")).unwrap();
            },
            Some("store.sqlite-wal"),
        ),
        (
            "a database without content",
            |dir, _| fs::write(dir.join("store.sqlite"), "").unwrap(),
            Some("is missing or empty"),
        ),
    ];
    let refused = async |dir: &Path, what: &str, why: &str| match opened(dir).await {
        Err(Error::Failed(message)) => assert!(message.contains(why), "{what}: {message}"),
        other => panic!("{what}: {other:?}"),
    };
    for (what, change, why) in changes {
        let dir = tempfile::tempdir().unwrap();
        image.write(dir.path());
        change(dir.path(), &image);
        match why {
            Some(why) => refused(dir.path(), what, why).await,
            None => {
                let store = opened(dir.path()).await.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert!(!written.check(&store, what).await, "{what}");
                store.close().await.unwrap();
            }
        }
    }
    for name in ["store.sqlite", "store.sqlite-wal", "store.mark"] {
        let dir = tempfile::tempdir().unwrap();
        image.write(dir.path());
        linked(dir.path(), name);
        refused(dir.path(), name, "is a symbolic link").await;
        assert_eq!(Image::of(dir.path()).file(name), image.file(name), "{name} is left as it was");
    }
    // The directory itself may be one.
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("disk")).unwrap();
    image.write(&root.path().join("disk"));
    symlink(root.path().join("disk"), root.path().join("store")).unwrap();
    assert!(!written.check(&opened(&root.path().join("store")).await.unwrap(), "a linked directory").await);
}
