//! The server as a value: configuration in, one service out.

mod requests;

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use apimachinery::resource::Resource;
use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use storage::Store;
use tokio_util::sync::CancellationToken;
use transport::{ApiService, Request};
use world::World;

use crate::admit::Admission;
use crate::admit::Chain;
use crate::admit::durations::Durations;
use crate::audit::Auditor;
use crate::auth::authn::{Authentication, Lookup};
use crate::auth::authz;
use crate::auth::authz::{Authorizer, Rbac};
use crate::cache::{Apart, Cache, Follower};
use crate::conversion::Conversions;
use crate::crds::Definitions;
use crate::flow;
use crate::flow::FlowControl;
use crate::health::{Gate, Health};
use crate::limits::budget::Budgets;
use crate::limits::fairness::writers::Writers;
use crate::metrics::Counted;
use crate::registry::Registry;
use crate::request::log::RequestLog;
use crate::routes::Documents;
use crate::serve::Limits;
use crate::state::ending::Ending;
use crate::state::{CacheLookup, Route, Shared};

/// Builds an authorizer around that of the server's roles and bindings.
pub type BuildAuthorizer = Box<dyn FnOnce(Arc<dyn Authorizer>) -> Arc<dyn Authorizer> + Send>;

/// How requests are authorized.
pub enum Authorization {
    /// Every request is allowed.
    AlwaysAllow,
    /// From the server's own roles and bindings.
    Rbac,
    /// A front proxy has already authorized the request: users that it authenticates are authorized for everything, all
    /// others for health checks only.
    Delegated,
    /// By an authorizer that is built around the server's own roles and bindings.
    Custom {
        /// Receives the authorizer of the server's roles and bindings.
        build: BuildAuthorizer,
        /// Whether roles and bindings are in effect: then they also limit their own writes.
        has_rbac: bool,
    },
}

/// The configuration of a server.
pub struct ServerConfig {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The clock and randomness.
    pub world: World,
    /// Served besides custom resources.
    pub resources: Vec<Resource>,
    /// Admission plugins, in order.
    pub admission: Vec<Arc<dyn Admission>>,
    /// Built with a [`Lookup`] into this server's store, for credentials that depend on objects.
    pub authentication: Box<dyn FnOnce(Arc<dyn Lookup>) -> Authentication + Send>,
    /// How requests are authorized.
    pub authorization: Authorization,
    /// Routes besides those of resources, in order.
    pub routes: Vec<Arc<dyn Route>>,
    /// CustomResourceDefinitions that belong to this server: installed or updated before it is ready.
    pub crds: Vec<serde_json::Value>,
    /// In-process conversion between versions, by definition.
    pub converters: crate::crds::Converters,
    /// The document at `/version`.
    pub version: crate::documents::version::VersionInfo,
}

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants")]
pub enum StartError {
    #[error("the store could not be read")]
    Store(#[from] storage::Error),
    #[error(transparent)]
    Definitions(#[from] crate::crds::InstallError),
}

/// A running API server. Dropping it does not stop its task; [`ApiServer::shutdown`] does.
pub struct ApiServer {
    shared: Arc<Shared>,
    ready: Gate,
    /// False as soon as the shutdown is announced.
    serving: Gate,
    stop: CancellationToken,
}

impl ApiServer {
    /// Loads the store and starts following it.
    ///
    /// # Errors
    /// When the store cannot be read, or its own definitions cannot be installed.
    pub fn start(config: ServerConfig) -> BoxFuture<'static, Result<Self, StartError>> {
        Self::start_with(config, Vec::new())
    }

    /// As [`ApiServer::start`], with some resources in separate stores. None of them may be written in one transaction
    /// with other resources: their writes are stored alone, and without a guard on their namespace.
    ///
    /// # Errors
    /// As [`ApiServer::start`].
    pub fn start_with(config: ServerConfig, apart: Vec<Apart>) -> BoxFuture<'static, Result<Self, StartError>> {
        Box::pin(async move {
            let rbac = Arc::new(Rbac::default());
            let observed = Arc::clone(&rbac);
            let plugins = config.admission.clone();
            let metrics = metrics::Registry::default();
            config.admission.iter().for_each(|plugin| plugin.count_in(&metrics));
            let flow = FlowControl::new(&metrics, config.world.random_u64());
            let configured = Arc::clone(&flow);
            let observer = move |place: &str, event: &crate::cache::Event| {
                follow_rbac(&observed, place, event);
                configured.observe(place, event);
                plugins.iter().for_each(|plugin| plugin.observe(place, event));
            };
            let (cache, followers) = Cache::start_with(config.store, apart, vec![Box::new(observer)]).await?;
            let (authorizer, rbac): (Arc<dyn Authorizer>, _) = match config.authorization {
                Authorization::Delegated => (Arc::new(authz::Delegated), None),
                Authorization::AlwaysAllow => (Arc::new(authz::AlwaysAllow), None),
                Authorization::Rbac => (Arc::clone(&rbac) as _, Some(rbac)),
                Authorization::Custom { build, has_rbac } => (build(Arc::clone(&rbac) as _), has_rbac.then_some(rbac)),
            };
            let lookup = Arc::new(CacheLookup(Arc::clone(&cache)));
            let health = Health::default();
            health.passed(&["log"]);
            let ready = health.ready_gate("informer-sync");
            let serving = health.ready_gate("shutdown");
            serving.set(true);
            health.ready_gate(crate::health::STORAGE_INTEGRITY).set(cache.is_sound());
            let stop = CancellationToken::new();
            follow(followers, &health, &stop);
            let mut routes = config.routes;
            routes.push(Arc::new(Documents::new(config.version)));
            routes.push(Arc::new(crate::routes::Dumps(Arc::clone(&flow))));
            crate::state::count_objects(&metrics, Arc::downgrade(&cache));
            let shared = Arc::new(Shared {
                cache,
                registry: Arc::new(Registry::new(config.resources)),
                apis: ArcSwap::default(),
                conversions: Arc::new(Conversions::new(config.world.clone())),
                world: config.world,
                authentication: (config.authentication)(lookup),
                authorizer,
                health,
                counted: Counted::new(&metrics),
                budgets: Arc::new(Budgets::new(Default::default(), &metrics)),
                requests: RequestLog::default(),
                auditor: OnceLock::new(),
                tracer: OnceLock::new(),
                admission: Chain::new(config.admission, rbac, Durations::new(&metrics)),
                metrics,
                routes,
                stop: stop.clone(),
                ending: Ending::default(),
                refuses: AtomicBool::new(false),
                writers: Writers::default(),
                flow,
            });
            let definitions = Definitions::new(Arc::clone(&shared), service(&shared), config.converters);
            let events = definitions.prepare(config.crds).await.inspect_err(|_| stop.cancel())?;
            tokio::spawn(definitions.run(events, stop.clone()));
            shared.health.passed(crate::health::STARTED);
            ready.set(true);
            Ok(Self { shared, ready, serving, stop })
        })
    }

    /// The server as a service; cheap to clone.
    pub fn service(&self) -> ApiService {
        service(&self.shared)
    }

    /// The state shared by all requests.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Audits all requests from now on; called once, before the server has clients.
    pub fn audit(&self, auditor: Auditor) {
        // A second auditor would lack the beginnings that the first has recorded.
        let _ = self.shared.auditor.set(Arc::new(auditor));
    }

    /// Records spans of requests from now on; called once, before the server has clients.
    pub fn trace(&self, tracer: Arc<trace::Tracer>) {
        // A second tracer would begin spans whose parents the first one has.
        let _ = self.shared.tracer.set(tracer);
    }

    /// Bounds the requests of clients from now on; called once, before the server has clients. Without it requests have
    /// the default times and no limit.
    pub fn bound_requests(&self, settings: flow::Settings) {
        self.shared.flow.set(settings);
    }

    /// The limits of a socket in front of this server.
    pub fn limits(&self) -> Limits {
        Limits { budgets: Arc::clone(&self.shared.budgets), ..Limits::default() }
    }

    /// Reports the shutdown in `/readyz`; everything is still served, while load balancers turn to other servers.
    pub fn announce_shutdown(&self) {
        self.serving.set(false);
    }

    /// Refuses requests over sockets from now on, with the time after which another server is worth a try
    /// (`--shutdown-send-retry-after`). Health checks are still answered.
    pub fn refuse_requests(&self) {
        self.shared.refuses.store(true, Ordering::Release);
    }

    /// Reports the shutdown in `/readyz`, and ends all watches; other requests are still served. Otherwise watches
    /// would keep a draining listener waiting.
    pub fn end_watches(&self) {
        self.end_watches_within(Duration::ZERO);
    }

    /// As [`ApiServer::end_watches`], each watch at a random moment of the period.
    pub fn end_watches_within(&self, period: Duration) {
        self.announce_shutdown();
        self.ready.set(false);
        self.shared.ending.begin(period);
    }

    /// Stops following the store and reports it in `/readyz`.
    pub fn shutdown(&self) {
        self.end_watches();
        self.stop.cancel();
    }
}

/// Follows each store in a task, and reports in the checks of health whether it can be followed.
fn follow(followers: Vec<Follower>, health: &Health, stop: &CancellationToken) {
    for (number, follower) in followers.into_iter().enumerate() {
        // A store of this process alone ends with it; kube-apiserver has checks of its etcds.
        if number > 0 && !follower.store().is_shared() {
            let stop = stop.clone();
            tokio::spawn(async move { stop.run_until_cancelled(follower.run()).await });
            continue;
        }
        let [live, readable] = crate::health::of_store(number);
        let (live, readable) = (health.live_gate(&live), health.ready_gate(&readable));
        readable.set(true);
        let stopped = stop.clone().cancelled_owned();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                // The store ends the stream of changes.
                () = follower.run() => [live, readable].iter().for_each(|gate| gate.set(false)),
                () = stopped => {}
            }
        });
    }
}

fn service(shared: &Arc<Shared>) -> ApiService {
    let shared = Arc::clone(shared);
    ApiService::new(tower::service_fn(move |request: Request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(requests::respond_to(&shared, request).await) }
    }))
}

/// Updates the table of rules from the store.
fn follow_rbac(rbac: &Rbac, place: &str, event: &crate::cache::Event) {
    if !place.starts_with("rbac.authorization.k8s.io/") {
        return;
    }
    match (&event.current, &event.previous) {
        (Some(object), _) => rbac.update(|table| table.put(object)),
        (None, Some(object)) => rbac.update(|table| table.remove(object.kind(), &object.key())),
        (None, None) => {}
    }
}
