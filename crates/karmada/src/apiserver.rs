//! The control plane's API server: the served resources, their admission, and the first objects.

use std::path::PathBuf;
use std::sync::Arc;

use admission::UserAdmission;
use anyhow::Context as _;
use apimachinery::GroupVersionKind;
use apimachinery::resource::Resource;
use apiserver::crds::Converters;
use apiserver::plugins::Switches;
use apiserver::{Admission, ApiServer, Authorization, Route, ServerConfig};
use client::Client;
use client::webhooks::Webhooks;
use controllers::Connector;
use karmada_api::cluster::ClusterStrategy;
use karmada_api::work::BindingConverter;
use kubernetes_api::services::Ranges;
use storage::Store;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use transport::Identity;
use world::World;

use crate::access::{self, Around, Socket};
use crate::admission::KarmadaAdmission;
use crate::audit;
use crate::backups::route::Backups;
use crate::backups::schedule;
use crate::cluster_admission::ClusterAdmission;
use crate::data_dir::DataDir;
use crate::engine::{Engine, Kind};
use crate::reach::Listen;
use crate::registration::{self, AgentRules};
use crate::rules::Rules;
use crate::service_accounts::ServiceAccounts;
use crate::sockets::Bound;
use fleet_api::proxy::{ClusterProxy, EndsTunnels};
use fleet_api::search::{Offers, Search};

/// The admission plugins that Karmada's control planes disable: no pods run there, so neither their ServiceAccounts nor
/// volumes in use matter.
pub const DISABLED_PLUGINS: &str = "StorageObjectInUseProtection,ServiceAccount";

/// Kubernetes' default plugins without [`DISABLED_PLUGINS`].
pub fn default_plugins() -> Switches {
    Switches { enable: Vec::new(), disable: DISABLED_PLUGINS.split(',').map(str::to_owned).collect() }
}

#[derive(Clone, Debug)]
pub struct Options {
    pub data_dir: PathBuf,
    pub store: Kind,
    pub listen: Listen,
    pub token_auth_file: Option<PathBuf>,
    pub service_accounts: ServiceAccounts,
    /// The audit policy and its backends.
    pub audit: audit::Settings,
    /// The ranges of service addresses and node ports.
    pub services: Ranges,
    /// Differences from kube-apiserver's default set of admission plugins.
    pub plugins: Switches,
    /// Options of the admission rules.
    pub admission: karmada_api::admission::Options,
    /// Feature gate CustomizedClusterResourceModeling.
    pub resource_models: bool,
    /// Backups at intervals, if any.
    pub backups: Option<schedule::Plan>,
}

/// An API server without its socket; in-process clients can use it.
pub struct Opened {
    pub server: ApiServer,
    pub data: DataDir,
    engine: Engine,
    search: Arc<Search>,
    /// Stops the task that takes backups.
    backups: Option<(CancellationToken, JoinHandle<()>)>,
    audit: Option<audit::Backends>,
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
    let mut config = server_config(options, served, &data, engine.store(), &rules, world)?;
    let proxy = Arc::new(ClusterProxy::new(connector, options.admission.allow_http_endpoints));
    config.admission.push(Arc::new(EndsTunnels(proxy.tunnels().clone())));
    let users = Arc::new(UserAdmission::new(Webhooks::new(|_| None), &options.plugins, world.clone()));
    config.admission.push(Arc::clone(&users) as Arc<dyn Admission>);
    let search = Arc::new(Search::new(Arc::clone(&proxy), Offers::ALL));
    config.routes.push(Arc::clone(&proxy) as Arc<dyn Route>);
    config.routes.push(Arc::clone(&search) as Arc<dyn Route>);
    if let Some(store) = engine.embedded() {
        config.routes.push(Arc::new(Backups::new(store.clone(), &options.data_dir)));
    }
    let front = options.listen.front(&options.services);
    let client_ca = &data.pki.trusted;
    let mut more = crate::bootstrap::proxy_users();
    more.extend(crate::bootstrap::user_roles());
    more.extend(registration::roles());
    more.push(crate::bootstrap::system_namespace());
    let own = crate::bootstrap::Server { front, services: &options.services, client_ca, world, more };
    let opened_at = engine.store().revision().await.context("reading the store")?;
    let begun = async {
        let server = ApiServer::start(config).await.context("reading the store")?;
        proxy.serve(server.service());
        proxy.tunnels().count_in(&server.shared().metrics);
        engine.count_in(&server.shared().metrics);
        engine.report_damage_to(&server.shared().health);
        crate::metrics::of_process(&server.shared().metrics);
        rules.connect(client_of(&server, "karmada-webhook"));
        let client = client_of(&server, "apiserver");
        crate::bootstrap::run(&client, &own).await?;
        let (listen, trust) = (&options.listen, crate::data_dir::trust(&data.pki, &options.listen));
        registration::publish(&client, &listen.url(), listen.server_name().as_deref(), &trust).await?;
        record_opening(&client, opened_at, engine.breaks(), world).await?;
        Ok(server)
    };
    // Nothing listens yet.
    let server = engine.at_once(begun).await?;
    users.count_in(&server.shared().metrics);
    users.enable();
    let backups = scheduled(options, &engine, &server, world);
    // The objects that exist before the first client are not audited.
    let audit = options.audit.open(&server.shared().metrics).await?.map(|(auditor, backends)| {
        server.audit(auditor);
        backends
    });
    let opened = Opened { server, data, engine, search, backups, audit };
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

/// The revision of the store and its losses are recorded before any client reaches it: controllers and agents compare them
/// with the marks in members.
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
    Engine::open(options.store, &DataDir::store(&options.data_dir), must_exist, world).await
}

/// The served resources, and those of them that are stored definitions.
struct Served {
    resources: Vec<Resource>,
    crds: Vec<serde_json::Value>,
}

/// Computed while the disk is busy.
async fn served(options: &Options) -> anyhow::Result<Served> {
    let resource_models = options.resource_models;
    let served = move || Served { resources: resources(resource_models), crds: karmada_api::crds() };
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

    /// Connects the search API to the members.
    pub fn search_in(&self, members: &controllers::Members) {
        self.search.connect(members.clone());
    }

    /// Opens the socket.
    pub async fn socket(&self, bound: Bound, listen: &Listen) -> anyhow::Result<Socket> {
        let shared = self.server.shared();
        let around = Around { client: self.client("apiserver"), registry: &shared.metrics, world: &shared.world };
        Socket::open(bound, self.server.service(), self.server.limits(), &self.data, listen, around).await
    }

    /// Opens the socket and writes the kubeconfig for it.
    pub async fn listen(self, bound: Bound, options: &Options) -> anyhow::Result<Running> {
        let socket = self.socket(bound, &options.listen).await?;
        Ok(Running { opened: self, socket })
    }

    /// Stops the server, then closes the store.
    pub async fn close(self) -> anyhow::Result<()> {
        self.server.shutdown();
        if let Some(audit) = self.audit {
            audit.close().await;
        }
        if let Some((stop, task)) = self.backups {
            stop.cancel();
            // A schedule that panicked has reported it already; the store must be closed all the same.
            let _ = task.await;
        }
        self.engine.close().await
    }
}

/// Validates the options, without store or socket.
///
/// # Errors
/// The invalid flag.
pub fn check(options: &Options) -> anyhow::Result<()> {
    apiserver::plugins::check(&options.plugins)?;
    options.listen.check()?;
    options.backups.as_ref().map(schedule::check).transpose()?;
    options.token_auth_file.as_deref().map(access::static_tokens).transpose()?;
    options.audit.check()?;
    options.service_accounts.check()?;
    options.service_accounts.keys()?;
    Ok(())
}

/// Starts a server that is alone in its process. Returns once the bootstrap objects exist and the socket accepts. Nothing
/// is created before the options are validated and the address is bound.
pub async fn start(options: &Options, world: &World) -> anyhow::Result<Running> {
    check(options)?;
    let (listen, bound) = options.listen.bind()?;
    let options = Options { listen, ..options.clone() };
    open(&options, Arc::new(|_| None), world).await?.listen(bound, &options).await
}

impl Running {
    /// Waits for requests in flight, then closes the store.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.opened.server.end_watches();
        self.socket.close().await?;
        self.opened.close().await
    }
}

fn client_of(server: &ApiServer, component: &str) -> Client {
    let client = Client::in_process(server.service(), Identity::system(component));
    client.counted_in(&server.shared().metrics)
}

fn server_config(
    options: &Options,
    served: Served,
    data: &DataDir,
    store: Arc<dyn Store>,
    rules: &Arc<Rules>,
    world: &World,
) -> anyhow::Result<ServerConfig> {
    let version = access::version();
    let mut admission = apiserver::plugins::built_in(options.services.clone(), world, &options.plugins)?;
    admission.push(Arc::new(KarmadaAdmission(Arc::clone(rules))));
    admission.push(Arc::new(ClusterAdmission::new(options.admission.allow_http_endpoints)));
    admission.push(Arc::new(AgentRules::default()));
    Ok(ServerConfig {
        store,
        world: world.clone(),
        resources: served.resources,
        admission,
        authentication: access::authentication(data, options.token_auth_file.as_deref())?,
        authorization: Authorization::Rbac,
        routes: access::routes(data, &version),
        crds: served.crds,
        converters: converters(),
        version,
    })
}

/// The resources of one of Karmada's groups that are not CRDs.
pub(crate) fn resources_of(group: &str, resource_models: bool) -> Vec<Resource> {
    let mut resources = resources(resource_models);
    resources.retain(|it| it.info.resource.group == group);
    resources
}

/// The resources that are not custom resources: the built-in kinds, and some of Karmada.
fn resources(resource_models: bool) -> Vec<Resource> {
    let mut resources = kubernetes_api::resources();
    let config_map = GroupVersionKind::new("", "v1", "ConfigMap");
    let object_meta = kubernetes_api::schema_for(&config_map).and_then(|kind| {
        let metadata = kind.node().properties.get("metadata")?.schema;
        Some(kind.at(metadata))
    });
    resources.extend(karmada_api::resources(object_meta.as_ref()));
    let clusters = resources.iter_mut().filter(|it| it.info.resource.group == "cluster.karmada.io");
    clusters.for_each(|it| it.strategy = Arc::new(ClusterStrategy { resource_models }));
    resources
}

/// Bindings are served in two versions.
fn converters() -> Converters {
    let names = ["resourcebindings.work.karmada.io", "clusterresourcebindings.work.karmada.io"];
    names.map(|name| (name.to_owned(), Arc::new(BindingConverter) as Arc<dyn apiextensions::Converter>)).into()
}
