//! `karmada store restore`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use storage::embedded::backup::{Attachment, Contents, Restore, restore, verify_backup};
use storage::embedded::inspect::is_in_use;
use world::World;

use super::super::print;
use super::{DataDirArgs, Progress, count, size, time};
use crate::backups::keys::{self, RestoreAction};
use crate::backups::stamp;
use crate::data_dir::DataDir;

#[derive(Args)]
pub(super) struct RestoreArgs {
    /// The backup
    file: PathBuf,
    #[command(flatten)]
    data_dir: DataDirArgs,
    /// Replace an existing store with the backup; the old store is kept under another name
    #[arg(long)]
    replace: bool,
    /// Verify the backup and print what would be done
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(args: &RestoreArgs, world: &World) -> anyhow::Result<()> {
    let data_dir = &args.data_dir.data_dir;
    let store = DataDir::store(data_dir);
    let mut progress = Progress::new("verifying");
    let contents = verify_backup(&args.file, &mut |done, total| progress.of(done, total))?;
    drop(progress);
    print(&described(&args.file, &contents));
    if store.is_dir() && is_in_use(&store)? {
        anyhow::bail!("{} is in use by a running server; stop it first", store.display());
    }
    let planned = keys::plan(&contents.files, &keys::present(data_dir)?)?;
    let present = store.join("store.sqlite").exists();
    if args.dry_run {
        anyhow::ensure!(!present || args.replace, "{} holds a store already: use --replace", store.display());
        let kept = if present { "; the store that is there would be kept beside it" } else { "" };
        print(&format!("Would be restored to {}{kept}\n{}", store.display(), keys_shown(&planned, true)));
        return Ok(());
    }
    anyhow::ensure!(
        !present || args.replace,
        "{} holds a store already: use --replace to keep it aside and put the backup in its place, or another --data-dir",
        store.display()
    );
    pki::files::private_directory(data_dir)?;
    // The keys first: a start without them would create others, while one without the store is refused.
    keys::restore(data_dir, &planned)?;
    let options = Restore { replace: args.replace, when: world.now().into(), suffix: stamp(world.now()) };
    let mut progress = Progress::new("restoring");
    let restored = restore(&args.file, &store, &options, &mut |done, total| progress.of(done, total))
        .with_context(|| format!("restoring {}", args.file.display()))?;
    drop(progress);
    let mut text = format!("Restored to {}, which continues at revision {}\n", store.display(), restored.revision);
    // Writing to a String cannot fail.
    if let Some(aside) = &restored.aside {
        let _ = writeln!(text, "The store that was there is kept in {}", aside.display());
    }
    text.push_str(&keys_shown(&planned, false));
    text.push_str(&next(data_dir));
    print(&text);
    Ok(())
}

fn described(file: &Path, contents: &Contents) -> String {
    format!(
        "{} is sound: revision {}, {}, {}, taken {}\n",
        file.display(),
        contents.header.revision,
        count(contents.objects, "object"),
        size(contents.length),
        time(contents.header.when)
    )
}

fn keys_shown(planned: &[(Attachment, RestoreAction)], dry_run: bool) -> String {
    if planned.is_empty() {
        return "The backup holds no keys. Where the data directory has none, a start makes new ones: clients, agents and \
                service accounts then need new credentials\n"
            .to_owned();
    }
    let names = |selected: RestoreAction| {
        let names = planned.iter().filter(|(_, action)| *action == selected).map(|(file, _)| file.name.as_str());
        names.collect::<Vec<_>>().join(", ")
    };
    let (put, kept) = (names(RestoreAction::Restore), names(RestoreAction::Kept));
    let mut text = String::new();
    // Writing to a String cannot fail.
    if !put.is_empty() {
        let _ = writeln!(text, "Keys {}: {put}", if dry_run { "that would be put back" } else { "put back" });
    }
    if !kept.is_empty() {
        let _ = writeln!(text, "Keys that differ from the backup's and stay: {kept}");
    }
    text
}

fn next(data_dir: &Path) -> String {
    format!(
        "Next:
  karmada up --data-dir={}   # or karmada apiserver, with the flags it had
  karmadactl resume   # lists the members that are newer than the backup

Nothing is overwritten, deleted or recreated in such a member before `karmadactl resume CLUSTER` confirms it.
",
        data_dir.display()
    )
}
