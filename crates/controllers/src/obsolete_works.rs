//! Obsolete Works: those created for a binding that no longer requires them. The cache receives a created Work with a delay; a binding
//! that changes or is deleted meanwhile is reconciled without it, and again when the cache has it.

use std::collections::{BTreeSet, HashMap};

use apimachinery::Object;
use karmada_api::identity::{BindingKey, WorkKey};
use parking_lot::Mutex;

/// The binding that a Work was created for, and its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub binding: BindingKey,
    /// The binding's permanent id.
    pub id: String,
    pub generation: i64,
}

/// How far a creation is.
#[derive(Debug, PartialEq, Eq)]
enum Stage {
    /// A Work of the same name that the cache has meanwhile is of another process.
    Sent,
    /// With the UID of the Work.
    Created(String),
    /// It failed; the server may have executed it.
    Unsure,
}

#[derive(Default)]
pub(crate) struct ObsoleteWorks {
    /// By Work, until the cache has it: at most one for each creation in flight, and those that failed.
    created: Mutex<HashMap<WorkKey, (Origin, Stage)>>,
    /// By binding, the Works of bindings that have changed since, with the ids these were created for.
    found: Mutex<HashMap<BindingKey, BTreeSet<(WorkKey, String)>>>,
}

impl ObsoleteWorks {
    /// Before a Work is created.
    pub(crate) fn creating(&self, work: WorkKey, origin: Origin) {
        self.created.lock().insert(work, (origin, Stage::Sent));
    }

    /// After it: with the UID of the Work, if the server answered.
    pub(crate) fn created(&self, work: &WorkKey, uid: Option<&str>) {
        if let Some((_, stage)) = self.created.lock().get_mut(work) {
            *stage = uid.map_or(Stage::Unsure, |uid| Stage::Created(uid.to_owned()));
        }
    }

    /// When the cache shows a Work: the binding to reconcile again, if it changed since it created the Work.
    /// `binding` reads the cache.
    pub(crate) fn arrived(
        &self,
        work: &Object,
        binding: impl FnOnce(&BindingKey) -> Option<std::sync::Arc<Object>>,
    ) -> Option<BindingKey> {
        let (uid, work) = (work.uid(), work.key());
        let origin = {
            let mut created = self.created.lock();
            let is_it = match created.get(&work)? {
                (_, Stage::Sent) => false,
                (_, Stage::Created(known)) => known == uid,
                (_, Stage::Unsure) => true,
            };
            if !is_it {
                return None;
            }
            created.remove_entry(&work)
        };
        let (work, (origin, _)) = origin?;
        let now = binding(&origin.binding);
        if now.is_some_and(|now| !now.is_deleting() && now.generation() == origin.generation) {
            return None;
        }
        self.found.lock().entry(origin.binding.clone()).or_default().insert((work, origin.id));
        Some(origin.binding)
    }

    /// The Works of a binding that is not there, each with the id it was created for. They stay known until
    /// [`ObsoleteWorks::forget`].
    pub(crate) fn of(&self, binding: &BindingKey) -> Vec<(WorkKey, String)> {
        self.found.lock().get(binding).into_iter().flatten().cloned().collect()
    }

    pub(crate) fn forget(&self, binding: &BindingKey) {
        self.found.lock().remove(binding);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_late_work_is_orphaned() {
        let binding = BindingKey::namespaced("ns", "b");
        let object = |metadata: &str| {
            let text = format!(r#"{{"metadata":{{"name":"b","namespace":"ns","generation":{metadata}}}}}"#);
            Some(Arc::new(Object::parse(text).expect("a document")))
        };
        for (now, is_obsolete) in [
            (object("3"), false),
            (object("4"), true),
            (object(r#"3,"deletionTimestamp":"2026-01-01T00:00:00Z""#), true),
            (None, true),
        ] {
            let obsolete = ObsoleteWorks::default();
            let work = |uid: &str| {
                let text = format!(r#"{{"metadata":{{"name":"w","namespace":"karmada-es-m1","uid":"{uid}"}}}}"#);
                Object::parse(text).expect("a document")
            };
            let origin = Origin { binding: binding.clone(), id: "id".to_owned(), generation: 3 };
            let key = WorkKey::of(&work("ours")).expect("a work");
            obsolete.creating(key.clone(), origin);
            assert_eq!(obsolete.arrived(&work("of another process"), |_| None), None);
            obsolete.created(&key, Some("ours"));
            assert_eq!(obsolete.arrived(&work("of another process"), |_| None), None);
            assert_eq!(obsolete.arrived(&work("ours"), |_| now), is_obsolete.then(|| binding.clone()));
            assert_eq!(obsolete.of(&binding).len(), usize::from(is_obsolete));
            assert_eq!(obsolete.arrived(&work("ours"), |_| None), None, "once");
            obsolete.forget(&binding);
            assert!(obsolete.of(&binding).is_empty());
        }
    }

    #[test]
    fn a_work_may_appear_after_a_failed_creation() {
        let (obsolete, binding) = (ObsoleteWorks::default(), BindingKey::namespaced("ns", "b"));
        let text = r#"{"metadata":{"name":"w","namespace":"karmada-es-m1","uid":"u"}}"#;
        let work = Object::parse(text.to_owned()).expect("a document");
        let key = WorkKey::of(&work).expect("a work");
        obsolete.creating(key.clone(), Origin { binding: binding.clone(), id: "id".to_owned(), generation: 3 });
        obsolete.created(&key, None);
        assert_eq!(obsolete.arrived(&work, |_| None), Some(binding));
    }
}
