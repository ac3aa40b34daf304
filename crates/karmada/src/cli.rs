//! The command line of `karmada`.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use ::apiserver::plugins::Switches;
use anyhow::Context as _;
use apimachinery::quantity::Quantity;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use client::Client;
use controllers::Skip;
use karmada_api::admission::webhooks;
use karmada_api::gates;
use kubernetes_api::services::{Range, Ranges};
use simulator::{MemberOptions, NodeShape};
use world::World;

use crate::access::Listen;
use crate::apiserver;
use crate::components;
use crate::demo;
use crate::engine::Kind;
use crate::flags::{self, Given};
use crate::logging::Logging;
use crate::member::{self, RunningMember};
use crate::rules::Rules;
use crate::up::{self, ControlPlane};
use crate::webhook;

#[derive(Parser)]
#[command(name = "karmada", version, about = "The multi-cluster Kubernetes control plane in one program", long_about = None)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shows what the control plane does: simulated clusters, an application propagated to some of them.
    Demo(DemoArgs),
    /// The whole control plane in one process, on the embedded store.
    Up(UpArgs),
    /// The API server alone, on the embedded store.
    Apiserver(ServerArgs),
    /// The controllers alone, for an API server that is not ours or runs elsewhere.
    ControllerManager,
    /// The controllers of one member in pull mode, beside the member.
    Agent,
    /// Clusters for an API server that is not ours, which passes requests for them on.
    AggregatedApiserver(AggregatedArgs),
    /// Searches over members, for an API server that is not ours, which passes requests for them on.
    Search(SearchArgs),
    /// The admission rules and conversions over HTTPS, for an API server that is not ours.
    Webhook(WebhookArgs),
    /// The scheduler alone, for an API server that is not ours or runs elsewhere.
    Scheduler,
    /// How much room a member has, over gRPC, for schedulers and deschedulers.
    SchedulerEstimator,
    /// Takes replicas back from where they cannot start.
    Descheduler,
    /// Not part of this version: the metrics APIs over members. Its flags are known.
    MetricsAdapter,
    /// A simulated member cluster: an API server with nodes on which pods seem to run.
    Member(MemberArgs),
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
    /// The addresses services get, and after a comma those of the other family.
    #[arg(long, value_delimiter = ',', num_args = 1..=2, default_value = "10.96.0.0/12")]
    service_cluster_ip_range: Vec<Range>,
    /// The ports services get on every node.
    #[arg(long, value_parser = port_range, default_value = "30000-32767")]
    service_node_port_range: RangeInclusive<u16>,
    /// Admission plugins to have on besides those that are on by default, by kube-apiserver's names.
    #[arg(long, value_delimiter = ',')]
    enable_admission_plugins: Vec<String>,
    /// Admission plugins to have off. The default is that of Karmada's control planes, where no pods run.
    #[arg(long, value_delimiter = ',', default_value = "StorageObjectInUseProtection,ServiceAccount")]
    disable_admission_plugins: Vec<String>,
}

#[derive(Args)]
struct UpArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Which controllers run: names, `*` for all, `-name` to leave one out.
    #[arg(long, value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    controllers: Vec<String>,
    /// Which of kube-controller-manager's controllers run, as its own flag; leave out those that another program runs.
    #[arg(long, value_delimiter = ',', default_value = "*", allow_hyphen_values = true, long_help = kube_controllers())]
    kube_controllers: Vec<String>,
    /// Run the descheduler as well: at intervals, replicas that cannot start are taken back to be placed elsewhere.
    #[arg(long)]
    descheduler: bool,
    /// Simulate this many member clusters in this process, kept in the data directory, and join them.
    #[arg(long, default_value_t = 0)]
    simulated_clusters: u16,
}

#[derive(Args)]
struct AggregatedArgs {
    /// Where the Clusters are kept, and the serving certificate if none is given. It takes the place of upstream's etcd.
    #[arg(long, default_value = "karmada-aggregated-data")]
    data_dir: PathBuf,
}

#[derive(Args)]
struct SearchArgs {
    /// Where the registries are kept, and the serving certificate if none is given. It takes the place of upstream's etcd.
    #[arg(long, default_value = "karmada-search-data")]
    data_dir: PathBuf,
}

#[derive(Args)]
struct WebhookArgs {
    /// Print the webhook configurations for the API server, and the conversion of the bindings' definitions, and end.
    #[arg(long)]
    print_configurations: bool,
    /// The address the API server calls, for --print-configurations.
    #[arg(long, default_value = "https://karmada-webhook.karmada-system.svc:443")]
    url: String,
    /// The authority of the serving certificate in PEM, for --print-configurations; `ca.crt` in --cert-dir if not given.
    #[arg(long)]
    ca_file: Option<PathBuf>,
}

#[derive(Args)]
struct DemoArgs {
    /// How many member clusters to simulate.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=200))]
    clusters: u16,
    /// End with 0 once the application is ready in exactly the chosen clusters, and with 1 and the reason otherwise.
    #[arg(long)]
    exit: bool,
    /// Seconds the application may take to be ready.
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    timeout: u64,
    /// The port of the HTTPS API; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    secure_port: u16,
}

#[derive(Args)]
struct MemberArgs {
    /// The member's name; its nodes and its kubeconfig are called after it.
    #[arg(value_parser = member_name)]
    name: String,
    /// Where the store, the certificates and the kubeconfig are kept; `karmada-member-NAME` if not given.
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    bind_address: IpAddr,
    /// The port of the HTTPS API; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    secure_port: u16,
    /// Keep objects as they are written: no workload runs, as in an API server without controllers.
    #[arg(long)]
    bare: bool,
    #[command(flatten)]
    nodes: NodeArgs,
}

#[derive(Args)]
struct NodeArgs {
    /// How many nodes there are.
    #[arg(long, default_value_t = 2)]
    nodes: u16,
    /// CPUs of each node, as a Kubernetes quantity.
    #[arg(long, default_value = "4")]
    cpu: Quantity,
    /// Memory of each node.
    #[arg(long, default_value = "16Gi")]
    memory: Quantity,
    /// How many pods a node takes.
    #[arg(long, default_value_t = 110)]
    pods: u32,
    /// The provider in the nodes' spec.providerID.
    #[arg(long)]
    provider: Option<String>,
    /// The nodes' label topology.kubernetes.io/region.
    #[arg(long)]
    region: Option<String>,
    /// The nodes' label topology.kubernetes.io/zone.
    #[arg(long)]
    zone: Option<String>,
}

impl NodeArgs {
    fn shapes(self) -> Vec<NodeShape> {
        let labels = [("topology.kubernetes.io/region", self.region), ("topology.kubernetes.io/zone", self.zone)];
        let labels = labels.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
        let Self { cpu, memory, pods, provider, .. } = self;
        let shape = NodeShape { cpu, memory, pods, provider, labels };
        vec![shape; self.nodes.into()]
    }
}

fn kube_controllers() -> String {
    let names: Vec<&str> = kube_controllers::CONTROLLERS.iter().map(|controller| controller.name).collect();
    format!(
        "Which of kube-controller-manager's controllers run, as its own flag: names, `*` for all, `-name` to leave out one \
         that another program runs.\nThere are {}.",
        names.join(", ")
    )
}

/// From `FIRST-LAST`.
fn port_range(text: &str) -> Result<RangeInclusive<u16>, String> {
    let bounds = text.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    let range = bounds.map(|(first, last): (u16, u16)| first..=last).filter(|range| !range.is_empty());
    range.ok_or_else(|| format!("{text:?} is no range of ports such as 30000-32767"))
}

fn member_name(text: &str) -> Result<String, String> {
    match apimachinery::names::is_dns1123_label(text).into_iter().next() {
        None => Ok(text.to_owned()),
        Some(error) => Err(error),
    }
}

impl ServerArgs {
    fn options(self) -> apiserver::Options {
        let mut ranges = self.service_cluster_ip_range.into_iter();
        let services = Ranges {
            primary: ranges.next().unwrap_or(Ranges::default().primary),
            secondary: ranges.next(),
            node_ports: self.service_node_port_range,
        };
        apiserver::Options {
            data_dir: self.data_dir,
            store: Kind::Embedded,
            listen: Listen {
                bind_address: self.bind_address,
                secure_port: self.secure_port,
                kubeconfig: "karmada-apiserver.config".into(),
                cluster: "karmada-apiserver".into(),
            },
            token_auth_file: self.token_auth_file,
            services,
            plugins: Switches { enable: self.enable_admission_plugins, disable: self.disable_admission_plugins },
            admission: Default::default(),
            resource_models: true,
        }
    }
}

impl UpArgs {
    fn options(self, given: &Given<'_>) -> anyhow::Result<up::Options> {
        let mut server = self.server.options();
        server.admission = admission(given)?;
        server.resource_models = given.gates.is_open(gates::CUSTOMIZED_CLUSTER_RESOURCE_MODELING);
        Ok(up::Options {
            server,
            controllers: self.controllers,
            kube_controllers: self.kube_controllers,
            members: (1..=self.simulated_clusters).map(|n| MemberOptions::new(format!("member{n}"))).collect(),
            member_store: Kind::Embedded,
            settings: settings(given)?,
            scheduler: components::scheduler_options(given)?,
            switches: components::switches(given),
            estimators: estimators(given)?,
            descheduler: if self.descheduler { Some(components::descheduler_options(given)?) } else { None },
        })
    }
}

fn admission(given: &Given<'_>) -> anyhow::Result<karmada_api::admission::Options> {
    Ok(karmada_api::admission::Options {
        allow_no_execute_taint_policy: given.is_true("allow-no-execute-taint-policy")?,
        multiple_pod_templates: given.gates.is_open(gates::MULTIPLE_POD_TEMPLATES_SCHEDULING),
        quota_enforcement: given.gates.is_open(gates::FEDERATED_QUOTA_ENFORCEMENT),
        ..Default::default()
    })
}

/// What the controllers beside a control plane are told.
fn settings(given: &Given<'_>) -> anyhow::Result<controllers::Settings> {
    let period = positive(given, "cluster-monitor-period")?;
    let graces = controllers::Graces {
        usual: seconds(given, "cluster-monitor-grace-period")?,
        startup: seconds(given, "cluster-startup-grace-period")?,
    };
    Ok(controllers::Settings {
        skip: Skip::parse(given.text("skipped-propagating-apis"), &given.list("skipped-propagating-namespaces"))?,
        monitoring: controllers::Monitoring { period, graces },
        ..of_members(given)?
    })
}

/// What an agent is told.
fn agent_settings(given: &Given<'_>) -> anyhow::Result<controllers::Settings> {
    let duration = positive(given, "cluster-lease-duration")?;
    let fraction: f64 = given.parsed("cluster-lease-renew-interval-fraction")?;
    anyhow::ensure!(
        fraction > 0.0 && fraction < 1.0,
        "--cluster-lease-renew-interval-fraction must be greater than 0 and less than 1"
    );
    Ok(controllers::Settings { renewal: controllers::Renewal { duration, fraction }, ..of_members(given)? })
}

/// What both are told.
fn of_members(given: &Given<'_>) -> anyhow::Result<controllers::Settings> {
    let mut settings = controllers::Settings {
        status_frequency: positive(given, "cluster-status-update-frequency")?,
        sums: given.is_true("enable-cluster-resource-modeling")?,
        gates: controllers::Gates {
            propagate_deps: given.gates.is_open(gates::PROPAGATE_DEPS),
            schedule_priority: given.gates.is_open(gates::PRIORITY_BASED_SCHEDULING),
            resource_models: given.gates.is_open(gates::CUSTOMIZED_CLUSTER_RESOURCE_MODELING),
            priority_queue: given.gates.is_open(gates::CONTROLLER_PRIORITY_QUEUE),
            preemption: given.gates.is_open(gates::PROPAGATION_POLICY_PREEMPTION),
            multiple_pod_templates: given.gates.is_open(gates::MULTIPLE_POD_TEMPLATES_SCHEDULING),
            workload_affinity: given.gates.is_open(gates::WORKLOAD_AFFINITY),
            resource_quota_estimate: given.gates.is_open(gates::RESOURCE_QUOTA_ESTIMATE),
            failover: given.gates.is_open(gates::FAILOVER),
            stateful_failover: given.gates.is_open(gates::STATEFUL_FAILOVER_INJECTION),
        },
        ..Default::default()
    };
    settings.thresholds.success = seconds(given, "cluster-success-threshold")?;
    settings.thresholds.failure = seconds(given, "cluster-failure-threshold")?;
    // Upstream's limit of 40 requests a second is not kept unless somebody asks for one.
    if given.is_given("cluster-api-qps") {
        settings.member_qps = given.parsed("cluster-api-qps")?;
    }
    settings.member_burst = given.parsed("cluster-api-burst")?;
    Ok(settings)
}

fn seconds(given: &Given<'_>, name: &str) -> anyhow::Result<i64> {
    let parsed = given.duration(name)?.as_secs();
    i64::try_from(parsed).with_context(|| format!("--{name} is too long"))
}

/// A period: something is done that often.
fn positive(given: &Given<'_>, name: &str) -> anyhow::Result<Duration> {
    let period = given.duration(name)?;
    anyhow::ensure!(!period.is_zero(), "--{name} must be greater than 0");
    Ok(period)
}

/// `--enable-scheduler-estimator`: members this process follows are asked without a socket, all others over gRPC.
fn estimators(given: &Given<'_>) -> anyhow::Result<Option<estimator::Settings>> {
    let enabled = given.is_true("enable-scheduler-estimator")?;
    if enabled { components::estimator_settings(given).map(Some) } else { Ok(None) }
}

impl WebhookArgs {
    fn print(&self, given: &Given<'_>) -> anyhow::Result<()> {
        let beside = PathBuf::from(given.text("cert-dir")).join("ca.crt");
        let file = self.ca_file.as_ref().unwrap_or(&beside);
        let authority = std::fs::read(file).with_context(|| format!("reading the authority in {}", file.display()))?;
        let authority = STANDARD.encode(authority);
        let base = self.url.trim_end_matches('/');
        for configuration in webhooks::configurations(base, &authority) {
            say(&format!("{}---\n", apimachinery::yaml::to_string(&configuration)));
        }
        let conversion = serde_json::json!({ "spec": { "conversion": webhooks::conversion(base, &authority) } });
        for name in ["resourcebindings", "clusterresourcebindings"] {
            say(&format!("# kubectl patch crd {name}.work.karmada.io --type=merge -p '{conversion}'\n"));
        }
        Ok(())
    }
}

fn webhook_options(given: &Given<'_>) -> anyhow::Result<webhook::Options> {
    let directory = PathBuf::from(given.text("cert-dir"));
    let address: IpAddr = given.parsed("bind-address")?;
    let tls_13_only = match given.text("tls-min-version") {
        "1.3" => true,
        "1.2" => false,
        "1.0" | "1.1" => anyhow::bail!("--tls-min-version: TLS 1.0 and 1.1 are not offered; 1.2 and 1.3 are"),
        other => anyhow::bail!("--tls-min-version: {other:?} is none of 1.2 and 1.3"),
    };
    Ok(webhook::Options {
        listen: SocketAddr::new(address, given.parsed("secure-port")?),
        certificate: directory.join(given.text("tls-cert-file-name")),
        key: directory.join(given.text("tls-private-key-file-name")),
        tls_13_only,
        probes: components::addresses(given)?,
    })
}

impl DemoArgs {
    fn options(self) -> demo::Options {
        demo::Options {
            clusters: self.clusters,
            exit: self.exit,
            timeout: Duration::from_secs(self.timeout),
            secure_port: self.secure_port,
        }
    }
}

impl MemberArgs {
    fn options(self) -> member::Options {
        let data_dir = self.data_dir.unwrap_or_else(|| format!("karmada-member-{}", self.name).into());
        let listen = Listen {
            bind_address: self.bind_address,
            secure_port: self.secure_port,
            kubeconfig: format!("{}.config", self.name),
            cluster: self.name.clone(),
        };
        let member = MemberOptions { nodes: self.nodes.shapes(), bare: self.bare, ..MemberOptions::new(self.name) };
        member::Options { data_dir, store: Kind::Embedded, listen, member }
    }
}

/// Runs the program; usage errors end with 2, failures with 1.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    if let Some((program, args)) = as_karmadactl(&args) {
        return karmadactl(program, args);
    }
    let args = as_component(args);
    if let Some(component) = asks_for_version(&args) {
        say(&karmadactl::version::line(&format!("karmada-{component}")));
        return ExitCode::SUCCESS;
    }
    let parsed = flags::extend(Cli::command()).try_get_matches_from(args);
    let (cli, matches) = match parsed.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches))) {
        Ok(parsed) => parsed,
        Err(error) => {
            let code = if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
            // Nothing can be done about a closed terminal.
            let _ = error.print();
            return code;
        }
    };
    let logging = Given::logging(matches.subcommand().map_or(&matches, |(_, matches)| matches));
    let begun = logging.map(Logging::begin);
    match begun.and_then(|()| execute(cli.command, &matches)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Components that are programs of their own in upstream: `karmada-webhook ...` is `karmada webhook ...`.
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

/// `karmada scheduler version`, as upstream's components answer it.
fn asks_for_version(args: &[OsString]) -> Option<&'static str> {
    let component = PROGRAMS.iter().find(|program| args.get(1).is_some_and(|word| word == **program))?;
    args.get(2).is_some_and(|word| word == "version").then_some(component)
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

fn execute(command: Command, matches: &ArgMatches) -> anyhow::Result<()> {
    let of_command = matches.subcommand().map_or(matches, |(_, matches)| matches);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    match command {
        Command::Demo(args) => runtime.block_on(demo::run(&args.options(), &World::system(), ended())),
        Command::Up(args) => {
            let given = read(of_command, "up", flags::EFFECTIVE_IN_UP)?;
            runtime.block_on(up(args.options(&given)?))
        }
        Command::ControllerManager => {
            let given = read(of_command, "controller-manager", flags::EFFECTIVE_IN_CONTROLLER_MANAGER)?;
            let settings = settings(&given)?;
            runtime.block_on(components::controller_manager(&given, settings))
        }
        Command::Agent => {
            let given = read(of_command, "agent", flags::EFFECTIVE_IN_AGENT)?;
            let settings = agent_settings(&given)?;
            runtime.block_on(components::agent(&given, settings))
        }
        Command::MetricsAdapter => {
            read(of_command, "metrics-adapter", &[])?;
            anyhow::bail!(
                "karmada-metrics-adapter is not part of this version: its flags are known, the metrics APIs over members \
                 (metrics.k8s.io, custom.metrics.k8s.io) are not served. `kubectl top` works with a member's own \
                 kubeconfig, and through `clusters/NAME/proxy`"
            )
        }
        Command::AggregatedApiserver(args) => {
            let given = read(of_command, "aggregated-apiserver", flags::EFFECTIVE_IN_AGGREGATED_APISERVER)?;
            runtime.block_on(components::aggregated_apiserver(&given, args.data_dir))
        }
        Command::Search(args) => {
            let given = read(of_command, "search", flags::EFFECTIVE_IN_SEARCH)?;
            runtime.block_on(components::search(&given, args.data_dir))
        }
        Command::Webhook(args) => {
            let given = read(of_command, "webhook", flags::EFFECTIVE_IN_WEBHOOK)?;
            if args.print_configurations { args.print(&given) } else { runtime.block_on(serve_webhook(&given)) }
        }
        Command::Scheduler => {
            let given = read(of_command, "scheduler", flags::EFFECTIVE_IN_SCHEDULER)?;
            runtime.block_on(components::scheduler(&given))
        }
        Command::SchedulerEstimator => {
            let given = read(of_command, "scheduler-estimator", flags::EFFECTIVE_IN_SCHEDULER_ESTIMATOR)?;
            runtime.block_on(components::scheduler_estimator(&given))
        }
        Command::Descheduler => {
            let given = read(of_command, "descheduler", flags::EFFECTIVE_IN_DESCHEDULER)?;
            runtime.block_on(components::descheduler(&given))
        }
        Command::Apiserver(args) => runtime.block_on(serve(args.options())),
        Command::Member(args) => runtime.block_on(member(args.options())),
    }
}

/// What a command was given; what of it has no effect is said where logs go.
fn read<'a>(matches: &'a ArgMatches, command: &str, effective: &[&str]) -> anyhow::Result<Given<'a>> {
    let given = Given::read(matches, command, effective)?;
    for notice in &given.notices {
        eprintln!("notice: {notice}");
    }
    Ok(given)
}

async fn serve(options: apiserver::Options) -> anyhow::Result<()> {
    let running = apiserver::start(&options, &World::system()).await?;
    let socket = &running.socket;
    say(&format!(
        "The API server is ready on {}\n  export KUBECONFIG={}\n  kubectl api-resources\n",
        socket.url,
        socket.kubeconfig.display()
    ));
    ended().await?;
    running.stop().await
}

async fn serve_webhook(given: &Given<'_>) -> anyhow::Result<()> {
    let options = webhook_options(given)?;
    let rules = Rules::new(World::system(), admission(given)?);
    let from_environment = std::env::var("KUBECONFIG").unwrap_or_default();
    let kubeconfig = [given.text("kubeconfig"), &from_environment].into_iter().find(|path| !path.is_empty());
    let kubeconfig =
        kubeconfig.context("--kubeconfig or KUBECONFIG must name the API server whose objects are judged")?;
    rules.connect(Client::from_kubeconfig(std::path::Path::new(kubeconfig), None).await?);
    let registry = metrics::Registry::default();
    crate::metrics::of_process(&registry);
    let running = webhook::start(rules, registry, &options).await?;
    say(&format!("The webhooks are ready on https://{}\n", running.address));
    ended().await?;
    running.stop().await;
    Ok(())
}

async fn member(options: member::Options) -> anyhow::Result<()> {
    let running = RunningMember::start(options, &World::system()).await?;
    let (name, kubeconfig) = (running.name(), running.kubeconfig().display());
    say(&format!(
        "Member {name} is ready on {}\n  karmadactl join {name} --cluster-kubeconfig={kubeconfig}\n  \
         kubectl --kubeconfig={kubeconfig} get nodes\n",
        running.url(),
    ));
    ended().await?;
    running.stop().await
}

async fn up(options: up::Options) -> anyhow::Result<()> {
    let plane = ControlPlane::start(&options, &World::system()).await?;
    let begun = async {
        anyhow::ensure!(plane.ready().await, "the components ended before they were ready");
        plane.members().join(plane.client()).await
    };
    let ready = tokio::select! {
        begun = begun => begun.map(|()| true),
        ended = ended() => ended.map(|()| false),
    };
    if let Ok(true) = ready {
        say(&welcome(&plane));
        ended().await?;
    }
    plane.stop().await?;
    ready.map(drop)
}

fn welcome(plane: &ControlPlane) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    // Writing to a String cannot fail.
    if let Some(socket) = plane.socket() {
        let _ = writeln!(text, "The control plane is ready on {}", socket.url);
        let _ = writeln!(text, "  export KUBECONFIG={}", socket.kubeconfig.display());
    }
    for member in plane.members().iter() {
        let _ = writeln!(text, "  # member {}: kubectl --kubeconfig={}", member.name(), member.kubeconfig().display());
    }
    if plane.members().iter().next().is_none() {
        text.push_str("  karmadactl join NAME --cluster-kubeconfig=FILE   # a member cluster\n");
    }
    text.push_str("  kubectl get clusters\n");
    text
}

/// Prints for the user; a server goes on serving when nobody reads what it says.
pub(crate) fn say(text: &str) {
    use std::io::Write as _;
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Waits for SIGTERM or SIGINT.
pub(crate) async fn ended() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut term = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    tokio::select! {
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
