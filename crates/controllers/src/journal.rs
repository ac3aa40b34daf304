//! Log lines about clusters, Works and evictions at the default level: each change is logged once, in spite of repeated
//! passes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use apimachinery::Object;
use apimachinery::meta::Time;
use controller_runtime::{Event, Failures, Next};
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::conditions;
use karmada_api::identity::{BindingKey, ClusterName, WorkKey};
use karmada_api::scope::{Binding, Scope};
use parking_lot::Mutex;

use crate::error::Result;
use crate::stores::Store;
use crate::{Context, templates};

/// A Work that has failed for this long is worth a line: its namespace, or the definition of its kind, often follows it
/// within a moment.
const PATIENCE: Duration = Duration::from_secs(1);

/// Bindings under eviction remembered at once: some 200 bytes each with their clusters, so 2 MiB.
const EVICTING: usize = 10_000;

/// The logged state, as far as later lines depend on it.
pub(crate) struct Journal {
    works: Failures<WorkKey>,
    evictions: Failures<(BindingKey, ClusterName)>,
    evicting: Mutex<BTreeMap<BindingKey, BTreeSet<ClusterName>>>,
    /// How many bindings that is, so that the others take no lock.
    evicted: AtomicUsize,
}

impl Default for Journal {
    fn default() -> Self {
        Self {
            works: Failures::lasting(PATIENCE),
            evictions: Failures::lasting(Duration::ZERO),
            evicting: Mutex::default(),
            evicted: AtomicUsize::new(0),
        }
    }
}

impl Journal {
    /// After a pass over a Work.
    pub(crate) fn work(&self, context: &Context, key: &WorkKey, outcome: &Result<Next>) {
        let name = key.cluster();
        match outcome {
            Ok(_) => {
                // A pass that waits for its cluster has not tried anything.
                let is_ready = || context.clusters.get(name).is_some_and(|it| it.is_ready());
                if self.works.is_quiet() || !is_ready() {
                    return;
                }
                if let Some(lasted) = self.works.succeeded(key) {
                    let binding = context.works.cache().get(key).and_then(|work| binding_of(&work));
                    tracing::info!(cluster = name, work = %key, binding, duration = ?lasted, "Work is applied after failures");
                }
            }
            Err(error) => {
                // That the member does not answer is logged once, not for each of its Works.
                let is_lost = context.members.connected(name).is_some_and(|member| member.is_lost());
                let err = error.to_string();
                if is_lost || !self.works.failed(key, &err) {
                    return tracing::debug!(cluster = name, work = %key, err, "Work failed");
                }
                let work = context.works.cache().get(key);
                let binding = work.as_deref().and_then(binding_of);
                if work.is_some_and(|work| work.is_deleting()) {
                    tracing::warn!(cluster = name, work = %key, binding, err, "Work cannot be removed from the cluster; retrying");
                } else {
                    tracing::warn!(cluster = name, work = %key, binding, err, "Work cannot be applied; retrying");
                }
            }
        }
    }

    pub(crate) fn forget_work(&self, key: &WorkKey) {
        self.works.forget(key);
    }

    /// The eviction tasks of a binding as they are now.
    pub(crate) fn binding(&self, binding: &Binding) {
        let tasks = &binding.spec.graceful_eviction_tasks;
        if tasks.is_empty() && self.evicted.load(Ordering::Relaxed) == 0 {
            return;
        }
        let (key, mut evicting) = (binding.key(), self.evicting.lock());
        let now: BTreeSet<ClusterName> = tasks.iter().map(|task| ClusterName::from(&task.from_cluster)).collect();
        let before = evicting.remove(&key).unwrap_or_default();
        for cluster in before.difference(&now) {
            if let Some(lasted) = self.evictions.succeeded(&(key.clone(), cluster.clone())) {
                tracing::info!(binding = %key, cluster = &**cluster, duration = ?lasted, "Eviction finished");
            }
        }
        for task in tasks {
            let (cluster, reason) = (&task.from_cluster, &task.reason);
            if self.evictions.failed(&(key.clone(), ClusterName::from(cluster)), "") {
                tracing::info!(binding = %key, cluster, reason, producer = task.producer, "Eviction started");
            }
        }
        if !now.is_empty() && evicting.len() < EVICTING {
            evicting.insert(key, now);
        }
        self.evicted.store(evicting.len(), Ordering::Relaxed);
    }

    pub(crate) fn forget_binding(&self, key: &BindingKey) {
        if self.evicted.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut evicting = self.evicting.lock();
        for cluster in evicting.remove(key).unwrap_or_default() {
            self.evictions.forget(&(key.clone(), cluster));
        }
        self.evicted.store(evicting.len(), Ordering::Relaxed);
    }
}

fn binding_of(work: &Object) -> Option<String> {
    Scope::ALL.into_iter().find_map(|scope| templates::binding_of(work, scope)).map(|key| key.to_string())
}

/// Logs clusters that join, leave, and change their readiness. `clusters` follows the same informer, and was first.
pub(crate) fn clusters(clusters: Store<Cluster, ClusterName>) -> impl Fn(&Event) + Send + Sync + 'static {
    let known: Mutex<BTreeMap<ClusterName, Seen>> = Mutex::default();
    move |event| {
        let (object, mut known) = (event.object(), known.lock());
        let name = object.name();
        if let Event::Deleted(_) = event {
            known.remove(name);
            return tracing::info!(cluster = name, "Cluster was removed");
        }
        let Some(cluster) = clusters.get(name) else { return };
        let now = Seen::of(&cluster);
        let initial = matches!(event, Event::Added { initial: true, .. });
        for line in lines(known.get(name), &now, initial) {
            line.write(&cluster);
        }
        known.insert(ClusterName::from(name), now);
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Seen {
    ready: Option<Ready>,
    leaving: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Ready {
    status: String,
    reason: String,
    message: String,
    since: Option<Time>,
}

impl Seen {
    fn of(cluster: &Cluster) -> Self {
        let ready = cluster.condition(conditions::READY).map(|it| Ready {
            status: it.status.clone(),
            reason: it.reason.clone(),
            message: it.message.clone(),
            since: it.last_transition_time,
        });
        Self { ready, leaving: cluster.metadata.deletion_timestamp.is_some() }
    }
}

#[derive(Debug, PartialEq)]
enum Line {
    Joined,
    Leaving,
    /// From this status and time on.
    Turned {
        from: Option<String>,
        since: Option<Time>,
        now: Ready,
    },
}

/// The log lines for a cluster that was `before` and is `now`. Clusters of the initial list are logged only if they are
/// not ready.
fn lines(before: Option<&Seen>, now: &Seen, initial: bool) -> Vec<Line> {
    let mut lines = Vec::new();
    if before.is_none() && !initial {
        lines.push(Line::Joined);
    }
    let last = before.and_then(|before| before.ready.as_ref());
    if let Some(ready) = &now.ready {
        let is_same = last.is_some_and(|last| (&last.status, &last.reason) == (&ready.status, &ready.reason));
        let is_expected = initial && ready.status == "True";
        if !is_same && !is_expected {
            let (from, since) = (last.map(|it| it.status.clone()), last.and_then(|it| it.since));
            lines.push(Line::Turned { from, since, now: ready.clone() });
        }
    }
    if now.leaving && !before.is_some_and(|before| before.leaving) {
        lines.push(Line::Leaving);
    }
    lines
}

impl Line {
    fn write(self, cluster: &Cluster) {
        let name = cluster.metadata.name.as_str();
        match self {
            Self::Joined => {
                let (mode, endpoint) = (&cluster.spec.sync_mode, &cluster.spec.api_endpoint);
                tracing::info!(cluster = name, syncMode = ?mode, apiEndpoint = endpoint, "Cluster joined");
            }
            Self::Leaving => tracing::info!(cluster = name, "Cluster is being removed"),
            Self::Turned { from, since, now: Ready { status, reason, message, since: at } } => {
                let old = from.as_deref();
                if status == "True" {
                    let lasted = since.zip(at).map(|(since, at)| at.timestamp().duration_since(since.timestamp()));
                    let duration = lasted.and_then(|it| Duration::try_from(it).ok()).map(tracing::field::debug);
                    tracing::info!(cluster = name, old, new = status, reason, duration, "Cluster is ready");
                } else {
                    tracing::warn!(cluster = name, old, new = status, reason, err = message, "Cluster is not ready");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `True Reason`, with `leaving` behind it where the cluster is; `-` for a cluster without the condition.
    fn seen(text: &str) -> Seen {
        let words: Vec<&str> = text.split(' ').collect();
        let leaving = words.last() == Some(&"leaving");
        let ready = match words[..] {
            ["-", ..] => None,
            [status, reason, ..] => Some(Ready {
                status: status.to_owned(),
                reason: reason.to_owned(),
                message: "m".to_owned(),
                since: None,
            }),
            _ => None,
        };
        Seen { ready, leaving }
    }

    #[test]
    fn each_change_is_one_line() {
        for (before, now, initial, expected) in [
            (None, "-", false, "joined"),
            (None, "-", true, ""),
            (None, "True ClusterReady", true, ""),
            (None, "False ClusterNotReachable", true, "->False ClusterNotReachable"),
            (None, "True ClusterReady", false, "joined, ->True ClusterReady"),
            (Some("-"), "True ClusterReady", false, "->True ClusterReady"),
            (Some("True ClusterReady"), "True ClusterReady", false, ""),
            (Some("True ClusterReady"), "False ClusterNotReachable", false, "True->False ClusterNotReachable"),
            (Some("False ClusterNotReachable"), "False ClusterNotReady", false, "False->False ClusterNotReady"),
            (Some("True ClusterReady"), "Unknown ClusterStatusUnknown", false, "True->Unknown ClusterStatusUnknown"),
            (Some("True ClusterReady"), "True ClusterReady leaving", false, "leaving"),
            (Some("True ClusterReady leaving"), "True ClusterReady leaving", false, ""),
        ] {
            let found = lines(before.map(seen).as_ref(), &seen(now), initial).into_iter().map(|line| match line {
                Line::Joined => "joined".to_owned(),
                Line::Leaving => "leaving".to_owned(),
                Line::Turned { from, now, .. } => {
                    format!("{}->{} {}", from.unwrap_or_default(), now.status, now.reason)
                }
            });
            assert_eq!(found.collect::<Vec<_>>().join(", "), expected, "{before:?} {now}");
        }
    }
}
