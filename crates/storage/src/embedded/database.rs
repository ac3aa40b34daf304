//! The SQLite file: how it is opened, its two tables, and the statements on them. Blocking; knows nothing of queues and
//! watchers.
//!
//! `log` holds one row per change. Its identifier is the revision and the change's place in it, so that appending is
//! sequential; the index by key answers "this key as of that revision". Superseded rows go when history is compacted.

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use bytes::Bytes;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension, Row, ffi};

use crate::{Change, Error, KeyRange, KeyValue, LeaseId, Result, Revision};

/// "karm", so that `file` and `sqlite3` can tell what the file is.
const APPLICATION_ID: i64 = 0x6b61_726d;
const FORMAT: i64 = 1;

/// The low bits of a row's identifier: the place of a change in its revision.
const PLACE_BITS: u32 = 16;

const SCHEMA: &str = "
    CREATE TABLE log(
        id INTEGER PRIMARY KEY,          -- revision << 16 | place in the revision
        key BLOB NOT NULL,
        create_revision INTEGER NOT NULL, -- 0: the key was deleted
        lease INTEGER,
        value BLOB
    ) STRICT;
    CREATE UNIQUE INDEX log_by_key ON log(key, id, create_revision);
    CREATE INDEX log_by_lease ON log(lease, key) WHERE lease IS NOT NULL;
    CREATE TABLE lease(id INTEGER PRIMARY KEY, ttl INTEGER NOT NULL) STRICT;
    CREATE TABLE meta(name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
";

/// Which of the connections to the file this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Writer,
    Reader,
    Checkpointer,
}

/// What a store finds when it opens its file.
#[derive(Debug)]
pub(super) struct Recovered {
    pub revision: Revision,
    pub oldest: Revision,
    /// Row up to which the log is free of superseded rows.
    pub swept: i64,
    pub last_lease: u64,
    pub leases: Vec<(LeaseId, u64)>,
    /// Keys that hang on a lease.
    pub leased: Vec<(Bytes, LeaseId)>,
}

/// What a connection error means to the caller of the store.
pub(super) fn failed(path: &Path) -> impl Fn(rusqlite::Error) -> Error {
    move |error| match error.sqlite_error() {
        Some(cause) if cause.code == ffi::ErrorCode::DiskFull => Error::NoSpace,
        // Growing the shared index of the log file found no space.
        Some(cause) if cause.extended_code == ffi::SQLITE_IOERR_SHMSIZE => Error::NoSpace,
        _ => Error::Failed(format!("{}: {error}", path.display()).into()),
    }
}

/// Opens the file, which is created by the writer only.
pub(super) fn connect(path: &Path, role: Role, quota_bytes: Option<u64>) -> Result<Connection> {
    let open = || -> rusqlite::Result<Connection> {
        let db = Connection::open(path)?;
        // Memory: 2 MiB for the writer, whose lookups mostly hit the operating system's cache; less for the others.
        let cache_kib = if role == Role::Writer { 2048 } else { 512 };
        db.execute_batch(&format!(
            "PRAGMA busy_timeout=10000; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0;
             PRAGMA journal_size_limit=16777216;
             PRAGMA cache_size=-{cache_kib}; PRAGMA query_only={};",
            role == Role::Reader
        ))?;
        db.set_prepared_statement_cache_capacity(32);
        // Plans do not depend on the values bound; without this, statements are compiled anew for each of them.
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        if let Some(quota) = quota_bytes {
            let page_size: i64 = db.query_row("PRAGMA page_size", (), |row| row.get(0))?;
            db.query_row(&format!("PRAGMA max_page_count={}", quota / page_size.max(1).cast_unsigned()), (), |_| {
                Ok(())
            })?;
        }
        Ok(db)
    };
    open().map_err(failed(path))
}

/// Creates the file readable by its owner alone: it holds secrets. SQLite gives its side files the same mode.
pub(super) fn create_file(path: &Path) -> Result<()> {
    let attempt = || {
        fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
    };
    attempt()
        .map_err(|error: std::io::Error| Error::Failed(format!("cannot create {}: {error}", path.display()).into()))
}

/// Creates the tables of a new file, checks those of an old one, and reads what the store must know.
pub(super) fn recover(db: &mut Connection, path: &Path) -> Result<Recovered> {
    let refuse = |why: String| Err(Error::Failed(format!("{}: {why}", path.display()).into()));
    let pragma = |db: &Connection, name: &str| {
        db.query_row(&format!("PRAGMA {name}"), (), |row| row.get::<_, i64>(0)).map_err(failed(path))
    };
    match (pragma(db, "application_id")?, pragma(db, "user_version")?, pragma(db, "page_count")?) {
        // Choosing the journal mode gives an empty file its first page.
        (0, 0, 0 | 1) => create(db).map_err(failed(path))?,
        (APPLICATION_ID, FORMAT, _) => {}
        (APPLICATION_ID, format, _) => {
            return refuse(format!("format {format} is not known to this version, which writes format {FORMAT}"));
        }
        _ => return refuse("the file is a database, but not this program's".into()),
    }
    check_length(db, path)?;
    read_state(db).map_err(failed(path))
}

fn create(db: &mut Connection) -> rusqlite::Result<()> {
    let txn = db.transaction()?;
    txn.execute_batch(&format!("{SCHEMA} PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={FORMAT};"))?;
    txn.commit()
}

/// A file cut short by a failing disk or a broken copy is found now, not when the missing page is first read.
fn check_length(db: &Connection, path: &Path) -> Result<()> {
    // Moves what the last run left in the log file into the main file; a few megabytes at most.
    match checkpoint(db).map_err(failed(path)) {
        Ok(true) => {}
        // The disk is full: the main file is rightly shorter than it will be, and reads work all the same.
        Ok(false) | Err(Error::NoSpace) => return Ok(()),
        Err(error) => return Err(error),
    }
    let pages = |name| db.query_row(&format!("PRAGMA {name}"), (), |row| row.get::<_, i64>(0)).map_err(failed(path));
    let expected = (pages("page_count")? * pages("page_size")?).cast_unsigned();
    let length = fs::metadata(path).map_or(0, |data| data.len());
    if length < expected {
        let message = format!("{}: the file has {length} bytes where {expected} are expected", path.display());
        return Err(Error::Failed(message.into()));
    }
    Ok(())
}

fn read_state(db: &Connection) -> rusqlite::Result<Recovered> {
    let newest: Option<i64> = db.query_row("SELECT max(id) FROM log", (), |row| row.get(0))?;
    let oldest = meta(db, "oldest")?.unwrap_or(0).cast_unsigned();
    let leases = db
        .prepare("SELECT id, ttl FROM lease")?
        .query_map((), |row| {
            Ok((LeaseId(row.get::<_, i64>(0)?.cast_unsigned()), row.get::<_, i64>(1)?.cast_unsigned()))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    // Two indexes answer, without the rows: the newest row of a key that has a lease is the key's newest.
    const LEASED: &str = "SELECT key, lease FROM
        (SELECT key, lease, max(id) AS id FROM log INDEXED BY log_by_lease WHERE lease IS NOT NULL GROUP BY lease, key) AS own
        WHERE id = (SELECT max(id) FROM log INDEXED BY log_by_key WHERE key = own.key)";
    let leased = db
        .prepare(LEASED)?
        .query_map((), |row| Ok((row.get::<_, Vec<u8>>(0)?.into(), LeaseId(row.get::<_, i64>(1)?.cast_unsigned()))))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(Recovered {
        revision: newest.map_or(1, revision_of).max(oldest).max(1),
        oldest,
        swept: meta(db, "swept")?.unwrap_or(0),
        last_lease: meta(db, "lease")?.unwrap_or(0).cast_unsigned(),
        leases,
        leased,
    })
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

pub(super) fn revision_of(id: i64) -> Revision {
    (id >> PLACE_BITS).cast_unsigned()
}

pub(super) fn meta(db: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    db.prepare_cached("SELECT value FROM meta WHERE name = ?1")?.query_row((name,), |row| row.get(0)).optional()
}

pub(super) fn set_meta(db: &Connection, name: &str, value: i64) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT INTO meta VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value")?
        .execute((name, value))
        .map(drop)
}

/// Appends the changes of one revision.
pub(super) fn append(db: &Connection, revision: Revision, changes: &[Change]) -> rusqlite::Result<()> {
    let mut insert = db.prepare_cached("INSERT INTO log VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for (id, change) in (revision.cast_signed() << PLACE_BITS..).zip(changes) {
        match change {
            Change::Put { current: kv, .. } => {
                let lease = kv.lease.map(|lease| lease.0.cast_signed());
                insert.execute((id, &kv.key[..], kv.create_revision.cast_signed(), lease, &kv.value[..]))?
            }
            Change::Delete { previous } => insert.execute((id, &previous.key[..], 0, None::<i64>, None::<&[u8]>))?,
        };
    }
    Ok(())
}

/// The key as of `revision`.
pub(super) fn get(db: &Connection, key: &Bytes, revision: Revision) -> rusqlite::Result<Option<KeyValue>> {
    before(db, key, after(revision))
}

/// The key as of the row before `id`.
fn before(db: &Connection, key: &Bytes, id: i64) -> rusqlite::Result<Option<KeyValue>> {
    const QUERY: &str =
        "SELECT id, create_revision, lease, value FROM log WHERE key = ?1 AND id < ?2 ORDER BY id DESC LIMIT 1";
    let found = db.prepare_cached(QUERY)?.query_row((&key[..], id), |row| read(row, key.clone())).optional()?;
    Ok(found.flatten())
}

/// Columns id, create_revision, lease, value; `None` for a deletion.
fn read(row: &Row<'_>, key: Bytes) -> rusqlite::Result<Option<KeyValue>> {
    let create_revision = row.get::<_, i64>(1)?.cast_unsigned();
    if create_revision == 0 {
        return Ok(None);
    }
    Ok(Some(KeyValue {
        key,
        value: row.get::<_, Vec<u8>>(3)?.into(),
        create_revision,
        mod_revision: revision_of(row.get(0)?),
        lease: row.get::<_, Option<i64>>(2)?.map(|id| LeaseId(id.cast_unsigned())),
    }))
}

/// The keys in the range as of `revision`, `limit` of them (0: all), and how many there are.
pub(super) fn range(
    db: &Connection,
    range: &KeyRange,
    revision: Revision,
    limit: usize,
) -> rusqlite::Result<(Vec<KeyValue>, usize)> {
    // The index alone answers which row is the key's newest and whether it is a deletion: SQLite takes bare columns
    // from the row that has the maximum.
    const BOUNDED: &str = "SELECT key, max(id), create_revision FROM log INDEXED BY log_by_key
        WHERE key >= ?1 AND id < ?2 AND key < ?3 GROUP BY key ORDER BY key";
    const UNBOUNDED: &str = "SELECT key, max(id), create_revision FROM log INDEXED BY log_by_key
        WHERE key >= ?1 AND id < ?2 GROUP BY key ORDER BY key";
    let mut statement = db.prepare_cached(if range.end.is_empty() { UNBOUNDED } else { BOUNDED })?;
    let mut rows = if range.end.is_empty() {
        statement.query((&range.start[..], after(revision)))?
    } else {
        statement.query((&range.start[..], after(revision), &range.end[..]))?
    };
    let mut value = db.prepare_cached("SELECT id, create_revision, lease, value FROM log WHERE id = ?1")?;
    let (mut items, mut count) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        if row.get::<_, i64>(2)? == 0 {
            continue;
        }
        count += 1;
        if limit == 0 || count <= limit {
            let key = Bytes::from(row.get::<_, Vec<u8>>(0)?);
            items.extend(value.query_row((row.get::<_, i64>(1)?,), |row| read(row, key))?);
        }
    }
    Ok((items, count))
}

/// Rows looked at to learn how the keys of a range are spread, for each part.
const SAMPLES: i64 = 32;
/// Fewer rows than this are read sooner than divided.
const WORTH_DIVIDING: i64 = 4096;

/// Keys within the range, in order, that divide it into at most `parts` of about equal size: the quantiles of keys that
/// were written at evenly spread moments.
pub(super) fn bounds(db: &Connection, range: &KeyRange, parts: usize) -> rusqlite::Result<Vec<Bytes>> {
    let rows: i64 =
        db.query_row("SELECT count(*) FROM (SELECT 1 FROM log LIMIT ?1)", (WORTH_DIVIDING,), |row| row.get(0))?;
    let first_and_last = db.query_row("SELECT min(id), max(id) FROM log", (), |row| {
        Ok((row.get::<_, Option<i64>>(0)?.unwrap_or(0), row.get::<_, Option<i64>>(1)?.unwrap_or(0)))
    })?;
    if parts < 2 || rows < WORTH_DIVIDING {
        return Ok(Vec::new());
    }
    let (first, last) = first_and_last;
    let samples = SAMPLES * i64::try_from(parts).unwrap_or(i64::MAX / SAMPLES);
    let mut row = db.prepare_cached("SELECT key FROM log WHERE id >= ?1 ORDER BY id LIMIT 1")?;
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
) -> rusqlite::Result<(Vec<(Revision, Change)>, Revision)> {
    // Rows of other ranges are skipped quickly, but not endlessly while holding a snapshot of the file.
    let mut patience = 20 * limit;
    let mut statement = db.prepare_cached(
        "SELECT id, create_revision, lease, value, key FROM log WHERE id >= ?1 AND id < ?2 ORDER BY id",
    )?;
    let mut rows = statement.query((after(from), after(to)))?;
    let (mut found, mut complete) = (Vec::new(), from);
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        let revision = revision_of(id);
        if (found.len() >= limit || patience == 0) && revision > complete {
            return Ok((found, complete));
        }
        complete = revision;
        patience = patience.saturating_sub(1);
        let key = row.get_ref(4)?.as_blob()?;
        if range.contains(key) {
            let key = Bytes::copy_from_slice(key);
            let previous = before(db, &key, id)?;
            found.extend(match read(row, key)? {
                Some(current) => Some((revision, Change::Put { current, previous })),
                None => previous.map(|previous| (revision, Change::Delete { previous })),
            });
        }
    }
    Ok((found, to))
}

/// Deletes what the next `limit` rows up to `oldest` supersede; returns the row up to which it is done.
pub(super) fn sweep(db: &Connection, swept: i64, oldest: Revision, limit: usize) -> rusqlite::Result<i64> {
    let end = last_row(oldest);
    let rows = db
        .prepare_cached("SELECT id, key, create_revision FROM log WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3")?
        .query_map((swept, end, i64::try_from(limit).unwrap_or(i64::MAX)), |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?, row.get::<_, i64>(2)? == 0))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    for (id, key, deletion) in &rows {
        // A deletion supersedes itself: without older rows, its absence says the same.
        let bound = if *deletion { id + 1 } else { *id };
        db.prepare_cached("DELETE FROM log WHERE key = ?1 AND id < ?2")?.execute((key, bound))?;
    }
    let done = rows.last().filter(|_| rows.len() == limit).map_or(end, |(id, ..)| *id);
    set_meta(db, "swept", done)?;
    Ok(done)
}

/// Whether each commit syncs the log file. With `unsynced` commits in it the format number is written again: the sync of
/// that is one of all the file.
pub(super) fn sync_commits(db: &Connection, wanted: bool, unsynced: bool) -> rusqlite::Result<()> {
    match (wanted, unsynced) {
        (false, _) => db.execute_batch("PRAGMA synchronous=NORMAL;"),
        (true, false) => db.execute_batch("PRAGMA synchronous=FULL;"),
        (true, true) => db.execute_batch(&format!("PRAGMA synchronous=FULL; PRAGMA user_version={FORMAT};")),
    }
}

/// Moves the log file's content into the main file as far as readers allow. Returns whether all of it was moved.
pub(super) fn checkpoint(db: &Connection) -> rusqlite::Result<bool> {
    db.query_row("PRAGMA wal_checkpoint(PASSIVE)", (), |row| {
        Ok(row.get::<_, i64>(0)? == 0 && row.get::<_, i64>(1)? == row.get::<_, i64>(2)?)
    })
}

/// SQLite's own check of the file, then ours of the rows; names the first thing that is wrong.
pub(super) fn verify(db: &Connection, revision: Revision, oldest: Revision) -> rusqlite::Result<Option<String>> {
    let report: String = db.query_row("PRAGMA integrity_check(1)", (), |row| row.get(0))?;
    if report != "ok" {
        return Ok(Some(report));
    }
    let bounds = (after(oldest), after(revision));
    let present: i64 =
        db.query_row("SELECT count(DISTINCT id >> 16) FROM log WHERE id >= ?1 AND id < ?2", bounds, |row| row.get(0))?;
    if present.cast_unsigned() != revision.saturating_sub(oldest.max(1)) {
        return Ok(Some(format!("{present} revisions are present between {oldest} and {revision}")));
    }
    let disordered = db
        .query_row(
            "SELECT id FROM log WHERE create_revision > id >> 16 OR create_revision > 0 AND value IS NULL LIMIT 1",
            (),
            |row| row.get::<_, i64>(0),
        )
        .optional()?;
    Ok(disordered.map(|id| format!("row {id} has a create revision after its own, or no value")))
}
