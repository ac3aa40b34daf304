//! Watches over several members: one watch of each member, merged into one stream.
//!
//! Every event carries the resource versions of all members; only that of its own member has changed. A client that
//! lost its connection resumes from there. The stream ends when the watch of a member ends, when members are added or
//! removed (the client then lists again), at its timeout, or when the server shuts down.

use std::collections::BTreeSet;
use std::time::Duration;

use apimachinery::Status;
use apimachinery::{ApiResource, Object};
use bytes::Bytes;
use client::WatchOptions;
use controllers::Members;
use futures::stream::{BoxStream, SelectAll};
use futures::{Stream, StreamExt};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use transport::{BoxError, WatchEvent};

use super::form::Form;
use super::found::Found;
use super::merged::{ListQuery, Target, failed, reached};
use super::versions::{Versions, encode};

/// Interval of the check whether the set of members has changed.
const MEMBERS_CHECK: Duration = Duration::from_secs(1);

/// The parameters of a watch.
#[derive(Clone, Debug)]
pub struct WatchQuery {
    pub list: ListQuery,
    pub bookmarks: bool,
    /// Begin with all existing objects, followed by a bookmark that marks their end.
    pub initial_events: bool,
    pub form: Form,
    pub timeout: Duration,
}

/// A member and its event; `None` is the end of its watch.
type MemberEvent = (String, Option<WatchEvent>);

struct Following {
    events: SelectAll<BoxStream<'static, MemberEvent>>,
    versions: Versions,
    /// Members whose initial events are not complete.
    waiting: BTreeSet<String>,
    namespaces: Vec<Target>,
    query: WatchQuery,
    api_version: String,
    kind: String,
    with_columns: bool,
    done: bool,
}

/// Watches the targets while `is_unchanged` returns that the set of targets is the one at the beginning.
///
/// # Errors
/// The error of the first member that does not answer, or no longer has the requested version.
pub async fn follow(
    members: &Members,
    targets: Vec<Target>,
    resource: &ApiResource,
    query: WatchQuery,
    is_unchanged: impl Fn() -> bool + Send + 'static,
    ending: CancellationToken,
) -> Result<impl Stream<Item = Result<Bytes, BoxError>> + Send + 'static, Status> {
    let mut events = SelectAll::new();
    let mut waiting = BTreeSet::new();
    for (cluster, _) in &targets {
        let Some(member) = reached(members, cluster).await else { continue };
        let options = WatchOptions {
            label_selector: query.list.labels.clone(),
            field_selector: query.list.fields.clone(),
            resource_version: query.list.since.of(cluster),
            send_initial_events: query.initial_events,
            timeout_seconds: None,
            metadata_only: false,
        };
        let watch = member.client.watch(resource, query.list.namespace.as_deref(), &options).await;
        let watch = match watch {
            Ok(watch) => watch,
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(failed(cluster, &error)),
        };
        let (name, last) = (cluster.clone(), cluster.clone());
        let tagged = watch.map(move |event| (name.clone(), Some(event)));
        events.push(tagged.chain(futures::stream::once(async move { (last, None) })).boxed());
        waiting.insert(cluster.clone());
    }
    let state = Following {
        events,
        versions: query.list.since.versions(),
        waiting: if query.initial_events { waiting } else { BTreeSet::new() },
        namespaces: targets,
        api_version: resource.api_version(),
        kind: resource.kind.to_string(),
        with_columns: true,
        done: false,
        query,
    };
    let over = tokio::time::sleep(state.query.timeout);
    let changed = async move {
        let mut ticks = tokio::time::interval(MEMBERS_CHECK);
        while is_unchanged() {
            ticks.tick().await;
        }
    };
    let end = async move {
        tokio::select! {
            () = over => {}
            () = changed => {}
            () = ending.cancelled() => {}
        }
    };
    let lines = futures::stream::unfold(state, |mut state| async move {
        loop {
            if state.done {
                return None;
            }
            // Without members the watch stays silent until there are some.
            let Some((cluster, event)) = state.events.next().await else {
                std::future::pending::<()>().await;
                return None;
            };
            let event = event?;
            if let Some(line) = state.line(&cluster, event) {
                return Some((Ok(line), state));
            }
        }
    });
    Ok(lines.take_until(Box::pin(end)))
}

impl Following {
    fn line(&mut self, cluster: &str, event: WatchEvent) -> Option<Bytes> {
        let (type_, object) = match event {
            WatchEvent::Added(object) => ("ADDED", self.event_object(cluster, object)?),
            WatchEvent::Modified(object) => ("MODIFIED", self.event_object(cluster, object)?),
            WatchEvent::Deleted(object) => ("DELETED", self.event_object(cluster, object)?),
            WatchEvent::Bookmark { resource_version, initial_end } => {
                self.versions.insert(cluster.to_owned(), resource_version.to_string());
                ("BOOKMARK", self.bookmark(cluster, initial_end)?)
            }
            WatchEvent::Error(status) => {
                self.done = true;
                ("ERROR", json!(status))
            }
        };
        Some(format!("{{\"type\":\"{type_}\",\"object\":{object}}}\n").into())
    }

    /// `None` for an object of a namespace in which the resource is not registered.
    fn event_object(&mut self, cluster: &str, object: std::sync::Arc<Object>) -> Option<Value> {
        let registered = self.namespaces.iter().find(|(name, _)| name == cluster).map(|(_, namespaces)| namespaces);
        self.versions.insert(cluster.to_owned(), object.resource_version().to_owned());
        if registered.is_some_and(|it| !it.is_empty() && !it.contains(object.namespace().unwrap_or_default())) {
            return None;
        }
        // The object has been decoded before, so this cannot fail.
        let mut tree = Found { cluster: cluster.to_owned(), object }.marked().ok()?;
        tree["metadata"]["resourceVersion"] = json!(encode(&self.versions));
        let with_columns = std::mem::take(&mut self.with_columns);
        Some(self.query.form.one(tree, with_columns))
    }

    /// The end of the initial events of the last member is the end of all initial events.
    fn bookmark(&mut self, cluster: &str, initial_end: bool) -> Option<Value> {
        let was_waiting = !self.waiting.is_empty();
        if initial_end {
            self.waiting.remove(cluster);
        }
        let all = initial_end && was_waiting && self.waiting.is_empty();
        if !(all || self.query.bookmarks && self.waiting.is_empty()) {
            return None;
        }
        let mut metadata = json!({ "resourceVersion": encode(&self.versions) });
        if all {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        Some(json!({ "kind": self.kind, "apiVersion": self.api_version, "metadata": metadata }))
    }
}
