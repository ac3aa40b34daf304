//! `karmada store backup`: from the server that has the store open, or from the directory of a stopped server.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use bytes::Bytes;
use clap::Args;
use client::Client;
use client::kubeconfig::Places;
use futures::stream::{BoxStream, StreamExt as _, TryStreamExt as _};
use http_body_util::BodyExt as _;
use storage::embedded::inspect::is_in_use;
use storage::embedded::{EmbeddedStore, Options};
use world::World;

use super::super::{absolute, print};
use super::{DataDirArgs, Progress, count, ensure_store, size};
use crate::backups::route::{TYPE, URL, URL_WITH_KEYS};
use crate::backups::{Last, file, keys, stamp};
use crate::data_dir::DataDir;

#[derive(Args)]
pub(super) struct BackupArgs {
    #[command(flatten)]
    data_dir: DataDirArgs,
    /// The file to write, `-` for standard output; karmada-TIME.backup if not given
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The kubeconfig of a running server; without it the data directory is read, or its server if one runs
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The URL of the server, if it is not the one in the kubeconfig
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Leave out the keys and certificates of the data directory
    #[arg(long)]
    without_keys: bool,
}

/// The kubeconfig that a server writes into its data directory.
const KUBECONFIG: &str = "karmada-apiserver.config";

pub(super) async fn run(args: &BackupArgs, world: &World) -> anyhow::Result<()> {
    let data_dir = &args.data_dir.data_dir;
    let to_stdout = args.output.as_deref() == Some(Path::new("-"));
    anyhow::ensure!(
        !(to_stdout && std::io::stdout().is_terminal()),
        "a backup is not written to a terminal; use -o FILE, or a pipe"
    );
    let kubeconfig = match &args.kubeconfig {
        Some(file) => Some(file.clone()),
        None => {
            ensure_store(data_dir)?;
            let store = DataDir::store(data_dir);
            let used = is_in_use(&store).with_context(|| {
                format!("reading {}: use --data-dir or --kubeconfig to name a control plane", data_dir.display())
            })?;
            used.then(|| data_dir.join(KUBECONFIG))
        }
    };
    let (pieces, open) = match &kubeconfig {
        Some(file) => (from_server(file, args.server.as_deref(), !args.without_keys).await?, None),
        None => {
            let open = Options { must_exist: true, ..Options::default() };
            let store = EmbeddedStore::open(DataDir::store(data_dir), open).await?;
            let files = if args.without_keys { Vec::new() } else { keys::read(data_dir)? };
            (file::pieces(store.backup(world.now().into(), files)?), Some(store))
        }
    };
    let saved = if to_stdout { write_to_stdout(pieces).await } else { save(args, pieces, world).await };
    if let Some(store) = open {
        store.close().await?;
    }
    saved
}

async fn save(args: &BackupArgs, pieces: BoxStream<'_, anyhow::Result<Bytes>>, world: &World) -> anyhow::Result<()> {
    let path = args.output.clone().unwrap_or_else(|| format!("karmada-{}.backup", stamp(world.now())).into());
    let mut progress = Progress::new("writing");
    let contents = file::save(pieces, &path, &mut |bytes| progress.bytes(bytes)).await?;
    drop(progress);
    let (revision, bytes) = (contents.header.revision, contents.length);
    let objects = count(contents.objects, "object");
    print(&format!("{}: revision {revision}, {objects}, {}, verified\n", path.display(), size(bytes)));
    let data_dir = &args.data_dir.data_dir;
    if args.kubeconfig.is_none() {
        let time = jiff::Timestamp::try_from(contents.header.when).unwrap_or_else(|_| world.now());
        let last = Last { time, revision, bytes, file: absolute(&path).into() };
        if let Err(error) = last.write(data_dir) {
            eprintln!("notice: {error:#}; `karmada store stats` does not show this backup");
        }
    }
    Ok(())
}

async fn write_to_stdout(mut pieces: BoxStream<'_, anyhow::Result<Bytes>>) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    while let Some(piece) = pieces.next().await {
        out.write_all(&piece?).context("writing to standard output")?;
    }
    out.flush().context("writing to standard output")
}

/// The body of the server's response.
async fn from_server(
    kubeconfig: &Path,
    server: Option<&str>,
    with_keys: bool,
) -> anyhow::Result<BoxStream<'static, anyhow::Result<Bytes>>> {
    let client = Client::from_flags(&Places::file(kubeconfig), server).await?;
    let url = if with_keys { URL_WITH_KEYS } else { URL };
    let request = http::Request::get(url).header(http::header::ACCEPT, TYPE).body(transport::empty())?;
    let response = client.send(request).await.context("requesting a backup")?;
    let status = response.status();
    let body = response.into_body();
    if !status.is_success() {
        let text = http_body_util::Limited::new(body, 1 << 20).collect().await;
        let text = text.map_or_else(|_| Bytes::new(), |it| it.to_bytes());
        let message = serde_json::from_slice::<serde_json::Value>(&text).ok();
        let message = message.and_then(|it| it["message"].as_str().map(str::to_owned));
        let message = message.unwrap_or_else(|| String::from_utf8_lossy(&text).trim().to_owned());
        anyhow::bail!("the server refuses a backup at {url} ({status}): {message}");
    }
    let pieces = body
        .into_data_stream()
        .map_err(|error| anyhow::anyhow!("the server ended the backup early: {error}; its log has the reason"));
    Ok(pieces.boxed())
}
