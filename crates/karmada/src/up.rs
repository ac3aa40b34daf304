//! The whole control plane in one process: the API server and all other components.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use client::{Client, Fence};
use controller_runtime::{LeaderElection, Leading};
use controllers::{Connector, Settings};
use estimator::{Connections, Estimators};
use futures::future::BoxFuture;
use scheduler::{DeschedulerOptions, Scheduler};
use scheduling::accurate::Switches;
use simulator::MemberOptions;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use transport::ApiService;
use world::World;

use crate::access::Socket;
use crate::apiserver::{self, Opened};
use crate::cluster_api;
use crate::components::{LEADING, WatchedMembers};
use crate::engine::Kind;
use crate::simulated::SimulatedMembers;
use crate::sockets::Bound;

/// The controllers of kube-controller-manager that run by default: those that Karmada's control planes run. The others
/// act on templates that are meant for members. `default` ServiceAccounts and `kube-root-ca.crt` in every namespace
/// would be propagated by policies that match them, and a ResourceQuota that is counted here limits the control plane.
/// `flowschema-controller` is part of kube-apiserver upstream.
pub const KUBE_CONTROLLERS: &str = "namespace-controller,garbage-collector-controller,serviceaccount-token-controller,\
    ttl-after-finished-controller,bootstrap-signer-controller,token-cleaner-controller,\
    certificatesigningrequest-cleaner-controller,certificatesigningrequest-signing-controller,\
    clusterrole-aggregation-controller,flowschema-controller,validatingadmissionpolicy-status-controller";

#[derive(Clone, Debug)]
pub struct Options {
    pub server: apiserver::Options,
    /// `--controllers`: the controllers to run, all by default.
    pub controllers: Vec<String>,
    /// kube-controller-manager's `--controllers`; all of them if it is empty.
    pub kube_controllers: Vec<String>,
    /// Members to simulate in this process, and how they are stored.
    pub members: Vec<MemberOptions>,
    pub member_store: Kind,
    /// Settings of the controllers and the scheduler; their metrics registry is the server's.
    pub settings: Settings,
    pub scheduler: scheduler::Options,
    /// The inputs of estimates made in this process.
    pub switches: Switches,
    /// `--enable-scheduler-estimator`, and the connection to estimators of members that this process does not follow.
    pub estimators: Option<estimator::Settings>,
    /// The descheduler, if it runs.
    pub descheduler: Option<DeschedulerOptions>,
    /// The Cluster API management cluster whose clusters are joined.
    pub cluster_api: Option<cluster_api::Settings>,
    /// Decides whose components work, on a store that several processes share.
    pub election: Option<LeaderElection>,
    /// The runtime of the components; `None` uses the caller's. Requests do not wait for the polls of tasks in it.
    pub components: Option<Handle>,
}

/// A running control plane.
pub struct ControlPlane {
    opened: Opened,
    /// `None` when only this process reaches it.
    socket: Option<Socket>,
    context: controllers::Context,
    scheduler: Scheduler,
    client: Client,
    members: SimulatedMembers,
    ready: watch::Receiver<bool>,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    /// The Lease of the components, where they were elected.
    turn: Option<Turn>,
    options: Options,
}

/// A process of several on one store. Its API is served; its components wait for their turn, the first or another one.
pub struct Candidate {
    opened: Opened,
    socket: Socket,
    members: SimulatedMembers,
    options: Options,
    election: LeaderElection,
}

/// The turn of this process, until its Lease is lost or released.
struct Turn {
    fence: Fence,
    /// Releases the Lease.
    end: CancellationToken,
    lost: CancellationToken,
    keeping: JoinHandle<()>,
}

impl Candidate {
    /// Opens the store and the socket.
    ///
    /// # Errors
    /// As those of [`ControlPlane::start`].
    pub async fn start(options: &Options, election: &LeaderElection, world: &World) -> anyhow::Result<Self> {
        check(options)?;
        let (options, bound) = bound(options)?;
        let members = simulated(&options, world).await?;
        let opened = open(&options, &members, world).await?;
        opened.server.shared().metrics.gauges(&LEADING).set(&[&election.name], 0.0);
        let socket = opened.socket(bound, &options.server.listen).await?;
        Ok(Self { opened, socket, members, options, election: election.clone() })
    }

    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// As [`Opened::replaced`].
    pub fn replaced(&self) -> BoxFuture<'static, anyhow::Error> {
        self.opened.replaced()
    }

    /// Waits for the Lease.
    pub async fn elected(&self, world: &World) -> anyhow::Result<Leading> {
        let (client, never) = (self.opened.client("karmada-controller-manager"), CancellationToken::new());
        let elected = self.election.acquire(&client, world, &never).await;
        elected.context("waiting for the Lease was cancelled")
    }

    /// Starts the components.
    ///
    /// # Errors
    /// A component cannot start.
    pub async fn lead(self, leading: Leading, world: &World) -> anyhow::Result<ControlPlane> {
        let Self { opened, socket, members, options, election } = self;
        let turn = Turn::begin(leading, &opened, &election.name);
        let mut plane = ControlPlane::over(opened, members, &options, Some(turn.fence.clone()), world)?;
        plane.socket = Some(socket);
        plane.turn = Some(turn);
        Ok(plane)
    }

    /// Stops before the components have had their turn.
    ///
    /// # Errors
    /// The store or a socket cannot be closed.
    pub async fn stop(self) -> anyhow::Result<()> {
        let shutdown = self.opened.shutdown();
        shutdown.begin(&self.opened.server).await;
        shutdown.end_watches(&self.opened.server).await;
        self.socket.close().await?;
        self.opened.close().await?;
        self.members.stop().await
    }
}

impl Turn {
    fn begin(leading: Leading, opened: &Opened, lease: &str) -> Self {
        let (end, lost, fence) = (CancellationToken::new(), CancellationToken::new(), leading.fence());
        let (stop, report) = (end.clone(), lost.clone());
        let (gauge, lease) = (opened.server.shared().metrics.gauges(&LEADING), lease.to_owned());
        gauge.set(&[&lease], 1.0);
        let keeping = tokio::spawn(async move {
            if !leading.keep(&stop).await {
                report.cancel();
            }
            gauge.set(&[&lease], 0.0);
        });
        Self { fence, end, lost, keeping }
    }

    /// Releases the Lease: another process need not wait for its end.
    async fn release(self) {
        self.end.cancel();
        // A panic has been logged.
        let _ = self.keeping.await;
    }
}

impl ControlPlane {
    /// Starts all components and opens the socket. `/readyz` turns to 200 when the components' caches are complete. No
    /// file is created before the options are validated and the address is bound.
    pub async fn start(options: &Options, world: &World) -> anyhow::Result<Self> {
        check(options)?;
        let (options, bound) = bound(options)?;
        Self::start_inside(&options, world).await?.on_socket(bound, &options).await
    }

    /// As [`ControlPlane::start`], with members that already run; those in the options are not started.
    pub async fn start_beside(members: SimulatedMembers, options: &Options, world: &World) -> anyhow::Result<Self> {
        check(options)?;
        let (options, bound) = bound(options)?;
        Self::start_with(members, &options, world).await?.on_socket(bound, &options).await
    }

    async fn on_socket(mut self, bound: Bound, options: &Options) -> anyhow::Result<Self> {
        let socket = self.opened.socket(bound, &options.server.listen).await?;
        self.socket = Some(socket);
        Ok(self)
    }

    /// As [`ControlPlane::start`], but for callers in this process only.
    pub async fn start_inside(options: &Options, world: &World) -> anyhow::Result<Self> {
        Self::start_with(simulated(options, world).await?, options, world).await
    }

    async fn start_with(members: SimulatedMembers, options: &Options, world: &World) -> anyhow::Result<Self> {
        let opened = open(options, &members, world).await?;
        Self::over(opened, members, options, None, world)
    }

    /// Starts the components. The clients that write for an elected one have its `fence`.
    fn over(
        opened: Opened,
        members: SimulatedMembers,
        options: &Options,
        fence: Option<Fence>,
        world: &World,
    ) -> anyhow::Result<Self> {
        // The API of an elected process is ready before its components are.
        let ready = options.election.is_none().then(|| opened.server.shared().health.ready_gate("controllers"));
        let stop = CancellationToken::new();
        let _spawned_there = options.components.as_ref().map(Handle::enter);
        let settings = Settings { fence, ..options.settings.clone() };
        let context = context(&opened, members.connector(), &settings, world, &stop);
        opened.read_from(context.members(), &stop);
        let mut kube = kube_controllers(&opened, &context, &settings, options, &stop)?;
        let mut tasks = controllers::start(&context, &options.controllers).context("--controllers")?;
        let discovered = options.cluster_api.clone();
        tasks.extend(discovered.map(|it| cluster_api::start(it, context.informers().clone(), stop.clone())));
        let (scheduler, scheduling) = scheduler(&opened, &context, &settings, options, world, &stop)?;
        tasks.push(scheduling);
        tasks.extend(descheduler(&opened, &context, &settings, options, world, &stop)?);
        let (readiness, became_ready) = watch::channel(false);
        let synced = context.clone();
        tasks.push(tokio::spawn(async move {
            kube.synced().await;
            let is_ready = synced.synced().await;
            if let Some(gate) = ready {
                gate.set(is_ready);
            }
            readiness.send_replace(is_ready);
            kube.ended().await;
        }));
        let client = opened.client("karmada");
        Ok(Self {
            opened,
            socket: None,
            context,
            scheduler,
            client,
            members,
            ready: became_ready,
            stop,
            tasks,
            turn: None,
            options: options.clone(),
        })
    }

    /// Waits until `/readyz` returns 200; false when it was stopped before.
    pub async fn ready(&self) -> bool {
        self.ready.clone().wait_for(|ready| *ready).await.is_ok()
    }

    /// Returns when the components have lost their Lease; never where they were not elected. They must stop at once:
    /// another process may run them.
    pub async fn lost(&self) {
        match &self.turn {
            Some(turn) => turn.lost.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// As [`Opened::replaced`].
    pub fn replaced(&self) -> BoxFuture<'static, anyhow::Error> {
        self.opened.replaced()
    }

    pub fn server(&self) -> &::apiserver::ApiServer {
        &self.opened.server
    }

    /// The API server as a service, for callers in this process.
    pub fn service(&self) -> ApiService {
        self.opened.server.service()
    }

    /// With every right.
    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn context(&self) -> &controllers::Context {
        &self.context
    }

    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// The members simulated in this process.
    pub fn members(&self) -> &SimulatedMembers {
        &self.members
    }

    pub fn socket(&self) -> Option<&Socket> {
        self.socket.as_ref()
    }

    /// The kubeconfig of the administrator, when there is a socket.
    pub fn kubeconfig(&self) -> Option<PathBuf> {
        self.socket.as_ref().map(|socket| socket.kubeconfig.clone())
    }

    /// Stops the components, which have lost their Lease, and joins the election again; the API stays served.
    ///
    /// # Errors
    /// If the components were not elected.
    pub async fn step_down(self) -> anyhow::Result<Candidate> {
        let Self { opened, socket, members, options, stop, tasks, turn, context, scheduler, .. } = self;
        stop.cancel();
        opened.forget_members();
        for task in tasks {
            // The panic of a component has been logged.
            let _ = task.await;
        }
        drop((context, scheduler));
        if let Some(turn) = turn {
            turn.release().await;
        }
        let election = options.election.clone().context("the components were not elected")?;
        let socket = socket.context("an elected process has a socket")?;
        Ok(Candidate { opened, socket, members, options, election })
    }

    /// Stops the components, then the servers; the next start resumes unfinished work.
    pub async fn stop(self) -> anyhow::Result<()> {
        let shutdown = self.opened.shutdown();
        shutdown.begin(&self.opened.server).await;
        self.stop.cancel();
        for task in self.tasks {
            // The panic of a component has been logged; the store must be closed all the same.
            let _ = task.await;
        }
        if let Some(turn) = self.turn {
            turn.release().await;
        }
        shutdown.end_watches(&self.opened.server).await;
        if let Some(socket) = self.socket {
            socket.close().await?;
        }
        self.opened.close().await?;
        self.members.stop().await
    }
}

/// The API server, which serves the metrics of the members as well.
async fn open(options: &Options, members: &SimulatedMembers, world: &World) -> anyhow::Result<Opened> {
    let mut server = options.server.clone();
    server.aggregation.metrics = true;
    let mut opened = apiserver::open(&server, members.connector(), world).await?;
    opened.keep_flow_objects(false);
    Ok(opened)
}

async fn simulated(options: &Options, world: &World) -> anyhow::Result<SimulatedMembers> {
    let members = options.server.data_dir.join("members");
    SimulatedMembers::start(&members, options.members.clone(), options.member_store.clone(), world).await
}

/// Validates the options, without store or socket.
fn check(options: &Options) -> anyhow::Result<()> {
    apiserver::check(&options.server)?;
    controllers::check(&options.controllers).context("--controllers")?;
    kube_controllers::check(&options.kube_controllers).context("--kube-controllers")?;
    if let Some(settings) = &options.estimators {
        settings
            .check()
            .context("--scheduler-estimator-ca-file, -cert-file, -key-file: setting up TLS to estimators")?;
    }
    Ok(())
}

/// Binds the address of the options, and records the port chosen for port 0.
fn bound(options: &Options) -> anyhow::Result<(Options, Bound)> {
    let (listen, bound) = options.server.listen.bind()?;
    let mut options = options.clone();
    options.server.listen = listen;
    Ok((options, bound))
}

/// [`KUBE_CONTROLLERS`], one by one.
pub fn default_kube_controllers() -> Vec<String> {
    KUBE_CONTROLLERS.split(',').map(str::to_owned).collect()
}

fn kube_controllers(
    opened: &Opened,
    context: &controllers::Context,
    settings: &Settings,
    options: &Options,
    stop: &CancellationToken,
) -> anyhow::Result<kube_controllers::Running> {
    let client = opened.client("kube-controller-manager").with_user_agent("kube-controller-manager");
    let (client, access) = (client.fenced(settings.fence.clone()), crate::access::controllers(&opened.data));
    kube_controllers::start(client, context.informers(), access, &options.kube_controllers, stop.clone())
        .context("--kube-controllers")
}

/// In one process with the controllers, it shares their caches.
fn scheduler(
    opened: &Opened,
    context: &controllers::Context,
    settings: &Settings,
    options: &Options,
    world: &World,
    stop: &CancellationToken,
) -> anyhow::Result<(Scheduler, JoinHandle<()>)> {
    let client = opened.client("karmada-scheduler").with_user_agent("karmada-scheduler");
    let client = client.fenced(settings.fence.clone());
    let estimators = match &options.estimators {
        Some(settings) => Some(estimators(opened, context, options, settings)?),
        None => options.scheduler.estimators.clone(),
    };
    let metrics = opened.server.shared().metrics.clone();
    let options = scheduler::Options { metrics, estimators, ..options.scheduler.clone() };
    let (scheduler, task) = scheduler::start(context.informers(), &client, world.clone(), options, stop.clone());
    let deciding = scheduler.clone();
    context.decide_first_with(Arc::new(move |binding| {
        let mut first = deciding.decide_first(binding)?;
        let patch = first.take_patch();
        Some(controllers::FirstDecision { patch, created: Box::new(move |object| first.created(object)) })
    }));
    Ok((scheduler, task))
}

/// Estimates members whose caches are in this process directly, all others over gRPC.
fn estimators(
    opened: &Opened,
    context: &controllers::Context,
    options: &Options,
    settings: &estimator::Settings,
) -> anyhow::Result<Estimators> {
    let watched_members = WatchedMembers::new(context.members().clone(), options.switches);
    let far = Connections::new(opened.client("karmada-scheduler"), settings.clone());
    let far = far.context("setting up TLS to estimators")?;
    Ok(Estimators::new(Some(watched_members), Some(far), settings.timeout).counting(&opened.server.shared().metrics))
}

fn descheduler(
    opened: &Opened,
    context: &controllers::Context,
    settings: &Settings,
    options: &Options,
    world: &World,
    stop: &CancellationToken,
) -> anyhow::Result<Option<JoinHandle<()>>> {
    let Some(own) = options.descheduler.clone() else { return Ok(None) };
    let own = DeschedulerOptions { metrics: opened.server.shared().metrics.clone(), ..own };
    // Without estimators of other processes it still covers the members of this process.
    let estimators = match &options.estimators {
        Some(settings) => estimators(opened, context, options, settings)?,
        None => {
            let watched_members = WatchedMembers::new(context.members().clone(), options.switches);
            let timeout = estimator::Settings::default().timeout;
            Estimators::new(Some(watched_members), None, timeout).counting(&opened.server.shared().metrics)
        }
    };
    let client = opened.client("karmada-descheduler").with_user_agent("karmada-descheduler");
    let client = client.fenced(settings.fence.clone());
    let (informers, world, stop) = (context.informers().clone(), world.clone(), stop.clone());
    Ok(Some(tokio::spawn(async move {
        scheduler::deschedule(&informers, &client, world, estimators, own, stop).await;
    })))
}

fn context(
    opened: &Opened,
    connector: Connector,
    settings: &Settings,
    world: &World,
    stop: &CancellationToken,
) -> controllers::Context {
    let client = opened.client("karmada-controller-manager").with_user_agent("karmada-controller-manager");
    let client = client.fenced(settings.fence.clone());
    let metrics = opened.server.shared().metrics.clone();
    let settings = Settings { metrics, quotas_are_joint: true, ..settings.clone() };
    controllers::Context::new(client, world.clone(), connector, settings, stop.clone())
}
