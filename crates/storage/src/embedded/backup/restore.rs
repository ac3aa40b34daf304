//! Writes a new store from a backup, replacing the old one.
//!
//! The new store is created in a directory beside the old one, synced, and then exchanged with it atomically. A crash
//! leaves the old store or the new one. No file of the old store is removed.

use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rusqlite::{Connection, Transaction};

use super::super::breaks::{self, Break, BreakKind, SKIPPED};
use super::super::checksum::lease_digest;
use super::super::connection;
use super::super::database::{self, Fault};
use super::super::directory::{self, Files};
use super::super::mark::{Acknowledged, Content, Found, Mark};
use super::super::schema::{self, Number};
use super::scan::{Part, scan};
use super::{Contents, cannot};
use crate::{Error, Result, Revision};

/// How a backup is restored.
#[derive(Clone, Debug)]
pub struct Restore {
    /// Moves an existing store in the directory aside; otherwise it is an error.
    pub replace: bool,
    /// The time recorded for the restore.
    pub when: SystemTime,
    /// The suffix of the directories created beside the store's. No such directory may exist.
    pub suffix: String,
}

/// The result of a restore.
#[derive(Clone, Debug)]
pub struct Restored {
    /// The contents of the backup.
    pub contents: Contents,
    /// The revision at which the new store continues, so that no watch or cache mistakes a new object for an earlier
    /// one.
    pub revision: Revision,
    /// The new path of the replaced store.
    pub aside: Option<PathBuf>,
}

/// Restores the backup at `path` to the directory `dir` of a store. `progress` gets the bytes read and the length.
///
/// # Errors
/// The directory is in use, or holds a store that is not to be replaced; the backup is damaged; the disk is full. Then the
/// directory is as it was.
pub fn restore(path: &Path, dir: &Path, options: &Restore, progress: &mut dyn FnMut(u64, u64)) -> Result<Restored> {
    let (contents, revision, aside) =
        replace(dir, options, &mut |txn, acknowledged| write(txn, path, (acknowledged, options.when), progress))?;
    Ok(Restored { contents, revision, aside })
}

/// Creates a store from the writes of `write`, and replaces the one in `dir`. `write` receives the newest revision that
/// the replaced store acknowledged, or 0. Returns the result of `write`, the revision of the new store, and the new
/// path of the replaced one.
///
/// # Errors
/// If the directory is in use, or holds a store that must not be replaced; if `write` fails; if the disk is full. The
/// directory is then unchanged.
pub(in super::super) fn replace<T>(
    dir: &Path,
    options: &Restore,
    write: &mut dyn FnMut(&Transaction<'_>, Revision) -> Result<T>,
) -> Result<(T, Revision, Option<PathBuf>)> {
    let claim = directory::claim(dir)?;
    let files = Files::new(dir);
    let present = files.hold_a_store();
    if present && !options.replace {
        let why = format!(
            "{} holds a store already: use --replace to keep it aside and put the new one in its place, or another directory",
            dir.display()
        );
        return Err(Error::Failed(why.into()));
    }
    let staged = beside(dir, "restoring", &options.suffix);
    DirBuilder::new().mode(0o700).create(&staged).map_err(cannot("create", &staged))?;
    let acknowledged = match directory::read_mark(&files)? {
        Found::Readable(content) => content.acknowledged.revision,
        Found::Missing | Found::Unreadable => 0,
    };
    let (written, revision) = match build(&staged, acknowledged, write) {
        Ok(built) => built,
        Err(error) => {
            // The unfinished directory is useless; the error matters.
            let _ = fs::remove_dir_all(&staged);
            return Err(named(error, &staged));
        }
    };
    let aside = exchange(&staged, dir, present.then(|| beside(dir, "replaced", &options.suffix)))?;
    drop(claim);
    Ok((written, revision, aside))
}

/// `store` becomes `store.restoring-20260101T120000Z`.
fn beside(dir: &Path, what: &str, suffix: &str) -> PathBuf {
    let mut name = dir.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{what}-{suffix}"));
    dir.with_file_name(name)
}

fn named(error: Error, staged: &Path) -> Error {
    match error {
        Error::NoSpace => Error::Failed(
            format!("no space is left for the new store in {}; free some and repeat", staged.display()).into(),
        ),
        other => other,
    }
}

/// Makes a whole store in `staged`, durably.
fn build<T>(
    staged: &Path,
    acknowledged: Revision,
    write: &mut dyn FnMut(&Transaction<'_>, Revision) -> Result<T>,
) -> Result<(T, Revision)> {
    let files = Files::new(staged);
    let database = files.database();
    connection::create_file(&database)?;
    let failed = database::failed::<Fault>(&database);
    let open = || -> Result<Connection, Fault> {
        let db = Connection::open(&database)?;
        // Durability is not needed before the final sync.
        db.execute_batch("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-16384;")?;
        Ok(db)
    };
    let mut db = open().map_err(&failed)?;
    let store = database::random_identifier(&db).map_err(&failed)?;
    let txn = db.transaction().map_err(|error| failed(error.into()))?;
    schema::create_tables(&txn, store).map_err(|error| failed(error.into()))?;
    let written = write(&txn, acknowledged)?;
    txn.commit().map_err(|error| failed(error.into()))?;
    let proved = schema::prove(&db).map_err(&failed)?;
    db.execute_batch("PRAGMA journal_mode=WAL;").map_err(|error| failed(error.into()))?;
    db.close().map_err(|(_, error)| failed(error.into()))?;
    let sync = |path: &Path| File::open(path).and_then(|file| file.sync_all()).map_err(cannot("sync", path));
    sync(&database)?;
    let acknowledged = Acknowledged { revision: proved.revision, digest: proved.digest, asides: 0 };
    let content = Content { store, acknowledged, unsynced: false, creating: false };
    Mark::write(&files.mark(), content).map_err(cannot("write", &files.mark()))?;
    sync(staged)?;
    Ok((written, proved.revision))
}

fn write(
    txn: &Transaction<'_>,
    path: &Path,
    (acknowledged, when): (Revision, SystemTime),
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Contents> {
    let failed = database::failed::<rusqlite::Error>(path);
    let (mut digest, mut leases) = (0_u64, 0_u64);
    let contents = scan(path, progress, &mut |part| match part {
        Part::Lease { id, ttl } => {
            leases = leases.wrapping_add(lease_digest(id, ttl));
            txn.execute("INSERT INTO leases VALUES (?1, ?2)", (id, ttl)).map(drop).map_err(&failed)
        }
        Part::Row(row) => {
            let mut insert = txn.prepare_cached(database::INSERT).map_err(&failed)?;
            let (entry, value) = (row.entry, Some(row.value));
            let checksum = entry.checksum(digest, value);
            let figures =
                (entry.id, entry.key, entry.create_revision, entry.lease, digest.cast_signed(), checksum, value);
            insert.execute(figures).map_err(&failed)?;
            digest = digest.wrapping_add(entry.digest());
            Ok(())
        }
    })?;
    let header = &contents.header;
    let after = header.revision.max(acknowledged) + SKIPPED;
    for (number, value) in [
        (Number::Oldest, after.cast_signed()),
        (Number::Swept, database::last_row(after)),
        (Number::LastLease, header.last_lease.cast_signed()),
        (Number::Leases, leases.cast_signed()),
        (Number::Appended, digest.cast_signed()),
        (Number::AppendedAt, header.revision.cast_signed()),
    ] {
        number.set(txn, value).map_err(&failed)?;
    }
    let now = Break { before: header.revision, after, when: Some(when), kind: BreakKind::Restored };
    for lost in header.breaks.iter().chain([&now]) {
        breaks::add(txn, lost).map_err(database::failed(path))?;
    }
    Ok(contents)
}

/// Moves the new directory to its final path; the old one is at `aside` afterwards.
fn exchange(staged: &Path, dir: &Path, aside: Option<PathBuf>) -> Result<Option<PathBuf>> {
    let failed = cannot("put the restored store in the place of", dir);
    if swap(staged, dir).map_err(&failed)? {
        match &aside {
            Some(aside) => fs::rename(staged, aside).map_err(&failed)?,
            // It contained only a lock file.
            None => fs::remove_dir_all(staged).map_err(&failed)?,
        }
    } else {
        // The file system does not support the exchange. After a crash between the two renames there is no store at the
        // path; it is not started empty, and both stores are beside it.
        let old = aside.clone().unwrap_or_else(|| staged.with_extension("empty"));
        fs::rename(dir, &old).and_then(|()| fs::rename(staged, dir)).map_err(&failed)?;
        if aside.is_none() {
            fs::remove_dir_all(&old).map_err(&failed)?;
        }
    }
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent).and_then(|parent| parent.sync_all()).map_err(&failed)?;
    Ok(aside)
}

/// Exchanges two directories in one step; false where the file system cannot.
#[cfg(target_os = "linux")]
fn swap(one: &Path, other: &Path) -> std::io::Result<bool> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).map_err(std::io::Error::from) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(not(target_os = "linux"))]
fn swap(_one: &Path, _other: &Path) -> std::io::Result<bool> {
    Ok(false)
}
