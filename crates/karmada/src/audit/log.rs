//! The audit log: a file that is rotated by size, or standard output.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::audit::Event;
use anyhow::Context as _;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use world::World;

use super::Writer;

/// The time of a rotation in the name of the rotated file, in upstream's format.
const STAMP: &str = "%Y-%m-%dT%H-%M-%S%.3f";

/// `--audit-log-format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Json,
    Legacy,
}

impl Format {
    pub(super) fn encoder(self) -> fn(&Event) -> String {
        match self {
            Self::Json => Event::to_json,
            Self::Legacy => Event::to_legacy,
        }
    }
}

/// The flags `--audit-log-*`.
#[derive(Clone, Debug)]
pub struct Log {
    /// `-` is standard output, which is never rotated.
    pub path: PathBuf,
    pub format: Format,
    /// The size after which the file is rotated, in bytes.
    pub max_size: u64,
    /// The maximum number of rotated files; 0: unlimited.
    pub max_backups: usize,
    /// The age after which a rotated file is removed; zero: never.
    pub max_age: Duration,
    /// Whether rotated files are compressed.
    pub compress: bool,
    pub world: World,
}

impl Log {
    pub(super) fn open(&self) -> anyhow::Result<LogWriter> {
        if self.path == Path::new("-") {
            let file = LogFile { to: self.clone(), file: None, size: 0, tidying: Arc::default() };
            return Ok(LogWriter(Mutex::new(file)));
        }
        let opened = self.open_file();
        let (file, size) = opened.with_context(|| format!("--audit-log-path {}", self.path.display()))?;
        let file = LogFile { to: self.clone(), file: Some(file), size, tidying: Arc::default() };
        Ok(LogWriter(Mutex::new(file)))
    }

    fn open_file(&self) -> io::Result<(File, u64)> {
        if let Some(parent) = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            std::fs::create_dir_all(parent)?;
        }
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&self.path)?;
        let size = file.metadata()?.len();
        Ok((file, size))
    }

    /// `audit-2006-01-02T15-04-05.000.log` for `audit.log`, at `now` or the next millisecond whose name is free.
    fn rotated(&self, mut now: Timestamp) -> io::Result<PathBuf> {
        let (stem, extension) = self.parts();
        loop {
            let name = format!("{stem}-{}{extension}", now.strftime(STAMP));
            let (plain, packed) = (self.path.with_file_name(&name), self.path.with_file_name(format!("{name}.gz")));
            if !plain.try_exists()? && !packed.try_exists()? {
                return Ok(plain);
            }
            now += Duration::from_millis(1);
        }
    }

    fn parts(&self) -> (String, String) {
        let text =
            |part: Option<&std::ffi::OsStr>| part.map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        let extension = text(self.path.extension());
        (text(self.path.file_stem()), if extension.is_empty() { extension } else { format!(".{extension}") })
    }

    /// Removes and compresses rotated files.
    fn tidy(&self, now: Timestamp) -> io::Result<()> {
        let directory = self.path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let (stem, extension) = self.parts();
        let mut found = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let Some(time) = time_of(&name, &stem, &extension) else { continue };
            // A crash between the two steps of compression left both files.
            if directory.join(format!("{name}.gz")).try_exists()? {
                std::fs::remove_file(directory.join(name))?;
            } else {
                found.push((time, name));
            }
        }
        for (name, keep) in kept(found, now, self.max_backups, self.max_age) {
            let path = directory.join(&name);
            if !keep {
                std::fs::remove_file(path)?;
            } else if self.compress && !name.ends_with(".gz") {
                compress(&path)?;
            }
        }
        Ok(())
    }
}

/// The time in the name of a rotated file of this log; `None` for every other file.
fn time_of(name: &str, stem: &str, extension: &str) -> Option<Timestamp> {
    let name = name.strip_suffix(".gz").unwrap_or(name);
    let stamp = name.strip_prefix(stem)?.strip_prefix('-')?.strip_suffix(extension)?;
    let time = jiff::civil::DateTime::strptime("%Y-%m-%dT%H-%M-%S%.f", stamp).ok()?;
    time.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|time| time.timestamp())
}

/// Which rotated files stay: the newest `count` (0: all) that are not older than `age` (zero: any age).
fn kept(mut files: Vec<(Timestamp, String)>, now: Timestamp, count: usize, age: Duration) -> Vec<(String, bool)> {
    files.sort_by(|a, b| b.cmp(a));
    let is_young = |time: Timestamp| age.is_zero() || now.duration_since(time).unsigned_abs() <= age || time > now;
    let keep = |place: usize, time: Timestamp| (count == 0 || place < count) && is_young(time);
    files.into_iter().enumerate().map(|(place, (time, name))| (name, keep(place, time))).collect()
}

/// The compressed file has its name once it is complete.
fn compress(path: &Path) -> io::Result<()> {
    let with = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let (part, target) = (with(".gz.part"), with(".gz"));
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut encoder = GzEncoder::new(options.open(&part)?, Compression::default());
    io::copy(&mut File::open(path)?, &mut encoder)?;
    encoder.finish()?.sync_all()?;
    std::fs::rename(part, target)?;
    std::fs::remove_file(path)
}

pub(super) struct LogWriter(Mutex<LogFile>);

struct LogFile {
    to: Log,
    /// `None`: standard output, or a rotation failed half way.
    file: Option<File>,
    size: u64,
    /// Held while rotated files are removed and compressed.
    tidying: Arc<Mutex<()>>,
}

impl LogFile {
    fn append(&mut self, lines: &str) -> io::Result<()> {
        if self.to.path == Path::new("-") {
            return io::stdout().lock().write_all(lines.as_bytes());
        }
        let length = lines.len() as u64;
        if self.size > 0 && self.size + length > self.to.max_size {
            self.rotate()?;
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let (file, size) = self.to.open_file()?;
                self.size = size;
                self.file.insert(file)
            }
        };
        file.write_all(lines.as_bytes())?;
        self.size += length;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let now = self.to.world.now();
        self.file = None;
        std::fs::rename(&self.to.path, self.to.rotated(now)?)?;
        let (file, size) = self.to.open_file()?;
        (self.file, self.size) = (Some(file), size);
        let (log, tidying) = (self.to.clone(), Arc::clone(&self.tidying));
        tokio::task::spawn_blocking(move || {
            let _alone = tidying.lock();
            if let Err(error) = log.tidy(now) {
                tracing::warn!(path = %log.path.display(), err = %error, "Rotated audit logs cannot be removed or compressed");
            }
        });
        Ok(())
    }
}

impl Writer for LogWriter {
    fn name(&self) -> &'static str {
        "log"
    }

    /// One after another, so that the lines have the order of the events.
    fn concurrency(&self) -> usize {
        1
    }

    fn write(&self, events: Vec<String>) -> BoxFuture<'_, Result<(), String>> {
        let mut lines = events.join("\n");
        lines.push('\n');
        let mut file = self.0.lock();
        let written = file.append(&lines).map_err(|error| format!("{}: {error}", file.to.path.display()));
        std::future::ready(written).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(path: &Path, max_size: u64) -> Log {
        let world = World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 1);
        let max_age = Duration::ZERO;
        Log { path: path.to_owned(), format: Format::Json, max_size, max_backups: 2, max_age, compress: true, world }
    }

    #[test]
    fn rotated_files_of_this_log_are_recognized() {
        let time = |name: &str| time_of(name, "audit", ".log").map(|time| time.to_string());
        assert_eq!(time("audit-2026-11-21T01-02-03.456.log").as_deref(), Some("2026-11-21T01:02:03.456Z"));
        assert_eq!(time("audit-2026-11-21T01-02-03.456.log.gz").as_deref(), Some("2026-11-21T01:02:03.456Z"));
        for other in
            ["audit.log", "audit-x.log", "audits-2026-11-21T01-02-03.456.log", "audit-2026-11-21T01-02-03.456.txt"]
        {
            assert_eq!(time(other), None, "{other}");
        }
    }

    #[test]
    fn the_newest_and_young_files_stay() {
        let at = |second: i64| Timestamp::from_second(second).expect("a time");
        let files = || (1..=4).map(|second| (at(second * 10), second.to_string())).collect();
        let names = |count, age| -> Vec<String> {
            let found = kept(files(), at(50), count, Duration::from_secs(age));
            found.into_iter().filter(|(_, keep)| *keep).map(|(name, _)| name).collect()
        };
        assert_eq!(names(0, 0), ["4", "3", "2", "1"]);
        assert_eq!(names(2, 0), ["4", "3"]);
        assert_eq!(names(0, 25), ["4", "3"]);
        assert_eq!(names(1, 25), ["4"]);
    }

    #[tokio::test]
    async fn a_full_file_is_rotated_and_compressed() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("deep/audit.log");
        let writer = log(&path, 10).open().expect("a log");
        for line in ["first", "second", "third"] {
            writer.write(vec![line.to_owned()]).await.expect("written");
        }
        assert_eq!(std::fs::read_to_string(&path).expect("the log"), "third\n");
        let rotated = || {
            let entries = std::fs::read_dir(directory.path().join("deep")).expect("a directory");
            let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
            names.filter(|name| name != "audit.log").collect::<Vec<_>>()
        };
        while !rotated().iter().all(|name| name.ends_with(".log.gz")) {
            tokio::task::yield_now().await;
        }
        // The clock does not advance here, and both files have different names.
        assert_eq!(rotated().len(), 2);
        // After a restart it continues the file.
        let again = log(&path, 100).open().expect("a log");
        again.write(vec!["fourth".to_owned(), "fifth".to_owned()]).await.expect("written");
        assert_eq!(std::fs::read_to_string(&path).expect("the log"), "third\nfourth\nfifth\n");
    }
}
