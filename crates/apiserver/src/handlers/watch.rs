//! watch: existing objects (if requested), then every change, until the time limit.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::resource::Resource;
use apimachinery::{Object, Status, StatusReason};
use futures::future::BoxFuture;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;
use transport::{Payload, Response, WatchEvent, WatchStream};
use world::Level;

use super::Call;
use super::filter::Filter;
use super::frames::{self, Frames};
use crate::cache::keys;
use crate::cache::snapshot::Snapshot;
use crate::cache::{Event, Events, Replay, Selection};
use crate::conversion::{self, Conversions};
use crate::request::options::ListOptions;
use crate::state::ending::Share;
use crate::wire::respond;
use crate::wire::shape::Form;

const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// Before the end of a watch; kube-apiserver's margin.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// A year. Longer watches are equivalent to endless ones, and deadlines must not leave the range of the clock.
const MAX_TIMEOUT: u64 = 365 * 24 * 3600;

impl Call<'_> {
    pub(super) async fn watch(&self) -> Result<Response, Status> {
        let form = self.form()?;
        let options = ListOptions::parse(&self.info.query, true)?;
        let mut filter = self.filter()?;
        if !self.info.name.is_empty() {
            filter = self.named_filter()?;
        }
        let since = options.resource_version;
        let send_initial = options.send_initial_events == Some(true);
        let from = match since {
            // No events for existing objects, if the client requests it.
            None | Some(0) if options.send_initial_events == Some(false) => Some(self.newest(since).await?),
            None | Some(0) => None,
            Some(_) if send_initial => None,
            Some(revision) => Some(revision),
        };
        if from.is_none() {
            self.stored().not_older_than(since.unwrap_or(0)).await?;
        }
        // Events may have moved to another store, and would be missed until its revisions reach those of the former
        // one.
        if let Some(from) = from.filter(|from| self.kind.lifetime.is_some() && *from > self.stored().revision()) {
            let newest = self.stored().catch_up().await?;
            if from > newest {
                return Ok(self.stream(expired(from, newest), form));
            }
        }
        let bookmarks = options.allow_bookmarks;
        let now = self.stored().revision();
        let selection = Selection { namespace: self.namespace(), name: filter.name() };
        let subscription = match from {
            None => self.cache().subscribe(selection, now)?,
            Some(from) => self.cache().subscribe_after(selection, from, now),
        };
        let mut replay = None;
        if let Some(from) = from.filter(|from| *from < subscription.revision) {
            let prefix = keys::prefix(&self.resource.info.resource, self.namespace());
            match self.stored().replay(prefix, from, subscription.revision).await {
                Ok(found) => replay = Some(found),
                Err(status) if status.is(StatusReason::Expired) => return Ok(self.stream(expired(from, now), form)),
                Err(status) => return Err(status),
            }
        }
        let begun = Instant::now();
        let deadline = begun + self.watch_timeout(&options);
        let watcher = Watcher {
            resource: self.resource.clone(),
            conversions: Arc::clone(&self.server.conversions),
            filter: Arc::new(filter),
            namespace: self.namespace().map(str::to_owned),
            initial: subscription.initial,
            begun: 0,
            replay,
            events: subscription.events,
            start: subscription.revision,
            // A watch that begins with existing objects gets the end mark, requested or not.
            end_mark: from.is_none() && bookmarks,
            bookmarks,
            progress: self.stored().progress(),
            next_bookmark: Box::pin(tokio::time::sleep_until(bookmark_after(begun, deadline))),
            deadline: Box::pin(tokio::time::sleep_until(deadline)),
            ending: Box::pin(self.server.ending.token().cancelled_owned()),
            replaced: self.resource.info.custom.then(|| {
                let registry = Arc::clone(&self.server.registry);
                Box::pin(registry.until_replaced(self.resource.clone())) as BoxFuture<'static, ()>
            }),
            leaves_after: self.server.ending.share(&self.server.world),
        };
        Ok(self.stream(watcher.into_stream(), form))
    }

    /// The current state: any for version 0, otherwise one that includes every write before the request.
    async fn newest(&self, since: Option<u64>) -> Result<u64, Status> {
        match since {
            Some(0) => Ok(self.stored().revision()),
            _ => self.stored().catch_up().await,
        }
    }

    fn named_filter(&self) -> Result<Filter, Status> {
        let mut query = self.info.query.clone();
        query.set("fieldSelector", &format!("metadata.name={}", self.info.name));
        self.filter_of(&query)
    }

    fn watch_timeout(&self, options: &ListOptions) -> Duration {
        // Watches that begin together do not end together.
        let least = self.server.flow.min_request_timeout().as_secs().clamp(1, MAX_TIMEOUT);
        Duration::from_secs(match options.timeout_seconds {
            0 => least + self.server.world.random_u64() % least,
            requested => requested.min(MAX_TIMEOUT),
        })
    }

    fn stream(&self, events: WatchStream, form: Form) -> Response {
        if self.shared {
            return respond::payload(StatusCode::OK, Payload::watch(events));
        }
        let frames = Frames {
            resource: self.resource.clone(),
            form,
            encoding: self.accepted.encoding,
            world: self.server.world.clone(),
            first: true,
            watched: self.server.counted.streams.watched(self.info),
            watching: self.server.flow.watching(self.info),
        };
        let content_type = HeaderValue::from_static(frames.content_type());
        let mut response = Response::new(transport::stream(frames::stream(events, frames)));
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        response
    }
}

/// A watch that is over before it began: the client lists again.
fn expired(requested: u64, oldest: u64) -> WatchStream {
    let status = Status::failure(StatusReason::Expired, format!("too old resource version: {requested} ({oldest})"));
    Box::pin(futures::stream::iter([WatchEvent::Error(Box::new(status))]))
}

/// The event of a change from and to a selected state.
fn transition(was: Option<&Arc<Object>>, is: Option<&Arc<Object>>, event: &Event) -> Option<Translated> {
    let sharing = if event.current.is_some() { Sharing::Own } else { Sharing::Shared };
    Some(Ok(match (was, is) {
        (None, None) => return None,
        (None, Some(object)) => (Arc::clone(object), WatchEvent::Added, Sharing::Shared),
        (Some(_), Some(object)) => (Arc::clone(object), WatchEvent::Modified, Sharing::Shared),
        (Some(object), None) => match keys::at_revision(object, event.revision) {
            Ok(object) => (object.shared(), WatchEvent::Deleted, sharing),
            Err(error) => return Some(Err(crate::errors::document(error))),
        },
    }))
}

async fn maybe(future: &mut Option<BoxFuture<'static, ()>>) {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// When to send the next bookmark: once a minute, and at last shortly before the end, so that the client resumes where
/// it stopped.
fn bookmark_after(now: Instant, deadline: Instant) -> Instant {
    let regular = now + BOOKMARK_PERIOD;
    let last = deadline.checked_sub(LAST_BOOKMARK).filter(|last| *last > now);
    last.map_or(regular, |last| regular.min(last))
}

struct Watcher {
    resource: Resource,
    conversions: Arc<Conversions>,
    filter: Arc<Filter>,
    namespace: Option<String>,
    initial: Arc<Snapshot>,
    /// How many of `initial` have been sent.
    begun: usize,
    /// Changes before `start` that only the store remembers.
    replay: Option<Replay>,
    events: Events,
    start: u64,
    end_mark: bool,
    bookmarks: bool,
    progress: Arc<Level<u64>>,
    next_bookmark: Pin<Box<Sleep>>,
    deadline: Pin<Box<Sleep>>,
    /// At a shutdown of the server the stream ends after a whole event, and the client reconnects elsewhere.
    ending: Pin<Box<WaitForCancellationFutureOwned>>,
    /// A watch ends when the definition of its resource changes: its form, its version or its conversion may be gone.
    /// The client continues from the last event. `None` for built-in resources.
    replaced: Option<BoxFuture<'static, ()>>,
    /// When it ends after that; `None` once it is known.
    leaves_after: Option<Share>,
}

type Make = fn(Arc<Object>) -> WatchEvent;
/// A stored object, and the event that it becomes.
type Translated = Result<(Arc<Object>, Make, Sharing), Status>;

/// Whether watchers convert the object of an event once for all of them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Shared,
    /// An object that left the selection of this watcher: it has the revision of its next state.
    Own,
}

impl Watcher {
    fn into_stream(self) -> WatchStream {
        // Boxed: it is moved several times for each event.
        Box::pin(futures::stream::unfold(Box::new(self), |mut watcher| async move {
            let event = watcher.next().await?;
            Some((event, watcher))
        }))
    }

    async fn next(&mut self) -> Option<WatchEvent> {
        if let Some(change) = self.next_initial().await {
            return Some(self.serve(change).await);
        }
        if self.begun > 0 {
            (self.initial, self.begun) = Default::default();
        }
        if std::mem::take(&mut self.end_mark) {
            return Some(WatchEvent::Bookmark { resource_version: self.start, initial_end: true });
        }
        while let Some(replay) = &mut self.replay {
            match replay.next().await {
                Some(Ok(event)) if self.filter.is_converted() => {
                    if let Some(change) = self.translate_converted(event).await {
                        return Some(self.serve(change).await);
                    }
                }
                Some(Ok(event)) => {
                    if let Some(change) = self.translate(&event) {
                        return Some(self.serve(change).await);
                    }
                }
                Some(Err(status)) => {
                    self.replay = None;
                    return Some(WatchEvent::Error(Box::new(status)));
                }
                None => self.replay = None,
            }
        }
        loop {
            let event = tokio::select! {
                biased;
                event = self.events.recv() => event?,
                () = self.ending.as_mut(), if self.leaves_after.is_some() => {
                    let wait = self.leaves_after.take().map_or(Duration::ZERO, |share| share.wait());
                    if wait.is_zero() {
                        return None;
                    }
                    let end = (Instant::now() + wait).min(self.deadline.deadline());
                    self.deadline.as_mut().reset(end);
                    continue;
                }
                () = self.deadline.as_mut() => return None,
                () = maybe(&mut self.replaced), if self.replaced.is_some() => return None,
                () = self.next_bookmark.as_mut(), if self.bookmarks => {
                    let next = bookmark_after(Instant::now(), self.deadline.deadline());
                    self.next_bookmark.as_mut().reset(next);
                    // The progress is read first: every change up to it is in the log by now.
                    let reached = self.progress.get();
                    match self.events.now().flatten() {
                        Some(event) => event,
                        None => return Some(WatchEvent::Bookmark { resource_version: reached, initial_end: false }),
                    }
                }
            };
            if event.revision <= self.start {
                continue;
            }
            let change = match self.filter.is_converted() {
                false => self.translate(&event),
                // Boxed: few watches convert in this way.
                true => Box::pin(self.translate_converted(Event::clone(&event))).await,
            };
            if let Some(change) = change {
                return Some(self.serve(change).await);
            }
        }
    }

    /// The next selected object of the initial state.
    async fn next_initial(&mut self) -> Option<Translated> {
        while let Some(object) = self.initial.get(self.begun) {
            let object = Arc::clone(object);
            self.begun += 1;
            if self.filter.is_converted() {
                let event = Event { revision: 0, current: Some(object), previous: None };
                let change = self.translate_converted(event).await;
                if change.is_some() {
                    return change;
                }
            } else if self.accepts(&object) {
                return Some(Ok((object, WatchEvent::Added, Sharing::Shared)));
            }
        }
        None
    }

    /// The event of a change for this watcher: an object may start or stop matching its selectors.
    fn translate(&self, event: &Event) -> Option<Translated> {
        let is = event.current.as_ref().filter(|object| self.accepts(object));
        let was = event.previous.as_ref().filter(|object| self.accepts(object));
        transition(was, is, event)
    }

    /// As [`Watcher::translate`], for selectors on fields of a version that a webhook converts to.
    fn translate_converted(&self, event: Event) -> impl Future<Output = Option<Translated>> + Send + use<> {
        let (filter, namespace) = (Arc::clone(&self.filter), self.namespace.clone());
        async move {
            let selects = async |object: &Option<Arc<Object>>| match object {
                Some(object) if namespace.as_deref().is_none_or(|ns| object.namespace() == Some(ns)) => {
                    Arc::clone(&filter).selects(Arc::clone(object)).await
                }
                _ => Ok(false),
            };
            let (was, is) = match (selects(&event.previous).await, selects(&event.current).await) {
                (Ok(was), Ok(is)) => (was, is),
                (Err(status), _) | (_, Err(status)) => return Some(Err(status)),
            };
            let (was, is) = (event.previous.as_ref().filter(|_| was), event.current.as_ref().filter(|_| is));
            transition(was, is, &event)
        }
    }

    fn accepts(&self, object: &Object) -> bool {
        self.namespace.as_deref().is_none_or(|ns| object.namespace() == Some(ns)) && self.filter.accepts(object)
    }

    /// The event in the version of this watcher. Not a function of `&self`: streams of the store cannot be shared.
    fn serve(&self, change: Translated) -> impl Future<Output = WatchEvent> + Send + use<> {
        let webhook = change.is_ok() && self.conversions.has(&self.resource.info);
        let done = match change {
            Ok(change) if webhook => Err((change, Arc::clone(&self.conversions), self.resource.clone())),
            Ok((object, make, _)) => {
                let form = self.resource.strategy.served_form(&object);
                Ok(form.map(|form| make(form.map_or(object, Object::shared))))
            }
            Err(status) => Ok(Err(status)),
        };
        async move {
            let event = match done {
                Ok(event) => event,
                // Boxed: few watches convert in this way, and all would have room for it.
                Err(((object, make, Sharing::Shared), conversions, resource)) => {
                    Box::pin(conversion::served_to_watchers(&conversions, &resource, object)).await.map(make)
                }
                Err(((object, make, Sharing::Own), conversions, resource)) => {
                    Box::pin(conversion::served(&conversions, &resource, object)).await.map(make)
                }
            };
            event.unwrap_or_else(|status| WatchEvent::Error(Box::new(status)))
        }
    }
}
