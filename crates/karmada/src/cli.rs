//! The command line of `karmada`.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use tracing_subscriber::EnvFilter;
use world::World;

use crate::apiserver;
use crate::up::{self, ControlPlane};

#[derive(Parser)]
#[command(name = "karmada", version, about = "The multi-cluster Kubernetes control plane in one program", long_about = None)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The whole control plane in one process, on the embedded store.
    Up(UpArgs),
    /// The API server alone, on the embedded store.
    Apiserver(ServerArgs),
}

#[derive(Args)]
struct ServerArgs {
    /// Where the store, the certificates and the kubeconfig are kept.
    #[arg(long, default_value = "karmada-data")]
    data_dir: PathBuf,
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    bind_address: IpAddr,
    /// The port of the HTTPS API; 0 takes a free one.
    #[arg(long, default_value_t = 5443)]
    secure_port: u16,
    /// Lines of `token,user,uid[,"group1,group2"]`, as kube-apiserver's flag of the same name.
    #[arg(long)]
    token_auth_file: Option<PathBuf>,
}

#[derive(Args)]
struct UpArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Which controllers run: names, `*` for all, `-name` to leave one out.
    #[arg(long, value_delimiter = ',', default_value = "*")]
    controllers: Vec<String>,
}

impl ServerArgs {
    fn options(self) -> apiserver::Options {
        apiserver::Options {
            data_dir: self.data_dir,
            bind_address: self.bind_address,
            secure_port: self.secure_port,
            token_auth_file: self.token_auth_file,
            kubeconfig: "karmada-apiserver.config",
            cluster: "karmada-apiserver",
        }
    }
}

/// Runs the program; usage errors end with 2, failures with 1.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    if let Some((program, args)) = as_karmadactl(&args) {
        return karmadactl(program, args);
    }
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
            // Nothing can be done about a closed terminal.
            let _ = error.print();
            return code;
        }
    };
    let filter = EnvFilter::try_from_env("KARMADA_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    match execute(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the program was called by one of its other names, or as `karmada karmadactl`: the name to show, and the
/// arguments with the program first.
fn as_karmadactl(args: &[OsString]) -> Option<(&'static str, &[OsString])> {
    let name = std::path::Path::new(args.first()?).file_name()?.to_str()?;
    match name {
        "karmadactl" => Some(("karmadactl", args)),
        "kubectl-karmada" => Some(("kubectl karmada", args)),
        _ if args.get(1).is_some_and(|word| word == "karmadactl") => Some(("karmadactl", &args[1..])),
        _ => None,
    }
}

fn karmadactl(program: &'static str, args: &[OsString]) -> ExitCode {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => ExitCode::from(runtime.block_on(karmadactl::run(program, args.iter().cloned()))),
        Err(error) => {
            eprintln!("error: starting the runtime: {error}");
            ExitCode::FAILURE
        }
    }
}

fn execute(command: Command) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    match command {
        Command::Up(args) => runtime.block_on(up(args)),
        Command::Apiserver(args) => runtime.block_on(serve(args)),
    }
}

async fn serve(args: ServerArgs) -> anyhow::Result<()> {
    let running = apiserver::start(&args.options(), &World::system()).await?;
    say(&format!(
        "The API server is ready on https://{}\n  export KUBECONFIG={}\n  kubectl api-resources\n",
        running.address,
        running.kubeconfig.display()
    ));
    ended().await?;
    running.stop().await
}

async fn up(args: UpArgs) -> anyhow::Result<()> {
    let options = up::Options { server: args.server.options(), controllers: args.controllers };
    let plane = ControlPlane::start(&options, up::no_members_in_process(), &World::system()).await?;
    let ready = tokio::select! {
        ready = plane.ready() => ready,
        ended = ended() => {
            ended?;
            false
        }
    };
    if ready {
        let running = &plane.running;
        say(&format!(
            "The control plane is ready on https://{}\n  export KUBECONFIG={}\n  \
             karmadactl join NAME --cluster-kubeconfig=FILE   # a member cluster\n  kubectl get clusters\n",
            running.address,
            running.kubeconfig.display()
        ));
        ended().await?;
    }
    plane.stop().await
}

/// Prints for the user; a server goes on serving when nobody reads what it says.
fn say(text: &str) {
    use std::io::Write as _;
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Waits for SIGTERM or SIGINT.
async fn ended() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut term = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    tokio::select! {
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
