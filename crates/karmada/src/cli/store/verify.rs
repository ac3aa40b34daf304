//! `karmada store verify`.

use std::path::{Path, PathBuf};

use clap::Args;
use storage::embedded::backup::verify_backup;
use storage::embedded::inspect::verify_store;

use super::super::print;
use super::{DataDirArgs, Progress, count, ensure_store, size, time};
use crate::data_dir::DataDir;

#[derive(Args)]
pub(super) struct VerifyArgs {
    /// A backup, or the directory of a store; the store of the data directory if not given
    #[arg(conflicts_with = "data_dir")]
    path: Option<PathBuf>,
    #[command(flatten)]
    data_dir: DataDirArgs,
}

pub(super) fn run(args: &VerifyArgs) -> anyhow::Result<()> {
    let path = args.path.clone().unwrap_or_else(|| DataDir::store(&args.data_dir.data_dir));
    if args.path.is_some() && !path.exists() {
        anyhow::bail!("{} does not exist: name a backup, or the directory of a store", path.display());
    }
    if args.path.is_none() {
        ensure_store(&args.data_dir.data_dir)?;
    }
    if path.is_file() { backup(&path) } else { store(&path) }
}

fn backup(path: &Path) -> anyhow::Result<()> {
    let mut progress = Progress::new("verifying");
    let contents = verify_backup(path, &mut |done, total| progress.of(done, total))?;
    drop(progress);
    let keys = if contents.files.is_empty() { "without keys" } else { "with keys" };
    print(&format!(
        "{} is sound: revision {}, {}, {}, {keys}, taken {}\n",
        path.display(),
        contents.header.revision,
        count(contents.objects, "object"),
        size(contents.length),
        time(contents.header.when),
    ));
    Ok(())
}

fn store(path: &Path) -> anyhow::Result<()> {
    // For a data directory, its store is verified.
    let inside = DataDir::store(path);
    let path = if inside.is_dir() { &inside } else { path };
    let mut progress = Progress::new("verifying");
    let verified = verify_store(path, &mut |done, total| progress.of(done, total))?;
    drop(progress);
    if verified.damaged.is_empty() {
        let (rows, revision) = (count(verified.rows, "row"), verified.revision);
        print(&format!("{} is sound: revision {revision}, {rows}\n", path.display()));
        if verified.in_use {
            eprintln!("notice: a server has the store open; its log file is verified when it starts");
        }
        return Ok(());
    }
    for place in &verified.damaged {
        eprintln!("damaged: {place}");
    }
    let places = count(verified.damaged.len() as u64, "damaged place");
    anyhow::bail!(
        "{} has {places}: stop the server and restore a backup with `karmada store restore FILE --replace`; \
         docs/data-integrity.md has the other ways",
        path.display()
    )
}
