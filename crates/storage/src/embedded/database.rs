//! The statements on the tables of the SQLite file (`schema`). Blocking; independent of queues and watchers. Every row
//! that is read is verified.

use std::path::Path;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, ffi};

use super::breaks::Break;
use super::checksum::{Entry, PLACE_BITS, revision_of, row_name};
use super::schema::{self, APPLICATION_ID, FORMAT, Number};
use super::upgrade;
use crate::feed::BATCH_BYTES;
use crate::{Change, Damage, Error, KeyRange, KeyValue, LeaseId, Result, Revision};

/// The state of the store in its file at opening.
#[derive(Debug)]
pub(super) struct Recovered {
    pub store: i64,
    pub revision: Revision,
    pub oldest: Revision,
    /// Row up to which the table is free of superseded rows.
    pub swept: i64,
    pub last_lease: u64,
    pub asides: u64,
    /// Digest of all rows ever appended.
    pub digest: u64,
    /// Digest of all rows ever removed.
    pub removed: u64,
    pub leases_digest: u64,
    pub leases: Vec<(LeaseId, u64)>,
    /// Keys that hang on a lease.
    pub leased: Vec<(Bytes, LeaseId)>,
    pub breaks: Vec<Break>,
}

/// Why a statement has no answer.
#[derive(Debug)]
pub(super) enum Fault {
    Sql(rusqlite::Error),
    /// One value is damaged; all others can be read.
    Damaged(Damage),
    /// The file as a whole cannot be trusted.
    Broken(String),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

/// The error for the caller of the store.
pub(super) fn failed<F: Into<Fault>>(path: &Path) -> impl Fn(F) -> Error {
    move |fault| match fault.into() {
        Fault::Damaged(damage) => Error::Damaged(damage),
        Fault::Broken(why) => Error::Failed(format!("{}: {why}", path.display()).into()),
        Fault::Sql(error) => match error.sqlite_error() {
            Some(cause) if cause.code == ffi::ErrorCode::DiskFull => Error::NoSpace,
            // Growing the shared index of the log file found no space.
            Some(cause) if cause.extended_code == ffi::SQLITE_IOERR_SHMSIZE => Error::NoSpace,
            _ => Error::Failed(format!("{}: {error}", path.display()).into()),
        },
    }
}

/// The kind of a database file before it is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Empty,
    Old,
    Present,
}

/// Finds out the format of the file; refuses one of a later version, or of another program.
pub(super) fn kind(db: &Connection) -> Result<Kind, Fault> {
    let pragma = |name: &str| db.query_row(&format!("PRAGMA {name}"), (), |row| row.get::<_, i64>(0));
    match (pragma("application_id")?, pragma("user_version")?, pragma("page_count")?) {
        // Choosing the journal mode gives an empty file its first page.
        (0, 0, 0 | 1) => Ok(Kind::Empty),
        (APPLICATION_ID, FORMAT, _) => Ok(Kind::Present),
        (APPLICATION_ID, upgrade::FORMAT, _) => Ok(Kind::Old),
        (APPLICATION_ID, format, _) => {
            Err(Fault::Broken(format!("format {format} is not known to this version, which writes format {FORMAT}")))
        }
        _ => Err(Fault::Broken("the file is a database, but not this program's".into())),
    }
}

/// An identifier for a new store.
pub(super) fn random_identifier(db: &Connection) -> Result<i64, Fault> {
    Ok(db.query_row("SELECT random()", (), |row| row.get(0))?)
}

/// Makes the tables of an empty store.
pub(super) fn create(db: &mut Connection, store: i64) -> Result<(), Fault> {
    let txn = db.transaction()?;
    schema::create_tables(&txn, store)?;
    Ok(txn.commit()?)
}

/// The first row identifier after all of `revision`'s.
fn after(revision: Revision) -> i64 {
    // 47 bits of revisions are 4,000 years at a thousand writes per second.
    let capped = revision.min((1 << (63 - PLACE_BITS)) - 2).cast_signed();
    (capped + 1) << PLACE_BITS
}

/// The last row identifier a revision can have.
pub(super) fn last_row(revision: Revision) -> i64 {
    after(revision) - 1
}

pub(super) const INSERT: &str = "INSERT INTO change(id, key, create_revision, lease, digest, checksum, value)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

/// Appends the changes of one revision, and adds them to the digest of all rows.
pub(super) fn append(
    db: &Connection,
    revision: Revision,
    changes: &[Change],
    digest: &mut u64,
) -> rusqlite::Result<()> {
    let mut insert = db.prepare_cached(INSERT)?;
    for (id, change) in (revision.cast_signed() << PLACE_BITS..).zip(changes) {
        let (entry, value) = match change {
            Change::Put { current: kv, .. } => {
                let lease = kv.lease.map(|lease| lease.0.cast_signed());
                let create_revision = kv.create_revision.cast_signed();
                (Entry { id, key: &kv.key, create_revision, lease }, Some(&kv.value[..]))
            }
            Change::Delete { previous } => (Entry { id, key: &previous.key, create_revision: 0, lease: None }, None),
        };
        let checksum = entry.checksum(*digest, value);
        insert.execute((id, entry.key, entry.create_revision, entry.lease, digest.cast_signed(), checksum, value))?;
        *digest = digest.wrapping_add(entry.digest());
    }
    Ok(())
}

/// A row that is as it was written.
pub(super) struct Stored {
    id: i64,
    key: Bytes,
    create_revision: i64,
    lease: Option<i64>,
    /// The digest of all rows before it.
    before: u64,
    value: Option<Bytes>,
}

impl Stored {
    pub fn before(&self) -> u64 {
        self.before
    }

    /// Empty for a deletion.
    pub fn value(&self) -> &[u8] {
        self.value.as_deref().unwrap_or_default()
    }

    pub fn entry(&self) -> Entry<'_> {
        Entry { id: self.id, key: &self.key, create_revision: self.create_revision, lease: self.lease }
    }

    /// `None` for a deletion.
    fn into_key_value(self) -> Option<KeyValue> {
        Some(KeyValue {
            key: self.key,
            create_revision: self.create_revision.cast_unsigned(),
            mod_revision: revision_of(self.id),
            lease: self.lease.map(|id| LeaseId(id.cast_unsigned())),
            value: self.value.filter(|_| self.create_revision != 0)?,
        })
    }
}

/// The columns that [`read`] takes.
macro_rules! columns {
    ($rest:literal) => {
        concat!("SELECT id, create_revision, lease, digest, checksum, value, key FROM change ", $rest)
    };
}

/// Reads a row and verifies it. `key` is the key in the index; without it, the row's own key is used.
fn read(row: &Row<'_>, key: Option<Bytes>) -> Result<Stored, Fault> {
    let id: i64 = row.get(0)?;
    let columns = || -> rusqlite::Result<(Stored, i64)> {
        let key = match &key {
            Some(key) => key.clone(),
            None => Bytes::copy_from_slice(row.get_ref(6)?.as_blob()?),
        };
        let value = row.get::<_, Option<Vec<u8>>>(5)?.map(Bytes::from);
        let before = row.get::<_, i64>(3)?.cast_unsigned();
        Ok((Stored { id, key, create_revision: row.get(1)?, lease: row.get(2)?, before, value }, row.get(4)?))
    };
    let damaged = |why: &str| Fault::Damaged(damage(id, key.as_ref(), why));
    let (stored, checksum) = columns().map_err(|error| damaged(&error.to_string()))?;
    let whole = (stored.create_revision == 0) == stored.value.is_none();
    if whole && stored.entry().checksum(stored.before, stored.value.as_deref()) == checksum {
        Ok(stored)
    } else {
        Err(damaged("the checksum does not match"))
    }
}

fn damage(id: i64, key: Option<&Bytes>, why: &str) -> Damage {
    Damage::new(key.cloned().unwrap_or_default(), format!("{}: {why}", row_name(id)))
}

/// SQLite reports a damaged page as an error of whatever is read through it.
fn corrupt(fault: Fault, key: &Bytes, id: Option<i64>) -> Fault {
    let named = |why: &str| match id {
        Some(id) => damage(id, Some(key), why),
        None => Damage::new(key.clone(), why),
    };
    match fault {
        Fault::Sql(error) => match error.sqlite_error_code() {
            Some(ffi::ErrorCode::DatabaseCorrupt) => Fault::Damaged(named(&error.to_string())),
            _ if matches!(error, rusqlite::Error::QueryReturnedNoRows) => Fault::Damaged(named("the row is missing")),
            _ => Fault::Sql(error),
        },
        other => other,
    }
}

/// The key as of `revision`.
pub(super) fn get(db: &Connection, key: &Bytes, revision: Revision) -> Result<Option<KeyValue>, Fault> {
    before(db, key, after(revision))
}

/// The key as of the row before `id`.
fn before(db: &Connection, key: &Bytes, id: i64) -> Result<Option<KeyValue>, Fault> {
    const QUERY: &str = columns!("INDEXED BY change_by_key WHERE key = ?1 AND id < ?2 ORDER BY id DESC LIMIT 1");
    let attempt = || -> Result<Option<KeyValue>, Fault> {
        let mut statement = db.prepare_cached(QUERY)?;
        let mut rows = statement.query((&key[..], id))?;
        let Some(row) = rows.next()? else { return Ok(None) };
        Ok(read(row, Some(key.clone()))?.into_key_value())
    };
    attempt().map_err(|fault| corrupt(fault, key, None))
}

/// The result of a range read.
#[derive(Debug, Default)]
pub(super) struct Ranged {
    pub items: Vec<KeyValue>,
    /// Keys in the range, the ones beyond the limit included.
    pub count: usize,
    pub damaged: Vec<Damage>,
}

/// The keys in the range as of `revision`, `limit` of them (0: all).
pub(super) fn range(db: &Connection, range: &KeyRange, revision: Revision, limit: usize) -> Result<Ranged, Fault> {
    // The index alone answers which row is the key's newest and whether it is a deletion: SQLite takes bare columns
    // from the row that has the maximum.
    const BOUNDED: &str = "SELECT key, max(id), create_revision FROM change INDEXED BY change_by_key
        WHERE key >= ?1 AND id < ?2 AND key < ?3 GROUP BY key ORDER BY key";
    const UNBOUNDED: &str = "SELECT key, max(id), create_revision FROM change INDEXED BY change_by_key
        WHERE key >= ?1 AND id < ?2 GROUP BY key ORDER BY key";
    let mut statement = db.prepare_cached(if range.end.is_empty() { UNBOUNDED } else { BOUNDED })?;
    let mut rows = if range.end.is_empty() {
        statement.query((&range.start[..], after(revision)))?
    } else {
        statement.query((&range.start[..], after(revision), &range.end[..]))?
    };
    let mut value = db.prepare_cached(columns!("WHERE id = ?1"))?;
    let mut found = Ranged::default();
    while let Some(row) = rows.next()? {
        if row.get::<_, i64>(2)? == 0 {
            continue;
        }
        found.count += 1;
        if limit == 0 || found.count <= limit {
            let key = Bytes::from(row.get::<_, Vec<u8>>(0)?);
            let id: i64 = row.get(1)?;
            let mut attempt = || -> Result<Option<KeyValue>, Fault> {
                let mut rows = value.query((id,))?;
                let row = rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
                Ok(read(row, Some(key.clone()))?.into_key_value())
            };
            match attempt().map_err(|fault| corrupt(fault, &key, Some(id))) {
                Ok(item) => found.items.extend(item),
                Err(Fault::Damaged(damage)) => found.damaged.push(damage),
                Err(fault) => return Err(fault),
            }
        }
    }
    Ok(found)
}

/// Rows sampled to find the distribution of keys in a range, for each part.
const SAMPLES: i64 = 32;
/// Fewer rows than this are read sooner than divided.
const WORTH_DIVIDING: i64 = 4096;

/// Keys within the range, in order, that divide it into at most `parts` of about equal size: the quantiles of keys that
/// were written at evenly spread moments.
pub(super) fn bounds(db: &Connection, range: &KeyRange, parts: usize) -> Result<Vec<Bytes>, Fault> {
    let rows: i64 =
        db.query_row("SELECT count(*) FROM (SELECT 1 FROM change LIMIT ?1)", (WORTH_DIVIDING,), |row| row.get(0))?;
    let first_and_last = db.query_row("SELECT min(id), max(id) FROM change", (), |row| {
        Ok((row.get::<_, Option<i64>>(0)?.unwrap_or(0), row.get::<_, Option<i64>>(1)?.unwrap_or(0)))
    })?;
    if parts < 2 || rows < WORTH_DIVIDING {
        return Ok(Vec::new());
    }
    let (first, last) = first_and_last;
    let samples = SAMPLES * i64::try_from(parts).unwrap_or(i64::MAX / SAMPLES);
    let mut row = db.prepare_cached("SELECT key FROM change WHERE id >= ?1 ORDER BY id LIMIT 1")?;
    let mut keys = Vec::new();
    for n in 0..samples {
        let at = first + (last - first) / samples * n;
        keys.extend(row.query_row((at,), |row| row.get::<_, Vec<u8>>(0)).optional()?);
    }
    keys.retain(|key| range.contains(key) && range.start != *key);
    keys.sort();
    let mut bounds: Vec<_> =
        (1..parts).filter_map(|n| keys.get(keys.len() * n / parts)).cloned().map(Bytes::from).collect();
    bounds.dedup();
    Ok(bounds)
}

/// Changes with a revision in `from + 1 ..= to`, at most about `limit` of the range, and the revision up to which they
/// are complete.
pub(super) fn changes(
    db: &Connection,
    range: &KeyRange,
    (from, to): (Revision, Revision),
    limit: usize,
) -> Result<(Vec<(Revision, Change)>, Revision), Fault> {
    // Rows of other ranges are skipped quickly, but not endlessly while holding a snapshot of the file.
    let mut patience = 20 * limit;
    let mut statement = db.prepare_cached(columns!("WHERE id >= ?1 AND id < ?2 ORDER BY id"))?;
    let mut rows = statement.query((after(from), after(to)))?;
    let (mut found, mut bytes, mut complete) = (Vec::new(), 0, from);
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        let revision = revision_of(id);
        if (found.len() >= limit || bytes >= BATCH_BYTES || patience == 0) && revision > complete {
            return Ok((found, complete));
        }
        if revision > complete + 1 {
            return Err(Fault::Broken(format!("revision {} is missing", complete + 1)));
        }
        complete = revision;
        patience = patience.saturating_sub(1);
        let stored = read(row, None).map_err(|fault| named(db, id, fault))?;
        if range.contains(&stored.key) {
            let key = stored.key.clone();
            let previous = before(db, &key, id)?;
            bytes += previous.as_ref().map_or(0, |previous| previous.value.len());
            found.extend(match stored.into_key_value() {
                Some(current) => {
                    bytes += current.value.len();
                    Some((revision, Change::Put { current, previous }))
                }
                None => previous.map(|previous| (revision, Change::Delete { previous })),
            });
        }
    }
    if complete < to {
        return Err(Fault::Broken(format!("revision {} is missing", complete + 1)));
    }
    Ok((found, to))
}

/// The result of a piece of the sweep.
pub(super) struct Swept {
    /// The row up to which it is done.
    pub row: i64,
    /// The digest of the rows it removed.
    pub removed: u64,
}

/// A piece of the state as of a revision, in the order of rows.
pub(super) struct Live {
    pub rows: Vec<Stored>,
    /// The last row that was read; `None` at the end.
    pub last: Option<i64>,
}

/// The rows after `id` that are the newest of their keys as of `revision`, without deletions. A page ends after about
/// this many rows or bytes.
pub(super) fn live(
    db: &Connection,
    id: i64,
    revision: Revision,
    (limit, bytes): (usize, usize),
) -> Result<Live, Fault> {
    let end = last_row(revision);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = db.prepare_cached(columns!("WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3"))?;
    let mut newer = db.prepare_cached(
        "SELECT 1 FROM change INDEXED BY change_by_key WHERE key = ?1 AND id > ?2 AND id <= ?3 LIMIT 1",
    )?;
    let mut rows = statement.query((id, end, limit))?;
    let (mut live, mut taken) = (Live { rows: Vec::new(), last: None }, 0);
    while let Some(row) = rows.next()? {
        let id = row.get(0)?;
        live.last = Some(id);
        let stored = read(row, None).map_err(|fault| named(db, id, fault))?;
        if stored.create_revision != 0 && newer.query_row((&stored.key[..], id, end), |_| Ok(())).optional()?.is_none()
        {
            taken += stored.key.len() + stored.value().len();
            live.rows.push(stored);
        }
        if taken >= bytes {
            break;
        }
    }
    Ok(live)
}

/// Deletes the rows superseded by the next `limit` rows up to `oldest`.
pub(super) fn sweep(db: &Connection, swept: i64, oldest: Revision, limit: usize) -> Result<Swept, Fault> {
    let end = last_row(oldest);
    let rows = db
        .prepare_cached("SELECT id, key, create_revision FROM change WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3")?
        .query_map((swept, end, i64::try_from(limit).unwrap_or(i64::MAX)), |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?, row.get::<_, i64>(2)?))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    // A damaged key would refer to rows of another one: the index must contain it.
    let mut known = db.prepare_cached(
        "SELECT 1 FROM change INDEXED BY change_by_key WHERE key = ?1 AND id = ?2 AND create_revision = ?3",
    )?;
    let mut delete =
        db.prepare_cached("DELETE FROM change WHERE key = ?1 AND id < ?2 RETURNING id, create_revision, lease")?;
    let mut removed = 0_u64;
    for (id, key, create_revision) in &rows {
        if known.query_row((key, id, create_revision), |_| Ok(())).optional()?.is_none() {
            let why = "the row and the index of keys disagree";
            return Err(Fault::Damaged(damage(*id, Some(&Bytes::copy_from_slice(key)), why)));
        }
        // A deletion supersedes itself: without older rows, its absence means the same.
        let bound = if *create_revision == 0 { id + 1 } else { *id };
        let mut gone = delete.query((key, bound))?;
        while let Some(row) = gone.next()? {
            let entry = Entry { id: row.get(0)?, key, create_revision: row.get(1)?, lease: row.get(2)? };
            removed = removed.wrapping_add(entry.digest());
        }
    }
    let row = rows.last().filter(|_| rows.len() == limit).map_or(end, |(id, ..)| *id);
    Number::Swept.set(db, row)?;
    Ok(Swept { row, removed })
}

/// SQLite's own check of the file; names the first thing that is wrong.
pub(super) fn check_pages(db: &Connection) -> Result<(), Fault> {
    let report: String = db.query_row("PRAGMA integrity_check(1)", (), |row| row.get(0))?;
    if report == "ok" { Ok(()) } else { Err(Fault::Broken(report)) }
}

/// Verifies the next `limit` rows after `id`; returns the last of them, `None` at the end, and the damage.
pub(super) fn verify_rows(db: &Connection, id: i64, limit: usize) -> Result<(Option<i64>, Vec<Damage>), Fault> {
    let mut statement = db.prepare_cached(columns!("WHERE id > ?1 ORDER BY id LIMIT ?2"))?;
    let mut rows = statement.query((id, i64::try_from(limit).unwrap_or(i64::MAX)))?;
    let (mut last, mut damaged) = (None, Vec::new());
    while let Some(row) = rows.next()? {
        let id = row.get(0)?;
        last = Some(id);
        match read(row, None).map_err(|fault| named(db, id, fault)) {
            Ok(_) => {}
            Err(Fault::Damaged(damage)) => damaged.push(damage),
            Err(fault) => return Err(fault),
        }
    }
    Ok((last, damaged))
}

/// Adds the key to the error of a damaged row, from the index. Reads the whole index, once for a damaged row.
fn named(db: &Connection, id: i64, fault: Fault) -> Fault {
    const KEY: &str = "SELECT key FROM change INDEXED BY change_by_key WHERE +id = ?1";
    match fault {
        Fault::Damaged(damage) if damage.key.is_empty() => {
            let key = db.query_row(KEY, (id,), |row| row.get::<_, Vec<u8>>(0)).unwrap_or_default();
            Fault::Damaged(Damage { key: key.into(), ..damage })
        }
        other => other,
    }
}
