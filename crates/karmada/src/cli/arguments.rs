//! The commands with their own flags, and the options that result from them.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use apimachinery::quantity::Quantity;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Parser, Subcommand};
use karmada_api::admission::webhooks;
use karmada_api::gates;
use kubernetes_api::services::{Range, Ranges};
use simulator::{Load, MemberOptions, NodeShape};
use world::World;

use super::aggregation::AggregationArgs;
use super::audit::AuditArgs;
use super::etcd::EtcdArgs;
use super::front_proxies::FrontProxyArgs;
use super::identity::IdentityArgs;
use super::listening::{ListenArgs, port_range};
use super::operation::OperationArgs;
use super::overload::OverloadArgs;
use super::print;
use super::service_accounts::ServiceAccountArgs;
use super::settings::{admission, settings};
use crate::backups::schedule::{Plan, Retention};
use crate::data_dir::DataDir;
use crate::engine::Kind;
use crate::flags::FlagValues;
use crate::{apiserver, components, demo, member, plugins, up};

#[derive(Parser)]
#[command(name = "karmada", about = "Karmada: the multi-cluster Kubernetes control plane in one program", long_about = None)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Subcommand)]
pub(super) enum Command {
    /// Show what the control plane does, with simulated member clusters in this process
    Demo(DemoArgs),
    /// Run the whole control plane in one process, on the embedded store
    Up(UpArgs),
    /// Run the API server alone, on the embedded store
    Apiserver(ServerArgs),
    /// Run the controllers against an API server that runs elsewhere
    ControllerManager(ControllerArgs),
    /// Run the controllers of one member cluster in pull mode, beside the member
    Agent(AgentArgs),
    /// Serve cluster.karmada.io behind a stock kube-apiserver
    AggregatedApiserver(AggregatedArgs),
    /// Serve search.karmada.io behind a stock kube-apiserver
    Search(SearchArgs),
    /// Serve Karmada's admission webhooks and conversions for a stock kube-apiserver
    Webhook(WebhookArgs),
    /// Run the scheduler against an API server that runs elsewhere
    Scheduler,
    /// Run the scheduler estimator of one member cluster (gRPC)
    SchedulerEstimator,
    /// Run the descheduler, which moves replicas that cannot start
    Descheduler,
    /// Serve the metrics APIs over member clusters behind a stock kube-apiserver
    MetricsAdapter(MetricsAdapterArgs),
    /// Verify, measure, back up and restore the store of a control plane
    Store(super::store::StoreArgs),
    /// Check and renew the certificates of a control plane
    Certs(super::certs::CertsArgs),
    /// Run a simulated member cluster: an API server with nodes and workloads
    Member(MemberArgs),
    /// Print the version
    Version(VersionArgs),
}

#[derive(Args)]
pub(super) struct VersionArgs {
    /// The format: json or yaml
    #[arg(long, short)]
    pub(super) output: Option<String>,
}

/// Flags of every command that connects to members.
#[derive(Args, Clone, Copy)]
pub(super) struct EndpointArgs {
    /// Accept Clusters whose apiEndpoint is http://, where tokens and objects are sent unencrypted
    #[arg(long, hide_short_help = true)]
    pub(super) allow_http_member_endpoints: bool,
}

/// An addition to upstream's flags.
#[derive(Args, Clone, Copy)]
pub(super) struct AgentArgs {
    /// Let the control plane reach the member cluster through a tunnel that the agent opens
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    pub(super) enable_tunnel: bool,
}

/// The brake on evictions by taints; additions to upstream's flags.
#[derive(Args, Clone, Copy)]
pub(super) struct FailoverArgs {
    /// Pause evictions by taints when more than this share of the clusters turns unhealthy at about the same time; 1
    /// never pauses them
    #[arg(long, default_value_t = 0.5, value_parser = share, hide_short_help = true)]
    failover_brake_share: f64,
    /// The time within which that share of the clusters turns unhealthy
    #[arg(long, default_value = "5m", value_parser = duration, hide_short_help = true)]
    failover_brake_window: Duration,
}

impl FailoverArgs {
    pub(super) fn set(self, settings: &mut controllers::Settings) {
        let (share, window) = (self.failover_brake_share, self.failover_brake_window);
        settings.eviction.brake = controllers::BrakeLimits { share, window };
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("{text:?} is not a share from 0 to 1"))
}

#[derive(Args, Clone, Copy)]
pub(super) struct ControllerArgs {
    #[command(flatten)]
    pub(super) endpoints: EndpointArgs,
    #[command(flatten)]
    pub(super) failover: FailoverArgs,
}

#[derive(Args)]
pub(super) struct ServerArgs {
    /// The directory of the store, the certificates and the kubeconfig
    #[arg(long, default_value = "karmada-data")]
    data_dir: PathBuf,
    #[command(flatten)]
    listen: ListenArgs,
    /// The port of the HTTPS API; 0 takes a free one
    #[arg(long, default_value_t = 5443)]
    secure_port: u16,
    /// A file with static tokens, in lines of `token,user,uid[,"group1,group2"]`
    #[arg(long)]
    token_auth_file: Option<PathBuf>,
    /// An AdmissionConfiguration: the credentials that admission webhooks receive
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    admission_control_config_file: Option<PathBuf>,
    #[command(flatten)]
    service_accounts: ServiceAccountArgs,
    #[command(flatten)]
    identity: IdentityArgs,
    #[command(flatten)]
    audit: AuditArgs,
    #[command(flatten)]
    overload: OverloadArgs,
    #[command(flatten)]
    aggregation: AggregationArgs,
    #[command(flatten)]
    front_proxies: FrontProxyArgs,
    #[command(flatten)]
    operation: OperationArgs,
    /// The addresses of services; after a comma those of the other family
    #[arg(long, value_delimiter = ',', num_args = 1..=2, default_value = "10.96.0.0/12")]
    service_cluster_ip_range: Vec<Range>,
    /// The ports of services on every node
    #[arg(long, value_parser = port_range, default_value = "30000-32767", hide_short_help = true)]
    service_node_port_range: RangeInclusive<u16>,
    /// Admission plugins to enable besides the default ones, by kube-apiserver's names
    #[arg(long, value_delimiter = ',')]
    enable_admission_plugins: Vec<String>,
    /// Admission plugins to disable [default: StorageObjectInUseProtection,ServiceAccount]
    #[arg(long, value_delimiter = ',')]
    disable_admission_plugins: Option<Vec<String>>,
    #[command(flatten)]
    backups: BackupArgs,
    #[command(flatten)]
    etcd: EtcdArgs,
    #[command(flatten)]
    endpoints: EndpointArgs,
}

#[derive(Args)]
struct BackupArgs {
    /// The directory for backups at intervals, preferably on another disk; none are taken without it
    #[arg(long)]
    backup_dir: Option<PathBuf>,
    /// The time between backups; the first follows the start if the newest is older
    #[arg(long, default_value = "6h", value_parser = duration, hide_short_help = true)]
    backup_interval: Duration,
    /// The number of backups to keep
    #[arg(long, default_value_t = 28, value_parser = clap::value_parser!(u32).range(1..), hide_short_help = true)]
    backup_retention: u32,
    /// The age after which backups are removed, however many they are; 0 for any age. The newest stays
    #[arg(long, default_value = "0s", value_parser = duration, hide_short_help = true)]
    backup_retention_age: Duration,
    /// Leave the keys and certificates out of these backups
    #[arg(long, hide_short_help = true)]
    backup_without_keys: bool,
}

impl BackupArgs {
    fn plan(self) -> Option<Plan> {
        let age = Some(self.backup_retention_age).filter(|age| !age.is_zero());
        Some(Plan {
            directory: self.backup_dir?,
            interval: self.backup_interval,
            retention: Retention { count: self.backup_retention as usize, age },
            with_keys: !self.backup_without_keys,
        })
    }
}

/// Like Go's, and not negative.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let parsed: Option<apimachinery::duration::Duration> = text.parse().ok();
    let parsed = parsed.and_then(|parsed| parsed.to_std());
    parsed.ok_or_else(|| format!("{text:?} is not a duration such as 6h or 30m"))
}

#[derive(Args)]
pub(super) struct UpArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// The controllers to run: names, `*` for all, `-name` to leave one out
    #[arg(long, value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    controllers: Vec<String>,
    /// The controllers of kube-controller-manager to run; the default is that of Karmada's control planes
    #[arg(long, value_delimiter = ',', default_value = up::KUBE_CONTROLLERS, allow_hyphen_values = true,
          long_help = kube_controllers())]
    kube_controllers: Vec<String>,
    /// Run the descheduler as well
    #[arg(long)]
    descheduler: bool,
    /// The number of member clusters to simulate in this process and to join; they are kept in the data directory
    #[arg(long, default_value_t = 0)]
    simulated_clusters: u16,
    #[command(flatten)]
    failover: FailoverArgs,
}

#[derive(Args)]
pub(super) struct AggregatedArgs {
    /// The directory of the Clusters, unless --etcd-servers is given, and of the serving certificate if none is given
    #[arg(long, default_value = "karmada-aggregated-data")]
    pub(super) data_dir: PathBuf,
    #[command(flatten)]
    pub(super) endpoints: EndpointArgs,
}

#[derive(Args)]
pub(super) struct SearchArgs {
    /// The directory of the registries, unless --etcd-servers is given, and of the serving certificate if none is given
    #[arg(long, default_value = "karmada-search-data")]
    pub(super) data_dir: PathBuf,
    #[command(flatten)]
    pub(super) endpoints: EndpointArgs,
}

#[derive(Args)]
pub(super) struct MetricsAdapterArgs {
    /// The directory of the serving certificate, if none is given
    #[arg(long, default_value = "karmada-metrics-data")]
    pub(super) data_dir: PathBuf,
    #[command(flatten)]
    pub(super) endpoints: EndpointArgs,
}

#[derive(Args)]
pub(super) struct WebhookArgs {
    /// Print the webhook configurations for the API server and the conversion of the bindings' definitions, then exit
    #[arg(long)]
    pub(super) print_configurations: bool,
    /// The URL at which the API server calls the webhook, for --print-configurations
    #[arg(long, default_value = "https://karmada-webhook.karmada-system.svc:443")]
    url: String,
    /// The CA of the serving certificate in PEM, for --print-configurations; `ca.crt` in --cert-dir if not given
    #[arg(long)]
    ca_file: Option<PathBuf>,
}

#[derive(Args)]
pub(super) struct DemoArgs {
    /// The number of simulated member clusters
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(3..=200))]
    clusters: u16,
    /// Exit after the story: with 0 when every act was observed, with 1 and the reason otherwise
    #[arg(long)]
    exit: bool,
    /// The seconds that each act may take
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    timeout: u64,
    /// The log verbosity; only errors are logged without it
    #[arg(id = "upstream:v", short = 'v', long = "v", value_name = "LEVEL")]
    verbosity: Option<String>,
    /// The port of the HTTPS API; 0 takes a free one
    #[arg(long, default_value_t = 0)]
    secure_port: u16,
}

#[derive(Args)]
pub(super) struct MemberArgs {
    /// The name of the member, its nodes and its kubeconfig
    #[arg(value_parser = member_name)]
    name: String,
    /// The directory of the store, the certificates and the kubeconfig; `karmada-member-NAME` if not given
    #[arg(long)]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    listen: ListenArgs,
    /// The port of the HTTPS API; 0 takes a free one. Without the flag it is the port of the last start, so that a
    /// control plane reaches the member again
    #[arg(long)]
    secure_port: Option<u16>,
    /// Run no workload controllers: objects stay as they are written
    #[arg(long)]
    bare: bool,
    /// The usage of each pod without an annotation, as metrics.k8s.io reports it
    #[arg(long, default_value = "cpu=1m,memory=16Mi")]
    load: Load,
    #[command(flatten)]
    nodes: NodeArgs,
}

#[derive(Args)]
pub(super) struct NodeArgs {
    /// The number of nodes
    #[arg(long, default_value_t = 2)]
    nodes: u16,
    /// The CPUs of each node, as a Kubernetes quantity
    #[arg(long, default_value = "4")]
    cpu: Quantity,
    /// The memory of each node
    #[arg(long, default_value = "16Gi")]
    memory: Quantity,
    /// The number of pods a node takes
    #[arg(long, default_value_t = 110)]
    pods: u32,
    /// The provider in the nodes' spec.providerID
    #[arg(long)]
    provider: Option<String>,
    /// The nodes' label topology.kubernetes.io/region
    #[arg(long)]
    region: Option<String>,
    /// The nodes' label topology.kubernetes.io/zone
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
        "The controllers of kube-controller-manager to run: names, `*` for all, `-name` to leave out one that another program \
         runs.\nThe default is that of Karmada's control planes, where templates stay as they are written. Available: {}",
        names.join(", ")
    )
}

/// An empty list has no names.
fn named(mut names: Vec<String>) -> Vec<String> {
    names.retain(|name| !name.is_empty());
    names
}

fn member_name(text: &str) -> Result<String, String> {
    match apimachinery::names::is_dns1123_label(text).into_iter().next() {
        None => Ok(text.to_owned()),
        Some(error) => Err(error),
    }
}

impl ServerArgs {
    pub(super) fn options(self, world: &World) -> anyhow::Result<apiserver::Options> {
        let mut ranges = self.service_cluster_ip_range.into_iter();
        let services = Ranges {
            primary: ranges.next().unwrap_or(Ranges::default().primary),
            secondary: ranges.next(),
            node_ports: self.service_node_port_range,
        };
        let mut listen = self.listen.listen(self.secure_port, "karmada-apiserver", world)?;
        let aggregation: crate::aggregation::Settings = self.aggregation.into();
        listen.trust_front_proxies(self.front_proxies.settings(aggregation.proxy_client.is_none()))?;
        Ok(apiserver::Options {
            data_dir: self.data_dir,
            events: self.etcd.event_storage()?,
            store: self.etcd.store()?,
            listen,
            token_auth_file: self.token_auth_file,
            admission_config: self.admission_control_config_file,
            service_accounts: self.service_accounts.into(),
            identity: self.identity.settings()?,
            audit: self.audit.settings(world),
            overload: self.overload.into(),
            aggregation,
            services,
            plugins: plugins::of_flags(named(self.enable_admission_plugins), self.disable_admission_plugins.map(named)),
            admission: karmada_api::admission::Options {
                allow_http_endpoints: self.endpoints.allow_http_member_endpoints,
                ..Default::default()
            },
            resource_models: true,
            backups: self.backups.plan(),
            operation: self.operation.into(),
        })
    }
}

impl UpArgs {
    pub(super) fn options(self, flags: &FlagValues<'_>, world: &World) -> anyhow::Result<up::Options> {
        let mut server = self.server.options(world)?;
        let allow_http_endpoints = server.admission.allow_http_endpoints;
        server.admission = karmada_api::admission::Options { allow_http_endpoints, ..admission(flags)? };
        let mut settings = controllers::Settings { allow_http_endpoints, ..settings(flags)? };
        self.failover.set(&mut settings);
        server.resource_models = flags.gates.is_open(gates::CUSTOMIZED_CLUSTER_RESOURCE_MODELING);
        let election = components::up_election(flags, server.store.is_shared(), world)?;
        Ok(up::Options {
            server,
            controllers: self.controllers,
            kube_controllers: self.kube_controllers,
            members: (1..=self.simulated_clusters).map(|n| MemberOptions::new(format!("member{n}"))).collect(),
            member_store: Kind::Embedded,
            settings,
            scheduler: components::scheduler_options(flags)?,
            switches: components::switches(flags),
            estimators: components::enabled_estimators(flags)?,
            descheduler: if self.descheduler { Some(components::descheduler_options(flags)?) } else { None },
            cluster_api: components::cluster_api(flags)?,
            components: None,
            election,
        })
    }
}

impl WebhookArgs {
    pub(super) fn print(&self, flags: &FlagValues<'_>) -> anyhow::Result<()> {
        let beside = PathBuf::from(flags.text("cert-dir")).join("ca.crt");
        let file = self.ca_file.as_ref().unwrap_or(&beside);
        let authority = std::fs::read(file).with_context(|| format!("reading the authority in {}", file.display()))?;
        let authority = STANDARD.encode(authority);
        let base = self.url.trim_end_matches('/');
        for configuration in webhooks::configurations(base, &authority) {
            print(&format!("{}---\n", apimachinery::yaml::to_string(&configuration)));
        }
        let conversion = serde_json::json!({ "spec": { "conversion": webhooks::conversion(base, &authority) } });
        for name in ["resourcebindings", "clusterresourcebindings"] {
            print(&format!("# kubectl patch crd {name}.work.karmada.io --type=merge -p '{conversion}'\n"));
        }
        Ok(())
    }
}

impl DemoArgs {
    pub(super) fn options(self) -> demo::Options {
        demo::Options {
            members: (1..=self.clusters).map(|n| MemberOptions::new(format!("member{n}"))).collect(),
            exit: self.exit,
            timeout: Duration::from_secs(self.timeout),
            secure_port: self.secure_port,
            store: Kind::Embedded,
        }
    }

    /// Whether log lines other than errors would disturb the story.
    pub(super) fn is_quiet(&self) -> bool {
        self.verbosity.is_none()
    }
}

impl MemberArgs {
    pub(super) fn options(self, world: &World) -> anyhow::Result<member::Options> {
        let data_dir = self.data_dir.unwrap_or_else(|| format!("karmada-member-{}", self.name).into());
        let last = || DataDir::last_port(&data_dir, &format!("{}.config", self.name));
        let port = self.secure_port.or_else(last).unwrap_or(0);
        let listen = self.listen.listen(port, &self.name, world)?;
        let member = MemberOptions {
            nodes: self.nodes.shapes(),
            bare: self.bare,
            load: self.load,
            ..MemberOptions::new(self.name)
        };
        Ok(member::Options { data_dir, store: Kind::Embedded, listen, member })
    }
}
