//! A control plane with members, controllers and the scheduler.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use apimachinery::resource::Resource;
use apimachinery::{ApiResource, Object, ObjectKey, Status};
use apiserver::documents::discovery::Discovery;
use apiserver::request::RequestInfo;
use apiserver::{Admission, AdmissionRequest, ApiServer, Authorization, Operation, Route, ServerConfig, Shared};
use client::{Client, Patch, PatchOptions};
use controllers::{Context, FirstDecision, Settings};
use futures::future::BoxFuture;
use karmada_api::ApiType;
use karmada_api::admission::{self, Options};
use karmada_api::cluster::v1alpha1::Cluster;
use parking_lot::Mutex;
use propagation::resume::Break;
use serde_json::{Value, json};
use storage::Store;
use storage::memory::MemoryStore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use transport::{ApiService, Identity, Request, Response};
use world::World;

use crate::network::{CONTROL, Network};

pub const MEMBERS: [&str; 2] = ["m1", "m2"];
/// The control plane as the host of an API endpoint.
pub const CONTROL_PLANE: &str = "control-plane";

pub struct Plane {
    pub client: Client,
    /// The same server; counts the controllers' requests.
    controlled: Client,
    pub world: World,
    /// The control plane's store.
    store: MemoryStore,
    serves: Serves,
    /// When an older copy was last restored.
    restored: Option<String>,
    members: BTreeMap<String, ApiService>,
    /// Between the controllers and all servers.
    pub network: Arc<Network>,
    settings: Settings,
    stop: CancellationToken,
    running: Vec<JoinHandle<()>>,
    /// Tasks of superseded controllers that still run.
    former: Vec<JoinHandle<()>>,
    servers: Vec<ApiServer>,
    pub context: Context,
}

/// The labels and finalizers that controllers rely on.
struct KarmadaAdmission(World);

impl Admission for KarmadaAdmission {
    fn mutate<'a>(&'a self, request: &'a mut AdmissionRequest<'_>) -> BoxFuture<'a, Result<(), Status>> {
        let operation = match request.operation {
            Operation::Create => admission::Operation::Create,
            Operation::Update => admission::Operation::Update,
            Operation::Delete => return Box::pin(std::future::ready(Ok(()))),
        };
        let uuid = self.0.uuid();
        let reviewed = admission::Request {
            operation,
            group: &request.info.resource.group,
            kind: &request.info.resource.kind,
            namespace: request.key.namespace().unwrap_or_default(),
            old: request.old,
            uuid: &uuid,
            customizations: &[],
            options: Options::default(),
        };
        let result = match request.object.as_deref_mut() {
            Some(object) if request.subresource.is_empty() => admission::mutate(&reviewed, object),
            _ => Ok(()),
        };
        Box::pin(std::future::ready(result.map_err(|denied| denied.to_status("test"))))
    }
}

/// Serves the discovery of a server; built once per state of its registry.
#[derive(Default)]
struct DiscoveryRoute(Mutex<Option<(u64, Arc<Discovery>)>>);

impl DiscoveryRoute {
    fn newest(&self, server: &Shared) -> Arc<Discovery> {
        let served = server.registry.snapshot();
        let mut known = self.0.lock();
        match &*known {
            Some((generation, discovery)) if *generation == served.generation => discovery.clone(),
            _ => {
                let discovery = Arc::new(Discovery::new(served.iter().cloned()));
                *known = Some((served.generation, discovery.clone()));
                discovery
            }
        }
    }
}

impl Route for DiscoveryRoute {
    fn takes(&self, info: &RequestInfo) -> bool {
        !info.is_resource && info.path.starts_with("/api")
    }

    fn call<'a>(
        &'a self,
        server: &'a Shared,
        info: &'a RequestInfo,
        _user: &'a Identity,
        request: Request,
    ) -> BoxFuture<'a, Result<Response, Status>> {
        let answer = self.newest(server).get(&info.path, None, request.headers());
        Box::pin(std::future::ready(answer.ok_or_else(|| Status::not_found("", "", &info.path))))
    }
}

/// The definitions' resources, compiled once for all control planes of this process: that takes half a second.
static KARMADA: LazyLock<Vec<Resource>> = LazyLock::new(|| {
    let compiling = async {
        let world = World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 0);
        let server =
            start(&world, MemoryStore::new(), Serves::EVERYTHING, Vec::new(), Vec::new(), karmada_api::crds()).await;
        let custom = server.shared().registry.snapshot().iter().filter(|it| it.info.custom).cloned().collect();
        server.shutdown();
        custom
    };
    // In a separate runtime, so that it does not depend on which test is first.
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    std::thread::scope(|scope| scope.spawn(|| runtime().block_on(compiling)).join().expect("our definitions compile"))
});

async fn member_server(world: &World, serves: Serves) -> ApiServer {
    start(world, MemoryStore::new(), serves, Vec::new(), Vec::new(), Vec::new()).await
}

async fn control_plane(world: &World, store: &MemoryStore, serves: Serves) -> ApiServer {
    let mut resources = KARMADA.clone();
    resources.extend(karmada_api::cluster::resources(None));
    let admission: Vec<Arc<dyn Admission>> = vec![Arc::new(KarmadaAdmission(world.clone()))];
    start(world, store.clone(), serves, resources, admission, Vec::new()).await
}

/// The resources of a server: controllers watch every one of them.
#[derive(Clone, Copy)]
pub struct Serves(pub fn(&str) -> bool);

impl Serves {
    pub const EVERYTHING: Self = Self(|_| true);
}

async fn start(
    world: &World,
    store: MemoryStore,
    serves: Serves,
    more: Vec<Resource>,
    admission: Vec<Arc<dyn Admission>>,
    crds: Vec<Value>,
) -> ApiServer {
    static BUILT_IN: LazyLock<Vec<Resource>> = LazyLock::new(kubernetes_api::resources);
    let mut resources = BUILT_IN.clone();
    resources.extend(more);
    resources.retain(|resource| (serves.0)(&resource.info.resource.plural));
    let config = ServerConfig {
        store: Arc::new(store),
        world: world.clone(),
        resources,
        admission,
        authentication: Box::new(|_| Default::default()),
        authorization: Authorization::AlwaysAllow,
        routes: vec![Arc::new(DiscoveryRoute::default())],
        crds,
        converters: Default::default(),
        version: Default::default(),
    };
    ApiServer::start(config).await.expect("the server starts")
}

impl Plane {
    /// Two members joined and ready, namespace `demo` everywhere.
    pub async fn start() -> Self {
        let plane = Self::of(&MEMBERS, Settings::default()).await;
        for name in MEMBERS {
            plane.join(name).await;
            plane.until_ready(name).await;
        }
        plane
    }

    /// Members that are not joined yet, namespace `demo` in the control plane.
    pub async fn of(names: &[&str], settings: Settings) -> Self {
        Self::seeded(names, settings, 11, Serves::EVERYTHING).await
    }

    /// As [`Plane::of`], with another seed for randomness, and servers that have certain resources only.
    pub async fn seeded(names: &[&str], settings: Settings, seed: u64, serves: Serves) -> Self {
        let world = World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), seed);
        let store = MemoryStore::new();
        let mut servers = vec![control_plane(&world, &store, serves).await];
        let client = Client::in_process(servers[0].service(), Identity::system("test"));
        let mut members = BTreeMap::new();
        for name in names {
            let member = member_server(&world, serves).await;
            members.insert((*name).to_owned(), member.service());
            servers.push(member);
        }
        let network = Arc::new(Network::default());
        network.serve(CONTROL_PLANE, servers[0].service());
        let control = network.wrap(CONTROL, servers[0].service());
        let controlled = Client::in_process(control, Identity::system("controllers"));
        let stop = CancellationToken::new();
        // Its UID is the control plane's, which marks in members contain.
        let system = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}});
        client.create(&namespaces(), &system).await.expect("the namespace");
        controllers::record_opening(&client, &world, 0, &[]).await.expect("the opening is recorded");
        let context = context(&controlled, &world, &members, &network, &settings, &stop);
        let running = controllers(&context, &settings, &controlled, &world, &stop);
        let former = Vec::new();
        let plane = Self {
            client,
            controlled,
            world,
            store,
            serves,
            restored: None,
            members,
            network,
            settings,
            stop,
            running,
            former,
            servers,
            context,
        };
        for name in ["karmada-cluster", "demo"] {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            plane.create(namespaces(), namespace).await;
        }
        for name in names {
            let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "karmada-cluster"},
                "data": {"token": "dA==", "caBundle": "Y2E="}});
            plane.create(ApiResource::namespaced("", "v1", "Secret", "secrets"), secret).await;
        }
        plane
    }

    pub async fn join(&self, name: &str) {
        let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
            "spec": {"syncMode": "Push", "apiEndpoint": format!("https://{name}"), "insecureSkipTLSVerification": true,
            "secretRef": {"namespace": "karmada-cluster", "name": name}}});
        self.create(Cluster::api_resource(), cluster).await;
    }

    pub async fn until_ready(&self, name: &str) {
        self.until(&format!("cluster {name} ready"), async || {
            let cluster = self.get(&Cluster::api_resource(), &ObjectKey::cluster(name)).await?;
            cluster["status"]["conditions"]
                .as_array()?
                .iter()
                .find(|c| c["type"] == "Ready" && c["status"] == "True")?;
            Some(())
        })
        .await;
    }

    /// Stops the controllers and starts new ones with empty caches.
    pub async fn restart_controllers(&mut self) {
        self.stop.cancel();
        for controller in self.running.drain(..) {
            controller.await.expect("no controller panics");
        }
        self.start_controllers();
    }

    fn start_controllers(&mut self) {
        let context = self.new_context();
        self.running = controllers(&context, &self.settings, &self.controlled, &self.world, &self.stop);
    }

    /// A copy of the control plane's store.
    pub fn backup(&self) -> MemoryStore {
        self.store.copied(None)
    }

    /// Restores an older copy of the store, and restarts everything on it. `raised`: its revision is raised above all
    /// revisions that clients have seen, and the store records that.
    pub async fn restore(&mut self, backup: &MemoryStore, raised: bool) {
        self.stop_controllers().await;
        self.restore_beneath(backup, raised).await;
        self.restart_controllers().await;
    }

    /// The context of a new process, whose controllers are still to be started.
    pub fn new_context(&mut self) -> Context {
        self.stop = CancellationToken::new();
        let (client, world, stop) = (&self.controlled, &self.world, &self.stop);
        self.context = context(client, world, &self.members, &self.network, &self.settings, stop);
        self.context.clone()
    }

    /// Runs one of its controllers.
    pub fn run(&mut self, controller: impl Future<Output = ()> + Send + 'static) {
        self.running.push(tokio::spawn(controller));
    }

    pub async fn stop_controllers(&mut self) {
        self.stop.cancel();
        for controller in self.running.drain(..).chain(self.former.drain(..)) {
            controller.await.expect("no controller panics");
        }
    }

    /// As [`Plane::restore`], while the controllers keep running.
    pub async fn restore_beneath(&mut self, backup: &MemoryStore, raised: bool) {
        let before = backup.revision().await.expect("a revision");
        let after = self.store.revision().await.expect("a revision") + 1_000;
        self.network.cut(CONTROL);
        self.restored = Some(self.world.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        self.servers[0].shutdown();
        self.store = backup.copied(raised.then_some(after));
        self.servers[0] = control_plane(&self.world, &self.store, self.serves).await;
        let service = self.servers[0].service();
        self.client = Client::in_process(service.clone(), Identity::system("test"));
        let breaks: Vec<Break> = raised.then_some(Break { before, after }).into_iter().collect();
        let opened = if raised { after } else { before };
        let recorded = controllers::record_opening(&self.client, &self.world, opened, &breaks).await;
        recorded.expect("the opening is recorded");
        self.network.serve(CONTROL_PLANE, service.clone());
        self.network.serve(CONTROL, service);
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.network.heal(CONTROL);
    }

    /// Whether an object was created after the restore.
    pub fn is_since_restore(&self, object: &Value) -> bool {
        let created = object["metadata"]["creationTimestamp"].as_str();
        self.restored.as_deref().zip(created).is_some_and(|(restored, created)| created >= restored)
    }

    /// Starts controllers beside the running ones, which continue for a while: like a process that lost its leadership
    /// and has not noticed yet.
    pub fn overlap_controllers(&mut self, time: Duration) {
        let old = self.stop.clone();
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            old.cancel();
        });
        self.former.append(&mut self.running);
        self.start_controllers();
    }

    /// The agent of a member in pull mode; `way` names its connection to the control plane in the network.
    pub fn start_agent(&self, member: &str, way: &str, stop: &CancellationToken) -> Vec<JoinHandle<()>> {
        let control = self.network.wrap(way, self.servers[0].service());
        let own = self.network.wrap(member, self.members[member].clone());
        let own = (member.to_owned(), Client::in_process(own, Identity::system("karmada-agent")));
        let client = Client::in_process(control, Identity::system("karmada-agent"));
        let agent = Context::agent(client, self.world.clone(), own, self.settings.clone(), stop.clone());
        controllers::start(&agent, &[]).expect("the agent starts")
    }

    /// A client of the control plane behind the network.
    pub fn controlled(&self) -> &Client {
        &self.controlled
    }

    /// The registry of the controllers' metrics.
    pub fn metrics(&self) -> &metrics::Registry {
        &self.settings.metrics
    }

    /// The requests of controllers and scheduler to the control plane, by verb and resource, without events.
    pub fn requests(&self) -> BTreeMap<String, u64> {
        let rows = self.controlled.request_counts().into_iter();
        rows.filter(|row| row.resource != "events" && row.verb != "watch" && row.verb != "list")
            .map(|row| (format!("{} {}", row.verb, row.resource), row.count))
            .collect()
    }

    /// The server of a member.
    pub fn service_of(&self, name: &str) -> ApiService {
        self.members[name].clone()
    }

    pub fn member(&self, name: &str) -> Client {
        Client::in_process(self.members[name].clone(), Identity::system("test"))
    }

    /// Replaces a member by a new, empty server, whose revisions start again.
    pub async fn replace_member(&mut self, name: &str) {
        let member = member_server(&self.world, Serves::EVERYTHING).await;
        self.network.serve(name, member.service());
        self.members.insert(name.to_owned(), member.service());
        self.servers.push(member);
    }

    /// The parts of this control plane, and whether each is still referenced. The controllers reference the network.
    pub fn traces(&self) -> Vec<(String, Box<dyn Fn() -> bool>)> {
        let network = Arc::downgrade(&self.network);
        let mut traces: Vec<(String, Box<dyn Fn() -> bool>)> =
            vec![("network".to_owned(), Box::new(move || network.strong_count() > 0))];
        for (n, server) in self.servers.iter().enumerate() {
            let server = Arc::downgrade(server.shared());
            traces.push((format!("API server {n}"), Box::new(move || server.strong_count() > 0)));
        }
        traces
    }

    pub async fn create(&self, resource: ApiResource, object: Value) -> Arc<Object> {
        self.client.create(&resource, &object).await.unwrap_or_else(|error| panic!("{}: {error}", resource.kind))
    }

    pub async fn get(&self, resource: &ApiResource, key: &ObjectKey) -> Option<Value> {
        get(&self.client, resource, key).await
    }

    pub async fn merge(&self, resource: &ApiResource, key: &ObjectKey, patch: Value, options: PatchOptions) {
        self.client.patch(resource, key, &Patch::Merge(patch), &options).await.expect("the patch");
    }

    /// Waits up to five virtual minutes for `condition`.
    pub async fn until<T, F: Future<Output = Option<T>>>(&self, what: &str, condition: impl Fn() -> F) -> T {
        for _ in 0..3_000 {
            if let Some(found) = condition().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("never happened: {what}")
    }

    /// Waits until all work in progress is done.
    pub async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(5)).await;
    }

    pub async fn shutdown(self) {
        self.stop.cancel();
        for controller in self.running.into_iter().chain(self.former) {
            controller.await.expect("no controller panics");
        }
        self.servers.iter().for_each(ApiServer::shutdown);
    }
}

pub async fn get(client: &Client, resource: &ApiResource, key: &ObjectKey) -> Option<Value> {
    let object = client.get_opt(resource, key).await.expect("the server answers")?;
    Some(object.to_value().expect("an object"))
}

/// The number of writes that the controllers sent to a member since they connected.
pub fn writes(context: &Context, member: &str) -> u64 {
    let member = context.members().connected(member).expect("connected");
    let is_write = |verb: &str| !matches!(verb, "get" | "list" | "watch");
    member.client.request_counts().iter().filter(|row| is_write(row.verb)).map(|row| row.count).sum()
}

pub fn namespaces() -> ApiResource {
    ApiResource::cluster("", "v1", "Namespace", "namespaces")
}

fn context(
    client: &Client,
    world: &World,
    members: &BTreeMap<String, ApiService>,
    network: &Arc<Network>,
    settings: &Settings,
    stop: &CancellationToken,
) -> Context {
    let (services, network) = (members.clone(), network.clone());
    let connector: controllers::Connector = Arc::new(move |endpoint: &client::Endpoint| {
        let name = endpoint.server.strip_prefix("https://")?;
        let service = network.wrap(name, services.get(name).cloned().or_else(|| network.service(name))?);
        Some(Client::in_process(service, Identity::system("karmada")))
    });
    Context::new(client.clone(), world.clone(), connector, settings.clone(), stop.clone())
}

fn controllers(
    context: &Context,
    settings: &Settings,
    client: &Client,
    world: &World,
    stop: &CancellationToken,
) -> Vec<JoinHandle<()>> {
    let running = controllers::start(context, &[]).expect("the controllers start");
    let mut options = scheduler::Options::default();
    options.gates.tolerations_expire = settings.gates.failover && settings.eviction.by_taints;
    let (scheduler, _) = scheduler::start(context.informers(), client, world.clone(), options, stop.clone());
    context.decide_first_with(Arc::new(move |binding| {
        let mut first = scheduler.decide_first(binding)?;
        let patch = first.take_patch();
        Some(FirstDecision { patch, created: Box::new(move |object| first.created(object)) })
    }));
    running
}
