//! Watches over several members: one watch of each, told as one.
//!
//! Every event carries the versions of all members, of which only its own has moved on; a client that lost its connection
//! goes on from there. It ends when a member's watch does, when members come or go (the client then lists again), when its
//! time is over or the server ends.

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

use super::found::Found;
use super::merged::{Asked, Target, failed, reached};
use super::shown::Shown;
use super::versions::{Versions, encode};

/// How often it is looked whether the members are still the same.
const LOOK: Duration = Duration::from_secs(1);

/// What a client asks for, besides what lists ask for too.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub asked: Asked,
    pub bookmarks: bool,
    /// First everything there is, and a bookmark that says so.
    pub initial_events: bool,
    pub shown: Shown,
    pub timeout: Duration,
}

/// What one member says; None is the end.
type Said = (String, Option<WatchEvent>);

struct Following {
    events: SelectAll<BoxStream<'static, Said>>,
    versions: Versions,
    /// Members that have not yet said that their initial events are over.
    waiting: BTreeSet<String>,
    namespaces: Vec<Target>,
    wanted: Wanted,
    api_version: String,
    kind: String,
    names_columns: bool,
    done: bool,
}

/// Starts following the targets. `still` tells whether the targets are the same as at the beginning.
///
/// # Errors
/// The first member's that does not answer, or no longer knows the version.
pub async fn follow(
    members: &Members,
    targets: Vec<Target>,
    resource: &ApiResource,
    wanted: Wanted,
    still: impl Fn() -> bool + Send + 'static,
    ending: CancellationToken,
) -> Result<impl Stream<Item = Result<Bytes, BoxError>> + Send + 'static, Status> {
    let mut events = SelectAll::new();
    let mut waiting = BTreeSet::new();
    for (cluster, _) in &targets {
        let Some(member) = reached(members, cluster).await else { continue };
        let options = WatchOptions {
            label_selector: wanted.asked.labels.clone(),
            field_selector: wanted.asked.fields.clone(),
            resource_version: wanted.asked.since.of(cluster),
            send_initial_events: wanted.initial_events,
            timeout_seconds: None,
            metadata_only: false,
        };
        let watch = member.client.watch(resource, wanted.asked.namespace.as_deref(), &options).await;
        let watch = match watch {
            Ok(watch) => watch,
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(failed(cluster, &error)),
        };
        let (name, last) = (cluster.clone(), cluster.clone());
        let told = watch.map(move |event| (name.clone(), Some(event)));
        events.push(told.chain(futures::stream::once(async move { (last, None) })).boxed());
        waiting.insert(cluster.clone());
    }
    let state = Following {
        events,
        versions: wanted.asked.since.versions(),
        waiting: if wanted.initial_events { waiting } else { BTreeSet::new() },
        namespaces: targets,
        api_version: resource.api_version(),
        kind: resource.kind.to_string(),
        names_columns: true,
        done: false,
        wanted,
    };
    let over = tokio::time::sleep(state.wanted.timeout);
    let changed = async move {
        let mut look = tokio::time::interval(LOOK);
        while still() {
            look.tick().await;
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
            // Without any member there is nothing to tell, until there are members.
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
            WatchEvent::Added(object) => ("ADDED", self.told(cluster, object)?),
            WatchEvent::Modified(object) => ("MODIFIED", self.told(cluster, object)?),
            WatchEvent::Deleted(object) => ("DELETED", self.told(cluster, object)?),
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

    /// None for an object of a namespace in which the resource is not registered.
    fn told(&mut self, cluster: &str, object: std::sync::Arc<Object>) -> Option<Value> {
        let registered = self.namespaces.iter().find(|(name, _)| name == cluster).map(|(_, namespaces)| namespaces);
        self.versions.insert(cluster.to_owned(), object.resource_version().to_owned());
        if registered.is_some_and(|it| !it.is_empty() && !it.contains(object.namespace().unwrap_or_default())) {
            return None;
        }
        // What was decoded once is so again.
        let mut tree = Found { cluster: cluster.to_owned(), object }.marked().ok()?;
        tree["metadata"]["resourceVersion"] = json!(encode(&self.versions));
        let names_columns = std::mem::take(&mut self.names_columns);
        Some(self.wanted.shown.one(tree, names_columns))
    }

    /// The last member's end of initial events is the end of all.
    fn bookmark(&mut self, cluster: &str, initial_end: bool) -> Option<Value> {
        let was_waiting = !self.waiting.is_empty();
        if initial_end {
            self.waiting.remove(cluster);
        }
        let all = initial_end && was_waiting && self.waiting.is_empty();
        if !(all || self.wanted.bookmarks && self.waiting.is_empty()) {
            return None;
        }
        let mut metadata = json!({ "resourceVersion": encode(&self.versions) });
        if all {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        Some(json!({ "kind": self.kind, "apiVersion": self.api_version, "metadata": metadata }))
    }
}
