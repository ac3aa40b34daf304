//! Reads and watches. A read runs on a separate connection, off the async threads, and never waits for a writer. It
//! sees the newest visible revision, even if the file already has later ones.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use rusqlite::Connection;

use super::connection::{self, Role};
use super::database::{self, Fault, Ranged};
use super::{Inner, Shared, schema};
use crate::feed::{BATCH_CHANGES, Cursor, Next};
use crate::{
    Change, Damage, Error, KeyRange, KeyValue, RangeRequest, RangeResponse, Result, Revision, WatchBatch, WatchStream,
};

/// The number of idle connections to keep, at half a megabyte of cache each.
const IDLE_READERS: usize = 2;
/// Rows that are verified on one snapshot.
const VERIFIED: usize = 4096;

impl Inner {
    /// Runs a read on a blocking thread.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let store = Arc::clone(self);
        tokio::task::spawn_blocking(move || read(&store)).await.unwrap_or(Err(Error::Closed))
    }

    pub(super) fn open_shared<T>(&self, read: impl FnOnce(&mut Shared) -> T) -> Result<T> {
        if self.closed.load(Relaxed) { Err(Error::Closed) } else { Ok(read(&mut self.shared.lock())) }
    }

    pub(super) fn with_reader<T>(&self, read: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T> {
        let idle = self.open_shared(|_| self.readers.lock().pop())?;
        let db = match idle {
            Some(db) => db,
            None => {
                self.opened.check()?;
                connection::connect(&self.path, Role::Reader, None)?
            }
        };
        let result = read(&db).map_err(|fault| self.noted(database::failed(&self.path)(fault)));
        let mut readers = self.readers.lock();
        if readers.len() < IDLE_READERS && !self.closed.load(Relaxed) {
            readers.push(db);
        }
        result
    }

    /// Remembers damage that an error reports.
    pub(super) fn noted(&self, error: Error) -> Error {
        if let Error::Damaged(damage) = &error {
            self.found.note(damage);
        }
        error
    }

    /// Runs a check on one snapshot of the file; damage of the file as a whole is recorded.
    pub(super) fn scan<T>(&self, check: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T> {
        self.with_reader(|db| {
            let snapshot = db.unchecked_transaction()?;
            check(&snapshot).inspect_err(|fault| {
                if let Fault::Broken(why) = fault {
                    let place = format!("{}: {why}", self.path.display());
                    self.found.note(&Damage::new(Bytes::new(), place));
                }
            })
        })
    }

    /// The revision that a read of `requested` means, if it is readable.
    pub(super) fn readable(&self, requested: Option<Revision>) -> Result<Revision> {
        let (newest, oldest) = self.open_shared(|shared| (shared.revision, shared.oldest))?;
        match requested {
            None => Ok(newest),
            Some(requested) if requested < oldest => Err(Error::Compacted { requested, oldest }),
            Some(requested) if requested > newest => Err(Error::FutureRevision { requested, newest }),
            Some(requested) => Ok(requested),
        }
    }

    /// Reads as of a revision. A concurrent compaction may remove rows; then the result is discarded, and a read of the
    /// newest state is repeated.
    fn read_at<T>(
        &self,
        requested: Option<Revision>,
        read: impl Fn(&Connection, Revision) -> Result<T, Fault>,
    ) -> Result<T> {
        loop {
            let revision = self.readable(requested)?;
            let result = self.with_reader(|db| read(db, revision))?;
            let oldest = self.open_shared(|shared| shared.oldest)?;
            if revision >= oldest {
                return Ok(result);
            }
        }
    }

    pub(super) fn get(&self, key: &Bytes, revision: Option<Revision>) -> Result<Option<KeyValue>> {
        self.read_at(revision, |db, revision| database::get(db, key, revision))
    }

    pub(super) fn range(&self, request: &RangeRequest) -> Result<RangeResponse> {
        let (response, damaged) = self.salvage(request)?;
        damaged.into_iter().next().map_or(Ok(response), |damage| Err(Error::Damaged(damage)))
    }

    pub(super) fn salvage(&self, request: &RangeRequest) -> Result<(RangeResponse, Vec<Damage>)> {
        self.read_at(request.revision, |db, revision| {
            // One snapshot for the index and the values.
            let snapshot = db.unchecked_transaction()?;
            let Ranged { items, count, damaged } = database::range(&snapshot, &request.range, revision, request.limit)?;
            damaged.iter().for_each(|damage| self.found.note(damage));
            // The state read is the newest one's, even if more has been written meanwhile.
            let now = if request.revision.is_none() { revision } else { self.shared.lock().revision };
            Ok((RangeResponse { items, count, revision: now }, damaged))
        })
    }

    pub(super) fn shares(&self, range: KeyRange, parts: usize) -> Result<Vec<KeyRange>> {
        let bounds = self.with_reader(|db| database::bounds(db, &range, parts))?;
        let starts = std::iter::once(range.start).chain(bounds.iter().cloned());
        let ends = bounds.iter().cloned().chain([range.end]);
        Ok(starts.zip(ends).map(|(start, end)| KeyRange { start, end }).collect())
    }

    /// The changes after `position` and the revision up to which they are complete.
    fn changes_after(&self, range: &KeyRange, position: Revision) -> Result<(Vec<(Revision, Change)>, Revision)> {
        let newest = self.open_shared(|shared| shared.revision)?;
        let found = self.with_reader(|db| {
            let snapshot = db.unchecked_transaction()?;
            database::changes(&snapshot, range, (position, newest), BATCH_CHANGES)
        });
        // Compacted history appears as a gap.
        if position < self.open_shared(|shared| shared.oldest)? { Err(Error::SlowWatcher) } else { found }
    }

    /// Everything that a scrub verifies, at one moment.
    pub(super) fn verify(&self) -> Result<()> {
        self.feed.verify().map_err(|message| Error::Failed(message.into()))?;
        let mut position = Some(i64::MIN);
        while let Some(after) = position {
            let (next, damaged) = self.scan(|db| database::verify_rows(db, after, VERIFIED))?;
            if let Some(damage) = damaged.into_iter().next() {
                return Err(Error::Damaged(damage));
            }
            position = next;
        }
        let revision = self.open_shared(|shared| shared.revision)?;
        let proved = self.scan(|db| {
            database::check_pages(db)?;
            schema::prove(db)
        })?;
        if proved.revision < revision {
            let why = format!("{}: revision {} is the newest, not {revision}", self.path.display(), proved.revision);
            return Err(Error::Failed(why.into()));
        }
        Ok(())
    }
}

struct Watch {
    store: Weak<Inner>,
    range: KeyRange,
    cursor: Cursor,
}

impl Watch {
    async fn next(&mut self) -> Result<WatchBatch> {
        loop {
            match std::future::poll_fn(|context| self.cursor.poll_next(context)).await {
                Next::Batch(batch) => return Ok(batch),
                Next::Closed(error) => return Err(error),
                Next::Lagging(position) => {
                    let store = self.store.upgrade().ok_or(Error::Closed)?;
                    let range = self.range.clone();
                    let (changes, revision) = store.read(move |store| store.changes_after(&range, position)).await?;
                    self.cursor.skip_to(revision);
                    if !changes.is_empty() {
                        return Ok(WatchBatch { revision, changes });
                    }
                }
            }
        }
    }
}

pub(super) fn watch(store: &Arc<Inner>, range: KeyRange, after: Revision) -> Result<WatchStream> {
    let oldest = store.open_shared(|shared| shared.oldest)?;
    if after < oldest {
        return Err(Error::Compacted { requested: after, oldest });
    }
    let cursor = Cursor::new(&store.feed, range.clone(), after);
    let watch = Watch { store: Arc::downgrade(store), range, cursor };
    Ok(Box::pin(futures::stream::unfold(Some(watch), async |watch| {
        let mut watch = watch?;
        let next = watch.next().await;
        let go_on = next.is_ok();
        Some((next, go_on.then_some(watch)))
    })))
}
