//! Backups at intervals into a directory, and their retention.
//!
//! The time of the next backup and the expired ones are functions of the file names, which contain the times.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use metrics::{Counters, Description, Gauges, Registry};
use storage::embedded::EmbeddedStore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use world::{Moment, World};

use super::{Last, file, keys, stamp};

const LAST: Description = Description::gauge(
    "karmada_store_backup_last_success_timestamp_seconds",
    &[],
    "Time of the last verified scheduled backup, in seconds since 1970.",
);
const SIZE: Description =
    Description::gauge("karmada_store_backup_last_size_bytes", &[], "Size of the last scheduled backup in bytes.");
const TAKEN: Description =
    Description::counter("karmada_store_backups_total", &["result"], "Scheduled backups by result: success or error.");
pub const METRICS: &[Description] = &[LAST, SIZE, TAKEN];

/// Delay after a start.
const AFTER_START: Duration = Duration::from_secs(10);
/// Delay after a failure.
const RETRY: Duration = Duration::from_secs(60);

/// Directory and interval of backups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub directory: PathBuf,
    pub interval: Duration,
    pub retention: Retention,
    /// Whether they contain the keys of the data directory.
    pub with_keys: bool,
}

/// Retention of backups. The newest is always kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub count: usize,
    /// Older ones expire.
    pub age: Option<Duration>,
}

/// A backup of a schedule, identified by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taken {
    pub time: Timestamp,
    pub name: String,
}

const PREFIX: &str = "karmada-";
const SUFFIX: &str = ".backup";

fn name_at(now: Timestamp, revision: u64) -> String {
    format!("{PREFIX}{}-r{revision}{SUFFIX}", stamp(now))
}

/// Parses a name; other files are ignored.
fn taken(name: &str) -> Option<Taken> {
    let (time, revision) = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.split_once("-r")?;
    let parsed = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", time).ok()?;
    let time = parsed.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
    revision.parse::<u64>().ok()?;
    Some(Taken { time, name: name.to_owned() })
}

/// The time until the next backup.
fn wait(newest: Option<Timestamp>, now: Timestamp, interval: Duration) -> Duration {
    let age = newest.map(|newest| now.duration_since(newest));
    match age.map(Duration::try_from) {
        Some(Ok(age)) => interval.saturating_sub(age).max(AFTER_START),
        // No backup yet, or the clock was ahead.
        None | Some(Err(_)) => AFTER_START,
    }
}

/// The names of expired backups, given all sorted by time. The newest was verified just now and never expires.
fn expired(taken: &[Taken], since: impl Fn(Timestamp) -> SignedDuration, retention: &Retention) -> Vec<String> {
    let old = |it: &Taken| match (retention.age, Duration::try_from(since(it.time))) {
        (Some(most), Ok(age)) => age > most,
        _ => false,
    };
    let surplus = taken.len().saturating_sub(retention.count.max(1));
    let (_, before) = taken.split_last().map_or((None, &[][..]), |(newest, before)| (Some(newest), before));
    let expired = before.iter().enumerate().filter(|(place, it)| *place < surplus || old(it));
    expired.map(|(_, it)| it.name.clone()).collect()
}

/// The backups in a directory, oldest first.
fn list(directory: &Path) -> std::io::Result<Vec<Taken>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        found.extend(entry?.file_name().to_str().and_then(taken));
    }
    found.sort();
    Ok(found)
}

/// Creates the directory and checks that it can be used.
///
/// # Errors
/// The directory cannot be created.
pub fn check(plan: &Plan) -> anyhow::Result<()> {
    anyhow::ensure!(plan.interval >= Duration::from_secs(60), "--backup-interval must be at least 1m");
    pki::files::private_directory(&plan.directory).context("--backup-dir")
}

/// Takes backups until `stop`.
pub fn start(
    plan: Plan,
    store: EmbeddedStore,
    data_dir: &Path,
    registry: &Registry,
    world: &World,
    stop: CancellationToken,
) -> JoinHandle<()> {
    let shown = Shown { last: registry.gauges(&LAST), size: registry.gauges(&SIZE), taken: registry.counters(&TAKEN) };
    ["success", "error"].iter().for_each(|result| shown.taken.add(&[result], 0));
    let schedule = Schedule { plan, store, data_dir: data_dir.to_owned(), world: world.clone(), shown, failing: false };
    tokio::spawn(schedule.run(stop))
}

struct Shown {
    last: Gauges,
    size: Gauges,
    taken: Counters,
}

struct Schedule {
    plan: Plan,
    store: EmbeddedStore,
    data_dir: PathBuf,
    world: World,
    shown: Shown,
    failing: bool,
}

impl Schedule {
    async fn run(mut self, stop: CancellationToken) {
        let newest = list(&self.plan.directory).ok().and_then(|found| found.last().map(|it| it.time));
        if let Some(newest) = newest {
            self.shown.last.set(&[], newest.as_second() as f64);
        }
        let mut delay = wait(newest, self.world.now(), self.plan.interval);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(delay) => {}
            }
            let taken = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                taken = self.take() => taken,
            };
            delay = if taken.is_ok() { self.plan.interval } else { RETRY.min(self.plan.interval) };
            self.report(taken);
        }
    }

    async fn take(&self) -> anyhow::Result<Last> {
        let moment = self.world.moment();
        let now = moment.now();
        let files = if self.plan.with_keys { keys::read(&self.data_dir)? } else { Vec::new() };
        let backup = self.store.backup(now.into(), files).context("reading the store")?;
        let revision = backup.header().revision;
        let file = self.plan.directory.join(name_at(now, revision));
        file::remove_partial(&self.plan.directory, PREFIX).context("removing an unfinished backup")?;
        let contents = file::save(file::pieces(backup), &file, &mut |_| {}).await?;
        let last = Last { time: now, revision, bytes: contents.length, file };
        // The backup exists whether or not these succeed.
        for done in [self.expire(&moment), last.write(&self.data_dir)] {
            if let Err(error) = done {
                tracing::warn!(err = format!("{error:#}"), "A backup is taken; what follows it fails");
            }
        }
        Ok(last)
    }

    /// Removes expired backups, after a new one was verified.
    fn expire(&self, moment: &Moment) -> anyhow::Result<()> {
        let directory = &self.plan.directory;
        let attempt = || format!("removing expired backups in {}", directory.display());
        let taken = list(directory).with_context(attempt)?;
        for name in expired(&taken, |at| moment.since(at), &self.plan.retention) {
            std::fs::remove_file(directory.join(&name)).with_context(attempt)?;
            tracing::debug!(name, "An expired backup is removed");
        }
        Ok(())
    }

    /// Logs a failure once, and its end.
    fn report(&mut self, taken: anyhow::Result<Last>) {
        match taken {
            Ok(last) => {
                self.shown.taken.increment(&["success"]);
                self.shown.last.set(&[], last.time.as_second() as f64);
                self.shown.size.set(&[], last.bytes as f64);
                let file = last.file.display();
                if std::mem::replace(&mut self.failing, false) {
                    tracing::info!(%file, bytes = last.bytes, "Backups succeed again");
                } else {
                    tracing::debug!(%file, bytes = last.bytes, revision = last.revision, "A backup is taken");
                }
            }
            Err(error) => {
                self.shown.taken.increment(&["error"]);
                if !std::mem::replace(&mut self.failing, true) {
                    let directory = self.plan.directory.display();
                    let err = format!("{error:#}");
                    tracing::error!(%directory, err, "Backups fail and are retried; earlier ones are kept");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn names_hold_the_time() {
        let now = at("2026-11-23T02:03:04Z");
        let name = name_at(now, 812);
        assert_eq!(name, "karmada-20261123T020304Z-r812.backup");
        assert_eq!(taken(&name), Some(Taken { time: now, name }));
        for other in ["karmada-20261123T020304Z-r812.backup.partial", "karmada-x-r1.backup", "notes", "karmada-.backup"]
        {
            assert_eq!(taken(other), None, "{other}");
        }
    }

    #[test]
    fn the_next_one_is_due_an_interval_after_the_newest() {
        let (now, hour) = (at("2026-11-23T02:00:00Z"), Duration::from_secs(3600));
        for (newest, expected) in [
            (None, AFTER_START),
            (Some("2026-11-22T00:00:00Z"), AFTER_START),
            (Some("2026-11-23T01:30:00Z"), hour / 2),
            (Some("2026-11-23T01:00:01Z"), AFTER_START),
            (Some("2026-11-24T00:00:00Z"), AFTER_START),
        ] {
            assert_eq!(wait(newest.map(at), now, hour), expected, "{newest:?}");
        }
    }

    #[test]
    fn the_newest_never_expires() {
        let now = at("2026-11-23T12:00:00Z");
        let hours = [1_u32, 4, 6, 9];
        let all: Vec<Taken> = hours
            .iter()
            .map(|hour| Taken { time: at(&format!("2026-11-23T0{hour}:00:00Z")), name: hour.to_string() })
            .collect();
        let hour = |n: u64| Some(Duration::from_secs(3600 * n));
        for (count, age, expected) in [
            (9, None, vec![]),
            (4, None, vec![]),
            (2, None, vec!["1", "4"]),
            (0, None, vec!["1", "4", "6"]),
            (9, hour(7), vec!["1", "4"]),
            (1, hour(1), vec!["1", "4", "6"]),
            (3, hour(7), vec!["1", "4"]),
        ] {
            assert_eq!(
                expired(&all, |at| now.duration_since(at), &Retention { count, age }),
                expected,
                "{count} {age:?}"
            );
        }
        assert!(expired(&[], |at| now.duration_since(at), &Retention { count: 1, age: None }).is_empty());
    }
}
