//! The messages between the API server and its clients: HTTP requests and responses, over a socket or inside one
//! process.
//!
//! Inside one process, extensions accompany the HTTP message: the caller's [`Identity`] (only code in the process can
//! attach it) and, in the response, a [`Payload`] of shared objects, so that a cache in the server's process shares the
//! server's objects. A peer that ignores both uses plain HTTP.

mod draft;
mod event;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;

use apimachinery::{Object, Status};
use bytes::Bytes;
use futures::Stream;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use parking_lot::Mutex;
use serde_json::Value;

pub use draft::Draft;
pub use event::{EventDraft, EventPart, EventType, NewEvent};

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub type Body = UnsyncBoxBody<Bytes, BoxError>;
pub type Request = http::Request<Body>;
pub type Response = http::Response<Body>;

/// An API server as a value. Every failure is a response.
pub type ApiService = tower::util::BoxCloneSyncService<Request, Response, Infallible>;

/// A body in memory.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    http_body_util::Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

pub fn empty() -> Body {
    http_body_util::Empty::new().map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// A body that is sent frame by frame.
pub fn stream<S>(frames: S) -> Body
where
    S: Stream<Item = Result<Bytes, BoxError>> + Send + 'static,
{
    use futures::TryStreamExt;
    http_body_util::StreamBody::new(frames.map_ok(http_body::Frame::data)).boxed_unsync()
}

/// The identity of the caller. As a request extension it replaces authentication; authorization, admission and audit
/// still apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub user: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: Vec<(String, Vec<String>)>,
}

impl Identity {
    /// A component of this process, with all rights.
    pub fn system(component: &str) -> Self {
        Self {
            user: format!("system:{component}"),
            groups: vec!["system:masters".into(), "system:authenticated".into()],
            ..Self::default()
        }
    }
}

/// Request extension: the caller accepts a [`Payload`] instead of bytes.
#[derive(Clone, Copy, Debug)]
pub struct AcceptPayload;

/// Request extension: a write of an object also writes its status, which other clients write separately. For
/// controllers in this process that change both.
#[derive(Clone, Copy, Debug)]
pub struct WithStatus;

/// Request extension of a create: new objects instead of a body. Each is validated and stored as in a separate request;
/// the response is [`Payload::Created`]. For callers in this process that create many small objects of a kind, which
/// are then neither encoded nor decoded. The first receiver takes them.
#[derive(Clone)]
pub struct NewObjects(pub Arc<Mutex<Vec<NewObject>>>);

/// One of [`NewObjects`].
#[derive(Clone, Debug)]
pub enum NewObject {
    /// Of any kind.
    Tree(Value),
    /// An Event of the core group.
    Event(NewEvent),
}

impl NewObject {
    /// The object as a client would send it to this namespace.
    pub fn into_value(self, namespace: &str) -> Value {
        match self {
            Self::Tree(tree) => tree,
            Self::Event(event) => event.to_value(namespace),
        }
    }
}

impl From<Value> for NewObject {
    fn from(tree: Value) -> Self {
        Self::Tree(tree)
    }
}

/// Request extension: writes of a caller in this process that are stored together or not at all. Each is a request as
/// it would be sent alone, authorized, admitted and validated separately; the request that carries them is addressed
/// like the first and has no body. They are creates, updates and patches of different objects, and none depends on an
/// object that another one changes. The response is [`Payload::Together`], or a conflict if no write was stored. The
/// first receiver takes them.
#[derive(Clone)]
pub struct Together(Arc<Mutex<Vec<Request>>>);

impl Together {
    pub fn new(writes: Vec<Request>) -> Self {
        Self(Arc::new(Mutex::new(writes)))
    }

    /// The writes; empty if they were already taken.
    pub fn take(&self) -> Vec<Request> {
        std::mem::take(&mut *self.0.lock())
    }

    /// Method and path of each write.
    pub fn targets(&self) -> Vec<(http::Method, String)> {
        let target = |write: &Request| (write.method().clone(), write.uri().path().to_owned());
        self.0.lock().iter().map(target).collect()
    }
}

#[derive(Clone, Debug)]
pub enum WatchEvent {
    Added(Arc<Object>),
    Modified(Arc<Object>),
    /// The last state, with the revision of the deletion.
    Deleted(Arc<Object>),
    /// All events up to this revision have been sent; `initial_end` marks the end of `sendInitialEvents`.
    Bookmark {
        resource_version: u64,
        initial_end: bool,
    },
    /// The last event of the stream; after `Expired` the client must list again.
    Error(Box<Status>),
}

pub type WatchStream = Pin<Box<dyn Stream<Item = WatchEvent> + Send>>;

/// A list of the server's objects.
#[derive(Clone, Debug, Default)]
pub struct ObjectList {
    pub items: Vec<Arc<Object>>,
    pub resource_version: u64,
    /// Empty on the last page.
    pub continue_token: String,
    pub remaining: Option<u64>,
}

/// Request extension of a caller in this process: the response is [`Changes`]. The caller must be authorized to watch
/// everything.
#[derive(Clone, Copy, Debug)]
pub struct WatchEverything;

/// All objects of a server, and all later changes in the order of revisions: one stream instead of a watch per
/// resource. Objects are in their stored version; metadata is the same in all versions.
pub struct Changes {
    pub initial: Vec<Change>,
    /// Ends when the receiver is too slow, or the server stops.
    pub following: ChangeStream,
}

pub type ChangeStream = Pin<Box<dyn Stream<Item = Change> + Send>>;

#[derive(Clone, Debug)]
pub struct Change {
    /// `GROUP/PLURAL`, with `core` for the core group.
    pub resource: Arc<str>,
    /// `None` for a deleted object.
    pub current: Option<Arc<Object>>,
    pub previous: Option<Arc<Object>>,
}

/// Response extension, present only if the request had [`AcceptPayload`] and succeeded; the body is then empty.
#[derive(Clone)]
pub enum Payload {
    Object(Arc<Object>),
    List(ObjectList),
    /// Extensions must be `Clone`, and streams are not: the first receiver takes it.
    Watch(Arc<Mutex<Option<WatchStream>>>),
    Everything(Arc<Mutex<Option<Changes>>>),
    /// The result of each of [`NewObjects`], in their order.
    Created(Vec<Result<Arc<Object>, Box<Status>>>),
    /// The objects of [`Together`], in the order of the writes.
    Together(Vec<Arc<Object>>),
}

impl Payload {
    pub fn watch(stream: WatchStream) -> Self {
        Self::Watch(Arc::new(Mutex::new(Some(stream))))
    }
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Object(object) => write!(f, "{object:?}"),
            Self::List(list) => write!(f, "{} items at {}", list.items.len(), list.resource_version),
            Self::Watch(_) => f.write_str("watch"),
            Self::Everything(_) => f.write_str("watch of everything"),
            Self::Together(objects) => write!(f, "{} objects", objects.len()),
            Self::Created(outcomes) => write!(f, "{} outcomes", outcomes.len()),
        }
    }
}
