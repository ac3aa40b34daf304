//! The format of a backup: a magic number, then blocks. A block is a tag, the length of its payload, the payload, and
//! the CRC-32 of the whole file up to there; so the last block covers the whole file, and damage is found in its block.
//! Numbers are little-endian.
//!
//! The blocks are, in order: the header, leases, attached files, rows in the order of their identifiers, the end. A row
//! has the checksum that the store computed when it was written.

use std::time::{Duration, SystemTime};

use super::super::breaks::{Break, BreakKind};
use super::super::checksum::Entry;
use super::Header;

/// The last byte is the version of the format.
pub(super) const MAGIC: [u8; 16] = *b"karmada-backup\0\x01";

/// A block holds a piece of [`super::take`], which may end with an object of the largest size (4 MiB), or an attached file.
pub(super) const MAX_BLOCK: usize = 16 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    Header = 1,
    Leases = 2,
    File = 3,
    Rows = 4,
    End = 5,
    /// Instead of the end: why the backup was not completed.
    Aborted = 6,
}

impl Tag {
    pub fn of(byte: u8) -> Option<Self> {
        [Self::Header, Self::Leases, Self::File, Self::Rows, Self::End, Self::Aborted]
            .into_iter()
            .find(|tag| *tag as u8 == byte)
    }
}

/// Writes blocks and sums up their content.
pub(super) struct Encoder {
    sum: crc32fast::Hasher,
}

impl Encoder {
    pub fn begin(out: &mut Vec<u8>) -> Self {
        let mut sum = crc32fast::Hasher::new();
        sum.update(&MAGIC);
        out.extend(MAGIC);
        Self { sum }
    }

    pub fn block(&mut self, tag: Tag, payload: &[u8], out: &mut Vec<u8>) {
        let begin = out.len();
        out.push(tag as u8);
        out.extend((payload.len() as u32).to_le_bytes());
        out.extend(payload);
        self.sum.update(&out[begin..]);
        let sum = self.sum.clone().finalize().to_le_bytes();
        self.sum.update(&sum);
        out.extend(sum);
    }
}

pub(super) fn put_word(out: &mut Vec<u8>, word: u64) {
    out.extend(word.to_le_bytes());
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}

/// A payload that is read from its beginning.
pub(super) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn word(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_le_bytes(self.take(4)?.try_into().ok()?);
        self.take(length as usize)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn seconds(when: SystemTime) -> u64 {
    when.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn moment(seconds: u64) -> SystemTime {
    // More than any clock shows; an addition beyond the range of times would panic.
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.min(1 << 40))
}

pub(super) fn encode_header(header: &Header) -> Vec<u8> {
    let mut out = Vec::new();
    let words = [header.store.cast_unsigned(), header.revision, seconds(header.when), header.last_lease];
    words.into_iter().for_each(|word| put_word(&mut out, word));
    for lost in &header.breaks {
        let kind = u64::from(lost.kind == BreakKind::AcceptedLoss);
        let words = [lost.before, lost.after, lost.when.map_or(0, seconds), kind];
        words.into_iter().for_each(|word| put_word(&mut out, word));
    }
    out
}

pub(super) fn decode_header(payload: &[u8]) -> Option<Header> {
    let mut fields = Fields(payload);
    let (store, revision) = (fields.word()?.cast_signed(), fields.word()?);
    let (when, last_lease) = (moment(fields.word()?), fields.word()?);
    let mut breaks = Vec::new();
    while !fields.is_empty() {
        let (before, after) = (fields.word()?, fields.word()?);
        let when = Some(fields.word()?).filter(|seconds| *seconds > 0).map(moment);
        let kind = if fields.word()? == 0 { BreakKind::Restored } else { BreakKind::AcceptedLoss };
        breaks.push(Break { before, after, when, kind });
    }
    Some(Header { store, revision, when, last_lease, breaks })
}

/// A row with its value, and the digest that its checksum covers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    pub entry: Entry<'a>,
    pub before: u64,
    pub value: &'a [u8],
}

impl<'a> Row<'a> {
    pub fn encode(&self, out: &mut Vec<u8>) {
        let Entry { id, key, create_revision, lease } = self.entry;
        let words = [id, create_revision, i64::from(lease.is_some()), lease.unwrap_or_default()];
        words.into_iter().for_each(|word| put_word(out, word.cast_unsigned()));
        put_word(out, self.before);
        put_word(out, self.entry.checksum(self.before, Some(self.value)).cast_unsigned());
        put_bytes(out, key);
        put_bytes(out, self.value);
    }

    /// `None` if it is not a row, or not as it was written.
    pub fn decode(fields: &mut Fields<'a>) -> Option<Self> {
        let (id, create_revision) = (fields.word()?.cast_signed(), fields.word()?.cast_signed());
        let (leased, lease) = (fields.word()?, fields.word()?.cast_signed());
        let (before, checksum) = (fields.word()?, fields.word()?.cast_signed());
        let (key, value) = (fields.bytes()?, fields.bytes()?);
        let entry = Entry { id, key, create_revision, lease: (leased == 1).then_some(lease) };
        (create_revision != 0 && entry.checksum(before, Some(value)) == checksum).then_some(Self {
            entry,
            before,
            value,
        })
    }
}
