//! `karmada store copy`: a stopped control plane moves between its data directory and etcd.

use std::path::Path;
use std::sync::Arc;

use adoption::transfer::{self, Copied, Target};
use adoption::{installation, reading};
use anyhow::Context as _;
use bytes::Bytes;
use clap::{Args, ValueEnum};
use identity::{EncryptedStore, Encryption};
use storage::embedded::inspect::is_in_use;
use storage::embedded::{EmbeddedStore, Options};
use storage::{KeyRange, RangeRequest, Store};
use world::World;

use super::super::print;
use super::etcd::{Etcd, EtcdPlace};
use super::{DataDirArgs, Progress, count, size};
use crate::backups::stamp;
use crate::data_dir::DataDir;

#[derive(Args)]
pub(super) struct CopyArgs {
    /// Where the objects go
    #[arg(long)]
    to: Direction,
    #[command(flatten)]
    etcd: EtcdPlace,
    #[command(flatten)]
    data_dir: DataDirArgs,
    /// Keep a store that is in the data directory aside, and put the copy in its place
    #[arg(long)]
    replace: bool,
    /// Read the source, check the target, and print what would be copied
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Direction {
    /// From the data directory into etcd
    Etcd,
    /// From etcd into the data directory
    DataDir,
}

pub(super) async fn run(args: &CopyArgs, world: &World) -> anyhow::Result<()> {
    let dir = DataDir::store(&args.data_dir.data_dir);
    if dir.is_dir() && is_in_use(&dir)? {
        anyhow::bail!("{} is in use by a running server; stop it first", dir.display());
    }
    let etcd = args.etcd.open().await?;
    let copied = match args.to {
        Direction::DataDir => into_directory(args, &etcd, &dir, world).await,
        Direction::Etcd => into_etcd(args, &etcd, &dir, world).await,
    };
    etcd.close();
    copied
}

/// The directory's store, as opened by servers.
fn opened(store: Arc<dyn Store>, encryption: Option<&Arc<Encryption>>) -> Arc<dyn Store> {
    match encryption {
        Some(encryption) => Arc::new(EncryptedStore::new(store, Arc::clone(encryption))),
        None => store,
    }
}

async fn into_directory(args: &CopyArgs, etcd: &Etcd, dir: &Path, world: &World) -> anyhow::Result<()> {
    let obstacle = installation::unfinished(&*etcd.store).await.context("reading etcd")?;
    anyhow::ensure!(obstacle.is_none(), "etcd: {}", obstacle.unwrap_or_default());
    let servers = KeyRange::prefix(crate::peers::ROOT);
    let serving =
        etcd.store.range(RangeRequest { range: servers, revision: None, limit: 1 }).await.context("reading etcd")?;
    anyhow::ensure!(
        serving.items.is_empty(),
        "a server of this program uses etcd; stop it first, or wait 15 s if it was killed"
    );
    let present = dir.join("store.sqlite").exists();
    anyhow::ensure!(
        !present || args.replace,
        "{} holds a store already: use --replace to keep it aside, or another --data-dir",
        dir.display()
    );
    let mut progress = Progress::new("copying");
    if args.dry_run {
        let revision = etcd.store.revision().await?;
        let sum = reading::sum(&*etcd.store, revision, &mut |done, total| progress.of(done, total)).await?;
        drop(progress);
        let kept = if present { "; the store that is there would be kept beside it" } else { "" };
        let objects = count(sum.objects, "object");
        print(&format!("{objects}, {}, would be copied to {}{kept}\n", size(sum.bytes), dir.display()));
        return Ok(());
    }
    pki::files::private_directory(&args.data_dir.data_dir)?;
    let encryption = etcd.encryption.as_ref().map(|open| &open.providers);
    let seal = |key: &Bytes, value: Bytes| encryption.map_or(Ok(value.clone()), |it| it.seal(key, key, value));
    let target = Target { seal: &seal, opened: &|store| opened(store, encryption) };
    let place = (args.replace, stamp(world.now()));
    let copied =
        transfer::into_directory(&*etcd.store, dir, place, &target, &mut |done, total| progress.of(done, total)).await;
    drop(progress);
    let copied = copied.with_context(|| format!("copying etcd to {}", dir.display()))?;
    let mut text = described(&copied, &dir.display().to_string());
    if let Some(aside) = &copied.aside {
        text.push_str(&format!("The store that was there is kept in {}\n", aside.display()));
    }
    text.push_str(&format!(
        "etcd is unchanged. Start no server on it any more: it and the copy would differ\nNext:\n  karmada up --data-dir={}\n",
        args.data_dir.data_dir.display()
    ));
    print(&text);
    Ok(())
}

async fn into_etcd(args: &CopyArgs, etcd: &Etcd, dir: &Path, world: &World) -> anyhow::Result<()> {
    let options = Options { must_exist: true, ..Options::default() };
    let store = EmbeddedStore::open(dir, options).await.with_context(|| format!("opening {}", dir.display()))?;
    let encryption = etcd.encryption.as_ref().map(|open| &open.providers);
    let source = opened(Arc::new(store.clone()), encryption);
    let mut progress = Progress::new("copying");
    let mut show = |done, total| progress.of(done, total);
    if args.dry_run {
        let checked = transfer::check_target(&*source, &*etcd.store).await;
        let sum = reading::sum(&*source, store.revision().await?, &mut show).await;
        store.close().await?;
        checked?;
        let (sum, prefix) = (sum?, &etcd.settings.prefix);
        print(&format!("{}, {}, would be copied to {prefix} of etcd\n", count(sum.objects, "object"), size(sum.bytes)));
        return Ok(());
    }
    let copied = transfer::into_store(&*source, &*etcd.store, &mut show).await;
    store.close().await?;
    drop(progress);
    let copied = copied.context("copying into etcd")?;
    // Two stores of one control plane must not both be started.
    let aside = dir.with_file_name(format!("store.copied-{}", stamp(world.now())));
    std::fs::rename(dir, &aside).with_context(|| format!("moving {} to {}", dir.display(), aside.display()))?;
    let mut text = described(&copied, &format!("{} of etcd", etcd.settings.prefix));
    text.push_str(&format!(
        "The store of the data directory is kept in {}\nNext:\n  karmada up --data-dir={} --etcd-servers={}\n",
        aside.display(),
        args.data_dir.data_dir.display(),
        etcd.settings.servers.join(",")
    ));
    print(&text);
    Ok(())
}

fn described(copied: &Copied, place: &str) -> String {
    let (objects, bytes) = (count(copied.sum.objects, "object"), size(copied.sum.bytes));
    format!("{objects}, {bytes}, copied to {place} and compared; it continues at revision {}\n", copied.revision)
}
