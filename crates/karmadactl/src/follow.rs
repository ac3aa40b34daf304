//! The states of one object from now on: a list, then a watch. There is no polling.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiResource, Object, ObjectKey};
use client::{Client, ListOptions, WatchOptions};
use futures::StreamExt;
use futures::stream::BoxStream;
use serde_json::Value;
use transport::{WatchEvent, WatchStream};

/// Pause before a server that failed, or that ended a watch at once, is read again.
const PAUSE: Duration = Duration::from_secs(2);

/// One state; `None` while the object does not exist.
pub type State = Result<Option<Value>, client::Error>;

struct Follow {
    client: Client,
    resource: ApiResource,
    key: ObjectKey,
    events: Option<WatchStream>,
    /// The last attempt returned no events.
    pauses: bool,
}

/// The states of an object, without an end. After an error the next state is read again after a pause: the caller
/// decides whether it waits for it.
pub fn states(client: &Client, resource: &ApiResource, key: &ObjectKey) -> BoxStream<'static, State> {
    let follow =
        Follow { client: client.clone(), resource: resource.clone(), key: key.clone(), events: None, pauses: false };
    futures::stream::unfold(follow, |mut follow| async move {
        let state = follow.next().await;
        Some((state, follow))
    })
    .boxed()
}

impl Follow {
    async fn next(&mut self) -> State {
        loop {
            if let Some(events) = &mut self.events {
                match events.next().await {
                    Some(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                        self.pauses = false;
                        return self.tree(&object).map(Some);
                    }
                    Some(WatchEvent::Deleted(_)) => {
                        self.pauses = false;
                        return Ok(None);
                    }
                    Some(WatchEvent::Bookmark { .. }) => self.pauses = false,
                    // Its revision was compacted, or the server ended the watch: list again.
                    Some(WatchEvent::Error(_)) | None => self.events = None,
                }
                continue;
            }
            if std::mem::replace(&mut self.pauses, true) {
                tokio::time::sleep(PAUSE).await;
            }
            let (present, events) = begin(&self.client, &self.resource, &self.key).await?;
            self.events = Some(events);
            return present.map(|object| self.tree(&object)).transpose();
        }
    }

    /// The object; items of lists leave out their kind.
    fn tree(&self, object: &Object) -> Result<Value, client::Error> {
        let attempt = || format!("read {} {}", self.resource.plural, self.key);
        let decoded = object.to_value();
        let mut tree = decoded.map_err(|error| client::Error::Decode { attempt: attempt(), why: error.to_string() })?;
        if let Some(map) = tree.as_object_mut() {
            map.entry("apiVersion").or_insert_with(|| self.resource.api_version().into());
            map.entry("kind").or_insert_with(|| self.resource.kind.clone().into());
        }
        Ok(tree)
    }
}

/// The present state, and the watch from there on.
async fn begin(
    client: &Client,
    resource: &ApiResource,
    key: &ObjectKey,
) -> Result<(Option<Arc<Object>>, WatchStream), client::Error> {
    let selector = Some(format!("metadata.name={}", key.name()));
    let list = ListOptions { field_selector: selector.clone(), ..ListOptions::default() };
    let mut found = client.list(resource, key.namespace(), &list).await?;
    let watch = WatchOptions {
        field_selector: selector,
        resource_version: Some(found.resource_version.to_string()),
        ..WatchOptions::default()
    };
    let events = client.watch(resource, key.namespace(), &watch).await?;
    Ok((found.items.pop(), events))
}
