//! Copies of whole stores.
//!
//! A copy to a directory is created beside it and replaces it atomically. A copy to etcd begins with a key that marks
//! the target as unfinished, which servers refuse; the key is removed once the copy is verified. A repeated copy
//! continues.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use storage::embedded::import::{Import, Imported, import};
use storage::embedded::{EmbeddedStore, Options};
use storage::{
    Change, Error, Guard, KeyRange, KeyValue, LeaseId, Op, RangeRequest, Result, Revision, Store, Txn, TxnOutcome,
};

use crate::installation::UNFINISHED;
use crate::places::Place;
use crate::reading::{Pages, Progress, Sum, compare, digest, is_taken, sum};

/// The key whose writes raise the revision of a target.
const RAISED: &str = "/adoption/raised";
/// Writes of one transaction; etcd takes 128 operations.
const BATCH: usize = 64;
/// Bytes of one transaction; etcd takes 1.5 MiB.
const BATCH_BYTES: usize = 512 << 10;
/// Concurrent writes that raise the revision.
const RAISES: usize = 256;
/// The revisions that a copy raises a target by at most: some minutes of writes.
const MAX_RAISE: Revision = 5_000_000;
/// Seconds that objects with a lease, which are Events, have in the target: as long as a new Event.
const TTL: u32 = 3600;

/// A completed copy.
#[derive(Clone, Debug)]
pub struct Copied {
    /// The common content of both stores.
    pub sum: Sum,
    /// The target continues here.
    pub revision: Revision,
    /// The new path of the store that was in the target's place.
    pub aside: Option<PathBuf>,
}

/// How values are stored in a directory: encrypted, or as they are.
pub struct Target<'t> {
    /// The value to store for a key.
    pub seal: &'t (dyn Fn(&Bytes, Bytes) -> Result<Bytes> + Sync),
    /// The store in the form for callers.
    pub opened: &'t (dyn Fn(Arc<dyn Store>) -> Arc<dyn Store> + Sync),
}

/// Copies a store into a directory. `source` is read as servers read it.
///
/// # Errors
/// The source cannot be read, or is written to meanwhile; the directory is in use; the copy is not the same. The
/// directory is then as it was, except in the last case.
pub async fn into_directory(
    source: &dyn Store,
    dir: &Path,
    place: (bool, String),
    target: &Target<'_>,
    progress: Progress<'_>,
) -> Result<Copied> {
    let revision = source.revision().await?;
    let options = Import { replace: place.0, suffix: place.1, revision, ttl: TTL };
    let (sender, mut receiver) = tokio::sync::mpsc::channel::<Vec<KeyValue>>(4);
    let path = dir.to_owned();
    // The end of the channel is not the end of the objects: the sender may have failed.
    let mut next = move || receiver.blocking_recv().ok_or(Error::Closed);
    let importing = tokio::task::spawn_blocking(move || import(&path, &options, &mut next));
    let sent = send(source, revision, target, &sender, progress).await;
    drop(sender);
    let imported = importing.await.map_err(|_| Error::Closed)?;
    let (expected, Imported { revision, aside, .. }) = match (sent, imported) {
        (Ok(sum), Ok(imported)) => (sum, imported),
        // The importer's error takes precedence: without it, the sender has no receiver.
        (_, Err(error)) if error != Error::Closed => return Err(error),
        (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    let store = EmbeddedStore::open(dir, Options { must_exist: true, ..Options::default() }).await?;
    let opened = (target.opened)(Arc::new(store.clone()));
    let found = sum(&*opened, revision, &mut |_, _| {}).await;
    store.close().await?;
    compare(expected, found?)?;
    Ok(Copied { sum: expected, revision, aside })
}

async fn send(
    source: &dyn Store,
    revision: Revision,
    target: &Target<'_>,
    sender: &tokio::sync::mpsc::Sender<Vec<KeyValue>>,
    progress: Progress<'_>,
) -> Result<Sum> {
    let (mut pages, mut sum) = (Pages::all(source, revision), Sum::default());
    let (mut done, mut total) = (0, 0);
    while let Some((items, count)) = pages.next().await? {
        total = total.max(count as u64);
        done += items.len() as u64;
        let mut taken = Vec::with_capacity(items.len());
        for item in items.into_iter().filter(is_taken) {
            if item.lease.is_none() {
                sum.add(&item);
            }
            let value = (target.seal)(&item.key, item.value)?;
            taken.push(KeyValue { value, ..item });
        }
        if !taken.is_empty() {
            sender.send(taken).await.map_err(|_| Error::Closed)?;
        }
        progress(done, total);
    }
    unchanged(source, revision).await?;
    sender.send(Vec::new()).await.map_err(|_| Error::Closed)?;
    Ok(sum)
}

/// Refuses a source that is being written to. Keys that expire do not count.
async fn unchanged(source: &dyn Store, since: Revision) -> Result<()> {
    let now = source.revision().await?;
    if now == since {
        return Ok(());
    }
    let mut watch = source.watch(KeyRange { start: Bytes::new(), end: Bytes::new() }, since).await?;
    source.request_progress().await?;
    while let Some(batch) = watch.next().await.transpose()? {
        let written = batch.changes.iter().find_map(|(_, change)| match change {
            Change::Put { current, .. } if !matches!(Place::of(&current.key), Place::Own | Place::Unused(..)) => {
                Some(String::from_utf8_lossy(&current.key).into_owned())
            }
            _ => None,
        });
        if let Some(key) = written {
            let why =
                format!("{key} was written during the copy: stop all servers and components of the source, and repeat");
            return Err(Error::Failed(why.into()));
        }
        if batch.revision >= now {
            break;
        }
    }
    Ok(())
}

/// Copies a store to an empty one, or continues a copy of the same content. `source` and `target` are in the form for
/// servers.
///
/// # Errors
/// If the target contains other objects; if one of the stores cannot be read or written; if the copy differs. The
/// target then stays marked as unfinished.
pub async fn into_store(source: &dyn Store, target: &dyn Store, progress: Progress<'_>) -> Result<Copied> {
    let revision = source.revision().await?;
    let expected = sum(source, revision, progress).await?;
    let present = match begin(target, &mark(&expected, revision)).await? {
        CopyStart::New => HashMap::new(),
        CopyStart::Continued => digests(target).await?,
    };
    raise(target, revision, progress).await?;
    write(source, revision, target, &present, progress).await?;
    let now = target.revision().await?;
    compare(expected, sum(target, now, &mut |_, _| {}).await?)?;
    unchanged(source, revision).await?;
    let ops = [UNFINISHED, RAISED].map(|key| Op::Delete { key: Bytes::from_static(key.as_bytes()) });
    target.txn(Txn { guards: Vec::new(), ops: ops.into() }).await?;
    Ok(Copied { sum: expected, revision: target.revision().await?, aside: None })
}

/// Checks that a copy could begin.
///
/// # Errors
/// The target holds other objects, or its revision cannot be raised to the source's.
pub async fn check_target(source: &dyn Store, target: &dyn Store) -> Result<()> {
    let revision = source.revision().await?;
    let expected = sum(source, revision, &mut |_, _| {}).await?;
    if target.get(UNFINISHED.into(), None).await?.is_none_or(|it| it.value != mark(&expected, revision)) {
        empty(target).await?;
    }
    distance(target.revision().await?, revision).map(drop)
}

fn mark(sum: &Sum, revision: Revision) -> Bytes {
    format!("a copy of revision {revision}, {sum}").into()
}

enum CopyStart {
    New,
    Continued,
}

async fn begin(target: &dyn Store, mark: &Bytes) -> Result<CopyStart> {
    let key = Bytes::from_static(UNFINISHED.as_bytes());
    match target.get(key.clone(), None).await? {
        Some(found) if found.value == *mark => return Ok(CopyStart::Continued),
        Some(found) => {
            let other = String::from_utf8_lossy(&found.value).into_owned();
            let why = format!("the target holds an unfinished copy of another state ({other}); empty it and repeat");
            return Err(Error::Failed(why.into()));
        }
        None => empty(target).await?,
    }
    let ops = vec![Op::Put { key: key.clone(), value: mark.clone(), lease: None }];
    match target.txn(Txn { guards: vec![Guard::Absent(key)], ops }).await? {
        TxnOutcome::Committed { .. } => Ok(CopyStart::New),
        TxnOutcome::Failed { .. } => Err(Error::Failed("another copy into this target has begun meanwhile".into())),
    }
}

async fn empty(target: &dyn Store) -> Result<()> {
    let range = KeyRange { start: Bytes::new(), end: Bytes::new() };
    let found = target.range(RangeRequest { range, revision: None, limit: 1 }).await?;
    match found.items.first() {
        None => Ok(()),
        Some(item) => {
            let key = String::from_utf8_lossy(&item.key);
            let why =
                format!("the target is not empty: it holds {} keys, such as {key}; choose another prefix", found.count);
            Err(Error::Failed(why.into()))
        }
    }
}

/// The digests of the objects of an unfinished copy.
async fn digests(target: &dyn Store) -> Result<HashMap<Bytes, u128>> {
    let mut pages = Pages::all(target, target.revision().await?);
    let mut digests = HashMap::new();
    while let Some((items, _)) = pages.next().await? {
        digests.extend(items.iter().map(|item| (item.key.clone(), digest(item))));
    }
    Ok(digests)
}

/// The revisions that a target lacks.
fn distance(target: Revision, source: Revision) -> Result<Revision> {
    let missing = source.saturating_sub(target);
    if missing <= MAX_RAISE {
        return Ok(missing);
    }
    let why = format!(
        "the target is at revision {target} and the source at {source}: raise etcd first, with `etcdutl snapshot restore \
         --bump-revision={missing} --mark-compacted` of a snapshot of the target"
    );
    Err(Error::Failed(why.into()))
}

/// Writes until the target is at a revision, so that no client sees a `resourceVersion` of the copy go backwards.
async fn raise(target: &dyn Store, revision: Revision, progress: Progress<'_>) -> Result<()> {
    let missing = distance(target.revision().await?, revision)?;
    let write = |_| {
        let ops = vec![Op::Put { key: RAISED.into(), value: Bytes::new(), lease: None }];
        target.txn(Txn { guards: Vec::new(), ops })
    };
    let mut done = 0;
    let mut writes = futures::stream::iter(0..missing).map(write).buffer_unordered(RAISES);
    while writes.try_next().await?.is_some() {
        done += 1;
        progress(done, missing);
    }
    drop(writes);
    if missing > 0 {
        target.compact(target.revision().await?).await?;
    }
    Ok(())
}

async fn write(
    source: &dyn Store,
    revision: Revision,
    target: &dyn Store,
    present: &HashMap<Bytes, u128>,
    progress: Progress<'_>,
) -> Result<()> {
    let mut pages = Pages::definitions_last(source, revision);
    let mut lease = None;
    let mut done = 0;
    while let Some((items, count)) = pages.next().await? {
        done += items.len() as u64;
        let mut txns: Vec<(usize, Txn)> = Vec::new();
        for item in items.into_iter().filter(is_taken) {
            if present.get(&item.key) == Some(&digest(&item)) {
                continue;
            }
            let lease = match item.lease {
                Some(_) => Some(shared_lease(target, &mut lease).await?),
                None => None,
            };
            let size = item.key.len() + item.value.len();
            let op = Op::Put { key: item.key, value: item.value, lease };
            match txns.last_mut() {
                Some((bytes, txn)) if txn.ops.len() < BATCH && *bytes + size <= BATCH_BYTES => {
                    *bytes += size;
                    txn.ops.push(op);
                }
                _ => txns.push((size, Txn { guards: Vec::new(), ops: vec![op] })),
            }
        }
        for (_, txn) in txns {
            target.txn(txn).await?;
        }
        progress(done, done.max(count as u64));
    }
    Ok(())
}

/// One lease for all objects that expire.
async fn shared_lease(target: &dyn Store, lease: &mut Option<LeaseId>) -> Result<LeaseId> {
    match *lease {
        Some(lease) => Ok(lease),
        None => Ok(*lease.insert(target.grant_lease(TTL.into()).await?)),
    }
}
