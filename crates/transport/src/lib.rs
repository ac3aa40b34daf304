//! What the API server and its clients exchange: HTTP requests and responses, over a socket or inside one process.
//!
//! Inside one process two things travel beside the HTTP message, as extensions that no socket can carry: the caller's
//! [`Identity`] (only in-process code can attach it) and, in the reply, a [`Payload`] of shared objects, so that a
//! cache fed by the server next door holds the server's own bytes. A peer that ignores both still has plain HTTP.

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

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub type Body = UnsyncBoxBody<Bytes, BoxError>;
pub type Request = http::Request<Body>;
pub type Response = http::Response<Body>;

/// An API server as a value. It never fails: every failure is a response.
pub type ApiService = tower::util::BoxCloneSyncService<Request, Response, Infallible>;

/// A body held in memory.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    http_body_util::Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

pub fn empty() -> Body {
    http_body_util::Empty::new().map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// A body that is written as it comes, frame by frame.
pub fn stream<S>(frames: S) -> Body
where
    S: Stream<Item = Result<Bytes, BoxError>> + Send + 'static,
{
    use futures::TryStreamExt;
    http_body_util::StreamBody::new(frames.map_ok(http_body::Frame::data)).boxed_unsync()
}

/// Who is asking. As a request extension it replaces authentication; authorization, admission and audit still run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub user: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: Vec<(String, Vec<String>)>,
}

impl Identity {
    /// A component of this process, with every right.
    pub fn system(component: &str) -> Self {
        Self {
            user: format!("system:{component}"),
            groups: vec!["system:masters".into(), "system:authenticated".into()],
            ..Self::default()
        }
    }
}

/// Request extension: the caller can take a [`Payload`] instead of bytes.
#[derive(Clone, Copy, Debug)]
pub struct AcceptPayload;

/// Request extension: a write of an object itself writes its status too, which is two writes for everybody else. For a
/// controller in this process that decides both at once.
#[derive(Clone, Copy, Debug)]
pub struct WithStatus;

/// Request extension of a create: the objects that come to be, instead of a body. Each is judged and stored as if it had come
/// alone; the reply is [`Payload::Created`]. For a caller in this process that makes many small ones of a kind at once, which
/// then are neither encoded nor decoded on the way. The first taker gets them.
#[derive(Clone)]
pub struct NewObjects(pub Arc<Mutex<Vec<Value>>>);

#[derive(Clone, Debug)]
pub enum WatchEvent {
    Added(Arc<Object>),
    Modified(Arc<Object>),
    /// The last state, with the revision of the deletion.
    Deleted(Arc<Object>),
    /// Everything up to this revision has been sent; `initial_end` marks the end of `sendInitialEvents`.
    Bookmark {
        resource_version: u64,
        initial_end: bool,
    },
    /// The stream ends after this; `Expired` asks the client to list again.
    Error(Box<Status>),
}

pub type WatchStream = Pin<Box<dyn Stream<Item = WatchEvent> + Send>>;

/// A list as the server holds it.
#[derive(Clone, Debug, Default)]
pub struct ObjectList {
    pub items: Vec<Arc<Object>>,
    pub resource_version: u64,
    /// Empty on the last page.
    pub continue_token: String,
    pub remaining: Option<u64>,
}

/// Request extension of a caller in the same process: instead of an answer to the request it gets [`Changes`]. The caller
/// must be allowed to watch everything.
#[derive(Clone, Copy, Debug)]
pub struct WatchEverything;

/// Every object of a server, and every change after that in the order of revisions: one line instead of a watch for
/// each resource. Objects are in their stored version; their metadata is the same in all.
pub struct Changes {
    pub initial: Vec<Change>,
    /// Ends when the receiver falls too far behind, or the server stops.
    pub following: ChangeStream,
}

pub type ChangeStream = Pin<Box<dyn Stream<Item = Change> + Send>>;

#[derive(Clone, Debug)]
pub struct Change {
    /// `GROUP/PLURAL`, with `core` for the core group.
    pub resource: Arc<str>,
    /// `None` when the object was deleted.
    pub current: Option<Arc<Object>>,
    pub previous: Option<Arc<Object>>,
}

/// Response extension, present only when the request carried [`AcceptPayload`] and succeeded; the body is then empty.
#[derive(Clone)]
pub enum Payload {
    Object(Arc<Object>),
    List(ObjectList),
    /// Extensions must be `Clone`, streams are not: the first taker gets it.
    Watch(Arc<Mutex<Option<WatchStream>>>),
    Everything(Arc<Mutex<Option<Changes>>>),
    /// What became of each of [`NewObjects`], in their order.
    Created(Vec<Result<Arc<Object>, Box<Status>>>),
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
            Self::Created(outcomes) => write!(f, "{} outcomes", outcomes.len()),
        }
    }
}
