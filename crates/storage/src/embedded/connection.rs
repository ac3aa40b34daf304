//! The connections to the SQLite file, and operations on the file rather than its tables: syncs, and its log.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::database::failed;
use super::schema::FORMAT;
use crate::{Error, Result};

/// The role of a connection to the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Writer,
    Reader,
    Checkpointer,
}

/// Opens the file, which is created by the writer only.
pub(super) fn connect(path: &Path, role: Role, quota_bytes: Option<u64>) -> Result<Connection> {
    let open = || -> rusqlite::Result<Connection> {
        let db = Connection::open(path)?;
        // The store moves the log itself when it closes. SQLite would also do it for a refused log, which would destroy
        // recoverable data; and it would remove the side files, which a start on a full disk cannot recreate.
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        // Memory: 2 MiB for the writer, whose lookups mostly hit the operating system's cache; less for the others.
        let cache_kib = if role == Role::Writer { 2048 } else { 512 };
        db.execute_batch(&format!(
            "PRAGMA busy_timeout=10000; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0;
             PRAGMA journal_size_limit=16777216; PRAGMA cell_size_check=ON;
             PRAGMA cache_size=-{cache_kib}; PRAGMA query_only={};",
            role == Role::Reader
        ))?;
        db.set_prepared_statement_cache_capacity(32);
        // Plans do not depend on the values bound; without this, statements are compiled again for each of them.
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

/// Opens the file read-only, for inspection. `alone`: there is no log, and no process writes.
pub(super) fn inspect(path: &Path, alone: bool) -> Result<Connection> {
    let open = || -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        let db = Connection::open_with_flags(uri(path, alone), flags)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        db.execute_batch("PRAGMA busy_timeout=10000; PRAGMA cell_size_check=ON; PRAGMA query_only=1;")?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        Ok(db)
    };
    open().map_err(failed(path))
}

/// A path as SQLite's URI, every unusual byte escaped.
fn uri(path: &Path, alone: bool) -> PathBuf {
    let mut text = b"file:".to_vec();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => text.push(*byte),
            other => text.extend(format!("%{other:02x}").into_bytes()),
        }
    }
    text.extend(if alone { &b"?immutable=1"[..] } else { b"" });
    OsString::from_vec(text).into()
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

/// Detects a file truncated by a failing disk or a broken copy now, not when the missing page is first read. The log
/// file is moved into the main file and emptied, so that its content cannot be damaged. Returns whether it is empty.
pub(super) fn check_length(db: &Connection, path: &Path) -> Result<bool> {
    match empty_log(db).map_err(failed(path)) {
        Ok(true) => {}
        // The disk is full: the main file is rightly shorter than it will be, and reads work all the same.
        Ok(false) | Err(Error::NoSpace) => return Ok(false),
        Err(error) => return Err(error),
    }
    let pages = |name| db.query_row(&format!("PRAGMA {name}"), (), |row| row.get::<_, i64>(0)).map_err(failed(path));
    let expected = (pages("page_count")? * pages("page_size")?).cast_unsigned();
    let length = fs::metadata(path).map_or(0, |data| data.len());
    if length < expected {
        let message = format!("{}: the file has {length} bytes where {expected} are expected", path.display());
        return Err(Error::Failed(message.into()));
    }
    Ok(true)
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

/// Moves the log file's content into the main file and truncates it. Returns whether that was possible.
pub(super) fn empty_log(db: &Connection) -> rusqlite::Result<bool> {
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| Ok(row.get::<_, i64>(0)? == 0))
}
