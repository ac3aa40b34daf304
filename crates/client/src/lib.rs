//! A dynamic Kubernetes client over any transport: the API server in this process, or any other through its kubeconfig.
//!
//! Objects are returned as `Arc<Object>`. In process they are the server's own objects, without encoding or decoding;
//! over a socket they are decoded here. This crate has no cache and no retries: `controller-runtime` caches, and the
//! caller's queue retries.
//!
//! ```no_run
//! use apimachinery::gvk::ApiResource;
//! use client::{Client, ListOptions};
//!
//! # async fn names() -> client::Result<Vec<String>> {
//! let client = Client::from_kubeconfig("karmada-apiserver.config".as_ref(), None).await?;
//! let deployments = ApiResource::namespaced("apps", "v1", "Deployment", "deployments");
//! let list = client.list(&deployments, Some("default"), &ListOptions::labels("app=nginx")).await?;
//! # Ok(list.items.iter().map(|object| object.name().to_owned()).collect())
//! # }
//! ```

#![warn(missing_docs)]

mod codec;
mod config;
mod discovery;
mod error;
mod failure;
mod fence;
pub mod kubeconfig;
mod limits;
mod mapper;
pub mod metrics;
mod observer;
mod options;
mod remote;
mod repetition;
mod spans;
mod together;
mod verbs;
mod watch;
pub mod webhooks;

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

pub use codec::generic_message;
pub use discovery::{DiscoveredResource, Discovery, DiscoveryTags};
pub use error::{Error, chain};
pub use failure::Failure;
pub use fence::Fence;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use http_body_util::{BodyExt, Limited};
pub use limits::{RequestCount, TokenBucket};
pub use mapper::{MapError, Mapper};
pub use observer::{Exchange, Observer};
pub use options::{DeleteOptions, ListOptions, Patch, PatchOptions, Preconditions, WatchOptions, WriteOptions};
pub use remote::{ClientIdentity, Dial, Egress, Endpoint, Stream, Switch, authority, check_key_pair};
pub use together::Write;
use tower::ServiceExt;
use transport::{AcceptPayload, ApiService, Identity, Payload, Request, Response};
pub use verbs::path_of;

/// The lines of a watch; an error ends it.
pub type EventLines = futures::stream::BoxStream<'static, std::result::Result<bytes::Bytes, apimachinery::Status>>;

/// The result of a request.
pub type Result<T> = std::result::Result<T, Error>;

/// The default time-out of a request other than a watch over a socket; upstream uses it for member clients.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(32);

/// kube-apiserver accepts objects of up to 3 MiB, etcd of 1.5 MiB; twice the former leaves room for added fields.
pub(crate) const MAX_OBJECT_BYTES: usize = 8 << 20;

/// Callers that expect many objects list in pages; this bounds the others.
pub(crate) const MAX_LIST_BYTES: usize = 64 << 20;

/// A client of one API server. Clones are cheap and share the connection, the rate limit and the counters.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    transport: Transport,
    limit: Option<Arc<TokenBucket>>,
    counts: limits::Counters,
    timeout: Duration,
    user_agent: http::HeaderValue,
    /// Prepended to every path.
    prefix: String,
    /// Added to every request.
    headers: http::HeaderMap,
    /// The server's host and port in metrics.
    host: Arc<str>,
    counted: Option<::metrics::Counters>,
    /// Whether objects of lists and watches keep their managed fields.
    owners: bool,
    fence: Option<Fence>,
    /// The server's URL, for observers; empty in process.
    url: Arc<str>,
    observer: Option<Observer>,
    /// Requests are sent again when the server requires that.
    repeats: bool,
}

#[derive(Clone)]
enum Transport {
    InProcess { service: ApiService, caller: Caller },
    Remote(remote::Service),
}

/// How a request in this process is authenticated.
#[derive(Clone)]
enum Caller {
    Known(Identity),
    /// The value of the `Authorization` header.
    Token(http::HeaderValue),
}

impl Client {
    /// A client of an API server in this process, authenticated as `identity`.
    pub fn in_process(service: ApiService, identity: Identity) -> Self {
        Self::over(Transport::InProcess { service, caller: Caller::Known(identity) }, metrics::IN_PROCESS)
    }

    /// A client of an API server in this process, authenticated by a bearer token.
    ///
    /// # Errors
    /// [`Error::Config`] when the token is not a valid header value.
    pub fn in_process_with_token(service: ApiService, token: &str) -> Result<Self> {
        let mut value = http::HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| Error::Config("the token has characters that are invalid in a header".into()))?;
        value.set_sensitive(true);
        Ok(Self::over(Transport::InProcess { service, caller: Caller::Token(value) }, metrics::IN_PROCESS))
    }

    fn over(transport: Transport, host: &str) -> Self {
        Self(Arc::new(Inner {
            transport,
            limit: None,
            counts: limits::Counters::default(),
            timeout: DEFAULT_TIMEOUT,
            user_agent: http::HeaderValue::from_static(concat!("karmada/", env!("CARGO_PKG_VERSION"))),
            prefix: String::new(),
            headers: http::HeaderMap::new(),
            host: host.into(),
            counted: None,
            owners: true,
            fence: None,
            url: "".into(),
            observer: None,
            repeats: false,
        }))
    }

    /// The same connection with a rate limit, and its own counters. Clients can share a limit.
    #[must_use]
    pub fn with_limit(&self, limit: Option<Arc<TokenBucket>>) -> Self {
        self.changed(|inner| inner.limit = limit)
    }

    /// The same connection with its own counters, which `registry` exposes.
    #[must_use]
    pub fn counted_in(&self, registry: &::metrics::Registry) -> Self {
        self.changed(|inner| inner.counted = Some(registry.counters(&metrics::REQUESTS)))
    }

    /// The same connection with another timeout (see [`DEFAULT_TIMEOUT`]), and separate counters.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        self.changed(|inner| inner.timeout = timeout)
    }

    /// The same connection, whose lists and watches drop `metadata.managedFields` of decoded objects, with its own
    /// counters: for caches whose readers do not need it.
    #[must_use]
    pub fn without_field_owners(&self) -> Self {
        self.changed(|inner| inner.owners = false)
    }

    /// The same connection, which sends writes only while the fence is open, with its own counters.
    #[must_use]
    pub fn fenced(&self, fence: Option<Fence>) -> Self {
        self.changed(|inner| inner.fence = fence)
    }

    /// The same connection, which reports each request to `observer`, with its own counters.
    #[must_use]
    pub fn observed_by(&self, observer: Observer) -> Self {
        self.changed(|inner| inner.observer = Some(observer))
    }

    /// The same connection, which sends a request again when the server requires that (`Retry-After` with 429 or 5xx),
    /// with its own counters: for callers without a queue.
    #[must_use]
    pub fn repeating(&self) -> Self {
        self.changed(|inner| inner.repeats = true)
    }

    /// The same connection under another name in logs and managed fields, and its own counters.
    #[must_use]
    pub fn with_user_agent(&self, name: &str) -> Self {
        let name = http::HeaderValue::from_str(name);
        self.changed(|inner| {
            if let Ok(name) = name {
                inner.user_agent = name;
            }
        })
    }

    /// The name of writes of this connection in `metadata.managedFields`, unless their options name another: servers
    /// take the user agent up to its first slash.
    pub fn field_manager(&self) -> &str {
        let agent = self.0.user_agent.to_str().unwrap_or_default();
        agent.split_once('/').map_or(agent, |(name, _)| name)
    }

    /// A server behind this one at a path (a member behind the cluster proxy), with its own counters.
    #[must_use]
    pub fn behind(&self, prefix: &str) -> Self {
        self.changed(|inner| inner.prefix.push_str(prefix.trim_end_matches('/')))
    }

    /// The same connection impersonating another user, with its own counters. The server authorizes the impersonation.
    ///
    /// # Errors
    /// [`Error::Config`] when a name is not a valid header value.
    pub fn acting_as(&self, user: &str, groups: &[String], uid: &str) -> Result<Self> {
        let value = |text: &str| {
            let bad = |_| {
                Error::Config(format!(
                    "{text:?} cannot be impersonated: it has characters that are invalid in a header"
                ))
            };
            http::HeaderValue::from_bytes(text.as_bytes()).map_err(bad)
        };
        let mut headers = http::HeaderMap::new();
        for (name, text) in [("impersonate-user", user), ("impersonate-uid", uid)] {
            if !text.is_empty() {
                headers.insert(name, value(text)?);
            }
        }
        for group in groups {
            headers.append("impersonate-group", value(group)?);
        }
        Ok(self.changed(|inner| inner.headers.extend(headers)))
    }

    fn changed(&self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = Inner {
            transport: self.0.transport.clone(),
            limit: self.0.limit.clone(),
            counts: limits::Counters::default(),
            timeout: self.0.timeout,
            user_agent: self.0.user_agent.clone(),
            prefix: self.0.prefix.clone(),
            headers: self.0.headers.clone(),
            host: self.0.host.clone(),
            counted: self.0.counted.clone(),
            owners: self.0.owners,
            fence: self.0.fence.clone(),
            url: self.0.url.clone(),
            observer: self.0.observer.clone(),
            repeats: self.0.repeats,
        };
        change(&mut inner);
        Self(Arc::new(inner))
    }

    /// Whether responses carry the server's own objects.
    pub fn is_in_process(&self) -> bool {
        matches!(self.0.transport, Transport::InProcess { .. })
    }

    /// The number of requests of each verb and resource since the client was created.
    pub fn request_counts(&self) -> Vec<RequestCount> {
        self.0.counts.read()
    }

    /// Sends a request unchanged and returns the response with any HTTP status; the path is relative to the server. No
    /// timeout applies. In process the caller's identity is attached, and an [`AcceptPayload`] extension is kept.
    ///
    /// # Errors
    /// [`Error::Transport`] when there is no response.
    pub fn send(&self, request: Request) -> BoxFuture<'static, Result<Response>> {
        // Boxed with erased lifetimes: otherwise every caller's task carries the transport's types, and the compiler
        // cannot prove it `Send`.
        let client = self.clone();
        Box::pin(async move { client.send_now(request).await })
    }

    async fn send_now(&self, mut request: Request) -> Result<Response> {
        if let Some(limit) = &self.0.limit {
            limit.acquire().await;
        }
        if !self.0.prefix.is_empty() {
            codec::prefix(&mut request, &self.0.prefix)?;
        }
        request.headers_mut().extend(self.0.headers.clone());
        request.headers_mut().entry(http::header::USER_AGENT).or_insert_with(|| self.0.user_agent.clone());
        if self.0.repeats {
            repetition::sent(request, |it| self.exchanged(it)).await
        } else {
            self.exchanged(request).await
        }
    }

    async fn exchanged(&self, request: Request) -> Result<Response> {
        let method = self.0.counted.as_ref().map(|_| request.method().clone());
        let response = match &self.0.observer {
            Some(observer) => observer::observed(observer, &self.0.url, request, |it| self.fenced_transport(it)).await,
            None => self.fenced_transport(request).await,
        };
        if let (Some(counted), Some(method)) = (&self.0.counted, method) {
            let status = response.as_ref().map(|response| response.status());
            let code = status.as_ref().map_or("<error>", |status| status.as_str());
            counted.increment(&[code, method.as_str(), &self.0.host]);
        }
        response
    }

    /// A write in this process is checked once: its commit is guarded by the state that it was derived from. A write over a
    /// socket may wait for its connection, and is cancelled when the fence closes.
    async fn fenced_transport(&self, request: Request) -> Result<Response> {
        let Some(fence) = self.0.fence.as_ref().filter(|_| !request.method().is_safe()) else {
            return self.transported(request).await;
        };
        let attempt = codec::Attempt::of(&request);
        if !fence.is_open() {
            return Err(Error::Fenced { attempt: attempt.to_string() });
        }
        if self.is_in_process() {
            return self.transported(request).await;
        }
        let sent = Box::pin(fence.around(self.transported(request))).await;
        sent.unwrap_or_else(|| Err(Error::Fenced { attempt: attempt.to_string() }))
    }

    async fn transported(&self, mut request: Request) -> Result<Response> {
        match &self.0.transport {
            Transport::InProcess { service, caller } => {
                match caller {
                    Caller::Known(identity) => {
                        request.extensions_mut().insert(identity.clone());
                    }
                    Caller::Token(value) => {
                        request.headers_mut().insert(http::header::AUTHORIZATION, value.clone());
                    }
                }
                trace::propagate(request.headers_mut());
                Ok(call(service.clone(), request).await)
            }
            Transport::Remote(service) => spans::sent(service, &self.0.host, request).await,
        }
    }

    /// Sends a request and reads the whole response: for paths without a dedicated method, such as `/readyz`. `path`
    /// may have a query.
    ///
    /// # Errors
    /// [`Error::Status`] when the server returns an error, otherwise those of [`Client::send`].
    pub fn request<'a>(
        &'a self,
        method: http::Method,
        path: &'a str,
        body: Option<serde_json::Value>,
    ) -> BoxFuture<'a, Result<bytes::Bytes>> {
        Box::pin(async move {
            let bytes = match &body {
                Some(body) => serde_json::to_vec(body).map_err(|e| Error::encode(path, e))?,
                None => Vec::new(),
            };
            let request = codec::request(method, path, bytes.into(), "application/json")?;
            match self.answer(request, MAX_LIST_BYTES).await? {
                Answer::Bytes(bytes) => Ok(bytes),
                Answer::Payload(Payload::Object(object)) => Ok(object.json()),
                Answer::Payload(_) => Err(Error::unexpected(path, "a list of shared objects")),
            }
        })
    }

    /// Sends a GET for a media type of the caller's choice, such as a Table; never returns shared objects.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub fn document<'a>(&'a self, path: &'a str, accept: &'a str) -> BoxFuture<'a, Result<bytes::Bytes>> {
        Box::pin(async move {
            let request = codec::read(path, accept)?;
            let attempt = codec::attempt(&request);
            match self.within_timeout(&attempt, self.read(request, MAX_LIST_BYTES)).await? {
                Answer::Bytes(bytes) => Ok(bytes),
                Answer::Payload(_) => Err(Error::unexpected(&attempt, "shared objects")),
            }
        })
    }

    /// As [`Client::document`], for a watch: returns the server's events, one per line.
    ///
    /// # Errors
    /// As [`Client::request`] for the start; later errors are items of the stream.
    pub fn event_lines<'a>(&'a self, path: &'a str, accept: &'a str) -> BoxFuture<'a, Result<EventLines>> {
        Box::pin(async move {
            let request = codec::read(path, accept)?;
            let attempt = codec::attempt(&request);
            let (parts, body) = self.send(request).await?.into_parts();
            if parts.status.is_success() {
                return Ok(watch::lines(body).boxed());
            }
            let bytes =
                read_body(body, MAX_OBJECT_BYTES).await.map_err(|e| Error::transport(&self.0.host, &attempt, e))?;
            Err(codec::refusal(parts.status, &bytes))
        })
    }

    /// Sends a request, reads the whole response within the time-out, and turns error responses into [`Error::Status`].
    fn answer(&self, request: Request, limit: usize) -> BoxFuture<'static, Result<Answer>> {
        let client = self.clone();
        Box::pin(async move { client.answer_now(request, limit).await })
    }

    async fn answer_now(&self, mut request: Request, limit: usize) -> Result<Answer> {
        if self.is_in_process() {
            request.extensions_mut().insert(AcceptPayload);
            return self.read(request, limit).await;
        }
        let attempt = codec::Attempt::of(&request);
        self.within_timeout(&attempt, self.read(request, limit)).await
    }

    async fn within_timeout<T>(
        &self,
        attempt: &(dyn Display + Sync),
        exchange: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let (host, after) = (&self.0.host, self.0.timeout);
        tokio::time::timeout(after, exchange)
            .await
            .unwrap_or_else(|_| Err(Error::Timeout { host: host.clone(), attempt: attempt.to_string(), after }))
    }

    async fn read(&self, request: Request, limit: usize) -> Result<Answer> {
        let attempt = codec::Attempt::of(&request);
        let response = self.send_now(request).await?;
        let (mut parts, body) = response.into_parts();
        if parts.status.is_success()
            && let Some(payload) = parts.extensions.remove::<Payload>()
        {
            return Ok(Answer::Payload(payload));
        }
        let failed = |error| Error::transport(&self.0.host, &attempt.to_string(), error);
        let bytes = read_body(body, limit).await.map_err(failed)?;
        if parts.status.is_success() { Ok(Answer::Bytes(bytes)) } else { Err(codec::refusal(parts.status, &bytes)) }
    }
}

/// Not an `async fn`: see [`Client::send`].
fn call(service: ApiService, request: Request) -> BoxFuture<'static, Response> {
    Box::pin(service.oneshot(request).map(|response| match response {
        Ok(response) => response,
        Err(never) => match never {},
    }))
}

/// Reads at most `limit` bytes of a body.
fn read_body(
    body: transport::Body,
    limit: usize,
) -> BoxFuture<'static, std::result::Result<bytes::Bytes, transport::BoxError>> {
    Box::pin(Limited::new(body, limit).collect().map(|whole| whole.map(http_body_util::Collected::to_bytes)))
}

enum Answer {
    Payload(Payload),
    Bytes(bytes::Bytes),
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0.transport {
            Transport::InProcess { caller: Caller::Known(identity), .. } => {
                write!(f, "Client(in process as {})", identity.user)
            }
            Transport::InProcess { caller: Caller::Token(_), .. } => write!(f, "Client(in process with a token)"),
            Transport::Remote(_) => f.write_str("Client(remote)"),
        }
    }
}
