//! Upgrades format 1, which had no checksums, when a store opens: in one transaction, so that a crash or a full disk
//! leaves format 1. The rows are copied; the file reuses the space of the old ones for new rows.

use rusqlite::{Connection, Row, Transaction};

use super::checksum::{Entry, lease_digest, revision_of};
use super::database::Fault;
use super::schema::{self, Number};
use crate::Revision;

/// The version before checksums.
pub(super) const FORMAT: i64 = 1;

fn revision(db: &Connection) -> Result<Revision, Fault> {
    let newest: Option<i64> = db.query_row("SELECT max(id) FROM log", (), |row| row.get(0))?;
    let oldest = figure(db, "oldest")?.cast_unsigned();
    Ok(newest.map_or(1, revision_of).max(oldest).max(1))
}

/// Copies everything into the tables of the present format. Only SQLite's own check shows whether the old rows
/// are sound.
pub(super) fn run(db: &mut Connection, store: i64) -> Result<(), Fault> {
    let report: String = db.query_row("PRAGMA integrity_check(1)", (), |row| row.get(0))?;
    if report != "ok" {
        return Err(Fault::Broken(format!("the file is damaged, and cannot be upgraded: {report}")));
    }
    let revision = revision(db)?;
    let txn = db.transaction()?;
    schema::create_tables(&txn, store)?;
    let digest = copy_changes(&txn)?;
    copy_leases(&txn)?;
    let oldest = figure(&txn, "oldest")?;
    for (number, value) in [
        (Number::Oldest, oldest),
        (Number::Swept, figure(&txn, "swept")?),
        (Number::LastLease, figure(&txn, "lease")?),
        (Number::Appended, digest.cast_signed()),
        (Number::AppendedAt, revision.cast_signed()),
    ] {
        number.set(&txn, value)?;
    }
    txn.execute_batch("DROP TABLE log; DROP TABLE lease; DROP TABLE meta;")?;
    Ok(txn.commit()?)
}

fn figure(db: &Connection, name: &str) -> rusqlite::Result<i64> {
    use rusqlite::OptionalExtension;
    let found = db.query_row("SELECT value FROM meta WHERE name = ?1", (name,), |row| row.get(0)).optional()?;
    Ok(found.unwrap_or(0))
}

fn copy_changes(txn: &Transaction<'_>) -> rusqlite::Result<u64> {
    let mut read = txn.prepare("SELECT id, key, create_revision, lease, value FROM log ORDER BY id")?;
    let mut insert = txn.prepare(super::database::INSERT)?;
    let mut digest = 0_u64;
    let mut rows = read.query(())?;
    while let Some(row) = rows.next()? {
        let entry = Entry {
            id: row.get(0)?,
            key: row.get_ref(1)?.as_blob()?,
            create_revision: row.get(2)?,
            lease: row.get(3)?,
        };
        let value = row.get_ref(4)?.as_blob_or_null()?;
        let checksum = entry.checksum(digest, value);
        insert.execute((
            entry.id,
            entry.key,
            entry.create_revision,
            entry.lease,
            digest.cast_signed(),
            checksum,
            value,
        ))?;
        digest = digest.wrapping_add(entry.digest());
    }
    Ok(digest)
}

fn copy_leases(txn: &Transaction<'_>) -> rusqlite::Result<()> {
    txn.execute("INSERT INTO leases SELECT id, ttl FROM lease", ())?;
    let term = |row: &Row<'_>| Ok(lease_digest(row.get(0)?, row.get(1)?));
    let mut leases = txn.prepare("SELECT id, ttl FROM leases")?;
    let mut digest = 0_u64;
    for term in leases.query_map((), term)? {
        digest = digest.wrapping_add(term?);
    }
    Number::Leases.set(txn, digest.cast_signed())
}
