//! watch: what exists (if asked for), then every change, until the time is up.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::resource::Resource;
use apimachinery::{Object, Status, StatusReason};
use bytes::Bytes;
use futures::StreamExt;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use transport::{Payload, Response, WatchEvent, WatchStream};

use super::Call;
use super::read::Filter;
use crate::cache::Event;
use crate::negotiate::{Encoding, Shape};
use crate::respond;
use crate::shape::{self, Include};

/// kube-apiserver's `--min-request-timeout`; watches without a time-out end after one to two of these.
const MIN_TIMEOUT: u64 = 1800;
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);

impl Call<'_> {
    pub(super) async fn watch(&self) -> Result<Response, Status> {
        if self.accepted.encoding == Encoding::Yaml {
            return Err(Status::failure(StatusReason::NotAcceptable, "watch is not served as application/yaml"));
        }
        let query = &self.info.query;
        let mut filter_info = self.filter()?;
        if !self.info.name.is_empty() {
            filter_info = self.named_filter()?;
        }
        let wanted = query.number("resourceVersion")?;
        let send_initial = query.flag("sendInitialEvents");
        if query.text("sendInitialEvents").is_some() && query.text("resourceVersionMatch") != Some("NotOlderThan") {
            let path = apimachinery::field::Path::new("resourceVersionMatch");
            let error = apimachinery::field::Error::forbidden(
                &path,
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            );
            return Err(Status::invalid("meta.k8s.io", "ListOptions", "", &[error]));
        }
        let from = match wanted {
            None | Some(0) => None,
            Some(_) if send_initial => None,
            Some(revision) => Some(revision),
        };
        if from.is_none() {
            self.server.cache.not_older_than(wanted.unwrap_or(0)).await?;
        }
        let bookmarks = query.flag("allowWatchBookmarks");
        let watcher = match self.cache().subscribe(from, self.server.cache.revision()) {
            Ok(subscription) => Watcher {
                resource: self.resource.clone(),
                filter: filter_info,
                namespace: self.namespace().map(str::to_owned),
                initial: subscription.initial.into_iter(),
                events: subscription.events,
                start: subscription.revision,
                // A watch from "0" gets the end mark too, and so tells informers that they are in sync.
                end_mark: from.is_none() && bookmarks && (send_initial || wanted == Some(0)),
                bookmarks,
                progress: self.server.cache.progress(),
                next_bookmark: tokio::time::Instant::now() + BOOKMARK_PERIOD,
                deadline: tokio::time::Instant::now() + self.watch_timeout()?,
            },
            Err(oldest) => return Ok(self.stream(expired(wanted.unwrap_or(0), oldest))),
        };
        Ok(self.stream(watcher.into_stream()))
    }

    fn named_filter(&self) -> Result<Filter, Status> {
        let mut query = self.info.query.clone();
        query.set("fieldSelector", &format!("metadata.name={}", self.info.name));
        self.filter_of(&query)
    }

    fn watch_timeout(&self) -> Result<Duration, Status> {
        let asked = self.info.query.number("timeoutSeconds")?.filter(|seconds| *seconds > 0);
        let seconds = asked.unwrap_or_else(|| MIN_TIMEOUT + self.server.world.random_u64() % MIN_TIMEOUT);
        Ok(Duration::from_secs(seconds))
    }

    fn stream(&self, events: WatchStream) -> Response {
        if self.shared {
            return respond::payload(StatusCode::OK, Payload::watch(events));
        }
        let resource = self.resource.clone();
        let (shape, now) = (self.accepted.shape, self.now);
        let include = self.include().unwrap_or(Include::Metadata);
        let mut first = true;
        let frames = events.map(move |event| {
            let line = line(&resource, event, shape, include, now, std::mem::take(&mut first));
            Ok(Bytes::from(line))
        });
        let mut response = Response::new(transport::stream(frames));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response.headers_mut().insert("cache-control", HeaderValue::from_static("no-cache, private"));
        response
    }
}

/// A watch that is over before it began: the client lists again.
fn expired(requested: u64, oldest: u64) -> WatchStream {
    let status = Status::failure(StatusReason::Expired, format!("too old resource version: {requested} ({oldest})"));
    Box::pin(futures::stream::iter([WatchEvent::Error(Box::new(status))]))
}

struct Watcher {
    resource: Resource,
    filter: Filter,
    namespace: Option<String>,
    initial: std::vec::IntoIter<Arc<Object>>,
    events: mpsc::Receiver<Arc<Event>>,
    start: u64,
    end_mark: bool,
    bookmarks: bool,
    progress: watch::Receiver<u64>,
    next_bookmark: tokio::time::Instant,
    deadline: tokio::time::Instant,
}

impl Watcher {
    fn into_stream(self) -> WatchStream {
        Box::pin(futures::stream::unfold(self, |mut watcher| async move {
            let event = watcher.next().await?;
            Some((event, watcher))
        }))
    }

    async fn next(&mut self) -> Option<WatchEvent> {
        while let Some(object) = self.initial.next() {
            if self.accepts(&object) {
                return Some(self.event(object, WatchEvent::Added));
            }
        }
        if std::mem::take(&mut self.end_mark) {
            return Some(WatchEvent::Bookmark { resource_version: self.start, initial_end: true });
        }
        loop {
            let event = tokio::select! {
                biased;
                event = self.events.recv() => event?,
                () = tokio::time::sleep_until(self.deadline) => return None,
                () = tokio::time::sleep_until(self.next_bookmark), if self.bookmarks => {
                    self.next_bookmark += BOOKMARK_PERIOD;
                    // The progress is read first: whatever happened up to it is in the channel by now.
                    let reached = *self.progress.borrow();
                    match self.events.try_recv() {
                        Ok(event) => event,
                        Err(_) => return Some(WatchEvent::Bookmark { resource_version: reached, initial_end: false }),
                    }
                }
            };
            if event.revision > self.start
                && let Some(event) = self.translate(&event)
            {
                return Some(event);
            }
        }
    }

    /// What a change means to this watcher: an object may enter or leave what its selectors show.
    fn translate(&self, event: &Event) -> Option<WatchEvent> {
        let is = event.current.as_ref().filter(|object| self.accepts(object));
        let was = event.previous.as_ref().filter(|object| self.accepts(object));
        Some(match (was, is) {
            (None, None) => return None,
            (None, Some(object)) => self.event(Arc::clone(object), WatchEvent::Added),
            (Some(_), Some(object)) => self.event(Arc::clone(object), WatchEvent::Modified),
            (Some(object), None) => match at_revision(object, event.revision) {
                Ok(object) => self.event(object, WatchEvent::Deleted),
                Err(error) => WatchEvent::Error(Box::new(crate::errors::document(error))),
            },
        })
    }

    fn accepts(&self, object: &Object) -> bool {
        self.namespace.as_deref().is_none_or(|ns| object.namespace() == Some(ns)) && self.filter.accepts(object)
    }

    fn event(&self, object: Arc<Object>, make: fn(Arc<Object>) -> WatchEvent) -> WatchEvent {
        match self.resource.strategy.served_form(&object) {
            Ok(converted) => make(converted.map_or(object, Object::shared)),
            Err(status) => WatchEvent::Error(Box::new(status)),
        }
    }
}

/// A deleted object is shown with the revision of its deletion.
fn at_revision(object: &Object, revision: u64) -> Result<Arc<Object>, serde_json::Error> {
    let mut tree = object.to_value()?;
    tree["metadata"]["resourceVersion"] = revision.to_string().into();
    Object::from_value(&tree).map(Object::shared)
}

fn line(
    resource: &Resource,
    event: WatchEvent,
    form: Shape,
    include: Include,
    now: apimachinery::meta::Time,
    first: bool,
) -> Vec<u8> {
    let (type_, object) = match event {
        WatchEvent::Added(object) => ("ADDED", object),
        WatchEvent::Modified(object) => ("MODIFIED", object),
        WatchEvent::Deleted(object) => ("DELETED", object),
        WatchEvent::Error(status) => return frame("ERROR", &json!(status)),
        WatchEvent::Bookmark { resource_version, initial_end } => {
            return frame("BOOKMARK", &bookmark(resource, resource_version, initial_end, form));
        }
    };
    if form == Shape::Whole {
        let mut out = format!("{{\"type\":\"{type_}\",\"object\":").into_bytes();
        out.extend_from_slice(object.json());
        out.extend_from_slice(b"}\n");
        return out;
    }
    match shape::shaped(resource, &object, form, include, now) {
        Ok(mut shown) => {
            if form == Shape::Table && !first {
                shown["columnDefinitions"] = Value::Null;
            }
            frame(type_, &shown)
        }
        Err(status) => frame("ERROR", &json!(status)),
    }
}

fn bookmark(resource: &Resource, revision: u64, initial_end: bool, form: Shape) -> Value {
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if initial_end {
        metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    let named = &resource.info.resource;
    match form {
        Shape::Whole => json!({"kind": named.kind, "apiVersion": named.api_version(), "metadata": metadata}),
        Shape::Metadata => {
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
        }
        Shape::Table => json!({
            "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": revision.to_string()},
            "columnDefinitions": null,
            "rows": [{"cells": [], "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}}]}),
    }
}

fn frame(type_: &str, object: &Value) -> Vec<u8> {
    let mut out = json!({"type": type_, "object": object}).to_string().into_bytes();
    out.push(b'\n');
    out
}
