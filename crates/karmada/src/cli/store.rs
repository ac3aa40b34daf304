//! `karmada store`: operations on the store of a control plane.

mod adopt;
mod backup;
mod copy;
mod etcd;
mod restore;
mod stats;
mod verify;

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use futures::future::LocalBoxFuture;
use world::World;

use crate::data_dir::DataDir;

#[derive(Args)]
pub(super) struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Subcommand)]
enum StoreCommand {
    /// Print the objects, the history, the files and the last backup of a store
    Stats(stats::StatsArgs),
    /// Verify a store or a backup; nothing is changed
    Verify(verify::VerifyArgs),
    /// Take a backup, while the server runs or while it is stopped
    Backup(backup::BackupArgs),
    /// Restore a backup to the data directory of a stopped server
    Restore(restore::RestoreArgs),
    /// Survey the etcd of another control plane, and prepare it for this program
    Adopt(adopt::AdoptArgs),
    /// Copy the store of a stopped control plane between its data directory and etcd
    Copy(copy::CopyArgs),
}

#[derive(Args)]
struct DataDirArgs {
    /// The data directory of the control plane
    #[arg(long, default_value = "karmada-data")]
    data_dir: PathBuf,
}

/// # Errors
/// The data directory of a server has no store.
fn ensure_store(data_dir: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(
        !DataDir::lacks_store(data_dir),
        "{} has no store: the objects of a server with --etcd-servers are in etcd, and `etcdctl snapshot save` backs them up; if \
         the store was removed, restore a backup with `karmada store restore`",
        data_dir.display()
    );
    Ok(())
}

pub(super) fn run(args: StoreArgs, world: &World) -> anyhow::Result<()> {
    match args.command {
        StoreCommand::Stats(args) => stats::run(&args),
        StoreCommand::Verify(args) => verify::run(&args),
        StoreCommand::Backup(args) => run_async(Box::pin(backup::run(&args, world))),
        StoreCommand::Adopt(args) => run_async(Box::pin(adopt::run(&args, world))),
        StoreCommand::Copy(args) => run_async(Box::pin(copy::run(&args, world))),
        StoreCommand::Restore(args) => restore::run(&args, world),
    }
}

/// Runs a command on a runtime, which is compiled for this one kind of future.
fn run_async(running: LocalBoxFuture<'_, anyhow::Result<()>>) -> anyhow::Result<()> {
    super::runtime(1, "tokio-runtime-worker")?.block_on(running)
}

/// Progress on standard error; on a terminal only.
struct Progress {
    what: &'static str,
    terminal: bool,
    shown: u64,
}

impl Progress {
    fn new(what: &'static str) -> Self {
        Self { what, terminal: std::io::stderr().is_terminal(), shown: u64::MAX }
    }

    /// Shows each percent once.
    fn of(&mut self, done: u64, total: u64) {
        let percent = (done * 100).checked_div(total).unwrap_or(100);
        if percent != self.shown {
            self.shown = percent;
            self.show(&format!("{}: {percent} %", self.what));
        }
    }

    /// Shows each megabyte once.
    fn bytes(&mut self, done: u64) {
        if done >> 20 != self.shown {
            self.shown = done >> 20;
            self.show(&format!("{}: {}", self.what, size(done)));
        }
    }

    fn show(&self, text: &str) {
        if self.terminal {
            // Output to a closed terminal is lost.
            let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.show("");
    }
}

/// `1.5 MiB`.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    match (bytes.max(1).ilog2() / 10).min(4) {
        0 => format!("{bytes} B"),
        unit => format!("{:.1} {}", bytes as f64 / (1_u64 << (10 * unit)) as f64, UNITS[unit as usize - 1]),
    }
}

/// `1 object`, `2 objects`.
fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// A moment as Kubernetes writes it.
fn time(when: std::time::SystemTime) -> String {
    jiff::Timestamp::try_from(when).map_or_else(|_| "unknown".to_owned(), |when| when.strftime("%FT%TZ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_600_000, "1.5 MiB"),
            (5 << 40, "5.0 TiB"),
            (1 << 60, "1048576.0 TiB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
        assert_eq!((count(1, "object"), count(0, "row")), ("1 object".to_owned(), "0 rows".to_owned()));
    }
}
