//! The directory of a store: its lock, and the check that the files in it belong together.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::mark::{self, Found};
use crate::{Error, Result};

/// A file that a person creates to have a store begin empty where one is missing. It counts once.
const START_EMPTY: &str = "start-empty";
/// A file that a person creates to have a store open although acknowledged writes are missing. It counts once.
const ACCEPT_LOSS: &str = "accept-loss";

/// The files of a store.
#[derive(Clone, Debug)]
pub(super) struct Files {
    dir: PathBuf,
}

impl Files {
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    pub fn database(&self) -> PathBuf {
        self.dir.join("store.sqlite")
    }

    pub fn log(&self) -> PathBuf {
        self.dir.join("store.sqlite-wal")
    }

    pub fn mark(&self) -> PathBuf {
        self.dir.join("store.mark")
    }

    /// SQLite's index of the log, which it makes when it needs it.
    pub fn shared_index(&self) -> PathBuf {
        self.dir.join("store.sqlite-shm")
    }

    /// Whether there is anything of a store.
    pub fn hold_a_store(&self) -> bool {
        self.all().iter().any(|path| path.exists())
    }

    pub fn all(&self) -> [PathBuf; 3] {
        [self.database(), self.log(), self.mark()]
    }

    /// The next steps after lost writes, for messages.
    pub fn how_to_accept_loss(&self) -> String {
        format!(
            "restore {} from a backup, or create the file {} to go on with what is left (the acknowledged writes are lost)",
            self.dir.display(),
            self.dir.join(ACCEPT_LOSS).display()
        )
    }

    pub fn loss_is_accepted(&self) -> bool {
        self.dir.join(ACCEPT_LOSS).exists()
    }

    /// The request to accept a loss has been met.
    pub fn forget_acceptance(&self) -> io::Result<()> {
        fs::remove_file(self.dir.join(ACCEPT_LOSS))?;
        File::open(&self.dir)?.sync_all()
    }

    pub fn directory(&self) -> &Path {
        &self.dir
    }

    fn missing(&self) -> Error {
        let (database, start_empty) = (self.database(), self.dir.join(START_EMPTY));
        let why = format!(
            "{} is missing or empty, although there was a store here: restore {} from a backup, or create the file {} to begin \
             with an empty store",
            database.display(),
            self.dir.display(),
            start_empty.display()
        );
        Error::Failed(why.into())
    }
}

/// A directory that this process alone may use, until this is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    /// The locks. That of the directory holds even if the lock file is removed; that of the lock file excludes older
    /// versions of this program, which lock only this file.
    locks: Vec<File>,
}

/// Closing the files is not enough: a child process that is being started holds copies until it runs its program.
impl Drop for Claim {
    fn drop(&mut self) {
        for lock in &self.locks {
            // A lock that cannot be released ends with its last copy.
            let _ = lock.unlock();
        }
    }
}

/// Makes the directory if need be, readable by its owner alone: it holds secrets.
fn make(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    if fs::metadata(dir)?.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    match fs::set_permissions(dir, Permissions::from_mode(0o700)) {
        // A volume of another owner, as in pods: the owner controls its permissions.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        other => other,
    }
}

/// Two processes on one store would each acknowledge writes that the other does not see.
pub(super) fn claim(dir: &Path) -> Result<Claim> {
    let failed =
        |path: &Path, error: io::Error| Error::Failed(format!("cannot open {}: {error}", path.display()).into());
    make(dir).map_err(|error| leads_nowhere(dir).unwrap_or_else(|| failed(dir, error)))?;
    let lock_file = dir.join("store.lock");
    let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_file);
    let locks =
        vec![File::open(dir).map_err(|error| failed(dir, error))?, opened.map_err(|error| failed(&lock_file, error))?];
    for (lock, path) in locks.iter().zip([dir, &lock_file]) {
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let why = format!("{} is in use by another process; stop it, or use another directory", dir.display());
                return Err(Error::Failed(why.into()));
            }
            Err(TryLockError::Error(error)) => return Err(not_locked(path, &error)),
        }
    }
    Ok(Claim { locks })
}

/// Claims an existing directory without creating a file in it; `None` if another process has it open.
pub(super) fn try_claim(dir: &Path) -> Result<Option<Claim>> {
    let lock =
        File::open(dir).map_err(|error| Error::Failed(format!("cannot open {}: {error}", dir.display()).into()))?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(Claim { locks: vec![lock] })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(not_locked(dir, &error)),
    }
}

/// A file system that has no locks, as some of a network.
fn not_locked(path: &Path, error: &io::Error) -> Error {
    let why = format!(
        "cannot lock {}: {error}; a store needs a file system with file locks, such as that of a local disk",
        path.display()
    );
    Error::Failed(why.into())
}

/// Why a directory cannot be made behind a symbolic link, for example to a volume that is not mounted.
fn leads_nowhere(dir: &Path) -> Option<Error> {
    let link = dir.ancestors().find(|path| path.is_symlink() && !path.exists())?;
    let target = fs::read_link(link).unwrap_or_default();
    let why = format!(
        "cannot open {}: {} is a symbolic link to {}, which does not exist; mount or create it, or remove the link",
        dir.display(),
        link.display(),
        target.display()
    );
    Some(Error::Failed(why.into()))
}

/// Refuses symbolic links in place of files: SQLite stores its log beside the target of a link, where it is neither
/// verified nor backed up with the directory.
pub(super) fn refuse_links(files: &Files) -> Result<()> {
    let is_link = |path: &&PathBuf| fs::symlink_metadata(path).is_ok_and(|data| data.is_symlink());
    let Some(path) = files.all().iter().find(is_link).cloned() else { return Ok(()) };
    let why = format!(
        "{} is a symbolic link: move the file to its place, or link the whole directory {}",
        path.display(),
        files.dir.display()
    );
    Err(Error::Failed(why.into()))
}

/// Whether the database may be created if it has no tables, given the files in the directory. `must_exist`: there was a
/// store before.
pub(super) fn may_create(files: &Files, found: &Found, must_exist: bool) -> Result<bool> {
    let length = |path: &Path| fs::metadata(path).ok().map(|data| data.len());
    let database = length(&files.database());
    // The process ended while it created the store; the mark is written before the tables.
    let begun = match found {
        Found::Readable(content) => content.creating,
        Found::Missing => !must_exist,
        Found::Unreadable => false,
    };
    if database.is_some_and(|length| length > 0) {
        return Ok(begun);
    }
    let start_empty = files.dir.join(START_EMPTY);
    if start_empty.exists() {
        begin_empty(files, &start_empty)
            .map_err(|error| Error::Failed(format!("cannot clear {}: {error}", files.dir.display()).into()))?;
        tracing::warn!(directory = %files.dir.display(), "the store begins empty, as requested by the file start-empty");
        return Ok(true);
    }
    // A log without a database was a store.
    let log_alone = *found == Found::Missing && database.is_none() && length(&files.log()).is_some();
    if begun && !log_alone { Ok(true) } else { Err(files.missing()) }
}

/// Removes the remaining files of a store without a database.
fn begin_empty(files: &Files, request: &Path) -> io::Result<()> {
    for path in files.all().iter().chain([&files.shared_index()]) {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::remove_file(request)?;
    File::open(&files.dir)?.sync_all()
}

/// Reads the mark.
pub(super) fn read_mark(files: &Files) -> Result<Found> {
    mark::read(&files.mark())
        .map_err(|error| Error::Failed(format!("cannot read {}: {error}", files.mark().display()).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_directory_is_free_although_a_child_holds_copies_of_the_locks() {
        let directory = tempfile::tempdir().expect("a directory");
        let first = claim(directory.path()).expect("it is free");
        let copies = first.locks.iter().map(|lock| lock.try_clone().expect("a copy")).collect::<Vec<_>>();
        claim(directory.path()).expect_err("it is claimed");
        drop(first);
        claim(directory.path()).expect("it is free again");
        drop(copies);
    }

    #[test]
    fn a_link_to_a_missing_directory_is_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let link = directory.path().join("data");
        std::os::unix::fs::symlink("/volumes/unmounted", &link).expect("a link");
        for store in [link.clone(), link.join("store")] {
            let error = claim(&store).expect_err("no volume is mounted").to_string();
            let named = format!("{} is a symbolic link to /volumes/unmounted, which does not exist", link.display());
            assert!(error.contains(&named), "{error}");
        }
    }
}
