//! Room for evictions by taints: at a fixed rate, or as fast as the clusters that receive the workloads report healthy
//! copies.

use std::collections::BTreeSet;
use std::time::Duration;

use apimachinery::{Object, raw_json};
use controller_runtime::Event;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::evictions;
use karmada_api::identity::BindingKey;
use karmada_api::scope::Binding;
use parking_lot::Mutex;
use propagation::failover::pace::Window;
use propagation::failover::{by_taint, graceful};
use serde::Deserialize;
use tokio::sync::Notify;

use super::is_ready;
use crate::Context;

/// The pause with a rate of 0 (upstream's).
const LONGEST_PAUSE: Duration = Duration::from_secs(30 * 60);

/// The moves in progress: bindings with an eviction task of the taint manager.
#[derive(Default)]
pub(super) struct Pace {
    state: Mutex<State>,
    opened: Notify,
}

#[derive(Default)]
struct State {
    window: Window,
    moving: BTreeSet<BindingKey>,
}

/// The right to move a binding. It counts as moving from the start, so that no change of it is missed.
pub(super) struct Slot<'a> {
    pace: &'a Pace,
    binding: &'a BindingKey,
    /// Whether the binding stops moving when the slot is released.
    is_new: bool,
}

impl Slot<'_> {
    /// The binding has left its cluster.
    pub(super) fn used(mut self) {
        self.is_new = false;
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        if self.is_new {
            self.pace.state.lock().moving.remove(self.binding);
        }
        self.pace.opened.notify_one();
    }
}

impl Pace {
    /// Waits until the binding may move. One that is moving already needs no more room.
    pub(super) async fn slot<'a>(&'a self, binding: &'a BindingKey) -> Slot<'a> {
        loop {
            {
                let mut state = self.state.lock();
                if state.moving.contains(binding) {
                    return Slot { pace: self, binding, is_new: false };
                }
                if state.window.allows(state.moving.len()) {
                    state.moving.insert(binding.clone());
                    if state.window.allows(state.moving.len()) {
                        self.opened.notify_one();
                    }
                    return Slot { pace: self, binding, is_new: true };
                }
            }
            self.opened.notified().await;
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.state.lock().moving.is_empty()
    }

    /// Follows the moves of a binding; this includes evictions by other controllers and from before a restart.
    pub(super) fn follow(&self, context: &Context, event: &Event) {
        let key = BindingKey::of(event.object());
        let is_moving = !matches!(event, Event::Deleted(_)) && is_moving(event.object());
        let mut state = self.state.lock();
        if is_moving {
            state.moving.insert(key);
        } else if state.moving.remove(&key) {
            let left = state.moving.len();
            // The newest version has another generation: its status is of the version before.
            let before = match event {
                Event::Updated { old, .. } => Binding::decode(old).ok(),
                _ => None,
            };
            let is_replaced =
                before.is_some_and(|it| graceful::is_replaced(&it, &|cluster| is_ready(context, cluster)));
            state.window.ended(is_replaced, left);
            drop(state);
            self.opened.notify_one();
        }
    }
}

/// Whether a binding has a task of the taint manager that is to end; the rest of it is not decoded.
fn is_moving(binding: &Object) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Task {
        #[serde(default)]
        producer: String,
        #[serde(default)]
        suppress_deletion: Option<bool>,
    }
    let Some(spec) = binding.member("spec") else { return false };
    let Some(tasks) = raw_json::member(&spec, "gracefulEvictionTasks") else { return false };
    let tasks: Vec<Task> = serde_json::from_slice(&spec[tasks]).unwrap_or_default();
    tasks.iter().any(|task| task.producer == evictions::BY_TAINT_MANAGER && task.suppress_deletion != Some(true))
}

/// Whether any cluster can receive the workloads of `from`.
pub(super) fn has_receiver(context: &Context, from: &str) -> bool {
    context.clusters.all().iter().any(|cluster| cluster.metadata.name != from && is_receiver(cluster))
}

pub(super) fn is_receiver(cluster: &Cluster) -> bool {
    cluster.is_ready()
        && cluster.metadata.deletion_timestamp.is_none()
        && by_taint::evicting(&cluster.spec.taints).next().is_none()
}

/// The pause of a worker after an eviction.
pub(super) fn pause(rate: f64) -> Duration {
    if rate > 0.0 { Duration::try_from_secs_f64(1.0 / rate).unwrap_or(LONGEST_PAUSE) } else { LONGEST_PAUSE }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pauses() {
        for (rate, seconds) in [(0.5, 2.0), (4.0, 0.25), (0.0, 1800.0), (-1.0, 1800.0), (1e-300, 1800.0)] {
            assert!((pause(rate).as_secs_f64() - seconds).abs() < 1e-9, "{rate}");
        }
    }

    #[test]
    fn evictions_in_progress_are_detected() {
        let task = |producer: &str, suppress: Option<bool>| json!([{"fromCluster": "m1", "producer": producer, "suppressDeletion": suppress}]);
        for (spec, expected) in [
            (json!({}), false),
            (json!({"gracefulEvictionTasks": null}), false),
            (json!({"gracefulEvictionTasks": task("TaintManager", None)}), true),
            (json!({"gracefulEvictionTasks": task("TaintManager", Some(false))}), true),
            // It stays until a person decides.
            (json!({"gracefulEvictionTasks": task("TaintManager", Some(true))}), false),
            (json!({"gracefulEvictionTasks": task("another", None)}), false),
            (json!({"gracefulEvictionTasks": [{"fromCluster": "m1"}]}), false),
        ] {
            let object = Object::from_value(&json!({"metadata": {"name": "a"}, "spec": spec})).unwrap();
            assert_eq!(is_moving(&object), expected, "{spec}");
        }
    }
}
