//! Writes files of key material: atomically, and without overwriting existing files unless requested.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::Error;

/// Permission bits of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Readable by its owner only (0600): keys, kubeconfigs.
    Private,
    /// Readable by all users (0644): certificates.
    Public,
}

impl Access {
    fn mode(self) -> u32 {
        match self {
            Self::Private => 0o600,
            Self::Public => 0o644,
        }
    }
}

/// Creates the directory if absent, and restricts it to its owner (0700).
pub fn private_directory(path: &Path) -> Result<(), Error> {
    let make = || -> std::io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(path)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            if fs::metadata(path)?.permissions().mode() & 0o077 != 0 {
                match fs::set_permissions(path, fs::Permissions::from_mode(0o700)) {
                    // A volume of another owner, as in pods: its owner controls access.
                    Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
                    other => other?,
                }
            }
        }
        Ok(())
    };
    make().map_err(|error| failed("create the directory", path, error))
}

/// `None` if the file does not exist. Any other failure is an error, so that an unreadable key is not recreated.
pub fn read(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path, error)),
    }
}

/// The names of the files in a directory, sorted; empty if it does not exist.
pub fn names(directory: &Path) -> Result<Vec<String>, Error> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries.collect::<std::io::Result<Vec<_>>>(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => Err(error),
    };
    let entries = entries.map_err(|error| failed("read the directory", directory, error))?;
    let mut names: Vec<String> = entries.iter().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

/// Replaces the file: writes a temporary file, syncs it, renames it, and syncs the directory. After a crash the file
/// has either the old or the new content.
pub fn replace(path: &Path, content: &[u8], access: Access) -> Result<(), Error> {
    let staged = stage(path, content, access)?;
    crash::point(path)?;
    fs::rename(&staged, path).map_err(|error| failed("rename", path, error))?;
    crash::point(path)?;
    sync_directory(path)
}

/// Creates the file, or fails with [`ErrorKind::AlreadyExists`] without changes. It uses a hard link because a rename
/// would replace.
pub fn create_new(path: &Path, content: &[u8], access: Access) -> Result<(), Error> {
    let staged = stage(path, content, access)?;
    crash::point(path)?;
    let linked = fs::hard_link(&staged, path).map_err(|error| failed("create", path, error));
    crash::point(path)?;
    // The temporary name is now a second name of the same file.
    fs::remove_file(&staged).map_err(|error| failed("remove", &staged, error))?;
    linked?;
    crash::point(path)?;
    sync_directory(path)
}

/// Removes the file if it exists.
pub fn remove(path: &Path) -> Result<(), Error> {
    crash::point(path)?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed("remove", path, error)),
        _ => Ok(()),
    }
}

fn stage(path: &Path, content: &[u8], access: Access) -> Result<PathBuf, Error> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    let staged = path.with_file_name(name);
    // A leftover of a crash is unused: it was never renamed.
    match fs::remove_file(&staged) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed("remove", &staged, error)),
        _ => {}
    }
    crash::point(path)?;
    let mut file = open_new(&staged, access).map_err(|error| failed("create", &staged, error))?;
    crash::point(path)?;
    file.write_all(content).and_then(|()| file.sync_all()).map_err(|error| failed("write", &staged, error))?;
    Ok(staged)
}

fn open_new(path: &Path, access: Access) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, access.mode());
    options.open(path)
}

fn sync_directory(path: &Path) -> Result<(), Error> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent).and_then(|directory| directory.sync_all()).map_err(|error| failed("sync", parent, error))
}

pub(crate) fn failed(attempt: &'static str, path: &Path, source: std::io::Error) -> Error {
    Error::File { attempt, path: path.display().to_string(), source }
}

/// The process may end between any two changes of the file system.
#[cfg(not(test))]
mod crash {
    #[allow(clippy::unnecessary_wraps, reason = "tests end here")]
    pub fn point(_path: &std::path::Path) -> Result<(), crate::Error> {
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod crash {
    use std::cell::Cell;

    thread_local! {
        static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
    }

    /// Ends the process after this many points; `None` never.
    pub fn after(points: Option<usize>) {
        LEFT.set(points);
    }

    pub fn point(path: &std::path::Path) -> Result<(), crate::Error> {
        match LEFT.get() {
            None => Ok(()),
            // An ended process stays ended.
            Some(0) => Err(super::failed("crash at", path, std::io::Error::other("the process ended"))),
            Some(left) => {
                LEFT.set(Some(left - 1));
                Ok(())
            }
        }
    }
}
