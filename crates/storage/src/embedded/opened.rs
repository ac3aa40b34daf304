//! Checks that the files of an open store are still in its directory. Writes to a file that was removed or replaced
//! would be lost with the process.
//!
//! Every commit checks the files. The common case is one system call: a file cannot be removed or replaced without a
//! change of its directory.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::directory::Files;
use crate::{Error, Result};

/// The kernel takes the time of a change from a clock that ticks at least every 10 ms. Two changes within one tick have
/// the same time, so a directory counts as unchanged only after its time has not changed for longer.
const SETTLES: Duration = Duration::from_millis(50);
/// The files themselves are checked this often even if the directory is unchanged, as under a file mounted over another.
const LONGEST: Duration = Duration::from_secs(1);

/// The files that are open.
#[derive(Debug)]
pub(super) struct Opened {
    directory: PathBuf,
    files: Vec<(PathBuf, Option<(u64, u64)>)>,
    latest: Mutex<Option<Check>>,
}

/// A directory, and the time of its last change.
type Stamp = (u64, u64, i64, i64);

/// When the directory first had its current time, and when its files were last verified since then.
#[derive(Clone, Copy, Debug)]
struct Check {
    directory: Stamp,
    since: Instant,
    files: Instant,
}

impl Check {
    /// Whether the files are in place if the directory is in this state.
    fn covers(&self, directory: Stamp, now: Instant) -> bool {
        self.directory == directory && self.files - self.since >= SETTLES && now - self.files < LONGEST
    }

    /// The check after the files were found in place.
    fn renewed(latest: Option<Self>, directory: Stamp, now: Instant) -> Self {
        let same = latest.filter(|check| check.directory == directory);
        Self { directory, since: same.map_or(now, |check| check.since), files: now }
    }
}

impl Opened {
    pub fn note(files: &Files) -> Self {
        let directory = files.directory().to_owned();
        let files = files.all().into_iter().map(|path| (path.clone(), identity(&path))).collect();
        Self { directory, files, latest: Mutex::default() }
    }

    /// Fails if a file was removed or replaced.
    pub fn check(&self) -> Result<()> {
        // Later changes make the directory's stamp differ, or are found among the files.
        let now = Instant::now();
        let directory = fs::metadata(&self.directory).ok().map(|data| stamp(&data));
        let mut latest = self.latest.lock();
        if directory.zip(*latest).is_some_and(|(directory, latest)| latest.covers(directory, now)) {
            return Ok(());
        }
        let mut opened = self.files.iter().filter(|(_, opened)| opened.is_some());
        let Some((path, _)) = opened.find(|(path, opened)| identity(path) != *opened) else {
            *latest = directory.map(|directory| Check::renewed(*latest, directory, now));
            return Ok(());
        };
        let why = format!(
            "{} was removed or replaced while the store is open: stop the process, put the files back together or restore \
             them from a backup, and start it again",
            path.display()
        );
        Err(Error::Failed(why.into()))
    }
}

fn stamp(data: &Metadata) -> Stamp {
    (data.dev(), data.ino(), data.ctime(), data.ctime_nsec())
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|data| (data.dev(), data.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unchanged_directory_needs_no_check_of_its_files() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let (one, two) = ((1, 2, 3, 4), (1, 2, 3, 5));
        // (case, the checks of the files, the check of the directory, whether that suffices).
        type Row<'a> = (&'a str, &'a [(Stamp, u64)], (Stamp, u64), bool);
        let rows: [Row<'_>; 7] = [
            ("the first look", &[], (one, 0), false),
            ("one look may be in the tick of a change", &[(one, 0)], (one, 500), false),
            ("so may two in a row", &[(one, 0), (one, 20)], (one, 40), false),
            ("two that lie apart", &[(one, 0), (one, 50)], (one, 51), true),
            ("the directory has changed", &[(one, 0), (one, 50)], (two, 51), false),
            ("it has changed since the first look", &[(one, 0), (two, 100), (two, 120)], (two, 130), false),
            ("the files were not checked for long", &[(one, 0), (one, 50)], (one, 1050), false),
        ];
        for (what, checks, (directory, ms), enough) in rows {
            let latest = checks.iter().fold(None, |latest, (seen, ms)| Some(Check::renewed(latest, *seen, at(*ms))));
            assert_eq!(latest.is_some_and(|check| check.covers(directory, at(ms))), enough, "{what}");
        }
    }

    #[test]
    fn a_removed_file_is_always_detected() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = Files::new(dir.path());
        files.all().iter().for_each(|path| fs::write(path, "x").expect("a file"));
        let opened = Opened::note(&files);
        opened.check().expect("they are in place");
        // As if that had been so for long.
        let now = Instant::now();
        let mut latest = opened.latest.lock();
        let check = latest.as_mut().expect("a look");
        (check.since, check.files) = (now, now + SETTLES);
        drop(latest);
        opened.check().expect("they are in place");
        let (before, elsewhere) = (fs::metadata(dir.path()).map(|data| stamp(&data)), dir.path().join("elsewhere"));
        let before = before.expect("the directory");
        loop {
            fs::rename(files.log(), &elsewhere).expect("a rename");
            // The clock may not have ticked since the files were created.
            if fs::metadata(dir.path()).is_ok_and(|data| stamp(&data) != before) {
                break;
            }
            fs::rename(&elsewhere, files.log()).expect("a rename");
        }
        opened.check().expect_err("the log is gone");
    }
}
