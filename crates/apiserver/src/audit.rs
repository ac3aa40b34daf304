//! Auditing: an event at each stage of a request that the audit policy selects. Without an auditor, a request costs one
//! load of an atomic.

mod annotations;

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ::audit::{Attributes, Decision, Event, Level, ObjectReference, Outcome, Policy, Stage, User};
use apimachinery::Status;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, USER_AGENT};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use metrics::{Counters, Description, Registry};
use parking_lot::Mutex;
use serde_json::Value;
use transport::{Body, BoxError, Draft, Identity, NewObjects, Payload, Response, full};
use world::World;

use crate::auth::authz;
use crate::request::RequestInfo;
use crate::request::peer::Peer;
use crate::wire::body;

/// Longer names of clients are cut, as upstream does.
const USER_AGENT_LENGTH: usize = 1024;
/// The maximum length of a Status. Larger responses are parsed only if the level requires their objects.
const STATUS_LENGTH: u64 = 64 << 10;

/// Events that were recorded.
pub const EVENTS: Description =
    Description::counter("apiserver_audit_event_total", &[], "Audit events that were recorded.");
/// Requests that were refused because no event could be recorded.
pub const REJECTED: Description = Description::counter(
    "apiserver_audit_requests_rejected_total",
    &[],
    "Requests that were refused because an audit backend of mode blocking-strict failed.",
);
/// Events that a backend lost.
pub const ERRORS: Description = Description::counter(
    "apiserver_audit_error_total",
    &["plugin"],
    "Audit events that were lost, by the backend: buffered (full), log, webhook.",
);
/// The families of this module.
pub const ALL: &[Description] = &[EVENTS, REJECTED, ERRORS];

/// Where events go.
pub trait Sink: Send + Sync + 'static {
    /// Takes an event; returns once it is as safe as the mode of the sink promises.
    fn take<'a>(&'a self, event: &'a Event) -> BoxFuture<'a, Result<(), SinkError>>;
}

/// The event was not recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SinkError {
    /// The reason.
    pub message: String,
    /// Whether the request is refused when its first event cannot be recorded (mode `blocking-strict`).
    pub is_strict: bool,
}

/// The policy, and the sinks of the events that it selects.
pub struct Auditor {
    policy: Policy,
    sinks: Vec<Arc<dyn Sink>>,
    events: Counters,
    rejected: Counters,
}

impl Auditor {
    /// Counts in `registry`.
    pub fn new(policy: Policy, sinks: Vec<Arc<dyn Sink>>, registry: &Registry) -> Self {
        Self { policy, sinks, events: registry.counters(&EVENTS), rejected: registry.counters(&REJECTED) }
    }

    /// Begins the record of a request.
    pub(crate) fn begin(
        self: &Arc<Self>,
        info: &RequestInfo,
        request: &transport::Request,
        audit_id: String,
        world: &World,
    ) -> Recording {
        let now = world.now();
        let mut event = Event::new(Level::None, audit_id, now);
        event.request_uri = request.uri().path_and_query().map_or_else(|| info.path.clone(), ToString::to_string);
        info.verb.clone_into(&mut event.verb);
        event.source_ips = source_ips(request.headers(), request.extensions().get::<Peer>());
        event.user_agent = user_agent(request.headers());
        event.object_ref = info.is_resource.then(|| reference(info));
        let open = Open { event, decision: Decision::default(), is_received: false, waited: Default::default() };
        Recording { auditor: Arc::clone(self), world: world.clone(), open: Arc::new(Mutex::new(open)) }
    }

    async fn emit(&self, event: &Event) -> Result<(), SinkError> {
        self.events.increment(&[]);
        let mut outcome = Ok(());
        for sink in &self.sinks {
            if let Err(error) = sink.take(event).await
                && error.is_strict
            {
                outcome = Err(error);
            }
        }
        outcome
    }
}

/// The audit record of one request; clones share it.
#[derive(Clone)]
pub(crate) struct Recording {
    auditor: Arc<Auditor>,
    world: World,
    open: Arc<Mutex<Open>>,
}

struct Open {
    event: Event,
    decision: Decision,
    /// Whether the policy has decided. Authentication may have failed before.
    is_received: bool,
    /// For mutating and for validating webhooks.
    waited: [Duration; 2],
}

impl Recording {
    /// The request is authenticated.
    ///
    /// # Errors
    /// If a strict sink does not take the event.
    pub async fn received(&self, info: &RequestInfo, caller: &Identity) -> Result<(), Status> {
        {
            let mut open = self.open.lock();
            open.decision = self.auditor.policy.decide(&attributes(info, caller));
            open.is_received = true;
            open.event.level = open.decision.level;
            open.event.user = user(caller);
        }
        self.reached(Stage::RequestReceived).await.map_err(|error| {
            self.auditor.rejected.increment(&[]);
            Status::internal(format!("audit event could not be recorded: {error}"))
        })
    }

    /// The credentials of the request were refused.
    pub async fn unauthenticated(&self, info: &RequestInfo, headers: &HeaderMap, peer: Option<&Peer>, status: &Status) {
        {
            let mut open = self.open.lock();
            open.decision = self.auditor.policy.decide(&attributes(info, &Identity::default()));
            open.event.level = open.decision.level;
            let mut recorded = status.clone();
            recorded.message = attempted(headers, peer);
            open.event.response_status = Some(Outcome::Status(Box::new(recorded)));
        }
        // The response is its own last event.
        let _ = self.reached(Stage::ResponseStarted).await;
    }

    /// The request acts as another user.
    pub fn acts_as(&self, other: &Identity) {
        self.open.lock().event.impersonated_user = Some(user(other));
    }

    /// The authorizer's decision.
    pub fn decided(&self, decision: &authz::Decision) {
        let word = if decision.is_allowed() { "allow" } else { "forbid" };
        self.annotate([
            ("authorization.k8s.io/decision".to_owned(), word.to_owned()),
            ("authorization.k8s.io/reason".to_owned(), decision.reason().to_owned()),
        ]);
    }

    /// Adds annotations to later events. The first value of a key is kept.
    pub fn annotate(&self, annotations: impl IntoIterator<Item = (String, String)>) {
        let mut open = self.open.lock();
        if open.decision.level > Level::None {
            for (key, value) in annotations {
                open.event.annotations.entry(key).or_insert(value);
            }
        }
    }

    fn level(&self) -> Level {
        self.open.lock().decision.level
    }

    /// Records the object or patch of a request and returns its body, which may have been read.
    ///
    /// # Errors
    /// If the body cannot be read; see [`body::read`].
    pub async fn request_body(&self, parts: &http::request::Parts, body: Body) -> Result<Body, Status> {
        let is_resource = self.open.lock().event.object_ref.is_some();
        if self.level() < Level::Request || !is_resource {
            return Ok(body);
        }
        if let Some(draft) = parts.extensions.get::<Draft>() {
            draft.look(|document| self.request_object(document.clone()));
            return Ok(body);
        }
        if let Some(NewObjects(objects)) = parts.extensions.get() {
            if let [object] = &**objects.lock() {
                let namespace = self.open.lock().event.object_ref.as_ref().map(|it| it.namespace.clone());
                self.request_object(object.clone().into_value(&namespace.unwrap_or_default()));
            }
            return Ok(body);
        }
        // The data of an upgraded or proxied connection is not an object.
        if body.is_end_stream() {
            return Ok(body);
        }
        let bytes = body::read(body).await?;
        if let Some(object) = parse(&parts.headers, &bytes) {
            self.request_object(object);
        }
        Ok(full(bytes))
    }

    fn request_object(&self, mut object: Value) {
        let mut open = self.open.lock();
        if let Some(reference) = &mut open.event.object_ref {
            let metadata = &object["metadata"];
            let field_text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
            for (place, field) in [
                (&mut reference.name, "name"),
                (&mut reference.namespace, "namespace"),
                (&mut reference.uid, "uid"),
                (&mut reference.resource_version, "resourceVersion"),
            ] {
                if place.is_empty() {
                    *place = field_text(field);
                }
            }
        }
        clean(&mut object, &open);
        open.event.request_object = Some(object);
    }

    /// The response is ready. A response that lasts is recorded again when it ends.
    pub async fn responded(self, response: Response, lasts: bool) -> Response {
        if !self.open.lock().is_received || self.level() == Level::None {
            return response;
        }
        let (parts, body) = response.into_parts();
        let code = parts.status.as_u16();
        if lasts {
            self.open.lock().event.response_status = Some(Outcome::Code(code));
            let _ = self.reached(Stage::ResponseStarted).await;
            let body = StreamedBody { body, recording: Some(self) }.boxed_unsync();
            return Response::from_parts(parts, body);
        }
        let (body, object) = self.response_object(&parts, body).await;
        self.response(code, object);
        self.annotate_latency();
        let _ = self.reached(Stage::ResponseComplete).await;
        Response::from_parts(parts, body)
    }

    /// The object of a response, if it is recorded or may be a Status.
    async fn response_object(&self, parts: &http::response::Parts, body: Body) -> (Body, Option<Value>) {
        let is_recorded = self.level() == Level::RequestResponse;
        match parts.extensions.get::<Payload>() {
            Some(Payload::Object(object)) if is_recorded => return (body, object.to_value().ok()),
            Some(Payload::List(list)) if is_recorded => {
                let items: Vec<Value> = list.items.iter().filter_map(|item| item.to_value().ok()).collect();
                let metadata = serde_json::json!({"resourceVersion": list.resource_version.to_string()});
                return (body, Some(serde_json::json!({"kind": "List", "metadata": metadata, "items": items})));
            }
            Some(_) => return (body, None),
            None => {}
        }
        let is_small = body.size_hint().exact().is_some_and(|size| size <= STATUS_LENGTH);
        if !is_recorded && !is_small {
            return (body, None);
        }
        let Ok(bytes) = body.collect().await.map(http_body_util::Collected::to_bytes) else {
            return (crate::wire::respond::failure(&Status::internal("the reply could not be read")).into_body(), None);
        };
        let object = parts.headers.contains_key(CONTENT_TYPE).then(|| parse(&parts.headers, &bytes)).flatten();
        (full(bytes), object)
    }

    fn response(&self, code: u16, object: Option<Value>) {
        let mut open = self.open.lock();
        let status = object.as_ref().filter(|object| object["kind"] == "Status" && object["apiVersion"] == "v1");
        let status = status.and_then(|status| serde_json::from_value::<Status>(status.clone()).ok());
        open.event.response_status = Some(match status {
            Some(status) => Outcome::Status(Box::new(Status { code, ..status })),
            None => Outcome::Code(code),
        });
        if let Some(mut object) = object.filter(|_| open.decision.level == Level::RequestResponse) {
            clean(&mut object, &open);
            open.event.response_object = Some(object);
        }
    }

    /// The handler of the request panicked.
    pub async fn panicked(&self) {
        self.open.lock().event.response_status = Some(Outcome::Code(500));
        let _ = self.reached(Stage::Panic).await;
    }

    async fn reached(&self, stage: Stage) -> Result<(), SinkError> {
        let event = {
            let mut open = self.open.lock();
            if open.decision.level == Level::None || open.decision.omitted_stages.contains(&stage) {
                return Ok(());
            }
            open.event.stage = stage;
            open.event.stage_timestamp = self.world.now();
            open.event.clone()
        };
        self.auditor.emit(&event).await
    }
}

/// Removes secrets, and fields that the policy omits.
fn clean(object: &mut Value, open: &Open) {
    if let Some(about) = &open.event.object_ref {
        ::audit::redact(object, about);
    }
    if open.decision.omits_managed_fields {
        ::audit::omit_managed_fields(object);
    }
}

fn parse(headers: &HeaderMap, bytes: &Bytes) -> Option<Value> {
    if bytes.is_empty() {
        return None;
    }
    // Patches have special media types, all of them JSON except applied YAML.
    match body::media_type(headers) {
        kind if kind.ends_with("json") => serde_json::from_slice(bytes).ok(),
        kind if kind.ends_with("yaml") => apimachinery::yaml::to_json_value(bytes).ok(),
        _ => body::decode(headers, bytes).ok(),
    }
}

fn attributes<'a>(info: &'a RequestInfo, user: &'a Identity) -> Attributes<'a> {
    Attributes {
        user: &user.user,
        groups: &user.groups,
        verb: info.verb,
        is_resource: info.is_resource,
        namespace: &info.namespace,
        group: &info.group,
        resource: &info.resource,
        subresource: &info.subresource,
        name: &info.name,
        path: &info.path,
    }
}

fn reference(info: &RequestInfo) -> ObjectReference {
    ObjectReference {
        resource: info.resource.clone(),
        namespace: info.namespace.clone(),
        name: info.name.clone(),
        api_group: info.group.clone(),
        api_version: info.version.clone(),
        subresource: info.subresource.clone(),
        ..ObjectReference::default()
    }
}

fn user(identity: &Identity) -> User {
    User {
        username: identity.user.clone(),
        uid: identity.uid.clone(),
        groups: identity.groups.clone(),
        extra: identity.extra.iter().cloned().collect(),
    }
}

/// The addresses of the client and of the proxies between, the client's first.
fn source_ips(headers: &HeaderMap, peer: Option<&Peer>) -> Vec<String> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let parse = |text: &str| text.trim().parse::<IpAddr>().ok();
    let mut found: Vec<IpAddr> = text("x-forwarded-for").split(',').filter_map(parse).collect();
    if let Some(real) = parse(text("x-real-ip")).filter(|real| !found.contains(real)) {
        found.push(real);
    }
    let peer = peer.map(|peer| peer.address.ip().to_canonical());
    if let Some(peer) = peer.filter(|peer| found.last() != Some(peer)) {
        found.push(peer);
    }
    found.iter().map(ToString::to_string).collect()
}

fn user_agent(headers: &HeaderMap) -> String {
    let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match agent.char_indices().nth(USER_AGENT_LENGTH) {
        Some((end, _)) => format!("{}...TRUNCATED", &agent[..end]),
        None => agent.to_owned(),
    }
}

/// The text of an event about refused credentials.
fn attempted(headers: &HeaderMap, peer: Option<&Peer>) -> String {
    let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let scheme = header.split(' ').next().unwrap_or_default().to_ascii_lowercase();
    let mut ways: Vec<&str> = ["basic", "bearer"].into_iter().filter(|way| *way == scheme).collect();
    if peer.is_some_and(Peer::has_certificate) {
        ways.push("x509");
    }
    match ways.as_slice() {
        [] => "Authentication failed, no credentials provided".to_owned(),
        ways => format!("Authentication failed, attempted: {}", ways.join(", ")),
    }
}

/// The body of a response that lasts; its end is recorded, whatever ends it.
struct StreamedBody {
    body: Body,
    recording: Option<Recording>,
}

impl http_body::Body for StreamedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for StreamedBody {
    fn drop(&mut self) {
        if let (Some(recording), Ok(runtime)) = (self.recording.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move { recording.reached(Stage::ResponseComplete).await });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        let pairs =
            list.iter().map(|(name, value)| (http::HeaderName::from_static(name), value.parse().expect("text")));
        pairs.collect()
    }

    #[test]
    fn addresses_are_those_of_the_client_and_the_proxies() {
        for (input, expected) in [
            (vec![], vec![]),
            (vec![("x-forwarded-for", "10.0.0.1, nonsense, 10.0.0.2")], vec!["10.0.0.1", "10.0.0.2"]),
            (vec![("x-forwarded-for", "10.0.0.1"), ("x-real-ip", "10.0.0.1")], vec!["10.0.0.1"]),
            (vec![("x-real-ip", "::1")], vec!["::1"]),
        ] {
            assert_eq!(source_ips(&headers(&input), None), expected);
        }
    }

    #[test]
    fn refused_credentials_are_named_and_not_shown() {
        assert_eq!(attempted(&headers(&[]), None), "Authentication failed, no credentials provided");
        let bearer = attempted(&headers(&[("authorization", "Bearer hidden")]), None);
        assert_eq!(bearer, "Authentication failed, attempted: bearer");
    }

    #[test]
    fn user_agents_are_truncated() {
        let long = "é".repeat(2_000);
        let cut = user_agent(&headers(&[("user-agent", &long)]));
        assert!(cut.is_empty() || cut.ends_with("...TRUNCATED"), "{cut}");
        assert_eq!(user_agent(&headers(&[("user-agent", "x")])), "x");
        assert_eq!(user_agent(&headers(&[("user-agent", &"x".repeat(1_500))])).len(), 1_024 + "...TRUNCATED".len());
    }
}
