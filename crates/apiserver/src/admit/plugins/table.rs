//! The objects of one resource as the store has them, decoded once, for plugins that decide by them.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::{ObjectKey, Status};
use parking_lot::RwLock;
use serde_json::Value;

use crate::admit::AdmissionRequest;
use crate::cache::Event;
use crate::cache::keys;

pub(super) struct Table {
    place: String,
    objects: RwLock<BTreeMap<ObjectKey, Arc<Value>>>,
}

impl Table {
    pub(super) fn of(group: &str, plural: &str) -> Self {
        Self { place: keys::group_resource(group, plural), objects: RwLock::default() }
    }

    pub(super) fn observe(&self, place: &str, event: &Event) {
        if place != self.place {
            return;
        }
        match (&event.current, &event.previous) {
            (Some(object), _) => {
                if let Ok(tree) = object.to_value() {
                    self.objects.write().insert(object.key(), Arc::new(tree));
                }
            }
            (None, Some(object)) => drop(self.objects.write().remove(&object.key())),
            (None, None) => {}
        }
    }

    /// Fails if the table lacks an object of the namespace, because its stored value cannot be read.
    pub(super) fn check(&self, request: &AdmissionRequest<'_>, namespace: Option<&str>) -> Result<(), Status> {
        request.all_known(&self.place, namespace)
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<Value>> {
        self.objects.read().get(key).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<Value>> {
        self.objects.read().values().cloned().collect()
    }

    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<Arc<Value>> {
        let objects = self.objects.read();
        let from = objects.range(ObjectKey::namespaced(namespace, "")..);
        from.take_while(|(key, _)| key.namespace() == Some(namespace)).map(|(_, object)| Arc::clone(object)).collect()
    }
}
