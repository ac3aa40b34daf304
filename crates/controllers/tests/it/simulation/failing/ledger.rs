//! Tracks evictions from start to end.

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

use super::members::Fleet;
use crate::simulation::read::{is_present, text};

/// `--graceful-eviction-timeout`
const GRACE: Duration = Duration::from_secs(600);

/// A copy that must be kept until it is replaced.
struct Eviction {
    since: Instant,
    grace: Duration,
    /// Replicas that were actually ready, over all members.
    ready: i64,
}

#[derive(Default)]
struct State {
    /// By workload and cluster.
    evictions: BTreeMap<(String, String), Eviction>,
    broken: Vec<String>,
    begun: usize,
    replaced: usize,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Ledger {
    fleet: Fleet,
    state: Arc<Mutex<State>>,
}

impl Ledger {
    pub fn new(fleet: Fleet) -> Self {
        Self { fleet, state: Arc::default() }
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().broken)
    }

    /// The number of graceful evictions that started, and of those that ended with a replacement.
    pub fn counts(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.begun, state.replaced)
    }

    /// Processes every version of every binding.
    pub async fn follow(self, client: Client) {
        let resource = Binding::api_resource(Scope::Namespaced);
        let events = client.watch(&resource, Some("demo"), &WatchOptions::default()).await;
        let mut events = events.expect("a watch of the bindings");
        while let Some(event) = events.next().await {
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    self.see(&object.to_value().expect("an object"), false);
                }
                WatchEvent::Deleted(object) => self.see(&object.to_value().expect("an object"), true),
                WatchEvent::Bookmark { .. } | WatchEvent::Error(_) => {}
            }
        }
    }

    fn see(&self, binding: &Value, deleted: bool) {
        let workload = text(binding, "/spec/resource/name");
        let mut state = self.state.lock();
        if deleted || !is_present(binding) {
            state.evictions.retain(|(of, _), _| of != workload);
            return;
        }
        let tasks = binding["spec"]["gracefulEvictionTasks"].as_array().into_iter().flatten();
        let tasks: BTreeMap<&str, &Value> = tasks.map(|task| (text(task, "/fromCluster"), task)).collect();
        let known: Vec<String> =
            state.evictions.keys().filter(|(of, _)| of == workload).map(|(_, cluster)| cluster.clone()).collect();
        for cluster in known.iter().filter(|cluster| !tasks.contains_key(cluster.as_str())) {
            let ended = state.evictions.remove(&(workload.to_owned(), cluster.clone()));
            let Some(eviction) = ended.filter(|it| it.since.elapsed() < it.grace) else { continue };
            state.replaced += 1;
            let needed = eviction.ready.min(binding["spec"]["replicas"].as_i64().unwrap_or_default());
            let have = self.fleet.reported_beside(workload, cluster);
            if have < needed {
                let (after, before) = (eviction.since.elapsed(), eviction.ready);
                let clusters = &binding["spec"]["clusters"];
                state.broken.push(format!(
                    "the eviction of {workload} from {cluster} ended after {after:?} with {have} ready replicas elsewhere; {before} \
                     were ready before, and its targets are {clusters}"
                ));
            }
        }
        for (cluster, task) in tasks.into_iter().filter(|(_, task)| task["purgeMode"] != "Directly") {
            let key = (workload.to_owned(), cluster.to_owned());
            if !state.evictions.contains_key(&key) {
                let grace = task["gracePeriodSeconds"].as_u64().map_or(GRACE, Duration::from_secs);
                let ready = self.fleet.ready(workload);
                state.begun += 1;
                state.evictions.insert(key, Eviction { since: Instant::now(), grace, ready });
            }
        }
    }
}
