//! The measured control plane and members: our own, started here, or any others by their kubeconfigs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use client::Client;
use tokio::time::Instant;

use super::process::Process;
use super::store::{Backend, Engine};

pub struct Member {
    pub name: String,
    pub client: Client,
}

/// The processes started here.
pub struct Started {
    pub plane: Process,
    pub store: Backend,
    pub members: Vec<Process>,
    /// From the start of the process until it was ready.
    pub ready_after: Duration,
    arguments: Vec<String>,
    directory: tempfile::TempDir,
}

impl Started {
    pub fn restart_plane(&mut self) -> anyhow::Result<()> {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        self.plane.restart(&built()?, &arguments, &self.directory.path().join("up"))
    }
}

/// The members that are started here.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Members {
    /// How many members are started here.
    #[arg(long = "members", default_value_t = 2)]
    pub count: usize,
    /// Members that keep objects and run nothing, as an API server without controllers does.
    #[arg(long)]
    pub bare: bool,
}

pub struct Fleet {
    pub control: Client,
    pub members: Vec<Member>,
    pub started: Option<Started>,
}

impl Fleet {
    /// `members` are `NAME=KUBECONFIG`.
    pub async fn of_others(control: &Path, members: &[String]) -> anyhow::Result<Self> {
        ensure!(!members.is_empty(), "give the members too: --member NAME=KUBECONFIG");
        let mut connected = Vec::new();
        for member in members {
            let (name, path) = member.split_once('=').with_context(|| format!("--member {member}: NAME=KUBECONFIG"))?;
            connected.push(Member { name: name.to_owned(), client: connect(Path::new(path)).await? });
        }
        Ok(Self { control: connect(control).await?, members: connected, started: None })
    }

    /// Starts a control plane with further `flags` and members of the release build, and joins them.
    pub async fn start(requested: Members, store: Engine, flags: &[&str]) -> anyhow::Result<Self> {
        let binary = built()?;
        let directory = tempfile::tempdir().context("creating a data directory")?;
        let store = Backend::start(store)?;
        let begun = Instant::now();
        let given = ["up", "--secure-port", "0"].iter().chain(flags).map(|flag| (*flag).to_owned());
        let arguments: Vec<String> = given.chain(store.flags()).collect();
        let given: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let plane = Process::start(&binary, &given, &directory.path().join("up"), "karmada-apiserver.config")?;
        let ready_after = begun.elapsed();
        let control = connect(&plane.kubeconfig).await?;
        let (mut members, mut processes) = (Vec::new(), Vec::new());
        for name in (1..=requested.count).map(|n| format!("member{n}")) {
            // Capacity for every pod of the load.
            let mut args = vec!["member", &name, "--nodes", "40", "--cpu", "64", "--memory", "256Gi", "--pods", "500"];
            if requested.bare {
                args.push("--bare");
            }
            let process = Process::start(&binary, &args, &directory.path().join(&name), &format!("{name}.config"))?;
            join(&binary, &plane, &name, &process)?;
            members.push(Member { name, client: connect(&process.kubeconfig).await? });
            processes.push(process);
        }
        let started = Started { plane, store, members: processes, ready_after, arguments, directory };
        Ok(Self { control, members, started: Some(started) })
    }
}

pub async fn connect(kubeconfig: &Path) -> anyhow::Result<Client> {
    let client = Client::from_kubeconfig(kubeconfig, None).await;
    client.with_context(|| format!("connecting with {}", kubeconfig.display()))
}

/// The binary that was built together with this program.
pub fn built() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("finding this program")?;
    let binary = own.with_file_name("karmada");
    ensure!(binary.exists(), "{} is not built; cargo xtask bench builds both", binary.display());
    Ok(binary)
}

fn join(binary: &Path, plane: &Process, name: &str, member: &Process) -> anyhow::Result<()> {
    let output = Command::new(binary)
        .args(["karmadactl", "join", name])
        .arg("--kubeconfig")
        .arg(&plane.kubeconfig)
        .arg("--cluster-kubeconfig")
        .arg(&member.kubeconfig)
        .output()
        .context("running karmadactl join")?;
    if !output.status.success() {
        bail!("joining {name}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
