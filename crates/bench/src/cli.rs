//! Measures the processor time of each command of `karmadactl` from its start to its first request, over TLS.
//!
//! A relay precedes an API server. The second packet of the first connection contains the first request: the one before
//! is the TLS handshake.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::figures::line;
use crate::fleet::built;
use crate::process::Process;

/// Every command that sends a request; `D/` is the directory of the kubeconfig and the manifest.
const COMMANDS: &[&str] = &[
    "annotate configmap c a=b",
    "api-resources",
    "api-versions",
    "apply -f D/manifest.yaml",
    "attach web -n default -s members --cluster m1",
    "cordon m1",
    "create -f D/manifest.yaml",
    "delete configmap c",
    "describe configmap c",
    "edit configmap c",
    "exec web -n default -s members --cluster m1 -- true",
    "explain configmap",
    "explain-placement deployment/web",
    "failover history",
    "get configmaps",
    "get configmaps -s all",
    "join m1 --cluster-kubeconfig=D/config",
    "label configmap c a=b",
    "logs web -n default -C m1",
    "patch configmap c -p {}",
    "promote configmap c -n default -C m1",
    "register ADDRESS --token=abcdef.0123456789abcdef --discovery-token-unsafe-skip-ca-verification --cluster-name=m1",
    "resume",
    "schedule --dry-run --without-cluster=m1",
    "taint clusters m1 a=b:NoSchedule",
    "token create",
    "token delete abcdef",
    "token list",
    "top node",
    "top pod",
    "uncordon m1",
    "unjoin m1",
    "unregister m1 --cluster-kubeconfig=D/config",
];

const MANIFEST: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: default}\n";

#[derive(clap::Args)]
pub struct Args {
    /// A binary to measure instead of the one built with this program.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Runs of each command; the smallest figure is reported.
    #[arg(long, default_value_t = 5)]
    runs: usize,
}

pub async fn run(args: Args) -> anyhow::Result<()> {
    let binary = args.binary.map_or_else(built, Ok)?;
    let directory = tempfile::tempdir().context("a directory")?;
    let data = directory.path().join("apiserver");
    let server = Process::start(&binary, &["apiserver", "--secure-port=0"], &data, "karmada-apiserver.config")?;
    let config = std::fs::read_to_string(&server.kubeconfig).context("reading the kubeconfig")?;
    let url = config.lines().find_map(|line| line.trim().strip_prefix("server: ")).context("the server's URL")?;
    let url = url.trim_matches(['"', '\'']);
    let address: SocketAddr = url.trim_start_matches("https://").parse().context("the server's address")?;
    let listener = TcpListener::bind("127.0.0.1:0").await.context("a free port")?;
    let relay = listener.local_addr().context("the relay's address")?;
    std::fs::write(directory.path().join("config"), config.replace(url, &format!("https://{relay}")))?;
    std::fs::write(directory.path().join("manifest.yaml"), MANIFEST)?;
    line("command", "CPU ms to the first request");
    for command in COMMANDS {
        let mut least = f64::INFINITY;
        for _ in 0..args.runs {
            let Some(found) = sample(&binary, command, &listener, address, directory.path()).await? else { break };
            least = least.min(found);
        }
        line(command, if least.is_finite() { format!("{least:.1}") } else { "sends no request".to_owned() });
    }
    Ok(())
}

/// Milliseconds of one run, which is killed then; `None` if it sends no request.
async fn sample(
    binary: &Path,
    command: &str,
    listener: &TcpListener,
    server: SocketAddr,
    directory: &Path,
) -> anyhow::Result<Option<f64>> {
    let (here, relay) = (directory.display().to_string(), listener.local_addr()?.to_string());
    let words = command.split(' ').map(|word| word.replace("D/", &format!("{here}/")).replace("ADDRESS", &relay));
    let child = Command::new(binary)
        .arg("karmadactl")
        .args(words)
        .env("KUBECONFIG", directory.join("config"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let process = Started(child.with_context(|| format!("starting {}", binary.display()))?);
    let first = first_request(listener, server, || cpu_milliseconds(process.0.id()));
    // Far more than any command needs.
    tokio::time::timeout(Duration::from_secs(5), first).await.ok().transpose()
}

/// The result of `measure` at the first request.
async fn first_request<T>(
    listener: &TcpListener,
    server: SocketAddr,
    measure: impl Fn() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let (mut stream, _) = listener.accept().await.context("a connection")?;
    let (mut from, mut to) = stream.split();
    let mut up = TcpStream::connect(server).await.context("a connection to the API server")?;
    let (mut answers, mut requests) = up.split();
    let answering = tokio::io::copy(&mut answers, &mut to);
    let measuring = async {
        let mut packet = vec![0; 65536];
        let length = from.read(&mut packet).await.context("TLS's greeting")?;
        requests.write_all(&packet[..length]).await.context("passing it on")?;
        if from.read(&mut packet).await.context("a request")? == 0 {
            bail!("the connection ended before a request");
        }
        measure()
    };
    tokio::pin!(answering, measuring);
    tokio::select! {
        biased;
        found = &mut measuring => found,
        _ = &mut answering => measuring.await,
    }
}

/// The processor time of all threads of a process, as accounted by the scheduler.
fn cpu_milliseconds(process: u32) -> anyhow::Result<f64> {
    let mut nanoseconds = 0.0;
    for thread in std::fs::read_dir(format!("/proc/{process}/task")).context("the threads of the process")? {
        let path = thread.context("a thread")?.path().join("schedstat");
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let used: Option<f64> = text.split_whitespace().next().and_then(|field| field.parse().ok());
        nanoseconds += used.context("reading schedstat")?;
    }
    Ok(nanoseconds / 1e6)
}

/// Ends with its owner.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
