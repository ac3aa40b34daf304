//! The path of a request through the server, from its URL to its response.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use apimachinery::{Object, Status, StatusReason};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::StatusCode;
use http::header::{CACHE_CONTROL, HeaderValue};
use parking_lot::Mutex;
use transport::{Identity, NewObjects, Payload, Request, Response};

use crate::audit::{Auditor, Recording};
use crate::auth::authn::{expiry, impersonate};
use crate::auth::authz::{self, Attributes, ResourceAttributes};
use crate::commit::together;
use crate::errors::{method_not_allowed, no_such_resource};
use crate::flow::{self, Entry, Seat};
use crate::handlers;
use crate::limits::budget::{PATIENCE, PATIENCE_WITH_SEAT, Wire};
use crate::limits::fairness;
use crate::request::RequestInfo;
use crate::request::log::Watched;
use crate::request::peer::Peer;
use crate::request::spans;
use crate::state::Shared;
use crate::state::ending;
use crate::wire::finish::{Preferences, finish};
use crate::wire::{respond, warnings};

pub(super) async fn respond_to(server: &Shared, request: Request) -> Response {
    let info = RequestInfo::parse(request.method(), request.uri());
    let mut audit_id = request.headers().get("audit-id").cloned();
    // Writes that are stored together, and objects that are created together, are recorded each by itself.
    let is_apart = request.extensions().get::<transport::Together>().is_some()
        || request.extensions().get::<NewObjects>().is_some();
    let recording = server.auditor.get().filter(|_| !is_apart).map(|auditor| {
        let given = audit_id.as_ref().and_then(|id| id.to_str().ok()).map(str::to_owned);
        let id = given.unwrap_or_else(|| server.world.uuid());
        audit_id = HeaderValue::from_str(&id).ok();
        auditor.begin(&info, &request, id, &server.world)
    });
    let long = info.is_long_running();
    if server.refuses.load(Ordering::Acquire)
        && let Some(refusal) = ending::refusal(&info, &request)
    {
        return refusal;
    }
    let started = tokio::time::Instant::now();
    let underway = (!long).then(|| server.counted.begin(&info));
    // A caller in this process takes the objects themselves.
    let shared = request.extensions().get::<transport::AcceptPayload>().is_some();
    let preferences = if shared { Default::default() } else { Preferences::of(request.headers(), &info.query) };
    let encoding = crate::wire::negotiate::error_encoding(request.headers());
    let (classified, span, queued) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
    let outcome = match time_limit(server, &info) {
        Err(status) => Ok(Ok(Err(status))),
        Ok(limit) => {
            let bounds = Bounds { started, limit, classified: &classified, span: &span, queued: &queued };
            let answer = answer(server, &info, request, bounds, recording.as_ref());
            let answer = std::panic::AssertUnwindSafe(answer).catch_unwind();
            if long { Ok(answer.await) } else { tokio::time::timeout(limit, answer).await }
        }
    };
    let elapsed = outcome.is_err();
    let streams = long && !matches!(outcome, Ok(Ok(Err(_))));
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
    if elapsed {
        server.counted.terminated(&info, known, response.status());
    }
    server.counted.end(&info, known, &response, (!long).then(|| (started.elapsed(), queued.into_inner())));
    if let Some(Payload::Created(outcomes)) = response.extensions().get() {
        server.counted.more(&info, known, outcomes);
    }
    if let Some(recording) = &recording {
        response = recording.clone().responded(response, long).await;
    }
    let headers = response.headers_mut();
    flow::mark(headers, &classified);
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
    response = presented(response, preferences, streams).await;
    if known && !long && !shared {
        response = server.counted.bodies.responded(&info, response);
    }
    // A caller who takes the objects reads no headers.
    let new_id = || if shared { None } else { HeaderValue::from_str(&server.world.uuid()).ok() };
    if let Some(mut id) = audit_id.or_else(new_id) {
        // No other response has it: HTTP/2 need not remember it for those.
        id.set_sensitive(true);
        response.headers_mut().insert("audit-id", id);
    }
    if let Some(span) = span.into_inner() {
        spans::end(span, &response);
    }
    response
}

/// The response as its client prefers it. A stream passes unchanged; its refusal is a document as any other.
async fn presented(response: Response, preferences: Preferences, streams: bool) -> Response {
    if streams { response } else { finish(response, preferences).await }
}

/// The time limit of a request: its `timeout`, at most the server's limit. Watches have other parameters.
fn time_limit(server: &Shared, info: &RequestInfo) -> Result<Duration, Status> {
    let most = server.flow.request_timeout();
    let Some(text) = info.query.text("timeout").filter(|_| !info.is_long_running()) else { return Ok(most) };
    let asked = text
        .parse::<apimachinery::duration::Duration>()
        .map_err(|error| Status::bad_request(format!("invalid timeout specified in the request URL - {error}")))?;
    Ok(asked.to_std().filter(|asked| !asked.is_zero()).unwrap_or(most).min(most))
}

/// The limits of a request.
#[derive(Clone, Copy)]
struct Bounds<'r> {
    started: tokio::time::Instant,
    /// The longest time that it may take.
    limit: Duration,
    /// Set where it was classified.
    classified: &'r OnceLock<Arc<flow::Schema>>,
    /// Set if the request is traced.
    span: &'r OnceLock<trace::Span>,
    /// Set if it waited for a seat.
    queued: &'r OnceLock<Duration>,
}

async fn answer(
    server: &Shared,
    info: &RequestInfo,
    request: Request,
    bounds: Bounds<'_>,
    recording: Option<&Recording>,
) -> Result<Response, Status> {
    let (mut parts, body) = request.into_parts();
    let now = server.world.now().as_second();
    // An identity that code in this process attached wins: nothing from a socket has one.
    let attached = parts.extensions.remove::<Identity>();
    let over_socket = attached.is_none();
    let authenticated = match attached {
        Some(identity) => Ok(identity),
        None => server.authentication.authenticate(&parts, now).await,
    };
    if over_socket {
        server.counted.access.authenticated(&authenticated, bounds.started.elapsed());
        if info.is_resource {
            server.counted.bodies.requested(info, &parts.headers);
        }
    }
    let caller = match (authenticated, recording) {
        (Err(status), Some(recording)) => {
            recording.unauthenticated(info, &parts.headers, parts.extensions.get::<Peer>(), &status).await;
            return Err(status);
        }
        (caller, _) => caller?,
    };
    // Its user may decide whether the request is traced.
    let span = server.tracer.get().and_then(|tracer| spans::begin(tracer, info, (&parts, &caller), bounds.started));
    let scope = span.map(|span| bounds.span.get_or_init(|| span).scope());
    trace::within(scope, answer_as(server, info, (parts, body), caller, bounds, recording)).await
}

/// The answer to an authenticated request, which runs in its span.
async fn answer_as(
    server: &Shared,
    info: &RequestInfo,
    (mut parts, body): (http::request::Parts, transport::Body),
    caller: Identity,
    bounds: Bounds<'_>,
    recording: Option<&Recording>,
) -> Result<Response, Status> {
    if let Some(recording) = recording {
        recording.received(info, &caller).await?;
    }
    let now = server.world.now().as_second();
    fairness::identify(&parts.extensions, &caller);
    let peer = parts.extensions.get::<Peer>();
    if let Some(left) = peer.and_then(|peer| expiry::counted(peer, &caller, now)) {
        server.counted.expiration(left);
    }
    let warning = peer.and_then(|peer| expiry::warning(peer, &caller, now));
    let acts = recording.map(|recording| (recording, caller.clone()));
    let user = impersonate(&mut parts.headers, caller, server.authorizer.as_ref(), || info.attributes()).await?;
    if let Some((recording, caller)) = acts {
        if user != caller {
            recording.acts_as(&user);
        }
        parts.extensions.insert(recording.clone());
    }
    let mut watched = server.requests.watch(info, &user, bounds.started);
    let wire = parts.extensions.get::<Wire>();
    let billed = wire.and_then(|wire| wire.billed(&user.user));
    let seat = match wire {
        // A caller in this process.
        None => None,
        Some(wire) => refused_in(&mut watched, seated(server, info, (&user, wire), bounds).await)?,
    };
    let together = parts.extensions.get::<transport::Together>().map(transport::Together::take);
    let auditor = server.auditor.get().filter(|_| parts.extensions.get::<NewObjects>().is_some());
    let mut answer = match (together, auditor) {
        (Some(requests), _) => write_together(server, &user, requests).await,
        (None, Some(auditor)) => create_recorded(server, info, &user, parts, auditor).await,
        (None, None) => answer_to(server, info, &user, parts, body).await,
    };
    drop(seat);
    watched.status = Some(answer.as_ref().map_or_else(|status| status.code, |response| response.status().as_u16()));
    if let (Ok(response), Some(warning)) = (&mut answer, warning) {
        warnings::warn(response, &[warning]);
    }
    if let (Ok(response), Some(billed)) = (&mut answer, billed) {
        response.extensions_mut().insert(billed);
    }
    answer
}

/// The seat of a request over a socket. It is held until the response begins: what a client has not read is bounded by `budget`.
///
/// A read whose user has not read earlier responses waits without a seat, which another user could have. What it waited for
/// may be gone once it has got a seat.
async fn seated(
    server: &Shared,
    info: &RequestInfo,
    (user, wire): (&Identity, &Wire),
    bounds: Bounds<'_>,
) -> Result<Option<Seat>, Status> {
    let is_behind = || matches!(info.verb, "get" | "list") && wire.is_behind(&user.user);
    loop {
        if is_behind() {
            Box::pin(wire.admit(&user.user, PATIENCE)).await?;
        }
        match server.flow.enter(&server.cache, info, user, bounds.limit, bounds.classified) {
            Entry::Runs(seat) => return Ok(seat),
            Entry::Waits(wait) => {
                let begun = tokio::time::Instant::now();
                let seat = trace::step("priorityandfairness", Vec::new, wait).await;
                let _ = bounds.queued.set(begun.elapsed());
                let seat = seat?;
                if !is_behind() {
                    return Ok(Some(seat));
                }
            }
            Entry::Refused(status) => return Err(status),
        }
    }
}

/// Notes a refusal for the log.
fn refused_in<T>(watched: &mut Watched<'_>, outcome: Result<T, Status>) -> Result<T, Status> {
    outcome.inspect_err(|status| watched.status = Some(status.code))
}

/// Boxed, because otherwise every request would reserve the space that few need.
fn write_together<'a>(
    server: &'a Shared,
    user: &'a Identity,
    requests: Vec<Request>,
) -> BoxFuture<'a, Result<Response, Status>> {
    let answer: together::Answer<'a> = Box::new(move |info, request| {
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
    together::write(server, user, requests, answer).boxed()
}

/// Creates of one request in this process, each with an audit event of its own, as if it had been sent separately. Boxed,
/// because otherwise every request would reserve the space that few need.
fn create_recorded<'a>(
    server: &'a Shared,
    info: &'a RequestInfo,
    user: &'a Identity,
    mut parts: http::request::Parts,
    auditor: &'a Arc<Auditor>,
) -> BoxFuture<'a, Result<Response, Status>> {
    let objects = parts.extensions.remove::<NewObjects>().map(|objects| std::mem::take(&mut *objects.0.lock()));
    let creations = objects.unwrap_or_default().into_iter().map(move |object| {
        let mut request = Request::from_parts(parts.clone(), transport::empty());
        request.extensions_mut().insert(NewObjects(Arc::new(Mutex::new(vec![object]))));
        async move {
            let recording = auditor.begin(info, &request, server.world.uuid(), &server.world);
            let created = create_one(server, info, user, request, &recording).await;
            let shown = match &created {
                Ok(object) => respond::payload(StatusCode::CREATED, Payload::Object(Arc::clone(object))),
                Err(status) => respond::failure(status),
            };
            drop(recording.responded(shown, false).await);
            created.map_err(Box::new)
        }
    });
    let all = futures::future::join_all(creations);
    async move { Ok(respond::payload(StatusCode::CREATED, Payload::Created(all.await))) }.boxed()
}

async fn create_one(
    server: &Shared,
    info: &RequestInfo,
    user: &Identity,
    request: Request,
    recording: &Recording,
) -> Result<Arc<Object>, Status> {
    recording.received(info, user).await?;
    let (mut parts, body) = request.into_parts();
    parts.extensions.insert(recording.clone());
    let mut response = answer_to(server, info, user, parts, body).await?;
    match response.extensions_mut().remove::<Payload>() {
        Some(Payload::Created(mut outcomes)) if outcomes.len() == 1 => outcomes.remove(0).map_err(|status| *status),
        _ => Err(Status::internal("a create was answered without its object")),
    }
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
    let begun = parts.extensions.get::<Wire>().map(|_| tokio::time::Instant::now());
    let deciding = authz::decide(server.authorizer.as_ref(), user, &attributes);
    let mut decision = trace::step("authorization", Vec::new, deciding).await;
    if let Some(other) = instead.filter(|_| !decision.is_allowed()) {
        decision = authz::decide(server.authorizer.as_ref(), user, &other).await;
        attributes = other;
    }
    if let Some(begun) = begun {
        server.counted.access.authorized(&decision, begun.elapsed());
    }
    if let Some(recording) = recording {
        recording.decided(&decision);
    }
    if !decision.is_allowed() {
        return Err(authz::forbidden(user, &attributes, decision.reason()));
    }
    if parts.extensions.get::<transport::WatchEverything>().is_some() {
        return everything(server, user).await;
    }
    if let Some(response) = server.health.answer(&info.path, parts.uri.query().unwrap_or_default()) {
        return Ok(response);
    }
    if info.path == "/metrics" && matches!(parts.method, http::Method::GET | http::Method::HEAD) {
        server.budgets.report();
        return Ok(respond::text(server.metrics.text()));
    }
    check_legacy_watch(server, info, &parts.method)?;
    if let Some(route) = server.routes.iter().find(|route| route.takes(info)) {
        if let (Some(wire), "get" | "list") = (parts.extensions.get::<Wire>(), info.verb) {
            wire.admit(&user.user, PATIENCE_WITH_SEAT).await?;
        }
        together::check_route(&parts)?;
        return route.call(server, info, user, Request::from_parts(parts, body)).await;
    }
    if !info.is_resource {
        return Ok(respond::page_not_found());
    }
    let served = server.registry.snapshot();
    match served.get(&info.group, &info.version, &info.resource) {
        // Upstream routes only custom resources by the verb, which is that of GET.
        Some(resource) if !resource.info.custom && parts.method == http::Method::HEAD => Err(method_not_allowed()),
        Some(resource) => {
            let body = match recording {
                Some(recording) => recording.request_body(&parts, body).await?,
                None => body,
            };
            let kind = crate::kinds::of(&resource.info.resource);
            let handled = handlers::handle(server, info, (resource, kind), user, &parts, body);
            trace::step(spans::step_of(info.verb), || spans::subject(info), handled).await
        }
        None => served.unknown(Some(&info.group)),
    }
}

/// A path with the legacy prefix is authorized as a watch, so it must not be anything else: it names no subresource, and only
/// custom resources, which are served by the verb, take other methods than GET.
fn check_legacy_watch(server: &Shared, info: &RequestInfo, method: &http::Method) -> Result<(), Status> {
    if !info.is_legacy_watch || server.apis.load().is_external(&info.group, &info.version) {
        return Ok(());
    }
    if !info.subresource.is_empty() {
        return Err(no_such_resource());
    }
    let served = server.registry.snapshot();
    let is_custom = served.get(&info.group, &info.version, &info.resource).is_some_and(|resource| resource.info.custom);
    if is_custom || *method == http::Method::GET { Ok(()) } else { Err(method_not_allowed()) }
}

/// For callers in this process: the extension that requests it cannot arrive over a socket.
async fn everything(server: &Shared, user: &Identity) -> Result<Response, Status> {
    for verb in ["list", "watch"] {
        let all =
            ResourceAttributes { verb: verb.into(), group: "*".into(), resource: "*".into(), ..Default::default() };
        authz::check(server.authorizer.as_ref(), user, &Attributes::Resource(all)).await?;
    }
    let (initial, mut receivers) = server.cache.follow()?;
    let following = Box::pin(futures::stream::poll_fn(move |context| {
        let ready = receivers.iter_mut().map(|receiver| receiver.poll_recv(context)).find(Poll::is_ready);
        ready.unwrap_or(Poll::Pending)
    }));
    let changes = transport::Changes { initial, following };
    let payload = Payload::Everything(Arc::new(parking_lot::Mutex::new(Some(changes))));
    Ok(respond::payload(StatusCode::OK, payload))
}
