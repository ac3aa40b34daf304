//! One greedy client and one other user: the latency of a light user while another user, or a client without
//! credentials, loads the server in one of several ways, and the memory that this costs. The greedy client is a
//! separate process that runs while the cores are idle, and the server's priority is lower than the other user's, because on
//! a real network they run on other machines.

pub mod load;
mod neighbor;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::apiserver::connection::{Call, Connection, JSON, Target};
use crate::apiserver::objects::{config_map, name};
use crate::figures::line;
use crate::fleet::built;
use crate::process::Process;
use load::Kind;
use neighbor::Seen;

/// Users of the token file: `token,user,uid,"groups"`.
const TOKENS: &str = "greedy-token,greedy,1,bench\nneighbor-token,neighbor,2,bench\n";
const NAMESPACE: &str = "abuse";
/// How long memory gets to return after a load has ended; the allocator gives back in half a minute.
const SETTLING: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
pub struct Args {
    /// A binary to measure instead of the one built with this program.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Loads to run, in turn.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Kind::ALL)]
    loads: Vec<Kind>,
    #[command(flatten)]
    sizes: load::Sizes,
    /// Stored objects of the greedy user.
    #[arg(long, default_value_t = 3000)]
    objects: usize,
    /// How long each load lasts.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

pub async fn run(args: Args) -> anyhow::Result<()> {
    let binary = args.binary.clone().map_or_else(built, Ok)?;
    for kind in &args.loads {
        under(&binary, *kind, &args).await?;
    }
    Ok(())
}

/// One load on a separate server.
async fn under(binary: &Path, kind: Kind, args: &Args) -> anyhow::Result<()> {
    let directory = tempfile::tempdir().context("creating a data directory")?;
    let tokens = directory.path().join("tokens.csv");
    std::fs::write(&tokens, TOKENS).context("writing the token file")?;
    let tokens = tokens.to_str().context("the path of the token file")?;
    let binary = binary.to_str().context("the path of the binary")?;
    let flags = [binary, "apiserver", "--secure-port", "0", "--token-auth-file", tokens];
    let data = directory.path().join("data");
    // The other user's machine would be another one, too: its process, this one, does not wait for the server's threads.
    let lower = [&["-n", "5"][..], &flags].concat();
    let server = Process::start(Path::new("nice"), &lower, &data, "karmada-apiserver.config")?;
    let target = Target::of(&server.kubeconfig)?;
    fill(&target.connect().await?, args.objects).await?;
    let neighbor = target.with_token(Some("neighbor-token"))?;
    println!("{}", kind.title(&args.sizes));
    let span = Duration::from_secs(args.seconds);
    let before = neighbor::watch(&neighbor, span.min(Duration::from_secs(5))).await?;
    server.reset_peak()?;
    let (idle, _) = server.resident_mib()?;
    let mut load = Load::start(&server, kind, args).await?;
    let during = neighbor::watch(&neighbor, span).await?;
    let outcome = load.end().await?;
    tokio::time::sleep(SETTLING).await;
    let (after, peak) = server.resident_mib()?;
    let cpu = server.cpu_seconds()?;
    report(&before, &during);
    line("  greedy client", outcome);
    line("  resident before, at most, after (MiB)", format!("{idle:.0}, {peak:.0}, {after:.0}"));
    line("  server's CPU in all (s)", format!("{cpu:.1}"));
    Ok(())
}

fn report(before: &Seen, during: &Seen) {
    for (what, was, is) in [
        ("  another user's get", &before.gets, &during.gets),
        ("  another user's patch", &before.patches, &during.patches),
        ("  a newcomer's first answer", &before.connects, &during.connects),
    ] {
        line(&format!("{what}, before"), was.report());
        line(&format!("{what}, during"), is.report());
        let ratio = is.percentile(99).zip(was.percentile(99)).map(|(is, was)| is.as_secs_f64() / was.as_secs_f64());
        line(&format!("{what}, p99 during / before"), ratio.map_or("-".into(), |ratio| format!("{ratio:.1}")));
    }
    line("  another user's failures", during.failures);
}

/// The running greedy client.
struct Load {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Load {
    /// Returns when the load has reached its full size.
    async fn start(server: &Process, kind: Kind, args: &Args) -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("finding this program")?;
        // Of util-linux. A process of the lowest `nice` value keeps a core for some milliseconds when another one wakes.
        let mut command = Command::new("chrt");
        command.args(["--idle", "0"]).arg(own).arg("abuse-load").arg("--kubeconfig").arg(&server.kubeconfig);
        command.args(["--kind", kind.name(), "--seconds", &(args.seconds + 1).to_string()]);
        for (flag, value) in args.sizes.flags() {
            command.arg(flag).arg(value.to_string());
        }
        let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().context("starting the load")?;
        let mut lines = BufReader::new(child.stdout.take().context("the output of the load")?).lines();
        let first = lines.next_line().await.context("reading the output of the load")?;
        ensure!(first.as_deref() == Some(load::UNDERWAY), "the load ended before it began");
        Ok(Self { child, lines })
    }

    /// Waits for the end; returns the load's own counts.
    async fn end(&mut self) -> anyhow::Result<String> {
        let last = self.lines.next_line().await.context("reading the output of the load")?;
        self.child.wait().await.context("waiting for the load")?;
        last.context("the load ended without its count")
    }
}

/// Grants both users all rights and creates their objects.
async fn fill(connection: &Connection, objects: usize) -> anyhow::Result<()> {
    let binding = r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"bench"},
        "roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},
        "subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"bench"}]}"#;
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    connection.call(Call::send(Method::POST, bindings, JSON, binding)).await?;
    for namespace in [NAMESPACE, neighbor::NAMESPACE] {
        let body = format!(r#"{{"metadata":{{"name":"{namespace}"}}}}"#);
        connection.call(Call::send(Method::POST, "/api/v1/namespaces", JSON, body)).await?;
    }
    let create = |path: String, body: Bytes| connection.count(Call::send(Method::POST, path, JSON, body));
    create(config_maps(neighbor::NAMESPACE), config_map(0, "neighbor")).await?;
    stream::iter(0..objects)
        .map(|n| create(config_maps(NAMESPACE), config_map(n, if n % 100 == 0 { "few" } else { "many" })))
        .buffer_unordered(32)
        .try_for_each(async |_| Ok(()))
        .await
}

fn config_maps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

fn first(namespace: &str) -> String {
    format!("{}/{}", config_maps(namespace), name(0))
}
