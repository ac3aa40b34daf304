//! Clusters whose Work cannot be rendered from its binding, and why: the binding controller finds it out, the status of
//! the binding shows it. Lost on restart, and found out again by the first pass over each binding.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use controller_runtime::WorkQueue;
use karmada_api::identity::{BindingKey, ClusterName};
use parking_lot::Mutex;

/// By cluster.
pub(crate) type Failures = BTreeMap<ClusterName, String>;

#[derive(Default)]
pub(crate) struct Unrendered {
    state: Mutex<State>,
    /// Bindings whose status is to be written, where that is done in this process.
    reporting: OnceLock<Arc<WorkQueue<BindingKey>>>,
}

/// No more entries than bindings that fail.
#[derive(Default)]
struct State {
    failures: HashMap<BindingKey, Failures>,
    /// Not fully applied when this process started, and not rendered since: whether that is because of a failure is not
    /// known yet.
    unchecked: HashSet<BindingKey>,
}

impl Unrendered {
    pub(crate) fn report_to(&self, queue: Arc<WorkQueue<BindingKey>>) {
        // There is one such controller in the process.
        let _ = self.reporting.set(queue);
    }

    pub(crate) fn expect(&self, binding: BindingKey) {
        self.state.lock().unchecked.insert(binding);
    }

    /// The failures of a binding; `None` while they are unknown.
    pub(crate) fn of(&self, binding: &BindingKey) -> Option<Failures> {
        let state = self.state.lock();
        (!state.unchecked.contains(binding)).then(|| state.failures.get(binding).cloned().unwrap_or_default())
    }

    /// Records the failures of the last pass over a binding.
    pub(crate) fn note(&self, binding: &BindingKey, failures: Failures) {
        let mut state = self.state.lock();
        let awaited = state.unchecked.remove(binding);
        let changed = if failures.is_empty() {
            state.failures.remove(binding).is_some()
        } else {
            state.failures.get(binding) != Some(&failures) && {
                state.failures.insert(binding.clone(), failures);
                true
            }
        };
        drop(state);
        if let Some(queue) = self.reporting.get().filter(|_| awaited || changed) {
            queue.add(binding.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_written_when_failures_change() {
        let unrendered = Unrendered::default();
        let queue = Arc::new(WorkQueue::new());
        unrendered.report_to(queue.clone());
        let key = BindingKey::namespaced("ns", "b");
        let failed = |why: &str| Failures::from([(ClusterName::from("m1"), why.to_owned())]);
        for (failures, adds) in
            [(Failures::new(), 0), (failed("a"), 1), (failed("a"), 1), (failed("b"), 2), (Failures::new(), 3)]
        {
            unrendered.note(&key, failures.clone());
            assert_eq!(unrendered.of(&key), Some(failures));
            let queued = queue.metrics().adds;
            assert_eq!(queued, adds);
        }
        unrendered.expect(key.clone());
        assert_eq!(unrendered.of(&key), None);
        unrendered.note(&key, Failures::new());
        assert_eq!((unrendered.of(&key), queue.metrics().adds), (Some(Failures::new()), 4));
    }
}
