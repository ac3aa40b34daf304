//! Takes a backup of a running store.
//!
//! The store has several versions, so no snapshot of the file is needed: history from the backup's revision on is
//! retained ([`Hold`]), and rows are read in pieces, each in a separate read of a few milliseconds. Writers are not
//! blocked, and memory holds one piece. At the end, the rows read are compared with the index of keys.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::super::database::{self, Live};
use super::super::{EmbeddedStore, Inner};
use super::format::{Encoder, Row, Tag, encode_header, put_bytes, put_word};
use super::index::live_entries;
use super::{Attachment, Header};
use crate::{Damage, Error, Result, Revision};

/// Rows of one read: a few milliseconds.
const ROWS: usize = 256;
/// The size of one read, after which the piece ends: memory holds at most this much and one more object.
const BYTES: usize = 1 << 20;
/// Keys of the index that are compared at once.
const KEYS: usize = 4096;

impl Inner {
    /// History is not compacted beyond the present revision while the hold lasts.
    fn hold(self: &Arc<Self>, leases: &mut Vec<(u64, u64)>) -> Result<Hold> {
        let revision = self.open_shared(|shared| {
            leases.extend(shared.leases.all().map(|(id, ttl)| (id.0, ttl.as_secs())));
            *shared.holds.entry(shared.revision).or_default() += 1;
            shared.revision
        })?;
        Ok(Hold { store: Arc::clone(self), revision })
    }
}

/// Retains history from `revision` on.
struct Hold {
    store: Arc<Inner>,
    revision: Revision,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut shared = self.store.shared.lock();
        if let Some(count) = shared.holds.get_mut(&self.revision) {
            *count -= 1;
            if *count == 0 {
                shared.holds.remove(&self.revision);
            }
        }
    }
}

enum Step {
    Begin {
        leases: Vec<(u64, u64)>,
        files: Vec<Attachment>,
    },
    /// Rows after this one.
    Rows(i64),
    /// Keys of the index from this one on.
    Index(Vec<u8>),
    Done,
}

/// The digest of the rows and of the index read so far.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    rows: u64,
    digest: u64,
}

impl Sum {
    fn add(&mut self, digest: u64) {
        self.rows += 1;
        self.digest = self.digest.wrapping_add(digest);
    }
}

/// A backup that is being taken. It is read piece by piece; a backup without its last piece is recognized as cut off.
pub struct Backup {
    hold: Hold,
    header: Header,
    encoder: Option<Encoder>,
    step: Step,
    rows: Sum,
    index: Sum,
    bytes: u64,
}

impl EmbeddedStore {
    /// Begins a backup of the present revision. `files` go with it.
    ///
    /// # Errors
    /// `Closed`, or the store cannot be read.
    pub fn backup(&self, when: SystemTime, files: Vec<Attachment>) -> Result<Backup> {
        let mut leases = Vec::new();
        let hold = self.0.hold(&mut leases)?;
        let last_lease = self.0.open_shared(|shared| shared.leases.next_id().0 - 1)?;
        let header =
            Header { store: self.0.store, revision: hold.revision, when, last_lease, breaks: self.0.breaks.clone() };
        let step = Step::Begin { leases, files };
        Ok(Backup { hold, header, encoder: None, step, rows: Sum::default(), index: Sum::default(), bytes: 0 })
    }
}

impl Backup {
    /// The header, which is known before the first part is read.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Objects read so far.
    pub fn objects(&self) -> u64 {
        self.rows.rows
    }

    /// The next piece; `None` after the last.
    ///
    /// # Errors
    /// `Damaged` if a row is damaged: a restored backup without it would present the object as deleted. `Compacted` if
    /// the reader was so slow that history could not be retained.
    pub fn piece(&mut self) -> BoxFuture<'_, Result<Option<Bytes>>> {
        async move {
            loop {
                let mut out = Vec::new();
                self.advance(&mut out).await?;
                if !out.is_empty() {
                    return Ok(Some(out.into()));
                }
                if matches!(self.step, Step::Done) {
                    return Ok(None);
                }
            }
        }
        .boxed()
    }

    /// The end of a backup that cannot be completed, with the reason for its reader.
    pub fn abort(&mut self, why: &str) -> Bytes {
        let mut out = Vec::new();
        let mut encoder = self.encoder.take().unwrap_or_else(|| {
            let mut encoder = Encoder::begin(&mut out);
            encoder.block(Tag::Header, &encode_header(&self.header), &mut out);
            encoder
        });
        encoder.block(Tag::Aborted, why.as_bytes(), &mut out);
        self.step = Step::Done;
        out.into()
    }

    async fn advance(&mut self, out: &mut Vec<u8>) -> Result<()> {
        match std::mem::replace(&mut self.step, Step::Done) {
            Step::Begin { leases, files } => {
                let mut encoder = Encoder::begin(out);
                encoder.block(Tag::Header, &encode_header(&self.header), out);
                let mut payload = Vec::new();
                leases.into_iter().flat_map(|(id, ttl)| [id, ttl]).for_each(|word| put_word(&mut payload, word));
                encoder.block(Tag::Leases, &payload, out);
                for Attachment { name, content } in files {
                    payload.clear();
                    put_bytes(&mut payload, name.as_bytes());
                    put_bytes(&mut payload, &content);
                    encoder.block(Tag::File, &payload, out);
                }
                self.encoder = Some(encoder);
                self.step = Step::Rows(i64::MIN);
            }
            Step::Rows(after) => {
                let revision = self.hold.revision;
                let Live { rows, last } =
                    self.read(move |db| database::live(db, after, revision, (ROWS, BYTES))).await?;
                self.append(rows, out);
                self.step = last.map_or(Step::Index(Vec::new()), Step::Rows);
            }
            Step::Index(key) => {
                let revision = self.hold.revision;
                let entries = self.read(move |db| live_entries(db, &key, revision, KEYS)).await?;
                entries.digests.iter().for_each(|digest| self.index.add(*digest));
                match entries.next {
                    Some(next) => self.step = Step::Index(next),
                    None => self.finish(out)?,
                }
            }
            Step::Done => {}
        }
        Ok(())
    }

    fn append(&mut self, rows: Vec<database::Stored>, out: &mut Vec<u8>) {
        let mut payload = Vec::new();
        for stored in &rows {
            let (entry, value) = (stored.entry(), stored.value());
            Row { entry, before: stored.before(), value }.encode(&mut payload);
            self.rows.add(entry.digest());
            self.bytes += (entry.key.len() + value.len()) as u64;
        }
        if let Some(encoder) = self.encoder.as_mut().filter(|_| !rows.is_empty()) {
            encoder.block(Tag::Rows, &payload, out);
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<()> {
        if self.rows != self.index {
            let place = format!(
                "{}: the table of changes and the index of keys disagree ({} and {} objects)",
                self.hold.store.path.display(),
                self.rows.rows,
                self.index.rows
            );
            return Err(self.hold.store.noted(Error::Damaged(Damage::new(Bytes::new(), place))));
        }
        let mut payload = Vec::new();
        for word in [self.rows.rows, self.rows.digest, self.bytes] {
            put_word(&mut payload, word);
        }
        if let Some(encoder) = &mut self.encoder {
            encoder.block(Tag::End, &payload, out);
        }
        Ok(())
    }

    /// Reads on a separate snapshot; afterwards the history must still be retained.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&rusqlite::Connection) -> Result<T, database::Fault> + Send + 'static,
    ) -> Result<T> {
        let revision = self.hold.revision;
        let found = self.hold.store.read(move |store| {
            store.with_reader(|db| {
                let snapshot = db.unchecked_transaction()?;
                read(&snapshot)
            })
        });
        let found = found.await?;
        self.hold.store.readable(Some(revision))?;
        Ok(found)
    }
}
