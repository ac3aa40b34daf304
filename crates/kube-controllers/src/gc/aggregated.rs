//! Objects of aggregated API servers. The change stream of a server in this process does not have them: metadata
//! watches through the server update the graph.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::{ApiResource, Object};
use controller_runtime::Informer;
use parking_lot::Mutex;
use transport::Change;
use world::Level;

use super::Collector;
use super::follow::{REDISCOVERY, is_followed, place, watch_one};
use super::graph::Graph;
use crate::context::Context;

const API_SERVICES: &str = "apiregistration.k8s.io/apiservices";

/// Group and version.
type Version = (String, String);

#[derive(Clone, Debug, Default)]
struct Remote {
    /// The group versions of other servers, by the names of their APIServices.
    versions: BTreeMap<String, Version>,
    /// How often one of these APIServices changed.
    changes: u64,
}

impl Remote {
    /// Returns whether the APIService is, or was, that of another server.
    fn note(&mut self, change: &Change) -> bool {
        let Some(service) = change.current.as_ref().or(change.previous.as_ref()) else { return false };
        let was_known = self.versions.remove(service.name()).is_some();
        let version = change.current.as_ref().and_then(|service| version_elsewhere(service));
        let is_known = version.is_some();
        self.versions.extend(version.map(|version| (service.name().to_owned(), version)));
        self.changes += u64::from(was_known || is_known);
        was_known || is_known
    }
}

/// The group version of an APIService that another server serves.
fn version_elsewhere(service: &Object) -> Option<Version> {
    let value = service.to_value().ok()?;
    let text = |field: &str| value["spec"][field].as_str().unwrap_or_default().to_owned();
    value["spec"]["service"].is_object().then(|| (text("group"), text("version")))
}

#[derive(Default)]
pub(super) struct Aggregated {
    remote: Level<Remote>,
    informers: Mutex<BTreeMap<Arc<str>, Informer>>,
}

impl Aggregated {
    /// Replaces what is known about APIServices by the current state.
    pub fn begin(&self, initial: &[Change]) {
        self.remote.change(|remote| {
            remote.versions.clear();
            initial.iter().filter(|change| &*change.resource == API_SERVICES).for_each(|change| {
                remote.note(change);
            });
            remote.changes += 1;
            true
        });
    }

    pub fn note(&self, change: &Change) {
        if &*change.resource == API_SERVICES {
            self.remote.change(|remote| remote.note(change));
        }
    }

    /// The watched resources.
    pub fn resources(&self) -> Vec<ApiResource> {
        self.informers.lock().values().map(|informer| informer.resource().clone()).collect()
    }

    /// Adds the observed objects to a new graph.
    pub fn put_all(&self, graph: &Mutex<Graph>) {
        let informers = self.informers.lock().clone();
        for (place, informer) in informers {
            // Read under the lock: a later event is applied after this state.
            let mut graph = graph.lock();
            informer.cache().list(None).iter().for_each(|object| {
                graph.put(&place, object);
            });
        }
    }

    pub fn stop(&self) {
        std::mem::take(&mut *self.informers.lock()).values().for_each(Informer::stop);
    }
}

/// Watches the resources of aggregated servers, as long as these are registered.
pub(super) async fn follow(context: &Context, collector: &Arc<Collector>) {
    let mut seen = 0;
    loop {
        let changed = collector.aggregated.remote.wait_for(|now| now.changes > seen);
        let changed = tokio::time::timeout(REDISCOVERY, changed).await;
        let remote = collector.aggregated.remote.get();
        if changed.is_err() && remote.versions.is_empty() {
            continue;
        }
        match match_informers(context, collector, &remote).await {
            Ok(()) => seen = remote.changes,
            Err(error) => {
                tracing::debug!(err = %error, "Garbage collector cannot discover aggregated resources");
                tokio::time::sleep(REDISCOVERY).await;
            }
        }
    }
}

/// Resources of a registered server whose discovery failed are kept.
async fn match_informers(context: &Context, collector: &Arc<Collector>, remote: &Remote) -> client::Result<()> {
    let informers = &collector.aggregated.informers;
    if remote.versions.is_empty() && informers.lock().is_empty() {
        return Ok(());
    }
    let discovery = context.mapper.refresh().await?;
    let is_remote = |resource: &ApiResource| {
        remote.versions.values().any(|(group, version)| *group == resource.group && *version == resource.version)
    };
    let mut found = discovery.preferred();
    found.retain(|found| is_followed(found) && is_remote(&found.resource));
    informers.lock().retain(|_, informer| {
        let resource = informer.resource();
        let is_served = !discovery.failed.is_empty() || found.iter().any(|found| found.resource == *resource);
        let is_kept = is_served && is_remote(resource);
        if !is_kept {
            informer.stop();
        }
        is_kept
    });
    let is_new = |place: &Arc<str>| !informers.lock().contains_key(place);
    let found = found.into_iter().map(|found| (place(&found.resource), &found.resource));
    for (place, resource) in found.filter(|(place, _)| is_new(place)) {
        // Started outside the lock: its first events are handled at once.
        let informer = watch_one(context, collector, resource);
        informers.lock().insert(place, informer);
    }
    Ok(())
}
