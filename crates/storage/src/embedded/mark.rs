//! The mark of acknowledged commits (`store.mark`), beside the database and its log.
//!
//! The log alone does not distinguish a commit that was acknowledged and then lost from one that never existed. The
//! mark does: it is written after each commit is durable and before it is acknowledged, without a sync, which follows
//! within a second. After a crash of the process it therefore names the last acknowledged commit; after a power
//! failure, one that is at most a second older. It also names the store, so that a file of another store is detected.
//!
//! Two slots are written in turn, so that a write torn by a power failure leaves the previous one intact.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crate::Revision;

const MAGIC: &[u8; 4] = b"kmrk";
const SLOT: usize = 56;
/// Slots lie in different pages, so that no write touches both.
const SLOTS: [u64; 2] = [0, 4096];
const LENGTH: u64 = 4096 + SLOT as u64;

/// The end of the log may be torn over several commits: they are not synced at present, or parts of one that failed lie
/// behind them.
const UNSYNCED: u64 = 1;
/// The database is being created: it may be missing.
const CREATING: u64 = 2;

/// The acknowledged state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Acknowledged {
    pub revision: Revision,
    /// The digest of all changes up to and including that revision.
    pub digest: u64,
    /// Commits of the store's own bookkeeping.
    pub asides: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub store: i64,
    pub acknowledged: Acknowledged,
    pub unsynced: bool,
    pub creating: bool,
}

/// The open file.
#[derive(Debug)]
pub(super) struct Mark {
    file: File,
    sequence: u64,
    content: Content,
}

/// The content found in place of a mark.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Missing,
    Unreadable,
    Readable(Content),
}

impl Found {
    pub fn content(&self) -> Option<Content> {
        match self {
            Self::Readable(content) => Some(*content),
            Self::Missing | Self::Unreadable => None,
        }
    }
}

pub(super) fn read(path: &Path) -> io::Result<Found> {
    match fs::read(path) {
        Ok(bytes) => Ok(newest(&bytes).map_or(Found::Unreadable, |(_, content)| Found::Readable(content))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Missing),
        Err(error) => Err(error),
    }
}

impl Mark {
    /// Writes and syncs `content`; creates the file if it is absent.
    pub fn write(path: &Path, content: Content) -> io::Result<Self> {
        if let Some((sequence, _)) = fs::read(path).ok().as_deref().and_then(newest) {
            let file = OpenOptions::new().read(true).write(true).open(path)?;
            let mut mark = Self { file, sequence, content };
            mark.put()?;
            mark.file.sync_data()?;
            return Ok(mark);
        }
        // Whole or not at all.
        let staged = path.with_extension("mark.new");
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(&staged)?;
        // Written, not only extended: later writes need no space.
        file.write_all_at(&vec![0; LENGTH as usize], 0)?;
        let mut mark = Self { file, sequence: 0, content };
        mark.put()?;
        mark.file.sync_all()?;
        fs::rename(&staged, path)?;
        path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())?;
        Ok(mark)
    }

    pub fn content(&self) -> Content {
        self.content
    }

    /// Records the next acknowledged commit. A sync follows later.
    pub fn acknowledge(&mut self, acknowledged: Acknowledged) -> io::Result<()> {
        self.content.acknowledged = acknowledged;
        self.put()
    }

    /// Notes, durably, whether the end of the log may be torn over several commits.
    pub fn set_unsynced(&mut self, unsynced: bool) -> io::Result<()> {
        let before = std::mem::replace(&mut self.content.unsynced, unsynced);
        let noted = self.put().and_then(|()| self.file.sync_data());
        noted.inspect_err(|_| self.content.unsynced = before)
    }

    /// Notes, durably, that the database exists.
    pub fn created(&mut self) -> io::Result<()> {
        self.content.creating = false;
        self.put()?;
        self.file.sync_data()
    }

    /// Another handle of the file, to sync it while it is written.
    pub fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// A write that fails may have torn its slot. The next one takes the same, so that the other stays whole.
    fn put(&mut self) -> io::Result<()> {
        let sequence = self.sequence + 1;
        let slot = SLOTS[usize::from(sequence % 2 == 1)];
        self.file.write_all_at(&encode(sequence, &self.content), slot)?;
        self.sequence = sequence;
        Ok(())
    }
}

fn encode(sequence: u64, content: &Content) -> [u8; SLOT] {
    let Acknowledged { revision, digest, asides } = content.acknowledged;
    let flags = if content.unsynced { UNSYNCED } else { 0 } | if content.creating { CREATING } else { 0 };
    let mut slot = [0; SLOT];
    slot[..4].copy_from_slice(MAGIC);
    let words = [sequence, content.store.cast_unsigned(), revision, digest, asides, flags];
    for (place, word) in slot[8..].chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let sum = crc32fast::hash(&slot[8..]);
    slot[4..8].copy_from_slice(&sum.to_le_bytes());
    slot
}

fn newest(bytes: &[u8]) -> Option<(u64, Content)> {
    let slots = SLOTS.iter().filter_map(|at| decode(bytes.get(*at as usize..*at as usize + SLOT)?));
    slots.max_by_key(|(sequence, _)| *sequence)
}

fn decode(slot: &[u8]) -> Option<(u64, Content)> {
    let (head, body) = slot.split_at_checked(8)?;
    if head[..4] != MAGIC[..] || head[4..] != crc32fast::hash(body).to_le_bytes() {
        return None;
    }
    let mut words = body.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
    let mut next = || words.next();
    let (sequence, store) = (next()?, next()?.cast_signed());
    let acknowledged = Acknowledged { revision: next()?, digest: next()?, asides: next()? };
    let flags = next()?;
    let content = Content { store, acknowledged, unsynced: flags & UNSYNCED != 0, creating: flags & CREATING != 0 };
    Some((sequence, content))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(revision: Revision) -> Content {
        let acknowledged = Acknowledged { revision, digest: 77, asides: 3 };
        Content { store: -9, acknowledged, unsynced: false, creating: false }
    }

    #[test]
    fn a_torn_slot_leaves_the_one_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.mark");
        assert_eq!(read(&path).unwrap(), Found::Missing);
        let mut mark = Mark::write(&path, content(1)).unwrap();
        mark.acknowledge(content(2).acknowledged).unwrap();
        mark.acknowledge(content(3).acknowledged).unwrap();
        assert_eq!(read(&path).unwrap(), Found::Readable(content(3)));
        let whole = fs::read(&path).unwrap();
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let (_, found) = newest(&damaged).unwrap();
            assert!([content(2), content(3)].contains(&found), "bit {bit}: {found:?}");
        }
        for damaged in [vec![], vec![0; whole.len()], whole[..10].to_vec()] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(read(&path).unwrap(), Found::Unreadable);
        }
        fs::write(&path, &whole).unwrap();
        let mut mark = Mark::write(&path, content(9)).unwrap();
        mark.set_unsynced(true).unwrap();
        assert_eq!(read(&path).unwrap(), Found::Readable(Content { unsynced: true, ..content(9) }));
    }

    #[test]
    fn a_write_that_fails_is_repeated_in_the_same_slot() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.mark");
        let mut mark = Mark::write(&path, content(1)).unwrap();
        mark.acknowledge(content(2).acknowledged).unwrap();
        let writable = std::mem::replace(&mut mark.file, File::open(&path).unwrap());
        mark.acknowledge(content(3).acknowledged).unwrap_err();
        mark.set_unsynced(true).unwrap_err();
        assert!(!mark.content().unsynced, "it is not noted");
        mark.file = writable;
        mark.acknowledge(content(4).acknowledged).unwrap();
        // Pages that the failed writes may have torn are whole again, and the slot of revision 2 is unchanged.
        let slots = fs::read(&path).unwrap();
        let revisions =
            SLOTS.map(|at| decode(&slots[at as usize..at as usize + SLOT]).unwrap().1.acknowledged.revision);
        assert_eq!(revisions, [2, 4]);
    }
}
