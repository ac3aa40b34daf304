//! A dynamic Kubernetes client over any transport: the API server in this process, or any other through its kubeconfig.
//!
//! Objects come back as `Arc<Object>`. In process they are the server's own, nothing is encoded or decoded; over a
//! socket they are parsed here. This crate keeps no cache and repeats no request: `controller-runtime` does the first,
//! the caller's queue the second.

mod codec;
mod discovery;
mod error;
mod failure;
pub mod kubeconfig;
mod limits;
mod mapper;
pub mod metrics;
mod options;
mod remote;
mod verbs;
mod watch;

use std::sync::Arc;
use std::time::Duration;

pub use discovery::{DiscoveredResource, Discovery};
pub use error::{Error, chain};
pub use failure::Failure;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use http_body_util::{BodyExt, Limited};
pub use limits::{RequestCount, TokenBucket};
pub use mapper::{MapError, Mapper};
pub use options::{DeleteOptions, ListOptions, Patch, PatchOptions, Preconditions, WatchOptions, WriteOptions};
pub use remote::{Dial, Egress, Endpoint, Stream, Switch, authority};
use tower::ServiceExt;
use transport::{AcceptPayload, ApiService, Identity, Payload, Request, Response};

/// Lines of a watch; an error ends it.
pub type EventLines = futures::stream::BoxStream<'static, std::result::Result<bytes::Bytes, apimachinery::Status>>;

pub type Result<T> = std::result::Result<T, Error>;

/// How long a request other than a watch may take over a socket (the time-out upstream gives member clients).
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(32);

/// kube-apiserver takes objects of up to 3 MiB and etcd of 1.5 MiB; twice the former leaves room for what is added.
pub(crate) const MAX_OBJECT_BYTES: usize = 8 << 20;

/// A list is read in pages by those who expect many objects; this bounds the others.
pub(crate) const MAX_LIST_BYTES: usize = 64 << 20;

/// Cheap to clone; clones share the connection, the rate limit and the counters.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    transport: Transport,
    limit: Option<Arc<TokenBucket>>,
    counts: limits::Counters,
    timeout: Duration,
    user_agent: http::HeaderValue,
    /// Before every path.
    prefix: String,
    /// With every request.
    headers: http::HeaderMap,
    /// The server's name and port as numbers show it.
    host: Arc<str>,
    counted: Option<::metrics::Counters>,
    /// Whether objects of lists and watches keep their field owners.
    owners: bool,
}

#[derive(Clone)]
enum Transport {
    InProcess { service: ApiService, caller: Caller },
    Remote(remote::Service),
}

/// How a request in this process says who sends it.
#[derive(Clone)]
enum Caller {
    Known(Identity),
    /// The value of the `Authorization` header.
    Token(http::HeaderValue),
}

impl Client {
    /// Talks to an API server of this process as `identity`.
    pub fn in_process(service: ApiService, identity: Identity) -> Self {
        Self::over(Transport::InProcess { service, caller: Caller::Known(identity) }, metrics::IN_PROCESS)
    }

    /// Talks to an API server of this process as whoever the server finds behind a bearer token.
    ///
    /// # Errors
    /// [`Error::Config`] when the token cannot be a header.
    pub fn in_process_with_token(service: ApiService, token: &str) -> Result<Self> {
        let mut value = http::HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| Error::Config("the token holds characters that no header can".into()))?;
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
        }))
    }

    /// The same connection with a rate limit, and its own counters. Limits can be shared between clients.
    #[must_use]
    pub fn with_limit(&self, limit: Option<Arc<TokenBucket>>) -> Self {
        self.changed(|inner| inner.limit = limit)
    }

    /// The same connection, whose requests `registry` shows, with its own counters.
    #[must_use]
    pub fn counted_in(&self, registry: &::metrics::Registry) -> Self {
        self.changed(|inner| inner.counted = Some(registry.counters(&metrics::REQUESTS)))
    }

    /// The same connection with another time-out (see [`DEFAULT_TIMEOUT`]), and its own counters.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        self.changed(|inner| inner.timeout = timeout)
    }

    /// The same connection, whose lists and watches drop `metadata.managedFields` of what comes over a socket, with its own
    /// counters: for caches whose readers have no use for it.
    #[must_use]
    pub fn without_field_owners(&self) -> Self {
        self.changed(|inner| inner.owners = false)
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

    /// A server behind this one, as a path of it (a member behind the cluster proxy), with its own counters.
    #[must_use]
    pub fn behind(&self, prefix: &str) -> Self {
        self.changed(|inner| inner.prefix.push_str(prefix.trim_end_matches('/')))
    }

    /// The same connection acting as somebody else, which the server must allow, with its own counters.
    ///
    /// # Errors
    /// [`Error::Config`] when a name cannot be a header.
    pub fn acting_as(&self, user: &str, groups: &[String], uid: &str) -> Result<Self> {
        let value = |text: &str| {
            let bad = |_| Error::Config(format!("{text:?} cannot be impersonated: no header can hold it"));
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
        };
        change(&mut inner);
        Self(Arc::new(inner))
    }

    /// Whether replies carry the server's own objects.
    pub fn is_in_process(&self) -> bool {
        matches!(self.0.transport, Transport::InProcess { .. })
    }

    /// How many requests of each verb and resource were sent since the client was made.
    pub fn request_counts(&self) -> Vec<RequestCount> {
        self.0.counts.read()
    }

    /// Sends a request as it is and returns the response whatever its status; the path is relative to the server. No
    /// time-out applies. In process the caller's identity is attached, and an [`AcceptPayload`] extension is kept.
    ///
    /// # Errors
    /// [`Error::Transport`] when there is no response.
    pub fn send(&self, request: Request) -> BoxFuture<'static, Result<Response>> {
        // Boxed with its lifetimes erased: else every caller's task carries the transport's types, and the compiler
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
        let method = self.0.counted.as_ref().map(|_| request.method().clone());
        let response = self.transported(request).await;
        if let (Some(counted), Some(method)) = (&self.0.counted, method) {
            let status = response.as_ref().map(|response| response.status());
            let code = status.as_ref().map_or("<error>", |status| status.as_str());
            counted.increment(&[code, method.as_str(), &self.0.host]);
        }
        response
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
                Ok(call(service.clone(), request).await)
            }
            Transport::Remote(service) => remote::send(service, &self.0.host, request).await,
        }
    }

    /// A request whose answer is read whole: the raw way to what has no method of its own, such as `/readyz`.
    /// `path` may carry a query.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses, else what [`Client::send`] says.
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

    /// A GET in a form of the caller's choosing, such as a Table; never shared objects.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub fn document<'a>(&'a self, path: &'a str, accept: &'a str) -> BoxFuture<'a, Result<bytes::Bytes>> {
        Box::pin(async move {
            let request = codec::read(path, accept)?;
            let attempt = codec::attempt(&request);
            match tokio::time::timeout(self.0.timeout, self.read(request, MAX_LIST_BYTES, &attempt)).await {
                Ok(Ok(Answer::Bytes(bytes))) => Ok(bytes),
                Ok(Ok(Answer::Payload(_))) => Err(Error::unexpected(&attempt, "shared objects")),
                Ok(Err(error)) => Err(error),
                Err(_) => Err(Error::Timeout { host: self.0.host.clone(), attempt, after: self.0.timeout }),
            }
        })
    }

    /// As [`Client::document`] for a watch: the events as the server writes them, one a line.
    ///
    /// # Errors
    /// As [`Client::request`] for the start; later errors come in the stream.
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

    /// Sends, waits for the whole answer within the time-out, and turns refusals into [`Error::Status`].
    fn answer(&self, request: Request, limit: usize) -> BoxFuture<'static, Result<Answer>> {
        let client = self.clone();
        Box::pin(async move { client.answer_now(request, limit).await })
    }

    async fn answer_now(&self, mut request: Request, limit: usize) -> Result<Answer> {
        let attempt = codec::attempt(&request);
        if self.is_in_process() {
            request.extensions_mut().insert(AcceptPayload);
            return self.read(request, limit, &attempt).await;
        }
        match tokio::time::timeout(self.0.timeout, self.read(request, limit, &attempt)).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::Timeout { host: self.0.host.clone(), attempt, after: self.0.timeout }),
        }
    }

    async fn read(&self, request: Request, limit: usize, attempt: &str) -> Result<Answer> {
        let response = self.send_now(request).await?;
        let (mut parts, body) = response.into_parts();
        if parts.status.is_success()
            && let Some(payload) = parts.extensions.remove::<Payload>()
        {
            return Ok(Answer::Payload(payload));
        }
        let bytes = read_body(body, limit).await.map_err(|e| Error::transport(&self.0.host, attempt, e))?;
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

/// At most `limit` bytes of a body.
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
