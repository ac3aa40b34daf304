//! Committed objects, handed from their writers to the cache, so that both share one.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::{Object, ObjectKey};
use parking_lot::Mutex;
use storage::Revision;

/// Objects of one resource whose revisions the cache has not taken in yet. Writers wait for the store together, so there are
/// at most as many as writes in flight.
#[derive(Default)]
pub(super) struct Committed(Mutex<BTreeMap<Revision, Arc<Object>>>);

impl Committed {
    pub fn offer(&self, revision: Revision, object: Arc<Object>) {
        self.0.lock().insert(revision, object);
    }

    /// The object of a change. One transaction may change several objects of a resource, and only one of them is offered.
    pub fn take(&self, key: &ObjectKey, revision: Revision) -> Option<Arc<Object>> {
        let object = self.0.lock().remove(&revision)?;
        (object.name() == key.name() && object.namespace() == key.namespace()).then_some(object)
    }

    /// Drops objects that no change will take any more.
    pub fn forget(&self, until: Revision) {
        let mut objects = self.0.lock();
        while objects.first_key_value().is_some_and(|(revision, _)| *revision <= until) {
            objects.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_takes_its_object_and_drops_older_ones() {
        let committed = Committed::default();
        let object = |name: &str| {
            Object::parse(format!(r#"{{"metadata":{{"name":"{name}","namespace":"n"}}}}"#)).expect("an object").shared()
        };
        let key = |name: &str| ObjectKey::namespaced("n", name);
        for (revision, name) in [(2, "a"), (3, "b"), (5, "a"), (7, "c")] {
            committed.offer(revision, object(name));
        }
        let taken = |name: &str, revision| committed.take(&key(name), revision).map(|object| object.name().to_owned());
        assert_eq!(taken("a", 2).as_deref(), Some("a"));
        assert_eq!(taken("a", 2), None, "once");
        assert_eq!(taken("other", 3), None, "another object of the same transaction");
        assert_eq!(committed.take(&ObjectKey::namespaced("m", "a"), 5).map(|object| object.key()), None);
        committed.offer(5, object("a"));
        committed.forget(6);
        assert_eq!((taken("a", 5), taken("c", 7).as_deref()), (None, Some("c")));
        assert!(committed.0.lock().is_empty());
    }
}
