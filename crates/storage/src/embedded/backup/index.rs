//! The index of keys as of a revision, to compare with the rows that were read.

use rusqlite::Connection;

use super::super::checksum::Entry;
use super::super::database::{Fault, last_row};
use crate::{Result, Revision};

/// A piece of the index of keys as of a revision.
pub(super) struct LiveEntries {
    /// The terms of the newest rows of each key, without deletions.
    pub digests: Vec<u64>,
    /// The start of the next piece; `None` at the end.
    pub next: Option<Vec<u8>>,
}

/// The entries of the index from `start` on that are the newest of their keys as of `revision`, for `limit` keys.
pub(super) fn live_entries(
    db: &Connection,
    start: &[u8],
    revision: Revision,
    limit: usize,
) -> Result<LiveEntries, Fault> {
    const NEWEST: &str = "SELECT key, max(id), create_revision, lease FROM change INDEXED BY change_by_key
        WHERE key >= ?1 AND id <= ?2 GROUP BY key ORDER BY key LIMIT ?3";
    let mut statement = db.prepare_cached(NEWEST)?;
    let mut rows = statement.query((start, last_row(revision), i64::try_from(limit).unwrap_or(i64::MAX)))?;
    let mut found = LiveEntries { digests: Vec::new(), next: None };
    while let Some(row) = rows.next()? {
        let key: Vec<u8> = row.get(0)?;
        let entry = Entry { id: row.get(1)?, key: &key, create_revision: row.get(2)?, lease: row.get(3)? };
        if entry.create_revision != 0 {
            found.digests.push(entry.digest());
        }
        found.next = Some([&key[..], b"\0"].concat());
    }
    Ok(found)
}
