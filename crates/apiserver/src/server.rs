//! The server as a value: configuration in, one service out.

mod shared;

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use apimachinery::resource::Resource;
use apimachinery::{ObjectKey, Status, StatusReason};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::{CACHE_CONTROL, HeaderValue};
use storage::Store;
use tokio_util::sync::CancellationToken;
use transport::{ApiService, Identity, Request, Response};
use world::World;

use crate::admission::{Admission, AdmissionRequest};
use crate::audit::{Auditor, Recording};
use crate::authn::{Authentication, Lookup, expiry, impersonate};
use crate::authz::{self, Attributes, Authorizer, Rbac, ResourceAttributes};
use crate::budget::{Budgets, Wire};
use crate::cache::Cache;
use crate::crds::Definitions;
use crate::documents::Documents;
use crate::fairness::{self, writers::Writers};
use crate::handlers;
use crate::health::{Gate, Health};
use crate::metrics::Counted;
use crate::registry::Registry;
use crate::request::RequestInfo;
use crate::request_log::RequestLog;
use crate::respond;
use crate::serve::{Limits, Peer};

use shared::CacheLookup;

/// Requests that are not watches end after this long (`--request-timeout`).
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Answers requests the generic handlers do not: documents such as `/version`, and subresources with behaviour of
/// their own.
pub trait Route: Send + Sync + 'static {
    /// Whether this route serves the request; called in the order of registration, after authorization.
    fn takes(&self, info: &RequestInfo) -> bool;

    /// The attributes to authorize instead of those of the path: for routes whose paths do not consist of resources
    /// after a name.
    fn instead(&self, _info: &RequestInfo) -> Option<Attributes> {
        None
    }

    /// Serves the request.
    fn call<'a>(
        &'a self,
        server: &'a Shared,
        info: &'a RequestInfo,
        user: &'a Identity,
        request: Request,
    ) -> BoxFuture<'a, Result<Response, Status>>;
}

/// How requests are authorized.
pub enum Authorization {
    /// Every request is allowed.
    AlwaysAllow,
    /// From the server's own roles and bindings.
    Rbac,
    /// A front proxy has already authorized the request: users that it authenticates are authorized for everything, all
    /// others for health checks only.
    Delegated,
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
    pub version: crate::version::VersionInfo,
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

/// The state of a server, shared by its requests.
pub struct Shared {
    /// The watch cache.
    pub cache: Arc<Cache>,
    /// The served resources.
    pub registry: Arc<Registry>,
    /// The clock and randomness.
    pub world: World,
    /// The accepted authentication methods.
    pub authentication: Authentication,
    /// The authorizer.
    pub authorizer: Arc<dyn Authorizer>,
    /// Set where it is the authorizer: who writes roles and bindings is then held to it.
    rbac: Option<Arc<Rbac>>,
    /// The health checks.
    pub health: Health,
    /// Served at `/metrics`; components of the same process count here too.
    pub metrics: metrics::Registry,
    pub(crate) counted: Counted,
    budgets: Arc<Budgets>,
    requests: RequestLog,
    auditor: OnceLock<Arc<Auditor>>,
    admission: Vec<Arc<dyn Admission>>,
    routes: Vec<Arc<dyn Route>>,
    /// Ends the tasks of the server.
    pub(crate) stop: CancellationToken,
    /// Ends the watches of the server's clients.
    pub(crate) ending: CancellationToken,
    /// For objects that end by themselves.
    pub(crate) leases: crate::leases::Leases,
    /// The objects that are being written.
    pub(crate) writers: Writers,
}

/// A running API server. Dropping it does not stop its task; [`ApiServer::shutdown`] does.
pub struct ApiServer {
    shared: Arc<Shared>,
    ready: Gate,
    stop: CancellationToken,
}

impl ApiServer {
    /// Loads the store and starts following it.
    ///
    /// # Errors
    /// When the store cannot be read, or its own definitions cannot be installed.
    pub fn start(config: ServerConfig) -> BoxFuture<'static, Result<Self, StartError>> {
        Box::pin(async move {
            let rbac = Arc::new(Rbac::default());
            let observed = Arc::clone(&rbac);
            let plugins = config.admission.clone();
            let observer = move |place: &str, event: &crate::cache::Event| {
                follow_rbac(&observed, place, event);
                plugins.iter().for_each(|plugin| plugin.observe(place, event));
            };
            let (cache, follower) = Cache::start(config.store, vec![Box::new(observer)]).await?;
            let (authorizer, rbac): (Arc<dyn Authorizer>, _) = match config.authorization {
                Authorization::Delegated => (Arc::new(authz::Delegated), None),
                Authorization::AlwaysAllow => (Arc::new(authz::AlwaysAllow), None),
                Authorization::Rbac => (Arc::clone(&rbac) as _, Some(rbac)),
            };
            let lookup = Arc::new(CacheLookup(Arc::clone(&cache)));
            let health = Health::default();
            health.passed(&["log"]);
            let store = health.live_gate("etcd");
            let ready = health.ready_gate("informer-sync");
            health.ready_gate(crate::health::STORAGE_INTEGRITY).set(cache.is_sound());
            let stop = CancellationToken::new();
            let stopped = stop.clone().cancelled_owned();
            tokio::spawn(async move {
                tokio::select! {
                    biased;
                    // The store ends the stream of changes.
                    () = follower.run() => store.set(false),
                    () = stopped => {}
                }
            });
            let mut routes = config.routes;
            routes.push(Arc::new(Documents::new(config.version)));
            let metrics = metrics::Registry::default();
            let shared = Arc::new(Shared {
                cache,
                registry: Arc::new(Registry::new(config.resources)),
                world: config.world,
                authentication: (config.authentication)(lookup),
                authorizer,
                rbac,
                health,
                counted: Counted::new(&metrics),
                budgets: Arc::new(Budgets::new(Default::default(), &metrics)),
                requests: RequestLog::default(),
                auditor: OnceLock::new(),
                metrics,
                admission: config.admission,
                routes,
                stop: stop.clone(),
                ending: CancellationToken::new(),
                leases: crate::leases::Leases::default(),
                writers: Writers::default(),
            });
            let definitions = Definitions::new(Arc::clone(&shared), service(&shared), config.converters);
            let events = definitions.prepare(config.crds).await.inspect_err(|_| stop.cancel())?;
            tokio::spawn(definitions.run(events, stop.clone()));
            shared.health.passed(crate::health::STARTED);
            ready.set(true);
            Ok(Self { shared, ready, stop })
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
        // A second auditor would miss what the first has seen begin.
        let _ = self.shared.auditor.set(Arc::new(auditor));
    }

    /// The limits of a socket in front of this server.
    pub fn limits(&self) -> Limits {
        Limits { budgets: Arc::clone(&self.shared.budgets), ..Limits::default() }
    }

    /// Reports the shutdown in `/readyz`, and ends all watches; other requests are still served. Watches would
    /// otherwise keep a draining listener waiting.
    pub fn end_watches(&self) {
        self.ready.set(false);
        self.shared.ending.cancel();
    }

    /// Stops following the store and reports it in `/readyz`.
    pub fn shutdown(&self) {
        self.end_watches();
        self.stop.cancel();
    }
}

fn service(shared: &Arc<Shared>) -> ApiService {
    let shared = Arc::clone(shared);
    ApiService::new(tower::service_fn(move |request: Request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(respond_to(&shared, request).await) }
    }))
}

async fn respond_to(server: &Shared, request: Request) -> Response {
    let info = RequestInfo::parse(request.method(), request.uri());
    let mut audit_id = request.headers().get("audit-id").cloned();
    // Writes that are stored together are recorded each by itself.
    let is_apart = request.extensions().get::<transport::Together>().is_some();
    let recording = server.auditor.get().filter(|_| !is_apart).map(|auditor| {
        let given = audit_id.as_ref().and_then(|id| id.to_str().ok()).map(str::to_owned);
        let id = given.unwrap_or_else(|| server.world.uuid());
        audit_id = HeaderValue::from_str(&id).ok();
        auditor.begin(&info, &request, id, &server.world)
    });
    let long = info.is_long_running();
    let started = tokio::time::Instant::now();
    let underway = (!long).then(|| server.counted.begin(&info));
    // A caller in this process takes the objects themselves.
    let shared = request.extensions().get::<transport::AcceptPayload>().is_some();
    let preferences =
        if shared { Default::default() } else { crate::finish::Preferences::of(request.headers(), &info.query) };
    let encoding = crate::negotiate::error_encoding(request.headers());
    let answer =
        std::panic::AssertUnwindSafe(answer(server, &info, request, started, recording.as_ref())).catch_unwind();
    let limit = time_limit(&info);
    let outcome = match &limit {
        Err(status) => Ok(Ok(Err(status.clone()))),
        Ok(_) if long => Ok(answer.await),
        Ok(limit) => tokio::time::timeout(*limit, answer).await,
    };
    let mut response = match outcome {
        Ok(Ok(Ok(response))) => response,
        Ok(Ok(Err(status))) => respond::failure_as(&status, encoding),
        Ok(Err(_panic)) => {
            tracing::error!(verb = info.verb, path = info.path, "Request handler panicked; report this");
            if let Some(recording) = &recording {
                recording.panicked().await;
            }
            respond::failure(&Status::internal("the request handler failed unexpectedly"))
        }
        Err(_elapsed) => respond::failure(&Status::failure(
            StatusReason::Timeout,
            "Timeout: request did not complete within requested timeout - context deadline exceeded",
        )),
    };
    drop(underway);
    let known =
        info.is_resource && server.registry.snapshot().get(&info.group, &info.version, &info.resource).is_some();
    server.counted.end(&info, known, response.status(), (!long).then(|| started.elapsed()));
    if let Some(transport::Payload::Created(outcomes)) = response.extensions().get() {
        server.counted.more(&info, known, outcomes);
    }
    if let Some(recording) = &recording {
        response = recording.clone().responded(response, long).await;
    }
    let headers = response.headers_mut();
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
    if !long {
        response = crate::finish::finish(response, preferences).await;
    }
    if let Some(mut id) = audit_id.or_else(|| HeaderValue::from_str(&server.world.uuid()).ok()) {
        // No other response has it: HTTP/2 need not remember it for those.
        id.set_sensitive(true);
        response.headers_mut().insert("audit-id", id);
    }
    response
}

/// The time limit of a request: its `timeout`, but no longer than the server allows. Watches have parameters of their
/// own.
fn time_limit(info: &RequestInfo) -> Result<Duration, Status> {
    let Some(text) = info.query.text("timeout").filter(|_| !info.is_long_running()) else { return Ok(REQUEST_TIMEOUT) };
    let asked = text.parse::<apimachinery::duration::Duration>().map_err(|_| {
        let why = format!("invalid timeout specified in the request URL - time: invalid duration {text:?}");
        Status::bad_request(why)
    })?;
    Ok(asked.to_std().filter(|asked| !asked.is_zero()).unwrap_or(REQUEST_TIMEOUT).min(REQUEST_TIMEOUT))
}

async fn answer(
    server: &Shared,
    info: &RequestInfo,
    request: Request,
    started: tokio::time::Instant,
    recording: Option<&Recording>,
) -> Result<Response, Status> {
    let (mut parts, body) = request.into_parts();
    let now = server.world.now().as_second();
    let caller = match (server.authentication.authenticate(&parts, now).await, recording) {
        (Err(status), Some(recording)) => {
            recording.unauthenticated(info, &parts.headers, parts.extensions.get::<Peer>(), &status).await;
            return Err(status);
        }
        (caller, _) => caller?,
    };
    if let Some(recording) = recording {
        recording.received(info, &caller).await?;
    }
    fairness::identify(&parts.extensions, &caller);
    let peer = parts.extensions.get::<Peer>();
    if let Some(left) = peer.and_then(|peer| expiry::counted(peer, &caller, now)) {
        server.counted.expiration(left);
    }
    let warning = peer.and_then(|peer| expiry::warning(peer, &caller, now));
    let acts = recording.map(|recording| (recording, caller.clone()));
    let user = impersonate(&mut parts.headers, caller, server.authorizer.as_ref())?;
    if let Some((recording, caller)) = acts {
        if user != caller {
            recording.acts_as(&user);
        }
        parts.extensions.insert(recording.clone());
    }
    let mut watched = server.requests.watch(info, &user, started);
    let billed = parts.extensions.get::<Wire>().and_then(|wire| wire.billed(&user.user));
    let together = parts.extensions.get::<transport::Together>().map(transport::Together::take);
    let mut answer = match together {
        Some(requests) => write_together(server, &user, requests).await,
        None => answer_to(server, info, &user, parts, body).await,
    };
    watched.status = Some(answer.as_ref().map_or_else(|status| status.code, |response| response.status().as_u16()));
    if let (Ok(response), Some(warning)) = (&mut answer, warning) {
        respond::warn(response, &[warning]);
    }
    if let (Ok(response), Some(billed)) = (&mut answer, billed) {
        response.extensions_mut().insert(billed);
    }
    answer
}

/// Boxed: every request would have room for what few do.
fn write_together<'a>(
    server: &'a Shared,
    user: &'a Identity,
    requests: Vec<Request>,
) -> BoxFuture<'a, Result<Response, Status>> {
    let answer: handlers::together::Answer<'a> = Box::new(move |info, request| {
        async move {
            let auditor = server.auditor.get();
            let recording = auditor.map(|auditor| auditor.begin(&info, &request, server.world.uuid(), &server.world));
            let (mut parts, body) = request.into_parts();
            let Some(recording) = recording else { return answer_to(server, &info, user, parts, body).await };
            recording.received(&info, user).await?;
            parts.extensions.insert(recording.clone());
            let answer = answer_to(server, &info, user, parts, body).await;
            match answer {
                Ok(response) => Ok(recording.responded(response, false).await),
                Err(status) => {
                    recording.responded(respond::failure(&status), false).await;
                    Err(status)
                }
            }
        }
        .boxed()
    });
    handlers::together::write(server, user, requests, answer).boxed()
}

/// The answer to a request of an authenticated user.
async fn answer_to(
    server: &Shared,
    info: &RequestInfo,
    user: &Identity,
    parts: http::request::Parts,
    body: transport::Body,
) -> Result<Response, Status> {
    let instead = server.routes.iter().filter(|route| route.takes(info)).find_map(|route| route.instead(info));
    let recording = parts.extensions.get::<Recording>();
    let mut attributes = info.attributes();
    let mut decision = server.authorizer.authorize(user, &attributes);
    if let Some(other) = instead.filter(|_| !decision.is_allowed()) {
        decision = server.authorizer.authorize(user, &other);
        attributes = other;
    }
    if let Some(recording) = recording {
        recording.decided(&decision);
    }
    if !decision.is_allowed() {
        return Err(authz::forbidden(user, &attributes, decision.reason()));
    }
    if parts.extensions.get::<transport::WatchEverything>().is_some() {
        return everything(server, user);
    }
    if let Some(response) = server.health.answer(&info.path, parts.uri.query().unwrap_or_default()) {
        return Ok(response);
    }
    if info.path == "/metrics" && parts.method == http::Method::GET {
        server.budgets.report();
        return Ok(respond::text(server.metrics.text()));
    }
    if let Some(route) = server.routes.iter().find(|route| route.takes(info)) {
        if let (Some(wire), "get" | "list") = (parts.extensions.get::<Wire>(), info.verb) {
            wire.admit(&user.user).await?;
        }
        return route.call(server, info, user, Request::from_parts(parts, body)).await;
    }
    if !info.is_resource {
        return Ok(respond::page_not_found());
    }
    if parts.method == http::Method::HEAD {
        return Err(handlers::method_not_allowed());
    }
    let served = server.registry.snapshot();
    match served.get(&info.group, &info.version, &info.resource) {
        Some(resource) => {
            let body = match recording {
                Some(recording) => recording.request_body(&parts, body).await?,
                None => body,
            };
            let kind = crate::kinds::of(&resource.info.resource);
            handlers::handle(server, info, (resource, kind), user, &parts, body).await
        }
        None if served.has_version(&info.group, &info.version) => Err(handlers::no_such_resource()),
        None => Ok(respond::page_not_found()),
    }
}

/// For callers in this process: the extension that requests it cannot arrive over a socket.
fn everything(server: &Shared, user: &Identity) -> Result<Response, Status> {
    for verb in ["list", "watch"] {
        let all =
            ResourceAttributes { verb: verb.into(), group: "*".into(), resource: "*".into(), ..Default::default() };
        authz::check(server.authorizer.as_ref(), user, &Attributes::Resource(all))?;
    }
    let (initial, mut receiver) = server.cache.follow()?;
    let following = Box::pin(futures::stream::poll_fn(move |context| receiver.poll_recv(context)));
    let changes = transport::Changes { initial, following };
    let payload = transport::Payload::Everything(Arc::new(parking_lot::Mutex::new(Some(changes))));
    Ok(respond::payload(http::StatusCode::OK, payload))
}

/// Keeps the table of rules as the store has it.
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
