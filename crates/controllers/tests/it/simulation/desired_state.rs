//! Records since when each binding requires a copy in each cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use client::{Client, WatchOptions};
use futures::StreamExt;
use karmada_api::scope::{Binding, Scope};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;
use transport::WatchEvent;

use super::read::{leaving, name, targets};

/// By binding and cluster; binding names are unique over both scopes, because they end with the kind.
type Since = BTreeMap<(String, String), Instant>;

/// A deletion may be sent while the binding does not require the copy, and arrive when it does again: a controller
/// deletes up to four Works one after the other, each up to 60 ms in flight.
const IN_FLIGHT: Duration = Duration::from_millis(250);

/// Cheap to clone.
#[derive(Clone, Default)]
pub struct DesiredState(Arc<Mutex<Since>>);

impl DesiredState {
    /// Processes every version of every binding of a server, until it shuts down.
    pub fn follow(&self, client: &Client) {
        for scope in Scope::ALL {
            let (desired_state, client) = (self.clone(), client.clone());
            tokio::spawn(async move {
                let events = client.watch(&Binding::api_resource(scope), None, &WatchOptions::default()).await;
                let mut events = events.expect("a watch of the bindings");
                while let Some(event) = events.next().await {
                    match event {
                        WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                            desired_state.see(&object.to_value().expect("an object"), true);
                        }
                        WatchEvent::Deleted(object) => desired_state.see(&object.to_value().expect("an object"), false),
                        WatchEvent::Bookmark { .. } | WatchEvent::Error(_) => {}
                    }
                }
            });
        }
    }

    fn see(&self, binding: &Value, exists: bool) {
        let desired = |cluster: &str| exists && is_desired(binding, cluster);
        let mut since = self.0.lock();
        since.retain(|(of, cluster), _| of != name(binding) || desired(cluster));
        let leaving = leaving(binding).map(str::to_owned);
        for cluster in targets(binding).into_keys().chain(leaving).filter(|cluster| desired(cluster)) {
            since.entry((name(binding).to_owned(), cluster)).or_insert_with(Instant::now);
        }
    }

    /// Whether a binding has required a copy in a cluster for longer than a deletion is in flight.
    pub fn for_long(&self, binding: &Value, cluster: &str) -> bool {
        let key = (name(binding).to_owned(), cluster.to_owned());
        is_desired(binding, cluster) && self.0.lock().get(&key).is_some_and(|since| since.elapsed() > IN_FLIGHT)
    }
}

/// A copy that is being evicted is required until the eviction ends.
fn is_desired(binding: &Value, cluster: &str) -> bool {
    targets(binding).contains_key(cluster) || leaving(binding).any(|it| it == cluster)
}
