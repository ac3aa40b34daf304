//! The API server alone, over TLS: operations per second, latency, and the server's cost of each. Client and server
//! share the machine, so rates are lower bounds; compare the server's CPU.

pub mod connection;
mod load;
mod many;
pub mod objects;
mod reads;
mod upstream;
mod watches;
mod webhooks;
mod writes;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use http::Method;
use tokio::time::Instant;

use crate::figures::line;
use crate::fleet::built;
use crate::process::Process;
use crate::store::{Backend, Engine};
use connection::{Call, Connection, JSON};
use load::Load;

#[derive(clap::Args)]
pub struct Args {
    /// A binary to measure instead of the one built with this program.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// The store of the server.
    #[arg(long, value_enum, default_value_t)]
    store: Engine,
    #[arg(long, default_value_t = 3000)]
    config_maps: usize,
    #[arg(long, default_value_t = 1500)]
    deployments: usize,
    /// Watches that are open while objects are created, in turn.
    #[arg(long, value_delimiter = ',', default_value = "1,100,1000")]
    watchers: Vec<usize>,
    /// Objects of the last part, which starts the server on a full store; 0 leaves it out.
    #[arg(long, default_value_t = 100_000)]
    many: usize,
    /// Only that last part.
    #[arg(long)]
    only_many: bool,
    /// Objects of each of the creates with admission webhooks and policies; 0 leaves them out.
    #[arg(long, default_value_t = 1500)]
    admission: usize,
    /// Only those creates.
    #[arg(long, conflicts_with = "only_many")]
    only_admission: bool,
}

pub async fn run(args: Args) -> anyhow::Result<()> {
    let binary = args.binary.clone().map_or_else(built, Ok)?;
    line("load of the machine over the last minute", load_average()?);
    if !args.only_many && !args.only_admission {
        small(&binary, &args).await?;
    }
    if !args.only_many && args.admission > 0 {
        let directory = tempfile::tempdir().context("creating a data directory")?;
        let load = start(&binary, directory.path(), Backend::start(args.store)?, "start").await?;
        load::heading();
        webhooks::run(&load, args.admission).await?;
    }
    if args.many > 0 && !args.only_admission {
        many::run(&binary, args.store, args.many).await?;
    }
    line("load of the machine over the last minute", load_average()?);
    Ok(())
}

async fn small(binary: &Path, args: &Args) -> anyhow::Result<()> {
    let directory = tempfile::tempdir().context("creating a data directory")?;
    let load = start(binary, directory.path(), Backend::start(args.store)?, "first start").await?;
    load.memory("idle")?;
    load::heading();
    writes::run(&load, args.config_maps, args.deployments).await?;
    reads::run(&load).await?;
    for count in &args.watchers {
        watches::run(&load, *count).await?;
    }
    load.memory("loaded")?;
    load::heading();
    writes::deletes(&load, args.config_maps).await?;
    load.memory("emptied")
}

/// Starts a server and reports the duration.
async fn start(binary: &Path, directory: &Path, store: Backend, what: &str) -> anyhow::Result<Load> {
    let (begun, flags) = (Instant::now(), store.flags());
    let flags: Vec<&str> =
        ["apiserver", "--secure-port", "0"].into_iter().chain(flags.iter().map(String::as_str)).collect();
    let server = Process::start(binary, &flags, directory, "karmada-apiserver.config")?;
    line(&format!("{what}: process to ready (s)"), format!("{:.3}", begun.elapsed().as_secs_f64()));
    line(&format!("{what}: CPU until ready (s)"), format!("{:.2}", server.cpu_seconds()?));
    Load::on(server, store).await
}

async fn namespace(connection: &Connection, name: &str) -> anyhow::Result<()> {
    let body = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
    connection.call(Call::send(Method::POST, "/api/v1/namespaces", JSON, body)).await.map(drop)
}

/// The load average of runnable and waiting tasks; other work on the machine makes every figure worse.
fn load_average() -> anyhow::Result<String> {
    let text = std::fs::read_to_string("/proc/loadavg").context("reading the load")?;
    Ok(text.split_whitespace().next().unwrap_or_default().to_owned())
}

fn config_maps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}
