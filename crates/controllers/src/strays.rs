//! Works that were asked for when their binding did not want them any more. A Work that is created stands in the cache a
//! moment later; a binding that changes or goes in between is looked at without it, and again when it is there.

use std::collections::{BTreeSet, HashMap};

use apimachinery::{Object, ObjectKey};
use parking_lot::Mutex;

/// What a Work was created for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub binding: ObjectKey,
    /// The binding's permanent id.
    pub id: String,
    pub generation: i64,
}

#[derive(Default)]
pub(crate) struct Strays {
    /// By Work, until the cache has it: as many as there are creations under way, and those that never came to be.
    created: Mutex<HashMap<ObjectKey, Origin>>,
    /// By binding, the Works of bindings that have changed since, with the ids these were created for.
    found: Mutex<HashMap<ObjectKey, BTreeSet<(ObjectKey, String)>>>,
}

impl Strays {
    /// Before a Work is created.
    pub(crate) fn creating(&self, work: ObjectKey, origin: Origin) {
        self.created.lock().insert(work, origin);
    }

    /// When the cache has a Work: the binding to be looked at again, if it is not as it was when it asked for the Work.
    /// `binding` reads the cache.
    pub(crate) fn arrived(
        &self,
        work: &ObjectKey,
        binding: impl FnOnce(&ObjectKey) -> Option<std::sync::Arc<Object>>,
    ) -> Option<ObjectKey> {
        let origin = self.created.lock().remove(work)?;
        let now = binding(&origin.binding);
        if now.is_some_and(|now| !now.is_deleting() && now.generation() == origin.generation) {
            return None;
        }
        self.found.lock().entry(origin.binding.clone()).or_default().insert((work.clone(), origin.id));
        Some(origin.binding)
    }

    /// The Works of a binding that is not there, each with the id it was created for. They stay known until
    /// [`Strays::forget`].
    pub(crate) fn of(&self, binding: &ObjectKey) -> Vec<(ObjectKey, String)> {
        self.found.lock().get(binding).into_iter().flatten().cloned().collect()
    }

    pub(crate) fn forget(&self, binding: &ObjectKey) {
        self.found.lock().remove(binding);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_work_that_comes_too_late_is_a_stray() {
        let binding = ObjectKey::namespaced("ns", "b");
        let object = |metadata: &str| {
            let text = format!(r#"{{"metadata":{{"name":"b","namespace":"ns","generation":{metadata}}}}}"#);
            Some(Arc::new(Object::parse(text).expect("a document")))
        };
        for (now, stray) in [
            (object("3"), false),
            (object("4"), true),
            (object(r#"3,"deletionTimestamp":"2026-01-01T00:00:00Z""#), true),
            (None, true),
        ] {
            let (strays, work) = (Strays::default(), ObjectKey::namespaced("karmada-es-m1", "w"));
            let origin = Origin { binding: binding.clone(), id: "id".to_owned(), generation: 3 };
            strays.creating(work.clone(), origin);
            assert_eq!(strays.arrived(&work, |_| now), stray.then(|| binding.clone()));
            assert_eq!(strays.of(&binding).len(), usize::from(stray));
            assert_eq!(strays.arrived(&work, |_| None), None, "once");
            strays.forget(&binding);
            assert!(strays.of(&binding).is_empty());
        }
    }
}
