//! The control plane's API server: the served resources, their admission, and the first objects.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use admission::{ConversionCalls, UserAdmission};
use anyhow::Context as _;
use apimachinery::resource::Resource;
use apiserver::admit::plugins::{self, Switches};
use apiserver::auth::authn::StaticTokens;
use apiserver::cache::Apart;
use apiserver::{Admission, ApiServer, Route, ServerConfig};
use client::Client;
use client::webhooks::Webhooks;
use controllers::Connector;
use kubernetes_api::services::Ranges;
use metrics_adapter::{Fleet, MetricsApi};
use storage::Store;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use transport::Identity;
use world::World;

use crate::access::{self, Socket};
use crate::aggregation;
use crate::audit;
use crate::backups::route::Backups;
use crate::backups::schedule;
use crate::data_dir::DataDir;
use crate::engine::{Engine, Kind};
use crate::event_storage::{self, EventStorage};
use crate::external::leases::LeasesHere;
use crate::front::Deletions;
use crate::front_proxies::FrontProxies;
use crate::identity;
use crate::listed_metrics::{self, Offered, Versions};
use crate::operation::{Operation, Shutdown};
use crate::peers::{self, Peers};
pub use crate::plugins::default_plugins;
use crate::reach::Listen;
use crate::registration;
use crate::resources;
use crate::rules::Rules;
use crate::service_accounts::ServiceAccounts;
use crate::sockets::Bound;
use fleet_api::measured::Measured;
use fleet_api::opensearch;
use fleet_api::proxy::{ClusterProxy, EndsTunnels};
use fleet_api::search::{Offers, Search};

#[derive(Clone, Debug)]
pub struct Options {
    pub data_dir: PathBuf,
    pub store: Kind,
    pub listen: Listen,
    pub token_auth_file: Option<PathBuf>,
    /// The credentials of admission webhooks.
    pub admission_config: Option<PathBuf>,
    pub service_accounts: ServiceAccounts,
    /// Users and rights from other programs, and the encryption of stored values.
    pub identity: identity::Settings,
    /// The audit policy and its backends.
    pub audit: audit::Settings,
    /// The bounds of requests.
    pub overload: apiserver::flow::Settings,
    /// Aggregated API servers.
    pub aggregation: aggregation::Settings,
    /// The ranges of service addresses and node ports.
    pub services: Ranges,
    /// Differences from kube-apiserver's default set of admission plugins.
    pub plugins: Switches,
    /// Options of the admission rules.
    pub admission: karmada_api::admission::Options,
    /// Feature gate CustomizedClusterResourceModeling.
    pub resource_models: bool,
    /// Where Events are kept. On etcd, they are in etcd.
    pub events: EventStorage,
    /// Backups at intervals, if any.
    pub backups: Option<schedule::Plan>,
    /// The shutdown, and the limits of connections.
    pub operation: Operation,
}

impl Options {
    fn admission_configuration(&self) -> anyhow::Result<::admission::Configuration> {
        let Some(file) = &self.admission_config else { return Ok(::admission::Configuration::default()) };
        let read =
            |path: &Path| std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()));
        let configuration = ::admission::Configuration::read(file, &read);
        configuration.with_context(|| format!("--admission-control-config-file {}", file.display()))
    }
}

/// An API server without its socket; in-process clients can use it.
pub struct Opened {
    pub server: ApiServer,
    pub data: DataDir,
    engine: Engine,
    search: Arc<Search>,
    measured: Arc<Measured>,
    /// Where the server serves the metrics of members.
    metrics_api: Option<(Arc<MetricsApi>, Arc<::aggregation::Aggregation>)>,
    operation: Operation,
    /// Stops the task that takes backups.
    backups: Option<(CancellationToken, JoinHandle<()>)>,
    /// Stops the task that follows files of flags.
    identity: Option<(CancellationToken, JoinHandle<()>)>,
    /// Stops the task that maintains the flow control objects.
    flow: Option<(CancellationToken, JoinHandle<()>)>,
    audit: Option<audit::Backends>,
    /// Sends spans to a collector.
    spans: Option<otlp::Exporter>,
    /// Stops the task that keeps `default/kubernetes`.
    front: (CancellationToken, JoinHandle<()>),
    /// The place among the servers of a shared store.
    peers: Option<peers::Running>,
}

/// A serving API server.
pub struct Running {
    pub opened: Opened,
    pub socket: Socket,
}

/// Opens the store and creates the bootstrap objects. `connector` reaches members of this process.
pub async fn open(options: &Options, connector: Connector, world: &World) -> anyhow::Result<Opened> {
    let (data, engine, served) = if DataDir::is_used(&options.data_dir) {
        futures::try_join!(open_data(options, world), open_engine(options, true, world), served(options))?
    } else {
        // The store first: from certificates, the next start infers that a store exists.
        let (engine, served) = futures::try_join!(open_engine(options, false, world), served(options))?;
        (open_data(options, world).await?, engine, served)
    };
    let rules = Rules::new(world.clone(), options.admission);
    let identity = options.identity.open(&options.service_accounts.issuers).await?;
    let tokens = options.token_auth_file.as_deref().map(access::static_tokens).transpose()?;
    let admission = options.admission_configuration()?;
    let around = ServerContext { data: &data, identity: &identity, rules: &rules, tokens: tokens.clone(), world };
    let store = engine.readable(identity.store(engine.store(), engine.places()));
    if let Kind::Etcd(settings) = &options.store {
        let obstacle = adoption::installation::obstacle(&*store).await.context("reading the store")?;
        let (servers, prefix) = (settings.servers.join(","), &settings.prefix);
        anyhow::ensure!(
            obstacle.is_none(),
            "the objects under {prefix} of etcd at {servers} are not ready for this server: {}",
            obstacle.unwrap_or_default()
        );
    }
    let apart = engine.apart().into_iter().map(|Apart { resources, store }| {
        let store = engine.readable(identity.store(store, engine.places()));
        Apart { resources, store }
    });
    let events = options.events.open(world).filter(|_| !engine.is_shared());
    let apart = apart.chain(events.as_ref().map(event_storage::apart)).collect();
    let mut config = server_config(options, served, store, around, &admission)?;
    let proxy = Arc::new(ClusterProxy::new(connector, options.admission.allow_http_endpoints));
    config.admission.push(Arc::new(EndsTunnels(proxy.tunnels().clone())));
    let aggregation = options.aggregation.open(&config.resources, &data, world);
    config.admission.push(Arc::clone(&aggregation) as Arc<dyn Admission>);
    let measured = Arc::new(Measured::default());
    let metrics_api = Arc::new(MetricsApi::new(Arc::clone(&measured) as Arc<dyn Fleet>));
    let metrics_api = options.aggregation.metrics.then_some(metrics_api);
    if let Some(api) = &metrics_api {
        config.routes.insert(0, Arc::clone(api) as Arc<dyn Route>);
    }
    // Documents serve the paths of all other group versions.
    config.routes.insert(0, Arc::clone(&aggregation) as Arc<dyn Route>);
    let users = Arc::new(UserAdmission::new(admission, &options.plugins, world.clone()));
    config.admission.push(Arc::clone(&users) as Arc<dyn Admission>);
    let search = Arc::new(Search::new(Arc::clone(&proxy), Offers::ALL));
    config.routes.push(Arc::clone(&proxy) as Arc<dyn Route>);
    config.routes.extend(crate::operation::pages(world));
    config.routes.push(Arc::clone(&search) as Arc<dyn Route>);
    if let Some(store) = engine.embedded() {
        config.routes.push(Arc::new(Backups::new(store.clone(), &options.data_dir)));
    }
    let front = options.listen.front(&options.services);
    let deletions = Arc::new(Deletions::new(front));
    config.admission.push(Arc::clone(&deletions) as Arc<dyn Admission>);
    let authentication = &options.aggregation.published(&data, options.listen.front_proxies.as_ref());
    let more = crate::bootstrap::of_karmada();
    let peers = match engine.is_shared() {
        true => {
            let found = Peers::find(engine.store(), front, engine.agreement(world).await?, &data, world).await;
            Some(found.context("finding the other API servers")?)
        }
        false => None,
    };
    config.admission.extend(peers.as_ref().map(|peers| Arc::new(LeasesHere(peers.placed())) as Arc<dyn Admission>));
    let others = peers.as_ref().map_or_else(Vec::new, |peers| peers.others.clone());
    let own =
        crate::bootstrap::Server { front, others: &others, services: &options.services, authentication, world, more };
    let opened_at = engine.store().revision().await.context("reading the store")?;
    let begun = async {
        let server = ApiServer::start_with(config, apart).await.context("reading the store")?;
        proxy.serve(server.service());
        proxy.tunnels().count_in(&server.shared().metrics);
        engine.count_in(&server.shared().metrics);
        engine.report_damage_to(&server.shared().health);
        crate::metrics::of_process(&server.shared().metrics);
        rules.connect(client_of(&server, "karmada-webhook"));
        let client = client_of(&server, "apiserver");
        crate::bootstrap::run(&client, &own).await?;
        aggregation.begin(server.shared(), &client).await;
        let (listen, trust) = (&options.listen, crate::data_dir::trust(&data.pki, &options.listen));
        registration::publish(&client, &listen.url(), listen.server_name().as_deref(), &trust).await?;
        let opening = record_opening(&client, opened_at, engine.breaks(), world);
        let entered = match peers {
            Some(peers) => Some(peers.enter(opened_at, opening).await.context("joining the other API servers")?),
            None => opening.await.map(|()| None)?,
        };
        Ok((server, entered))
    };
    // The server does not listen yet.
    let (server, entered) = engine.at_once(begun).await?;
    let conversions = ConversionCalls::new(Webhooks::new(|_| None), server.shared());
    server.shared().conversions.call_with(Arc::new(conversions));
    users.count_in(&server.shared().metrics);
    users.enable();
    server.bound_requests(options.overload);
    let metrics_api = metrics_api.map(|api| (api, Arc::clone(&aggregation)));
    let aggregating =
        aggregation.run(Arc::clone(server.shared()), client_of(&server, "apiserver"), server.shared().ending());
    tokio::spawn(aggregating);
    let backups = scheduled(options, &engine, &server, world);
    if let Some(events) = events {
        event_storage::count_in(&server.shared().metrics, &events);
        tokio::spawn(event_storage::delete_stored(engine.store()));
    }
    // The objects that exist before the first client are not audited.
    let audit = options.audit.open(&server.shared().metrics).await?.map(|(auditor, backends)| {
        server.audit(auditor);
        backends
    });
    let tracing = options.operation.tracing.as_deref();
    let spans = tracing.map(|file| crate::spans::start(file, &server)).transpose()?;
    let stop = CancellationToken::new();
    let token_file = options.token_auth_file.clone().zip(tokens);
    let identity = identity.follow(&server, token_file, stop.clone()).map(|task| (stop, task));
    let operation = options.operation.clone();
    let placed = || server.shared().health.ready_gate("lease-placement");
    let peers = entered.map(|entered| entered.run(client_of(&server, "apiserver"), placed()));
    let opened = Opened {
        front: deletions.start(client_of(&server, "apiserver"), engine.store()),
        server,
        data,
        engine,
        search,
        measured,
        metrics_api,
        operation,
        backups,
        identity,
        flow: None,
        audit,
        spans,
        peers,
    };
    opened.server.shared().health.passed(apiserver::health::BOOTSTRAPPED);
    Ok(opened)
}

fn scheduled(
    options: &Options,
    engine: &Engine,
    server: &ApiServer,
    world: &World,
) -> Option<(CancellationToken, JoinHandle<()>)> {
    let (plan, store) = (options.backups.clone()?, engine.embedded()?.clone());
    let stop = CancellationToken::new();
    let registry = &server.shared().metrics;
    let task = schedule::start(plan, store, &options.data_dir, registry, world, stop.clone());
    Some((stop, task))
}

/// The revision of the store and its losses are recorded before any client reaches it: controllers and agents compare
/// them with the marks in members.
async fn record_opening(
    client: &Client,
    revision: u64,
    breaks: &[storage::embedded::Break],
    world: &World,
) -> anyhow::Result<()> {
    let lost: Vec<_> = breaks.iter().map(|it| controllers::Break { before: it.before, after: it.after }).collect();
    let recorded = controllers::record_opening(client, world, revision, &lost).await;
    recorded.map_err(anyhow::Error::msg).context("recording that the store was opened")
}

async fn open_data(options: &Options, world: &World) -> anyhow::Result<DataDir> {
    let (root, listen, world) = (options.data_dir.clone(), options.listen.clone(), world.clone());
    let tokens = options.service_accounts.clone();
    tokio::task::spawn_blocking(move || DataDir::open_for(&root, &listen, tokens, &world))
        .await
        .context("opening the data directory")?
}

async fn open_engine(options: &Options, must_exist: bool, world: &World) -> anyhow::Result<Engine> {
    Engine::open(options.store.clone(), &DataDir::store(&options.data_dir), must_exist, world).await
}

/// The served resources, and those of them that are stored definitions.
struct Served {
    resources: Vec<Resource>,
    crds: Vec<serde_json::Value>,
}

/// Computed while the disk is busy.
async fn served(options: &Options) -> anyhow::Result<Served> {
    let resource_models = options.resource_models;
    let served = move || Served { resources: resources::resources(resource_models), crds: karmada_api::crds() };
    tokio::task::spawn_blocking(served).await.context("putting together what is served")
}

impl Opened {
    /// A client of this process, with every right.
    pub fn client(&self, component: &str) -> Client {
        client_of(&self.server, component)
    }

    /// The points where the store lost history, oldest first: a backup was restored, or a loss was accepted.
    pub fn breaks(&self) -> &[storage::embedded::Break] {
        self.engine.breaks()
    }

    /// Maintains the flow control objects; `with_conditions` if no controllers run beside the server.
    pub fn keep_flow_objects(&mut self, with_conditions: bool) {
        let (stop, world) = (CancellationToken::new(), self.server.shared().world.clone());
        let keeping = crate::flow_objects::keep(self.client("apiserver"), world, with_conditions, stop.clone());
        self.flow = Some((stop, tokio::spawn(keeping)));
    }

    /// Connects the search and metrics APIs to the members, and writes to OpenSearch until `stop`.
    pub fn read_from(&self, members: &controllers::Members, stop: &CancellationToken) {
        self.search.connect(members.clone());
        let client = self.client("karmada-search");
        opensearch::Context::new(client.clone(), client, members, self.server.shared()).start(stop.child_token());
        self.measured.connect(members.clone());
        if let Some((api, aggregation)) = self.metrics_api.clone() {
            let (server, versions) = (self.server.shared(), Versions::default());
            let publish = move |offered: &Offered| aggregation.serve_routed(versions.routed(offered));
            let (measured, world) = (Arc::clone(&self.measured), server.world.clone());
            tokio::spawn(listed_metrics::follow(api, measured, world, server.ending(), publish));
        }
    }

    /// Ends the reads that [`Opened::read_from`] started.
    pub fn forget_members(&self) {
        self.search.disconnect();
        self.measured.disconnect();
    }

    /// Opens the socket.
    pub async fn socket(&self, bound: Bound, listen: &Listen) -> anyhow::Result<Socket> {
        let shared = self.server.shared();
        let around =
            access::SocketContext { client: self.client("apiserver"), registry: &shared.metrics, world: &shared.world };
        let limits = self.operation.limits(self.server.limits(), &shared.world);
        Socket::open(bound, self.server.service(), limits, &self.data, listen, around).await
    }

    /// As [`Engine::replaced`].
    pub fn replaced(&self) -> futures::future::BoxFuture<'static, anyhow::Error> {
        self.engine.replaced()
    }

    /// How the server ends.
    pub fn shutdown(&self) -> Shutdown {
        self.operation.shutdown
    }

    /// Opens the socket and writes the kubeconfig for it.
    pub async fn listen(self, bound: Bound, options: &Options) -> anyhow::Result<Running> {
        let socket = self.socket(bound, &options.listen).await?;
        Ok(Running { opened: self, socket })
    }

    /// Stops the server, then closes the store.
    pub async fn close(self) -> anyhow::Result<()> {
        if let Some(peers) = self.peers {
            peers.leave().await;
        }
        // Before the server stops following the store: a write that one of them has begun waits until it is visible.
        for (stop, task) in self.backups.into_iter().chain(self.identity).chain(self.flow).chain([self.front]) {
            stop.cancel();
            // A task that panicked has reported it already; the store must be closed all the same.
            let _ = task.await;
        }
        self.server.shutdown();
        if let Some(audit) = self.audit {
            audit.close().await;
        }
        if let Some(spans) = self.spans {
            spans.close().await;
        }
        self.engine.close().await
    }
}

/// Validates the options, without store or socket.
///
/// # Errors
/// The invalid flag.
pub fn check(options: &Options) -> anyhow::Result<()> {
    plugins::check(&options.plugins)?;
    options.listen.check()?;
    anyhow::ensure!(
        options.backups.is_none() || !matches!(options.store, Kind::Etcd(_)),
        "--backup-dir is for the store in the data directory; take backups of etcd with `etcdctl snapshot save`"
    );
    options.backups.as_ref().map(schedule::check).transpose()?;
    options.token_auth_file.as_deref().map(access::static_tokens).transpose()?;
    options.admission_configuration()?;
    options.audit.check()?;
    options.operation.tracing.as_deref().map(crate::spans::read).transpose()?;
    options.overload.check().map_err(anyhow::Error::msg)?;
    options.aggregation.check()?;
    options.service_accounts.check()?;
    options.service_accounts.keys()?;
    options.identity.check(&options.service_accounts.issuers)?;
    Ok(())
}

/// Starts an API server without other components. Returns once the bootstrap objects exist and the socket accepts. No
/// file is created before the options are validated and the address is bound.
pub async fn start(options: &Options, world: &World) -> anyhow::Result<Running> {
    check(options)?;
    let (listen, bound) = options.listen.bind()?;
    let options = Options { listen, ..options.clone() };
    let mut opened = open(&options, Arc::new(|_| None), world).await?;
    opened.keep_flow_objects(true);
    opened.listen(bound, &options).await
}

impl Running {
    /// Waits for requests in flight, then closes the store.
    pub async fn stop(self) -> anyhow::Result<()> {
        let shutdown = self.opened.shutdown();
        shutdown.begin(&self.opened.server).await;
        shutdown.end_watches(&self.opened.server).await;
        self.socket.close().await?;
        self.opened.close().await
    }
}

fn client_of(server: &ApiServer, component: &str) -> Client {
    let client = Client::in_process(server.service(), Identity::system(component));
    client.counted_in(&server.shared().metrics)
}

/// The context of a server's configuration besides its options.
struct ServerContext<'a> {
    data: &'a DataDir,
    identity: &'a identity::Opened,
    rules: &'a Arc<Rules>,
    /// Those of `--token-auth-file`.
    tokens: Option<StaticTokens>,
    world: &'a World,
}

fn server_config(
    options: &Options,
    served: Served,
    store: Arc<dyn Store>,
    around: ServerContext<'_>,
    configuration: &::admission::Configuration,
) -> anyhow::Result<ServerConfig> {
    let ServerContext { data, identity, rules, tokens, world } = around;
    let version = access::version();
    let audiences = options.identity.authentication.audiences(&options.service_accounts.issuers);
    let accepted = access::Accepted {
        anonymous: options.identity.authentication.allows_anonymous(),
        audiences: audiences.clone(),
        others: identity.methods.clone().map(|methods| methods as _),
        front_proxy: options.listen.front_proxies.as_ref().map(FrontProxies::method),
        static_tokens: tokens,
    };
    let settings = plugins::Settings { world, pod_security: configuration.pod_security.clone() };
    let mut admission = plugins::configured(options.services.clone(), &settings, &options.plugins)?;
    admission.extend(crate::admission::of_control_plane(rules, options.admission.allow_http_endpoints));
    Ok(ServerConfig {
        store,
        world: world.clone(),
        resources: served.resources,
        admission,
        authentication: access::authentication(data, accepted)?,
        authorization: identity.authorization(),
        routes: access::routes(data, &version, audiences),
        crds: served.crds,
        converters: resources::converters(),
        version,
    })
}
