//! Backups: one file with the newest state of a store as of one revision.
//!
//! `take` reads a store while it serves. `format` is how the file is written, `scan` reads and verifies it, and `restore`
//! writes a new store from it.

mod format;
mod index;
mod restore;
mod scan;
mod take;

use std::path::Path;
use std::time::SystemTime;

use bytes::Bytes;

pub(super) use restore::replace;
pub use restore::{Restore, Restored, restore};
pub use scan::{MAX_FILES_BYTES, verify_backup};
pub use take::Backup;

use super::breaks::Break;
use crate::{Error, Revision};

/// The header of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Identifies the store it was taken from.
    pub store: i64,
    /// Every object is as it was at this revision.
    pub revision: Revision,
    /// When it was taken.
    pub when: SystemTime,
    pub(super) last_lease: u64,
    /// The breaks of the store it was taken from.
    pub breaks: Vec<Break>,
}

/// A file in a backup other than the objects, such as a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The file's name.
    pub name: String,
    /// The file's content.
    pub content: Bytes,
}

/// The contents of a verified backup.
#[derive(Clone, Debug)]
pub struct Contents {
    /// The backup's header.
    pub header: Header,
    /// The number of objects.
    pub objects: u64,
    /// The size of keys and values.
    pub bytes: u64,
    /// The number of leases.
    pub leases: u64,
    /// The attached files.
    pub files: Vec<Attachment>,
    /// The length of the backup itself.
    pub length: u64,
}

fn cannot(what: &str, path: &Path) -> impl Fn(std::io::Error) -> Error {
    let attempt = format!("cannot {what} {}", path.display());
    move |error| Error::Failed(format!("{attempt}: {error}").into())
}
