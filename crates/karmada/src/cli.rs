//! The command line of `karmada`.

mod aggregation;
mod arguments;
mod audit;
mod certs;
mod etcd;
mod front_proxies;
mod help;
mod identity;
mod kube_apiserver;
mod listening;
mod operation;
mod overload;
mod service_accounts;
mod settings;
mod store;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use controller_runtime::LeaderElection;
use futures::future::LocalBoxFuture;
use karmadactl::version;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use world::World;

use crate::flags::{self, FlagValues};
use crate::member::{self, RunningMember};
use crate::rules::Rules;
use crate::up::{self, Candidate, ControlPlane};
use crate::{apiserver, components, demo, shell, webhook};
use arguments::{Cli, Command};
use settings::{admission, agent_settings, settings, webhook_options};

/// The build; `build.rs` provides it.
const BUILT: version::Stamp = version::Stamp {
    commit: env!("KARMADA_BUILD_COMMIT"),
    tree_state: env!("KARMADA_BUILD_TREE_STATE"),
    date: env!("KARMADA_BUILD_DATE"),
};

/// Runs the program; usage errors end with 2, failures with 1.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    version::stamp(BUILT);
    let args: Vec<OsString> = args.into_iter().collect();
    if let Some((program, args)) = as_karmadactl(&args) {
        return karmadactl(program, args);
    }
    let (program, args) = version_of_component(as_component(help::requested(args)));
    let parsed = command().try_get_matches_from(args.iter().cloned());
    let (cli, matches) = match parsed.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches))) {
        Ok(parsed) => parsed,
        Err(error) => {
            let code = if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
            match command_of_karmadactl(&error, &args) {
                Some(name) => eprintln!(
                    "error: unrecognized subcommand '{name}'\n\n  tip: it is a command of karmadactl: karmada karmadactl {name}\n\n\
                     For more information, try '--help'."
                ),
                // Output to a closed terminal is lost.
                None => drop(error.print()),
            }
            return code;
        }
    };
    let logging = FlagValues::logging(matches.subcommand().map_or(&matches, |(_, matches)| matches));
    let is_quiet = matches!(&cli.command, Command::Demo(args) if args.is_quiet());
    let begun = logging.map(|logging| if is_quiet { logging.quiet() } else { logging }.begin());
    match begun.and_then(|()| execute(&program, cli.command, &matches)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", client::chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

/// The unknown command, if karmadactl has it.
fn command_of_karmadactl<'a>(error: &clap::Error, args: &'a [OsString]) -> Option<&'a str> {
    let word = args.get(1).and_then(|word| word.to_str());
    word.filter(|word| error.kind() == clap::error::ErrorKind::InvalidSubcommand && karmadactl::has_command(word))
}

/// The commands with all flags and their help.
fn command() -> clap::Command {
    // clap prints the name before it.
    let line = version::line("karmada");
    let version = line.strip_prefix("karmada ").unwrap_or(&line).trim_end().to_owned();
    let command = flags::extend(Cli::command());
    let command =
        ["apiserver", "up"].iter().fold(command, |command, name| command.mut_subcommand(name, kube_apiserver::extend));
    help::shown(command.version(version))
}

/// Components that are separate programs upstream: `karmada-webhook ...` is `karmada webhook ...`.
const PROGRAMS: &[&str] = &[
    "controller-manager",
    "agent",
    "aggregated-apiserver",
    "search",
    "webhook",
    "scheduler",
    "scheduler-estimator",
    "descheduler",
    "metrics-adapter",
];

fn as_component(mut args: Vec<OsString>) -> Vec<OsString> {
    let name = args.first().and_then(|path| std::path::Path::new(path).file_name()).and_then(|name| name.to_str());
    let component = name.and_then(|name| name.strip_prefix("karmada-"));
    if let Some(component) = component.and_then(|name| PROGRAMS.iter().find(|program| **program == name)) {
        args.insert(1, component.into());
    }
    args
}

/// `karmada scheduler version` is `karmada version` under the component's name.
fn version_of_component(mut args: Vec<OsString>) -> (String, Vec<OsString>) {
    let component = PROGRAMS.iter().find(|program| args.get(1).is_some_and(|word| word == **program));
    match component.filter(|_| args.get(2).is_some_and(|word| word == "version")) {
        Some(component) => {
            args.remove(1);
            (format!("karmada-{component}"), args)
        }
        None => ("karmada".to_owned(), args),
    }
}

/// The name to show, and the arguments with the program first, if the program was called by one of its other names or
/// as `karmada karmadactl`.
fn as_karmadactl(args: &[OsString]) -> Option<(&'static str, &[OsString])> {
    let name = std::path::Path::new(args.first()?).file_name()?.to_str()?;
    match name {
        "karmadactl" => Some(("karmadactl", args)),
        "kubectl-karmada" => Some(("kubectl karmada", args)),
        karmadactl::PLUGIN_COMPLETION => Some((karmadactl::PLUGIN_COMPLETION, args)),
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

/// Runs a command with logging, once its flags are accepted. The runtime is compiled for this one kind of future.
fn run_logged(command: &str, running: LocalBoxFuture<'_, anyhow::Result<()>>) -> anyhow::Result<()> {
    let build = version::Build::this();
    tracing::info!(command, version = build.version, commit = build.short_commit, "Starting");
    allow_open_files();
    // One thread more than cores: it serves light users while heavy users occupy the others
    // (`apiserver::limits::fairness`).
    runtime(cores() + 1, "tokio-runtime-worker")?.block_on(running)?;
    tracing::info!(command, "Stopped");
    Ok(())
}

/// With the components in a runtime of their own: see "Queueing and fairness" in ARCHITECTURE.md.
fn run_up(command: &str, options: up::Options) -> anyhow::Result<()> {
    let components = runtime(cores(), "components")?;
    let options = up::Options { components: Some(components.handle().clone()), ..options };
    run_logged(command, Box::pin(up(options)))
}

fn runtime(threads: usize, name: &str) -> anyhow::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(threads).thread_name(name).enable_all().build().context("starting the runtime")
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Lets this process open as many files and connections as its hard limit allows. A shell's soft limit of 1,024 is for
/// programs that use `select`.
fn allow_open_files() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
            tracing::warn!(limit = ?limit.current, err = %error, "The limit of open files cannot be raised");
        }
    }
}

fn execute(program: &str, command: Command, matches: &ArgMatches) -> anyhow::Result<()> {
    let (name, of_command) = matches.subcommand().unwrap_or(("", matches));
    let world = World::system();
    crate::operation::describe(name, flags::values(of_command), &world);
    for notice in kube_apiserver::check(of_command)? {
        eprintln!("notice: {notice}");
    }
    match command {
        Command::Version(args) => {
            print(&version::text(program, args.output.as_deref())?);
            Ok(())
        }
        Command::Store(args) => store::run(args, &world),
        Command::Certs(args) => certs::run(args, &world),
        Command::Demo(args) => run_logged(name, Box::pin(demo::run(&args.options(), &world, ended()))),
        Command::Up(args) => {
            let flags = read(of_command, "up")?;
            run_up(name, args.options(&flags, &world)?)
        }
        Command::ControllerManager(args) => {
            let flags = read(of_command, "controller-manager")?;
            let allow_http_endpoints = args.endpoints.allow_http_member_endpoints;
            let mut settings = controllers::Settings { allow_http_endpoints, ..settings(&flags)? };
            args.failover.set(&mut settings);
            run_logged(name, Box::pin(components::controller_manager(&flags, settings)))
        }
        Command::Agent(args) => {
            let flags = read(of_command, "agent")?;
            let settings = agent_settings(&flags)?;
            run_logged(name, Box::pin(components::agent(&flags, settings, args.enable_tunnel)))
        }
        Command::MetricsAdapter(args) => {
            let allow_http = args.endpoints.allow_http_member_endpoints;
            let flags = read(of_command, "metrics-adapter")?;
            run_logged(name, Box::pin(components::metrics_adapter(&flags, args.data_dir, allow_http)))
        }
        Command::AggregatedApiserver(args) => {
            let allow_http = args.endpoints.allow_http_member_endpoints;
            let flags = read(of_command, "aggregated-apiserver")?;
            run_logged(name, Box::pin(components::aggregated_apiserver(&flags, args.data_dir, allow_http)))
        }
        Command::Search(args) => {
            let allow_http = args.endpoints.allow_http_member_endpoints;
            let flags = read(of_command, "search")?;
            run_logged(name, Box::pin(components::search(&flags, args.data_dir, allow_http)))
        }
        Command::Webhook(args) => {
            let flags = read(of_command, "webhook")?;
            if args.print_configurations {
                args.print(&flags)
            } else {
                run_logged(name, Box::pin(serve_webhook(&flags)))
            }
        }
        Command::Scheduler => {
            let flags = read(of_command, "scheduler")?;
            run_logged(name, Box::pin(components::scheduler(&flags)))
        }
        Command::SchedulerEstimator => {
            let flags = read(of_command, "scheduler-estimator")?;
            run_logged(name, Box::pin(components::scheduler_estimator(&flags)))
        }
        Command::Descheduler => {
            let flags = read(of_command, "descheduler")?;
            run_logged(name, Box::pin(components::descheduler(&flags)))
        }
        Command::Apiserver(args) => run_logged(name, Box::pin(serve(args.options(&world)?))),
        Command::Member(args) => run_logged(name, Box::pin(member(args.options(&world)?))),
    }
}

/// The flags of a command. Notices about flags without an effect go to standard error.
fn read<'a>(matches: &'a ArgMatches, command: &str) -> anyhow::Result<FlagValues<'a>> {
    let flags = FlagValues::read(matches, command)?;
    for notice in &flags.notices {
        eprintln!("notice: {notice}");
    }
    Ok(flags)
}

async fn serve(options: apiserver::Options) -> anyhow::Result<()> {
    let running = apiserver::start(&options, &World::system()).await?;
    let mut signals = Signals::listen()?;
    let socket = &running.socket;
    tracing::info!(address = socket.url, dataDir = absolute(&options.data_dir), "API server is ready");
    print(&format!(
        "The API server is ready on {}\n  export KUBECONFIG={}\n  kubectl api-resources\n",
        socket.url,
        shell::word(&socket.kubeconfig)
    ));
    let outcome = tokio::select! {
        () = signals.received() => Ok(()),
        reason = running.opened.replaced() => Err(reason),
    };
    running.stop().await?;
    outcome
}

async fn serve_webhook(flags: &FlagValues<'_>) -> anyhow::Result<()> {
    let options = webhook_options(flags)?;
    let rules = Rules::new(World::system(), admission(flags)?);
    let places = components::places(flags);
    anyhow::ensure!(places.any(), "--kubeconfig or KUBECONFIG must name the API server whose objects are validated");
    rules.connect(components::connect_to(places, None).await?);
    let registry = metrics::Registry::default();
    crate::metrics::of_process(&registry);
    let running = webhook::start(rules, registry, &options).await?;
    let mut signals = Signals::listen()?;
    tracing::info!(address = %running.address, "Webhooks are ready");
    print(&format!("The webhooks are ready on https://{}\n", running.address));
    signals.received().await;
    running.stop().await;
    Ok(())
}

async fn member(options: member::Options) -> anyhow::Result<()> {
    let data_dir = absolute(&options.data_dir);
    let running = RunningMember::start(options, &World::system()).await?;
    let mut signals = Signals::listen()?;
    tracing::info!(cluster = running.name(), address = running.url(), dataDir = data_dir, "Simulated member is ready");
    let (name, kubeconfig) = (running.name(), running.kubeconfig().display());
    print(&format!(
        "Member {name} is ready on {}\n  karmadactl join {name} --cluster-kubeconfig={kubeconfig}\n  \
         kubectl --kubeconfig={kubeconfig} get nodes\n",
        running.url(),
    ));
    signals.received().await;
    running.stop().await
}

async fn up(options: up::Options) -> anyhow::Result<()> {
    let world = World::system();
    let Some(election) = &options.election else {
        let plane = ControlPlane::start(&options, &world).await?;
        return run_plane(plane, &options, &mut Signals::listen()?).await.map(drop);
    };
    let mut candidate = Candidate::start(&options, election, &world).await?;
    let mut signals = Signals::listen()?;
    loop {
        let Some(plane) = elected(candidate, election, &world, &mut signals).await? else { return Ok(()) };
        match run_plane(plane, &options, &mut signals).await? {
            Some(lost) => candidate = lost.step_down().await?,
            None => return Ok(()),
        }
        tracing::warn!(lease = election.name, "The Lease was lost: the controllers are stopped, the API is served");
    }
}

/// Waits for the Lease, and starts the components; `None` when the process has ended before.
async fn elected(
    candidate: Candidate,
    election: &LeaderElection,
    world: &World,
    signals: &mut Signals,
) -> anyhow::Result<Option<ControlPlane>> {
    let waiting = async {
        tokio::time::sleep(election.retry_period).await;
        let socket = candidate.socket();
        tracing::info!(
            address = socket.url,
            lease = election.name,
            "API server is ready; the controllers wait for the Lease"
        );
        print(&format!(
            "The API server is ready on {}\n  its controllers wait for the Lease {}/{}\n  export KUBECONFIG={}\n",
            socket.url,
            election.namespace,
            election.name,
            shell::word(&socket.kubeconfig)
        ));
        std::future::pending::<()>().await
    };
    let elected = tokio::select! {
        elected = candidate.elected(world) => elected.map(Some),
        () = signals.received() => Ok(None),
        reason = candidate.replaced() => Err(reason),
        () = waiting => Ok(None),
    };
    match elected {
        Ok(Some(leading)) => candidate.lead(leading, world).await.map(Some),
        Ok(None) => candidate.stop().await.map(|()| None),
        Err(error) => candidate.stop().await.and(Err(error)),
    }
}

/// Runs until the process has to end, or until the components have lost their Lease: then the control plane is
/// returned.
async fn run_plane(
    plane: ControlPlane,
    options: &up::Options,
    signals: &mut Signals,
) -> anyhow::Result<Option<ControlPlane>> {
    let begun = async {
        anyhow::ensure!(plane.ready().await, "the components ended before they were ready");
        plane.members().join(plane.client()).await
    };
    let mut is_lost = false;
    let ready = tokio::select! {
        biased;
        () = plane.lost() => {
            is_lost = true;
            Ok(false)
        }
        reason = plane.replaced() => Err(reason),
        begun = begun => begun.map(|()| true),
        () = signals.received() => Ok(false),
    };
    let mut outcome = ready.as_ref().map(drop).map_err(|error| anyhow::anyhow!(client::chain(error.as_ref())));
    if let Ok(true) = ready {
        let address = plane.socket().map(|socket| socket.url.as_str());
        let members = plane.members().iter().count();
        let data_dir = absolute(&options.server.data_dir);
        tracing::info!(address, dataDir = data_dir, simulatedMembers = members, "Control plane is ready");
        print(&welcome(&plane));
        outcome = tokio::select! {
            () = signals.received() => Ok(()),
            reason = plane.replaced() => Err(reason),
            () = plane.lost() => {
                is_lost = true;
                Ok(())
            }
        };
    }
    if is_lost {
        return Ok(Some(plane));
    }
    plane.stop().await?;
    outcome.map(|()| None)
}

fn welcome(plane: &ControlPlane) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    // Writing to a String cannot fail.
    if let Some(socket) = plane.socket() {
        let _ = writeln!(text, "The control plane is ready on {}", socket.url);
        let _ = writeln!(text, "  export KUBECONFIG={}", shell::word(&socket.kubeconfig));
    }
    for member in plane.members().iter() {
        let _ =
            writeln!(text, "  # member {}: kubectl --kubeconfig={}", member.name(), shell::word(member.kubeconfig()));
    }
    if plane.members().iter().next().is_none() {
        text.push_str("  karmadactl join NAME --cluster-kubeconfig=FILE   # a member cluster\n");
    }
    text.push_str("  kubectl get clusters\n");
    text
}

/// The absolute path of a directory.
pub(crate) fn absolute(path: &std::path::Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// Prints to standard output; a server continues if the reader has closed it.
pub(crate) fn print(text: &str) {
    use std::io::Write as _;
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// SIGTERM and SIGINT, from now on: one that arrives while nothing waits for it counts when something does.
pub(crate) struct Signals {
    term: Signal,
    interrupt: Signal,
}

impl Signals {
    /// A server listens once it can stop in an orderly way, and before it reports that it is ready.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let term = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
        let interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
        Ok(Self { term, interrupt })
    }

    pub(crate) async fn received(&mut self) {
        let reason = tokio::select! {
            _ = self.term.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        };
        tracing::info!(reason, "Stopping");
    }
}

/// Waits for SIGTERM or SIGINT.
pub(crate) async fn ended() -> anyhow::Result<()> {
    Signals::listen()?.received().await;
    Ok(())
}
