//! Reads a backup and verifies everything in it.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

use super::super::checksum::revision_of;
use super::format::{Fields, MAGIC, MAX_BLOCK, Row, Tag, decode_header};
use super::{Attachment, Contents, Header, cannot};
use crate::{Error, Result};

/// All attached files together.
pub const MAX_FILES_BYTES: usize = 16 << 20;

/// A part of a backup, in the order of the file.
pub(super) enum Part<'a> {
    Lease { id: i64, ttl: i64 },
    Row(Row<'a>),
}

/// Verifies a backup: the checksums of the file and of every row, and completeness. `progress` receives the bytes read
/// and the length.
///
/// # Errors
/// The position of the first damage.
pub fn verify_backup(path: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Contents> {
    scan(path, progress, &mut |_| Ok(()))
}

/// Reads the file and hands each verified part to `visit`. A block is verified before any of it is handed on; whether the
/// backup is complete is known at the end only.
pub(super) fn scan(
    path: &Path,
    progress: &mut dyn FnMut(u64, u64),
    visit: &mut dyn FnMut(Part<'_>) -> Result<()>,
) -> Result<Contents> {
    let file = File::open(path).map_err(cannot("open the backup", path))?;
    let length = file.metadata().map_err(cannot("read the backup", path))?.len();
    let mut blocks =
        Blocks { path, file: BufReader::with_capacity(1 << 20, file), sum: crc32fast::Hasher::new(), at: 0 };
    blocks.magic()?;
    let mut scanned = Scanned::default();
    while !scanned.ended {
        let begin = blocks.at;
        let (tag, payload) = blocks.next()?;
        if let Err(refusal) = scanned.take(tag, &payload, visit) {
            return Err(match refusal {
                Refusal::Damaged(why) => blocks.damaged(begin, &why),
                Refusal::Visitor(error) => error,
                Refusal::Aborted(why) => {
                    Error::Failed(format!("the backup {} was not completed: {why}", path.display()).into())
                }
            });
        }
        progress(blocks.at, length);
    }
    if blocks.at != length {
        return Err(blocks.damaged(blocks.at, "something follows the end of the backup"));
    }
    let Scanned { header, objects, bytes, leases, files, .. } = scanned;
    let header = header.ok_or_else(|| blocks.damaged(0, "the header is missing"))?;
    Ok(Contents { header, objects, bytes, leases, files, length })
}

/// The blocks of a file, each with the sum of all before it.
struct Blocks<'p> {
    path: &'p Path,
    file: BufReader<File>,
    sum: crc32fast::Hasher,
    at: u64,
}

impl Blocks<'_> {
    fn damaged(&self, at: u64, why: &str) -> Error {
        Error::Failed(format!("the backup {} is damaged at byte {at}: {why}", self.path.display()).into())
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.file.read_exact(bytes).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => {
                let why = "the file ends here: it is cut off, or was not written to its end";
                self.damaged(self.at, why)
            }
            _ => cannot("read the backup", self.path)(error),
        })?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn magic(&mut self) -> Result<()> {
        let mut found = MAGIC;
        self.fill(&mut found)?;
        if found[..15] != MAGIC[..15] {
            return Err(Error::Failed(format!("{} is not a backup of a Karmada store", self.path.display()).into()));
        }
        if found != MAGIC {
            let why = format!("{}: format {} of backups is not known", self.path.display(), found[15]);
            return Err(Error::Failed(why.into()));
        }
        self.sum.update(&found);
        Ok(())
    }

    fn next(&mut self) -> Result<(Tag, Vec<u8>)> {
        let begin = self.at;
        let mut head = [0; 5];
        self.fill(&mut head)?;
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let tag = Tag::of(head[0]).filter(|_| length <= MAX_BLOCK);
        let tag = tag.ok_or_else(|| self.damaged(begin, "no block begins here"))?;
        let mut payload = vec![0; length];
        self.fill(&mut payload)?;
        self.sum.update(&head);
        self.sum.update(&payload);
        let expected = self.sum.clone().finalize().to_le_bytes();
        let mut found = [0; 4];
        self.fill(&mut found)?;
        self.sum.update(&found);
        if found == expected {
            Ok((tag, payload))
        } else {
            Err(self.damaged(begin, &format!("the checksum of the block, up to byte {}, does not match", self.at)))
        }
    }
}

enum Refusal {
    Damaged(String),
    Visitor(Error),
    Aborted(String),
}

impl From<&str> for Refusal {
    fn from(why: &str) -> Self {
        Self::Damaged(why.to_owned())
    }
}

/// The content read so far.
#[derive(Default)]
struct Scanned {
    header: Option<Header>,
    objects: u64,
    bytes: u64,
    digest: u64,
    leases: u64,
    files: Vec<Attachment>,
    last_row: Option<i64>,
    ended: bool,
}

impl Scanned {
    fn take(&mut self, tag: Tag, payload: &[u8], visit: &mut dyn FnMut(Part<'_>) -> Result<()>) -> Result<(), Refusal> {
        if self.header.is_none() != (tag == Tag::Header) {
            return Err("the header is not the first block".into());
        }
        match tag {
            Tag::Header => {
                self.header = Some(decode_header(payload).ok_or("the header is unreadable")?);
            }
            Tag::Leases => {
                let mut fields = Fields(payload);
                while !fields.is_empty() {
                    let lease = fields.word().zip(fields.word()).ok_or("a lease is unreadable")?;
                    let (id, ttl) = (lease.0.cast_signed(), lease.1.cast_signed());
                    visit(Part::Lease { id, ttl }).map_err(Refusal::Visitor)?;
                    self.leases += 1;
                }
            }
            Tag::File => self.file(payload).ok_or("an attached file is unreadable")?,
            Tag::Rows => self.rows(payload, visit)?,
            Tag::Aborted => return Err(Refusal::Aborted(String::from_utf8_lossy(payload).into_owned())),
            Tag::End => {
                let mut fields = Fields(payload);
                let expected = [self.objects, self.digest, self.bytes];
                if expected.into_iter().any(|word| fields.word() != Some(word)) || !fields.is_empty() {
                    return Err("the rows are not all that were written".into());
                }
                self.ended = true;
            }
        }
        Ok(())
    }

    fn file(&mut self, payload: &[u8]) -> Option<()> {
        let mut fields = Fields(payload);
        let name = String::from_utf8(fields.bytes()?.to_owned()).ok()?;
        let content = bytes::Bytes::copy_from_slice(fields.bytes()?);
        self.files.push(Attachment { name, content });
        let bytes: usize = self.files.iter().map(|file| file.content.len()).sum();
        (bytes <= MAX_FILES_BYTES && fields.is_empty()).then_some(())
    }

    fn rows(&mut self, payload: &[u8], visit: &mut dyn FnMut(Part<'_>) -> Result<()>) -> Result<(), Refusal> {
        let revision = self.header.as_ref().map_or(0, |header| header.revision);
        let mut fields = Fields(payload);
        while !fields.is_empty() {
            let row = Row::decode(&mut fields).ok_or("a row is not as it was written")?;
            let id = row.entry.id;
            if self.last_row.is_some_and(|last| last >= id) || id < 0 || revision_of(id) > revision {
                return Err("a row is out of order".into());
            }
            self.last_row = Some(id);
            self.objects += 1;
            self.bytes += (row.entry.key.len() + row.value.len()) as u64;
            self.digest = self.digest.wrapping_add(row.entry.digest());
            visit(Part::Row(row)).map_err(Refusal::Visitor)?;
        }
        Ok(())
    }
}
